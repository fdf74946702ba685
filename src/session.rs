//! Sessions and programs: from a graph to steps.
//!
//! A [`Session`] holds the choices (threads, poisoning), [`Session::compile`] makes a [`Program`], which owns one arena
//! and runs steps in it. Names are for tools and set-up; [`Slot`]s are for the hot path. Nothing that a step does
//! allocates.

mod bindings;
mod budget;
mod elem;
mod fresh;
mod init;
mod precision;
mod ready;
mod report;
mod runner;
mod show;
mod threads;
mod trace;

pub use bindings::{Binding, Role};
pub use budget::Budget;
pub use elem::Elem;
pub use report::{BufferReport, PlanReport, Recomputed};
pub use show::human;
pub use threads::MAX_THREADS;
pub use trace::{Call, Event, Trace, WAIT};

use crate::arena::tensor::TensorArena;
use crate::arena::{Node, ids::Id};
use crate::error::{Error, Kind, Location, Result};
use crate::names;
use crate::nodes::ops::constant::ConstantAttrs;
use crate::nodes::{Graph, GraphBuf};
use crate::passes::precision::{self as products, Precisions};
use crate::sched::exec::{Exec, Stop};
use crate::sched::{Scheduled, model, schedule_with_red_zones};
use bindings::Index;
use fresh::Fresh;
use ready::{Ready, prepare};
use runner::Runner;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trace::Tracer;

/// Choices for compiling programs.
#[derive(Clone, Debug)]
pub struct Session {
    threads: usize,
    optimise: bool,
    poison: bool,
    share: bool,
    budget: Option<usize>,
    precision: Precisions,
}

impl Default for Session {
    fn default() -> Session {
        Session {
            threads: 1,
            optimise: true,
            poison: false,
            share: false,
            budget: None,
            precision: Precisions::default(),
        }
    }
}

/// A graph, owned or borrowed.
pub trait AsGraph {
    /// The columns.
    fn as_graph(&self) -> Graph<'_>;
}

impl AsGraph for GraphBuf {
    fn as_graph(&self) -> Graph<'_> {
        self.view()
    }
}

impl AsGraph for Graph<'_> {
    fn as_graph(&self) -> Graph<'_> {
        *self
    }
}

impl Session {
    /// One thread, all passes, no poisoning.
    pub fn new() -> Session {
        Session::default()
    }

    /// Whether graphs go through all passes before they are lowered (the default), or through those alone without
    /// which some op would have no kernel.
    pub fn optimise(mut self, on: bool) -> Session {
        self.optimise = on;
        self
    }

    /// Fills dead bytes with NaN while stepping, leaves a red zone behind each buffer and checks that nothing writes
    /// there, on one thread: a check of plans and kernels, not for speed.
    pub fn poison(mut self, on: bool) -> Session {
        self.poison = on;
        self
    }

    /// Divides every instruction that has two units or more among all threads, also where one thread is faster: a check
    /// of plans and kernels on graphs that are too small for a second thread, not for speed. Results do not depend on
    /// it.
    pub fn share(mut self, on: bool) -> Session {
        self.share = on;
        self
    }

    /// Makes programs whose arena has at most `bytes` bytes: values of the forward half are computed again where the
    /// backward half needs them, no more of them than the budget asks for. [`Session::compile`] fails if nothing fits,
    /// and says what would. A larger budget never gives a larger number of repeated operations, nor a smaller one a
    /// larger arena; results do not change.
    pub fn memory_budget(mut self, bytes: usize) -> Session {
        self.budget = Some(bytes);
        self
    }

    /// Prepares, plans and proves `graph`, and allocates its arena.
    pub fn compile(&self, graph: &impl AsGraph) -> Result<Program> {
        self.program(graph.as_graph(), false)
    }

    fn program(&self, g: Graph<'_>, traced: bool) -> Result<Program> {
        let (mut ready, report) = self.ready(g)?;
        let (g, plan) = (ready.graph.view(), &ready.scheduled.plan);
        let mut exec = Exec::new(plan, std::mem::take(&mut ready.tapes))?;
        if self.poison {
            exec = exec.with_red_zones(plan);
        }
        let origins = exec.nodes().iter().map(|&n| origin(&g, n)).collect();
        let tracer = traced.then(|| Tracer::new(&g, plan, &exec));
        Program::new(g, ready.scheduled, Runner::new(exec, self.poison)?, tracer, origins, report)
    }

    /// As [`Session::compile`], without the program: what its plan would be. Allocates no arena.
    pub fn plan(&self, graph: &impl AsGraph) -> Result<PlanReport> {
        Ok(self.ready(graph.as_graph())?.1)
    }

    fn ready(&self, g: Graph<'_>) -> Result<(Ready, PlanReport)> {
        let start = Instant::now();
        let mut ready = match self.budget {
            None => Ready::new(prepare(g, self.optimise)?, self)?,
            Some(bytes) => budget::fit(g, self, bytes)?,
        };
        if self.poison {
            ready.scheduled = schedule_with_red_zones(ready.graph.view(), 1, &ready.precision)?;
            ready.tapes = self.tapes(&ready.scheduled.plan);
        }
        let all = start.elapsed();
        let mut report = report::report(&ready.graph.view(), &ready.scheduled);
        report.recomputed = ready.recomputed.clone();
        report.threads = ready.tapes.threads();
        report.modelled = Duration::from_nanos(model::step(&ready.scheduled.plan, &ready.tapes) / 1000);
        report.products = products::counts(ready.graph.view(), &ready.precision);
        let planned = report.phases.iter().map(|p| p.1).sum();
        report.phases.insert(0, ("passes", all.saturating_sub(planned)));
        Ok((ready, report))
    }
}

/// A handle of a named tensor: a place in one program's arena, with its element type.
#[derive(Debug)]
pub struct Slot<T> {
    program: u64,
    binding: u32,
    elem: PhantomData<T>,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<T> {}

/// A compiled program with its memory.
pub struct Program {
    id: u64,
    runner: Runner,
    arena: TensorArena,
    bindings: Vec<Binding>,
    index: Index,
    fresh: Fresh,
    /// Op and location of each instruction, for errors.
    origins: Vec<(&'static str, Location)>,
    report: PlanReport,
    tracer: Option<Tracer>,
}

static PROGRAMS: AtomicU64 = AtomicU64::new(0);

impl Program {
    fn new(
        g: Graph<'_>,
        s: Scheduled,
        runner: Runner,
        tracer: Option<Tracer>,
        origins: Vec<(&'static str, Location)>,
        report: PlanReport,
    ) -> Result<Program> {
        let mut arena = TensorArena::new(s.plan.bytes)
            .ok_or_else(|| Error::new(Kind::Plan, format!("no memory for an arena of {} bytes", s.plan.bytes)))?;
        for n in (0..g.nodes()).map(Node::new).filter(|n| g.op[n.at()] == crate::nodes::Op::CONSTANT) {
            // Constants of loops' bodies have places as those of the graph have; those of nothing that runs have none.
            let Some(&at) = s.plan.offset.get(s.slices[g.out(n).at()].buf as usize) else { continue };
            let bytes = ConstantAttrs::of(&g.attrs(n)).data;
            arena.bytes_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let bindings = bindings::bindings(&g, &s);
        for (b, x) in bindings.iter().filter_map(|b| Some((b, b.default?))) {
            init::constant(&mut arena.bytes_mut()[b.offset..b.offset + b.bytes], b.dtype, x);
        }
        Ok(Program {
            id: PROGRAMS.fetch_add(1, Ordering::Relaxed),
            runner,
            arena,
            index: Index::new(&bindings),
            fresh: Fresh::new(&bindings, &bindings::read(&g, &s)),
            bindings,
            origins,
            report,
            tracer,
        })
    }

    /// Runs one step. All inputs without a default must have been written, and all params and states initialised or
    /// loaded; the error names the one that was not. A bad index stops a step before it changes anything that persists:
    /// params and states, the random key and the number of steps among them, are as they were. Only a kernel that
    /// panics may leave them changed in part; the error says so then.
    pub fn step(&mut self) -> Result<()> {
        if !self.fresh.is_ready() {
            return Err(self.fresh.error(&self.bindings));
        }
        self.runner.step(&mut self.arena).map_err(|stop| self.stopped(stop))
    }

    /// Number of threads that run steps.
    pub fn threads(&self) -> usize {
        self.runner.threads()
    }

    #[cold]
    fn stopped(&self, stop: Stop) -> Error {
        let (op, location) = &self.origins[stop.instr];
        let message = format!("{op}: {stop}");
        Error::new(Kind::Data, message).at(location.clone())
    }

    /// What the plan is.
    pub fn plan(&self) -> &PlanReport {
        &self.report
    }

    /// All named tensors: leaves in the graph's order, then outputs.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// Params and states with their bytes, in the graph's order: what a checkpoint holds.
    pub fn persistent(&self) -> impl Iterator<Item = (&Binding, &[u8])> {
        let kept = |b: &&Binding| matches!(b.role, Role::Param | Role::State);
        self.bindings.iter().filter(kept).map(|b| (b, self.bytes_of(b)))
    }

    /// The bytes of the param or state called `name`, writable, with what it is.
    pub fn persistent_mut(&mut self, name: &str) -> Result<(&Binding, &mut [u8])> {
        match self.index.find(&self.bindings, name, |role| matches!(role, Role::Param | Role::State)) {
            Some(i) => {
                self.fresh.put(i);
                let b = &self.bindings[i];
                Ok((b, &mut self.arena.bytes_mut()[b.offset..b.offset + b.bytes]))
            }
            None => Err(self.unknown("param or state", name)),
        }
    }

    /// The bytes of a binding of this program.
    pub fn bytes_of(&self, b: &Binding) -> &[u8] {
        self.arena.bytes().get(b.offset..b.offset + b.bytes).unwrap_or_default()
    }

    fn unknown(&self, what: &str, name: &str) -> Error {
        let known: Vec<String> = self.bindings.iter().map(|b| format!("{} {:?}", b.role.name(), b.name)).collect();
        let known = names::list(known.iter().map(String::as_str));
        let near = names::nearest(name, self.bindings.iter().map(|b| b.name.as_str()));
        Error::new(Kind::Name, format!("there is no {what} {name:?}; the program has {known}{near}"))
    }

    fn find<T: Elem>(&self, role: Role, name: &str) -> Result<Slot<T>> {
        let Some(i) = self.index.find(&self.bindings, name, |r| r == role) else {
            return Err(self.unknown(role.name(), name));
        };
        let b = &self.bindings[i];
        if !T::holds(b.dtype) {
            let e = format!("{} {name:?} is {}{}; it is asked for as {}", role.name(), b.dtype, b.dims, T::NAME);
            return Err(Error::new(Kind::Data, e));
        }
        Ok(Slot { program: self.id, binding: i as u32, elem: PhantomData })
    }

    /// The handle of input `name`.
    pub fn input<T: Elem>(&self, name: &str) -> Result<Slot<T>> {
        self.find(Role::Input, name)
    }

    /// The handle of param `name`.
    pub fn param_slot<T: Elem>(&self, name: &str) -> Result<Slot<T>> {
        self.find(Role::Param, name)
    }

    /// The handle of state `name`.
    pub fn state_slot<T: Elem>(&self, name: &str) -> Result<Slot<T>> {
        self.find(Role::State, name)
    }

    /// The handle of output `name`.
    pub fn output_slot<T: Elem>(&self, name: &str) -> Result<Slot<T>> {
        self.find(Role::Output, name)
    }

    fn binding<T>(&self, slot: Slot<T>) -> Result<&Binding> {
        if slot.program != self.id {
            return Err(Error::new(Kind::Data, "a slot of another program"));
        }
        Ok(&self.bindings[slot.binding as usize])
    }

    /// The name of `slot`'s tensor.
    pub fn name_of<T>(&self, slot: Slot<T>) -> Result<&str> {
        Ok(&self.binding(slot)?.name)
    }

    /// The elements of `slot`.
    pub fn read<T: Elem>(&self, slot: Slot<T>) -> Result<&[T]> {
        let b = self.binding(slot)?;
        Ok(bytemuck::cast_slice(&self.arena.bytes()[b.offset..b.offset + b.bytes]))
    }

    /// The elements of `slot`, writable; those of a bool are 0 or 1. Outputs are not.
    pub fn slice_mut<T: Elem>(&mut self, slot: Slot<T>) -> Result<&mut [T]> {
        let b = self.binding(slot)?;
        if b.role == Role::Output {
            return Err(Error::new(Kind::Data, format!("output {:?} cannot be written", b.name)));
        }
        let range = b.offset..b.offset + b.bytes;
        self.fresh.put(slot.binding as usize);
        Ok(bytemuck::cast_slice_mut(&mut self.arena.bytes_mut()[range]))
    }

    /// Writes all elements of `slot`.
    pub fn write<T: Elem>(&mut self, slot: Slot<T>, data: &[T]) -> Result<()> {
        let b = self.binding(slot)?;
        if data.len() != b.dims.numel() {
            let e =
                format!("{} {:?} is {}{}; {} elements are written", b.role.name(), b.name, b.dtype, b.dims, data.len());
            return Err(Error::new(Kind::Data, e));
        }
        elem::proven(b, bytemuck::cast_slice(data))?;
        self.slice_mut(slot)?.copy_from_slice(data);
        Ok(())
    }

    /// Input `name`, writable.
    pub fn input_mut<T: Elem>(&mut self, name: &str) -> Result<&mut [T]> {
        let slot = self.input(name)?;
        self.slice_mut(slot)
    }

    /// Param `name`.
    pub fn param<T: Elem>(&self, name: &str) -> Result<&[T]> {
        self.read(self.param_slot(name)?)
    }

    /// Param `name`, writable.
    pub fn param_mut<T: Elem>(&mut self, name: &str) -> Result<&mut [T]> {
        let slot = self.param_slot(name)?;
        self.slice_mut(slot)
    }

    /// State `name`.
    pub fn state<T: Elem>(&self, name: &str) -> Result<&[T]> {
        self.read(self.state_slot(name)?)
    }

    /// State `name`, writable.
    pub fn state_mut<T: Elem>(&mut self, name: &str) -> Result<&mut [T]> {
        let slot = self.state_slot(name)?;
        self.slice_mut(slot)
    }

    /// Output `name`, as the last step left it.
    pub fn output<T: Elem>(&self, name: &str) -> Result<&[T]> {
        self.read(self.output_slot(name)?)
    }

    /// Fills params and states as their leaves say, with draws that depend on the seed and the leaf's name alone, and
    /// sets the random key to this seed, step 0.
    pub fn init(&mut self, seed: u64) -> Result<()> {
        self.start(seed, |_| true)
    }

    /// As [`Program::init`], of those params and states that were neither initialised nor loaded nor written.
    pub fn init_rest(&mut self, seed: u64) -> Result<()> {
        self.start(seed, |set| !set)
    }

    fn start(&mut self, seed: u64, wanted: impl Fn(bool) -> bool) -> Result<()> {
        for (i, b) in self.bindings.iter().enumerate() {
            if let Some(init) = b.init.filter(|_| wanted(self.fresh.is_set(i))) {
                let bytes = &mut self.arena.bytes_mut()[b.offset..b.offset + b.bytes];
                init::fill(bytes, b.dtype, init, seed, &b.name)
                    .map_err(|e| Error::new(Kind::Data, format!("{} {:?}: {e}", b.role.name(), b.name)))?;
                self.fresh.put(i);
            }
        }
        Ok(())
    }
}

fn origin(g: &Graph<'_>, n: Node) -> (&'static str, Location) {
    if n.is_some() { (g.def_of(n).name, g.location(n)) } else { ("update", Location::Nowhere) }
}

const _: fn() = || {
    fn send<T: Send>() {}
    send::<Program>();
};
