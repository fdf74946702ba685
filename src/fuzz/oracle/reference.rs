//! The reference of a graph: its outputs and next values by the oracle.

use super::array::Array;
use super::interpreter::{Interpreter, InterpreterAccount};
use super::leaf_values::LeafValues;
use super::stop::Stop;
use crate::arena::Value;
use crate::nodes::Graph;
use std::rc::Rc;

/// An output, or the next value of a param or a state.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name of the output, or of the leaf.
    pub name: String,
    /// Its elements.
    pub array: Rc<Array>,
}

/// What one step of a graph computes.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The outputs, in order.
    pub outputs: Vec<Named>,
    /// The values that params and states have after the step, for those that it changes.
    pub updates: Vec<Named>,
    /// Whether the step may fail for an index or a divisor that the oracle does not know.
    pub may_fault: bool,
}

/// What a step of `graph` computes from these values of its leaves.
///
/// # Errors
/// [`Stop`] says why there is no reference.
///
/// ```
/// use arenagrad::prelude::*;
/// use arenagrad::tools::fuzz::{LeafValues, interpret};
/// # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// let g = Builder::new("net");
/// let x = g.input("x", [2, 3], DType::F32);
/// let graph = g.finish([x.exp().sum(..).named("y")])?;
/// let reference = interpret(graph.view(), &LeafValues::draw(graph.view(), 7)?)?;
/// let y = &reference.outputs[0].array;
/// assert!(y.number(0) > 0.0 && y.bounds()[0] < 1e-4);
/// # Ok(())
/// # }
/// ```
pub fn interpret(graph: Graph<'_>, leaves: &LeafValues) -> Result<Reference, Stop> {
    let given = leaves.arrays(graph)?;
    let mut account = InterpreterAccount::new();
    account.hold(given.iter().map(|x| x.len() as u64).sum())?;
    let next = graph.updates.iter().map(|u| u.1);
    let wanted: Vec<Value> = graph.outputs().iter().copied().chain(next).collect();
    let mut all = Interpreter::new(graph, &mut account).region(graph.entry(), &given, &wanted)?.into_iter();
    let outputs = graph.output_names.iter().zip(all.by_ref());
    let outputs = outputs.map(|(&name, array)| Named { name: graph.str(name).to_string(), array }).collect();
    let leaf = |v: Value| graph.leaf(v).map_or(String::new(), |l| l.1.to_string());
    let updates = graph.updates.iter().zip(all).map(|(&(v, _), array)| Named { name: leaf(v), array }).collect();
    Ok(Reference { outputs, updates, may_fault: account.may_fault })
}
