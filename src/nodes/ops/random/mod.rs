//! Random ops: pure functions of a key (seed and step), a stream number and the element, so that they may be merged,
//! recomputed and split over threads without changing a bit. Source: Salmon et al., "Parallel random numbers: as easy
//! as 1, 2, 3" (Philox4x32-10).

pub mod lower;
pub mod var;
use super::{each, free};
use crate::ensure;
use crate::nodes::ir::attrs::{Attr, Field, Kind};
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use Domain::{Bits, Real};

/// Asks that operand `i` is a random key.
pub(super) fn key(cx: &Infer<'_>, i: usize) -> Result<(), String> {
    ensure!(cx.dtype(i) == DType::U32, "the key is {}; u32 is needed", cx.dtype(i));
    cx.expect_dims(i, "the key", &[4])
}

fn draws(cx: &mut Infer<'_>) -> Result<(), String> {
    key(cx, 0)?;
    let (dtype, shape) = (cx.attrs.dtype(1), cx.attrs.shape(2));
    ensure!(dtype.is_float(), "no draws of {dtype}; f32 or f64 is needed");
    cx.out.push(Ty { dtype, shape });
    Ok(())
}

const DRAW_ATTRS: &[Field] =
    &[Field::new("stream", Kind::Int), Field::new("dtype", Kind::DType), Field::new("shape", Kind::Shape)];

const fn row(name: &'static str, doc: &'static str, lower: Lower, cases: &'static [Case]) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: DRAW_ATTRS,
        flags: Flags::PURE,
        infer: draws,
        deriv: Deriv::Zero,
        decompose: None,
        lower,
        cost: |cx| 20 * cx.out(),
        cases,
    }
}

const DRAWS: &[Case] = &[
    Case { args: "u32[4]", attrs: "stream=7 dtype=f32 shape=[3,5]", domains: &[Bits] },
    Case { args: "u32[4]", attrs: "stream=7 dtype=f64 shape=[1100]", domains: &[Bits] },
    Case { args: "u32[4]", attrs: "stream=0 dtype=f32 shape=[]", domains: &[Bits] },
];

/// See `doc`.
pub const RNG_UNIFORM: OpDef =
    row("rng_uniform", "uniform in [0, 1), of stream `stream` under the key", Lower::Kernel(lower::rng_uniform), DRAWS);

/// See `doc`.
pub const RNG_NORMAL: OpDef = row(
    "rng_normal",
    "standard normal (Box–Muller), of stream `stream` under the key",
    Lower::Kernel(lower::rng_normal),
    DRAWS,
);

/// See `doc`.
pub const RNG_NEXT: OpDef = OpDef {
    attrs: &[],
    infer: |cx| {
        key(cx, 0)?;
        cx.same_as(0)
    },
    cost: free,
    ..row(
        "rng_next",
        "the key of the next step: its upper two words, a counter, plus 1",
        Lower::Kernel(lower::rng_next),
        &[Case { args: "u32[4]", attrs: "", domains: &[Bits] }],
    )
};

/// See `doc`.
pub const RNG_FOLD: OpDef = OpDef {
    arity: Arity::Exactly(2),
    attrs: &[],
    infer: |cx| {
        key(cx, 0)?;
        ensure!(cx.dtype(1) == DType::U32, "the number is {}; u32 is needed", cx.dtype(1));
        cx.expect_dims(1, "the number", &[])?;
        cx.same_as(0)
    },
    cost: free,
    ..row(
        "rng_fold",
        "a key of the same step whose seed is made from the key's seed and a number",
        Lower::Kernel(lower::rng_fold),
        &[Case { args: "u32[4] u32[]", attrs: "", domains: &[Bits] }],
    )
};

/// See `doc`.
pub const DROPOUT: OpDef = OpDef {
    arity: Arity::Exactly(2),
    attrs: &[Field::new("p", Kind::F64), Field::new("stream", Kind::Int)],
    infer: |cx| {
        cx.float(0)?;
        key(cx, 1)?;
        let p = cx.attrs.f64(0);
        ensure!((0.0..=1.0).contains(&p), "p is {p}; it must lie in [0, 1]");
        cx.same_as(0)
    },
    deriv: Deriv::ViaDecompose,
    decompose: Some(|s| {
        let (x, p) = (s.args[0], s.attrs.f64(0));
        let ty = x.ty();
        let attrs = [Attr::Int(s.attrs.int(1)), Attr::DType(ty.dtype), Attr::Shape(ty.shape)];
        let draw = s.g.emit1(Op::RNG_UNIFORM, &[s.args[1]], &attrs);
        // Everything is dropped at p = 1: the scale must not be infinite.
        let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
        vec![draw.greater_equal(p).select(x * scale, x.full_like(0.0))]
    }),
    cost: each,
    ..row(
        "dropout",
        "y = 0 with probability p, x/(1 − p) else",
        Lower::Expand,
        &[
            Case { args: "f[3,5] u32[4]", attrs: "p=0.4 stream=3", domains: &[Real, Bits] },
            Case { args: "f[3,5] u32[4]", attrs: "p=1 stream=3", domains: &[Real, Bits] },
        ],
    )
};
