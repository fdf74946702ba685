//! Kernel calls of convolutions.

use crate::arena::ids::Id;
use crate::kernels::abi::Kernel;
use crate::kernels::conv;
use crate::kernels::conv::ConvGeom;
use crate::kernels::cost_model::CostClass;
use crate::kernels::gemm::Act;
use crate::kernels::window_sizes::Units;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::conv::attrs::ConvBiasActAttrs;
use crate::nodes::ops::conv::convolution::Convolution;

fn lower_conv_geom(cx: &LowerCx<'_>) -> ConvGeom {
    Convolution::of_node(cx.graph.op[cx.node.at()], &cx.arg_dims(0), &cx.arg_dims(1), &cx.attrs()).geom()
}

/// One call on the operands, with scratch, into `to`.
fn lower_conv_call(cx: &mut LowerCx<'_>, kernel: Kernel, words: &[u64], units: Units, scratch: usize, to: Buf) {
    let call = Call::new(kernel, words, units.count).flops(cx.flops()).cost_class(CostClass::CONV);
    let call = call.reads_args(cx.args()).writes(to, units.per_unit);
    let scratch = cx.scratch(cx.dtype(0).size(), scratch);
    cx.call(call.scratch(scratch));
}

/// `conv2d` and `conv2d_bias_act`.
pub fn lower_conv2d(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let g = lower_conv_geom(cx);
    let act = if cx.args() > 2 { ConvBiasActAttrs::of(&cx.attrs()).act.epilogue_act() } else { Act::None };
    let words = [&g.to_words()[..], &[act as u64]].concat();
    let kernel = conv::conv2d_kernel_for(cx.dtype(0))?;
    lower_conv_call(cx, kernel, &words, conv::conv2d_units(&g), conv::conv2d_scratch(&g), Buf::Out(0));
    Ok(())
}

/// `conv2d_input_grad`.
pub fn lower_conv2d_input_grad(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let g = lower_conv_geom(cx);
    let kernel = conv::conv2d_backward_input_kernel_for(cx.dtype(0))?;
    let (units, scratch) = (conv::conv2d_backward_input_units(&g), conv::conv2d_backward_input_scratch(&g));
    lower_conv_call(cx, kernel, &g.to_words(), units, scratch, Buf::Out(0));
    Ok(())
}

/// `conv2d_weight_grad`: one part, or parts by blocks of images and their sum.
pub fn lower_conv2d_weight_grad(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (g, dtype) = (lower_conv_geom(cx), cx.dtype(0));
    let parts = conv::conv2d_weight_parts(&g);
    let to = if parts == 1 { Buf::Out(0) } else { cx.temp(dtype.size(), parts * g.w_len()) };
    let kernel = conv::conv2d_backward_weight_kernel_for(dtype)?;
    let (units, scratch) = (conv::conv2d_backward_weight_units(&g), conv::conv2d_backward_weight_scratch(&g));
    lower_conv_call(cx, kernel, &g.to_words(), units, scratch, to);
    if parts != 1 {
        let kernel = conv::conv2d_weight_combine_kernel_for(dtype)?;
        let call = Call::new(kernel, g.to_words(), g.w_len().div_ceil(conv::COMBINE_UNIT));
        cx.call(call.reads(&[to]).writes(Buf::Out(0), conv::COMBINE_UNIT));
    }
    Ok(())
}
