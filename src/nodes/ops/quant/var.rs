//! Quantisation as methods of [`Var`].

use super::attrs::{CodeSte, DequantizeAttrs, FakeQuantizeAttrs, FakeSte, LsqAttrs, LsqFactor, QuantizeAttrs};
use crate::nodes::build::setters::setters;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;

/// Options of [`Var::quantize`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantize {
    /// The axis whose positions have a scale and a zero point each. Without one there is one of each. The default is
    /// none.
    pub axis: Option<i64>,
    /// The dtype of the codes, `i8` or `u8`.
    pub to: DType,
    /// The lowest and the highest code.
    pub range: (i64, i64),
    /// The derivative. The default is [`CodeSte::Clip`].
    pub ste: CodeSte,
}

impl Quantize {
    /// Codes −128 to 127.
    pub fn i8() -> Quantize {
        Quantize { axis: None, to: DType::I8, range: (-128, 127), ste: CodeSte::Clip }
    }

    /// Codes 0 to 255.
    pub fn u8() -> Quantize {
        Quantize { to: DType::U8, range: (0, 255), ..Quantize::i8() }
    }
}

setters! {
    [] Quantize { axis: i64 => Some(axis), range: (i64, i64), ste: CodeSte }
}

/// Options of [`Var::fake_quantize`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FakeQuantize {
    /// The axis whose positions have a scale and a zero point each. Without one there is one of each. The default is
    /// none.
    pub axis: Option<i64>,
    /// The lowest and the highest code.
    pub range: (i64, i64),
    /// The derivative by x.
    pub ste: FakeSte,
}

impl FakeQuantize {
    /// Codes of `bits` bits, 2 to 8, the same on both sides of 0: −127 to 127 for 8, −7 to 7 for 4, −1 to 1 for 2. The
    /// derivative is [`FakeSte::Clipped`].
    pub fn bits(bits: u32) -> FakeQuantize {
        let hi = if (2..=8).contains(&bits) { (1 << (bits - 1)) - 1 } else { 0 };
        FakeQuantize { axis: None, range: (-hi, hi), ste: FakeSte::Clipped }
    }

    /// Codes `lo` to `hi`, with torch's derivative, [`FakeSte::Saturated`].
    pub fn affine(lo: i64, hi: i64) -> FakeQuantize {
        FakeQuantize { axis: None, range: (lo, hi), ste: FakeSte::Saturated }
    }
}

setters! {
    [] FakeQuantize { axis: i64 => Some(axis), range: (i64, i64), ste: FakeSte }
}

/// Options of [`Var::lsq`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lsq {
    /// The axis whose positions have a scale each. Without one there is one. The default is none.
    pub axis: Option<i64>,
    /// The lowest and the highest code.
    pub range: (i64, i64),
    /// The factor of the gradient of a scale. The default is [`LsqFactor::One`].
    pub factor: LsqFactor,
}

impl Lsq {
    /// Signed codes of `bits` bits, 2 to 8, as of weights: −8 to 7 for 4.
    pub fn bits(bits: u32) -> Lsq {
        let n = if (2..=8).contains(&bits) { 1 << (bits - 1) } else { 0 };
        Lsq::codes(-n, n - 1)
    }

    /// Codes of `bits` bits, 2 to 8, from 0 on, as of what `relu` gives: 0 to 15 for 4.
    pub fn unsigned_bits(bits: u32) -> Lsq {
        Lsq::codes(0, if (2..=8).contains(&bits) { (1 << bits) - 1 } else { 0 })
    }

    /// Codes `lo` to `hi`.
    pub fn codes(lo: i64, hi: i64) -> Lsq {
        Lsq { axis: None, range: (lo, hi), factor: LsqFactor::One }
    }
}

setters! {
    [] Lsq { axis: i64 => Some(axis), range: (i64, i64), factor: LsqFactor }
}

impl<'g> Var<'g> {
    /// Codes of these real numbers: clamp(round(x / `scale`) + `zero`, lo, hi), halves to even, with no zero point as
    /// 0. NaN has the code of 0, and infinities have the codes at the ends.
    ///
    /// A code stands for the real number scale·(q − zero): derivatives pass through codes as through that number. So
    /// the derivative of `dequantize` after `quantize` is 1, and 0 where the code is cut off (see [`CodeSte`]). The
    /// gradient of a code is `f32`. Moves (`reshape`, `transpose`, slices, `concat` …) pass it on, and so do quantised
    /// ops; for any other op on codes the derivative is an error. Scales and zero points get no gradient here: see
    /// [`Var::lsq`].
    ///
    /// # Errors
    /// Those of [`Builder::finish`](crate::graph::Builder::finish): x is not `f32` or `f64`; `scale` is of another
    /// dtype, or not a scalar (with [`Quantize::axis`], not a vector of the axis' length); `zero` is not `i32` of the
    /// same shape; a range that the codes' dtype does not have. A scale that is no normal number above 0 ends the step.
    ///
    /// ```
    /// use arenagrad::graph::Quantize;
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
    /// `zero`, lo, hi) − `zero`)·`scale`, halves to even, with no zero point as 0. The derivative by x is that of
    /// [`FakeSte`]; scales get none (see [`Var::lsq`]). `torch.fake_quantize_per_tensor_affine` and, with
    /// [`FakeQuantize::axis`], `torch.fake_quantize_per_channel_affine` are [`FakeQuantize::affine`].
    ///
    /// [`Var::symmetric_scale`] is the scale of a batch,
    /// [`Builder::fake_quantize`](crate::graph::Builder::fake_quantize) keeps a running one. Errors are those of
    /// [`Var::quantize`], and a range that is empty or beyond ±2²⁴.
    ///
    /// ```
    /// use arenagrad::graph::FakeQuantize;
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
    /// with ψ(z) = round(z) − z in the range, and lo or hi outside of it; κ is [`LsqFactor`]. The gradient by x is ȳ in
    /// the range, 0 outside. [`Var::lsq_scale`] is the paper's first scale.
    ///
    /// ```
    /// use arenagrad::graph::{Lsq, LsqFactor};
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

    /// Calls `f` with the resolved `axis` of scales, if there is one. An axis out of range is an error of `op`.
    #[track_caller]
    pub(super) fn on_scale_axis(self, op: Op, axis: Option<i64>, f: impl FnOnce(Option<i64>) -> Var<'g>) -> Var<'g> {
        match axis {
            Some(axis) => self.on_axis(op, axis, |axis| f(Some(axis))),
            None => self.g.with_caller(|| f(None)),
        }
    }
}
