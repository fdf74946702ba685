//! Loops and calls: ops that run a region.

pub mod call;
pub mod scan;
