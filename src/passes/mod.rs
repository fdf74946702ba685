//! Passes: graph-to-graph transforms.
//!
//! * [`rebuild`] is the loop that most passes share: it drops dead nodes, merges equal ones and applies a rule.
//! * [`ad`] holds derivatives; [`ad::prepare`] brings a graph into the form that derivatives or lowering need.
//! * [`patterns`] and [`fuse`] make fused ops; [`mod@report`] lists the rules that fired and those that just missed.
//! * [`mod@precision`] gives each product its precision.
//! * [`optimiser`] appends the update. [`pipeline`] is the only place where the order of passes is written.

pub mod ad;
pub mod fold;
pub mod fuse;
pub mod inline;
pub mod keep;
pub mod optimiser;
pub mod patterns;
pub mod pipeline;
pub mod precision;
pub mod promote_f64;
pub mod rebuild;
pub mod remat;
pub mod report;
pub mod scan_dce;
pub mod simplify;

pub use ad::grad::{GradOptions, Missing, grad, vjp};
pub use ad::higher::{directional_nth_grad, hvp, jacobian, nth_grad};
pub use ad::jvp::jvp;
pub use ad::prepare::{FusionPolicy, expand_blocks, unfuse};
pub use ad::split::{SplitVjp, split_vjp};
pub use keep::keep;
pub use pipeline::report;
pub use report::{Fusion, Outcome};
