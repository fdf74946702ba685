//! Kernel calls of convolutions.

use crate::kernels::abi::{Kernel, Split};
use crate::kernels::conv;
use crate::kernels::conv::ConvGeom;
use crate::kernels::cost_model::CostClass;
use crate::kernels::gemm::Act;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::conv::attrs::ConvBiasActAttrs;
use crate::nodes::ops::conv::convolution;

fn read_geom(cx: &LowerCx<'_>) -> ConvGeom {
    cx.convolutions.of(convolution::of_node(cx.op(), &cx.arg_dims(0), &cx.arg_dims(1), &cx.attrs()))
}

/// One call on the operands, with scratch, into `to`.
fn push_call(
    cx: &mut LowerCx<'_>,
    kernel: Kernel,
    words: &[u64],
    (split, units): (Split, usize),
    scratch: usize,
    to: Buf,
) {
    // By Winograd's filtering a quarter of the operations are products, and transforms take about as long.
    let flops = if read_geom(cx).winograd { cx.flops() / 2 } else { cx.flops() };
    let call = Call::new(kernel, words, units).flops(flops).cost_class(CostClass::CONV);
    let call = call.reads_args(cx.args()).divided(to, split);
    let scratch = cx.scratch(cx.dtype(0).size(), scratch);
    cx.call(call.scratch(scratch));
}

/// `conv2d` and `conv2d_bias_act`.
pub fn emit_conv2d(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let g = read_geom(cx);
    let act = if cx.args() > 2 { ConvBiasActAttrs::of(&cx.attrs()).act.epilogue_act() } else { Act::None };
    let words = [&g.to_words()[..], &[act as u64]].concat();
    let kernel = conv::conv2d_kernel_for(cx.dtype(0))?;
    push_call(cx, kernel, &words, conv::conv2d_division(&g), conv::conv2d_scratch(&g), Buf::Out(0));
    Ok(())
}

/// `conv2d_input_grad`.
pub fn emit_conv2d_input_grad(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let g = read_geom(cx);
    let kernel = conv::conv2d_backward_input_kernel_for(cx.dtype(0))?;
    let (units, scratch) = (conv::conv2d_backward_input_division(&g), conv::conv2d_backward_input_scratch(&g));
    push_call(cx, kernel, &g.to_words(), units, scratch, Buf::Out(0));
    Ok(())
}

/// `conv2d_weight_grad`: one part, or parts by blocks of images and their sum.
pub fn emit_conv2d_weight_grad(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (g, dtype) = (read_geom(cx), cx.dtype(0));
    let parts = conv::conv2d_weight_parts(&g);
    let to = if parts == 1 { Buf::Out(0) } else { cx.temp(dtype.size(), parts * g.w_len()) };
    let kernel = conv::conv2d_backward_weight_kernel_for(dtype)?;
    let (units, scratch) = (conv::conv2d_backward_weight_units(&g), conv::conv2d_backward_weight_scratch(&g));
    push_call(cx, kernel, &g.to_words(), (Split::PerUnit(units.per_unit), units.count), scratch, to);
    if parts != 1 {
        let kernel = conv::conv2d_weight_combine_kernel_for(dtype)?;
        let call = Call::new(kernel, g.to_words(), g.w_len().div_ceil(conv::COMBINE_UNIT));
        cx.call(call.reads(&[to]).writes(Buf::Out(0), conv::COMBINE_UNIT));
    }
    Ok(())
}
