//! Checking gradients: compares those of a graph with finite differences in f64.
//!
//! Invariant: the differences are those of the same graph in f64, whose loops and branches run as the user's do, and
//! both programs start from the same values.

mod conventions;
mod finite_differences;
mod rules;

use super::{Program, Session};
use crate::arena::rng::permutation;
use crate::error::{Error, Kind, Result};
use crate::nodes::arguments::setters::setters;
use crate::nodes::{DType, Graph, GraphBuf};
use crate::passes::ad::grad::differentiate_numbered;
use crate::passes::ad::prepare::keep_outputs;
use crate::passes::promote_f64::promote_f64;
use crate::passes::{GradOptions, Missing};
use conventions::list_conventional_ops;
use finite_differences::{Element, FinitePoint, sum_weighted_outputs};
use hashbrown::HashMap;
pub use rules::RulesAgreement;
use rules::list_ruled_functions;
use std::fmt;

/// How gradients are compared with finite differences.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GradientCheck {
    /// The largest relative error that is accepted; positive. The default is 1e-6.
    pub tolerance: f64,
    /// Seed of the values that are not given, and of the choice of elements. The default is 0.
    pub seed: u64,
    /// Number of elements of each leaf that are compared. The default is 16.
    pub elements: usize,
}

impl Default for GradientCheck {
    fn default() -> GradientCheck {
        GradientCheck { tolerance: 1e-6, seed: 0, elements: 16 }
    }
}

setters! {
    [] GradientCheck { tolerance: f64, seed: u64, elements: usize }
}

/// How well the gradient of one leaf agrees with finite differences.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LeafGradient {
    /// The leaf.
    pub name: String,
    /// Number of its elements.
    pub elements: usize,
    /// How many of them were compared.
    pub compared: usize,
    /// The largest error of an element, relative to the gradient there or, if that is larger, to a hundredth of the
    /// leaf's largest gradient. Infinite if an error is NaN.
    pub worst: f64,
    /// The element with that error.
    pub element: usize,
    /// True if the error is within the tolerance.
    pub fine: bool,
    /// The custom functions with rules that the gradient passes. It may differ on purpose if there are any.
    pub rules: Vec<String>,
    /// The ops that the gradient passes whose derivative is by definition that of another function: straight-through
    /// ops such as `fake_quantize`, ops on codes such as `quantize`, and `stop_gradient`. If there are any and the
    /// gradient differs, finite differences cannot tell whether it is right.
    pub conventions: Vec<String>,
}

impl LeafGradient {
    /// True if the gradient differs, and neither a custom function's rule nor a convention may be why.
    pub fn wrong(&self) -> bool {
        !self.fine && self.rules.is_empty() && self.conventions.is_empty()
    }
}

/// The outcome of a [`GradientCheck`]. It prints as text, a line for each leaf.
#[derive(Clone, Debug, PartialEq, Default)]
#[non_exhaustive]
pub struct GradientReport {
    /// The float leaves, in the graph's order.
    pub leaves: Vec<LeafGradient>,
    /// Why there is no gradient to compare; empty if there is one.
    pub none: String,
    /// Whether the rules of custom functions agree, if a function has two.
    pub agreement: Option<RulesAgreement>,
}

impl fmt::Display for LeafGradient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeafGradient { name, elements, compared, worst, element, fine, rules, conventions } = self;
        write!(f, "gradient of {name}: {compared} of {elements} elements, relative error {worst:.1e}: ")?;
        match () {
            () if *fine => f.write_str("ok"),
            () if !conventions.is_empty() => {
                let ops = conventions.join(", ");
                write!(
                    f,
                    "cannot be compared, as it passes {ops}, whose derivative is by definition another function's"
                )
            }
            () if rules.is_empty() => write!(f, "WRONG at element {element}"),
            () => write!(f, "differs, as the rules of custom_fn {} may", rules.join(", ")),
        }
    }
}

impl fmt::Display for GradientReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(agreement) = &self.agreement {
            writeln!(f, "{agreement}")?;
        }
        match self.none.is_empty() {
            true => self.leaves.iter().try_for_each(|l| writeln!(f, "{l}")),
            false => writeln!(f, "gradients: none, {}", self.none),
        }
    }
}

/// Compares the gradients of `graph` with respect to all its float leaves with finite differences, in f64. What is
/// differentiated is the sum of all elements of all float outputs, each with a fixed weight. `inputs` are the elements
/// of leaves by name, in row-major order. Other leaves have drawn values: floats in ±1, or in 0.1 to 1.1 if the outputs
/// are not finite otherwise or the step ends with an error; params their start values; integers 0. Loops and branches
/// run as they do in the program: a branch that does not run may be NaN or at fault. See [`GradientCheck`] for other
/// tolerances.
///
/// The derivative of a straight-through op (`fake_quantize`, `lsq`), of an op on codes (`quantize`, `q_matmul`) and of
/// `stop_gradient` is by definition that of another function, which differences do not know. A gradient that passes
/// one is compared all the same; if it differs, the report names the op and calls the gradient neither right nor wrong.
/// To check such a net, compare it with the same net without these ops.
///
/// # Errors
/// Of kind `Derivative`: a gradient differs and neither a rule of a custom function nor a derivative by definition may
/// be why (the error has all leaves); no gradient agrees, because all that differ pass a derivative by definition; or
/// there is none to compare. Of kind `Data`: there is no such leaf, or it has another number of elements. Of kind
/// `Diverged`: the outputs are not finite at any point that was tried. The error of a step, if one ends the program at
/// every point, or at all steps of a difference.
///
/// ```
/// use arenagrad::prelude::*;
/// use arenagrad::session::check_gradients;
/// # fn main() -> Result<()> {
/// let g = Builder::new("g");
/// let x = g.input("x", [2, 3], DType::F32);
/// let graph = g.finish([(x.sin() * x).named("y")])?;
/// println!("{}", check_gradients(&graph, &[("x", &[0.1, 0.5, -1.0, 2.0, 3.0, -0.3])])?);
/// # Ok(())
/// # }
/// ```
pub fn check_gradients<'a>(graph: impl Into<Graph<'a>>, inputs: &[(&str, &[f64])]) -> Result<GradientReport> {
    let report = GradientCheck::default().run(graph, inputs)?;
    let leaves = &report.leaves;
    let nothing_told = !leaves.iter().any(|l| l.fine) && leaves.iter().any(|l| !l.conventions.is_empty());
    match report.none.is_empty() && !leaves.iter().any(|l| l.wrong()) && !nothing_told {
        true => Ok(report),
        false => Err(Error::new(Kind::Derivative, report.to_string().trim_end().replace('\n', "; "))),
    }
}

impl GradientCheck {
    /// As [`check_gradients`], with these numbers; a gradient that differs is part of the report, no error.
    pub fn run<'a>(&self, graph: impl Into<Graph<'a>>, inputs: &[(&str, &[f64])]) -> Result<GradientReport> {
        if !(self.tolerance > 0.0 && self.tolerance.is_finite()) {
            let text = format!("tolerance is {}; it must be positive and finite", self.tolerance);
            return Err(Error::new(Kind::Data, text));
        }
        if self.elements == 0 {
            return Err(Error::new(Kind::Data, "elements is 0; a check compares at least one element of each leaf"));
        }
        let wide = promote_f64(graph.into())?;
        let agreement = self.compare_rules(&wide)?;
        let report = match sum_weighted_outputs(wide.view())? {
            Some((sum, name)) => self.compare_all(&sum, &name, inputs)?,
            None => GradientReport { none: "no output is a float".into(), ..GradientReport::default() },
        };
        Ok(GradientReport { agreement, ..report })
    }

    /// Compares the gradients of output `name` with respect to all float leaves.
    fn compare_all(&self, graph: &GraphBuf, name: &str, inputs: &[(&str, &[f64])]) -> Result<GradientReport> {
        let g = graph.view();
        let floats = g.leaves().filter(|l| g.ty(l.value).dtype == DType::F64 && g.numel(l.value) > 0);
        let leaves: Vec<String> = floats.map(|l| l.name.to_string()).collect();
        let none = |none: String| Ok(GradientReport { none, ..GradientReport::default() });
        if leaves.is_empty() {
            return none("no leaf is a float".into());
        }
        let options = GradOptions { wrt: leaves.clone(), missing: Missing::Zero, ..GradOptions::default() };
        let grads = match differentiate_numbered(g, name, &options) {
            Err(e) if e.kind == Kind::Derivative => return none(e.to_string()),
            made => made?,
        };
        let mut p = self.compile_pair(graph, name, &grads, inputs)?;
        p.point.eval(&mut p.grads, name)?;
        let outputs = grads.view();
        let names = outputs.output_names[g.outputs().len()..].iter().map(|&s| outputs.str(s));
        let indices: HashMap<String, usize> = p.point.floats().map(|(i, b)| (b.name.clone(), i)).collect();
        // The plain program has made its step from this point, where the differences start.
        p.point.restore(&mut p.plain)?;
        let mut report = GradientReport::default();
        for (leaf, output) in leaves.iter().zip(names) {
            let Some(&index) = indices.get(leaf) else { continue };
            let claims = p.grads.values::<f64>(output)?.to_vec();
            let found = self.compare_leaf(&mut p, name, index, &claims)?;
            let (rules, conventions) = (list_ruled_functions(g, leaf), list_conventional_ops(g, leaf));
            report.leaves.push(LeafGradient { name: leaf.clone(), rules, conventions, ..found });
        }
        Ok(report)
    }

    /// Compiles both programs and finds a point where the output `name` is finite.
    fn compile_pair(&self, graph: &GraphBuf, name: &str, grads: &GraphBuf, inputs: &[(&str, &[f64])]) -> Result<Pair> {
        let plain = keep_outputs(graph, |n| n == name)?;
        let mut plain = Session::new().compile(&plain)?;
        let grads = Session::new().compile(grads)?;
        plain.init(self.seed)?;
        let mut fault = None;
        for positive in [false, true] {
            let mut point = FinitePoint::new(&plain, graph.view(), self.seed, positive);
            point.set(inputs)?;
            match point.eval(&mut plain, name) {
                Ok(sum) if sum.is_finite() => return Ok(Pair { grads, plain, point, sum }),
                Ok(_) => {}
                Err(e) => fault = Some(e),
            }
        }
        let diverged = || Error::new(Kind::Diverged, "the outputs are not finite at the points tried");
        Err(fault.unwrap_or_else(diverged))
    }

    /// Compares elements of the gradient `claims` by leaf `leaf` with finite differences.
    fn compare_leaf(&self, p: &mut Pair, name: &str, leaf: usize, claims: &[f64]) -> Result<LeafGradient> {
        let mut order = vec![0; claims.len()];
        permutation(self.seed, leaf as u64, &mut order);
        let largest = claims.iter().fold(0.0f64, |m, c| m.max(c.abs()));
        // Smaller gradients are lost in the rounding of the sum.
        let floor = (largest / 100.0).max(p.sum.abs() * 1e-6).max(1e-9);
        let (mut worst, mut element) = (0.0f64, 0);
        let picked = &order[..self.elements.min(order.len())];
        for &i in picked {
            let claim = claims[i as usize];
            let d = p.point.derivative(&mut p.plain, name, Element { leaf, index: i as usize }, claim)?;
            let error = (d - claim).abs() / claim.abs().max(d.abs()).max(floor);
            let error = if error.is_nan() { f64::INFINITY } else { error };
            if error > worst {
                (worst, element) = (error, i as usize);
            }
        }
        let (compared, elements, fine) = (picked.len(), claims.len(), worst <= self.tolerance);
        let (rules, conventions) = (Vec::new(), Vec::new());
        Ok(LeafGradient { name: String::new(), elements, compared, worst, element, fine, rules, conventions })
    }
}

/// The program of the gradients, that of the sum alone, and a point where the sum is finite.
struct Pair {
    grads: Program,
    /// Its last step was one from the point.
    plain: Program,
    point: FinitePoint,
    sum: f64,
}

#[cfg(test)]
mod tests;
