//! Passes: batch transforms from one column set to another.
//!
//! * [`rebuild`] is the one loop that most passes are: dead code goes, equal nodes merge, a rule rewrites the rest.
//! * [`mod@grad`], [`mod@jvp`] and [`higher`] are derivatives; [`prepare`] brings a graph into the form that they see.
//! * [`patterns`] and [`fuse`] make fused ops, and [`mod@report`] says which and why not.
//! * [`mod@precision`] says how products are computed.
//! * [`optimiser`] appends the update; [`pipeline`] is the one place where the order of passes is written.

pub mod activity;
pub mod fold;
pub mod fuse;
pub mod grad;
pub mod higher;
pub mod inline;
pub mod jvp;
pub mod loops;
pub mod optimiser;
pub mod patterns;
pub mod pipeline;
pub mod precision;
pub mod prepare;
pub mod rebuild;
pub mod remat;
pub mod report;
pub mod save;
pub mod simplify;
pub mod trim;
pub mod widen;

pub use grad::{GradOptions, Missing, grad, vjp};
pub use higher::{hvp, jacobian, nth_grad};
pub use jvp::jvp;
pub use prepare::{FusionPolicy, expand_blocks, unfuse};
pub use report::{Fusion, Outcome, report};
