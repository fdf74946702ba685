//! Derivatives: forward and reverse mode are adjoint, and forward mode agrees with differences.
//!
//! Both are checked in f64. Invariant: a derivative that does not exist is no finding, and neither is an element near a
//! kink or a jump.

use super::compare_arrays::{Agreement, ElementDifference, compare_arrays};
use super::engine_run::{RunOptions, run_engine};
use super::finding::Finding;
use super::inner_product::InnerProduct;
use super::oracle::{Array, LeafValue, LeafValues, Named, Stop, interpret};
use crate::arena::{Node, ids::Id};
use crate::differences::slope_of_values;
use crate::error::{Error, Kind};
use crate::nodes::ir::opdef::Flags;
use crate::nodes::ops::control::custom_fn::has_derivative_rules;
use crate::nodes::{Graph, GraphBuf};
use crate::passes::ad::grad::vjp_numbered;
use crate::passes::promote_f64::promote_f64;
use crate::passes::{Missing, jvp};
use std::rc::Rc;

/// The wider of two steps of differences.
const STEP: f64 = 1e-4;
/// What a difference may be off, relative to the derivative or to 1.
const SLACK: f64 = 1e-6;

/// The float leaves and outputs of a graph, by name, and how many leaves and outputs it has.
struct TransformFloats {
    leaves: Vec<String>,
    outputs: Vec<String>,
    counts: (usize, usize),
}

impl TransformFloats {
    fn of(g: Graph<'_>) -> TransformFloats {
        let leaves = g.leaves().filter(|l| g.dtype[l.value.at()].is_real_float()).map(|l| l.name.to_string());
        let outputs = g.outputs().iter().zip(g.output_names).filter(|(v, _)| g.dtype[v.at()].is_real_float());
        let outputs = outputs.map(|(_, &name)| g.str(name).to_string());
        let counts = (g.leaves().count(), g.outputs().len());
        TransformFloats { leaves: leaves.collect(), outputs: outputs.collect(), counts }
    }

    fn names(list: &[String]) -> Vec<&str> {
        list.iter().map(String::as_str).collect()
    }
}

/// Checks the derivatives of all float outputs of `graph` with respect to all float leaves, in f64, at leaves drawn
/// from `seed`: ⟨Jv, w⟩ = ⟨v, Jᵀw⟩ by the engine, within the oracle's bound; and Jv against differences of the oracle.
/// With `order` 2 the same of the graph with its vector-Jacobian product, whose derivatives are those of gradients.
///
/// # Errors
/// A [`Finding`]: a derivative is wrong, or the derivative of a graph that has one fails.
///
/// ```
/// use arenagrad::prelude::*;
/// use arenagrad::tools::fuzz::check_transform;
///
/// let g = Builder::new("g");
/// let (x, w) = (g.input("x", [3, 2], DType::F32), g.param("w", [2, 4], DType::F32, Init::Zeros));
/// let graph = g.finish([x.matmul(w).tanh().named("y")])?;
/// assert!(check_transform(&graph, 1, 1).unwrap().compared > 12);
/// assert!(check_transform(&graph, 1, 2).is_ok());
/// # Ok::<(), Error>(())
/// ```
pub fn check_transform(graph: &GraphBuf, seed: u64, order: usize) -> Result<Agreement, Finding> {
    let fails = |e: Error| Finding::new("derivative", format!("the derivative fails: {e}"), seed, graph.view());
    let mut wide = promote_f64(graph.view()).map_err(fails)?;
    for _ in 1..order {
        let floats = TransformFloats::of(wide.view());
        let (outputs, wrt) = (TransformFloats::names(&floats.outputs), TransformFloats::names(&floats.leaves));
        match vjp_numbered(wide.view(), &outputs, &wrt, Missing::Zero) {
            Ok(next) => wide = next,
            Err(e) if is_refused_transform(&e) => return Ok(Agreement::default()),
            Err(e) => return Err(fails(e)),
        }
    }
    let floats = TransformFloats::of(wide.view());
    if floats.leaves.is_empty() || floats.outputs.is_empty() {
        return Ok(Agreement::default());
    }
    match check_both_transforms(wide.view(), &floats) {
        Ok(both) => check_at_point(wide.view(), both.view(), &floats, seed),
        Err(e) if is_refused_transform(&e) => Ok(Agreement::default()),
        Err(e) => Err(fails(e)),
    }
}

/// Whether an error says that there is no derivative.
fn is_refused_transform(e: &Error) -> bool {
    e.kind == Kind::Derivative
}

/// `g` with tangents of its outputs, and with gradients of its leaves.
fn check_both_transforms(g: Graph<'_>, floats: &TransformFloats) -> Result<GraphBuf, Error> {
    let (outputs, wrt) = (TransformFloats::names(&floats.outputs), TransformFloats::names(&floats.leaves));
    vjp_numbered(jvp(g, &outputs, &wrt)?.view(), &outputs, &wrt, Missing::Zero)
}

/// Both checks at one point. `both` is `g` with both modes.
fn check_at_point(g: Graph<'_>, both: Graph<'_>, floats: &TransformFloats, seed: u64) -> Result<Agreement, Finding> {
    let Ok(leaves) = LeafValues::draw(both, seed) else {
        return Ok(Agreement { without_reference: 1, ..Agreement::default() });
    };
    let open = Agreement { unknown: 1, ..Agreement::default() };
    let (step, reference) = match (run_engine(both, &leaves, RunOptions::default()), interpret(both, &leaves)) {
        (Ok(step), Ok(reference)) => (step, reference),
        (Err(e), Ok(r)) if !(r.may_fault && e.kind == Kind::Data) => {
            return Err(Finding::new("derivative", format!("the engine fails: {e}"), seed, both));
        }
        (Ok(_), Err(Stop::Fault(why))) => {
            return Err(Finding::new("derivative", format!("the engine passes over a fault: {why}"), seed, both));
        }
        (Err(e), Err(Stop::Unsupported(_))) if e.kind != Kind::Data => {
            return Err(Finding::new("derivative", format!("the engine fails: {e}"), seed, both));
        }
        _ => return Ok(open),
    };
    // A gradient that only the engine makes NaN shows here: the inner products below leave it open.
    for (mine, want) in step.outputs.iter().zip(&reference.outputs) {
        compare_arrays(&mine.name, &mine.array, &want.array)
            .map_err(|d| Finding::differs("derivative", d, seed, both))?;
    }
    let bounded = |(x, r): (&Named, &Named)| x.array.bounded_as(&r.array);
    let results: Vec<Array> = step.outputs.iter().zip(&reference.outputs).map(bounded).collect();
    let (tangents, grads) = results[floats.counts.1..].split_at(floats.outputs.len());
    let seeds: Vec<&Rc<Array>> = leaves.leaves[floats.counts.0..].iter().map(|l| &l.array).collect();
    let (directions, cotangents) = seeds.split_at(floats.leaves.len());
    let mut seen = transforms_are_adjoint(tangents, cotangents, grads, directions)
        .map_err(|d| Finding::differs("adjoint", d, seed, both))?;
    seen.join(
        compare_differences(g, &leaves, floats, directions, tangents)
            .map_err(|d| Finding::differs("differences", d, seed, g))?,
    );
    Ok(seen)
}

/// ⟨Jv, w⟩ against ⟨v, Jᵀw⟩.
fn transforms_are_adjoint(
    tangents: &[Array],
    cotangents: &[&Rc<Array>],
    grads: &[Array],
    directions: &[&Rc<Array>],
) -> Result<Agreement, ElementDifference> {
    let (mut jv, mut jtw) = (InnerProduct::default(), InnerProduct::default());
    tangents.iter().zip(cotangents).for_each(|(x, w)| jv.add(x, w));
    grads.iter().zip(directions).for_each(|(x, v)| jtw.add(x, v));
    let (left, right) = (jv.value, jtw.value);
    match jv.slack(jtw) {
        None => Ok(Agreement { unknown: 1, ..Agreement::default() }),
        Some(bound) if jv.differs(jtw) => {
            Err(ElementDifference { name: "<Jv,w> against <v,JTw>".into(), element: 0, left, right, bound })
        }
        Some(_) => Ok(Agreement { compared: 1, ..Agreement::default() }),
    }
}

/// Whether the derivative is that of the function: no rule of a user's, no gradient that is stopped.
fn has_true_derivative(g: Graph<'_>) -> bool {
    let conventions = [Flags::STOP, Flags::QUANT, Flags::STRAIGHT];
    let by_differences =
        |n: Node| !conventions.iter().any(|&f| g.def_of(n).flags.has(f)) && !has_derivative_rules(g, n);
    (0..g.nodes()).map(Node::new).all(by_differences)
}

/// The float outputs of `g` with the float leaves moved along the directions.
fn moved_transform_outputs(
    g: Graph<'_>,
    leaves: &LeafValues,
    floats: &TransformFloats,
    directions: &[&Rc<Array>],
    by: f64,
) -> Option<Vec<Rc<Array>>> {
    let shift = |l: &LeafValue| {
        let array = match floats.leaves.iter().position(|name| *name == l.name) {
            Some(k) => Rc::new(l.array.moved_along(directions[k], by)),
            None => l.array.clone(),
        };
        LeafValue { name: l.name.clone(), array }
    };
    let there = LeafValues { leaves: leaves.leaves.iter().map(shift).collect() };
    let all = interpret(g, &there).ok()?.outputs;
    Some(all.into_iter().map(|o| o.array).filter(|a| a.dtype().is_real_float()).collect())
}

/// Tangents against differences of the oracle.
fn compare_differences(
    g: Graph<'_>,
    leaves: &LeafValues,
    floats: &TransformFloats,
    directions: &[&Rc<Array>],
    tangents: &[Array],
) -> Result<Agreement, ElementDifference> {
    let mut seen = Agreement::default();
    let steps = [-STEP, -STEP / 2.0, 0.0, STEP / 2.0, STEP];
    let points = if has_true_derivative(g) {
        steps.map(|by| moved_transform_outputs(g, leaves, floats, directions, by))
    } else {
        Default::default()
    };
    let [Some(a), Some(b), Some(c), Some(d), Some(e)] = points else {
        seen.unknown += 1;
        return Ok(seen);
    };
    for (k, t) in tangents.iter().enumerate() {
        for i in 0..t.len() {
            let at = [&a, &b, &c, &d, &e].map(|p| (p[k].number(i), p[k].bounds()[i]));
            match transform_slope(at) {
                Some((want, bound)) if t.bounds()[i].is_finite() => {
                    let (left, bound) = (t.number(i), bound + t.bounds()[i]);
                    seen.compared += 1;
                    let name = || format!("tangent.{}", floats.outputs[k]);
                    let near = (left - want).abs() <= bound;
                    if !near {
                        return Err(ElementDifference { name: name(), element: i, left, right: want, bound });
                    }
                }
                _ => seen.unknown += 1,
            }
        }
    }
    Ok(seen)
}

/// The slope in the middle of five points and what it may be off; `None` near a kink or a jump.
fn transform_slope([a, b, c, d, e]: [(f64, f64); 5]) -> Option<(f64, f64)> {
    let noise = 8.0 * [a, b, c, d, e].iter().map(|x| x.1).fold(0.0, f64::max) / STEP;
    let (wide, near) = ((e.0 - a.0) / (2.0 * STEP), (d.0 - b.0) / STEP);
    let bend = |low: (f64, f64), high: (f64, f64), h: f64| (high.0 - c.0) / h - (c.0 - low.0) / h;
    let (far_bend, near_bend) = (bend(a, e, STEP), bend(b, d, STEP / 2.0));
    let slack = SLACK * near.abs().max(1.0);
    // The difference of the slopes on both sides is proportional to the step where the function is smooth. A kink in
    // the middle adds the same to both.
    let kink = 2.0 * near_bend - far_bend;
    let smooth = near_bend.abs() <= 0.7 * far_bend.abs() + noise + slack
        && kink.abs() <= 4.0 * noise + slack
        && far_bend.abs() <= 0.1 * near.abs().max(1.0);
    let want = slope_of_values([d, b, e, a].map(|at| at.0), STEP / 2.0);
    (smooth && want.is_finite() && noise.is_finite()).then(|| (want, 4.0 * (near - wide).abs() + noise + slack))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kink may bend against the curve, so that the curve hides it.
    #[test]
    fn kinks_have_no_slope() {
        let points = |f: &dyn Fn(f64) -> f64| [-STEP, -STEP / 2.0, 0.0, STEP / 2.0, STEP].map(|x| (f(x), 1e-14));
        let (slope, bound) = transform_slope(points(&|x| 0.5 - 0.92 * x - 1.5 * x * x + 40.0 * x.powi(3))).unwrap();
        assert!((slope + 0.92).abs() <= bound && bound < 1e-5, "{slope} {bound}");
        for kink in [1.0, 1e-3, 4e-5, -4e-5] {
            assert_eq!(transform_slope(points(&|x| 0.5 - 0.92 * x - 1.5 * x * x + kink * x.abs())), None, "{kink}");
        }
    }
}
