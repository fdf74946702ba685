//! Quantisation as methods of [`Var`].

use super::attrs::{DequantizeAttrs, FakeQuantizeAttrs, LsqAttrs, QuantizeAttrs};
use super::code_product::CodeProduct;
use super::coded_weights::CodedWeights;
use super::fake_quantize::FakeQuantize;
use super::int_attrs::{QConvAttrs, QMatmulAttrs};
use super::quantize_dequantize::Quantize;
use super::weight_attrs::DequantMatmulAttrs;
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::conv::conv_options::Conv2d;
use crate::nodes::ops::quant::lsq_options::Lsq;

impl<'g> Var<'g> {
    /// Codes of these real numbers: clamp(round(x / `scale`) + `zero`, lo, hi), halves to even, with no zero point as
    /// 0. NaN has the code of 0, and infinities have the codes at the ends.
    ///
    /// A code stands for the real number scale·(q − zero): derivatives pass through codes as through that number. So
    /// the derivative of `dequantize` after `quantize` is 1, and 0 where the code is cut off (see
    /// [`CodeSte`](crate::graph::quant::CodeSte)). The gradient of a code is `f32`. Moves (`reshape`, `transpose`,
    /// slices, `concat` …) pass it on, and so do quantised ops; for any other op on codes the derivative is an error.
    /// Scales and zero points get no gradient here: see [`Var::lsq`].
    ///
    /// # Errors
    /// Those of [`Builder::finish`](crate::graph::Builder::finish): x is not `f32` or `f64`; `scale` is of another
    /// dtype, or not a scalar (with [`Quantize::axis`], not a vector of the axis' length); `zero` is not `i32` of the
    /// same shape; a range that the codes' dtype does not have. A scale that is no normal number above 0 ends the step.
    ///
    /// ```
    /// use arenagrad::graph::quant::Quantize;
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("codes");
    /// let x = g.input("x", [4], DType::F32);
    /// let s = g.constant(&[0.5], []);
    /// let q = x.quantize(s, None, Quantize::i8()).named("q");
    /// let loss = q.dequantize(s, None, None).square().sum(..).named("loss");
    /// let graph = grad(&g.finish([loss, q])?, "loss", &GradOptions::wrt(&["x"]))?;
    /// let mut p = Session::new().compile(&graph)?;
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[0.75, 1.2, -0.3, 100.0]);
    /// p.step()?;
    /// assert_eq!(p.values::<i8>("q")?, [2, 2, -1, 127]); // 1.5 steps are 2
    /// assert_eq!(p.values::<f32>("grad.x")?, [2.0, 2.0, -1.0, 0.0]); // 2·s·q, and 0 where q is cut off
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn quantize(self, scale: Var<'g>, zero: impl Into<Option<Var<'g>>>, options: Quantize) -> Var<'g> {
        let Quantize { axis, to, range: (lo, hi), ste } = options;
        let args: Vec<Var<'g>> = [self, scale].into_iter().chain(zero.into()).collect();
        self.on_scale_axis(Op::QUANTIZE, axis, |axis| {
            self.g.emit1(Op::QUANTIZE, &args, &QuantizeAttrs { axis, to, lo, hi, ste }.list())
        })
    }

    /// The real numbers `scale`·(q − `zero`) that these codes (`i8`, `u8` or `i32`) stand for, of the dtype of `scale`.
    /// `axis` is that of [`Quantize::axis`]. Errors are those of [`Var::quantize`].
    #[track_caller]
    pub fn dequantize(self, scale: Var<'g>, zero: impl Into<Option<Var<'g>>>, axis: impl Into<Option<i64>>) -> Var<'g> {
        let args: Vec<Var<'g>> = [self, scale].into_iter().chain(zero.into()).collect();
        self.on_scale_axis(Op::DEQUANTIZE, axis.into(), |axis| {
            self.g.emit1(Op::DEQUANTIZE, &args, &DequantizeAttrs { axis }.list())
        })
    }

    /// These numbers rounded to those that codes stand for, to train a network for codes: (clamp(round(x / `scale`) +
    /// `zero`, lo, hi) − `zero`)·`scale`, halves to even, with no zero point as 0. The derivative with respect to x is
    /// that of [`FakeSte`](crate::graph::quant::FakeSte); scales get none (see [`Var::lsq`]).
    /// `torch.fake_quantize_per_tensor_affine` and, with [`FakeQuantize::axis`],
    /// `torch.fake_quantize_per_channel_affine` are [`FakeQuantize::affine`].
    ///
    /// [`Var::symmetric_scale`] is the scale of a batch,
    /// [`Builder::fake_quantize`](crate::graph::Builder::fake_quantize) keeps a running one. Errors are those of
    /// [`Var::quantize`], and a range that is empty or beyond ±2²⁴.
    ///
    /// ```
    /// use arenagrad::graph::quant::FakeQuantize;
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("rounded");
    /// let x = g.input("x", [4], DType::F32);
    /// let y = x.fake_quantize(g.constant(&[0.25], []), None, FakeQuantize::bits(4)).named("y");
    /// let mut p = Session::new().compile(&g.finish([y])?)?;
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[0.3, -0.6, 1.7, -9.0]);
    /// p.step()?;
    /// assert_eq!(p.values::<f32>("y")?, [0.25, -0.5, 1.75, -1.75]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn fake_quantize(self, scale: Var<'g>, zero: impl Into<Option<Var<'g>>>, options: FakeQuantize) -> Var<'g> {
        let FakeQuantize { axis, range: (lo, hi), ste } = options;
        if self.is_some() && (lo, hi) == (0, 0) {
            return self.refuse("fake_quantize", "codes 0..=0; bits go from 2 to 8, and lo is below hi");
        }
        let args: Vec<Var<'g>> = [self, scale].into_iter().chain(zero.into()).collect();
        self.on_scale_axis(Op::FAKE_QUANTIZE, axis, |axis| {
            self.g.emit1(Op::FAKE_QUANTIZE, &args, &FakeQuantizeAttrs { axis, lo, hi, ste }.list())
        })
    }

    /// As [`Var::fake_quantize`] without a zero point, but `scale` is learned (LSQ): its gradient is κ·Σ ψ(x / scale)·ȳ
    /// with ψ(z) = round(z) − z in the range, and lo or hi outside of it; κ is
    /// [`LsqFactor`](crate::graph::quant::LsqFactor). The gradient with respect to x is ȳ in the range, 0 outside.
    /// [`Var::lsq_scale`] is the paper's first scale.
    ///
    /// ```
    /// use arenagrad::graph::quant::{Lsq, LsqFactor};
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("learned");
    /// let (w, s) = (g.param("w", [3], DType::F32, Init::Ones), g.param("s", [], DType::F32, Init::Constant(0.3)));
    /// let loss = w.lsq(s, Lsq::bits(4).factor(LsqFactor::Paper)).square().sum(..).named("loss");
    /// let step = train(&g.finish([loss])?, "loss", optim::Sgd::new(0.01))?; // learns w and s
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn lsq(self, scale: Var<'g>, options: Lsq) -> Var<'g> {
        let Lsq { axis, range: (lo, hi), factor } = options;
        if self.is_some() && hi <= lo && lo == 0 {
            return self.refuse("lsq", format!("codes {lo}..={hi}; bits go from 2 to 8, and lo is below hi"));
        }
        self.on_scale_axis(Op::LSQ, axis, |axis| {
            self.g.emit1(Op::LSQ, &[self, scale], &LsqAttrs { axis, lo, hi, factor }.list())
        })
    }

    /// The scale at which the largest |x| has the code `hi`: max(max|x| / `hi`, 10⁻¹²), as a constant for derivatives.
    /// With an axis there is one for each of its positions. `hi` is 1 or more.
    #[track_caller]
    pub fn symmetric_scale(self, hi: i64, axis: impl Into<Option<i64>>) -> Var<'g> {
        let Some(others) = self.axes_of_one_scale("symmetric_scale", hi, axis.into()) else { return self.none() };
        self.g.with_caller(|| {
            let largest = self.stop_gradient().abs().amax(others.as_slice());
            (largest / hi as f64).maximum(1e-12)
        })
    }

    /// The first scale of [`Var::lsq`]: 2·mean|x| / √hi, as a constant for derivatives. With an axis there is one for
    /// each of its positions. `hi` is 1 or more.
    #[track_caller]
    pub fn lsq_scale(self, hi: i64, axis: impl Into<Option<i64>>) -> Var<'g> {
        let Some(others) = self.axes_of_one_scale("lsq_scale", hi, axis.into()) else { return self.none() };
        self.g.with_caller(|| self.stop_gradient().abs().mean(others.as_slice()) * (2.0 / (hi as f64).sqrt()))
    }

    /// The axes whose elements have one scale: all but `axis`. `None` without a value, and, with an error of `what`, if
    /// `hi` is below 1 or there is no such axis.
    #[track_caller]
    fn axes_of_one_scale(self, what: &str, hi: i64, axis: Option<i64>) -> Option<Vec<i64>> {
        if self.is_some() && hi < 1 {
            self.refuse(what, format!("hi is {hi}; it is 1 or more"));
            return None;
        }
        let axis = match axis {
            Some(axis) => Some(self.axis_at(what, axis)? as i64),
            None => None,
        };
        self.is_some().then(|| (0..self.rank() as i64).filter(|&i| Some(i) != axis).collect())
    }
}

impl<'g> Var<'g> {
    /// The product of codes x `[.., k]` (`i8` or `u8`) with codes w `[k, n]` (`i8`): sums of (x − x_zp)·(w − w_zp) plus
    /// `bias`, computed exactly, as codes, sums or numbers ([`CodeProduct`]). Sums as `i32` wrap around if the bias
    /// makes them too large. `bias` is `i32[n]` and counts in steps of s_x·s_w; `scales` is `f32[n]`, the scale of each
    /// column of w in the place of s_w. An element of `scales` that is not above 0 and finite ends the step. Zero
    /// points of columns are [`CodeProduct::w_zps`]; they have no derivative.
    ///
    /// Derivatives pass through codes as through the real numbers that they stand for, as in [`Var::quantize`]: those
    /// by x, w and `bias` are `f32`. They are 0 where a code of the result is cut off, unless
    /// [`ProductSte`](crate::graph::quant::ProductSte) says otherwise. Scales have none.
    ///
    /// # Errors
    /// Those of [`Builder::finish`](crate::graph::Builder::finish): other types or shapes; a zero point that is no
    /// code; a scale that is not above 0 and finite; more than 33,000 terms of a sum, which could overflow; a zero
    /// point or scale of a result that has none.
    ///
    /// ```
    /// use arenagrad::graph::quant::{CodeProduct, Quantize};
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("codes");
    /// let (x, w) = (g.input("x", [2, 3], DType::F32), g.input("w", [3, 2], DType::F32));
    /// let (a, b) = (g.constant(&[0.01f32], []), g.constant(&[0.02f32], []));
    /// let (x, w) = (x.quantize(a, None, Quantize::i8()), w.quantize(b, None, Quantize::i8()));
    /// let options = CodeProduct::to_f32().s_x(0.01).s_w(0.02);
    /// let y = x.q_matmul(w, None, None, options).named("y");
    /// let mut p = Session::new().compile(&g.finish([y])?)?;
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[0.5, -1.0, 0.25, 1.0, 0.0, -0.5]);
    /// p.values_mut::<f32>("w")?.copy_from_slice(&[1.0, 2.0, -1.0, 0.5, 0.0, -2.0]);
    /// p.step()?;
    /// assert_eq!(p.values::<f32>("y")?, [1.5, 0.0, 1.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn q_matmul(
        self,
        w: Var<'g>,
        bias: impl Into<Option<Var<'g>>>,
        scales: impl Into<Option<Var<'g>>>,
        options: CodeProduct<'g>,
    ) -> Var<'g> {
        let scales = scales.into();
        let args: Vec<Var<'g>> = [self, w].into_iter().chain(bias.into()).chain(options.w_zps).chain(scales).collect();
        self.g.emit1(Op::Q_MATMUL, &args, &options.attrs(scales.is_some()).list())
    }

    /// The convolution of codes x `[N, C, H, W]` with codes w `[O, C/groups, kh, kw]`: as [`Var::q_matmul`] over the
    /// windows of [`Var::conv2d`], with `bias` and `scales` for each channel of the result. Padding has the code x_zp,
    /// so it counts as 0.
    #[track_caller]
    pub fn q_conv2d(
        self,
        w: Var<'g>,
        bias: impl Into<Option<Var<'g>>>,
        scales: impl Into<Option<Var<'g>>>,
        windows: Conv2d,
        options: CodeProduct<'g>,
    ) -> Var<'g> {
        let scales = scales.into();
        let args: Vec<Var<'g>> = [self, w].into_iter().chain(bias.into()).chain(options.w_zps).chain(scales).collect();
        let QMatmulAttrs { x_zp, w_zp, out_zp, s_x, s_w, s_out, to, zeros, scales, ste } =
            options.attrs(scales.is_some());
        let attrs = QConvAttrs {
            stride: size_attrs_to_i64(&windows.stride),
            pad: size_attrs_to_i64(&windows.pad),
            dilation: size_attrs_to_i64(&windows.dilation),
            groups: size_attr_to_i64(windows.groups),
            x_zp,
            w_zp,
            out_zp,
            s_x,
            s_w,
            s_out,
            to,
            zeros,
            scales,
            ste,
        };
        self.g.emit1(Op::Q_CONV2D, &args, &attrs.list())
    }
}

impl<'g> Var<'g> {
    /// The product of x `[.., k]` with coded weights, `[.., n]`. The weights are decoded while the product reads them,
    /// so their numbers never take memory. It has the bits of the product with [`CodedWeights::numbers`].
    ///
    /// Derivatives with respect to x, scales, zeros and codes are those of that product; errors are those of
    /// [`CodedWeights::numbers`].
    ///
    /// ```
    /// use arenagrad::graph::quant::{CodedWeights, WeightScheme, encode_weights};
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let (k, n, block) = (64, 8, 32);
    /// let w: Vec<f32> = (0..k * n).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    /// let encoded = encode_weights(WeightScheme::Int4, &w, [k, n], block)?;
    ///
    /// let g = Builder::new("small");
    /// let x = g.input("x", [1, k], DType::F32);
    /// let codes = g.buffer("w", [k * n / 2], DType::U8, Init::Zeros);
    /// let scales = g.buffer("scales", [k / block, n], DType::F32, Init::Zeros);
    /// let y = x.dequant_matmul(CodedWeights::new(WeightScheme::Int4, k, block, codes, scales)).named("y");
    /// let mut p = Session::new().compile(&g.finish([y])?)?;
    /// p.values_mut::<u8>("w")?.copy_from_slice(&encoded.codes);
    /// p.values_mut::<f32>("scales")?.copy_from_slice(&encoded.scales);
    /// p.values_mut::<f32>("x")?.fill(1.0);
    /// p.step()?;
    /// let exact: f32 = (0..k).map(|p| w[p * n]).sum();
    /// assert!((p.values::<f32>("y")?[0] - exact).abs() < 1.0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn dequant_matmul(self, w: CodedWeights<'g>) -> Var<'g> {
        self.multiply_same_weights(w, false)
    }

    /// As [`Var::dequant_matmul`] with the transpose of the weights: x `[.., n]` gives `[.., k]`.
    #[track_caller]
    pub fn dequant_matmul_t(self, w: CodedWeights<'g>) -> Var<'g> {
        self.multiply_same_weights(w, true)
    }

    #[track_caller]
    fn multiply_same_weights(self, w: CodedWeights<'g>, transposed: bool) -> Var<'g> {
        let CodedWeights { scheme, block, k, .. } = w;
        let attrs = DequantMatmulAttrs { scheme, block: size_attr_to_i64(block), k: size_attr_to_i64(k), transposed };
        let args = [vec![self], w.operands()].concat();
        self.g.emit1(Op::DEQUANT_MATMUL, &args, &attrs.list())
    }
}
