//! The reverse walk over a region: it applies the derivative fact of each op definition, the last node first.
//!
//! A loop in the region is differentiated by a reverse walk over its body: see [`super::scan_site`]. Invariant: the
//! graph is prepared by [`super::prepare::prepare_for_autodiff`], so no op of [`Deriv::ViaDecompose`] is on the way.

use super::activity::active_from;
use super::choice::backward_choice;
use super::custom_rules::{CustomRulesSite, custom_rules_title};
use super::join::join_cotangents;
use super::scan_site::{AdContext, LoopOperands, ScanSite, ScanSiteValues};
use crate::arena::{Node, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::Deriv;
use crate::nodes::ir::site::Site;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::{Op, Var};

/// A reverse walk over one region: the entry, or the body of a loop.
pub struct Backward<'r, 'x, 'g> {
    pub(super) context: AdContext<'r, 'x, 'g>,
    needs: Window<Value, bool>,
    cotangents: Window<Value, Option<Var<'g>>>,
}

impl<'r, 'x, 'g> Backward<'r, 'x, 'g> {
    /// A walk that computes the cotangents of `roots`, values of the region, and of the values on the way.
    pub fn new(context: AdContext<'r, 'x, 'g>, roots: &[Value]) -> Self {
        let cotangents = Window::filled(context.src.region_values(context.region), None);
        Backward { context, needs: active_from(context.src, context.region, roots), cotangents }
    }

    /// Adds `ct` to the cotangent of `v`.
    pub fn add(&mut self, v: Value, ct: Var<'g>) {
        let sum = match self.cotangents[v] {
            // A rule of a custom function that gives an argument nothing yields zeros.
            Some(old) if is_zero_cotangent(ct) => old,
            Some(old) if !is_zero_cotangent(old) => join_cotangents(old, ct).unwrap_or_else(|| old + ct),
            Some(_) => ct,
            None => ct,
        };
        self.cotangents[v] = Some(sum);
    }

    /// The cotangent of `v`; `None` is zero.
    pub fn cotangent(&self, v: Value) -> Option<Var<'g>> {
        self.cotangents[v]
    }

    /// Computes the cotangents of all operands, the last node first. Nodes without a cotangent are skipped.
    pub fn walk(&mut self) -> Result<()> {
        let src = self.context.src;
        for n in src.region_nodes(self.context.region).rev() {
            let reached = src.outs_of(n).any(|v| self.cotangents[v].is_some());
            if reached && src.args_of(n).iter().any(|&a| self.needs[a]) {
                self.node(n)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, n: Node) -> Result<()> {
        let AdContext { src, g, map, .. } = self.context;
        let def = src.def_of(n);
        g.with(|e| e.set_loc(src.loc[n.at()]));
        let args: Vec<Var<'g>> = src.args_of(n).iter().map(|&a| map.get(a)).collect();
        let outs: Vec<Var<'g>> = src.outs_of(n).map(|v| map.get(v)).collect();
        let cts: Vec<Option<Var<'g>>> = src.outs_of(n).map(|v| self.cotangents[v]).collect();
        let want: Vec<bool> = src.args_of(n).iter().map(|&a| self.needs[a]).collect();
        let site = Site { g, op: src.op[n.at()], attrs: src.attrs(n), args: &args, outs: &outs };
        let asked = |f: &mut dyn FnMut(usize) -> Option<Var<'g>>| {
            (0..args.len()).map(|i| if want[i] { f(i) } else { None }).collect::<Vec<_>>()
        };
        let first = cts[0];
        let ds: Vec<Option<Var<'g>>> = match def.deriv {
            Deriv::Zero => return Ok(()),
            Deriv::Pointwise(p) => asked(&mut |i| first.and_then(|ct| p(&site, i).map(|p| ct * p))),
            Deriv::Linear(t) | Deriv::Multilinear(t) => asked(&mut |i| first.and_then(|ct| t(&site, i, ct))),
            Deriv::Rules(_, vjp) => vjp(&site, &cts, &want),
            Deriv::ViaDecompose => {
                return Err(Error::new(Kind::Verify, format!("{} is not prepared", def.name)).at(src.location(n)));
            }
            Deriv::Loop => backward_loop(self.context, n, &cts, &want)?,
            Deriv::Choice => backward_choice(self.context, n, &cts, &want)?,
            Deriv::OwnRules => CustomRulesSite::new(self.context, n)?.cotangents(&cts, &want)?,
            Deriv::Error(why) => {
                return Err(Error::new(Kind::Derivative, format!("{}: {why}", def.name)).at(src.location(n)));
            }
        };
        for (i, &a) in src.args_of(n).iter().enumerate() {
            if let (true, Some(d)) = (want[i], ds.get(i).copied().flatten()) {
                self.add(a, d);
            }
        }
        match g.error() {
            Some(e) => Err(e.context(format!("derivative of {}", custom_rules_title(src, n)))),
            None => Ok(()),
        }
    }
}

/// True if `x` is a fill with 0.
fn is_zero_cotangent(x: Var<'_>) -> bool {
    x.g.with(|e| e.def(x.v).is_some_and(|d| d.op == Op::FULL && FullAttrs::of(&d.attrs).value.to_bits() == 0))
}

/// The cotangents of the operands of the loop `n`, given those of its results. `want` says which operands need one.
fn backward_loop<'g>(
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
        let inner = AdContext { region: l.scan.body, map: ScanSiteValues::Part(&local), ..context };
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
