//! What an op of your own needs: its definition, its kernel, its pack.
//!
//! [`OpDef`] tells how to define an op, [`Pack`] how to give it patterns. A kernel is a function of [`Args`]; the
//! lowering of the op describes its calls by [`Call`]. A kernel that meets a bad value reports it by a [`Cause`] of its
//! own. `examples/custom_op.rs` has an op with a kernel, `examples/pack.rs` a pack with a fault, a pattern, a class of
//! cost and the oracle of its op; [`conform`](crate::tools::testing::conform) tests a definition.

pub use crate::kernels::abi::{Args, Kernel};
pub use crate::kernels::cost_model::CostClass;
pub use crate::kernels::fault::{Bad, Cause};
pub use crate::nodes::ir::attr_types::{AttrType, Choice, attrs, choice};
pub use crate::nodes::ir::attrs::{Attr, Attrs, Field, Kind};
pub use crate::nodes::ir::call::{Buf, Call};
pub use crate::nodes::ir::cost_cx::CostCx;
pub use crate::nodes::ir::emit::Emit;
pub use crate::nodes::ir::infer::Infer;
pub use crate::nodes::ir::lower_cx::LowerCx;
pub use crate::nodes::ir::opdef::{
    Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef, check_opdefs,
};
pub use crate::nodes::ir::pack::{EncodedOperand, Pack};
pub use crate::nodes::ir::pattern::{Found, Match, Pattern, PatternFacts, Roots};
pub use crate::nodes::ir::results::Results;
pub use crate::nodes::ir::site::Site;
pub use crate::nodes::ir::verify::Stage;
