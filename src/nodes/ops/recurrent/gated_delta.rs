//! The gated delta rule of gated DeltaNets. The state is a matrix. Each step multiplies it by a decay, then changes it
//! so that it maps the step's key closer to the step's value.

use super::PACK;
use super::attrs::{GatedDeltaAttrs, GatedDeltaBackwardAttrs};
use super::gated_delta_steps::DeltaSteps;
use super::lower;
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Chance, Real, Unit};

/// The sizes of a gated delta rule.
#[derive(Clone, Copy, Debug, PartialEq)]
struct GatedDeltaOpShape {
    batch: usize,
    steps: usize,
    heads: usize,
    keys: usize,
    values: usize,
}

impl GatedDeltaOpShape {
    fn state(&self) -> [usize; 4] {
        [self.batch, self.heads, self.keys, self.values]
    }

    fn outputs(&self) -> [usize; 4] {
        [self.batch, self.steps, self.heads, self.values]
    }
}

/// Checks the operands of a rule, which begin with `first`: there are `first` others.
fn check_operands(cx: &Infer<'_>, first: usize) -> Result<GatedDeltaOpShape, String> {
    let GatedDeltaAttrs { state } = GatedDeltaAttrs::of(&cx.attrs);
    let (have, need) = (cx.args.len(), first + 5 + usize::from(state));
    ensure!(have == need, "{have} operands; with state={state} there are {need}");
    cx.float(0)?;
    (1..have).try_for_each(|i| cx.same_dtype(0, i))?;
    let (q, v) = (cx.rank(first, "q", 4)?, cx.rank(first + 2, "v", 4)?);
    let s = GatedDeltaOpShape { batch: q[0], steps: q[1], heads: q[2], keys: q[3], values: v[3] };
    let full = s.heads > 0 && s.keys > 0 && s.values > 0;
    ensure!(full, "q has shape {q} and v has shape {v}; heads, keys and values must not be empty");
    cx.expect_dims(first + 1, "k", &q)?;
    cx.expect_dims(first + 2, "v", &s.outputs())?;
    cx.expect_dims(first + 3, "g", &q[..3])?;
    cx.expect_dims(first + 4, "beta", &q[..3])?;
    if state {
        cx.expect_dims(first + 5, "state", &s.state())?;
    }
    Ok(s)
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let (s, dtype) = (check_operands(cx, 0)?, cx.dtype(0));
    cx.result(dtype, &s.outputs())?;
    cx.result(dtype, &s.state())
}

fn infer_backward_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let GatedDeltaBackwardAttrs { state, last } = GatedDeltaBackwardAttrs::of(&cx.attrs);
    let first = 1 + usize::from(last);
    let s = check_operands(cx, first)?;
    cx.expect_dims(0, "do", &s.outputs())?;
    if last {
        cx.expect_dims(1, "dlast", &s.state())?;
    }
    (first..first + 5 + usize::from(state)).try_for_each(|i| cx.same_as(i))
}

/// `each` operations for each number of the states at each step.
fn count_flops(cx: &CostCx<'_>, each: u64) -> u64 {
    let operands = cx.graph.args_of(cx.node);
    let own = 5 + usize::from(GatedDeltaAttrs::of(&cx.graph.attrs(cx.node)).state);
    let first = operands.len().saturating_sub(own);
    let keys = operands.get(first).and_then(|q| cx.graph.dims(*q).last().copied()).unwrap_or(0);
    cx.arg(first + 2).saturating_mul(keys as u64).saturating_mul(each)
}

fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    match t.iter().any(Option::is_some) {
        true => DeltaSteps::of(s, 0).jvp(t).map(Some).into(),
        false => vec![None, None],
    }
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let (grad, dlast) = match ct {
        [None, None] => return vec![None; s.args.len()],
        [grad, dlast] => (grad.unwrap_or_else(|| s.outs[0].full_like(0.0)), *dlast),
        _ => return vec![None; s.args.len()],
    };
    let GatedDeltaAttrs { state } = GatedDeltaAttrs::of(&s.attrs);
    let args: Vec<Var<'g>> = [Some(grad), dlast].into_iter().flatten().chain(s.args.iter().copied()).collect();
    let attrs = GatedDeltaBackwardAttrs { state, last: dlast.is_some() };
    s.g.emit(Op::GATED_DELTA_NET_BACKWARD, &args, &attrs.list()).iter().map(|&g| Some(g)).collect()
}

/// The gated delta rule: a matrix for each head that fades, and that each step moves so that its key gives its value.
pub const GATED_DELTA_NET: OpDef = OpDef {
    name: "gated_delta_net",
    doc: "T = exp(g_t)·S_(t−1), S_t = T + k_t·(β_t·(v_t − Tᵀk_t))ᵀ, o_t = S_tᵀq_t/√N; o and the last S, from (q, k, v, g, β[, S_0]): \
          q, k [B,S,H,N], v, o [B,S,H,M], g, β [B,S,H], S [B,H,N,M], at first 0 without S_0; g = −∞ forgets",
    arity: Arity::Between(5, 6),
    attrs: GatedDeltaAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Rule(|s| s.merged()),
    decompose: Some(|s| DeltaSteps::of(s, 0).forward().into()),
    lower: Lower::Kernel(lower::emit_gated_delta_net),
    cost: |cx| count_flops(cx, 8),
    cases: &[
        Case {
            args: "f[2,4,1,3] f[2,4,1,3] f[2,4,1,2] f[2,4,1] f[2,4,1]",
            attrs: "state=false",
            domains: &[Real, Unit, Real, Unit, Chance],
        },
        Case {
            args: "f[1,3,2,2] f[1,3,2,2] f[1,3,2,3] f[1,3,2] f[1,3,2] f[1,2,2,3]",
            attrs: "state=true",
            domains: &[Real, Unit, Real, Unit, Chance, Real],
        },
        Case {
            args: "f[2,5,3,17] f[2,5,3,17] f[2,5,3,18] f[2,5,3] f[2,5,3]",
            attrs: "state=false",
            domains: &[Unit, Unit, Unit, Unit, Chance],
        },
        Case {
            args: "f[1,0,2,2] f[1,0,2,2] f[1,0,2,3] f[1,0,2] f[1,0,2] f[1,2,2,3]",
            attrs: "state=true",
            domains: &[Real],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

/// The cotangents of the operands of [`GATED_DELTA_NET`].
pub const GATED_DELTA_NET_BACKWARD: OpDef = OpDef {
    name: "gated_delta_net_backward",
    doc: "dq, dk, dv, dg, dβ[, dS_0] of gated_delta_net, from (do[, dlast], q, k, v, g, β[, S_0]), dlast the gradient \
        of the last S",
    arity: Arity::Between(6, 8),
    attrs: GatedDeltaBackwardAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_backward_types,
    deriv: Deriv::ViaDecompose,
    batch: Batch::Rule(|s| s.merged()),
    decompose: Some(|s| {
        let last = GatedDeltaBackwardAttrs::of(&s.attrs).last;
        DeltaSteps::of(s, 1 + usize::from(last)).backward(s.args[0], last.then(|| s.args[1]))
    }),
    lower: Lower::Kernel(lower::emit_gated_delta_net_backward),
    cost: |cx| count_flops(cx, 32),
    cases: &[
        Case {
            args: "f[2,4,1,2] f[2,4,1,3] f[2,4,1,3] f[2,4,1,2] f[2,4,1] f[2,4,1]",
            attrs: "state=false last=false",
            domains: &[Real, Real, Unit, Real, Unit, Chance],
        },
        Case {
            args: "f[1,3,2,3] f[1,2,2,3] f[1,3,2,2] f[1,3,2,2] f[1,3,2,3] f[1,3,2] f[1,3,2] f[1,2,2,3]",
            attrs: "state=true last=true",
            domains: &[Real, Real, Real, Unit, Real, Unit, Chance, Real],
        },
        Case {
            args: "f[2,5,3,18] f[2,5,3,17] f[2,5,3,17] f[2,5,3,18] f[2,5,3] f[2,5,3]",
            attrs: "state=false last=false",
            domains: &[Unit, Unit, Unit, Unit, Unit, Chance],
        },
        Case {
            args: "f[1,0,2,3] f[1,2,2,3] f[1,0,2,2] f[1,0,2,2] f[1,0,2,3] f[1,0,2] f[1,0,2] f[1,2,2,3]",
            attrs: "state=true last=true",
            domains: &[Real],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
