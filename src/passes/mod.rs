//! Passes: batch transforms from one column set to another.
//!
//! * [`rebuild`] is the one loop that most passes are: dead code goes, equal nodes merge, a rule rewrites the rest.
//! * [`ad`] holds derivatives; [`ad::prepare`] brings a graph into the form that they see.
//! * [`patterns`] and [`fuse`] make fused ops, and [`mod@report`] says which and why not.
//! * [`mod@precision`] says how products are computed.
//! * [`optimiser`] appends the update; [`pipeline`] is the one place where the order of passes is written.

pub mod ad;
pub mod promote_f64;
pub mod scan_dce;

pub mod fold;
pub mod fuse;
pub mod inline;
pub mod optimiser;
pub mod patterns;
pub mod pipeline;
pub mod precision;
pub mod rebuild;
pub mod remat;
pub mod report;
pub mod simplify;

pub use ad::grad::{GradOptions, Missing, grad, vjp};
pub use ad::higher::{hvp, jacobian, nth_grad};
pub use ad::jvp::jvp;
pub use ad::prepare::{FusionPolicy, expand_blocks, unfuse};
pub use report::{Fusion, Outcome, report};
