//! Kernel calls of convolutions.

use crate::arena::ids::Id;
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
    convolution::of_node(cx.graph.op[cx.node.at()], &cx.arg_dims(0), &cx.arg_dims(1), &cx.attrs())
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
    let call = Call::new(kernel, words, units).flops(cx.flops()).cost_class(CostClass::CONV);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::dtype::DType;
    use crate::nodes::ir::opdef::Op;
    use crate::nodes::ops::common::lowered_in_tests::LoweredInTests;
    use crate::nodes::ops::conv::attrs::ConvAttrs;

    /// Kernels of 3 × 3 that keep the size of planes.
    fn attrs() -> ConvAttrs {
        ConvAttrs { stride: vec![1, 1], pad: vec![1; 4], dilation: vec![1, 1], groups: 1 }
    }

    /// The weight gradient from 2 to 4 channels of `images` images of `side` × `side`.
    fn weight_grad(images: usize, side: usize) -> (ConvGeom, LoweredInTests) {
        let (x, dy) = ([images, 2, side, side], [images, 4, side, side]);
        let g = convolution::of_dims(&x, &[4, 2, 3, 3], &attrs());
        let grad = attrs().weight_grad([3, 3]);
        (g, LoweredInTests::of_one_type(DType::F32, Op::CONV2D_WEIGHT_GRAD, &[&x, &dy], &grad.list(), &[true]))
    }

    #[test]
    fn the_weight_gradient_of_many_images_is_a_sum_of_parts() {
        let (g, l) = weight_grad(64, 16);
        let parts = conv::conv2d_weight_parts(&g);
        assert!(parts > 2, "{parts}");
        let (units, scratch) = (conv::conv2d_backward_weight_units(&g), conv::conv2d_backward_weight_scratch(&g));
        assert_eq!(l.sizes(), [(4, parts * 72, false), (4, scratch, true)]);
        let writes = [(Buf::Temp(0), Split::PerUnit(units.per_unit)), (Buf::Temp(1), Split::PerThread(scratch))];
        let sum = [(Buf::Out(0), Split::PerUnit(conv::COMBINE_UNIT))];
        let reads = [Buf::Arg(0), Buf::Arg(1)];
        assert_eq!(l.operands(), [(&reads[..], &writes[..]), (&[Buf::Temp(0)][..], &sum[..])]);
        assert_eq!((l.calls[0].units, l.calls[1].units), (units.count, 1));
        // 64·4·16·16 results in two channels and nine taps.
        assert_eq!((l.calls[0].flops, l.calls[0].work), (2 * 65536 * 18, CostClass::CONV));
        assert!(l.calls.iter().all(|c| c.params == g.to_words()));
    }

    #[test]
    fn the_weight_gradient_of_few_images_is_one_call() {
        let (g, l) = weight_grad(1, 5);
        assert_eq!((conv::conv2d_weight_parts(&g), l.calls.len()), (1, 1));
        assert_eq!((l.calls[0].writes[0].0, l.temps.len()), (Buf::Out(0), 1));
    }

    #[test]
    fn a_convolution_with_a_bias_passes_its_activation() {
        use crate::nodes::ops::matmul::activation::Activation;
        let args: [&[usize]; 3] = [&[1, 2, 5, 5], &[4, 2, 3, 3], &[4]];
        let act = attrs().bias_act(Activation::Relu);
        let biased = LoweredInTests::of_one_type(DType::F64, Op::CONV2D_BIAS_ACT, &args, &act.list(), &[true]);
        let plain = LoweredInTests::of_one_type(DType::F64, Op::CONV2D, &args[..2], &attrs().list(), &[true]);
        let g = convolution::of_dims(args[0], args[1], &attrs());
        for (l, act) in [(biased, Act::Relu), (plain, Act::None)] {
            assert_eq!(l.calls[0].params, [&g.to_words()[..], &[act as u64]].concat());
            assert_eq!(l.sizes(), [(8, conv::conv2d_scratch(&g), true)]);
        }
    }
}
