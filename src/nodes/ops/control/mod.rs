//! Loops, choices, calls and custom functions: ops that run a region.

pub mod batch;
pub mod call;
pub mod cond;
pub mod custom_fn;
pub mod scan;
pub mod while_loop;
