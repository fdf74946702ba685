//! Forward mode: tangents beside values, in one walk over the graph. An absent tangent is a zero, made only at outputs.

use super::activity::reaches;
use super::loops::{self, AdContext, ValueMap};
use super::prepare::for_autodiff;
use crate::arena::{Node, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::{Deriv, Site};
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Var};
use crate::passes::rebuild::{Copier, Signature, finish, underivable, written};

/// Adds to `g` the Jacobian-vector product: an input `tangent.<leaf>` for each of `wrt`, and an output
/// `tangent.<output>` for each of `outputs`.
pub fn jvp<'a>(g: impl Into<Graph<'a>>, outputs: &[&str], wrt: &[&str]) -> Result<GraphBuf> {
    let g = g.into();
    let prepared = for_autodiff(g, wrt, outputs)?;
    let g = prepared.view();
    written("jvp", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        let mut signature = Signature::new(g);
        let results = outputs.iter().map(|o| signature.output(o)).collect::<Result<Vec<_>>>()?;
        let scene = AdContext { src: g, region: g.entry(), g: &b, map: ValueMap::Whole(&c.map), regions: &c.regions };
        let mut forward = Forward::new(scene, &results);
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

/// One forward walk over one region: the graph's, or a loop's body.
pub struct Forward<'r, 'x, 'g> {
    at: AdContext<'r, 'x, 'g>,
    tangents: Window<Value, Option<Var<'g>>>,
    wanted: Window<Value, bool>,
}

impl<'r, 'x, 'g> Forward<'r, 'x, 'g> {
    /// A walk towards `results`, values of the region.
    pub fn new(at: AdContext<'r, 'x, 'g>, results: &[Value]) -> Self {
        let tangents = Window::filled(at.src.region_values(at.region), None);
        Forward { at, tangents, wanted: reaches(at.src, at.region, results) }
    }

    /// Gives `v` a tangent.
    pub fn set(&mut self, v: Value, t: Var<'g>) {
        self.tangents[v] = Some(t);
    }

    /// The tangent of `v`; `None` is zero.
    pub fn tangent(&self, v: Value) -> Option<Var<'g>> {
        self.tangents[v]
    }

    /// Asks every node of the region.
    pub fn walk(&mut self) -> Result<()> {
        self.at.src.region_nodes(self.at.region).try_for_each(|n| self.node(n))
    }

    fn node(&mut self, n: Node) -> Result<()> {
        let AdContext { src, g, map, .. } = self.at;
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
                // Together: operands without a tangent are zeros, operands that carry none (indices) are themselves.
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
                return Err(Error::new(Kind::Verify, format!("{} is not prepared", def.name)).at(src.place(n)));
            }
            Deriv::Loop => loops::jvp(self.at, n, &ts)?,
            Deriv::Error(why) => {
                return Err(Error::new(Kind::Derivative, format!("{}: {why}", def.name)).at(src.place(n)));
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
