//! The named tensors of a program, each found once.

use crate::error::call;
use crate::values::numpy_name;
use crate::views::{self, Form};
use arenagrad::error::Kind;
use arenagrad::graph::DType;
use arenagrad::session::{Binding, Handle, Method, Program, Role};
use half::{bf16, f16};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyString};

/// The error of a tensor that is `what`, which Python cannot reach.
fn no_array(b: &Binding, what: &str) -> arenagrad::Error {
    arenagrad::Error::new(Kind::Data, format!("{:?} is {what}, which has no array in Python", b.name))
}

/// A handle of any element type.
macro_rules! handles {
    ($($variant:ident($elem:ty) = $($dtype:ident)|+;)*) => {
        pub enum AnyHandle {
            $($variant(Handle<$elem>)),*
        }

        impl AnyHandle {
            fn find(p: &Program, method: Method, b: &Binding) -> arenagrad::Result<AnyHandle> {
                Ok(match b.dtype {
                    $($(DType::$dtype)|+ => AnyHandle::$variant(match b.role {
                        Role::Input => p.input_of::<$elem>(method, &b.name)?,
                        Role::Output => p.output_of::<$elem>(method, &b.name)?,
                        Role::Param => p.param::<$elem>(&b.name)?,
                        Role::State => p.state::<$elem>(&b.name)?,
                        other => return Err(no_array(b, other.name())),
                    })),*,
                    other => return Err(no_array(b, other.name())),
                })
            }

            /// The bytes, for writing: the tensor counts as written.
            fn bytes_mut<'p>(&self, p: &'p mut Program) -> arenagrad::Result<&'p mut [u8]> {
                match self {
                    $(AnyHandle::$variant(h) => Ok(bytemuck::cast_slice_mut(p.get_mut(*h)?))),*
                }
            }

            fn bytes<'p>(&self, p: &'p Program) -> arenagrad::Result<&'p [u8]> {
                match self {
                    $(AnyHandle::$variant(h) => Ok(bytemuck::cast_slice(p.get(*h)?))),*
                }
            }
        }
    };
}

handles! {
    F32(f32) = F32;
    F64(f64) = F64;
    F16(f16) = F16;
    BF16(bf16) = BF16;
    I8(i8) = I8;
    U8(u8) = U8 | Bool;
    I32(i32) = I32;
    I64(i64) = I64;
    U32(u32) = U32;
    I16(i16) = I16;
    U16(u16) = U16;
    U64(u64) = U64;
    C64([f32; 2]) = C64;
    C128([f64; 2]) = C128;
}

/// A named tensor.
pub struct Slot {
    /// The name, interned, so that a keyword is found by its address.
    pub key: Py<PyString>,
    pub name: String,
    pub role: Role,
    pub dtype: DType,
    pub dims: Vec<usize>,
    pub form: Form,
    /// Size in bytes.
    bytes: usize,
    handle: AnyHandle,
}

impl Slot {
    pub fn new(py: Python<'_>, p: &Program, method: Method, b: &Binding) -> PyResult<Slot> {
        Ok(Slot {
            key: PyString::intern(py, &b.name).unbind(),
            name: b.name.clone(),
            role: b.role,
            dtype: b.dtype,
            dims: b.dims.to_vec(),
            form: Form::new(py, numpy_name(b.dtype), &b.dims)?,
            bytes: b.bytes,
            handle: call(|| AnyHandle::find(p, method, b))?,
        })
    }

    /// The value as an array of exactly this form: it is one, or `arenagrad._conversions` turns it into one.
    pub fn fitted<'py>(&self, value: &Bound<'py, PyAny>, casting: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        if views::exact(value, &self.form).is_some() {
            return Ok(value.clone());
        }
        let py = value.py();
        let what = format!("{} {:?}", self.role.name(), self.name);
        let fit = py.import("arenagrad._conversions")?.getattr("fit")?;
        fit.call1((value, self.form.descr.bind(py), &self.dims, self.dtype.name(), what, casting))
    }

    /// Writes the value, which must fit: see [`Slot::fitted`].
    pub fn write(&self, p: &mut Program, value: &Bound<'_, PyAny>, casting: Option<&str>) -> PyResult<()> {
        if let Some(source) = views::exact(value, &self.form) {
            return self.copy(p, source);
        }
        if let Ok(number) = value.cast_exact::<PyFloat>()
            && self.write_number(p, number.value())?
        {
            return Ok(());
        }
        match views::exact(&self.fitted(value, casting)?, &self.form) {
            Some(source) => self.copy(p, source),
            None => Err(pyo3::exceptions::PyTypeError::new_err("the array does not fit")),
        }
    }

    /// Writes a number of Python, such as a rate, if this is a scalar of `f32` or `f64`; else it tells so.
    fn write_number(&self, p: &mut Program, number: f64) -> PyResult<bool> {
        let bytes: &[u8] = match self.dtype {
            _ if !self.dims.is_empty() => return Ok(false),
            // NumPy warns of a number that is too large.
            DType::F32 if number.is_finite() != (number as f32).is_finite() => return Ok(false),
            DType::F32 => &(number as f32).to_ne_bytes(),
            DType::F64 => &number.to_ne_bytes(),
            _ => return Ok(false),
        };
        self.handle.bytes_mut(p).map_err(|e| crate::error::raise(&e))?.copy_from_slice(bytes);
        Ok(true)
    }

    #[allow(unsafe_code)]
    fn copy(&self, p: &mut Program, source: *const u8) -> PyResult<()> {
        let to = self.handle.bytes_mut(p).map_err(|e| crate::error::raise(&e))?;
        // SAFETY: `source` is an array of this form, so it has as many bytes; it may be a view of this very tensor.
        unsafe { std::ptr::copy(source, to.as_mut_ptr(), self.bytes) };
        Ok(())
    }

    /// A view of the tensor in the arena of `owner`, whose program `p` is. One that is writable counts as written.
    #[allow(unsafe_code)]
    pub fn view<'py>(&self, owner: Bound<'py, PyAny>, p: &mut Program, writable: bool) -> PyResult<Bound<'py, PyAny>> {
        let data = call(|| match writable {
            true => self.handle.bytes_mut(p).map(|bytes| bytes.as_mut_ptr()),
            false => self.handle.bytes(p).map(|bytes| bytes.as_ptr().cast_mut()),
        })?;
        // SAFETY: the bytes are those of this form in the arena of `p`, which stays where it is while `owner` lives. An
        // arena is memory that steps write through pointers, too; no reference to it lives between steps.
        unsafe { views::view(owner, &self.form, data, writable) }
    }
}
