//! Loops, calls and custom functions: ops that run a region.

pub mod call;
pub mod custom_fn;
pub mod scan;
