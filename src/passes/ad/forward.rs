//! The forward walk over a region: it applies the derivative fact of each op definition, in order.
//!
//! A loop in the region is differentiated by a forward walk over its body: see [`super::scan_site`]. Invariant: the
//! graph is prepared by [`super::prepare::derivable_form`], so the walk meets no op whose derivative fact is
//! [`Deriv::ViaDecompose`].

use super::activity::active_towards;
use super::choice_site::forward_choice;
use super::codes::{code_ends_derivatives, zero_tangent_of_code};
use super::custom_rules::{CustomRulesSite, op_title};
use super::scan_site::{AdContext, LoopOperands, Operands, ScanSite};
use crate::arena::{Node, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::Var;
use crate::nodes::ir::opdef::Deriv;
use crate::nodes::ir::site::Site;
use crate::nodes::ops::control::scan::Exit;

/// One forward walk over one region: the entry, or the body of a loop.
pub struct Forward<'r, 'x, 'g> {
    context: AdContext<'r, 'x, 'g>,
    tangents: Window<Value, Option<Var<'g>>>,
    wanted: Window<Value, bool>,
}

impl<'r, 'x, 'g> Forward<'r, 'x, 'g> {
    /// A walk that computes the tangents of `results`, values of the region, and of the values on the way.
    pub fn new(context: AdContext<'r, 'x, 'g>, results: &[Value]) -> Self {
        let tangents = Window::filled(context.src.region_values(context.region), None);
        Forward { context, tangents, wanted: active_towards(context.codes, context.region, results) }
    }

    /// Sets the tangent of `v`.
    pub fn set(&mut self, v: Value, t: Var<'g>) {
        self.tangents[v] = Some(t);
    }

    /// The tangent of `v`; `None` is zero.
    pub fn tangent(&self, v: Value) -> Option<Var<'g>> {
        self.tangents[v]
    }

    /// Computes the tangents of all nodes of the region, in order.
    pub fn walk(&mut self) -> Result<()> {
        self.context.src.region_nodes(self.context.region).try_for_each(|n| self.node(n))
    }

    fn node(&mut self, n: Node) -> Result<()> {
        let AdContext { src, g, map, .. } = self.context;
        let ts: Vec<Option<Var<'g>>> = src.args_of(n).iter().map(|&a| self.tangents[a]).collect();
        if ts.iter().all(Option::is_none) || !src.outs_of(n).any(|v| self.wanted[v]) {
            return Ok(());
        }
        let def = src.def_of(n);
        g.with(|e| e.set_loc(src.loc[n.at()]));
        let args: Vec<Var<'g>> = src.args_of(n).iter().map(|&a| map.get(a)).collect();
        let outs: Vec<Var<'g>> = src.outs_of(n).map(|v| map.get(v)).collect();
        let site = Site { g, op: src.op[n.at()], attrs: src.attrs(n), args: &args, outs: &outs };
        let codes = self.context.codes;
        if !code_ends_derivatives(def) {
            let results: Vec<Value> = src.outs_of(n).collect();
            codes.check_passage(n, |i| ts[i].is_some(), |j| self.wanted[results[j]])?;
        }
        let sum = |a: Option<Var<'g>>, b: Var<'g>| Some(a.map_or(b, |a| a + b));
        let results: Vec<Option<Var<'g>>> = match def.deriv {
            Deriv::Zero => vec![None; outs.len()],
            Deriv::Pointwise(p) => {
                let terms = ts.iter().enumerate().filter_map(|(i, t)| t.and_then(|t| p(&site, i).map(|p| p * t)));
                vec![terms.fold(None, sum)]
            }
            Deriv::Linear(_) => {
                // Linear in all operands together: an absent tangent is zero, and an operand that carries no derivative
                // (an index) is used as it is.
                let fill = |(i, a): (usize, &Var<'g>)| match ts[i] {
                    Some(t) => t,
                    None if codes.carries(src.args_of(n)[i]) => zero_tangent_of_code(*a),
                    None => *a,
                };
                let dots: Vec<Var<'g>> = args.iter().enumerate().map(fill).collect();
                site.rebuild_with(&dots).into_iter().map(Some).collect()
            }
            Deriv::Multilinear(_) => {
                let term = |(i, t): (usize, &Option<Var<'g>>)| {
                    t.and_then(|t| {
                        let mut one = args.clone();
                        one[i] = t;
                        site.rebuild_with(&one).first().copied()
                    })
                };
                vec![ts.iter().enumerate().filter_map(term).fold(None, sum)]
            }
            Deriv::Rules(jvp, _) => jvp(&site, &ts),
            Deriv::ViaDecompose => {
                return Err(Error::new(Kind::Verify, format!("{} is not prepared", def.name)).at(src.location(n)));
            }
            Deriv::Loop => push_through_loop(self.context, n, &ts)?,
            Deriv::Choice => forward_choice(self.context, n, &ts)?,
            Deriv::OwnRules => CustomRulesSite::new(self.context, n)?.tangents(&ts)?,
            Deriv::Error(why) => {
                return Err(Error::new(Kind::Derivative, format!("{}: {why}", def.name)).at(src.location(n)));
            }
        };
        for (v, t) in src.outs_of(n).zip(results) {
            self.tangents[v] = t.filter(|_| codes.carries(v));
        }
        match g.error() {
            Some(e) => Err(e.context(format!("tangent of {}", op_title(src, n)))),
            None => Ok(()),
        }
    }
}

/// An argument of the body of a forward-mode loop.
#[derive(Clone, Copy)]
struct ForwardArg<'g> {
    /// True for the tangent of `value`, false for `value` itself.
    is_tangent: bool,
    value: Value,
    arg: Var<'g>,
}

/// The tangents of the results of the loop `n`, given those of its operands. A loop that a carry ends may have no
/// bound, so it runs again, with the tangents beside the values; others read what the loop stacked.
fn push_through_loop<'g>(
    context: AdContext<'_, '_, 'g>,
    n: Node,
    ts: &[Option<Var<'g>>],
) -> Result<Vec<Option<Var<'g>>>> {
    let l = ScanSite::new(context, n);
    let (k, xs) = (l.scan.carries, l.scan.xs());
    let has: Vec<bool> = ts.iter().map(Option::is_some).collect();
    let moving: Vec<usize> = (0..k).zip(l.dependent(&has)).filter(|(_, d)| *d).map(|(i, _)| i).collect();
    let given = |r: std::ops::Range<usize>| r.filter_map(|i| ts[i].map(|t| (l.args[i], t))).collect::<Vec<_>>();
    let (dot_consts, dot_xs) = (given(k..xs), given(xs..l.args.len()));
    let zero = |i: usize| ts[i].unwrap_or_else(|| zero_tangent_of_code(context.map.get(context.src.args_of(n)[i])));
    let again = l.scan.exit == Some(Exit::Flag);
    let values = l.given(0..if again { k } else { 0 });
    let starts: Vec<Var<'g>> = values.iter().map(|v| v.1).chain(moving.iter().map(|&i| zero(i))).collect();
    let o = match again {
        true => Operands { consts: l.given(k..xs), stacked: l.given(xs..l.args.len()) },
        false => l.operands(),
    };
    let consts: Vec<Var<'g>> = o.consts.iter().chain(&dot_consts).map(|c| c.1).collect();
    let stacked: Vec<Var<'g>> = o.stacked.iter().chain(&dot_xs).map(|x| x.1).collect();
    let mut with_tangent = Vec::new();
    let operands = LoopOperands { carries: &starts, consts: &consts, stacked: &stacked };
    let results = l.emit_as(l.scan, "jvp", operands, |args| {
        // In the order of the operands.
        let groups = [
            (false, body_values(&values)),
            (true, moving.iter().map(|&i| l.args[i]).collect()),
            (false, body_values(&o.consts)),
            (true, body_values(&dot_consts)),
            (false, body_values(&o.stacked)),
            (true, body_values(&dot_xs)),
        ];
        let named = pair_args(groups, args);
        let pick = |is_tangent: bool| {
            named.iter().filter(|a| a.is_tangent == is_tangent).map(|a| (a.value, a.arg)).collect::<Vec<_>>()
        };
        let local = l.recompute(&pick(false));
        l.check(&local)?;
        let mut forward = Forward::new(l.inner(&local), l.yields);
        pick(true).into_iter().for_each(|(v, t)| forward.set(v, t));
        forward.walk()?;
        let carried = |&i: &usize| {
            let y = l.yields[i];
            forward.tangent(y).unwrap_or_else(|| zero_tangent_of_code(local[y]))
        };
        let next = l.yields[..values.len()].iter().map(|&y| local[y]);
        let mut yields: Vec<Var<'g>> = next.chain(moving.iter().map(carried)).collect();
        for j in k..l.yields.len() {
            if let Some(t) = forward.tangent(l.yields[j]) {
                with_tangent.push(j);
                yields.push(t);
            }
        }
        // A body yields at least one value.
        if yields.is_empty() {
            yields.extend(first_yield(&local, l.yields));
        }
        Ok(yields)
    })?;
    let mut tangents = vec![None; l.yields.len()];
    for (&j, t) in moving.iter().chain(&with_tangent).zip(results.into_iter().skip(values.len())) {
        tangents[j] = Some(t);
    }
    Ok(tangents)
}

/// The body's values of `pairs`.
fn body_values(pairs: &[(Value, Var<'_>)]) -> Vec<Value> {
    pairs.iter().map(|p| p.0).collect()
}

/// The arguments `args` of a forward-mode body with the body's values that they are for. Each group says whether its
/// arguments are tangents.
fn pair_args<'g>(groups: [(bool, Vec<Value>); 6], args: &[Var<'g>]) -> Vec<ForwardArg<'g>> {
    let values = groups.into_iter().flat_map(|(is_tangent, group)| group.into_iter().map(move |v| (is_tangent, v)));
    values.zip(args).map(|((is_tangent, value), &arg)| ForwardArg { is_tangent, value, arg }).collect()
}

/// The value in place of the first yield.
fn first_yield<'g>(local: &Window<Value, Var<'g>>, yields: &[Value]) -> Option<Var<'g>> {
    yields.first().map(|&y| local[y])
}
