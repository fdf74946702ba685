//! Op definitions, one folder for each family. [`crate::nodes::ir::opdef`] declares the definition;
//! [`crate::nodes::ops::table`] lists all ops. `docs/ops.md` is the reference.

pub mod attention;
pub mod blocks;
pub mod common;
pub mod constant;
pub mod control;
pub mod conv;
pub mod index;
pub mod layout;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod optim;
pub mod pointwise;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod softmax;
pub mod sort;
pub mod table;
pub mod window;

use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::call::CostCx;
pub use common::lowering::lower_node;

/// One operation for each element of the result.
pub(crate) fn cost_per_result(cx: &CostCx<'_>) -> u64 {
    cx.out()
}

/// No arithmetic.
pub(crate) fn cost_free(_: &CostCx<'_>) -> u64 {
    0
}

/// One operation for each element of the operands.
pub(crate) fn cost_per_operand(cx: &CostCx<'_>) -> u64 {
    cx.args()
}

/// The immediates of a tile step that has none.
pub(crate) fn no_immediates(_: &Attrs<'_>) -> [f64; 2] {
    [0.0; 2]
}
