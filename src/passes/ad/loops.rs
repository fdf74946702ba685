//! Derivatives of loops: the derivative of a loop is a loop over the derivative of its body.
//!
//! *Forward*: a loop whose carries are the tangents of the carries. *Reverse*: a loop in the other direction, whose
//! carries are the cotangents of the carries and the sums of the cotangents of the loop's constants. Neither runs the
//! whole body again: the values of an iteration that it reads are stacked results of the loop, which
//! [`mod@crate::passes::ad::residuals`] adds, or are made again from these. Invariant: every carry is stacked before
//! [`vjp`] or [`jvp`] is called.

use super::activity::{depends, reaches};
use super::grad::Backward;
use super::jvp::Forward;
use crate::arena::{Node, Region, Side, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ops::control::scan::{Scan, ScanAttrs};
use crate::nodes::{Builder, Graph, Op, Ty, Var};

/// From values of the source graph to values of the graph that is written.
#[derive(Clone, Copy)]
pub enum ValueMap<'r, 'g> {
    /// For the values of all regions.
    Whole(&'r Side<Value, Var<'g>>),
    /// For the values of one region.
    Part(&'r Window<Value, Var<'g>>),
}

impl<'g> ValueMap<'_, 'g> {
    /// The value in place of `v`.
    pub fn get(&self, v: Value) -> Var<'g> {
        match self {
            ValueMap::Whole(m) => m[v],
            ValueMap::Part(m) => m[v],
        }
    }
}

/// A region of the source graph, and the builder that its derivative is written to.
#[derive(Clone, Copy)]
pub struct AdContext<'r, 'x, 'g> {
    /// The source graph.
    pub src: Graph<'x>,
    /// The region.
    pub region: Region,
    /// The writer.
    pub g: &'g Builder,
    /// From the region's values to written values.
    pub map: ValueMap<'r, 'g>,
    /// From the source's regions to written regions.
    pub regions: &'r [Region],
}

/// A loop of the source graph.
struct ScanSite<'r, 'x, 'g> {
    context: AdContext<'r, 'x, 'g>,
    node: Node,
    scan: Scan,
    /// Arguments of the body.
    args: Vec<Value>,
    /// Yields of the body.
    yields: &'x [Value],
}

/// Operands of the loop that its derivative reads: pairs of a value of the body and the loop's operand or result.
struct Operands<'g> {
    /// The loop's constants.
    consts: Vec<(Value, Var<'g>)>,
    /// Stacked inputs, and stacked results.
    stacked: Vec<(Value, Var<'g>)>,
}

/// Operands of a loop that is written.
struct LoopOperands<'o, 'g> {
    carries: &'o [Var<'g>],
    consts: &'o [Var<'g>],
    stacked: &'o [Var<'g>],
}

/// An argument of the body of a forward-mode loop.
#[derive(Clone, Copy)]
struct ForwardArg<'g> {
    /// True for the tangent of `value`, false for `value` itself.
    is_tangent: bool,
    value: Value,
    arg: Var<'g>,
}

impl<'r, 'x, 'g> ScanSite<'r, 'x, 'g> {
    fn new(context: AdContext<'r, 'x, 'g>, node: Node) -> Self {
        let scan = Scan::of(&context.src.attrs(node));
        let (args, yields) = (context.src.region_args(scan.body).collect(), context.src.region_yields(scan.body));
        ScanSite { context, node, scan, args, yields }
    }

    fn is_float(&self, v: Value) -> bool {
        self.context.src.dtype[v.at()].is_differentiable()
    }

    /// The operands and results that the derivative reads: all constants, stacked inputs and stacked results.
    fn operands(&self) -> Operands<'g> {
        let (src, s) = (self.context.src, &self.scan);
        let given = |i: usize| (self.args[i], self.context.map.get(src.args_of(self.node)[i]));
        let consts = (s.carries..s.xs()).map(given).collect();
        let mut stacked: Vec<_> = (s.xs()..self.args.len()).map(given).collect();
        for (&y, out) in self.yields.iter().zip(src.outs_of(self.node)).skip(s.carries) {
            let is_arg = self.args[s.carries..].contains(&y);
            if !is_arg && stacked.iter().all(|x| x.0 != y) {
                stacked.push((y, self.context.map.get(out)));
            }
        }
        Operands { consts, stacked }
    }

    /// Writes the body into the open region again, except the values of `known`, which are given. Returns all values of
    /// the body.
    fn recompute(&self, known: &[(Value, Var<'g>)]) -> Window<Value, Var<'g>> {
        let (src, g) = (self.context.src, self.context.g);
        let mut local = Window::filled(src.region_values(self.scan.body), g.var(Value::NONE));
        for &(v, x) in known {
            local[v] = x;
        }
        for n in src.region_nodes(self.scan.body).filter(|n| src.op[n.at()] != Op::ARG) {
            if src.outs_of(n).all(|v| local[v].is_some()) {
                continue;
            }
            g.with(|e| e.set_loc(src.loc[n.at()]));
            let ops: Vec<Value> = src.args_of(n).iter().map(|&a| local[a].v).collect();
            let outs = g.with(|e| e.copy(&src, n, &ops, self.context.regions));
            for (v, new) in src.outs_of(n).zip(outs.iter()) {
                if !local[v].is_some() {
                    local[v] = g.var(new);
                }
            }
        }
        local
    }

    /// The types of one iteration's slices of `xs`: without the first axis.
    fn slices(&self, xs: impl Iterator<Item = Var<'g>>) -> Vec<Ty> {
        let one = |x: Var<'g>| {
            let shape = self.context.g.shape(x.dims().get(1..).unwrap_or(&[]));
            Ty { dtype: x.dtype(), shape: shape.unwrap_or(x.ty().shape) }
        };
        xs.map(one).collect()
    }

    /// Writes a loop over `operands`. `body` gets the arguments of the new body and returns its yields.
    fn emit(
        &self,
        name: &str,
        reverse: bool,
        operands: LoopOperands<'_, 'g>,
        body: impl FnOnce(&[Var<'g>]) -> Result<Vec<Var<'g>>>,
    ) -> Result<Vec<Var<'g>>> {
        let (g, LoopOperands { carries, consts, stacked }) = (self.context.g, operands);
        let mut tys: Vec<Ty> = carries.iter().chain(consts).map(|x| x.ty()).collect();
        tys.extend(self.slices(stacked.iter().copied()));
        g.with(|e| e.open_region(name));
        let args: Vec<Var<'g>> = tys.iter().map(|&ty| g.var(g.with(|e| e.region_arg(ty)))).collect();
        let yields = body(&args);
        let ids: Vec<Value> = yields.iter().flatten().map(|y| y.v).collect();
        let region = g.with(|e| e.close_region(&ids));
        yields?;
        g.with(|e| e.set_loc(self.context.src.loc[self.node.at()]));
        let attrs = ScanAttrs {
            body: region,
            carries: carries.len() as i64,
            consts: consts.len() as i64,
            length: self.scan.length as i64,
            reverse,
        };
        Ok(g.emit(Op::SCAN, &[carries, consts, stacked].concat(), &attrs.list()).into())
    }

    /// An error if a carry is neither stacked nor given.
    fn check(&self, local: &Window<Value, Var<'g>>) -> Result<()> {
        let missing = self.args[..self.scan.carries].iter().any(|&a| !local[a].is_some());
        match missing && self.context.g.error().is_none() {
            true => Err(Error::new(Kind::Verify, "scan is not prepared").at(self.context.src.location(self.node))),
            false => Ok(()),
        }
    }

    /// The operands whose tangents may be nonzero, given those that have one. A tangent reaches further carries through
    /// the yields.
    fn dependent(&self, has: &[bool]) -> Vec<bool> {
        let mut has = has.to_vec();
        loop {
            let roots: Vec<Value> = self.args.iter().zip(&has).filter(|(_, h)| **h).map(|(&a, _)| a).collect();
            let d = depends(self.context.src, self.scan.body, &roots);
            let new = (0..self.scan.carries).find(|&i| !has[i] && d[self.yields[i]]);
            match new {
                Some(i) => has[i] = true,
                None => return has,
            }
        }
    }

    /// The arguments on which results with a cotangent depend, given the results that have one.
    fn reached(&self, has: &[bool]) -> Vec<bool> {
        let mut has = has.to_vec();
        loop {
            let roots: Vec<Value> = self.yields.iter().zip(&has).filter(|(_, h)| **h).map(|(&y, _)| y).collect();
            let r = reaches(self.context.src, self.scan.body, &roots);
            let reached = |i: usize| self.is_float(self.args[i]) && r[self.args[i]];
            match (0..self.scan.carries).find(|&i| !has[i] && reached(i)) {
                Some(i) => has[i] = true,
                None => return (0..self.args.len()).map(|i| reached(i) || (i < self.scan.carries && has[i])).collect(),
            }
        }
    }
}

/// The cotangents of the operands of the loop `n`, given those of its results. `want` says which operands need one.
pub fn vjp<'g>(
    context: AdContext<'_, '_, 'g>,
    n: Node,
    cts: &[Option<Var<'g>>],
    want: &[bool],
) -> Result<Vec<Option<Var<'g>>>> {
    let l = ScanSite::new(context, n);
    let (k, xs) = (l.scan.carries, l.scan.xs());
    let has: Vec<bool> = cts.iter().map(Option::is_some).collect();
    let (reached, dependent) = (l.reached(&has), l.dependent(want));
    // Cotangents of carries are carried, those of constants are summed, those of stacked inputs are stacked.
    let active: Vec<usize> =
        (0..l.args.len()).filter(|&i| reached[i] && if i < k { dependent[i] } else { want[i] }).collect();
    let mut grads = vec![None; l.args.len()];
    if active.is_empty() {
        return Ok(grads);
    }
    let (sums, slices): (Vec<usize>, Vec<usize>) = active.iter().partition(|&&i| i < xs);
    let outs: Vec<Value> = context.src.outs_of(n).collect();
    let zero = |i: usize| match i < k {
        true => cts[i].unwrap_or_else(|| context.map.get(outs[i]).full_like(0.0)),
        false => context.map.get(context.src.args_of(n)[i]).full_like(0.0),
    };
    let starts: Vec<Var<'g>> = sums.iter().map(|&i| zero(i)).collect();
    let o = l.operands();
    let consts: Vec<Var<'g>> = o.consts.iter().map(|c| c.1).collect();
    let seeds: Vec<(Value, Var<'g>)> = (k..outs.len()).filter_map(|j| cts[j].map(|ct| (l.yields[j], ct))).collect();
    let stacked: Vec<Var<'g>> = o.stacked.iter().chain(&seeds).map(|x| x.1).collect();
    let operands = LoopOperands { carries: &starts, consts: &consts, stacked: &stacked };
    let results = l.emit("scan.vjp", !l.scan.reverse, operands, |args| {
        let (sum_args, rest) = args.split_at(sums.len());
        let names = o.consts.iter().chain(&o.stacked).map(|x| x.0);
        let known: Vec<(Value, Var<'g>)> = names.zip(rest.iter().copied()).collect();
        let local = l.recompute(&known);
        l.check(&local)?;
        let inner = AdContext { region: l.scan.body, map: ValueMap::Part(&local), ..context };
        let roots: Vec<Value> = active.iter().map(|&i| l.args[i]).collect();
        let mut back = Backward::new(inner, &roots);
        sums.iter().zip(sum_args).filter(|(i, _)| **i < k).for_each(|(&i, &ct)| back.add(l.yields[i], ct));
        seeds.iter().zip(&rest[known.len()..]).for_each(|(s, &ct)| back.add(s.0, ct));
        back.walk()?;
        let ct = |i: usize| back.cotangent(l.args[i]);
        let sum = |(&i, &sum): (&usize, &Var<'g>)| match ct(i) {
            Some(ct) if i < k => ct,
            None if i < k => sum.full_like(0.0),
            Some(ct) => sum + ct,
            None => sum,
        };
        let slice = |&i: &usize| ct(i).unwrap_or_else(|| local[l.args[i]].full_like(0.0));
        Ok(sums.iter().zip(sum_args).map(sum).chain(slices.iter().map(slice)).collect())
    })?;
    for (&i, d) in sums.iter().chain(&slices).zip(results) {
        grads[i] = Some(d).filter(|_| want[i]);
    }
    Ok(grads)
}

/// The tangents of the results of the loop `n`, given those of its operands.
pub fn jvp<'g>(context: AdContext<'_, '_, 'g>, n: Node, ts: &[Option<Var<'g>>]) -> Result<Vec<Option<Var<'g>>>> {
    let l = ScanSite::new(context, n);
    let (k, xs) = (l.scan.carries, l.scan.xs());
    let has: Vec<bool> = ts.iter().map(Option::is_some).collect();
    let moving: Vec<usize> = (0..k).zip(l.dependent(&has)).filter(|(_, d)| *d).map(|(i, _)| i).collect();
    let given = |r: std::ops::Range<usize>| r.filter_map(|i| ts[i].map(|t| (l.args[i], t))).collect::<Vec<_>>();
    let (dot_consts, dot_xs) = (given(k..xs), given(xs..l.args.len()));
    let zero = |i: usize| ts[i].unwrap_or_else(|| context.map.get(context.src.args_of(n)[i]).full_like(0.0));
    let starts: Vec<Var<'g>> = moving.iter().map(|&i| zero(i)).collect();
    let o = l.operands();
    let consts: Vec<Var<'g>> = o.consts.iter().chain(&dot_consts).map(|c| c.1).collect();
    let stacked: Vec<Var<'g>> = o.stacked.iter().chain(&dot_xs).map(|x| x.1).collect();
    let mut with_tangent = Vec::new();
    let operands = LoopOperands { carries: &starts, consts: &consts, stacked: &stacked };
    let results = l.emit("scan.jvp", l.scan.reverse, operands, |args| {
        // In the order of the operands.
        let groups = [
            (true, moving.iter().map(|&i| l.args[i]).collect()),
            (false, values_of(&o.consts)),
            (true, values_of(&dot_consts)),
            (false, values_of(&o.stacked)),
            (true, values_of(&dot_xs)),
        ];
        let named = forward_args(groups, args);
        let pick = |is_tangent: bool| {
            named.iter().filter(|a| a.is_tangent == is_tangent).map(|a| (a.value, a.arg)).collect::<Vec<_>>()
        };
        let local = l.recompute(&pick(false));
        l.check(&local)?;
        let inner = AdContext { region: l.scan.body, map: ValueMap::Part(&local), ..context };
        let mut forward = Forward::new(inner, l.yields);
        pick(true).into_iter().for_each(|(v, t)| forward.set(v, t));
        forward.walk()?;
        let carried = |&i: &usize| {
            let y = l.yields[i];
            forward.tangent(y).unwrap_or_else(|| local[y].full_like(0.0))
        };
        let mut yields: Vec<Var<'g>> = moving.iter().map(carried).collect();
        for j in k..l.yields.len() {
            if let Some(t) = forward.tangent(l.yields[j]) {
                with_tangent.push(j);
                yields.push(t);
            }
        }
        // A body yields at least one value.
        if yields.is_empty() {
            yields.extend(local_any(&local, l.yields));
        }
        Ok(yields)
    })?;
    let mut tangents = vec![None; l.yields.len()];
    for (&j, t) in moving.iter().chain(&with_tangent).zip(results) {
        tangents[j] = Some(t);
    }
    Ok(tangents)
}

/// The body's values of `pairs`.
fn values_of(pairs: &[(Value, Var<'_>)]) -> Vec<Value> {
    pairs.iter().map(|p| p.0).collect()
}

/// The arguments `args` of a forward-mode body with the body's values that they are for. Each group says whether its
/// arguments are tangents.
fn forward_args<'g>(groups: [(bool, Vec<Value>); 5], args: &[Var<'g>]) -> Vec<ForwardArg<'g>> {
    let values = groups.into_iter().flat_map(|(is_tangent, group)| group.into_iter().map(move |v| (is_tangent, v)));
    values.zip(args).map(|((is_tangent, value), &arg)| ForwardArg { is_tangent, value, arg }).collect()
}

/// The value in place of the first yield.
fn local_any<'g>(local: &Window<Value, Var<'g>>, yields: &[Value]) -> Option<Var<'g>> {
    yields.first().map(|&y| local[y])
}
