//! Dense linear algebra on batches of matrices in row-major order.
//!
//! * `crate::matrix_rows`: the loops over rows that the algorithms are made of. `batch_map`: which matrix of an
//!   operand belongs to a matrix of the result.
//! * [`lu`], [`cholesky`], [`triangular`]: factors, and solves with them.
//! * `lu_lanes`: factors and solves of eight small matrices at once. `lu_panels`, `cholesky_panels`: factors of large
//!   matrices; `panels`: what both have in common.
//! * [`qr`], [`eigh`], [`svd`]: orthogonal decompositions.
//!
//! The scratch of a kernel is `Split::PerThread`; if the batch has one matrix, it is `Split::PerUnit`, so it is there
//! once.
//!
//! Invariants: a matrix of the batch is a unit, so bits do not depend on threads. Each element is one chain of
//! `mul_add` in a fixed order, or a dot product with a fixed number of partial sums, so bits do not depend on the
//! instruction set.

mod batch_map;
pub mod cholesky;
mod cholesky_panels;
pub mod eigh;
pub mod lu;
mod lu_lanes;
mod lu_panels;
mod panels;
pub mod qr;
pub mod svd;
mod svd_lanes;
#[cfg(test)]
mod tests;
pub mod triangular;

pub use batch_map::BatchMap;
pub use lu_lanes::SMALL;
