//! Random ops: pure functions of a key (seed and step), a stream number and the element, so that they may be merged,
//! recomputed and split over threads without changing a bit. Source: Salmon et al., "Parallel random numbers: as easy
//! as 1, 2, 3" (Philox4x32-10).

pub mod attrs;
pub mod lower;
pub mod sample;
pub mod var;

use crate::arena::Shape;
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ops::common::cost::{cost_free, cost_per_result};
use crate::nodes::ops::random::attrs::{DrawAttrs, DropoutAttrs, RandomIntAttrs};
use Domain::{Bits, Real};

/// Checks that operand `i` is a random key.
pub(super) fn check_rng_key(cx: &Infer<'_>, i: usize) -> Result<(), String> {
    ensure!(cx.dtype(i) == DType::U32, "the key is {}; u32 is needed", cx.dtype(i));
    cx.expect_dims(i, "the key", &[4])
}

fn infer_draws(cx: &mut Infer<'_>) -> Result<(), String> {
    check_rng_key(cx, 0)?;
    let DrawAttrs { dtype, shape, .. } = DrawAttrs::of(&cx.attrs);
    ensure!(dtype.is_float(), "no draws of {dtype}; f32 or f64 is needed");
    cx.out.push(Ty { dtype, shape });
    Ok(())
}

/// Other numbers for each member, drawn as one tensor. Members with keys of their own are left to a loop.
fn batch_draws<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let a = DrawAttrs::of(&s.site.attrs);
    let shape = widen_shape(s, a.shape)?;
    s.emit(s.site.args, &DrawAttrs { shape, ..a }.list())
}

/// As [`batch_draws`], for whole numbers.
fn batch_integers<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let a = RandomIntAttrs::of(&s.site.attrs);
    let shape = widen_shape(s, a.shape)?;
    s.emit(s.site.args, &RandomIntAttrs { shape, ..a }.list())
}

/// The shape of the draws of all members, unless they have keys of their own.
fn widen_shape(s: &BatchSite<'_, '_>, one: Shape) -> Option<Shape> {
    let dims = s.site.g.shape_dims(one);
    s.site.g.shape(&[&[s.size], &dims[..]].concat()).filter(|_| !s.batched[0])
}

/// The definition of a random op of one operand, the key.
const fn define_op(name: &'static str, doc: &'static str, lower: Lower, cases: &'static [Case], deriv: Deriv) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: DrawAttrs::FIELDS,
        flags: Flags::PURE,
        infer: infer_draws,
        deriv,
        batch: Batch::Draws(batch_draws),
        lower,
        cost: |cx| 20 * cx.out(),
        cases,
        ..OpDef::BLANK
    }
}

const DRAWS: &[Case] = &[
    Case { args: "u32[4]", attrs: "stream=7 dtype=f32 shape=[3,5]", domains: &[Bits] },
    Case { args: "u32[4]", attrs: "stream=7 dtype=f64 shape=[1100]", domains: &[Bits] },
    Case { args: "u32[4]", attrs: "stream=0 dtype=f32 shape=[]", domains: &[Bits] },
];

/// Uniform draws from [0, 1).
pub const RNG_UNIFORM: OpDef = define_op(
    "rng_uniform",
    "uniform in [0, 1), of stream `stream` under the key",
    Lower::Kernel(lower::emit_rng_uniform),
    DRAWS,
    Deriv::Zero,
);

/// Draws from the standard normal distribution.
pub const RNG_NORMAL: OpDef = define_op(
    "rng_normal",
    "standard normal (Box–Muller), of stream `stream` under the key",
    Lower::Kernel(lower::emit_rng_normal),
    DRAWS,
    Deriv::Zero,
);

/// Draws of whole numbers.
pub const RNG_INT: OpDef = OpDef {
    attrs: RandomIntAttrs::FIELDS,
    infer: |cx| {
        check_rng_key(cx, 0)?;
        let RandomIntAttrs { low, high, dtype, shape, .. } = RandomIntAttrs::of(&cx.attrs);
        ensure!(dtype.is_index(), "no draws of {dtype}; i32 or i64 is needed");
        ensure!(low < high, "no whole number is in {low}..{high}");
        let (least, largest) =
            if dtype == DType::I32 { (i32::MIN.into(), i32::MAX.into()) } else { (i64::MIN, i64::MAX) };
        ensure!(low >= least && high - 1 <= largest, "{low}..{high} leaves the range of {dtype}");
        cx.out.push(Ty { dtype, shape });
        Ok(())
    },
    batch: Batch::Draws(batch_integers),
    ..define_op(
        "rng_int",
        "whole numbers from low to high − 1, equally likely to 2⁻⁶⁴, of stream `stream` under the key",
        Lower::Kernel(lower::emit_rng_int),
        &[
            Case { args: "u32[4]", attrs: "stream=7 low=-3 high=9 dtype=i32 shape=[3,5]", domains: &[Bits] },
            Case { args: "u32[4]", attrs: "stream=7 low=0 high=5000000000 dtype=i64 shape=[9000]", domains: &[Bits] },
            Case { args: "u32[4]", attrs: "stream=0 low=4 high=5 dtype=i32 shape=[]", domains: &[Bits] },
        ],
        Deriv::Zero,
    )
};

/// The random key of the next step.
pub const RNG_NEXT: OpDef = OpDef {
    attrs: &[],
    infer: |cx| {
        check_rng_key(cx, 0)?;
        cx.same_as(0)
    },
    cost: cost_free,
    batch: Batch::Members,
    ..define_op(
        "rng_next",
        "the key of the next step: its upper two words, a counter, plus 1",
        Lower::Kernel(lower::emit_rng_next),
        &[Case { args: "u32[4]", attrs: "", domains: &[Bits] }],
        Deriv::Zero,
    )
};

/// A random key made from a key and a number.
pub const RNG_FOLD: OpDef = OpDef {
    arity: Arity::Exactly(2),
    attrs: &[],
    infer: |cx| {
        check_rng_key(cx, 0)?;
        ensure!(cx.dtype(1) == DType::U32, "the number is {}; u32 is needed", cx.dtype(1));
        cx.expect_dims(1, "the number", &[])?;
        cx.same_as(0)
    },
    cost: cost_free,
    batch: Batch::Members,
    ..define_op(
        "rng_fold",
        "a key of the same step whose seed is made from the key's seed and a number",
        Lower::Kernel(lower::emit_rng_fold),
        &[Case { args: "u32[4] u32[]", attrs: "", domains: &[Bits] }],
        Deriv::Zero,
    )
};

/// Elements zeroed at random, the others scaled up.
pub const DROPOUT: OpDef = OpDef {
    arity: Arity::Exactly(2),
    attrs: DropoutAttrs::FIELDS,
    infer: |cx| {
        cx.float(0)?;
        check_rng_key(cx, 1)?;
        let p = DropoutAttrs::of(&cx.attrs).p;
        ensure!((0.0..=1.0).contains(&p), "p is {p}; it must lie in [0, 1]");
        cx.same_as(0)
    },
    decompose: Some(|s| {
        let (x, DropoutAttrs { p, stream }) = (s.args[0], DropoutAttrs::of(&s.attrs));
        let Ty { dtype, shape } = x.ty();
        let draw = s.g.emit1(Op::RNG_UNIFORM, &[s.args[1]], &DrawAttrs { stream, dtype, shape }.list());
        // Everything is dropped at p = 1: the scale must not be infinite.
        let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
        vec![draw.greater_equal(p).select(x * scale, x.full_like(0.0))]
    }),
    cost: cost_per_result,
    batch: Batch::ViaDecompose,
    ..define_op(
        "dropout",
        "y = 0 with probability p, x/(1 − p) else",
        Lower::Expand,
        &[
            Case { args: "f[3,5] u32[4]", attrs: "p=0.4 stream=3", domains: &[Real, Bits] },
            Case { args: "f[3,5] u32[4]", attrs: "p=1 stream=3", domains: &[Real, Bits] },
        ],
        Deriv::ViaDecompose,
    )
};
