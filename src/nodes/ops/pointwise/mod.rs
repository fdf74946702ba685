//! Elementwise ops, and the regions that fusion builds from them.

pub mod act_grad;
mod activations;
pub mod arith;
pub mod attrs;
pub mod bits;
pub mod compare;
pub mod lower;
pub mod map;
pub mod math;
pub mod pairs;
mod peephole;
pub mod special;
pub mod var;
