//! Ops that move elements. Each is linear, and its transpose is made of the others.

pub mod attrs;
mod batch;
pub mod diagonals_and_windows;
pub mod lower;
pub mod pad_mode;
pub mod var;

use crate::arena::dims::Dims;
use crate::ensure;
use crate::nodes::arguments::axes::{check_axes, check_axis};
use crate::nodes::arguments::dilate::dilate;
use crate::nodes::arguments::size_attrs::check_size_attrs;
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerFn;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::cost::cost_free;
use Domain::Real;
use attrs::{BarrierAttrs, ConcatAttrs, FlipAttrs, PadAttrs, SliceAttrs, ToShapeAttrs, TransposeAttrs};

/// An op that is recomputed rather than kept, and that moves codes as it moves reals.
const MOVES: Flags = Flags::PURE.and(Flags::MOVE).and(Flags::MOVES_CODES);

const fn define_move(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [Field],
    lower: LowerFn,
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs,
        flags: Flags::PURE.and(Flags::MOVES_CODES),
        infer: |cx| cx.same_as(0),
        deriv,
        batch: Batch::Leading,
        lower: Lower::Kernel(lower),
        cost: cost_free,
        cases: &[],
        ..OpDef::BLANK
    }
}

/// The same elements in another shape.
pub const RESHAPE: OpDef = OpDef {
    flags: MOVES.and(Flags::SAME_BYTES),
    infer: |cx| {
        let (from, to) = (cx.dims(0), cx.shapes.dims(ToShapeAttrs::of(&cx.attrs).shape));
        ensure!(from.numel() == to.numel(), "{} elements do not fit shape {to}", from.numel());
        let dtype = cx.dtype(0);
        cx.result(dtype, &to)
    },
    batch: Batch::Rule(batch::reshape_members),
    cases: &[
        Case { args: "f[3,4]", attrs: "shape=[2,6]", domains: &[Real] },
        Case { args: "f[1]", attrs: "shape=[]", domains: &[Real] },
        Case { args: "f[0,3]", attrs: "shape=[3,0,2]", domains: &[Real] },
    ],
    ..define_move(
        "reshape",
        "the same elements in row-major order, in another shape",
        ToShapeAttrs::FIELDS,
        |cx| {
            cx.view(0, 0, 0);
            Ok(())
        },
        Deriv::Linear(|s, _, g| Some(g.reshape(s.args[0].dims()))),
    )
};

const fn define_view(name: &'static str, doc: &'static str, deriv: Deriv) -> OpDef {
    OpDef {
        flags: Flags::PURE.and(Flags::MOVES_CODES).and(Flags::SAME_BYTES),
        cases: &[Case { args: "f[3,4]", attrs: "", domains: &[Real] }],
        ..define_move(
            name,
            doc,
            &[],
            |cx| {
                cx.view(0, 0, 0);
                Ok(())
            },
            deriv,
        )
    }
}

/// The operand, marked as a boundary of rematerialisation.
pub const CHECKPOINT: OpDef = define_view(
    "checkpoint",
    "y = x; under a memory budget, values between two checkpoints may be recomputed",
    Deriv::Linear(|_, _, g| Some(g)),
);

/// The operand, which no pass merges with its copies.
pub const OPTIMIZATION_BARRIER: OpDef = OpDef {
    attrs: BarrierAttrs::FIELDS,
    ..define_view(
        "optimization_barrier",
        "y = x; passes treat y as another value than x, so a computation that is repeated from y is not merged with \
        the original",
        Deriv::Linear(|_, _, g| Some(g)),
    )
};

/// The axes in another order.
pub const TRANSPOSE: OpDef = OpDef {
    flags: MOVES,
    infer: |cx| {
        let from = cx.dims(0);
        let perm = check_axes(&TransposeAttrs::of(&cx.attrs).perm, from.len())?;
        ensure!(perm.len() == from.len(), "perm has {} axes, the operand {}", perm.len(), from.len());
        let to: Vec<usize> = perm.iter().map(|&p| from[p]).collect();
        let dtype = cx.dtype(0);
        cx.result(dtype, &to)
    },
    batch: Batch::Rule(batch::transpose_members),
    cases: &[
        Case { args: "f[3,4]", attrs: "perm=[1,0]", domains: &[Real] },
        Case { args: "f[2,3,4]", attrs: "perm=[2,0,1]", domains: &[Real] },
        Case { args: "f[2,3,4,5]", attrs: "perm=[0,2,1,3]", domains: &[Real] },
        Case { args: "i64[33,70]", attrs: "perm=[1,0]", domains: &[Domain::Index(99)] },
    ],
    ..define_move(
        "transpose",
        "axis i of y is axis perm[i] of x",
        TransposeAttrs::FIELDS,
        lower::emit_transpose,
        Deriv::Linear(|s, _, g| {
            let perm = to_size_attrs(&TransposeAttrs::of(&s.attrs).perm);
            let mut back = vec![0; perm.len()];
            perm.iter().enumerate().for_each(|(i, &p)| back[p] = i);
            Some(g.permute(&back))
        }),
    )
};

/// Whether `from` broadcasts to `to`, last axes aligned.
fn broadcasts_to(from: &[usize], to: &[usize]) -> bool {
    from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(|(&a, &b)| a == b || a == 1)
}

/// Elements repeated along axes.
pub const BROADCAST: OpDef = OpDef {
    flags: MOVES,
    infer: |cx| {
        let (from, to) = (cx.dims(0), cx.shapes.dims(ToShapeAttrs::of(&cx.attrs).shape));
        ensure!(broadcasts_to(&from, &to), "shape {from} does not broadcast to {to}");
        let dtype = cx.dtype(0);
        cx.result(dtype, &to)
    },
    batch: Batch::Rule(batch::broadcast_members),
    cases: &[
        Case { args: "f[4]", attrs: "shape=[3,4]", domains: &[Real] },
        Case { args: "f[3,1]", attrs: "shape=[2,3,4]", domains: &[Real] },
        Case { args: "f[]", attrs: "shape=[5]", domains: &[Real] },
        Case { args: "f[2,1,3,1]", attrs: "shape=[2,4,3,5]", domains: &[Real] },
    ],
    ..define_move(
        "broadcast",
        "x repeated along axes of size 1 and along missing leading axes",
        ToShapeAttrs::FIELDS,
        lower::emit_broadcast,
        Deriv::Linear(|s, _, g| Some(g.unbroadcast(&s.args[0].dims()))),
    )
};

/// The size of each axis of a slice.
fn infer_slice_dims(cx: &Infer<'_>, from: &Dims) -> Result<Vec<usize>, String> {
    let a = SliceAttrs::of(&cx.attrs);
    let (starts, limits) = (check_size_attrs("starts", &a.starts)?, check_size_attrs("limits", &a.limits)?);
    let steps = check_size_attrs("steps", &a.steps)?;
    for (what, list) in [("starts", &starts), ("limits", &limits), ("steps", &steps)] {
        ensure!(list.len() == from.len(), "{what} has {} entries, the operand {} axes", list.len(), from.len());
    }
    (0..from.len())
        .map(|i| {
            let (a, b, p) = (starts[i], limits[i], steps[i]);
            ensure!(p > 0, "step 0 on axis {i}");
            ensure!(a <= b && b <= from[i], "{a}..{b} is not a range of axis {i}, which has {} elements", from[i]);
            Ok((b - a).div_ceil(p))
        })
        .collect()
}

/// A strided part of a tensor.
pub const SLICE: OpDef = OpDef {
    flags: MOVES,
    infer: |cx| {
        let from = cx.dims(0);
        let to = infer_slice_dims(cx, &from)?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &to)
    },
    batch: Batch::Rule(batch::slice_members),
    cases: &[
        Case { args: "f[5,6]", attrs: "starts=[1,0] limits=[4,6] steps=[1,1]", domains: &[Real] },
        Case { args: "f[5,6]", attrs: "starts=[0,1] limits=[5,6] steps=[2,3]", domains: &[Real] },
        Case { args: "f[7]", attrs: "starts=[3] limits=[3] steps=[1]", domains: &[Real] },
    ],
    ..define_move(
        "slice",
        "the elements starts..limits of each axis, in steps of `steps`",
        SliceAttrs::FIELDS,
        lower::emit_slice,
        Deriv::Linear(|s, _, g| {
            let from = s.args[0].dims();
            let a = SliceAttrs::of(&s.attrs);
            let (starts, steps) = (to_size_attrs(&a.starts), to_size_attrs(&a.steps));
            let strided = steps.iter().any(|&p| p > 1);
            let g = if strided { dilate(g, &steps) } else { g };
            let high: Vec<usize> =
                (0..from.len()).map(|i| from[i] - starts[i] - g.dims().get(i).copied().unwrap_or(0)).collect();
            Some(g.pad(&starts, &high, 0.0))
        }),
    )
};

/// The tangents, joined; zeros for an operand without one.
fn concat_tangent<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(dtype) = t.iter().flatten().next().map(|t| t.dtype()) else { return vec![None] };
    let zeros = |x: &Var<'g>| x.g.full(0.0, x.dims(), dtype);
    let parts: Vec<Var<'g>> = t.iter().zip(s.args).map(|(t, x)| t.unwrap_or_else(|| zeros(x))).collect();
    vec![s.rebuild_with(&parts).first().copied()]
}

/// The parts of the cotangent, cut in one walk over the operands.
fn concat_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], want: &[bool]) -> Vec<Option<Var<'g>>> {
    let Some(g) = ct[0] else { return vec![None; want.len()] };
    let axis = ConcatAttrs::of(&s.attrs).axis;
    let mut start = 0;
    let part = |(x, want): (&Var<'g>, &bool)| {
        let len = x.dims()[to_size_attr(axis)];
        start += len;
        want.then(|| g.narrow(axis, start - len, len))
    };
    s.args.iter().zip(want).map(part).collect()
}

/// Tensors joined along an axis.
pub const CONCAT: OpDef = OpDef {
    arity: Arity::AtLeast(1),
    infer: |cx| {
        let mut to = cx.dims(0);
        let axis = check_axis(ConcatAttrs::of(&cx.attrs).axis, to.len())?;
        let dtype = cx.dtype(0);
        for i in 1..cx.args.len() {
            cx.same_dtype(0, i)?;
            let d = cx.dims(i);
            let fits = d.len() == to.len() && (0..d.len()).all(|k| k == axis || d[k] == to[k]);
            ensure!(fits, "operand {i} of shape {d} does not join {} along axis {axis}", Infer::show_dims(&to));
            let sum = to[axis].checked_add(d[axis]).ok_or("the joined axis overflows")?;
            to.make_mut()[axis] = sum;
        }
        cx.result(dtype, &to)
    },
    batch: Batch::Rule(batch::concat_members),
    cases: &[
        Case { args: "f[2,3] f[4,3]", attrs: "axis=0", domains: &[Real] },
        Case { args: "f[2,3] f[2,1] f[2,2]", attrs: "axis=1", domains: &[Real] },
        Case { args: "i32[2,3,2] i32[2,0,2] i32[2,1,2]", attrs: "axis=1", domains: &[Domain::Index(5)] },
    ],
    ..define_move(
        "concat",
        "the operands, one after another along `axis`",
        ConcatAttrs::FIELDS,
        lower::emit_concat,
        Deriv::Rules(concat_tangent, concat_cotangents),
    )
};

/// A tensor with a border of one number.
pub const PAD: OpDef = OpDef {
    infer: |cx| {
        let mut to = cx.dims(0);
        let a = PadAttrs::of(&cx.attrs);
        let (low, high) = (check_size_attrs("low", &a.low)?, check_size_attrs("high", &a.high)?);
        ensure!(low.len() == to.len() && high.len() == to.len(), "low and high need {} entries each", to.len());
        cx.element(0, a.value)?;
        for (i, d) in to.make_mut().iter_mut().enumerate() {
            *d = d.checked_add(low[i]).and_then(|d| d.checked_add(high[i])).ok_or("the padded size overflows")?;
        }
        let dtype = cx.dtype(0);
        cx.result(dtype, &to)
    },
    batch: Batch::Rule(batch::pad_members),
    cases: &[
        Case { args: "f[3,4]", attrs: "low=[1,0] high=[0,2] value=0", domains: &[Real] },
        Case { args: "f[5]", attrs: "low=[2] high=[1] value=-1.5", domains: &[Real] },
    ],
    ..define_move(
        "pad",
        "x with `low` elements of `value` before and `high` after each axis",
        PadAttrs::FIELDS,
        lower::emit_pad,
        // Affine, not linear, when the value is not 0: the tangent is padded with 0.
        Deriv::Rules(
            |s, t| {
                let a = PadAttrs::of(&s.attrs);
                vec![t[0].map(|t| t.pad(&to_size_attrs(&a.low), &to_size_attrs(&a.high), 0.0))]
            },
            |s, ct, _| {
                let (low, from) = (to_size_attrs(&PadAttrs::of(&s.attrs).low), s.args[0].dims());
                let limits: Vec<usize> = low.iter().zip(from.iter()).map(|(a, n)| a + n).collect();
                vec![ct[0].map(|g| g.slice(&low, &limits, &vec![1; low.len()]))]
            },
        ),
    )
};

/// The elements of axes in reverse order.
pub const FLIP: OpDef = OpDef {
    flags: MOVES,
    infer: |cx| {
        let rank = cx.dims(0).len();
        check_axes(&FlipAttrs::of(&cx.attrs).axes, rank)?;
        cx.same_as(0)
    },
    batch: Batch::Rule(batch::flip_members),
    cases: &[
        Case { args: "f[3,4]", attrs: "axes=[1]", domains: &[Real] },
        Case { args: "f[3,4,2]", attrs: "axes=[0,2]", domains: &[Real] },
    ],
    ..define_move(
        "flip",
        "the elements in reverse order along `axes`",
        FlipAttrs::FIELDS,
        lower::emit_flip,
        Deriv::Linear(|s, _, g| Some(g.flip(FlipAttrs::of(&s.attrs).axes.as_slice()))),
    )
};
