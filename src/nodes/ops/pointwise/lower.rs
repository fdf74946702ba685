//! Kernel calls of activations with their derivatives.

use crate::kernels::cost_model::CostClass;
use crate::kernels::elementwise::act_with_grad;
use crate::kernels::elementwise::act_with_grad::ActWithGrad;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::pointwise::attrs::ActWithGradAttrs;
use crate::nodes::ops::pointwise::attrs::CurveAttr;

/// `act_with_grad`.
pub fn emit_act_with_grad(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = ActWithGrad { len: cx.arg_dims(0).numel() };
    let kernel = match ActWithGradAttrs::of(&cx.attrs()).act {
        CurveAttr::Gelu => act_with_grad::gelu_for(cx.dtype(0))?,
        CurveAttr::GeluTanh => act_with_grad::gelu_tanh_for(cx.dtype(0))?,
        CurveAttr::Silu => act_with_grad::silu_for(cx.dtype(0))?,
    };
    let call =
        Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::ACTIVATION).reads_args(1);
    cx.call(call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit()).inplace(&[(0, 1), (0, 0)]));
    Ok(())
}
