//! 2-D max and average pools on `[n, c, h, w]`, their adjoints, and the tangent of a max pool.
//!
//! Invariant: a plane is computed alone, in a fixed order, so bits do not depend on the range of units. A max pool
//! takes the first of the largest elements of a window (in order of kernel row, then kernel column). The first NaN
//! wins; padding never does. An index is the position `row * w + column` in the input plane, or −1 for a window of
//! padding only, whose value is −∞. Used by the lowering of the pool ops.

mod avg_pool;
mod geom;
mod inner_loops;
mod max_2x2;
mod max_3x3;
mod max_pool;
mod row_tiles;
#[cfg(test)]
mod tests;
mod wide_windows;

pub use avg_pool::{avg_pool_backward_kernel, avg_pool_kernel, avg_pool2d_backward_kernel_for, avg_pool2d_kernel_for};
pub use geom::{COUNT_PAD, PoolGeom, SUM};
pub use max_pool::{
    max_pool_backward_kernel, max_pool_gather_kernel, max_pool_kernel, max_pool2d_backward_kernel_for,
    max_pool2d_gather_kernel_for, max_pool2d_kernel_for,
};
