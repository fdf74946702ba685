//! Custom functions in a check of gradients: whether the two rules of a function agree, and which gradients a rule may
//! change on purpose.

use super::GradientCheck;
use super::finite_differences::FinitePoint;
use crate::arena::{Node, Region, Side, ids::Id};
use crate::error::{Kind, Result};
use crate::nodes::ir::opdef::planned_regions;
use crate::nodes::ops::control::custom_fn::{CustomFnAttrs, has_derivative_rules};
use crate::nodes::{DType, Graph, GraphBuf};
use crate::passes::ad::activity::active_from;
use crate::passes::ad::codes::Codes;
use crate::passes::ad::grad::vjp_numbered;
use crate::passes::{Missing, jvp};
use crate::session::{Program, Session};
use std::fmt;

/// Whether the two rules of custom functions agree: ⟨J·v, w⟩ and ⟨v, Jᵀ·w⟩ of the whole graph, for drawn v and w. They
/// may disagree on purpose.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RulesAgreement {
    /// The functions that have both rules.
    pub names: Vec<String>,
    /// ⟨J·v, w⟩, by the rules of forward mode.
    pub forward: f64,
    /// ⟨v, Jᵀ·w⟩, by the rules of reverse mode.
    pub reverse: f64,
    /// True if they are equal within the tolerance.
    pub fine: bool,
}

impl fmt::Display for RulesAgreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RulesAgreement { names, forward, reverse, fine } = self;
        let verdict = if *fine { "ok" } else { "warning: vjp and jvp disagree" };
        write!(f, "rules of custom_fn {}: <Jv,w> = {forward:.6e}, <v,JTw> = {reverse:.6e}: {verdict}", names.join(", "))
    }
}

/// The custom functions with rules in those `regions` of `g`.
fn gradcheck_rule_functions(g: Graph<'_>, regions: &Side<Region, bool>) -> Vec<CustomFnAttrs> {
    let nodes = (0..g.regions()).map(Region::new).filter(|&r| regions[r]).flat_map(|r| g.region_nodes(r));
    nodes.filter(|&n| has_derivative_rules(g, n)).map(|n| CustomFnAttrs::of(&g.attrs(n))).collect()
}

/// The bodies of `nodes` and of all loops and choices in them.
fn gradcheck_bodies(g: Graph<'_>, nodes: impl Iterator<Item = Node>) -> Side<Region, bool> {
    let mut inside = Side::filled(g.regions(), false);
    nodes.flat_map(|n| planned_regions(g, n)).for_each(|r| inside[r] = true);
    // Regions stand before their users.
    for r in (0..g.regions()).rev().map(Region::new) {
        if inside[r] {
            g.region_nodes(r).flat_map(|n| planned_regions(g, n)).for_each(|body| inside[body] = true);
        }
    }
    inside
}

fn gradcheck_rule_name(g: Graph<'_>, f: &CustomFnAttrs) -> String {
    format!("{:?}", g.str(g.region_names[f.body.at()]))
}

/// Names of the custom functions with rules through which the derivative with respect to `leaf` passes.
pub fn list_ruled_functions(g: Graph<'_>, leaf: &str) -> Vec<String> {
    let Some((leaf, _)) = g.find_leaf(leaf) else { return Vec::new() };
    let from = active_from(&Codes::of(g), g.entry(), &[leaf]);
    let on_the_way = || g.region_nodes(g.entry()).filter(|&n| g.args_of(n).iter().any(|&a| from[a]));
    let own = on_the_way().filter(|&n| has_derivative_rules(g, n)).map(|n| CustomFnAttrs::of(&g.attrs(n)));
    let inner = gradcheck_rule_functions(g, &gradcheck_bodies(g, on_the_way()));
    let mut names: Vec<String> = own.chain(inner).map(|f| gradcheck_rule_name(g, &f)).collect();
    names.sort();
    names.dedup();
    names
}

impl GradientCheck {
    /// Compares the two rules of custom functions, if one has both, on the graph `wide`, which is in f64.
    pub(super) fn compare_rules(&self, wide: &GraphBuf) -> Result<Option<RulesAgreement>> {
        let g = wide.view();
        let mut run = gradcheck_bodies(g, g.region_nodes(g.entry()));
        run[g.entry()] = true;
        let functions = gradcheck_rule_functions(g, &run);
        let both = functions.iter().filter(|f| f.vjp.is_some() && f.jvp.is_some());
        let names: Vec<String> = both.map(|f| gradcheck_rule_name(g, f)).collect();
        let float = |v| g.ty(v).dtype == DType::F64 && g.numel(v) > 0;
        let wrt: Vec<&str> = g.leaves().filter(|l| float(l.value)).map(|l| l.name).collect();
        let outputs = g.outputs().iter().zip(g.output_names);
        let outs = outputs.filter(|(v, _)| float(**v)).map(|(_, &s)| g.str(s));
        // An output that is called as a leaf would share the names of its products with it.
        let outs: Vec<&str> = outs.filter(|name| !wrt.contains(name)).collect();
        if names.is_empty() || wrt.is_empty() || outs.is_empty() {
            return Ok(None);
        }
        let [forward, reverse] = match self.rule_products(wide, &wrt, &outs) {
            // The comparison of gradients says why there are none.
            Err(e) if e.kind == Kind::Derivative => return Ok(None),
            products => products?,
        };
        let error = (forward - reverse).abs() / forward.abs().max(reverse.abs()).max(1e-9);
        Ok(Some(RulesAgreement { names, forward, reverse, fine: error <= self.tolerance }))
    }

    /// ⟨J·v, w⟩ and ⟨v, Jᵀ·w⟩ at a drawn point, for drawn v and w.
    fn rule_products(&self, wide: &GraphBuf, wrt: &[&str], outs: &[&str]) -> Result<[f64; 2]> {
        let both = vjp_numbered(jvp(wide, outs, wrt)?.view(), outs, wrt, Missing::Zero)?;
        let mut p = Session::new().compile(&both)?;
        p.init(self.seed)?;
        FinitePoint::new(&p, both.view(), self.seed, false).eval(&mut p, outs[0])?;
        let dot = |p: &Program, one: &str, two: &str, names: &[&str]| -> Result<f64> {
            let mut sum = 0.0;
            for name in names {
                let (x, y) = (p.values::<f64>(&format!("{one}.{name}"))?, p.values::<f64>(&format!("{two}.{name}"))?);
                sum += x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
            }
            Ok(sum)
        };
        // Outputs hold the products, inputs the directions.
        Ok([dot(&p, "tangent", "cotangent", outs)?, dot(&p, "grad", "tangent", wrt)?])
    }
}

#[cfg(test)]
mod tests;
