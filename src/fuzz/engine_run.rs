//! One step of a graph by the engine, on random values of its leaves.

use super::oracle::{Array, LeafValues, Named, decode_array, encode_array};
use crate::arena::{Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::Graph;
use crate::session::{Convolutions, Program, Role, Session};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// How the engine runs a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Number of threads.
    pub threads: usize,
    /// Whether threads share all that has two units, whatever it is worth.
    pub share: bool,
    /// Whether all passes run, or only those that lowering needs.
    pub optimise: bool,
    /// Whether dead bytes are filled with NaN.
    pub poison: bool,
    /// Whether the program gets the smallest memory budget that it can meet.
    pub least_memory: bool,
    /// How convolutions are computed.
    pub convolutions: Convolutions,
}

impl Default for RunOptions {
    /// One thread, all passes.
    fn default() -> RunOptions {
        RunOptions {
            threads: 1,
            share: false,
            optimise: true,
            poison: false,
            least_memory: false,
            convolutions: Convolutions::Direct,
        }
    }
}

impl RunOptions {
    /// The choices that no result may depend on: each alone.
    pub fn all() -> Vec<RunOptions> {
        let plain = RunOptions::default();
        vec![
            plain,
            RunOptions { optimise: false, ..plain },
            RunOptions { threads: 3, share: true, ..plain },
            RunOptions { poison: true, ..plain },
            RunOptions { least_memory: true, ..plain },
        ]
    }

    fn session(self, graph: Graph<'_>) -> Result<Session> {
        let session = Session::new()
            .threads(self.threads)
            .optimise(self.optimise)
            .poison(self.poison)
            .share(self.share)
            .convolutions(self.convolutions);
        if !self.least_memory {
            return Ok(session);
        }
        let least = session.budgets(graph)?.last().map(|b| b.arena_bytes);
        Ok(least.map_or(session.clone(), |bytes| session.memory_budget(bytes)))
    }
}

/// What one step of the engine left: outputs, and the params and states that it changes.
#[derive(Clone, Debug)]
pub struct EngineStep {
    /// The outputs, in order.
    pub outputs: Vec<Named>,
    /// The params and states after the step, in the order of the graph's updates.
    pub updates: Vec<Named>,
}

/// Runs one step of `graph` from these values of its leaves. A panic of the engine is an error.
///
/// # Errors
/// Those of compiling and of the step; a leaf without a value.
pub fn run_engine(graph: Graph<'_>, leaves: &LeafValues, how: RunOptions) -> Result<EngineStep> {
    catch_unwind(AssertUnwindSafe(|| run_one_step(graph, leaves, how))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::new(Kind::Verify, format!("the engine panicked: {text}")))
    })
}

fn run_one_step(graph: Graph<'_>, leaves: &LeafValues, how: RunOptions) -> Result<EngineStep> {
    let mut p = how.session(graph)?.compile(graph)?;
    for leaf in graph.leaves() {
        let missing = || Error::new(Kind::Name, format!("leaf {:?} has no value", leaf.name));
        p.write_bytes(leaf.name, &encode_array(leaves.find(leaf.name).ok_or_else(missing)?))?;
    }
    p.step()?;
    let outputs = graph.outputs().iter().zip(graph.output_names);
    let outputs =
        outputs.map(|(&v, &name)| read_named_tensor(&p, graph, v, graph.str(name), |role| role == Role::Output));
    let outputs = outputs.collect::<Result<_>>()?;
    let leaf = |v: Value| graph.leaf(v).map_or("", |l| l.1);
    let updates =
        graph.updates.iter().map(|&(v, _)| read_named_tensor(&p, graph, v, leaf(v), |role| role != Role::Output));
    Ok(EngineStep { outputs, updates: updates.collect::<Result<_>>()? })
}

/// The tensor called `name`, which has the type of value `v`.
fn read_named_tensor(
    p: &Program,
    graph: Graph<'_>,
    v: Value,
    name: &str,
    wanted: impl Fn(Role) -> bool,
) -> Result<Named> {
    let b = p.bindings().iter().find(|b| b.name == name && wanted(b.role));
    let b = b.ok_or_else(|| Error::new(Kind::Name, format!("the program has no tensor {name:?}")))?;
    let array: Array = decode_array(graph.dtype[v.at()], &graph.dims(v), p.bytes_of(b));
    Ok(Named { name: name.to_string(), array: Rc::new(array) })
}
