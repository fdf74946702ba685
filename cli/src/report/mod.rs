//! The loss curve of `run.html`. The page and the memory map are the library's.
//!
//! Invariant: the functions here return text and write nothing.

pub mod curve;
