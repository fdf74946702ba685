//! Parts that the matrix product and the convolution of codes share: checks, results from sums, masks and kernel calls.

use super::int_attrs::QMatmulAttrs;
use super::scale::lower_checked_scales;
use crate::ensure;
use crate::kernels::cost_model::CostClass;
use crate::kernels::int_gemm::{Requantise, output_kernel_for};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::Op;

/// Checks types of x, w, bias and scales for `n` columns or channels and sums of `terms` terms.
pub(super) fn check_product_types(cx: &Infer<'_>, a: &QMatmulAttrs, n: usize, terms: usize) -> Result<(), String> {
    let (x, w, operands) = (cx.dtype(0), cx.dtype(1), cx.args.len());
    ensure!(matches!(x, DType::I8 | DType::U8), "x is {x}; codes of i8 or u8 are needed");
    ensure!(w == DType::I8, "w is {w}; codes of i8 are needed");
    a.check(x, operands, terms)?;
    let (bias, scales) = a.places(operands);
    if let Some(bias) = bias {
        ensure!(cx.dtype(bias) == DType::I32, "the bias is {}; i32 is needed", cx.dtype(bias));
        cx.expect_dims(bias, "the bias", &[n])?;
    }
    if let Some(zeros) = a.zeros_place(operands) {
        ensure!(cx.dtype(zeros) == DType::I8, "the zeros are {}; i8 is needed", cx.dtype(zeros));
        cx.expect_dims(zeros, "the zeros", &[n])?;
    }
    if let Some(scales) = scales {
        ensure!(cx.dtype(scales) == DType::F32, "the scales are {}; f32 is needed", cx.dtype(scales));
        cx.expect_dims(scales, "the scales", &[n])?;
    }
    Ok(())
}

/// A product of codes as its rules see it: a row for each column or channel of the result is aligned by `align`.
pub(super) struct IntProductSite<'a, 'g> {
    pub(super) a: &'a QMatmulAttrs,
    pub(super) args: &'a [Var<'g>],
    /// `[n]` in a shape that broadcasts with the result.
    pub(super) align: &'a dyn Fn(Var<'g>) -> Var<'g>,
}

impl<'g> IntProductSite<'_, 'g> {
    pub(super) fn bias(&self) -> Option<Var<'g>> {
        self.a.places(self.args.len()).0.map(|i| self.args[i])
    }

    /// The scales of w, each checked to be above 0.
    fn scales(&self) -> Option<Var<'g>> {
        let scales = self.a.places(self.args.len()).1.map(|i| self.args[i])?;
        Some(scales.g.emit1(Op::POSITIVE_SCALE, &[scales], &[]))
    }

    /// x without its zero point, as numbers of `dtype`.
    pub(super) fn centred_x(&self, dtype: DType) -> Var<'g> {
        self.args[0].cast(dtype) - self.a.x_zp as f64
    }

    /// w without its zero point, or those of its columns, as numbers of `dtype`.
    pub(super) fn centred_w(&self, dtype: DType) -> Var<'g> {
        let w = self.args[1].cast(dtype);
        match self.zeros() {
            Some(zeros) if w.rank() == 2 => w - zeros.cast(dtype),
            // The channels of the result are the first axis of the weights of a convolution.
            Some(zeros) => w - zeros.cast(dtype).reshape([zeros.numel(), 1, 1, 1]),
            None => w - self.a.w_zp as f64,
        }
    }

    fn zeros(&self) -> Option<Var<'g>> {
        self.a.zeros_place(self.args.len()).map(|i| self.args[i])
    }

    /// The operands of the product's sums, [`QMatmulAttrs::sums`].
    pub(super) fn operands_of_sums(&self) -> Vec<Var<'g>> {
        self.args[..2].iter().copied().chain(self.zeros()).collect()
    }

    /// `x` times the scales of w.
    pub(super) fn by_scale_of_w(&self, x: Var<'g>) -> Var<'g> {
        match self.scales() {
            Some(scales) => x * (self.align)(scales),
            None => x * self.a.s_w,
        }
    }

    /// `x` times what multiplies the sums: the derivative of the result's codes with respect to the sums.
    pub(super) fn by_multiplier(&self, x: Var<'g>) -> Var<'g> {
        if self.a.to == DType::I32 {
            return x;
        }
        let by = x * self.a.multiplier();
        self.scales().map_or(by, |scales| by * (self.align)(scales))
    }

    /// Sums with their bias, exactly, times their multiplier, in `f64`, as the kernel computes it: one rounding of the
    /// multiplier, one of the product.
    fn multiplied(&self, sums: Var<'g>) -> Var<'g> {
        let sums = sums.cast(DType::F64);
        let sums = self.bias().map_or(sums, |bias| sums + (self.align)(bias).cast(DType::F64));
        match self.scales() {
            Some(scales) => sums * ((self.align)(scales).cast(DType::F64) * self.a.multiplier()),
            None => sums * self.a.multiplier(),
        }
    }

    /// Codes of the result before they are cut off, in `f64`. NaN counts as 0.
    fn unclamped(&self, sums: Var<'g>) -> Var<'g> {
        let rounded = self.multiplied(sums).round();
        rounded.isnan().select(rounded.full_like(0.0), rounded) + self.a.out_zp as f64
    }

    /// The result of sums without their bias.
    pub(super) fn result(&self, sums: Var<'g>) -> Var<'g> {
        match self.a.to {
            DType::I32 => self.bias().map_or(sums, |bias| sums + (self.align)(bias)),
            DType::F32 => self.multiplied(sums).cast(DType::F32),
            to => self.unclamped(sums).clamp(-128.0, 127.0).cast(to),
        }
    }

    /// `t` where the codes of the result are not cut off, and an exact 0 elsewhere; `sums` are without their bias.
    pub(super) fn where_kept(&self, sums: Var<'g>, t: Var<'g>) -> Var<'g> {
        let code = self.unclamped(sums);
        let kept = code.greater_equal(-128.0).logical_and(code.less_equal(127.0));
        kept.select(t, t.full_like(0.0))
    }
}

/// The call that makes the result of `sums`, `[outer, channels, inner]`.
pub(super) fn lower_requantise(
    cx: &mut LowerCx<'_>,
    a: &QMatmulAttrs,
    sums: Buf,
    (outer, channels, inner): (usize, usize, usize),
) -> Result<(), String> {
    let (bias, scales) = a.places(cx.args());
    // Sums have no scale.
    let scales = scales.filter(|_| a.to != DType::I32);
    let p = Requantise {
        outer,
        channels,
        inner,
        bias: bias.is_some(),
        scales: scales.is_some(),
        multiplier: a.multiplier(),
        zero: a.out_zp,
    };
    let scales = scales.map(|i| lower_checked_scales(cx, i)).transpose()?;
    let operands: Vec<Buf> = bias.map(Buf::Arg).into_iter().chain(scales).collect();
    let call = Call::new(output_kernel_for(a.to)?, p.to_words(), p.units()).reads(&[sums]).reads(&operands);
    let ops = (outer * channels * inner) as u64;
    cx.call(call.ops(ops).writes(Buf::Out(0), p.per_unit()).cost_class(CostClass::DEQUANT));
    Ok(())
}

/// The operands that the kernel of the sums reads: x, w, and zero points of columns if there are some.
pub(super) fn sum_kernel_reads(cx: &LowerCx<'_>, a: &QMatmulAttrs) -> Vec<Buf> {
    [Some(0), Some(1), a.zeros_place(cx.args())].into_iter().flatten().map(Buf::Arg).collect()
}

/// Where the sums go: straight to the result if they are the result, else to a temporary of `len` elements.
pub(super) fn place_sums(cx: &mut LowerCx<'_>, a: &QMatmulAttrs, len: usize) -> Buf {
    let are_result = a.to == DType::I32 && a.places(cx.args()).0.is_none();
    if are_result { Buf::Out(0) } else { cx.temp(4, len) }
}
