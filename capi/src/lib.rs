//! The C interface of arenagrad: the functions of `include/arenagrad.h`, which is written from this source.
//!
//! Invariants: nothing here computes. No panic crosses the border. What C hands in is checked as far as it can be:
//! NULL, alignment, sizes, handles that were freed. All that dereferences a pointer of C is in `border.rs`; the files
//! that define functions have attributes that count as unsafe code, as they fix a symbol's name.

// The names of C.
#![allow(non_camel_case_types)]

mod border;
mod errors;
mod fault;
mod files;
mod graphs;
mod handles;
mod kinds;
mod latency;
mod order;
mod owned;
mod programs;
mod structs;
mod tensors;
