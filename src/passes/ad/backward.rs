//! The reverse walk over a region: it applies the derivative fact of each op definition, the last node first.
//!
//! A loop in the region is differentiated by a reverse walk over its body: see [`super::scan_site`]. Invariant: the
//! graph is prepared by [`super::prepare::derivable_form`], so the walk meets no op whose derivative fact is
//! [`Deriv::ViaDecompose`].

use super::activity::active_from;
use super::choice_site::{backward_choice, branches};
use super::codes::zero_tangent_of_code;
use super::custom_rules::{CustomRulesSite, op_title};
use super::join::{Padded, merge_padded};
use super::scan_site::{AdContext, LoopOperands, ScanSite};
use crate::arena::{Node, Region, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::emit::Definition;
use crate::nodes::ir::opdef::{Deriv, Flags, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::layout::attrs::ConcatAttrs;
use crate::nodes::{Graph, Op, Var};
use std::collections::HashMap;

/// A reverse walk over one region: the entry, or the body of a loop.
pub struct Backward<'r, 'x, 'g> {
    pub(super) context: AdContext<'r, 'x, 'g>,
    needs: Window<Value, bool>,
    cotangents: Window<Value, Option<Var<'g>>>,
    /// Cotangents of slices, which are added when the walk has met all slices of their value.
    slices: HashMap<Value, Vec<Padded<'g>>>,
    /// Of arguments of a loop's body: the sum of the cotangents of the iterations before this one.
    sums: Window<Value, Option<Var<'g>>>,
}

impl<'r, 'x, 'g> Backward<'r, 'x, 'g> {
    /// A walk that computes the cotangents of `roots`, values of the region, and of the values on the way.
    pub fn new(context: AdContext<'r, 'x, 'g>, roots: &[Value]) -> Self {
        let none = || Window::filled(context.src.region_values(context.region), None);
        let needs = active_from(context.codes, context.region, roots);
        Backward { context, needs, cotangents: none(), slices: HashMap::new(), sums: none() }
    }

    /// Adds `ct` to the cotangent of `v`. It shows there when the walk has passed `v`.
    pub fn add(&mut self, v: Value, ct: Var<'g>) {
        match Padded::of(ct) {
            Some(slice) => self.slices.entry(v).or_default().push(slice),
            None => self.add_now(v, ct),
        }
    }

    /// Adds the cotangents of the slices of `v`.
    fn add_slices(&mut self, v: Value) {
        let Some(slices) = self.slices.remove(&v) else { return };
        for sum in merge_padded(slices) {
            self.add_now(v, if self.context.fades { flush_subnormals(sum) } else { sum });
        }
    }

    fn add_now(&mut self, v: Value, ct: Var<'g>) {
        let sum = match self.cotangents[v] {
            // A rule of a custom function that gives an argument nothing yields zeros.
            Some(old) if is_zero_cotangent(ct) => old,
            Some(old) if !is_zero_cotangent(old) => old + ct,
            Some(_) => ct,
            None => ct,
        };
        self.cotangents[v] = Some(sum);
    }

    /// The cotangent of `v` after the walk; `None` is zero.
    pub fn cotangent(&self, v: Value) -> Option<Var<'g>> {
        self.cotangents[v]
    }

    /// Takes the cotangent of `v` so far, with the sum of the iterations before this one. A loop goes on adding to it.
    fn take_so_far(&mut self, v: Value) -> Option<Var<'g>> {
        self.add_slices(v);
        match (self.sums[v].take(), self.cotangents[v].take()) {
            (Some(sum), Some(ct)) => Some(sum + ct),
            (sum, ct) => sum.or(ct),
        }
    }

    /// Computes the cotangents of all operands, the last node first. Nodes without a cotangent are skipped.
    pub fn walk(&mut self) -> Result<()> {
        let src = self.context.src;
        for n in src.region_nodes(self.context.region).rev() {
            if !self.slices.is_empty() {
                self.context.g.with(|e| e.set_loc(src.loc[n.at()]));
                src.outs_of(n).for_each(|v| self.add_slices(v));
            }
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
        self.context.codes.check_passage(n, |i| want[i], |j| cts[j].is_some())?;
        let asked = |f: &mut dyn FnMut(usize) -> Option<Var<'g>>| {
            (0..args.len()).map(|i| if want[i] { f(i) } else { None }).collect::<Vec<_>>()
        };
        let flushed = self.context.fades && (is_product(def) || matches!(src.op[n.at()], Op::ADD | Op::SUB));
        let first = if flushed { cts[0].map(flush_subnormals) } else { cts[0] };
        let ds: Vec<Option<Var<'g>>> = match def.deriv {
            Deriv::Zero => return Ok(()),
            Deriv::Pointwise(p) => asked(&mut |i| first.and_then(|ct| p(&site, i).map(|p| ct * p))),
            Deriv::Linear(t) | Deriv::Multilinear(t) => asked(&mut |i| first.and_then(|ct| t(&site, i, ct))),
            Deriv::Rules(_, vjp) => vjp(&site, &cts, &want),
            Deriv::ViaDecompose => {
                return Err(Error::new(Kind::Verify, format!("{} is not prepared", def.name)).at(src.location(n)));
            }
            Deriv::Loop => self.backward_loop(n, &cts, &want)?,
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
            Some(e) => Err(e.context(format!("derivative of {}", op_title(src, n)))),
            None => Ok(()),
        }
    }
}

/// Whether an op multiplies so much that subnormal operands would take long.
fn is_product(def: &OpDef) -> bool {
    def.flags.has(Flags::PRODUCT) || def.flags.has(Flags::HEAVY)
}

/// Whether a region, or a branch of a choice in it, has a product.
fn has_product(src: Graph<'_>, region: Region) -> bool {
    let (mut seen, mut todo) = (vec![false; src.regions()], vec![region]);
    while let Some(r) = todo.pop() {
        if std::mem::replace(&mut seen[r.at()], true) {
            continue;
        }
        for n in src.region_nodes(r) {
            let def = src.def_of(n);
            if is_product(def) {
                return true;
            }
            if matches!(def.deriv, Deriv::Choice) {
                todo.extend(branches(src, n));
            }
        }
    }
    false
}

/// `ct` with 0 for subnormal numbers. The parts of a joined value are flushed each, where they are computed.
fn flush_subnormals(ct: Var<'_>) -> Var<'_> {
    if !ct.is_some() || !ct.dtype().is_float() || is_zero_cotangent(ct) {
        return ct;
    }
    let g = ct.g;
    let joined = g.with(|e| match e.def(ct.v)? {
        Definition { op: Op::FLUSH_SUBNORMALS, .. } => Some((Vec::new(), 0)),
        Definition { op: Op::CONCAT, args, attrs } => Some((args.to_vec(), ConcatAttrs::of(&attrs).axis)),
        _ => None,
    });
    let Some((parts, axis)) = joined else { return ct.flush_subnormals() };
    let parts: Vec<Var<'_>> = parts.into_iter().map(|v| flush_subnormals(g.var(v))).collect();
    parts.split_first().map_or(ct, |(first, rest)| first.concat(rest, axis))
}

/// True if `x` is a fill with 0.
fn is_zero_cotangent(x: Var<'_>) -> bool {
    x.g.with(|e| e.def(x.v).is_some_and(|d| d.op == Op::FULL && FullAttrs::of(&d.attrs).value.to_bits() == 0))
}

impl<'g> Backward<'_, '_, 'g> {
    /// The cotangents of the operands of the loop `n`, given those of its results. `want` says which operands need one.
    ///
    /// The sum of a constant's cotangents begins with what the walk has so far, so a constant of several loops, one
    /// after another or one in another, has one sum.
    fn backward_loop(&mut self, n: Node, cts: &[Option<Var<'g>>], want: &[bool]) -> Result<Vec<Option<Var<'g>>>> {
        let context = self.context;
        let l = ScanSite::new(context, n);
        if l.scan.is_unbounded() {
            let why = "scan: give while_loop a bound to differentiate backwards";
            return Err(Error::new(Kind::Derivative, why).at(context.src.location(n)));
        }
        let (k, xs) = (l.scan.carries, l.scan.xs());
        let has: Vec<bool> = cts.iter().map(Option::is_some).collect();
        let (reached, dependent) = (l.reached(&has), l.dependent(want));
        // Cotangents of carries are carried, those of constants are summed, those of stacked inputs are stacked.
        let active: Vec<usize> = (0..l.args.len()).filter(|&i| reached[i] && dependent[i]).collect();
        let mut grads = vec![None; l.args.len()];
        if active.is_empty() {
            return Ok(grads);
        }
        let (sums, slices): (Vec<usize>, Vec<usize>) = active.iter().partition(|&&i| i < xs);
        let outs: Vec<Value> = context.src.outs_of(n).collect();
        let starts: Vec<Var<'g>> = sums
            .iter()
            .map(|&i| {
                let (operand, start) = match i < k {
                    true => (outs[i], cts[i]),
                    false => (context.src.args_of(n)[i], self.take_so_far(context.src.args_of(n)[i])),
                };
                start.unwrap_or_else(|| zero_tangent_of_code(context.map.get(operand)))
            })
            .collect();
        let results = l.write_backward_loop(&BackwardParts { cts, sums: &sums, slices: &slices }, &starts)?;
        for (&i, d) in sums.iter().chain(&slices).zip(results) {
            grads[i] = Some(d).filter(|_| want[i]);
        }
        Ok(grads)
    }
}

/// What the adjoint of a loop computes.
struct BackwardParts<'p, 'g> {
    /// Cotangents of the results.
    cts: &'p [Option<Var<'g>>],
    /// The carries and constants whose cotangents are carried.
    sums: &'p [usize],
    /// The stacked inputs whose cotangents are stacked.
    slices: &'p [usize],
}

impl<'g> ScanSite<'_, '_, 'g> {
    /// Writes the adjoint of the loop. Its results: the cotangents of `sums`, which begin at `starts`, and of `slices`.
    fn write_backward_loop(&self, parts: &BackwardParts<'_, 'g>, starts: &[Var<'g>]) -> Result<Vec<Var<'g>>> {
        let (k, xs, o) = (self.scan.carries, self.scan.xs(), self.operands());
        let BackwardParts { cts, sums, slices } = *parts;
        let consts: Vec<Var<'g>> = o.consts.iter().map(|c| c.1).collect();
        let seeds: Vec<(Value, Var<'g>)> =
            (k..cts.len()).filter_map(|j| cts[j].map(|ct| (self.yields[j], ct))).collect();
        let stacked: Vec<Var<'g>> = o.stacked.iter().chain(&seeds).map(|x| x.1).collect();
        let operands = LoopOperands { carries: starts, consts: &consts, stacked: &stacked };
        self.emit("vjp", !self.scan.reverse, operands, |args| {
            let (sum_args, rest) = args.split_at(sums.len());
            let names = o.consts.iter().chain(&o.stacked).map(|x| x.0);
            let known: Vec<(Value, Var<'g>)> = names.zip(rest.iter().copied()).collect();
            let local = self.recompute(&known);
            self.check(&local)?;
            let roots: Vec<Value> = sums.iter().chain(slices).map(|&i| self.args[i]).collect();
            let mut body = self.inner(&local);
            body.fades = has_product(body.src, body.region);
            let flushed = |ct: Var<'g>| if body.fades { flush_subnormals(ct) } else { ct };
            let mut back = Backward::new(body, &roots);
            for (&i, &sum) in sums.iter().zip(sum_args) {
                match i < k {
                    true => back.add(self.yields[i], flushed(sum)),
                    false => back.sums[self.args[i]] = Some(sum),
                }
            }
            seeds.iter().zip(&rest[known.len()..]).for_each(|(s, &ct)| back.add(s.0, ct));
            back.walk()?;
            let one = |&i: &usize| {
                let arg = self.args[i];
                let ct = back.take_so_far(arg).unwrap_or_else(|| zero_tangent_of_code(local[arg]));
                if i < xs { ct } else { flushed(ct) }
            };
            Ok(sums.iter().chain(slices).map(one).collect())
        })
    }
}
