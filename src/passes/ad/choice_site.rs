//! Derivatives of choices: the derivative of a choice is a choice over the same predicate. Its branches take the
//! captured values and the results of the choice, among which [`mod@crate::passes::ad::residuals`] put what the
//! reverse mode reads. Each computes from these what else it needs of the original branch, and then the derivative of
//! that branch. So the branch that does not run adds nothing, not even zero times infinity.

use super::backward::Backward;
use super::codes::zero_tangent_of_code;
use super::forward::Forward;
use super::scan_site::{AdContext, ScanSiteValues, write_context_region};
use crate::arena::{Node, Region, Value, Window, ids::Id};
use crate::error::Result;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::{Graph, Op, Ty, Var};
use crate::passes::ad::activity::active_from;

/// A choice of the source graph.
struct ChoiceSite<'r, 'x, 'g> {
    context: AdContext<'r, 'x, 'g>,
    node: Node,
    branches: [Region; 2],
}

/// The branches of choice `n`.
pub(super) fn branches(src: Graph<'_>, n: Node) -> [Region; 2] {
    let IfAttrs { then, otherwise } = IfAttrs::of(&src.attrs(n));
    [then, otherwise]
}

/// What a branch of a derivative is written from.
struct BranchParts<'b, 'g> {
    region: Region,
    /// The values of the region.
    local: &'b Window<Value, Var<'g>>,
    /// The arguments behind the captured values.
    seeds: &'b [Var<'g>],
}

impl<'r, 'x, 'g> ChoiceSite<'r, 'x, 'g> {
    fn new(context: AdContext<'r, 'x, 'g>, node: Node) -> Self {
        ChoiceSite { context, node, branches: branches(context.src, node) }
    }

    /// Writes a choice whose branches take the captured values, the results and `seeds`. `f` gives the yields of a
    /// branch.
    fn emit(
        &self,
        name: &str,
        seeds: &[Var<'g>],
        f: impl Fn(BranchParts<'_, 'g>) -> Result<Vec<Var<'g>>>,
    ) -> Result<Vec<Var<'g>>> {
        let AdContext { src, g, map, .. } = self.context;
        let mut operands: Vec<Var<'g>> = src.args_of(self.node).iter().map(|&a| map.get(a)).collect();
        operands.extend(src.outs_of(self.node).map(|v| map.get(v)));
        let first_seed = operands.len() - 1;
        operands.extend(seeds);
        let tys: Vec<Ty> = operands[1..].iter().map(|x| x.ty()).collect();
        let mut written = [Region::NONE; 2];
        for (new, &region) in written.iter_mut().zip(&self.branches) {
            g.with(|e| e.open_region(name));
            let args: Vec<Var<'g>> = tys.iter().map(|&ty| g.var(g.with(|e| e.region_arg(ty)))).collect();
            let (captured, results) = args[..first_seed].split_at(src.args_of(self.node).len() - 1);
            // A captured value that is a yield as well is read from where it was captured.
            let yielded = src.region_yields(region).iter().copied().zip(results.iter().copied());
            let known: Vec<(Value, Var<'g>)> =
                yielded.chain(src.region_args(region).zip(captured.iter().copied())).collect();
            let local = write_context_region(AdContext { region, ..self.context }, &known);
            let yields = f(BranchParts { region, local: &local, seeds: &args[first_seed..] });
            let ids: Vec<Value> = yields.iter().flatten().map(|y| y.v).collect();
            *new = g.with(|e| e.close_region(&ids));
            yields?;
        }
        g.with(|e| e.set_loc(src.loc[self.node.at()]));
        let attrs = IfAttrs { then: written[0], otherwise: written[1] };
        Ok(g.emit(Op::IF, &operands, &attrs.list()).into())
    }

    fn inner<'l>(&self, parts: &BranchParts<'l, 'g>) -> AdContext<'l, 'x, 'g>
    where
        'r: 'l,
    {
        AdContext { region: parts.region, map: ScanSiteValues::Part(parts.local), ..self.context }
    }
}

/// The cotangents of the operands of the choice `n`, given those of its results. `want` says which operands need one.
pub(super) fn backward_choice<'g>(
    context: AdContext<'_, '_, 'g>,
    n: Node,
    cts: &[Option<Var<'g>>],
    want: &[bool],
) -> Result<Vec<Option<Var<'g>>>> {
    let site = ChoiceSite::new(context, n);
    let src = context.src;
    let wanted: Vec<usize> = (1..want.len()).filter(|&i| want[i]).collect();
    let mut grads = vec![None; want.len()];
    let seeded: Vec<usize> = (0..cts.len()).filter(|&j| cts[j].is_some()).collect();
    let seeds: Vec<Var<'g>> = cts.iter().copied().flatten().collect();
    let results = site.emit("if.vjp", &seeds, |parts| {
        let args: Vec<Value> = src.region_args(parts.region).collect();
        let roots: Vec<Value> = wanted.iter().map(|&i| args[i - 1]).collect();
        let mut back = Backward::new(site.inner(&parts), &roots);
        let yields = src.region_yields(parts.region);
        seeded.iter().zip(parts.seeds).for_each(|(&j, &ct)| back.add(yields[j], ct));
        back.walk()?;
        let one = |a: &Value| back.cotangent(*a).unwrap_or_else(|| zero_tangent_of_code(parts.local[*a]));
        Ok(roots.iter().map(one).collect())
    })?;
    wanted.iter().zip(results).for_each(|(&i, d)| grads[i] = Some(d));
    Ok(grads)
}

/// The tangents of the results of the choice `n`, given those of its operands.
pub(super) fn forward_choice<'g>(
    context: AdContext<'_, '_, 'g>,
    n: Node,
    ts: &[Option<Var<'g>>],
) -> Result<Vec<Option<Var<'g>>>> {
    let site = ChoiceSite::new(context, n);
    let src = context.src;
    let moving: Vec<usize> = (1..ts.len()).filter(|&i| ts[i].is_some()).collect();
    let seeds: Vec<Var<'g>> = ts[1..].iter().copied().flatten().collect();
    let mut reached = vec![false; src.outs_of(n).len()];
    for &r in &site.branches {
        let args: Vec<Value> = src.region_args(r).collect();
        let roots: Vec<Value> = moving.iter().map(|&i| args[i - 1]).collect();
        let from = active_from(context.codes, r, &roots);
        reached.iter_mut().zip(src.region_yields(r)).for_each(|(y, &v)| *y |= from[v]);
    }
    let with_tangent: Vec<usize> = (0..reached.len()).filter(|&j| reached[j]).collect();
    let mut tangents = vec![None; reached.len()];
    if with_tangent.is_empty() {
        return Ok(tangents);
    }
    let results = site.emit("if.jvp", &seeds, |parts| {
        let args: Vec<Value> = src.region_args(parts.region).collect();
        let yields = src.region_yields(parts.region);
        let mut forward = Forward::new(site.inner(&parts), yields);
        moving.iter().zip(parts.seeds).for_each(|(&i, &t)| forward.set(args[i - 1], t));
        forward.walk()?;
        let one = |&j: &usize| {
            let y = yields[j];
            forward.tangent(y).unwrap_or_else(|| zero_tangent_of_code(parts.local[y]))
        };
        Ok(with_tangent.iter().map(one).collect())
    })?;
    with_tangent.iter().zip(results).for_each(|(&j, t)| tangents[j] = Some(t));
    Ok(tangents)
}
