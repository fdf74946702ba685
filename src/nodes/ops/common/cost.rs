//! Costs that many ops share.

use crate::nodes::ir::cost_cx::CostCx;

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
