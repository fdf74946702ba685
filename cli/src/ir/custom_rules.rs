//! Custom functions in the command `check`: whether a function's two rules agree, and whose gradients a rule may change
//! on purpose.

use super::finite_differences::FinitePoint;
use super::ir_failure;
use crate::args::CheckArgs;
use crate::fail::Run;
use crate::out::emit_out;
use arenagrad::error::{Kind, Result};
use arenagrad::graph::{DType, Graph, GraphBuf, Missing, jvp, vjp};
use arenagrad::session::{Program, Session};
use arenagrad::tools::arena::Node;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ops::control::custom_fn::{CustomFnAttrs, has_custom_rules};
use arenagrad::tools::passes::ad::activity::active_from;

/// The custom functions with rules of the entry of `g`.
fn ruled_functions(g: Graph<'_>) -> impl Iterator<Item = (Node, CustomFnAttrs)> {
    g.region_nodes(g.entry()).filter(move |&n| has_custom_rules(g, n)).map(move |n| (n, CustomFnAttrs::of(&g.attrs(n))))
}

fn rule_name(g: Graph<'_>, f: &CustomFnAttrs) -> String {
    format!("{:?}", g.str(g.region_names[f.body.at()]))
}

/// Names of the custom functions with rules through which the derivative by `leaf` passes.
pub fn rules_on_the_way(g: Graph<'_>, leaf: &str) -> Vec<String> {
    let Some((leaf, _)) = g.find_leaf(leaf) else { return Vec::new() };
    let from = active_from(g, g.entry(), &[leaf]);
    let mut names: Vec<String> = ruled_functions(g)
        .filter(|(n, _)| g.args_of(*n).iter().any(|&a| from[a]))
        .map(|(_, f)| rule_name(g, &f))
        .collect();
    names.dedup();
    names
}

/// If a custom function has both rules, compares ⟨J·v, w⟩ with ⟨v, Jᵀ·w⟩ for the whole graph `wide`, which is in f64.
/// A difference is a warning: the rules may disagree on purpose.
pub fn check_rules(a: &CheckArgs, wide: &GraphBuf) -> Run {
    let g = wide.view();
    let both: Vec<String> =
        ruled_functions(g).filter(|(_, f)| f.vjp.is_some() && f.jvp.is_some()).map(|(_, f)| rule_name(g, &f)).collect();
    let float = |v| g.ty(v).dtype == DType::F64 && g.numel(v) > 0;
    let wrt: Vec<&str> = g.leaves().filter(|l| float(l.value)).map(|l| l.name).collect();
    let outputs = g.outputs().iter().zip(g.output_names);
    let outs = outputs.filter(|(v, _)| float(**v)).map(|(_, &s)| g.str(s));
    // An output that is called as a leaf would share the names of its products with it.
    let outs: Vec<&str> = outs.filter(|name| !wrt.contains(name)).collect();
    if both.is_empty() || wrt.is_empty() || outs.is_empty() {
        return Ok(());
    }
    let [jv, vj] = match rule_products(a, wide, &wrt, &outs) {
        Ok(products) => products,
        // The comparison of gradients says why there are none.
        Err(e) if e.kind == Kind::Derivative => return Ok(()),
        Err(e) => return Err(ir_failure(&a.file)(e)),
    };
    let error = (jv - vj).abs() / jv.abs().max(vj.abs()).max(1e-9);
    let verdict = if error <= a.tolerance { "ok" } else { "warning: vjp and jvp disagree" };
    emit_out(format!("rules of custom_fn {}: <Jv,w> = {jv:.6e}, <v,JTw> = {vj:.6e}: {verdict}", both.join(", ")))?;
    Ok(())
}

/// ⟨J·v, w⟩ and ⟨v, Jᵀ·w⟩ at a drawn point, for drawn v and w.
fn rule_products(a: &CheckArgs, wide: &GraphBuf, wrt: &[&str], outs: &[&str]) -> Result<[f64; 2]> {
    let both = vjp(&jvp(wide, outs, wrt)?, outs, wrt, Missing::Zero)?;
    let mut p = Session::new().compile(&both)?;
    p.init(a.seed)?;
    FinitePoint::new(&p, both.view(), a.seed, false).eval(&mut p, outs[0])?;
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
