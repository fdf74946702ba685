//! Fake quantisation: real numbers rounded to those that codes stand for.

use super::attrs::{FakeQuantizeAttrs, FakeSte};
use super::quantize_dequantize::{quantize_inside_range, quantize_unclamped};
use super::scale::{align_to_axis, batch_quant_operands, check_code_range, check_quant_params, guard_positive};
use crate::ensure;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::quant::running_scale::QuantScale;
use Domain::{Index, Positive, Real};

/// Options of [`Var::fake_quantize`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FakeQuantize {
    /// The axis whose positions have a scale and a zero point each. Without one there is one of each. The default is
    /// none.
    pub axis: Option<i64>,
    /// The lowest and the highest code.
    pub range: (i64, i64),
    /// The derivative with respect to x.
    pub ste: FakeSte,
}

impl FakeQuantize {
    /// Codes of `bits` bits, 2 to 8, symmetric about 0: −127 to 127 for 8 bits, −7 to 7 for 4, −1 to 1 for 2. The
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
    [] FakeQuantize { axis: impl Into<Option<i64>> => axis.into(), range: (i64, i64), ste: FakeSte }
}

/// The zero point of the site as a float that broadcasts with x.
fn float_zero_point<'g>(s: &Site<'_, 'g>, axis: Option<i64>) -> Option<Var<'g>> {
    s.args.get(2).map(|z| align_to_axis(z.cast(s.args[0].dtype()), s.args[0], axis))
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, a) = (s.args[0], FakeQuantizeAttrs::of(&s.attrs));
    let code = quantize_unclamped(x, s.args[1], s.args.get(2).copied(), a.axis).clamp(a.lo as f64, a.hi as f64);
    let centred = float_zero_point(s, a.axis).map_or(code, |z| code - z);
    vec![centred * guard_positive(s.args[1], x, a.axis)]
}

/// `t` times the derivative of the result with respect to x.
fn pass_tangent_through<'g>(s: &Site<'_, 'g>, t: Var<'g>) -> Var<'g> {
    let (x, a) = (s.args[0], FakeQuantizeAttrs::of(&s.attrs));
    let scale = || guard_positive(s.args[1], x, a.axis);
    match a.ste {
        FakeSte::Identity => t,
        FakeSte::Saturated => {
            let code = quantize_unclamped(x, s.args[1], s.args.get(2).copied(), a.axis);
            quantize_inside_range(code, a.lo, a.hi, t)
        }
        FakeSte::Clipped => {
            let (s0, zero) = (scale(), float_zero_point(s, a.axis));
            let end = |code: i64| match zero {
                Some(z) => (code as f64 - z) * s0,
                None => s0 * code as f64,
            };
            let inside = x.greater_equal(end(a.lo)).logical_and(x.less_equal(end(a.hi)));
            inside.select(t, t.full_like(0.0))
        }
        FakeSte::Tanh => {
            let y = (x / (scale() * a.hi as f64)).tanh();
            t * (1.0 - y * y)
        }
        FakeSte::Hardtanh => t * (1.0 - x.abs() / (scale() * a.hi as f64)).relu(),
    }
}

/// Real numbers rounded to a grid, with a derivative.
pub const FAKE_QUANTIZE: OpDef = OpDef {
    name: "fake_quantize",
    doc: "y = (clamp(round(x·(1/s)) + z, lo, hi) − z)·s, halves to even, with scale s and zero point z (0 without \
        one); the derivative with respect to x is `ste`, to s it is 0",
    arity: Arity::Between(2, 3),
    attrs: FakeQuantizeAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::STRAIGHT),
    infer: |cx| {
        let a = FakeQuantizeAttrs::of(&cx.attrs);
        let dtype = cx.float(0)?;
        check_quant_params(cx, a.axis)?;
        ensure!(cx.dtype(1) == dtype, "the scale is {}, and x is {dtype}; cast one of them", cx.dtype(1));
        check_code_range(a.lo, a.hi)?;
        let symmetric = a.lo == -a.hi && cx.args.len() == 2;
        let any = !matches!(a.ste, FakeSte::Tanh | FakeSte::Hardtanh);
        ensure!(any || symmetric, "tanh and hardtanh need a range −hi..=hi without a zero point");
        cx.same_as(0)
    },
    deriv: Deriv::Rules(
        |s, t| vec![t[0].map(|t| pass_tangent_through(s, t))],
        |s, ct, _| {
            let x = ct[0].map(|g| pass_tangent_through(s, g));
            [x, None, None].into_iter().take(s.args.len()).collect()
        },
    ),
    batch: Batch::Rule(|s| {
        let a = FakeQuantizeAttrs::of(&s.site.attrs);
        let (args, axis) = batch_quant_operands(s, a.axis, &[1, 2])?;
        s.emit(&args, &FakeQuantizeAttrs { axis, ..a }.list())
    }),
    decompose: Some(decompose_node),
    lower: Lower::Expand,
    cost: |cx| 6 * cx.out(),
    cases: &[
        Case { args: "f[3,5] f[]", attrs: "lo=-7 hi=7 ste=identity", domains: &[Real, Positive] },
        Case { args: "f[3,5] f[]", attrs: "lo=-1 hi=1 ste=clipped", domains: &[Real, Positive] },
        Case { args: "f[3,5,2] f[5] i32[5]", attrs: "axis=1 lo=0 hi=3 ste=saturated", domains: CHANNELS },
        Case { args: "f[4,300] f[300]", attrs: "axis=1 lo=-1 hi=1 ste=tanh", domains: &[Real, Positive] },
        Case { args: "f[4,5] f[4]", attrs: "axis=0 lo=-3 hi=3 ste=hardtanh", domains: &[Real, Positive] },
        Case { args: "f[0,3] f[3]", attrs: "axis=1 lo=-8 hi=7 ste=clipped", domains: &[Real, Positive] },
        Case { args: "f[] f[] i32[]", attrs: "lo=-8 hi=7 ste=saturated", domains: CHANNELS },
    ],
    ..OpDef::BLANK
};

const CHANNELS: &[Domain] = &[Real, Positive, Index(3)];

impl Builder {
    /// [`Var::fake_quantize`] without a zero point, with scales from `scale`. The range of `options` is that of codes
    /// on both sides of 0, or from 0 on. `name` is that of the state `name.scale` of [`QuantScale::Ema`].
    ///
    /// # Errors
    /// Those of [`Var::fake_quantize`]; a range whose lowest code is above 0 or whose highest one is below 1, unless
    /// the scales are [`QuantScale::Fixed`].
    ///
    /// ```
    /// use arenagrad::graph::quant::{FakeQuantize, QuantScale};
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("layer");
    /// let x = g.input("x", [2], DType::F32);
    /// let y = g.fake_quantize("in", x, FakeQuantize::bits(4), QuantScale::Ema(0.9)).named("y");
    /// let mut p = Session::new().compile(&g.finish([y])?)?;
    /// p.init(0)?;
    /// for (largest, scale) in [(1.4, 0.2), (0.7, 0.19), (2.1, 0.201)] {
    ///     p.values_mut::<f32>("x")?.copy_from_slice(&[0.1, largest]);
    ///     p.step()?;
    ///     assert!((p.values::<f32>("in.scale")?[0] - scale).abs() < 1e-6);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn fake_quantize<'g>(
        &'g self,
        name: &str,
        x: Var<'g>,
        options: FakeQuantize,
        scale: QuantScale<'g>,
    ) -> Var<'g> {
        let (lo, hi) = options.range;
        let fixed = matches!(scale, QuantScale::Fixed(_)) || (lo, hi) == (0, 0);
        if x.is_some() && !fixed && (lo > 0 || hi < 1) {
            let why = format!("codes {lo}..={hi}; with a scale of the batch, lo is 0 or less and hi 1 or more");
            return x.refuse("fake_quantize", why);
        }
        self.with_caller(|| {
            let hi = hi.max(1);
            let scale = match scale {
                QuantScale::PerBatch => x.symmetric_scale(hi, options.axis),
                QuantScale::Ema(decay) => self.running_scale(name, x, hi, options.axis, decay),
                QuantScale::Fixed(scale) => scale,
            };
            x.fake_quantize(scale, None, options)
        })
    }
}
