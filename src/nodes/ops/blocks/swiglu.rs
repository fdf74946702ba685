//! Gated units whose two halves are side by side in one operand, as one product of packed weights writes them.
//!
//! The kernel is a tile program with two strided reads of the operand: neither half is copied out first.

use crate::arena::dims::Dims;
use crate::ensure;
use crate::kernels::tile::{Access, Input, TileOp, TileProgram, TileStep};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::blocks::attrs::SwigluAttrs;
use crate::nodes::ops::blocks::{block_op, check_block_input, check_block_weight};
use crate::nodes::ops::common::lowering::kernel_dtype;
use crate::nodes::ops::pointwise::map::{MapProgram, emit_program};
use Domain::Real;

/// The offsets of the value and of the gate in a row of two halves of `n`.
fn half_offsets(gate_first: bool, n: usize) -> [usize; 2] {
    if gate_first { [n, 0] } else { [0, n] }
}

/// Half of the last axis.
fn halve_last_axis(d: &Dims) -> usize {
    d.last().map_or(0, |n| n / 2)
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.float(0)?;
    let mut d = cx.dims(0);
    let n = halve_last_axis(&d);
    let last = d.make_mut().last_mut().ok_or("x is a scalar; it needs an axis of two halves")?;
    ensure!(*last == 2 * n, "the last axis is {last}; two halves need an even one");
    *last = n;
    let SwigluAttrs { to, .. } = SwigluAttrs::of(&cx.attrs);
    ensure!(to.is_float(), "to is {to}; f32 or f64 is needed");
    cx.result(to, &d)
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let x = s.args[0];
    let n = halve_last_axis(&x.dims());
    let SwigluAttrs { gate_first, to } = SwigluAttrs::of(&s.attrs);
    let [value, gate] = half_offsets(gate_first, n).map(|at| x.narrow(-1, at, n));
    vec![(gate.silu() * value).cast(to)]
}

fn lower_node(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let n = halve_last_axis(&cx.arg_dims(0));
    let rows = cx.arg_dims(0).numel() / (2 * n).max(1);
    let (from, to) = (kernel_dtype(cx.dtype(0))?, kernel_dtype(cx.out(0).dtype)?);
    let view = |base| Input {
        elem: from,
        access: Access::Strided { dims: vec![rows, n], strides: vec![2 * n as isize, 1], base },
    };
    let SwigluAttrs { gate_first, .. } = SwigluAttrs::of(&cx.attrs());
    let mut p =
        TileProgram { inputs: half_offsets(gate_first, n).map(view).to_vec(), len: rows * n, ..TileProgram::default() };
    p.steps =
        vec![TileStep::new(TileOp::Silu, from, &[1], [0.0; 2]), TileStep::new(TileOp::Mul, from, &[2, 0], [0.0; 2])];
    if from != to {
        p.steps.push(TileStep::cast(from, to, 3));
    }
    p.outputs = vec![1 + p.steps.len() as u16];
    p.check().map_err(str::to_string)?;
    emit_program(cx, MapProgram::new(p, vec![0, 0]));
    Ok(())
}

/// A gated linear unit with SiLU, on two halves of one tensor.
pub const SWIGLU: OpDef = OpDef {
    name: "swiglu",
    doc: "y = silu(gate)·value in type `to`; the last axis of x is value, then gate, or gate, then value if \
        `gate_first`",
    arity: Arity::Exactly(1),
    attrs: SwigluAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED),
    infer: infer_types,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Kernel(lower_node),
    cost: |cx| 6 * cx.out(),
    cases: &[
        Case { args: "f[3,8]", attrs: "gate_first=false to=f64", domains: &[Real] },
        Case { args: "f[2,3,10]", attrs: "gate_first=true to=f64", domains: &[Real] },
        Case { args: "f[5,66]", attrs: "gate_first=true to=f32", domains: &[Real] },
        Case { args: "f[2,4200]", attrs: "gate_first=false to=f32", domains: &[Real] },
        Case { args: "f[6]", attrs: "gate_first=true to=f64", domains: &[Real] },
    ],
    ..OpDef::BLANK
};

/// `(silu(x·gate)·(x·up))·down`.
pub(super) fn gated_feed_forward<'g>(x: Var<'g>, up: Var<'g>, gate: Var<'g>, down: Var<'g>) -> Var<'g> {
    (x.matmul(gate).silu() * x.matmul(up)).matmul(down)
}

/// A gated feed-forward layer with SiLU.
pub const SWIGLU_BLOCK: OpDef = OpDef {
    name: "swiglu_block",
    doc: "y = (silu(x·gate)·(x·up))·down, from (x, up, gate, down)",
    arity: Arity::Exactly(4),
    infer: |cx| {
        let mut d = check_block_input(cx, 2)?;
        let k = d.pop().unwrap_or(0);
        let inner = check_block_weight(cx, 1, "up", k)?;
        cx.same_dtype(0, 2)?;
        cx.expect_dims(2, "gate", &[k, inner])?;
        d.push(check_block_weight(cx, 3, "down", inner)?);
        cx.result(cx.dtype(0), &d)
    },
    cases: &[
        Case { args: "f[3,4] f[4,5] f[4,5] f[5,4]", attrs: "", domains: &[Real] },
        Case { args: "f[2,3,4] f[4,6] f[4,6] f[6,2]", attrs: "", domains: &[Real] },
    ],
    ..block_op(Deriv::ViaDecompose, |s| vec![gated_feed_forward(s.args[0], s.args[1], s.args[2], s.args[3])])
};
