//! Residuals of loops and choices: what the derivative reads of each iteration, and of the branch that runs.
//!
//! They become stacked results of the loop, and results of the choice, for which the other branch yields zeros. To
//! collect them, AD runs once on a throwaway copy of the body in which every value of the body is an argument. A value
//! that moves or cheap pointwise ops can recompute is not kept. Invariant: every carry is stacked, so that all other
//! values can be recomputed. Only a loop without a bound stacks nothing. A choice keeps values for the reverse mode
//! alone. [`mod@crate::passes::trim`] later drops the results that nothing reads.

use super::activity::{Mode, active_nodes};
use super::backward::Backward;
use super::codes::Codes;
use super::scan_site::{AdContext, ScanSiteValues};
use crate::arena::{Node, Region, Side, Value, Window, ids::Id};
use crate::error::Result;
use crate::nodes::ir::opdef::{Flags, Lower, planned_regions};
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::ops::control::custom_fn::{CustomFnAttrs, has_derivative_rules};
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op, Ty, Var};
use crate::passes::copier::{Copier, Yield};
use crate::passes::rebuild::{finish_rebuild, rebuild_buf, rebuilt_by_pass};
use crate::passes::region_users::count_region_users;

/// `g` with the residuals of its loops and choices as results, for those on the paths from `wrt` to `results`. Inner
/// ones come first: the derivative of an outer one reads what they keep.
pub fn keep_residuals(g: Graph<'_>, wrt: &[&str], results: &[&str], mode: Mode) -> Result<GraphBuf> {
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    let deepest = residual_depths(g).as_slice().iter().copied().max().unwrap_or(0);
    for depth in 1..=deepest {
        buf = keep_at_depth(buf.view(), &active_nodes(buf.view(), wrt, results, mode), mode, depth)?;
    }
    Ok(buf)
}

/// The depth of each region: for the body of a loop or a branch, 1 more than its deepest inner one; else 0. A loop in a
/// rule of a custom function counts as one where the function stands.
fn residual_depths(g: Graph<'_>) -> Side<Region, usize> {
    let mut inside = Side::<Region, usize>::filled(g.regions(), 0);
    let mut depth = Side::<Region, usize>::filled(g.regions(), 0);
    for r in (0..g.regions()).map(Region::new) {
        for n in g.region_nodes(r) {
            if matches!(g.def_of(n).lower, Lower::Loop) {
                let body = Scan::of(&g.attrs(n)).body;
                depth[body] = 1 + inside[body];
                inside[r] = inside[r].max(depth[body]);
            } else if matches!(g.def_of(n).lower, Lower::Choice) {
                let deepest = planned_regions(g, n).map(|b| inside[b]).fold(0, usize::max);
                planned_regions(g, n).for_each(|b| depth[b] = 1 + deepest);
                inside[r] = inside[r].max(1 + deepest);
            } else if has_derivative_rules(g, n) {
                let CustomFnAttrs { vjp, jvp, .. } = CustomFnAttrs::of(&g.attrs(n));
                let rules = [vjp, jvp].into_iter().flatten().map(|rule| inside[rule]).max();
                inside[r] = inside[r].max(rules.unwrap_or(0));
            }
        }
    }
    depth
}

/// [`keep_residuals`] for the loops and choices of one depth.
fn keep_at_depth(g: Graph<'_>, active: &Side<Node, bool>, mode: Mode, depth: usize) -> Result<GraphBuf> {
    let (depths, codes) = (residual_depths(g), Codes::of(g));
    let mut more = Side::<Region, Vec<Yield>>::filled(g.regions(), Vec::new());
    // What the derivative of a body reads, once it is known.
    let mut reads = Side::<Region, Option<Window<Value, bool>>>::filled(g.regions(), None);
    let scratch = Builder::rewriting(Emit::like(&g));
    let mut copy = Copier::new(g, &scratch);
    copy.run(&mut |_| None);
    let regions = &copy.regions;
    for n in (0..g.nodes()).map(Node::new).filter(|&n| active[n] && matches!(g.def_of(n).lower, Lower::Loop)) {
        let s = Scan::of(&g.attrs(n));
        if depths[s.body] != depth || s.is_unbounded() {
            continue;
        }
        // Loops with other numbers of carries may share the body: it yields what any of them needs.
        let keep = match s.keeps_carries_only() {
            true => values_to_stack(g, &s, &Window::filled(g.region_values(s.body), false)),
            false => {
                let read = || residual_reads(&codes, s.body, &scratch, regions);
                values_to_stack(g, &s, reads[s.body].get_or_insert_with(read))
            }
        };
        more[s.body].extend(keep.into_iter().map(Yield::Value));
        more[s.body].sort_unstable();
        more[s.body].dedup();
    }
    let users = count_region_users(g);
    let choices = (0..g.nodes()).map(Node::new).filter(|&n| g.op[n.at()] == Op::IF && active[n]);
    for n in choices.filter(|_| mode == Mode::Reverse) {
        let IfAttrs { then, otherwise } = IfAttrs::of(&g.attrs(n));
        // A branch of several choices would yield to each what the others need.
        if depths[then] == depth && [then, otherwise].iter().all(|&r| users[r] == 1) {
            let kept = [then, otherwise].map(|r| {
                let read = residual_reads(&codes, r, &scratch, regions);
                recompute_or_keep(g, r, g.region_yields(r), Vec::new(), &read)
            });
            let yields = pair_by_type(g, kept);
            (more[then], more[otherwise]) = yields.into_iter().unzip();
        }
    }
    rebuilt_by_pass("save", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b).yielding(more);
        c.run(&mut |_| None);
        c.signature();
        drop(c);
        finish_rebuild(b, bump)
    })
}

/// What the two branches of a choice yield so that each yields the values of its own: values of one type share a
/// result.
fn pair_by_type(g: Graph<'_>, [then, mut otherwise]: [Vec<Value>; 2]) -> Vec<(Yield, Yield)> {
    let mut all = Vec::new();
    for v in then {
        let other = otherwise.iter().position(|&o| g.ty(o) == g.ty(v)).map(|i| otherwise.remove(i));
        all.push((Yield::Value(v), other.map_or(Yield::ZerosLike(v), Yield::Value)));
    }
    all.extend(otherwise.into_iter().map(|v| (Yield::ZerosLike(v), Yield::Value(v))));
    all
}

/// The values of region `r` that its derivative with respect to all arguments reads, found by differentiating on
/// `scratch`. Empty if the body has no derivative: the caller may not need one.
fn residual_reads(codes: &Codes<'_>, r: Region, scratch: &Builder, regions: &[Region]) -> Window<Value, bool> {
    let g = codes.graph();
    let mut read = Window::filled(g.region_values(r), false);
    scratch.with(|e| e.open_region(""));
    let mut local = Window::filled(g.region_values(r), scratch.var(Value::NONE));
    let values: Vec<Value> = g.region_values(r).map(Value).collect();
    for &v in &values {
        local[v] = scratch.var(scratch.with(|e| e.region_arg(g.ty(v))));
    }
    let seed = |&y: &Value| {
        let ty = Ty { dtype: codes.tangent_dtype(y)?, ..g.ty(y) };
        Some((y, scratch.var(scratch.with(|e| e.region_arg(ty)))))
    };
    let seeds: Vec<(Value, Var<'_>)> = g.region_yields(r).iter().filter_map(seed).collect();
    let roots: Vec<Value> = g.region_args(r).filter(|&v| codes.carries(v)).collect();
    let context =
        AdContext { src: g, codes, region: r, g: scratch, map: ScanSiteValues::Part(&local), regions, fades: false };
    let mut back = Backward::new(context, &roots);
    seeds.iter().for_each(|&(y, ct)| back.add(y, ct));
    let walked = back.walk();
    let mut todo: Vec<Value> = roots.iter().filter_map(|&a| back.cotangent(a)).map(|ct| ct.v).collect();
    scratch.with(|e| {
        let mut seen = vec![false; e.values()];
        while let Some(v) = todo.pop().filter(|_| walked.is_ok()) {
            if std::mem::replace(&mut seen[v.at()], true) {
                continue;
            }
            match values.get(v.at()) {
                Some(&of) => read[of] = true,
                None => todo.extend(e.def(v).into_iter().flat_map(|d| d.args)),
            }
        }
        e.close_region(&[]);
        // An error of the scratch derivative is dropped: the real derivative reports it if it is needed.
        e.take_error();
    });
    read
}

/// The values that loop `s` must stack so that the values `read` can be recomputed: its carries, and those values that
/// neither moves nor cheap pointwise ops compute.
fn values_to_stack(g: Graph<'_>, s: &Scan, read: &Window<Value, bool>) -> Vec<Value> {
    let stacked = &g.region_yields(s.body)[s.carries..];
    let keep: Vec<Value> = g.region_args(s.body).take(s.carries).filter(|a| !stacked.contains(a)).collect();
    recompute_or_keep(g, s.body, stacked, keep, read)
}

/// `keep`, and the values of region `r` to keep beside it and `results` so that the values `read` can be recomputed.
fn recompute_or_keep(
    g: Graph<'_>,
    r: Region,
    results: &[Value],
    mut keep: Vec<Value>,
    read: &Window<Value, bool>,
) -> Vec<Value> {
    // Arguments, results, and what moves or simple arithmetic make of these.
    let mut have = Window::filled(g.region_values(r), false);
    // The values that are read, and the operands of moves whose results are read.
    let mut need = read.clone();
    for n in g.region_nodes(r).rev() {
        if g.def_of(n).flags.has(Flags::MOVE) && g.outs_of(n).any(|v| need[v]) {
            g.args_of(n).iter().for_each(|&a| need[a] = true);
        }
    }
    for n in g.region_nodes(r) {
        let def = g.def_of(n);
        let moves = def.flags.has(Flags::MOVE);
        let simple = moves || def.is_pointwise() && !def.flags.has(Flags::EXPENSIVE);
        let again = g.op[n.at()] == Op::ARG || simple && g.args_of(n).iter().all(|&a| have[a]);
        for v in g.outs_of(n) {
            have[v] = again || results.contains(&v);
            if need[v] && !have[v] && !moves {
                keep.push(v);
                have[v] = true;
            }
        }
    }
    keep
}
