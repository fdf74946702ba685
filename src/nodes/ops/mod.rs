//! Op rows, one file a family. What a row holds is said in [`crate::nodes::ir::opdef`]; the list is in [`crate::nodes::ops::table`].

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
pub use common::lowering::{lower_node, tile_call};

/// One operation for each element of the result.
pub(crate) fn each(cx: &CostCx<'_>) -> u64 {
    cx.out()
}

/// No arithmetic.
pub(crate) fn free(_: &CostCx<'_>) -> u64 {
    0
}

/// One operation for each element of the operands.
pub(crate) fn each_arg(cx: &CostCx<'_>) -> u64 {
    cx.args()
}

/// A tile step without immediates.
pub(crate) fn plain(_: &Attrs<'_>) -> [f64; 2] {
    [0.0; 2]
}

/// A tile step whose immediate is attribute 0.
pub(crate) fn first(a: &Attrs<'_>) -> [f64; 2] {
    [a.f64(0), 0.0]
}

/// A tile step whose immediates are attributes 0 and 1.
pub(crate) fn both(a: &Attrs<'_>) -> [f64; 2] {
    [a.f64(0), a.f64(1)]
}
