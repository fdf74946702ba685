//! Structs that C and this library hand to each other.
//!
//! Invariant: all bit patterns are values, so a struct that C filled may be read; [`ag_options`] grows at its end only.

use crate::kinds::{ag_dtype, ag_role, ag_status};
use std::ffi::{c_char, c_void};

/// A graph: a number that the library knows. Zero is no graph. A graph may be used by several threads at once.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ag_graph {
    /// The number.
    pub id: u64,
}

/// A program: a number that the library knows. Zero is no program. One thread at a time may use it; a call of a second
/// one gets AG_USAGE.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ag_program {
    /// The number.
    pub id: u64,
}

/// The size of a symbol in a graph's text: of `batch` in `f32[batch,784]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ag_size {
    /// The symbol.
    pub symbol: *const c_char,
    /// Its size.
    pub size: usize,
}

/// A method of a program: a graph and its name.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ag_method {
    /// The name.
    pub name: *const c_char,
    /// The graph.
    pub graph: ag_graph,
}

/// Choices for compiling. Begin with `ag_options_default()` and change what you need.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ag_options {
    /// The size of this struct, in bytes: `ag_options_default` sets it.
    pub size: usize,
    /// Most bytes of the arena; 0: no limit. Values are computed twice to fit.
    pub max_memory: usize,
    /// How products of f32 matrices are computed: "f32", "bf16x3", "bf16x2" or "bf16"; NULL: "f32".
    pub precision: *const c_char,
    /// The type in which f32 values are kept for the backward half: "f32", "bf16" or "f16"; NULL: "f32".
    pub keep: *const c_char,
    /// Most threads of a step, from 1 to 1024. Results do not depend on it.
    pub threads: u32,
    /// 1: a step fails at the first op that makes a NaN or an infinity, and runs slowly; 0: it does not look.
    pub find_nan: u32,
    /// How convolutions are computed: "direct", or "winograd" for those of 3 × 3 kernels where that is faster; NULL:
    /// "direct".
    pub convolutions: *const c_char,
}

/// A tensor of a program. `data` is valid until the program is freed; a step of the program may run only while no
/// thread reads or writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ag_tensor {
    /// The first element, aligned to 64 bytes for inputs, params and states, and for its type else. Elements are in
    /// row-major order. An output must not be written.
    pub data: *mut c_void,
    /// Size in bytes.
    pub bytes: usize,
    /// Element type.
    pub dtype: ag_dtype,
    /// What it is.
    pub role: ag_role,
    /// Number of axes, from 0 to 8.
    pub rank: usize,
    /// Dimensions; those from `rank` on are 0.
    pub dims: [usize; 8],
    /// Name; valid until the program is freed.
    pub name: *const c_char,
}

/// The last error of a thread. Texts are valid until the next call of this thread that fails.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ag_error {
    /// Its kind; AG_OK if no call of this thread has failed.
    pub status: ag_status,
    /// One sentence that names the op or argument, shapes and values at fault.
    pub message: *const c_char,
    /// The file at fault, or NULL.
    pub file: *const c_char,
    /// The line in that file, or in the text that was given, from 1; 0 if there is none.
    pub line: u32,
    /// The column in the text that was given, from 1; 0 if there is none.
    pub column: u32,
}
