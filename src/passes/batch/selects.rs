//! Choices whose predicate differs between members, for all members at once: both branches are computed, and a select
//! picks each member's results.
//!
//! A batch leaves such a choice to a loop in which each member runs its own branch. After derivatives are taken, the
//! loop may become selects: they pick values, so what a branch computes for a member that does not run it reaches
//! nothing, be it NaN. Before, the derivative of a select would multiply it by 0. Invariant: no op of the branches may
//! stop the step.

use super::at_once::write_iterations;
use crate::arena::{Node, Region, Window, ids::Id};
use crate::error::Result;
use crate::kernels::cost_model::CostClass;
use crate::nodes::ir::call::Buf;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Batch, Deriv, Flags, Lower, OpDef};
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::lower_any_op;
use crate::nodes::{DType, Graph, GraphBuf, Op};
use crate::passes::rebuild::rebuild_buf;
use crate::passes::simplify::Hits;

/// Picoseconds that a loop takes for an iteration, and a choice, beside the calls in it.
const ITERATION: u64 = 50_000;
const CHOICE: u64 = 30_000;

/// True if `g` has a loop without carries that runs a choice.
pub fn has_choices_of_members(g: Graph<'_>) -> bool {
    (0..g.nodes()).map(Node::new).any(|n| loop_of_members(g, n).is_some_and(|s| has_choice(g, s.body)))
}

/// The loop `n`, if its iterations do not depend on one another.
fn loop_of_members(g: Graph<'_>, n: Node) -> Option<Scan> {
    let scan = (g.op[n.at()] == Op::SCAN).then(|| Scan::of(&g.attrs(n)))?;
    Some(scan).filter(|s| s.carries == 0 && s.exit.is_none() && s.length > 1)
}

fn has_choice(g: Graph<'_>, r: Region) -> bool {
    g.region_nodes(r).any(|n| matches!(g.def_of(n).lower, Lower::Choice))
}

/// Writes the choices of members of `g` as selects where the cost model says that this is cheaper.
///
/// # Errors
/// Those of batching an op: too large a value.
pub fn select_for_members(g: Graph<'_>, hits: &mut Hits) -> Result<GraphBuf> {
    let mut failed = None;
    let buf = rebuild_buf(g, &mut |v| {
        let scan = loop_of_members(v.src, v.node).filter(|s| has_choice(v.src, s.body) && is_cheaper(v.src, s))?;
        *hits.entry("choice-select").or_default() += 1;
        write_iterations(v, &scan, true).map_err(|e| failed = Some(e)).ok()
    })?;
    match failed {
        Some(e) => Err(e),
        // One more rebuild drops the bodies and branches, which have no user left.
        None => rebuild_buf(buf.view(), &mut |_| None),
    }
}

/// True if all members at once take less time than one after another, and no more memory than the loop's slices.
fn is_cheaper(g: Graph<'_>, s: &Scan) -> bool {
    let sliced: Vec<bool> = g.region_args(s.body).enumerate().map(|(i, _)| i >= s.consts).collect();
    let args = g.region_args(s.body).skip(s.consts);
    let slices: usize = args.chain(g.region_yields(s.body).iter().copied()).map(|v| g.bytes(v)).sum();
    let size = s.length as u64;
    Members { g, size }
        .region(s.body, &sliced)
        .is_some_and(|m| m.at_once < size.saturating_mul(ITERATION.saturating_add(m.one)) && m.bytes <= slices)
}

/// What a part of a loop's body costs.
#[derive(Default)]
struct MemberCost {
    /// Picoseconds for one member.
    one: u64,
    /// Picoseconds for all members at once.
    at_once: u64,
    /// Bytes, for each member, of results that have memory if all members are computed at once.
    bytes: usize,
}

impl MemberCost {
    fn add(&mut self, other: &MemberCost) {
        self.one = self.one.saturating_add(other.one);
        self.at_once = self.at_once.saturating_add(other.at_once);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

struct Members<'g> {
    g: Graph<'g>,
    size: u64,
}

impl Members<'_> {
    /// The cost of region `r`, whose arguments differ between members where `args` says so. `None` if it holds what
    /// must not run for a member that does not ask for it, or what has no rule for a batch.
    fn region(&self, r: Region, args: &[bool]) -> Option<MemberCost> {
        let g = self.g;
        let mut differs = Window::filled(g.region_values(r), false);
        g.region_args(r).zip(args).for_each(|(v, &d)| differs[v] = d);
        let (mut all, mut pointwise) = (MemberCost::default(), false);
        for n in g.region_nodes(r).filter(|n| g.op[n.at()] != Op::ARG) {
            let args: Vec<bool> = g.args_of(n).iter().map(|&a| differs[a]).collect();
            let cost = match g.def_of(n).lower {
                Lower::Choice => self.choice(n, &args)?,
                _ => self.node(n, &args)?,
            };
            all.add(&cost);
            pointwise |= g.def_of(n).is_pointwise();
            let any = args.contains(&true);
            g.outs_of(n).for_each(|v| differs[v] = any);
        }
        // Pointwise ops become one region.
        let call = if pointwise { CostClass::TILE.fixed() } else { 0 };
        all.add(&MemberCost { one: call, at_once: call, bytes: 0 });
        Some(all)
    }

    fn choice(&self, n: Node, args: &[bool]) -> Option<MemberCost> {
        let IfAttrs { then, otherwise } = IfAttrs::of(&self.g.attrs(n));
        let (a, b) = (self.region(then, &args[1..])?, self.region(otherwise, &args[1..])?);
        let picked = self.g.outs_of(n).map(|v| self.g.bytes(v) as u64).fold(0, u64::saturating_add);
        Some(MemberCost {
            one: CHOICE.saturating_add(a.one / 2).saturating_add(b.one / 2),
            at_once: CostClass::TILE
                .time(0, picked.saturating_mul(3 * self.size))
                .saturating_add(a.at_once + b.at_once),
            bytes: a.bytes.saturating_add(b.bytes),
        })
    }

    fn node(&self, n: Node, args: &[bool]) -> Option<MemberCost> {
        let (g, def) = (self.g, self.g.def_of(n));
        let numbers = g.args_of(n).iter().copied().chain(g.outs_of(n)).all(|v| {
            let d = g.dtype[v.at()];
            d.is_float() || d == DType::Bool
        });
        if !numbers || !may_run_for_all(def) {
            return None;
        }
        let used = vec![true; g.outs_of(n).len()];
        let mut cx = LowerCx::new(g, n, &used);
        lower_any_op(&mut cx).ok()?;
        let (mut cost, fused) = (MemberCost::default(), def.is_pointwise());
        for c in &cx.calls {
            if c.looks.is_some() {
                return None;
            }
            let bytes = |b: Buf| match b {
                Buf::Arg(i) => g.bytes(g.args_of(n)[i]) as u64,
                Buf::Out(i) => g.outs_of(n).nth(i).map_or(0, |v| g.bytes(v) as u64),
                Buf::Temp(_) => 0,
            };
            let shared = |b: &Buf| matches!(*b, Buf::Arg(i) if !args[i]);
            let all = c.reads.iter().copied().chain(c.writes.iter().map(|w| w.0));
            let (of_all, own): (Vec<Buf>, Vec<Buf>) = all.partition(shared);
            let [of_all, own] = [of_all, own].map(|bufs| bufs.into_iter().map(bytes).fold(0, u64::saturating_add));
            let fixed = if fused { c.work.fixed() } else { 0 };
            let size = if args.contains(&true) { self.size } else { 1 };
            let at_once = c.work.time(c.ops.saturating_mul(size), own.saturating_mul(size).saturating_add(of_all));
            let one = c.work.time(c.ops, own.saturating_add(of_all));
            cost.add(&MemberCost { one: one - fixed, at_once: at_once - fixed, bytes: 0 });
        }
        if !fused {
            cost.bytes = g.outs_of(n).map(|v| g.bytes(v)).sum();
        }
        Some(cost)
    }
}

/// True if the op has a rule for a batch, has no effect, and gives a member no more than a wrong number.
fn may_run_for_all(def: &OpDef) -> bool {
    let rule = matches!(def.batch, Batch::Leading | Batch::Rule(_));
    let plain = def.is_pointwise()
        || def.flags.has(Flags::MOVE)
        || matches!(def.deriv, Deriv::Linear(_) | Deriv::Multilinear(_));
    rule && plain && !def.flags.has(Flags::EFFECT)
}
