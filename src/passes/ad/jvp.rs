//! Forward mode: one walk over the graph computes the tangent of each value. An absent tangent is zero; zeros are made
//! at outputs only.

use super::activity::Mode;
use super::codes::{Codes, zero_tangent_of_code};
use super::forward::Forward;
use super::prepare::derivable_form;
use super::scan_site::{AdContext, ScanSiteValues};
use crate::error::Result;
use crate::nodes::{Builder, Emit, Graph, GraphBuf};
use crate::passes::copier::Copier;
use crate::passes::rebuild::{finish_rebuild, rebuilt_by_pass};
use crate::passes::signature::{Signature, check_free_names, underivable_error};

/// Adds to `g` the Jacobian-vector product: an input `tangent.<leaf>` for each of `wrt`, of the leaf's type, and an
/// output `tangent.<output>` for each of `outputs`, of the output's type. Tangents of codes (see
/// [`Var::quantize`](crate::graph::Var::quantize)) are `f32`.
///
/// # Errors
/// An unknown name; an input or an output `tangent.…` that `g` has already, from an earlier derivative: see
/// [`rename`](fn@crate::graph::rename); a leaf or an output whose dtype carries no derivative; an op without a
/// derivative on the way.
pub fn jvp<'a>(g: impl Into<Graph<'a>>, outputs: &[&str], wrt: &[&str]) -> Result<GraphBuf> {
    let inputs: Vec<String> = wrt.iter().map(|name| format!("tangent.{name}")).collect();
    let g = g.into();
    check_free_names(g, "jvp", inputs.iter().cloned().chain(outputs.iter().map(|o| format!("tangent.{o}"))))?;
    push_named_tangents(g, outputs, wrt, &inputs)
}

/// As [`jvp`], with the names `inputs` for the inputs of the tangents.
/// Names that are taken get a number.
pub(super) fn push_named_tangents(g: Graph<'_>, outputs: &[&str], wrt: &[&str], inputs: &[String]) -> Result<GraphBuf> {
    let prepared = derivable_form(g, wrt, outputs, Mode::Forward)?;
    let g = prepared.view();
    rebuilt_by_pass("jvp", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        let (mut signature, codes) = (Signature::new(g), Codes::of(g));
        let results = outputs.iter().map(|o| signature.output(o)).collect::<Result<Vec<_>>>()?;
        for (o, &v) in outputs.iter().zip(&results) {
            if !codes.carries(v) {
                return Err(underivable_error(g, v, format!("output {o:?} is {}: no derivative", g.ty_text(v))));
            }
        }
        let (map, regions) = (ScanSiteValues::Whole(&c.map), &c.regions);
        let context = AdContext { src: g, codes: &codes, region: g.entry(), g: &b, map, regions, fades: false };
        let mut forward = Forward::new(context, &results);
        for (&name, input) in wrt.iter().zip(inputs) {
            let v = signature.leaf(name)?;
            let Some(dtype) = codes.tangent_dtype(v) else {
                return Err(underivable_error(g, v, format!("{name:?} is {}: no derivative", g.ty_text(v))));
            };
            let t = b.input(&signature.unused(input), g.dims(v), dtype);
            // A leaf that is named twice has the sum of its tangents.
            forward.set(v, forward.tangent(v).map_or(t, |earlier| earlier + t));
        }
        forward.walk()?;
        b.with(|e| e.set_loc(u32::MAX));
        for (&o, &v) in outputs.iter().zip(&results) {
            let t = forward.tangent(v).unwrap_or_else(|| zero_tangent_of_code(c.map[v]));
            b.output(&signature.unused(&format!("tangent.{o}")), t);
        }
        drop(c);
        finish_rebuild(b, bump)
    })
}
