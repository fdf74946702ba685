//! Derivatives of loops: the derivative of a loop is a loop over the derivative of its body.
//!
//! *Forward*: a loop whose carries are the carries' tangents. *Reverse*: a loop in the other direction whose carries
//! are the cotangents of the carries and the sums of those of the loop's constants. Neither runs the body again as a
//! whole: what it reads of an iteration is among the stacked results of the loop, put there by
//! [`mod@crate::passes::ad::residuals`], or is made again from those. Invariant: of the body's values, every carry is
//! stacked before either is called.

use super::activity::{depends, reaches};
use super::grad::Backward;
use super::jvp::Forward;
use crate::arena::{Node, Region, Side, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ops::control::scan::{Scan, ScanAttrs};
use crate::nodes::{Builder, Graph, Op, Ty, Var};

/// What stands in the written graph for values of the source.
#[derive(Clone, Copy)]
pub enum ValueMap<'r, 'g> {
    /// Of all regions.
    Whole(&'r Side<Value, Var<'g>>),
    /// Of one region.
    Part(&'r Window<Value, Var<'g>>),
}

impl<'g> ValueMap<'_, 'g> {
    /// What stands for `v`.
    pub fn get(&self, v: Value) -> Var<'g> {
        match self {
            ValueMap::Whole(m) => m[v],
            ValueMap::Part(m) => m[v],
        }
    }
}

/// A region of the source and where its derivative is written.
#[derive(Clone, Copy)]
pub struct AdContext<'r, 'x, 'g> {
    /// The source.
    pub src: Graph<'x>,
    /// The region.
    pub region: Region,
    /// The writer.
    pub g: &'g Builder,
    /// What stands for the region's values.
    pub map: ValueMap<'r, 'g>,
    /// What stands for the source's regions.
    pub regions: &'r [Region],
}

/// One loop of the source.
struct ScanSite<'r, 'x, 'g> {
    at: AdContext<'r, 'x, 'g>,
    node: Node,
    scan: Scan,
    args: Vec<Value>,
    yields: &'x [Value],
}

/// What the derivative's body has of the body: an argument for each constant, saved value and stacked input.
struct Operands<'g> {
    consts: Vec<(Value, Var<'g>)>,
    stacked: Vec<(Value, Var<'g>)>,
}

impl<'r, 'x, 'g> ScanSite<'r, 'x, 'g> {
    fn new(at: AdContext<'r, 'x, 'g>, node: Node) -> Self {
        let scan = Scan::of(&at.src.attrs(node));
        let (args, yields) = (at.src.region_args(scan.body).collect(), at.src.region_yields(scan.body));
        ScanSite { at, node, scan, args, yields }
    }

    fn is_float(&self, v: Value) -> bool {
        self.at.src.dtype[v.at()].is_differentiable()
    }

    /// The loop's own operands that the derivative needs: all constants and stacked inputs, and what was saved.
    fn operands(&self) -> Operands<'g> {
        let (src, s) = (self.at.src, &self.scan);
        let given = |i: usize| (self.args[i], self.at.map.get(src.args_of(self.node)[i]));
        let consts = (s.carries..s.xs()).map(given).collect();
        let mut stacked: Vec<_> = (s.xs()..self.args.len()).map(given).collect();
        for (&y, out) in self.yields.iter().zip(src.outs_of(self.node)).skip(s.carries) {
            let is_arg = self.args[s.carries..].contains(&y);
            if !is_arg && stacked.iter().all(|x| x.0 != y) {
                stacked.push((y, self.at.map.get(out)));
            }
        }
        Operands { consts, stacked }
    }

    /// Makes the values of the body again, from the open region's arguments for `known` ones.
    fn again(&self, known: &[(Value, Var<'g>)]) -> Window<Value, Var<'g>> {
        let (src, g) = (self.at.src, self.at.g);
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
            let outs = g.with(|e| e.copy(&src, n, &ops, self.at.regions));
            for (v, new) in src.outs_of(n).zip(outs.iter()) {
                if !local[v].is_some() {
                    local[v] = g.var(new);
                }
            }
        }
        local
    }

    /// The types of slices of `xs`.
    fn slices(&self, xs: impl Iterator<Item = Var<'g>>) -> Vec<Ty> {
        let one = |x: Var<'g>| {
            let shape = self.at.g.shape(x.dims().get(1..).unwrap_or(&[]));
            Ty { dtype: x.dtype(), shape: shape.unwrap_or(x.ty().shape) }
        };
        xs.map(one).collect()
    }

    /// A loop over `carries`, `consts` and `stacked`, whose body `body` writes, given its arguments.
    fn emit(
        &self,
        name: &str,
        reverse: bool,
        [carries, consts, stacked]: [&[Var<'g>]; 3],
        body: impl FnOnce(&[Var<'g>]) -> Result<Vec<Var<'g>>>,
    ) -> Result<Vec<Var<'g>>> {
        let g = self.at.g;
        let mut tys: Vec<Ty> = carries.iter().chain(consts).map(|x| x.ty()).collect();
        tys.extend(self.slices(stacked.iter().copied()));
        g.with(|e| e.open_region(name));
        let args: Vec<Var<'g>> = tys.iter().map(|&ty| g.var(g.with(|e| e.region_arg(ty)))).collect();
        let yields = body(&args);
        let ids: Vec<Value> = yields.iter().flatten().map(|y| y.v).collect();
        let region = g.with(|e| e.close_region(&ids));
        yields?;
        g.with(|e| e.set_loc(self.at.src.loc[self.node.at()]));
        let attrs = ScanAttrs {
            body: region,
            carries: carries.len() as i64,
            consts: consts.len() as i64,
            length: self.scan.length as i64,
            reverse,
        };
        Ok(g.emit(Op::SCAN, &[carries, consts, stacked].concat(), &attrs.list()).into())
    }

    /// Names what was not saved and cannot be made again.
    fn check(&self, local: &Window<Value, Var<'g>>) -> Result<()> {
        let missing = self.args[..self.scan.carries].iter().any(|&a| !local[a].is_some());
        match missing && self.at.g.error().is_none() {
            true => Err(Error::new(Kind::Verify, "scan is not prepared").at(self.at.src.location(self.node))),
            false => Ok(()),
        }
    }

    /// Carries whose tangents may not be zero, given which operands have one.
    fn dependent(&self, has: &[bool]) -> Vec<bool> {
        let mut has = has.to_vec();
        loop {
            let roots: Vec<Value> = self.args.iter().zip(&has).filter(|(_, h)| **h).map(|(&a, _)| a).collect();
            let d = depends(self.at.src, self.scan.body, &roots);
            let new = (0..self.scan.carries).find(|&i| !has[i] && d[self.yields[i]]);
            match new {
                Some(i) => has[i] = true,
                None => return has,
            }
        }
    }

    /// Arguments on which results with a cotangent depend, given which results have one.
    fn reached(&self, has: &[bool]) -> Vec<bool> {
        let mut has = has.to_vec();
        loop {
            let roots: Vec<Value> = self.yields.iter().zip(&has).filter(|(_, h)| **h).map(|(&y, _)| y).collect();
            let r = reaches(self.at.src, self.scan.body, &roots);
            let reached = |i: usize| self.is_float(self.args[i]) && r[self.args[i]];
            match (0..self.scan.carries).find(|&i| !has[i] && reached(i)) {
                Some(i) => has[i] = true,
                None => return (0..self.args.len()).map(|i| reached(i) || (i < self.scan.carries && has[i])).collect(),
            }
        }
    }
}

/// Cotangents of the operands of the loop `n`, given those of its results; `want` says which are asked for.
pub fn vjp<'g>(
    at: AdContext<'_, '_, 'g>,
    n: Node,
    cts: &[Option<Var<'g>>],
    want: &[bool],
) -> Result<Vec<Option<Var<'g>>>> {
    let l = ScanSite::new(at, n);
    let (k, xs) = (l.scan.carries, l.scan.xs());
    let has: Vec<bool> = cts.iter().map(Option::is_some).collect();
    let (reached, dependent) = (l.reached(&has), l.dependent(want));
    // Carries whose cotangent is carried; constants whose cotangent is summed; stacked inputs whose is stacked.
    let active: Vec<usize> =
        (0..l.args.len()).filter(|&i| reached[i] && if i < k { dependent[i] } else { want[i] }).collect();
    let mut grads = vec![None; l.args.len()];
    if active.is_empty() {
        return Ok(grads);
    }
    let (sums, slices): (Vec<usize>, Vec<usize>) = active.iter().partition(|&&i| i < xs);
    let outs: Vec<Value> = at.src.outs_of(n).collect();
    let zero = |i: usize| match i < k {
        true => cts[i].unwrap_or_else(|| at.map.get(outs[i]).full_like(0.0)),
        false => at.map.get(at.src.args_of(n)[i]).full_like(0.0),
    };
    let starts: Vec<Var<'g>> = sums.iter().map(|&i| zero(i)).collect();
    let o = l.operands();
    let consts: Vec<Var<'g>> = o.consts.iter().map(|c| c.1).collect();
    let seeds: Vec<(Value, Var<'g>)> = (k..outs.len()).filter_map(|j| cts[j].map(|ct| (l.yields[j], ct))).collect();
    let stacked: Vec<Var<'g>> = o.stacked.iter().chain(&seeds).map(|x| x.1).collect();
    let results = l.emit("scan.vjp", !l.scan.reverse, [&starts, &consts, &stacked], |args| {
        let (sum_args, rest) = args.split_at(sums.len());
        let names = o.consts.iter().chain(&o.stacked).map(|x| x.0);
        let known: Vec<(Value, Var<'g>)> = names.zip(rest.iter().copied()).collect();
        let local = l.again(&known);
        l.check(&local)?;
        let scene = AdContext { region: l.scan.body, map: ValueMap::Part(&local), ..at };
        let roots: Vec<Value> = active.iter().map(|&i| l.args[i]).collect();
        let mut back = Backward::new(scene, &roots);
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

/// Tangents of the results of the loop `n`, given those of its operands.
pub fn jvp<'g>(at: AdContext<'_, '_, 'g>, n: Node, ts: &[Option<Var<'g>>]) -> Result<Vec<Option<Var<'g>>>> {
    let l = ScanSite::new(at, n);
    let (k, xs) = (l.scan.carries, l.scan.xs());
    let has: Vec<bool> = ts.iter().map(Option::is_some).collect();
    let moving: Vec<usize> = (0..k).zip(l.dependent(&has)).filter(|(_, d)| *d).map(|(i, _)| i).collect();
    let given = |r: std::ops::Range<usize>| r.filter_map(|i| ts[i].map(|t| (l.args[i], t))).collect::<Vec<_>>();
    let (dot_consts, dot_xs) = (given(k..xs), given(xs..l.args.len()));
    let zero = |i: usize| ts[i].unwrap_or_else(|| at.map.get(at.src.args_of(n)[i]).full_like(0.0));
    let starts: Vec<Var<'g>> = moving.iter().map(|&i| zero(i)).collect();
    let o = l.operands();
    let consts: Vec<Var<'g>> = o.consts.iter().chain(&dot_consts).map(|c| c.1).collect();
    let stacked: Vec<Var<'g>> = o.stacked.iter().chain(&dot_xs).map(|x| x.1).collect();
    let mut with_tangent = Vec::new();
    let results = l.emit("scan.jvp", l.scan.reverse, [&starts, &consts, &stacked], |args| {
        let names = moving.iter().map(|&i| (true, l.args[i]));
        let group = |dot: bool, of: &[(Value, Var<'g>)]| of.iter().map(|x| (dot, x.0)).collect::<Vec<_>>();
        let rest = [group(false, &o.consts), group(true, &dot_consts), group(false, &o.stacked), group(true, &dot_xs)];
        let named: Vec<((bool, Value), Var<'g>)> = names.chain(rest.concat()).zip(args.iter().copied()).collect();
        let pick = |dot: bool| named.iter().filter(|x| x.0.0 == dot).map(|x| (x.0.1, x.1)).collect::<Vec<_>>();
        let local = l.again(&pick(false));
        l.check(&local)?;
        let scene = AdContext { region: l.scan.body, map: ValueMap::Part(&local), ..at };
        let mut forward = Forward::new(scene, l.yields);
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
        // A body that yields nothing is no body.
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

/// The first of `yields`.
fn local_any<'g>(local: &Window<Value, Var<'g>>, yields: &[Value]) -> Option<Var<'g>> {
    yields.first().map(|&y| local[y])
}
