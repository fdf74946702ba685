//! Passes: graph-to-graph transforms.
//!
//! * [`rebuild`] is the loop that most passes share: it drops dead nodes, merges equal ones and applies a rule.
//! * [`ad`] holds derivatives; [`ad::prepare`] brings a graph into the form that derivatives or lowering need.
//! * [`batch`] turns a graph into one for a batch (`vmap`).
//! * [`extend`](mod@extend) adds nodes that a user writes, such as a loss that is made of derivatives.
//! * [`mod@splice`] writes a graph into another one that is under construction.
//! * [`patterns`] and [`fuse`] make fused ops; [`fusion_notes`] lists the rules that fired and those that just missed.
//! * [`trim`] drops the parts of loops and choices that nothing reads; [`known_branch`] drops choices.
//! * `contract` writes sums of products of broadcasts as products of matrices.
//! * `last_of_stack` reads the last element of a stack from the carry that a loop stacks.
//! * `stretches` writes a loop as a loop over stretches of iterations. `hoist` moves nodes out of loops, `carried_sums`
//!   sums of products; `join_maps` joins the pointwise nodes that stay in their bodies.
//! * `keep_scan_states` keeps states of selective scans for their gradients.
//! * [`keep_half`] keeps values for the backward half in half precision.
//! * [`mod@qat`] rounds weights and activations, for quantisation-aware training.
//! * [`moves`] traces a value back through ops that only move elements.
//! * [`product_precision`] gives each product its precision.
//! * [`lint`] finds what is valid and most likely a mistake.
//! * [`optimiser`] appends the update. [`pipeline`] is the only place where the order of passes is written.

pub mod ad;
pub mod batch;
mod carried_sums;
mod contract;
pub mod copier;
pub mod decompose;
mod exchange_weights;
pub mod expand_blocks;
pub mod extend;
pub mod fold;
pub mod fuse;
pub mod fusion_notes;
mod hoist;
pub mod inline;
mod join_maps;
pub mod keep;
pub mod keep_half;
#[cfg(feature = "recurrent")]
mod keep_scan_states;
pub mod known_branch;
mod last_of_stack;
pub mod lint;
pub mod moves;
pub mod optimiser;
pub mod patterns;
pub mod pipeline;
pub mod product_precision;
pub mod promote_f64;
pub mod qat;
pub mod rebuild;
pub(crate) mod region_users;
pub mod remat;
pub mod rename;
pub mod signature;
pub mod simplify;
pub mod splice;
mod stretches;
mod strip_checkpoints;
pub mod trim;
mod unroll;

pub use ad::grad::{GradOptions, Missing, grad, vjp};
pub use ad::higher_derivatives::{directional_nth_grad, hvp, nth_grad};
pub use ad::jacobian::jacobian;
pub use ad::jvp::jvp;
pub use ad::split_vjp::{SplitVjp, split_vjp};
pub use batch::{OneByOne, Randomness, Vmap, one_by_one_ops, vmap};
pub use decompose::unfuse;
pub use expand_blocks::expand_blocks;
pub use extend::extend;
pub use fuse::FusionPolicy;
pub use fusion_notes::{Fusion, Outcome};
pub use keep::keep;
pub use lint::Warning;
pub use pipeline::report_pipeline;
pub use qat::{Qat, qat, quantized_weight_bits};
pub use rename::rename;
