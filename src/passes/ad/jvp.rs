//! Forward mode: one walk over the graph computes the tangent of each value. An absent tangent is zero; zeros are made
//! at outputs only.

use super::activity::reaches;
use super::loops::{self, AdContext, ValueMap};
use super::prepare::for_autodiff;
use crate::arena::{Node, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::{Deriv, Site};
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Var};
use crate::passes::rebuild::{Copier, Signature, finish, underivable, written};

/// Adds to `g` the Jacobian-vector product: an input `tangent.<leaf>` for each of `wrt`, of the leaf's type, and an
/// output `tangent.<output>` for each of `outputs`, of the output's type.
///
/// # Errors
/// An unknown name; a leaf whose dtype carries no derivative; an op without a derivative on the way.
pub fn jvp(g: Graph<'_>, outputs: &[&str], wrt: &[&str]) -> Result<GraphBuf> {
    let prepared = for_autodiff(g, wrt, outputs)?;
    let g = prepared.view();
    written("jvp", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        let mut signature = Signature::new(g);
        let results = outputs.iter().map(|o| signature.output(o)).collect::<Result<Vec<_>>>()?;
        let context = AdContext { src: g, region: g.entry(), g: &b, map: ValueMap::Whole(&c.map), regions: &c.regions };
        let mut forward = Forward::new(context, &results);
        for &name in wrt {
            let v = signature.leaf(name)?;
            if !g.dtype[v.at()].is_differentiable() {
                return Err(underivable(g, v, format!("{name:?} is {}: no derivative", g.ty_text(v))));
            }
            let t = b.input(&signature.unused(&format!("tangent.{name}")), g.dims(v), g.dtype[v.at()]);
            forward.set(v, t);
        }
        forward.walk()?;
        b.with(|e| e.set_loc(u32::MAX));
        for (&o, &v) in outputs.iter().zip(&results) {
            let t = forward.tangents[v].unwrap_or_else(|| c.map[v].full_like(0.0));
            b.output(&signature.unused(&format!("tangent.{o}")), t);
        }
        drop(c);
        finish(b, bump)
    })
}

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
        Forward { context, tangents, wanted: reaches(context.src, context.region, results) }
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
                let fill = |(a, t): (&Var<'g>, &Option<Var<'g>>)| match t {
                    Some(t) => *t,
                    None if a.dtype().is_differentiable() => a.full_like(0.0),
                    None => *a,
                };
                let dots: Vec<Var<'g>> = args.iter().zip(&ts).map(fill).collect();
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
            Deriv::Loop => loops::jvp(self.context, n, &ts)?,
            Deriv::Error(why) => {
                return Err(Error::new(Kind::Derivative, format!("{}: {why}", def.name)).at(src.location(n)));
            }
        };
        for (v, t) in src.outs_of(n).zip(results) {
            self.tangents[v] = t.filter(|_| src.dtype[v.at()].is_differentiable());
        }
        match g.error() {
            Some(e) => Err(e.context(format!("tangent of {}", def.name))),
            None => Ok(()),
        }
    }
}
