//! Programs: one arena, its named tensors, and steps.

use super::bindings::{self, Binding, Index, Role};
use super::find_nan::NanFinder;
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
use crate::nodes::{Graph, Op};
use crate::sched::Scheduled;
use crate::sched::exec::Stop;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A compiled program with its memory.
pub struct Program {
    /// Tells the handles of this program from those of others.
    pub(super) id: u64,
    pub(super) runner: Runner,
    pub(super) arena: TensorArena,
    pub(super) bindings: Vec<Binding>,
    index: Index,
    pub(super) fresh: Fresh,
    /// Of each instruction.
    origins: Vec<Origin>,
    report: PlanReport,
    pub(super) tracer: Option<Tracer>,
    pub(super) finder: Option<Box<NanFinder>>,
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

/// What a program is made of beside its graph and its plan.
pub(super) struct Parts {
    pub runner: Runner,
    /// Of each instruction.
    pub origins: Vec<Origin>,
    pub tracer: Option<Tracer>,
    pub report: PlanReport,
}

static PROGRAMS: AtomicU64 = AtomicU64::new(0);

impl Program {
    pub(super) fn new(g: Graph<'_>, s: Scheduled, parts: Parts) -> Result<Program> {
        let mut arena = TensorArena::new(s.plan.bytes)
            .ok_or_else(|| Error::new(Kind::Plan, format!("no memory for an arena of {} bytes", s.plan.bytes)))?;
        for n in (0..g.nodes()).map(Node::new).filter(|n| g.op[n.at()] == Op::CONSTANT) {
            // Constants in bodies of loops have offsets, too; a constant that no instruction reads has none.
            let Some(&at) = s.plan.offset.get(s.slices[g.out(n).at()].buf as usize) else { continue };
            let bytes = ConstantAttrs::of(&g.attrs(n)).data;
            arena.bytes_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let bindings = bindings::bindings(&g, &s);
        for (b, x) in bindings.iter().filter_map(|b| Some((b, b.default?))) {
            init::constant(&mut arena.bytes_mut()[b.range()], b.dtype, x);
        }
        Ok(Program {
            id: PROGRAMS.fetch_add(1, Ordering::Relaxed),
            runner: parts.runner,
            arena,
            index: Index::new(&bindings),
            fresh: Fresh::new(&bindings, &bindings::read(&g, &s)),
            bindings,
            origins: parts.origins,
            report: parts.report,
            tracer: parts.tracer,
            finder: None,
        })
    }

    /// Runs one step.
    ///
    /// Errors: an input without a default was never written, or a param or state was neither initialised nor loaded
    /// (the error names it); an index is out of range; an op makes a NaN, under [`Session::find_nan`]. A step that fails leaves params and states as they were, the
    /// random key and the step count among them. Only a kernel that panics may leave them half changed; the error says
    /// so.
    pub fn step(&mut self) -> Result<()> {
        if !self.fresh.is_ready() {
            return Err(self.fresh.error(&self.bindings));
        }
        if let Some(mut finder) = self.finder.take() {
            let done = self.step_watched(&mut finder);
            self.finder = Some(finder);
            return done;
        }
        self.runner.step(&mut self.arena).map_err(|stop| self.stopped(stop))
    }

    /// Number of threads that run steps.
    pub fn threads(&self) -> usize {
        self.runner.threads()
    }

    #[cold]
    pub(super) fn stopped(&self, stop: Stop) -> Error {
        let origin = &self.origins[stop.instr];
        Error::new(Kind::Data, format!("{}: {stop}", origin.op)).at(origin.location.clone())
    }

    /// The memory plan. It prints as text.
    pub fn plan(&self) -> &PlanReport {
        &self.report
    }

    /// All named tensors: inputs, params and states in the graph's order, then outputs.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// Params and states with their bytes, in the graph's order: what a checkpoint holds.
    pub fn persistent(&self) -> impl Iterator<Item = (&Binding, &[u8])> {
        let kept = |b: &&Binding| matches!(b.role, Role::Param | Role::State);
        self.bindings.iter().filter(kept).map(|b| (b, self.bytes_of(b)))
    }

    /// The binding of the param or state called `name`, and its bytes, writable.
    pub fn persistent_mut(&mut self, name: &str) -> Result<(&Binding, &mut [u8])> {
        let i = self.named("param or state", name, |role| matches!(role, Role::Param | Role::State))?;
        self.fresh.put(i);
        let b = &self.bindings[i];
        Ok((b, &mut self.arena.bytes_mut()[b.range()]))
    }

    /// The bytes of a binding of this program.
    pub fn bytes_of(&self, b: &Binding) -> &[u8] {
        self.arena.bytes().get(b.range()).unwrap_or_default()
    }

    /// The index of the binding called `name` whose role is `wanted`; the error calls it a `what`.
    pub(super) fn named(&self, what: &str, name: &str, wanted: impl Fn(Role) -> bool) -> Result<usize> {
        if let Some(i) = self.index.find(&self.bindings, name, wanted) {
            return Ok(i);
        }
        let known: Vec<String> = self.bindings.iter().map(|b| format!("{} {:?}", b.role.name(), b.name)).collect();
        let known = names::list(known.iter().map(String::as_str));
        let near = names::nearest(name, self.bindings.iter().map(|b| b.name.as_str()));
        Err(Error::new(Kind::Name, format!("there is no {what} {name:?}; the program has {known}{near}")))
    }

    /// Copies each output of `from` whose name is that of a state of this program into that state: hands the saved
    /// values of a forward program to a backward one (see [`split_vjp`](crate::graph::split_vjp)).
    ///
    /// Errors: a state of this program has no output of its name in `from`, or one of another type.
    pub fn take_saved(&mut self, from: &Program) -> Result<()> {
        for i in 0..self.bindings.len() {
            let b = &self.bindings[i];
            if b.role != Role::State {
                continue;
            }
            let o = &from.bindings[from.named("output", &b.name, |role| role == Role::Output)?];
            if (o.dtype, &o.dims[..]) != (b.dtype, &b.dims[..]) {
                let text = format!("state {:?} is {}{}, the output {}{}", b.name, b.dtype, b.dims, o.dtype, o.dims);
                return Err(Error::new(Kind::Data, text));
            }
            self.arena.bytes_mut()[b.range()].copy_from_slice(from.bytes_of(o));
            self.fresh.put(i);
        }
        Ok(())
    }

    /// The dimensions of the tensor called `name`, whatever its role. Errors: there is none.
    ///
    /// ```
    /// # use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let x = g.input("x", [2, 3], DType::F32);
    /// let p = Session::new().compile(&g.finish([x.sum(1).named("y")])?)?;
    /// assert_eq!((p.dims("x")?, p.dims("y")?), (&[2, 3][..], &[2][..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn dims(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.bindings[self.named("tensor", name, |_| true)?].dims)
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

impl Binding {
    /// The bytes of the arena that it takes.
    pub(super) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }
}
