//! Elementwise ops, and the regions that fusion builds from them.

pub mod act_grad;
pub mod arith;
pub mod attrs;
pub mod compare;
pub mod lower;
pub mod map;
pub mod math;
mod peephole;
pub mod var;
