//! A plan as data for tools, and as text for people: its sizes, an entry for each buffer, what is alive at the peak.
//!
//! Invariant: a plan reads the same wherever it is printed: by a program or by a tool.

use super::human::human;
use crate::arena::tensor::LINE;
use crate::arena::{Node, Value, ids::Id};
use crate::error::Location;
use crate::kernels::gemm::{Precision, bf16_engine};
use crate::nodes::Graph;
use crate::passes::Warning;
use crate::passes::keep_half::{Keep, KeptHalf};
use crate::passes::product_precision::Counts;
use crate::passes::remat::remat_facts;
use crate::sched::Scheduled;
use crate::sched::instructions::{BufKind, Instructions, Update};
use crate::sched::modelled_time::modelled_alone;
use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

/// One buffer of a plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
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

/// A leaf that a step writes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UpdateReport {
    /// Its name.
    pub name: String,
    /// The part of the step's modelled time, on one thread, that is left behind the instruction that has written its
    /// next value.
    pub left: f64,
}

/// What is computed twice to fit a memory budget.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
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
#[non_exhaustive]
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
    /// What is kept in half precision for the backward half.
    pub kept: KeptHalf,
    /// Number of `f32` matrix products in each precision, in the order of `Precision::ALL`.
    pub products: Counts,
    /// Number of convolutions, and of their gradients, that are computed by
    /// [`Convolutions::Winograd`](crate::session::Convolutions::Winograd).
    pub winograd: usize,
    /// How long each phase of compiling took, in order.
    pub phases: Vec<(&'static str, Duration)>,
    /// What is most likely a mistake in the graph, as it runs:
    /// [`GraphBuf::warnings`](crate::graph::GraphBuf::warnings), and what belongs to training where nothing is trained.
    /// The text of the plan begins with them.
    pub warnings: Vec<Warning>,
    /// The buffers.
    pub buffers: Vec<BufferReport>,
    /// The leaves that a step writes, in the graph's order.
    pub updates: Vec<UpdateReport>,
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
pub fn describe_plan(g: &Graph<'_>, s: &Scheduled) -> PlanReport {
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
        kept: KeptHalf::default(),
        products: Counts::default(),
        winograd: 0,
        phases: s.phases.clone(),
        warnings: Vec::new(),
        buffers: (0..code.bytes.len()).map(buffer).collect(),
        updates: report_updates(g, code),
    }
}

/// See [`PlanReport::updates`].
fn report_updates(g: &Graph<'_>, code: &Instructions) -> Vec<UpdateReport> {
    // For each buffer, the time behind the last instruction that writes it.
    let mut left = vec![None; code.bytes.len()];
    let mut all = 0u64;
    for i in (0..code.len()).rev() {
        for o in code.writes_of(i) {
            left[o.buf as usize].get_or_insert(all);
        }
        all = all.saturating_add(modelled_alone(code, i));
    }
    let update = |u: &Update| UpdateReport {
        name: g.str(g.names[code.value[u.leaf as usize].at()]).to_string(),
        left: left[u.from.buf as usize].unwrap_or(all) as f64 / all.max(1) as f64,
    };
    code.updates.iter().map(update).collect()
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
        let at = (0..live.len()).max_by_key(|&i| (live[i], Reverse(i))).unwrap_or(0);
        (at, live.get(at).copied().unwrap_or(0))
    }
}

/// Buffers that each list of a plan has, unless all are asked for.
const SHOWN: usize = 10;

impl BufferReport {
    /// What it holds, as one word: `gradient` for an activation of the backward half, else the name of its kind.
    pub fn what(&self) -> &'static str {
        if self.gradient { "gradient" } else { self.kind.name() }
    }

    /// Names for a picture, the longest first: its value if that has a name, op, file and line; then fewer of these.
    pub fn labels(&self) -> Vec<String> {
        let named = !self.value.is_some() || self.name != self.value.to_string();
        let op = if self.op.is_empty() { self.what() } else { self.op };
        let what = if named { &self.name } else { op };
        // The folder is in the title of the rectangle.
        let place = self.origin().map(|at| at.rsplit(['/', '\\']).next().unwrap_or_default().to_string());
        let with_op = |at: &String| (named && op != what).then(|| format!("{what}, {op} {at}"));
        let mut labels: Vec<String> = place.iter().filter_map(with_op).collect();
        labels.extend(place.iter().map(|at| format!("{what} {at}")));
        labels.push(what.to_string());
        labels
    }

    /// The source line of its node: `src/main.rs:12`, or `line 12:3` of a text.
    pub fn origin(&self) -> Option<String> {
        self.location.origin()
    }
}

/// Its value, what it is, the op that makes it, and the line that asked for it: `h (activation), tanh, src/main.rs:12`.
impl fmt::Display for BufferReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.name != self.what() {
            write!(f, " ({})", self.what())?;
        }
        if ![self.what(), &self.name, ""].contains(&self.op) {
            write!(f, ", {}", self.op)?;
        }
        self.origin().map_or(Ok(()), |at| write!(f, ", {at}"))
    }
}

impl PlanReport {
    /// The arena's bytes divided by their lower bound.
    pub fn fragmentation(&self) -> f64 {
        if self.lower_bound_bytes > 0 { self.arena_bytes as f64 / self.lower_bound_bytes as f64 } else { 1.0 }
    }

    /// The `n` largest buffers that take bytes of their own.
    pub fn largest(&self, n: usize) -> Vec<&BufferReport> {
        let own = self.buffers.iter().enumerate().filter(|(i, b)| b.root as usize == *i && b.size > 0);
        let mut all: Vec<_> = own.map(|(_, b)| b).collect();
        all.sort_by_key(|b| (Reverse(b.size), b.offset, b.first));
        all.truncate(n);
        all
    }

    /// The last instruction that needs `b`. If `b` is needed after the step, this is the program's last instruction.
    pub fn last(&self, b: &BufferReport) -> u32 {
        b.last.min(self.instructions.saturating_sub(1) as u32)
    }

    /// The same plan, with `file` as the name of the text that its locations refer to.
    pub fn in_file(mut self, file: &str) -> PlanReport {
        let of_buffers = self.buffers.iter_mut().map(|b| &mut b.location);
        of_buffers
            .chain(self.warnings.iter_mut().map(|w| &mut w.location))
            .for_each(|l| *l = std::mem::take(l).in_file(file));
        self
    }

    /// How many products are computed how, and by which units.
    fn products_text(&self) -> String {
        let of = |&(p, name): &(Precision, &str)| match self.products[p as usize] {
            0 => None,
            n => Some(format!("{n} in {name}")),
        };
        let list: Vec<String> = Precision::ALL.iter().filter_map(of).collect();
        let units = match self.products[1..].iter().all(|&n| n == 0) {
            true => String::new(),
            false => bf16_engine().map_or_else(|e| e, |e| format!(" ({e})")),
        };
        if list.is_empty() { "none of f32 matrices".into() } else { list.join(", ") + &units }
    }

    /// What is kept in half precision.
    fn kept_text(&self) -> String {
        let KeptHalf { keep, values, bytes } = self.kept;
        let (name, twice) = (keep.name(), 2 * bytes);
        match values {
            0 => format!("nothing in {name}: the backward half reads no f32 value that may be rounded"),
            _ => format!("{values} values in {name}, {bytes} bytes ({}) instead of {twice}", human(bytes)),
        }
    }

    /// The figures, by name.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let modelled = self.modelled.as_secs_f64() * 1e6;
        let mut facts = vec![
            ("arena", format!("{} bytes ({})", self.arena_bytes, human(self.arena_bytes as u64))),
            ("max live", format!("{} bytes: the lower bound for this order", self.lower_bound_bytes)),
            ("any order", format!("{} bytes at least", self.order_bound_bytes)),
            ("fragmentation", format!("{:.4}", self.fragmentation())),
            ("pinned", format!("{} bytes of params, states, inputs and constants", self.pinned_bytes)),
            ("instructions", format!("{} (order: {})", self.instructions, self.order)),
            ("operations", format!("{} a step", self.flops)),
            ("moved", format!("{} bytes a step at least: leaves, next values and outputs", self.moved_bytes)),
            ("modelled", format!("{modelled:.1} us a step, on {} threads", self.threads)),
            ("products", self.products_text()),
        ];
        if self.winograd > 0 {
            facts.push(("convolutions", format!("{} by Winograd's minimal filtering", self.winograd)));
        }
        let again = &self.recomputed;
        if !again.what.is_empty() {
            let share = 100.0 * again.flops as f64 / self.flops.saturating_sub(again.flops).max(1) as f64;
            let text = format!("{}: {} nodes, {} operations (+{share:.2} %)", again.what, again.nodes, again.flops);
            facts.push(("computed twice", text));
        }
        if self.kept.keep != Keep::F32 {
            facts.push(("kept in half", self.kept_text()));
        }
        let phases: Vec<String> =
            self.phases.iter().map(|(name, time)| format!("{name} {:.2} ms", time.as_secs_f64() * 1e3)).collect();
        facts.push(("phases", phases.join(", ")));
        facts
    }
}

/// The figures, what is alive at the peak, and the largest buffers, ten of each; with `{:#}`, all of them.
impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if f.alternate() { usize::MAX } else { SHOWN };
        self.warnings.iter().try_for_each(|w| writeln!(f, "{:<15}{w}", "warning"))?;
        for (name, value) in self.facts() {
            writeln!(f, "{name:<15}{value}")?;
        }
        let (peak, live) = self.peak();
        writeln!(f, "{:<15}{live} bytes live at instruction {peak}, the largest of them:", "peak")?;
        let all = self.largest(usize::MAX);
        let alive = all.iter().filter(|b| b.first as usize <= peak && peak <= b.last as usize);
        for b in alive.take(shown) {
            writeln!(f, "  {:>12}  {b}", b.size)?;
        }
        writeln!(f, "largest buffers")?;
        writeln!(f, "  {:>12} {:>12} {:>6} {:>6}  value", "bytes", "offset", "from", "to")?;
        for b in all.iter().take(shown) {
            writeln!(f, "  {:>12} {:>12} {:>6} {:>6}  {b}", b.size, b.offset, b.first, self.last(b))?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests;
