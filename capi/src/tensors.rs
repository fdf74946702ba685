//! Functions on the tensors of a program, by name and method.

#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]

use crate::border::{self, Out, call};
use crate::fault::Fault;
use crate::handles;
use crate::kinds::{ag_role, ag_status, dtype_number, dtype_of};
use crate::owned::{MethodNames, OwnedProgram};
use crate::structs::{ag_program, ag_tensor};
use arenagrad::error::{Error, Kind};
use arenagrad::session::{Binding, Program, Role};
use std::ffi::{c_char, c_void};

/// The fault of a type or role of a tensor that C cannot name.
fn no_number(what: &dyn std::fmt::Display) -> Fault {
    Fault::usage(format!("a tensor is {what}, which has no number in C"))
}

/// What C is told of the tensor at `at` of a method.
fn described(program: &OwnedProgram, p: &Program, method: &MethodNames, at: usize) -> Result<ag_tensor, Fault> {
    let found = p.bindings_of(method.method)?.nth(at).zip(method.tensors.get(at));
    let Some((b, name)) = found else {
        let n = method.tensors.len();
        return Err(Fault::usage(format!("index is {at}; method {:?} has {n} tensors", method.name)));
    };
    let mut dims = [0; 8];
    dims.iter_mut().zip(b.dims.iter()).for_each(|(to, from)| *to = *from);
    program.keep_place();
    Ok(ag_tensor {
        data: p.bytes_of(b).as_ptr().cast_mut().cast::<c_void>(),
        bytes: b.bytes,
        dtype: dtype_number(b.dtype).ok_or_else(|| no_number(&b.dtype))?,
        role: ag_role::of(b.role).ok_or_else(|| no_number(&b.role.name()))?,
        rank: b.dims.len(),
        dims,
        name: name.as_ptr(),
    })
}

/// Fails unless a tensor is asked for as what it is: `n` bytes of this element type.
fn check(b: &Binding, dtype: u32, n: usize, done: &str) -> Result<(), Fault> {
    let dtype = dtype_of(dtype).ok_or_else(|| Fault::usage(format!("dtype is {dtype}, which is no ag_dtype")))?;
    let of = format!("{} {:?} is {}{}", b.role.name(), b.name, b.dtype, b.dims);
    if dtype != b.dtype {
        return Err(Error::new(Kind::Data, format!("{of}; it is {done} as {dtype}")).into());
    }
    if n != b.bytes {
        return Err(Error::new(Kind::Data, format!("{of}, which is {} bytes; {n} are {done}", b.bytes)).into());
    }
    Ok(())
}

fn binding(program: ag_program, method: Option<&str>, name: &str) -> Result<ag_tensor, Fault> {
    let program = handles::program(program.id)?;
    program.with(|p| {
        let method = program.method(p, method)?;
        let wanted = p.tensor_of(method.method, name)?;
        let at = p.bindings_of(method.method)?.position(|b| b.name == wanted.name && b.role == wanted.role);
        described(&program, p, method, at.unwrap_or(usize::MAX))
    })
}

/// Writes `bytes` bytes, which `data` gives once their number is known to be right.
fn write<'a>(
    program: ag_program,
    method: Option<&str>,
    name: &str,
    (dtype, bytes): (u32, usize),
    data: impl FnOnce() -> Result<&'a [u8], Fault>,
) -> Result<(), Fault> {
    let program = handles::program(program.id)?;
    program.with(|p| {
        let method = program.method(p, method)?.method;
        let leaves = |b: &&Binding| b.name == name && b.role != Role::Output;
        let data = match p.bindings_of(method)?.find(leaves) {
            Some(b) => {
                check(b, dtype, bytes, "written")?;
                data()?
            }
            // The library's error names those there are.
            None => &[],
        };
        Ok(p.write_bytes_of(method, name, data)?)
    })
}

/// Reads `bytes` bytes into the place that `to` gives once their number is known to be right.
fn read<'a>(
    program: ag_program,
    method: Option<&str>,
    name: &str,
    (dtype, bytes): (u32, usize),
    to: impl FnOnce() -> Result<&'a mut [u8], Fault>,
) -> Result<(), Fault> {
    let program = handles::program(program.id)?;
    program.with(|p| {
        let b = p.tensor_of(program.method(p, method)?.method, name)?;
        check(b, dtype, bytes, "read")?;
        to()?.copy_from_slice(p.bytes_of(b));
        Ok(())
    })
}

fn mark_written(program: ag_program, method: Option<&str>, name: &str) -> Result<(), Fault> {
    let program = handles::program(program.id)?;
    program.with(|p| {
        let method = program.method(p, method)?.method;
        Ok(p.mark_written_of(method, name)?)
    })
}

/// The number of tensors of a method (NULL: the first one): its inputs, params and states, then its outputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_binding_count(program: ag_program, method: *const c_char, count: *mut usize) -> ag_status {
    call("ag_binding_count", || {
        let out = Out::new("count", count)?;
        let method = border::text_or_null("method", method)?;
        let program = handles::program(program.id)?;
        out.put(program.with(|p| Ok(program.method(p, method)?.tensors.len()))?);
        Ok(())
    })
}

/// The tensor at `index` of a method (NULL: the first one), from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_binding_at(
    program: ag_program,
    method: *const c_char,
    index: usize,
    tensor: *mut ag_tensor,
) -> ag_status {
    call("ag_binding_at", || {
        let out = Out::new("tensor", tensor)?;
        let method = border::text_or_null("method", method)?;
        let program = handles::program(program.id)?;
        out.put(program.with(|p| described(&program, p, program.method(p, method)?, index))?);
        Ok(())
    })
}

/// The tensor of the first method called `name`: find it once, then read and write `data` before and after steps. Who
/// writes an input in this way calls `ag_mark_written` once.
///
/// Errors: AG_NAME if there is none; if an input, param or state has the name of an output, too, use `ag_binding_at`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_binding(program: ag_program, name: *const c_char, tensor: *mut ag_tensor) -> ag_status {
    call("ag_binding", || {
        let out = Out::new("tensor", tensor)?;
        out.put(binding(program, None, border::text("name", name)?)?);
        Ok(())
    })
}

/// As `ag_binding`, of a method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_binding_of(
    program: ag_program,
    method: *const c_char,
    name: *const c_char,
    tensor: *mut ag_tensor,
) -> ag_status {
    call("ag_binding_of", || {
        let out = Out::new("tensor", tensor)?;
        out.put(binding(program, Some(border::text("method", method)?), border::text("name", name)?)?);
        Ok(())
    })
}

/// Copies `bytes` bytes at `data`, which need not be aligned, into the input, param or state of the first method called
/// `name`. `dtype` is an ag_dtype.
///
/// Errors: AG_NAME if there is none; AG_DATA for another element type or size, or a bool that is neither 0 nor 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_write(
    program: ag_program,
    name: *const c_char,
    dtype: u32,
    data: *const c_void,
    bytes: usize,
) -> ag_status {
    call("ag_write", || {
        let name = border::text("name", name)?;
        write(program, None, name, (dtype, bytes), || border::slice("data", data.cast(), bytes))
    })
}

/// As `ag_write`, of a method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_write_of(
    program: ag_program,
    method: *const c_char,
    name: *const c_char,
    dtype: u32,
    data: *const c_void,
    bytes: usize,
) -> ag_status {
    call("ag_write_of", || {
        let (method, name) = (border::text("method", method)?, border::text("name", name)?);
        write(program, Some(method), name, (dtype, bytes), || border::slice("data", data.cast(), bytes))
    })
}

/// Copies a tensor of the first method, as the last step left it, to `data`, which need not be aligned. Errors as for
/// `ag_write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_read(
    program: ag_program,
    name: *const c_char,
    dtype: u32,
    data: *mut c_void,
    bytes: usize,
) -> ag_status {
    call("ag_read", || {
        let name = border::text("name", name)?;
        read(program, None, name, (dtype, bytes), || border::slice_mut("data", data.cast(), bytes))
    })
}

/// As `ag_read`, of a method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_read_of(
    program: ag_program,
    method: *const c_char,
    name: *const c_char,
    dtype: u32,
    data: *mut c_void,
    bytes: usize,
) -> ag_status {
    call("ag_read_of", || {
        let (method, name) = (border::text("method", method)?, border::text("name", name)?);
        read(program, Some(method), name, (dtype, bytes), || border::slice_mut("data", data.cast(), bytes))
    })
}

/// Tells the library that the input, param or state of the first method called `name` was written through `data` of
/// `ag_binding`; once is enough. Bytes of an AG_BOOL must be 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_mark_written(program: ag_program, name: *const c_char) -> ag_status {
    call("ag_mark_written", || mark_written(program, None, border::text("name", name)?))
}

/// As `ag_mark_written`, of a method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_mark_written_of(
    program: ag_program,
    method: *const c_char,
    name: *const c_char,
) -> ag_status {
    call("ag_mark_written_of", || {
        mark_written(program, Some(border::text("method", method)?), border::text("name", name)?)
    })
}
