//! The selective scan of S6 layers: a recurrence with a diagonal decay, whose decay, input and output depend on the
//! step.

use super::PACK;
use super::attrs::{SelectiveScanAttrs, SelectiveScanBackwardAttrs};
use super::lower;
use super::selective_scan_steps::ScanSteps;
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Positive, Real, Unit};

/// The sizes of a selective scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectiveScanShape {
    /// Sequences.
    pub batch: usize,
    /// Steps of each.
    pub steps: usize,
    /// Channels.
    pub channels: usize,
    /// Numbers of the state of a channel.
    pub states: usize,
}

/// Checks the operands of a scan. There are `first` others before them and `after` behind them.
pub(super) fn check_scan_operands(cx: &Infer<'_>, first: usize, after: usize) -> Result<SelectiveScanShape, String> {
    let SelectiveScanAttrs { d, h0 } = SelectiveScanAttrs::of(&cx.attrs);
    let end = first + 5 + usize::from(d) + usize::from(h0);
    let (have, need) = (cx.args.len(), end + after);
    ensure!(have == need, "{have} operands; with d={d} and h0={h0} there are {need}");
    cx.float(0)?;
    (1..have).try_for_each(|i| cx.same_dtype(0, i))?;
    let [x, a] = [cx.rank(first, "x", 3)?, cx.rank(first + 2, "a", 2)?];
    let (batch, steps, channels, states) = (x[0], x[1], x[2], a[1]);
    ensure!(channels > 0 && states > 0, "x has shape {x} and a has shape {a}; a channel and a state are needed");
    cx.expect_dims(first + 1, "delta", &x)?;
    cx.expect_dims(first + 2, "a", &[channels, states])?;
    cx.expect_dims(first + 3, "b", &[batch, steps, states])?;
    cx.expect_dims(first + 4, "c", &[batch, steps, states])?;
    if d {
        cx.expect_dims(first + 5, "d", &[channels])?;
    }
    if h0 {
        cx.expect_dims(end - 1, "h0", &[batch, channels, states])?;
    }
    Ok(SelectiveScanShape { batch, steps, channels, states })
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let SelectiveScanShape { batch, channels, states, .. } = check_scan_operands(cx, 0, 0)?;
    cx.same_as(0)?;
    cx.result(cx.dtype(0), &[batch, channels, states])
}

fn infer_backward_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let last = SelectiveScanBackwardAttrs::of(&cx.attrs).last;
    let shape = check_scan_operands(cx, 1 + usize::from(last), 0)?;
    infer_scan_gradients(cx, last, &shape)
}

/// Checks the cotangents, and adds the results of a backward op.
pub(super) fn infer_scan_gradients(cx: &mut Infer<'_>, last: bool, shape: &SelectiveScanShape) -> Result<(), String> {
    let SelectiveScanAttrs { d, h0 } = SelectiveScanAttrs::of(&cx.attrs);
    let (dtype, SelectiveScanShape { batch, steps, channels, states }) = (cx.dtype(0), *shape);
    cx.expect_dims(0, "dy", &[batch, steps, channels])?;
    if last {
        cx.expect_dims(1, "dlast", &[batch, channels, states])?;
    }
    cx.same_as(0)?;
    cx.same_as(0)?;
    cx.result(dtype, &[batch, channels, states])?;
    cx.result(dtype, &[batch, steps, states])?;
    cx.result(dtype, &[batch, steps, states])?;
    if d {
        cx.result(dtype, &[batch, channels])?;
    }
    if h0 {
        cx.result(dtype, &[batch, channels, states])?;
    }
    Ok(())
}

/// `each` operations for each number of the states at each step. There are `after` operands behind those of the scan.
pub(super) fn count_state_flops(cx: &CostCx<'_>, after: usize, each: u64) -> u64 {
    let operands = cx.graph.args_of(cx.node);
    // Operand 0 is x, or the gradient of y, which has its shape. A has as many columns as the states have numbers.
    let first = operands.len().saturating_sub(count_operands(cx) + after);
    let states = operands.get(first + 2).and_then(|a| cx.graph.dims(*a).last().copied()).unwrap_or(0);
    cx.arg(0).saturating_mul(states as u64).saturating_mul(each)
}

/// The number of operands of the scan.
fn count_operands(cx: &CostCx<'_>) -> usize {
    let SelectiveScanAttrs { d, h0 } = SelectiveScanAttrs::of(&cx.graph.attrs(cx.node));
    5 + usize::from(d) + usize::from(h0)
}

fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    match t.iter().any(Option::is_some) {
        true => ScanSteps::of(s, 0).jvp(t).map(Some).into(),
        false => vec![None, None],
    }
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let (dy, dlast) = match ct {
        [None, None] => return vec![None; s.args.len()],
        [dy, dlast] => (dy.unwrap_or_else(|| s.outs[0].full_like(0.0)), *dlast),
        _ => return vec![None; s.args.len()],
    };
    let SelectiveScanAttrs { d, h0 } = SelectiveScanAttrs::of(&s.attrs);
    let args: Vec<Var<'g>> = [Some(dy), dlast].into_iter().flatten().chain(s.args.iter().copied()).collect();
    let attrs = SelectiveScanBackwardAttrs { d, h0, last: dlast.is_some() };
    let all = s.g.emit(Op::SELECTIVE_SCAN_BACKWARD, &args, &attrs.list());
    // The op has A and D apart for each member of the batch.
    let over_batch = |i: usize| i == 2 || (d && i == 5);
    all.iter().enumerate().map(|(i, &g)| Some(if over_batch(i) { g.sum(0) } else { g })).collect()
}

/// The members of a batch as further sequences, if A and D are the same for all: results are apart for each sequence.
fn batch_node<'g>(s: &BatchSite<'_, 'g>, first: usize) -> Option<Vec<Var<'g>>> {
    let d = SelectiveScanAttrs::of(&s.site.attrs).d;
    let shared = |i: usize| i == first + 2 || (d && i == first + 5);
    let operands = 0..s.batched.len();
    if operands.clone().any(|i| shared(i) && s.batched[i]) {
        return None;
    }
    let args: Vec<Var<'g>> =
        operands.map(|i| if shared(i) { s.site.args[i] } else { s.arg(i).flatten(0, 1) }).collect();
    let own = s.arg(0).axis_len(1)?;
    Some(s.site.rebuild_with(&args).into_iter().map(|y| y.unflatten(0, &[s.size, own])).collect())
}

/// The selective scan of a sequence: a linear recurrence whose decay, input and output depend on the step.
pub const SELECTIVE_SCAN: OpDef = OpDef {
    name: "selective_scan",
    doc: "h_t = exp(Δ_t·A)∘h_(t−1) + Δ_t·B_t·x_t, y_t = Σₙ C_t·h_t + D∘x_t; y and the last h, from (x, Δ, A, B, C[, D][, h_0]): \
          x, Δ [B,S,H], A [H,N], B, C [B,S,N], D [H], h_0 [B,H,N], else 0; A = −∞ has the decay 0 for Δ > 0, and 1 \
          for Δ = 0",
    arity: Arity::Between(5, 7),
    attrs: SelectiveScanAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Rule(|s| batch_node(s, 0)),
    decompose: Some(|s| ScanSteps::of(s, 0).forward().into()),
    lower: Lower::Kernel(lower::emit_selective_scan),
    cost: |cx| count_state_flops(cx, 0, 6),
    cases: &[
        Case {
            args: "f[2,5,3] f[2,5,3] f[3,4] f[2,5,4] f[2,5,4]",
            attrs: "d=false h0=false",
            domains: &[Real, Positive, Unit, Real, Real],
        },
        Case {
            args: "f[1,3,2] f[1,3,2] f[2,2] f[1,3,2] f[1,3,2] f[2] f[1,2,2]",
            attrs: "d=true h0=true",
            domains: &[Real, Positive, Unit, Real, Real, Real, Real],
        },
        // Units are runs of channels; the last vector is not full.
        Case {
            args: "f[2,7,37] f[2,7,37] f[37,2] f[2,7,2] f[2,7,2] f[37]",
            attrs: "d=true h0=false",
            domains: &[Real, Positive, Unit],
        },
        Case {
            args: "f[3,4,2] f[3,4,2] f[2,1] f[3,4,1] f[3,4,1] f[3,2,1]",
            attrs: "d=false h0=true",
            domains: &[Real, Positive, Unit, Real],
        },
        Case {
            args: "f[2,0,3] f[2,0,3] f[3,2] f[2,0,2] f[2,0,2] f[2,3,2]",
            attrs: "d=false h0=true",
            domains: &[Real, Positive, Unit, Real],
        },
        Case {
            args: "f[1,1,1] f[1,1,1] f[1,1] f[1,1,1] f[1,1,1]",
            attrs: "d=false h0=false",
            domains: &[Real, Positive, Unit, Real],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

/// The cotangents of the operands of [`SELECTIVE_SCAN`].
pub const SELECTIVE_SCAN_BACKWARD: OpDef = OpDef {
    name: "selective_scan_backward",
    doc: "dx, dΔ [B,S,H], dA [B,H,N], dB, dC [B,S,N][, dD [B,H]][, dh_0 [B,H,N]] of selective_scan, from \
          (dy[, dlast], x, Δ, A, B, C[, D][, h_0]), dlast the gradient of the last h",
    arity: Arity::Between(6, 9),
    attrs: SelectiveScanBackwardAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_backward_types,
    deriv: Deriv::ViaDecompose,
    batch: Batch::Rule(|s| batch_node(s, 1 + usize::from(SelectiveScanBackwardAttrs::of(&s.site.attrs).last))),
    decompose: Some(|s| {
        let last = SelectiveScanBackwardAttrs::of(&s.attrs).last;
        let scan = ScanSteps::of(s, 1 + usize::from(last));
        scan.backward(scan.states_before_steps(), s.args[0], last.then(|| s.args[1]))
    }),
    lower: Lower::Kernel(lower::emit_selective_scan_backward),
    cost: |cx| count_state_flops(cx, 0, 26),
    cases: &[
        Case {
            args: "f[2,5,3] f[2,5,3] f[2,5,3] f[3,4] f[2,5,4] f[2,5,4]",
            attrs: "d=false h0=false last=false",
            domains: &[Real, Real, Positive, Unit, Real, Real],
        },
        Case {
            args: "f[1,3,2] f[1,2,2] f[1,3,2] f[1,3,2] f[2,2] f[1,3,2] f[1,3,2] f[2] f[1,2,2]",
            attrs: "d=true h0=true last=true",
            domains: &[Real, Real, Real, Positive, Unit, Real],
        },
        Case {
            args: "f[2,7,37] f[2,7,37] f[2,7,37] f[37,2] f[2,7,2] f[2,7,2] f[37]",
            attrs: "d=true h0=false last=false",
            domains: &[Unit, Unit, Positive, Unit],
        },
        Case {
            args: "f[3,4,2] f[3,2,1] f[3,4,2] f[3,4,2] f[2,1] f[3,4,1] f[3,4,1] f[3,2,1]",
            attrs: "d=false h0=true last=true",
            domains: &[Real, Real, Real, Positive, Unit, Real],
        },
        Case {
            args: "f[2,0,3] f[2,3,2] f[2,0,3] f[2,0,3] f[3,2] f[2,0,2] f[2,0,2] f[3] f[2,3,2]",
            attrs: "d=true h0=true last=true",
            domains: &[Real, Real, Real, Positive, Unit, Real],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
