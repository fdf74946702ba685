//! Compares two graphs of one signature on the same draws.
//!
//! Invariant: the engine runs both graphs. The oracle says how far rounding may put them apart: as far as both of their
//! bounds together.

use super::compare_arrays::{ElementDifference, Verdict, compare_array_elements};
use super::engine_run::{EngineStep, RunOptions, run_engine};
use super::oracle::{Array, LeafValues, Named, Reference, interpret};
use crate::arena::{Value, ids::Id};
use crate::error::{Error, Kind, Location, Result};
use crate::nodes::{Graph, GraphBuf};
use std::rc::Rc;

/// The bound of an element without a reference, in units in its last place.
const UNITS: f64 = 1024.0;

/// How one output of two graphs, or a param or state that both change, compares.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputComparison {
    /// The name of the output, or of the leaf.
    pub name: String,
    /// Number of elements.
    pub elements: usize,
    /// Elements that rounding leaves open: a tie, a jump, an overflow.
    pub unknown: usize,
    /// Elements that differ by more than their bound.
    pub different: usize,
    /// The element that is farthest apart, measured by its bound; none if all are equal.
    pub worst: Option<ElementDifference>,
}

/// How two graphs compare.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphComparison {
    /// Each output, then each param and state that the graphs change.
    pub outputs: Vec<OutputComparison>,
    /// The errors of the steps, if both fail: then they agree.
    pub fault: Option<String>,
    /// Why there is no reference, if there is none: then bounds are 1024 units in the last place.
    pub no_reference: Option<String>,
}

impl GraphComparison {
    /// Whether the graphs agree: no element differs by more than its bound.
    pub fn agrees(&self) -> bool {
        self.outputs.iter().all(|o| o.different == 0)
    }
}

/// A leaf, an output or an update that two graphs do not share.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphMismatch {
    /// What it is: `leaf "x"`.
    pub what: String,
    /// Its type in each graph and the place of its node there, if the graph has it.
    pub sides: [Option<(String, Location)>; 2],
}

impl GraphMismatch {
    /// The mismatch in one line; `names` are those of the graphs.
    pub fn describe(&self, names: [&str; 2]) -> String {
        let side = |i: usize| match &self.sides[i] {
            Some((ty, Location::Text(line, column))) => format!("{ty} at {}:{line}:{column}", names[i]),
            Some((ty, _)) => format!("{ty} in {}", names[i]),
            None => format!("missing in {}", names[i]),
        };
        format!("{} is {}, and {}", self.what, side(0), side(1))
    }
}

/// What two graphs do not share: leaves by name and type, outputs by name and type, and which leaves change.
pub fn compare_graph_signatures(a: Graph<'_>, b: Graph<'_>) -> Vec<GraphMismatch> {
    let mut all = Vec::new();
    for (kind, list) in [
        ("leaf", compared_graph_leaves as Lister),
        ("output", compared_graph_outputs),
        ("update of", compared_graph_updates),
    ] {
        let (left, right) = (list(a), list(b));
        let side = |g: Graph<'_>, v: Option<Value>| v.map(|v| (g.ty_text(v), g.location(g.def[v.at()])));
        let find = |list: &[(String, Value)], name: &str| list.iter().find(|x| x.0 == name).map(|x| x.1);
        let only_right = right.iter().filter(|r| find(&left, &r.0).is_none());
        for (name, _) in left.iter().chain(only_right) {
            let sides = [side(a, find(&left, name)), side(b, find(&right, name))];
            let ty = |i: usize| sides[i].as_ref().map(|s: &(String, Location)| &s.0);
            if ty(0) != ty(1) {
                all.push(GraphMismatch { what: format!("{kind} {name:?}"), sides });
            }
        }
    }
    all
}

type Lister = fn(Graph<'_>) -> Vec<(String, Value)>;

fn compared_graph_leaves(g: Graph<'_>) -> Vec<(String, Value)> {
    g.leaves().map(|l| (l.name.to_string(), l.value)).collect()
}

fn compared_graph_outputs(g: Graph<'_>) -> Vec<(String, Value)> {
    g.output_names.iter().zip(g.outputs()).map(|(&name, &v)| (g.str(name).to_string(), v)).collect()
}

fn compared_graph_updates(g: Graph<'_>) -> Vec<(String, Value)> {
    g.updates.iter().map(|&(leaf, _)| (g.leaf(leaf).map_or("", |l| l.1).to_string(), leaf)).collect()
}

/// Runs both graphs by the engine on the same leaves, drawn from `seed`, and compares their outputs by name.
///
/// # Errors
/// The graphs do not share leaves and outputs; one of them does not compile; the step of one fails, but not that of the
/// other.
pub fn compare_graphs(a: &GraphBuf, b: &GraphBuf, seed: u64) -> Result<GraphComparison> {
    compare_with_options(a.view(), b.view(), seed, RunOptions::default())
}

/// Compares two graphs as [`compare_graphs`] does, and runs them this way.
pub fn compare_with_options(a: Graph<'_>, b: Graph<'_>, seed: u64, how: RunOptions) -> Result<GraphComparison> {
    if let Some(m) = compare_graph_signatures(a, b).first() {
        return Err(Error::new(Kind::Shape, m.describe(["the first graph", "the second graph"])));
    }
    let leaves = LeafValues::draw_for(&[a, b], seed)?;
    let mut comparison = GraphComparison { outputs: Vec::new(), fault: None, no_reference: None };
    let steps = match (run_engine(a, &leaves, how), run_engine(b, &leaves, how)) {
        (Ok(x), Ok(y)) => [x, y],
        (Err(x), Err(y)) if x.kind == Kind::Data && y.kind == Kind::Data => {
            comparison.fault = Some(x.to_string());
            return Ok(comparison);
        }
        (Err(e), _) => return Err(e.context("the first graph")),
        (_, Err(e)) => return Err(e.context("the second graph")),
    };
    let references = [interpret(a, &leaves), interpret(b, &leaves)];
    let why = references.iter().find_map(|r| r.as_ref().err());
    comparison.no_reference = why.map(ToString::to_string);
    // An output and an updated leaf may have one name, so each list is compared by itself.
    for (of_step, of_reference) in [OUTPUTS, UPDATES] {
        let [left, right] = [0, 1].map(|i| {
            let reference = references[i].as_ref().ok().filter(|_| why.is_none());
            compare_bounded_graphs(of_step(&steps[i]), reference.map(of_reference))
        });
        for x in &left {
            let y = right.iter().find(|y| y.name == x.name);
            comparison.outputs.extend(y.map(|y| compare_graph_output(&x.name, &x.array, &y.array)));
        }
    }
    Ok(comparison)
}

/// The tensors of one kind, of a step and of a reference.
type Lists = (fn(&EngineStep) -> &[Named], fn(&Reference) -> &[Named]);
const OUTPUTS: Lists = (|s| &s.outputs, |r| &r.outputs);
const UPDATES: Lists = (|s| &s.updates, |r| &r.updates);

/// Tensors that a step left, with the bounds of their references.
fn compare_bounded_graphs(step: &[Named], references: Option<&[Named]>) -> Vec<Named> {
    let one = |(i, x): (usize, &Named)| {
        let array = match references.and_then(|known| known.get(i)) {
            Some(r) => x.array.bounded_as(&r.array),
            None => x.array.bounded_by_units(UNITS),
        };
        Named { name: x.name.clone(), array: Rc::new(array) }
    };
    step.iter().enumerate().map(one).collect()
}

fn compare_graph_output(name: &str, left: &Array, right: &Array) -> OutputComparison {
    let mut all =
        OutputComparison { name: name.to_string(), elements: left.len(), unknown: 0, different: 0, worst: None };
    let mut farthest = 0.0;
    for element in 0..left.len() {
        let (bound, different) = match compare_array_elements(left, right, element) {
            Verdict::Unknown => {
                all.unknown += 1;
                continue;
            }
            Verdict::Equal(bound) => (bound, false),
            Verdict::Different(bound) => (bound, true),
        };
        all.different += usize::from(different);
        let (l, r) = (left.number(element), right.number(element));
        let apart = if different && !(l - r).is_finite() { f64::INFINITY } else { (l - r).abs() / bound.max(1e-300) };
        if apart > farthest || (different && all.worst.is_none()) {
            farthest = apart;
            all.worst = Some(ElementDifference { name: name.to_string(), element, left: l, right: r, bound });
        }
    }
    all
}
