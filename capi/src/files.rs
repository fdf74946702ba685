//! Functions on files of weights and checkpoints.

#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]

use crate::border::{self, call};
use crate::handles;
use crate::kinds::ag_status;
use crate::structs::ag_program;
use arenagrad::train::{Load, Weights};
use std::ffi::c_char;

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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_save(program: ag_program, path: *const c_char) -> ag_status {
    call("ag_save", || {
        let path = border::path("path", path)?;
        handles::program(program.id)?.with(|p| Ok(p.save_weights(&path)?))
    })
}

/// Writes all params and states, those of the optimiser among them, to a file, as a whole or not at all, with a digest.
/// A program that resumes from it goes on with the same bits.
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
