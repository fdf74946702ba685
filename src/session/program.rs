//! Programs: one arena, its named tensors, and steps.

use super::bindings::{self, Binding, Index, Role};
use super::fresh::Fresh;
use super::init;
use super::report::PlanReport;
use super::runner::Runner;
use super::trace::Tracer;
use crate::arena::tensor::TensorArena;
use crate::arena::{Node, ids::Id};
use crate::error::{Error, Kind, Location, Result};
use crate::names;
use crate::nodes::ops::constant::ConstantAttrs;
use crate::nodes::{Graph, GraphBuf, Op};
use crate::sched::Scheduled;
use crate::sched::exec::Stop;
use hashbrown::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A compiled program with its memory: one method, or several that share params and states.
pub struct Program {
    /// Tells the handles of this program from those of others.
    pub(super) id: u64,
    pub(super) runner: Runner,
    pub(super) arena: TensorArena,
    pub(super) bindings: Vec<Binding>,
    pub(super) fresh: Fresh,
    pub(super) methods: Vec<MethodData>,
}

/// A method of a program.
pub(super) struct MethodData {
    pub name: String,
    /// Its inputs and outputs, and all params and states of the program.
    pub index: Index,
    /// Its inputs, params, states and outputs, as indices of bindings, in the graph's order.
    pub named: Vec<u32>,
    /// Of each instruction.
    origins: Vec<Origin>,
    pub report: PlanReport,
    pub tracer: Option<Tracer>,
}

/// The op and the source line that an instruction comes from, for error messages.
pub(super) struct Origin {
    op: &'static str,
    location: Location,
}

impl Origin {
    /// The origin of an instruction of node `n`. If there is no node, the instruction updates a leaf.
    pub fn of(g: &Graph<'_>, n: Node) -> Origin {
        match n.is_some() {
            true => Origin { op: g.def_of(n).name, location: g.location(n) },
            false => Origin { op: "update", location: Location::Nowhere },
        }
    }
}

/// What one method of a program is made of.
pub(super) struct Part {
    pub name: String,
    pub graph: GraphBuf,
    pub scheduled: Scheduled,
    /// Of each instruction.
    pub origins: Vec<Origin>,
    pub tracer: Option<Tracer>,
    pub report: PlanReport,
}

static PROGRAMS: AtomicU64 = AtomicU64::new(0);

impl Program {
    /// A program of `parts`, whose plans are for one arena.
    pub(super) fn new(parts: Vec<Part>, runner: Runner) -> Result<Program> {
        let bytes = parts.iter().map(|p| p.scheduled.plan.bytes).max().unwrap_or(0);
        let mut arena = TensorArena::new(bytes)
            .ok_or_else(|| Error::new(Kind::Plan, format!("no memory for an arena of {bytes} bytes")))?;
        let table = Table::new(&parts);
        for part in &parts {
            write_constants(&mut arena, &part.graph.view(), &part.scheduled);
        }
        for (b, x) in table.bindings.iter().filter_map(|b| Some((b, b.default?))) {
            init::constant(&mut arena.bytes_mut()[b.range()], b.dtype, x);
        }
        let Table { bindings, named, read } = table;
        let kept = (0..bindings.len() as u32).filter(|&i| bindings[i as usize].is_persistent());
        let kept: Vec<u32> = kept.collect();
        let method = |(p, named): (Part, Vec<u32>)| {
            let own = named.iter().copied().filter(|&i| !bindings[i as usize].is_persistent());
            let index = Index::new(&bindings, kept.iter().copied().chain(own).collect());
            MethodData { name: p.name, index, named, origins: p.origins, report: p.report, tracer: p.tracer }
        };
        let methods = parts.into_iter().zip(named).map(method).collect();
        let (id, fresh) = (PROGRAMS.fetch_add(1, Ordering::Relaxed), Fresh::new(&bindings, &read));
        Ok(Program { id, runner, arena, bindings, fresh, methods })
    }

    /// Runs one step of the first method, which is the only one unless the program comes from
    /// [`Session::compile_all`](super::Session::compile_all).
    ///
    /// Errors: an input without a default was never written, or a param or state was neither initialised nor loaded
    /// (the error names it); an index is out of range. A step that fails leaves params and states as they were, the
    /// random key and the step count among them. Only a kernel that panics may leave them half changed; the error says
    /// so.
    pub fn step(&mut self) -> Result<()> {
        self.step_of(0)
    }

    /// Runs one step of the method at `at`.
    #[inline]
    pub(super) fn step_of(&mut self, at: usize) -> Result<()> {
        if !self.fresh.is_ready(at) {
            return Err(self.fresh.error(at, &self.bindings));
        }
        self.runner.step(at, &mut self.arena).map_err(|stop| self.stopped(at, stop))
    }

    /// Number of threads that run steps of the first method.
    pub fn threads(&self) -> usize {
        self.methods[0].report.threads
    }

    #[cold]
    pub(super) fn stopped(&self, at: usize, stop: Stop) -> Error {
        let origin = &self.methods[at].origins[stop.instr];
        Error::new(Kind::Data, format!("{}: {stop}", origin.op)).at(origin.location.clone())
    }

    /// The memory plan of the first method. It prints as text.
    pub fn plan(&self) -> &PlanReport {
        &self.methods[0].report
    }

    /// All named tensors: of the first method its inputs, params and states in the graph's order, then its outputs; then
    /// those that each further method adds.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// Params and states of all methods with their bytes, in the graphs' order: what a checkpoint holds.
    pub fn persistent(&self) -> impl Iterator<Item = (&Binding, &[u8])> {
        self.bindings.iter().filter(|b| b.is_persistent()).map(|b| (b, self.bytes_of(b)))
    }

    /// The binding of the param or state called `name`, and its bytes, writable.
    pub fn persistent_mut(&mut self, name: &str) -> Result<(&Binding, &mut [u8])> {
        let i = self.named(0, "param or state", name, |role| matches!(role, Role::Param | Role::State))?;
        self.fresh.put(i);
        let b = &self.bindings[i];
        Ok((b, &mut self.arena.bytes_mut()[b.range()]))
    }

    /// The param or state called `name` counts as unset: a step that reads it is refused.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Ok(i) = self.named(0, "param or state", name, |role| matches!(role, Role::Param | Role::State)) {
            self.fresh.clear(i);
        }
    }

    /// The bytes of a binding of this program.
    pub fn bytes_of(&self, b: &Binding) -> &[u8] {
        self.arena.bytes().get(b.range()).unwrap_or_default()
    }

    /// The index of the binding called `name` whose role is `wanted`, in the method at `at`; the error calls it a
    /// `what`.
    pub(super) fn named(&self, at: usize, what: &str, name: &str, wanted: impl Fn(Role) -> bool) -> Result<usize> {
        let method = &self.methods[at];
        if let Some(i) = method.index.find(&self.bindings, name, &wanted) {
            return Ok(i);
        }
        let own = || method.named.iter().map(|&i| &self.bindings[i as usize]);
        let known: Vec<String> = own().map(|b| format!("{} {:?}", b.role.name(), b.name)).collect();
        let known = names::list(known.iter().map(String::as_str));
        let near = names::nearest(name, own().map(|b| b.name.as_str()));
        let place = match self.methods.len() {
            1 => "the program".to_string(),
            _ => format!("method {:?}", method.name),
        };
        let there = self.methods.iter().find(|m| m.index.find(&self.bindings, name, &wanted).is_some());
        let there = there.map_or(String::new(), |m| format!("; method {:?} has one", m.name));
        Err(Error::new(Kind::Name, format!("there is no {what} {name:?}; {place} has {known}{near}{there}")))
    }

    /// Fills params and states with their start values and sets the random key to `seed`, step 0. The values of a leaf
    /// depend on the seed and the leaf's name alone.
    pub fn init(&mut self, seed: u64) -> Result<()> {
        self.start(seed, |_| true)
    }

    /// As [`Program::init`], but only the params and states that were neither initialised nor loaded nor written.
    pub fn init_rest(&mut self, seed: u64) -> Result<()> {
        self.start(seed, |set| !set)
    }

    fn start(&mut self, seed: u64, wanted: impl Fn(bool) -> bool) -> Result<()> {
        for (i, b) in self.bindings.iter().enumerate() {
            if let Some(init) = b.init.filter(|_| wanted(self.fresh.is_set(i))) {
                init::fill(&mut self.arena.bytes_mut()[b.range()], b.dtype, init, seed, &b.name)
                    .map_err(|e| Error::new(Kind::Data, format!("{} {:?}: {e}", b.role.name(), b.name)))?;
                self.fresh.put(i);
            }
        }
        Ok(())
    }
}

/// Writes the constants of `g` to their places.
fn write_constants(arena: &mut TensorArena, g: &Graph<'_>, s: &Scheduled) {
    for n in (0..g.nodes()).map(Node::new).filter(|n| g.op[n.at()] == Op::CONSTANT) {
        // Constants in bodies of loops have offsets, too; a constant that no instruction reads has none.
        let Some(&at) = s.plan.offset.get(s.slices[g.out(n).at()].buf as usize) else { continue };
        let bytes = ConstantAttrs::of(&g.attrs(n)).data;
        arena.bytes_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
    }
}

/// The named tensors of all methods. A param or a state of several methods is there once.
struct Table {
    bindings: Vec<Binding>,
    /// Of each method: its bindings.
    named: Vec<Vec<u32>>,
    /// Of each method: which bindings its steps read.
    read: Vec<Vec<u32>>,
}

impl Table {
    fn new(parts: &[Part]) -> Table {
        let mut table = Table { bindings: Vec::new(), named: Vec::new(), read: Vec::new() };
        let mut kept: HashMap<String, u32> = HashMap::new();
        for p in parts {
            let g = p.graph.view();
            let (mut named, mut reads) = (Vec::new(), Vec::new());
            for (b, read) in bindings::bindings(&g, &p.scheduled).into_iter().zip(bindings::read(&g, &p.scheduled)) {
                let next = table.bindings.len() as u32;
                let i = match b.is_persistent() {
                    true => *kept.entry(b.name.clone()).or_insert(next),
                    false => next,
                };
                if i == next {
                    table.bindings.push(b);
                }
                named.push(i);
                reads.extend(read.then_some(i));
            }
            table.named.push(named);
            table.read.push(reads);
        }
        table
    }
}

impl Binding {
    /// Whether it is a param or a state.
    pub(super) fn is_persistent(&self) -> bool {
        matches!(self.role, Role::Param | Role::State)
    }

    /// The bytes of the arena that it takes.
    pub(super) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }
}
