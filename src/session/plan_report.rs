//! A plan as data for tools: its sizes, and an entry for each buffer.

use crate::arena::tensor::LINE;
use crate::arena::{Node, Value, ids::Id};
use crate::error::Location;
use crate::nodes::Graph;
use crate::passes::product_precision::Counts;
use crate::passes::remat::remat_facts;
use crate::sched::Scheduled;
use crate::sched::instructions::{BufKind, Instructions};
use std::time::Duration;

/// One buffer of a plan.
#[derive(Clone, Debug)]
pub struct BufferReport {
    /// The value's name; if it has none, its id as text; for scratch, the op's name.
    pub name: String,
    /// The value.
    pub value: Value,
    /// The op that makes it; empty where there is none.
    pub op: &'static str,
    /// What it holds.
    pub kind: BufKind,
    /// Whether it belongs to the backward half of a training step.
    pub gradient: bool,
    /// First byte in the arena.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// First instruction that needs it.
    pub first: u32,
    /// Last instruction that needs it.
    pub last: u32,
    /// The buffer (by index in the report) whose bytes it takes over; itself if none.
    pub root: u32,
    /// The source location of the value's node.
    pub location: Location,
}

/// What is computed twice to fit a memory budget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recomputed {
    /// Which values are recomputed, in words; empty without a budget.
    pub what: String,
    /// Number of nodes that run twice.
    pub nodes: usize,
    /// Floating-point operations that run twice in a step.
    pub flops: u64,
}

/// A memory plan.
#[derive(Clone, Debug)]
pub struct PlanReport {
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Lower bound of the arena's bytes over all plans with this order of instructions.
    pub lower_bound_bytes: usize,
    /// Lower bound of the arena's bytes over all plans with any order.
    pub order_bound_bytes: usize,
    /// Bytes of params, states, inputs and constants.
    pub pinned_bytes: usize,
    /// Number of instructions.
    pub instructions: usize,
    /// Name of the order of instructions that was chosen.
    pub order: &'static str,
    /// Floating-point operations of a step, as the ops count them.
    pub flops: u64,
    /// Threads that run a step.
    pub threads: usize,
    /// Time of a step by the table of [`crate::kernels::cost_model`], whose figures are of one reference machine.
    pub modelled: Duration,
    /// Bytes that a step must move between memory and core: each leaf and constant that it reads, each updated leaf and
    /// each output, once. Activations do not count, as they could stay in cache.
    pub moved_bytes: u64,
    /// What is computed twice to fit the memory budget. `flops` includes it.
    pub recomputed: Recomputed,
    /// Number of `f32` matrix products in each precision, in the order of `Precision::ALL`.
    pub products: Counts,
    /// How long each phase of compiling took, in order.
    pub phases: Vec<(&'static str, Duration)>,
    /// The buffers.
    pub buffers: Vec<BufferReport>,
}

/// For each buffer, the node that it is for: the maker of its value, or, for a temporary, the node that writes it.
fn report_owners(g: &Graph<'_>, s: &Scheduled) -> Vec<Node> {
    let code = &s.plan.code;
    let mut owner: Vec<Node> =
        code.value.iter().map(|&v| if v.is_some() { g.def[v.at()] } else { Node::NONE }).collect();
    for i in 0..code.len() {
        for o in code.writes_of(i).iter().filter(|o| !code.value[o.buf as usize].is_some()) {
            owner[o.buf as usize] = code.node[i];
        }
    }
    owner
}

/// The last node of the forward half, where there is a backward half: a graph that has updates or gives gradients.
fn report_turn(g: &Graph<'_>) -> Option<Node> {
    let gives = g.output_names.iter().any(|&n| g.str(n).starts_with("grad."));
    (gives || !g.updates.is_empty()).then(|| remat_facts(*g).fwd_bwd_boundary)
}

/// The report of `s`.
pub fn report_plan(g: &Graph<'_>, s: &Scheduled) -> PlanReport {
    let code = &s.plan.code;
    let (owner, turn) = (report_owners(g, s), report_turn(g));
    let buffer = |b: usize| {
        let (v, root, n) = (code.value[b], s.alias.class[b], owner[b]);
        let named = v.is_some() && g.names[v.at()].is_some();
        BufferReport {
            name: match v.is_some() {
                true if named => g.str(g.names[v.at()]).to_string(),
                true => v.to_string(),
                false if n.is_some() => g.def_of(n).name.to_string(),
                false => "scratch".to_string(),
            },
            value: v,
            op: if n.is_some() { g.def_of(n).name } else { "" },
            kind: code.kind[b],
            gradient: code.kind[b] == BufKind::Activation && n.is_some() && turn.is_some_and(|t| n > t),
            offset: s.plan.offset[b],
            size: code.bytes[b],
            first: s.live.first[root as usize],
            last: s.live.end[root as usize].saturating_sub(1),
            root,
            location: if n.is_some() { g.location(n) } else { Location::Nowhere },
        }
    };
    let pinned = (0..code.bytes.len()).filter(|&b| code.kind[b].is_pinned());
    PlanReport {
        arena_bytes: s.plan.bytes,
        lower_bound_bytes: s.bound as usize * LINE,
        order_bound_bytes: s.order_bound as usize * LINE,
        pinned_bytes: pinned.map(|b| code.bytes[b].div_ceil(LINE) * LINE).sum(),
        instructions: code.len(),
        order: s.order,
        flops: code.flops.iter().fold(0, |sum, &f| sum.saturating_add(f)),
        threads: 1,
        modelled: Duration::ZERO,
        moved_bytes: report_moved_bytes(code),
        recomputed: Recomputed::default(),
        products: Counts::default(),
        phases: s.phases.clone(),
        buffers: (0..code.bytes.len()).map(buffer).collect(),
    }
}

/// See [`PlanReport::moved_bytes`].
fn report_moved_bytes(code: &Instructions) -> u64 {
    let mut read = vec![false; code.bytes.len()];
    code.reads.iter().for_each(|o| read[o.buf as usize] = true);
    let read = (0..read.len()).filter(|&b| read[b] && code.kind[b].is_pinned()).map(|b| code.bytes[b]);
    let next = code.updates.iter().map(|u| u.from.bytes());
    let out = code.outputs.iter().map(|o| o.bytes());
    read.chain(next).chain(out).fold(0u64, |sum, b| sum.saturating_add(b as u64))
}

impl PlanReport {
    /// Bytes that are live at each instruction, in whole lines.
    pub fn live_bytes(&self) -> Vec<usize> {
        let mut change = vec![0i64; self.instructions + 2];
        for b in self.buffers.iter().enumerate().filter(|(i, b)| b.root as usize == *i).map(|(_, b)| b) {
            let lines = (b.size.div_ceil(LINE) * LINE) as i64;
            change[(b.first as usize).min(self.instructions)] += lines;
            change[(b.last as usize + 1).min(self.instructions + 1)] -= lines;
        }
        let mut live = 0;
        let running = change.iter().map(|c| {
            live += c;
            live.max(0) as usize
        });
        running.take(self.instructions.max(1)).collect()
    }

    /// The first instruction at which most bytes are live, and how many.
    pub fn peak(&self) -> (usize, usize) {
        let live = self.live_bytes();
        let at = (0..live.len()).max_by_key(|&i| (live[i], std::cmp::Reverse(i))).unwrap_or(0);
        (at, live.get(at).copied().unwrap_or(0))
    }
}
