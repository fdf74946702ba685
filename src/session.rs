//! Sessions and programs: from a graph to steps.
//!
//! A [`Session`] holds the choices (threads, poisoning), [`Session::compile`] makes a [`Program`], which owns one arena
//! and runs steps in it. Names are for tools and set-up; [`Slot`]s are for the hot path. Nothing that a step does
//! allocates.

mod budget;
mod elem;
mod init;
mod precision;
mod report;
mod runner;
mod show;
mod threads;
mod trace;

pub use budget::Budget;
pub use elem::Elem;
pub use report::{BufferReport, PlanReport, Recomputed};
pub use show::human;
pub use threads::MAX_THREADS;
pub use trace::{Call, Event, Trace, WAIT};

use crate::arena::intern::Dims;
use crate::arena::tensor::TensorArena;
use crate::arena::{Node, Value, ids::Id};
use crate::error::{Error, Kind, Place, Result};
use crate::kernels::gemm::Precision;
use crate::nodes::{DType, Graph, GraphBuf, Init, LeafKind};
use crate::passes::pipeline;
use crate::passes::precision::{self as products, Precisions};
use crate::sched::code::Operand;
use crate::sched::exec::{Exec, Stop};
use crate::sched::{Scheduled, model, schedule_apart, schedule_in, tape};
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
    budget: Option<usize>,
    precision: Precisions,
}

impl Default for Session {
    fn default() -> Session {
        Session { threads: 1, optimise: true, poison: false, budget: None, precision: Precisions::default() }
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

    /// Fills dead bytes with NaN while stepping, leaves a line free behind each buffer and watches that nobody writes
    /// there, on one thread: a check of plans and kernels, not for speed.
    pub fn poison(mut self, on: bool) -> Session {
        self.poison = on;
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
            exec = exec.guard(plan);
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
            ready.scheduled = schedule_apart(ready.graph.view(), 1, &ready.precision)?;
            ready.tapes = tape::tapes(&ready.scheduled.plan);
        }
        let all = start.elapsed();
        let mut report = report::report(&ready.graph.view(), &ready.scheduled);
        report.recomputed = ready.recomputed.clone();
        report.threads = ready.tapes.lanes();
        report.modelled = Duration::from_nanos(model::step(&ready.scheduled.plan, &ready.tapes) / 1000);
        report.products = products::counts(ready.graph.view(), &ready.precision);
        let planned = report.phases.iter().map(|p| p.1).sum();
        report.phases.insert(0, ("passes", all.saturating_sub(planned)));
        Ok((ready, report))
    }
}

/// A graph that is scheduled and divided among threads.
struct Ready {
    graph: GraphBuf,
    scheduled: Scheduled,
    tapes: tape::Tapes,
    recomputed: Recomputed,
    /// Of each node; empty if nothing was asked for.
    precision: Vec<Precision>,
}

impl Ready {
    fn new(graph: GraphBuf, s: &Session) -> Result<Ready> {
        let (mut lanes, precision) = (s.lanes()?, precision::assign(graph.view(), &s.precision)?);
        let mut scheduled = schedule_in(graph.view(), lanes, &precision)?;
        let mut tapes = tape::tapes(&scheduled.plan);
        while tapes.lanes() < lanes {
            // Not worth so many threads: no scratch for the others either.
            lanes = tapes.lanes();
            scheduled = schedule_in(graph.view(), lanes, &precision)?;
            tapes = tape::tapes(&scheduled.plan);
        }
        Ok(Ready { graph, scheduled, tapes, recomputed: Recomputed::default(), precision })
    }
}

/// The form of `g` that can be lowered.
fn prepare(g: Graph<'_>, optimise: bool) -> Result<GraphBuf> {
    if optimise {
        return pipeline::optimise(g);
    }
    Ok(pipeline::run(g, &["inline", "legalize", "unmark"], false)?.0)
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Written by the caller.
    Input,
    /// Trained.
    Param,
    /// Kept from step to step.
    State,
    /// Read by the caller.
    Output,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Param => "param",
            Role::State => "state",
            Role::Output => "output",
        }
    }
}

/// A named tensor of a program.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub dims: Dims,
    /// First byte in the arena.
    pub offset: usize,
    /// Size in bytes.
    pub bytes: usize,
    init: Option<Init>,
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
    /// Op and place of each instruction, for errors.
    origins: Vec<(&'static str, Place)>,
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
        origins: Vec<(&'static str, Place)>,
        report: PlanReport,
    ) -> Result<Program> {
        let mut arena = TensorArena::new(s.plan.bytes)
            .ok_or_else(|| Error::new(Kind::Plan, format!("no memory for an arena of {} bytes", s.plan.bytes)))?;
        for n in (0..g.nodes()).map(Node::new).filter(|n| g.op[n.at()] == crate::nodes::Op::CONSTANT) {
            // Constants of loops' bodies have places as those of the graph have; those of nothing that runs have none.
            let Some(&at) = s.plan.place.get(s.spots[g.out(n).at()].buf as usize) else { continue };
            let bytes = g.attrs(n).bytes(2);
            arena.bytes_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(Program {
            id: PROGRAMS.fetch_add(1, Ordering::Relaxed),
            runner,
            arena,
            bindings: bindings(&g, &s),
            origins,
            report,
            tracer,
        })
    }

    /// Runs one step. An error (an index out of range, say) stops it: nothing after the op at fault runs, so that
    /// params and states that are updated after it keep their values.
    pub fn step(&mut self) -> Result<()> {
        self.runner.step(&mut self.arena).map_err(|stop| self.stopped(stop))
    }

    /// Number of threads that run steps.
    pub fn threads(&self) -> usize {
        self.runner.threads()
    }

    #[cold]
    fn stopped(&self, stop: Stop) -> Error {
        let (op, place) = &self.origins[stop.instr];
        let message = format!("{op}: {stop}");
        Error::new(Kind::Data, message).at(place.clone())
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
        let kept = |b: &Binding| matches!(b.role, Role::Param | Role::State) && b.name == name;
        match self.bindings.iter().position(kept) {
            Some(i) => {
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
        Error::new(Kind::Name, format!("there is no {what} {name:?}; the program has {}", known.join(", ")))
    }

    fn find<T: Elem>(&self, role: Role, name: &str) -> Result<Slot<T>> {
        let at = self.bindings.iter().position(|b| b.role == role && b.name == name);
        let Some(i) = at else { return Err(self.unknown(role.name(), name)) };
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

    /// The elements of `slot`.
    pub fn read<T: Elem>(&self, slot: Slot<T>) -> Result<&[T]> {
        let b = self.binding(slot)?;
        Ok(bytemuck::cast_slice(&self.arena.bytes()[b.offset..b.offset + b.bytes]))
    }

    /// The elements of `slot`, writable. Outputs are not.
    pub fn slice_mut<T: Elem>(&mut self, slot: Slot<T>) -> Result<&mut [T]> {
        let b = self.binding(slot)?;
        if b.role == Role::Output {
            return Err(Error::new(Kind::Data, format!("output {:?} cannot be written", b.name)));
        }
        let range = b.offset..b.offset + b.bytes;
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
        for b in &self.bindings {
            if let Some(init) = b.init {
                let bytes = &mut self.arena.bytes_mut()[b.offset..b.offset + b.bytes];
                init::fill(bytes, b.dtype, init, seed, &b.name)
                    .map_err(|e| Error::new(Kind::Data, format!("{} {:?}: {e}", b.role.name(), b.name)))?;
            }
        }
        Ok(())
    }
}

fn origin(g: &Graph<'_>, n: Node) -> (&'static str, Place) {
    if n.is_some() { (g.def_of(n).name, g.place(n)) } else { ("update", Place::Nowhere) }
}

fn bindings(g: &Graph<'_>, s: &Scheduled) -> Vec<Binding> {
    let bind = |name: &str, role, v: Value, offset, init| Binding {
        name: name.to_string(),
        role,
        dtype: g.dtype[v.at()],
        dims: g.dims(v),
        offset,
        bytes: g.bytes(v),
        init,
    };
    let leaves = g.leaves().map(|(v, kind, name)| {
        let attrs = g.attrs(g.def[v.at()]);
        let init = || Some(Init::from_attrs(attrs.choice(3), attrs.f64(4)));
        let offset = s.plan.place[s.spots[v.at()].buf as usize];
        match kind {
            LeafKind::Input => bind(name, Role::Input, v, offset, None),
            LeafKind::Param => bind(name, Role::Param, v, offset, init()),
            LeafKind::State => bind(name, Role::State, v, offset, init()),
        }
    });
    let outputs = g
        .outputs()
        .iter()
        .zip(g.output_names)
        .zip(&s.plan.code.outputs)
        .map(|((&v, &name), o)| bind(g.str(name), Role::Output, v, place(s, o), None));
    leaves.chain(outputs).collect()
}

fn place(s: &Scheduled, o: &Operand) -> usize {
    s.plan.place[o.buf as usize] + o.off
}

const _: fn() = || {
    fn send<T: Send>() {}
    send::<Program>();
};
