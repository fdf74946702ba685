//! Reverse mode: gradients and vector-Jacobian products of outputs of a graph.

use super::activity::Mode;
use super::backward::Backward;
use super::codes::{Codes, zero_tangent_of_code};
use super::inner_values::{copy_without_inner_value_marks, inner_value_or_leaf, mark_named_values};
use super::prepare::{Aim, derivable_form, trace_derivable_form};
use super::scan_site::{AdContext, ScanSiteValues};
use crate::arena::{Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::leaf::ParamAttrs;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, LeafKind, Var};
use crate::passes::copier::Copier;
use crate::passes::fusion_notes::Trace;
use crate::passes::rebuild::{finish_rebuild, rebuilt_by_pass};
use crate::passes::signature::{
    Signature, check_free_names, clean_leaf_name, loss_by_name, output_by_name, underivable_error,
};

/// The treatment of a leaf that gets no gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Missing {
    /// An error that names the leaf.
    #[default]
    Error,
    /// Its gradient is zeros.
    Zero,
}

/// The leaves and inner values with respect to which to differentiate.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GradOptions {
    /// Names of leaves, or of inner values: the printed name of a value ([`Var::named`](crate::graph::Var::named)), the
    /// name of an output, or `%5`, the number of a value in the printed text form (a text that was parsed may have
    /// called it otherwise). The names of leaves take precedence. If empty: all params that are not frozen.
    pub wrt: Vec<String>,
    /// Params to leave out, by name or pattern. The first `*` of a pattern matches any characters.
    pub frozen: Vec<String>,
    /// The treatment of a leaf that gets no gradient.
    pub missing: Missing,
}

setters! {
    [] GradOptions {
        frozen: &[impl AsRef<str>] => frozen.iter().map(|s| s.as_ref().to_string()).collect(),
        missing: Missing,
    }
}

impl GradOptions {
    /// Options for these leaves or inner values.
    pub fn wrt(names: &[impl AsRef<str>]) -> GradOptions {
        GradOptions { wrt: names.iter().map(|s| s.as_ref().to_string()).collect(), ..Default::default() }
    }

    /// The leaves with respect to which to differentiate, in order.
    ///
    /// # Errors
    /// A pattern of `frozen` that matches no param; a leaf of `wrt` that is frozen; no leaf at all.
    pub fn leaves(&self, g: Graph<'_>) -> Result<Vec<String>> {
        let params = || g.leaves().filter(|l| l.kind == LeafKind::Param).map(|l| l.name);
        if let Some(p) = self.frozen.iter().find(|p| !params().any(|name| names::matches_name(p, name))) {
            let known: Vec<&str> = params().collect();
            let text = format!("freeze: {p:?} matches no param{}", names::list_names_instead(p, known.iter().copied()));
            return Err(Error::new(Kind::Name, text));
        }
        let matched = |name: &str| self.frozen.iter().find(|p| names::matches_name(p, name));
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
        let params = g.leaves().filter(|l| l.kind == LeafKind::Param && !frozen(l.value, l.name));
        let names: Vec<String> = params.map(|l| l.name.to_string()).collect();
        if names.is_empty() {
            return Err(Error::new(Kind::Derivative, "there is no param to differentiate with respect to"));
        }
        Ok(names)
    }
}

/// Adds to `g` the gradient of the scalar output `loss`: an output `grad.<leaf>`, of the leaf's type, for each leaf of
/// `options`; of codes (see [`Var::quantize`](crate::graph::Var::quantize)) it is `f32`. Other outputs and updates stay
/// as they are.
///
/// An inner value gets the derivative of the loss with respect to that value alone, as if it were a leaf. What it is
/// computed from gets its own gradient, through the inner value too.
///
/// # Errors
/// An unknown name; a name that several values have; an output or a leaf that is called `grad.<leaf>` already (a second
/// gradient by one leaf: [`rename`](fn@crate::graph::rename) the first); a loss that is not a scalar or carries no
/// derivative; an op without a derivative on the way; a leaf without a gradient, if [`Missing::Error`].
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("inner");
/// let (x, w) = (g.input("x", [2], DType::F64), g.param("w", [2], DType::F64, Init::Ones));
/// let h = (w * x).named("h");
/// let graph = g.finish([(h * h).sum(..).named("loss")])?;
/// let mut p = Session::new().compile(&grad(&graph, "loss", &GradOptions::wrt(&["h", "w"]))?)?;
/// p.init(0)?;
/// p.values_mut::<f64>("x")?.copy_from_slice(&[3.0, 5.0]);
/// p.step()?;
/// assert_eq!(p.values::<f64>("grad.h")?, [6.0, 10.0]); // 2h
/// assert_eq!(p.values::<f64>("grad.w")?, [18.0, 50.0]); // 2h·x
/// # Ok(())
/// # }
/// ```
pub fn grad<'a>(g: impl Into<Graph<'a>>, loss: &str, options: &GradOptions) -> Result<GraphBuf> {
    let g = g.into();
    check_free_names(g, "grad", options.leaves(g)?.iter().map(|name| format!("grad.{name}")))?;
    differentiate_numbered(g, loss, options)
}

/// A record of each step that prepares `g` for [`grad`]. Errors: an unknown name; those of the steps.
pub fn trace_preparation<'a>(g: impl Into<Graph<'a>>, loss: &str, options: &GradOptions) -> Result<Vec<Trace>> {
    let g = g.into();
    let leaves = options.leaves(g)?;
    let names: Vec<&str> = leaves.iter().map(String::as_str).collect();
    let marked = mark_named_values(g, &names)?;
    let aim = Aim { wrt: &names, results: &[loss], mode: Mode::Reverse };
    Ok(trace_derivable_form(marked.as_ref().map_or(g, GraphBuf::view), &aim)?.1)
}

/// As [`grad`]; gradients whose names are taken are called `grad.<leaf>.2` and so on. They are the last outputs.
pub fn differentiate_numbered(g: Graph<'_>, loss: &str, options: &GradOptions) -> Result<GraphBuf> {
    differentiate_from_seed(g, loss, options, &|_, loss| loss.full_like(1.0))
}

/// The cotangent of a loss, which is a value of the builder.
pub type Seed<'s> = &'s dyn for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>;

/// As [`grad`], from the cotangent that `seed` makes of the loss.
pub fn differentiate_from_seed(g: Graph<'_>, loss: &str, options: &GradOptions, seed: Seed<'_>) -> Result<GraphBuf> {
    let leaves = options.leaves(g)?;
    let names: Vec<&str> = leaves.iter().map(String::as_str).collect();
    loss_by_name(g, loss)?;
    let marked = mark_named_values(g, &names)?;
    let prepared = derivable_form(marked.as_ref().map_or(g, GraphBuf::view), &names, &[loss], Mode::Reverse)?;
    let g = prepared.view();
    rebuilt_by_pass("grad", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        copy_without_inner_value_marks(g, &mut c, &b);
        let seed = seed(&b, c.map[output_by_name(g, loss)?]);
        let codes = Codes::of(g);
        let grads = ReverseGrad::new(&codes, &b, &c, &names)?.run(&[(loss, seed)], options.missing)?;
        let mut signature = Signature::new(g);
        for (name, dv) in names.iter().zip(grads) {
            b.output(&signature.unused(&format!("grad.{name}")), dv);
        }
        drop(c);
        finish_rebuild(b, bump)
    })
}

/// Adds to `g` the vector-Jacobian product of `outputs`: an input `cotangent.<output>` of the output's type for each,
/// and an output `grad.<leaf>` for each of `wrt`, which may name inner values as [`GradOptions::wrt`] does. In the name
/// of the input, `_` stands for characters that the name of a leaf cannot have: quotes, backslashes and control ones.
/// With several losses, their cotangents are the weights of their sum. Errors as for [`grad`].
pub fn vjp<'a>(g: impl Into<Graph<'a>>, outputs: &[&str], wrt: &[&str], missing: Missing) -> Result<GraphBuf> {
    let g = g.into();
    check_free_names(g, "vjp", wrt.iter().map(|name| format!("grad.{name}")))?;
    vjp_numbered(g, outputs, wrt, missing)
}

/// As [`vjp`]; gradients whose names are taken are called `grad.<leaf>.2` and so on. They are the last outputs.
pub fn vjp_numbered(g: Graph<'_>, outputs: &[&str], wrt: &[&str], missing: Missing) -> Result<GraphBuf> {
    let marked = mark_named_values(g, wrt)?;
    let prepared = derivable_form(marked.as_ref().map_or(g, GraphBuf::view), wrt, outputs, Mode::Reverse)?;
    let g = prepared.view();
    rebuilt_by_pass("vjp", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        copy_without_inner_value_marks(g, &mut c, &b);
        let (mut seeds, mut signature, codes) = (Vec::new(), Signature::new(g), Codes::of(g));
        for &o in outputs {
            let v = signature.output(o)?;
            let Some(dtype) = codes.tangent_dtype(v) else {
                return Err(underivable_error(g, v, format!("output {o:?} is {}: no derivative", g.ty_text(v))));
            };
            let name = signature.unused(&clean_leaf_name(&format!("cotangent.{o}")));
            seeds.push((o, b.input(&name, g.dims(v), dtype)));
        }
        if let Some(e) = b.error() {
            return Err(e);
        }
        let grads = ReverseGrad::new(&codes, &b, &c, wrt)?.run(&seeds, missing)?;
        for (name, dv) in wrt.iter().zip(grads) {
            b.output(&signature.unused(&format!("grad.{name}")), dv);
        }
        drop(c);
        finish_rebuild(b, bump)
    })
}

/// A reverse walk over the entry, from outputs to leaves or marked inner values.
pub struct ReverseGrad<'r, 'x, 'g> {
    back: Backward<'r, 'x, 'g>,
    wrt: Vec<Value>,
    names: &'r [&'r str],
}

impl<'r, 'x, 'g> ReverseGrad<'r, 'x, 'g> {
    /// A walk over the graph of `codes`, which `copy` wrote to `g`, for the leaves `wrt`.
    pub fn new(codes: &'r Codes<'x>, g: &'g Builder, copy: &'r Copier<'x, 'g>, wrt: &'r [&'r str]) -> Result<Self> {
        let src = codes.graph();
        let signature = Signature::new(src);
        let leaves = wrt.iter().map(|n| inner_value_or_leaf(&signature, n)).collect::<Result<Vec<_>>>()?;
        for (&v, n) in leaves.iter().zip(wrt) {
            if !codes.carries(v) {
                return Err(underivable_error(src, v, format!("{n:?} is {}: no derivative", src.ty_text(v))));
            }
        }
        let (map, regions) = (ScanSiteValues::Whole(&copy.map), &copy.regions);
        let context = AdContext { src, codes, region: src.entry(), g, map, regions, fades: false };
        Ok(ReverseGrad { back: Backward::new(context, &leaves), wrt: leaves, names: wrt })
    }

    /// Walks from outputs, whose cotangents `seeds` gives by name. Returns the cotangents of the leaves, in order.
    pub fn run(mut self, seeds: &[(&str, Var<'g>)], missing: Missing) -> Result<Vec<Var<'g>>> {
        let context = self.back.context;
        let signature = Signature::new(context.src);
        for &(name, seed) in seeds {
            self.back.add(signature.output(name)?, seed);
        }
        self.back.walk()?;
        context.g.with(|e| e.set_loc(u32::MAX));
        let mut grads = Vec::new();
        for (&v, name) in self.wrt.iter().zip(self.names) {
            grads.push(match (self.back.cotangent(v), missing) {
                (Some(ct), _) => ct,
                (None, Missing::Zero) => zero_tangent_of_code(context.map.get(v)),
                (None, Missing::Error) => {
                    let from: Vec<&str> = seeds.iter().map(|s| s.0).collect();
                    let text = format!(
                        "{name:?} gets no gradient: {} does not depend on it differentiably; freeze it or ask for \
                        zeros",
                        from.join(", ")
                    );
                    return Err(underivable_error(context.src, v, text));
                }
            });
        }
        Ok(grads)
    }
}
