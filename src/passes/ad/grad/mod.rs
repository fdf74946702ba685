//! Reverse mode: one walk over the graph, back to front, that asks each op's row for its fact.

mod join;

use super::activity::depends;
use super::loops::{self, AdContext, ValueMap};
use super::prepare::for_autodiff;
use crate::arena::{Node, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::ir::leaf::ParamAttrs;
use crate::nodes::ir::opdef::{Deriv, Site};
use crate::nodes::{Builder, Emit, Graph, GraphBuf, LeafKind, Var};
use crate::passes::rebuild::{Copier, Signature, finish, loss_named, output_named, underivable, written};

/// What to do about a leaf that gets no gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Missing {
    /// An error that names it: a silent zero is a bug found too late.
    #[default]
    Error,
    /// Its gradient is zeros.
    Zero,
}

/// What to differentiate.
#[derive(Clone, Debug, Default)]
pub struct GradOptions {
    /// Leaves; empty: all params that are not frozen.
    pub wrt: Vec<String>,
    /// Params to leave out, by name; the first `*` of one stands for any characters.
    pub frozen: Vec<String>,
    /// What to do about a leaf that gets no gradient.
    pub missing: Missing,
}

impl GradOptions {
    /// With respect to these leaves.
    pub fn wrt(names: &[&str]) -> GradOptions {
        GradOptions { wrt: names.iter().map(|s| s.to_string()).collect(), ..Default::default() }
    }

    /// The leaves to differentiate by, in order. A pattern of `frozen` that matches no param is an error, and so is a
    /// leaf that is asked for and frozen.
    pub fn leaves(&self, g: Graph<'_>) -> Result<Vec<String>> {
        let params = || g.leaves().filter(|l| l.1 == LeafKind::Param).map(|l| l.2);
        if let Some(p) = self.frozen.iter().find(|p| !params().any(|name| names::matches(p, name))) {
            let known: Vec<&str> = params().collect();
            let text = format!("freeze: {p:?} matches no param{}", names::instead(p, known.iter().copied()));
            return Err(Error::new(Kind::Name, text));
        }
        let matched = |name: &str| self.frozen.iter().find(|p| names::matches(p, name));
        if !self.wrt.is_empty() {
            return match self.wrt.iter().find_map(|name| Some((name, matched(name)?))) {
                Some((name, p)) => Err(Error::new(
                    Kind::Name,
                    format!("{name:?} is asked for and frozen by {p:?}: leave out one of them"),
                )),
                None => Ok(self.wrt.clone()),
            };
        }
        let frozen = |v: Value, name: &str| ParamAttrs::of(&g.attrs(g.def[v.at()])).frozen || matched(name).is_some();
        let params = g.leaves().filter(|l| l.1 == LeafKind::Param && !frozen(l.0, l.2));
        let names: Vec<String> = params.map(|l| l.2.to_string()).collect();
        if names.is_empty() {
            return Err(Error::new(Kind::Derivative, "there is no param to differentiate by"));
        }
        Ok(names)
    }
}

/// A name that no leaf and no output of `g` has: `name`, or `name.2`, `name.3` ….
pub fn unused_name(g: Graph<'_>, name: &str) -> String {
    Signature::new(g).unused(name)
}

/// Adds to `g` the gradient of the scalar output `loss`: an output `grad.<leaf>` for each leaf asked for. Other outputs
/// and updates stay as they are.
pub fn grad<'a>(g: impl Into<Graph<'a>>, loss: &str, options: &GradOptions) -> Result<GraphBuf> {
    let g = g.into();
    let leaves = options.leaves(g)?;
    let names: Vec<&str> = leaves.iter().map(String::as_str).collect();
    loss_named(g, loss)?;
    let prepared = for_autodiff(g, &names, &[loss])?;
    let g = prepared.view();
    written("grad", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        let seed = c.map[output_named(g, loss)?].full_like(1.0);
        let grads = Reverse::new(g, &b, &c, &names)?.run(&[(loss, seed)], options.missing)?;
        let mut signature = Signature::new(g);
        for (name, dv) in names.iter().zip(grads) {
            b.output(&signature.unused(&format!("grad.{name}")), dv);
        }
        drop(c);
        finish(b, bump)
    })
}

/// Adds to `g` the vector-Jacobian product of `outputs`: an input `cotangent.<output>` for each of them and an output
/// `grad.<leaf>` for each of `wrt`.
pub fn vjp<'a>(g: impl Into<Graph<'a>>, outputs: &[&str], wrt: &[&str], missing: Missing) -> Result<GraphBuf> {
    let g = g.into();
    let prepared = for_autodiff(g, wrt, outputs)?;
    let g = prepared.view();
    written("vjp", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        let (mut seeds, mut signature) = (Vec::new(), Signature::new(g));
        for &o in outputs {
            let v = signature.output(o)?;
            if !g.dtype[v.at()].is_differentiable() {
                return Err(underivable(g, v, format!("output {o:?} is {}: no derivative", g.ty_text(v))));
            }
            seeds.push((o, b.input(&signature.unused(&format!("cotangent.{o}")), g.dims(v), g.dtype[v.at()])));
        }
        let grads = Reverse::new(g, &b, &c, wrt)?.run(&seeds, missing)?;
        for (name, dv) in wrt.iter().zip(grads) {
            b.output(&signature.unused(&format!("grad.{name}")), dv);
        }
        drop(c);
        finish(b, bump)
    })
}

/// One reverse walk over the entry, from outputs to leaves.
pub struct Reverse<'r, 'x, 'g> {
    back: Backward<'r, 'x, 'g>,
    wrt: Vec<Value>,
    names: &'r [&'r str],
}

impl<'r, 'x, 'g> Reverse<'r, 'x, 'g> {
    /// A walk over `src`, which `copy` wrote to `g`, for the leaves `wrt`.
    pub fn new(src: Graph<'x>, g: &'g Builder, copy: &'r Copier<'x, 'g>, wrt: &'r [&'r str]) -> Result<Self> {
        let signature = Signature::new(src);
        let leaves = wrt.iter().map(|n| signature.leaf(n)).collect::<Result<Vec<_>>>()?;
        for (&v, n) in leaves.iter().zip(wrt) {
            if !src.dtype[v.at()].is_differentiable() {
                return Err(underivable(src, v, format!("{n:?} is {}: no derivative", src.ty_text(v))));
            }
        }
        let scene = AdContext { src, region: src.entry(), g, map: ValueMap::Whole(&copy.map), regions: &copy.regions };
        Ok(Reverse { back: Backward::new(scene, &leaves), wrt: leaves, names: wrt })
    }

    /// Walks, from cotangents of outputs to those of the leaves.
    pub fn run(mut self, seeds: &[(&str, Var<'g>)], missing: Missing) -> Result<Vec<Var<'g>>> {
        let at = self.back.at;
        let signature = Signature::new(at.src);
        for &(name, seed) in seeds {
            self.back.add(signature.output(name)?, seed);
        }
        self.back.walk()?;
        at.g.with(|e| e.set_loc(u32::MAX));
        let mut grads = Vec::new();
        for (&v, name) in self.wrt.iter().zip(self.names) {
            grads.push(match (self.back.cotangent(v), missing) {
                (Some(ct), _) => ct,
                (None, Missing::Zero) => at.map.get(v).full_like(0.0),
                (None, Missing::Error) => {
                    let from: Vec<&str> = seeds.iter().map(|s| s.0).collect();
                    let text = format!(
                        "{name:?} gets no gradient: {} does not depend on it differentiably; freeze it or ask for zeros",
                        from.join(", ")
                    );
                    return Err(underivable(at.src, v, text));
                }
            });
        }
        Ok(grads)
    }
}

/// One reverse walk over one region: the graph's, or a loop's body.
pub struct Backward<'r, 'x, 'g> {
    at: AdContext<'r, 'x, 'g>,
    needs: Window<Value, bool>,
    cotangents: Window<Value, Option<Var<'g>>>,
}

impl<'r, 'x, 'g> Backward<'r, 'x, 'g> {
    /// A walk towards `roots`, values of the region.
    pub fn new(at: AdContext<'r, 'x, 'g>, roots: &[Value]) -> Self {
        let cotangents = Window::filled(at.src.region_values(at.region), None);
        Backward { at, needs: depends(at.src, at.region, roots), cotangents }
    }

    /// Adds to the cotangent of `v`.
    pub fn add(&mut self, v: Value, ct: Var<'g>) {
        let sum = match self.cotangents[v] {
            Some(old) => join::join(old, ct).unwrap_or_else(|| old + ct),
            None => ct,
        };
        self.cotangents[v] = Some(sum);
    }

    /// The cotangent of `v`; `None` is zero.
    pub fn cotangent(&self, v: Value) -> Option<Var<'g>> {
        self.cotangents[v]
    }

    /// Asks every node of the region, the last first, that a cotangent has come to.
    pub fn walk(&mut self) -> Result<()> {
        let src = self.at.src;
        for n in src.region_nodes(self.at.region).rev() {
            let reached = src.outs_of(n).any(|v| self.cotangents[v].is_some());
            if reached && src.args_of(n).iter().any(|&a| self.needs[a]) {
                self.node(n)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, n: Node) -> Result<()> {
        let AdContext { src, g, map, .. } = self.at;
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
                return Err(Error::new(Kind::Verify, format!("{} is not prepared", def.name)).at(src.place(n)));
            }
            Deriv::Loop => loops::vjp(self.at, n, &cts, &want)?,
            Deriv::Error(why) => {
                return Err(Error::new(Kind::Derivative, format!("{}: {why}", def.name)).at(src.place(n)));
            }
        };
        for (i, &a) in src.args_of(n).iter().enumerate() {
            if let (true, Some(d)) = (want[i], ds.get(i).copied().flatten()) {
                self.add(a, d);
            }
        }
        match g.error() {
            Some(e) => Err(e.context(format!("derivative of {}", def.name))),
            None => Ok(()),
        }
    }
}
