//! Recorded steps: the times of each thread's instructions and waits, and a description of each instruction ([`Call`]).
//!
//! Invariants: descriptions are made when a program is compiled, and only by
//! [`Session::compile_traced`](super::Session::compile_traced); recording a step does not change its results. Tools use
//! this to show where a step's time goes.

use crate::arena::{Sym, ids::Id};
use crate::error::Location;
use crate::kernels::abi::Split;
use crate::nodes::Graph;
use crate::sched::checker::Checked;
use crate::sched::exec::Exec;
use crate::sched::instructions::Instructions;
use crate::sched::track::Track;
pub use crate::sched::track::{Event, WAIT};
use std::sync::Arc;

/// An instruction of a program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Call {
    /// The op; `update` for the copy of a next value into its leaf.
    pub op: &'static str,
    /// The name of the node's first result; if it has none, that of the leaf that it updates; else its id as text.
    pub name: String,
    /// Types of the node's operands and results.
    pub types: String,
    /// Floating-point operations of one run of the instruction, all units together.
    pub flops: u64,
    /// Bytes of its operands and results, each counted once, without per-thread scratch.
    pub bytes: u64,
    /// Picoseconds on one thread, by the table of [`crate::kernels::cost_model`].
    pub modelled: u64,
    /// Number of units, which threads share.
    pub units: usize,
    /// The source location of the node.
    pub location: Location,
}

/// A step that was recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trace {
    /// The instructions: those of the graph, then those of loops' bodies.
    pub calls: Arc<[Call]>,
    /// What each thread did, in order; [`Event::instr`] is an index into `calls`.
    pub threads: Vec<Vec<Event>>,
    /// Nanoseconds of the whole step.
    pub nanos: u64,
    /// Number of events that did not fit the buffers.
    pub dropped: u64,
}

/// The descriptions of instructions and the event buffers of a program that was compiled for tracing.
pub struct Tracer {
    calls: Arc<[Call]>,
    pub(super) tracks: Vec<Track>,
    pub(super) nanos: u64,
}

impl Tracer {
    /// The last recorded step.
    pub(super) fn trace(&self) -> Trace {
        Trace {
            calls: self.calls.clone(),
            threads: self.tracks.iter().map(|t| t.events().to_vec()).collect(),
            nanos: self.nanos,
            dropped: self.tracks.iter().map(Track::dropped).sum(),
        }
    }

    /// A tracer of the program of `plan`, which `exec` runs.
    pub(super) fn new(g: &Graph<'_>, plan: &Checked, exec: &Exec) -> Tracer {
        let mut next = vec![Sym::NONE; g.values()];
        for &(leaf, v) in g.updates {
            next[v.at()] = g.names[leaf.at()];
        }
        let mut calls = Vec::new();
        append_calls(g, &next, &plan.code, &mut calls);
        let tracks = (0..exec.threads()).map(|t| Track::new(exec.track_events(t))).collect();
        Tracer { calls: calls.into(), tracks, nanos: 0 }
    }
}

/// Appends the instructions of `code`, then those of its loops, in the order in which linking numbers them.
fn append_calls(g: &Graph<'_>, next: &[Sym], code: &Instructions, calls: &mut Vec<Call>) {
    calls.extend((0..code.len()).map(|i| describe_call(g, next, code, i)));
    for l in (0..code.len()).flat_map(|i| code.bodies_of(i)) {
        append_calls(g, next, &l.plan.code, calls);
    }
}

fn describe_call(g: &Graph<'_>, next: &[Sym], code: &Instructions, i: usize) -> Call {
    let n = code.node[i];
    let moved = code.reads_of(i).iter().chain(code.writes_of(i)).filter(|o| !matches!(o.split, Split::PerThread(_)));
    let bytes = moved.fold(0u64, |sum, o| sum.saturating_add(o.bytes() as u64));
    let (flops, units, modelled) = (code.flops[i], code.units[i], code.time[i].total);
    if !n.is_some() {
        let (name, types) = (String::new(), String::new());
        return Call { op: "update", name, types, flops, bytes, modelled, units, location: Location::Nowhere };
    }
    let text = |v: &crate::arena::Value| g.ty_text(*v);
    let args: Vec<String> = g.args_of(n).iter().map(text).collect();
    let outs: Vec<String> = g.outs_of(n).map(|v| text(&v)).collect();
    let names = || g.outs_of(n).map(|v| g.names[v.at()]).chain(g.outs_of(n).map(|v| next[v.at()]));
    let first = g.outs_of(n).next().map(|v| v.to_string()).unwrap_or_default();
    Call {
        op: g.def_of(n).name,
        name: names().find(|s| s.is_some()).map_or(first, |s| g.str(s).to_string()),
        types: format!("{} -> {}", args.join(", "), outs.join(", ")),
        flops,
        bytes,
        modelled,
        units,
        location: g.location(n),
    }
}
