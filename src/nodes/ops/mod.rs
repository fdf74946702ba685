//! Op rows, one file a family. What a row holds is said in [`super::opdef`]; the list is in [`super::table`].

pub mod adaptive;
pub mod arith;
pub mod attention;
pub mod below;
pub mod blocks;
pub mod compare;
pub mod conv;
pub mod conv_act;
pub mod convs;
pub mod epilogue;
pub mod fused;
pub mod gate;
pub mod index;
pub mod layers;
pub mod leaf;
pub mod length;
pub mod lora;
pub mod loss;
pub(crate) mod lowering;
pub mod math;
pub mod norm;
pub mod norms;
pub mod optim;
pub mod order;
pub mod pool;
pub mod pools;
pub mod product;
pub mod random;
pub mod reduce;
pub mod residual;
pub mod resize;
pub mod rope;
pub mod scan;
pub mod scatter;
pub mod shape;
mod shorten;
pub(crate) mod slide;
pub mod slopes;
pub mod softmax;
pub mod steps;
pub mod unfold;
pub(crate) mod window;

use super::attrs::Attrs;
use super::lower::CostCx;
pub use lowering::tile_call;

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
