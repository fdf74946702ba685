//! Functions on files: weights, checkpoints, exported programs.

#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]

use crate::border::{self, Out, call};
use crate::handles;
use crate::kinds::ag_status;
use crate::programs::owned;
use crate::structs::ag_program;
use arenagrad::session::Program;
use arenagrad::train::{Load, Weights};
use std::ffi::{c_char, c_void};

/// Reads params and buffers of layers from a file of weights: safetensors, torch.save, or a folder of Hugging Face's.
/// Names, types and shapes must be equal. A file that is refused changes nothing.
///
/// Errors: AG_IO, AG_NAME, AG_DATA, AG_SYNTAX, with file and tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_load(program: ag_program, path: *const c_char) -> ag_status {
    call("ag_load", || {
        let path = border::path("path", path)?;
        handles::program(program.id)?.with(|p| {
            // Nothing is left over: names that only one side has are refused.
            let _report = p.load_weights(&Weights::open(&path)?, Load::default())?;
            Ok(())
        })
    })
}

/// Writes params and buffers of layers to a safetensors file, as a whole or not at all.
///
/// Errors: AG_DATA if one of them was neither initialised nor loaded; AG_IO, AG_FULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_save(program: ag_program, path: *const c_char) -> ag_status {
    call("ag_save", || {
        let path = border::path("path", path)?;
        handles::program(program.id)?.with(|p| Ok(p.save_weights(&path)?))
    })
}

/// Writes all params and states, those of the optimiser among them, to a file, as a whole or not at all, with a digest.
/// A program that resumes from it goes on with the same bits. Errors as for `ag_save`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_checkpoint(program: ag_program, path: *const c_char) -> ag_status {
    call("ag_checkpoint", || {
        let path = border::path("path", path)?;
        handles::program(program.id)?.with(|p| Ok(p.save(&path)?))
    })
}

/// Reads back what `ag_checkpoint` wrote. A file that is refused changes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_resume(program: ag_program, path: *const c_char) -> ag_status {
    call("ag_resume", || {
        let path = border::path("path", path)?;
        handles::program(program.id)?.with(|p| {
            p.load(&path)?;
            Ok(())
        })
    })
}

/// Writes the program as one file, as a whole or not at all: its graphs, its plans, and its params and states as they
/// are now. `ag_program_open` makes the same program of it. Values of inputs are not in the file. By convention its
/// name ends with .agp.
///
/// Errors: AG_DATA if the program looks for NaN, or if a graph has constants of tens of megabytes; AG_IO, AG_FULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_program_export(program: ag_program, path: *const c_char) -> ag_status {
    call("ag_program_export", || {
        let path = border::path("path", path)?;
        handles::program(program.id)?.with(|p| Ok(p.export(&path)?))
    })
}

/// Opens an exported program. Nothing is compiled: the graphs are verified and the plans proved again. It has the
/// methods and the threads of the program that was exported, and steps give the same bits. Params and states are mapped
/// from the file: the system reads them when a step first uses them, and all programs that have the file open share
/// their memory. One that writes them copies the pages it writes; the file stays as it is.
///
/// The file must not be cut while the program lives: the system would end the process. Replacing it, as
/// `ag_program_export` does, is harmless. The checksum of the values is not compared, as that would read them.
///
/// Errors: AG_IO; AG_DATA if `path` is a folder or a pipe; AG_SYNTAX if the file is damaged, or no exported program;
/// AG_PLAN if another version of the library exported it, or it is for another processor (`ag_compile_exported`
/// compiles its graphs again); AG_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_program_open(path: *const c_char, program: *mut ag_program) -> ag_status {
    call("ag_program_open", || {
        let out = Out::new("program", program)?;
        let path = border::path("path", path)?;
        out.put(owned(Program::open(&path)?)?);
        Ok(())
    })
}

/// Opens an exported program whose file is in memory: `n_bytes` at `bytes`, at any address. Params and states are
/// copied from there, and all checksums are compared. Errors as for `ag_program_open`, but AG_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_program_open_bytes(
    bytes: *const c_void,
    n_bytes: usize,
    program: *mut ag_program,
) -> ag_status {
    call("ag_program_open_bytes", || {
        let out = Out::new("program", program)?;
        let bytes = border::slice("bytes", bytes.cast::<u8>(), n_bytes)?;
        out.put(owned(Program::open_bytes(bytes)?)?);
        Ok(())
    })
}
