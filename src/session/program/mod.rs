//! Programs: one arena, its named tensors, and steps.

mod binding_table;
pub(super) mod find_nan;
mod index;
mod lend;
pub(super) mod method;
pub(super) mod part;
mod pin;
mod resident;
mod share;
pub(super) mod short_batches;
mod written;

use super::bindings::{self, Binding, BindingIndex, Role};
use super::compiled_graph::CompiledGraph;
use super::elem::{self, Elem};
use super::fresh::Fresh;
use super::handle::Handle;
use super::method_source::MethodSource;
use super::plan_report::PlanReport;
use super::published::Sharing;
use super::runner::Runner;
use super::start_values;
use super::tracer::Trace;
use crate::arena::tensor::TensorArena;
use crate::arena::{Node, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::ops::constant::attrs::ConstantAttrs;
use crate::nodes::{Graph, Op};
use crate::sched::Scheduled;
use crate::sched::exec::{Exec, Stop};
use binding_table::BindingTable;
use method::Method;
use part::{MethodData, Part};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A compiled program with its memory: one method, or several that share params and states.
///
/// Handles ([`Program::input`], [`Program::output`]) are found once by name; `program[handle]` is a slice of the arena.
/// [`Program::values`] and [`Program::values_mut`] find a tensor by name each time, for set-up and tests.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// // Learns a mean: the loss is least where w is the mean of all x.
/// let g = Builder::new("mean");
/// let (x, w) = (g.input("x", [4], DType::F32), g.param("w", [], DType::F32, Init::Zeros));
/// let loss = (x - w).square().mean(..).named("loss");
/// let step = train(&g.finish([loss])?, "loss", optim::Sgd::new(0.25))?;
/// let mut p = Session::new().compile(&step)?;
/// assert!(p.step().is_err()); // "w" was neither initialised nor loaded, "x" never written
/// p.init(0)?;
/// let (x, loss) = (p.input::<f32>("x")?, p.output::<f32>("loss")?);
/// for _ in 0..50 {
///     p[x].copy_from_slice(&[1.0, 2.0, 3.0, 6.0]);
///     p.step()?;
/// }
/// assert_eq!(p.values::<f32>("w")?, [3.0]);
/// assert_eq!(p[loss][0], 3.5); // the variance
/// # Ok(())
/// # }
/// ```
pub struct Program {
    /// Tells the handles of this program from those of others.
    pub(super) id: u64,
    pub(super) runner: Runner,
    pub(super) arena: TensorArena,
    pub(super) bindings: Vec<Binding>,
    pub(super) fresh: Fresh,
    pub(super) methods: Vec<MethodData>,
    /// The bytes of constants.
    constants: Vec<Range<usize>>,
    /// What ties it to programs that read its params, or whose params it reads.
    pub(super) sharing: Option<Sharing>,
    /// What an export writes of each method; empty for programs that are not exported.
    pub(super) sources: Vec<MethodSource>,
    /// Whether the last step that failed may have changed params.
    half_done: bool,
}

static PROGRAMS: AtomicU64 = AtomicU64::new(0);

impl Program {
    /// A program of `parts`, whose plans are for `arena`. Writes constants and the defaults of inputs into it.
    pub(super) fn new(parts: Vec<Part<'_>>, runner: Runner, mut arena: TensorArena) -> Program {
        let table = BindingTable::new(&parts);
        let mut constants = Vec::new();
        for part in &parts {
            write_constants(&mut arena, &part.ready.graph.view(), &part.ready.scheduled, &mut constants);
        }
        for (b, x) in table.bindings.iter().filter_map(|b| Some((b, b.default?))) {
            start_values::fill_constant_start_value(arena.slice_mut(b.range()), b.dtype, x);
        }
        let BindingTable { bindings, named, read } = table;
        let kept = (0..bindings.len() as u32).filter(|&i| bindings[i as usize].is_persistent());
        let kept: Vec<u32> = kept.collect();
        let method = |(p, named): (Part<'_>, Vec<u32>)| {
            let own = named.iter().copied().filter(|&i| !bindings[i as usize].is_persistent());
            let index = BindingIndex::new(&bindings, kept.iter().copied().chain(own).collect());
            let (origins, finder) = (p.origins, p.finder);
            MethodData { name: p.name, index, named, origins, report: p.report, tracer: p.tracer, finder }
        };
        let methods = parts.into_iter().zip(named).map(method).collect();
        let (id, fresh) = (PROGRAMS.fetch_add(1, Ordering::Relaxed), Fresh::new(&bindings, &read));
        let (sources, sharing, half_done) = (Vec::new(), None, false);
        Program { id, runner, arena, bindings, fresh, methods, constants, sharing, sources, half_done }
    }

    /// The plan of the only method has other places: `ready` is what the program was made of, placed anew.
    pub(super) fn moved(&mut self, ready: &CompiledGraph, exec: Exec, report: PlanReport) {
        self.runner.replace_exec(exec);
        for (b, moved) in self.bindings.iter_mut().zip(bindings::bindings(&ready.graph.view(), &ready.scheduled)) {
            b.offset = moved.offset;
        }
        if let Some(method) = self.methods.first_mut() {
            method.report = PlanReport { warnings: std::mem::take(&mut method.report.warnings), ..report };
        }
    }

    /// Runs one step of the first method, which is the only one unless the program comes from
    /// [`Session::compile_all`](super::Session::compile_all).
    ///
    /// Errors: an input without a default was never written, or a param or state was neither initialised nor loaded
    /// (the error names it); an index is out of range; an op makes a NaN, under
    /// [`Session::find_nan`](super::Session::find_nan). A step that fails leaves params and states as they were, the
    /// random key and the step count among them. Only a kernel that panics may leave them half changed; the error says
    /// so.
    pub fn step(&mut self) -> Result<()> {
        self.step_of(0)
    }

    /// Runs one step of the method at `at`.
    #[inline]
    pub(super) fn step_of(&mut self, at: usize) -> Result<()> {
        self.before_step(at)?;
        if let Some(mut finder) = self.methods[at].finder.take() {
            let done = self.find_nan_step(at, &mut finder);
            self.methods[at].finder = Some(finder);
            return done;
        }
        self.runner.step(at, &mut self.arena).map_err(|stop| self.stopped(at, stop))
    }

    /// What comes before a step of the method at `at`. Errors: the step cannot run.
    #[inline]
    fn before_step(&mut self, at: usize) -> Result<()> {
        if let Some(Sharing::Follows(follower)) = &mut self.sharing {
            follower.catch_up(&mut self.arena, &mut self.fresh);
            self.check_acts(at)?;
        }
        if !self.fresh.is_ready(at) {
            let shared = matches!(self.sharing, Some(Sharing::Follows(_)));
            return Err(self.fresh.error(at, &self.bindings, shared));
        }
        self.runner.settle()
    }

    /// Runs one step as [`Program::step`] does, with the same results, and tells what each thread did when. The program
    /// must come from [`Session::compile_traced`](super::Session::compile_traced).
    pub fn step_traced(&mut self) -> Result<Trace> {
        if !self.fresh.is_ready(0) {
            return Err(self.fresh.error(0, &self.bindings, false));
        }
        let Some(t) = &mut self.methods[0].tracer else {
            return Err(Error::new(
                Kind::Data,
                "the program was compiled without a trace; see Session::compile_traced",
            ));
        };
        self.runner.settle()?;
        let done = self.runner.step_traced(0, &mut self.arena, t);
        let trace = t.trace();
        done.map_err(|stop| self.stopped(0, stop))?;
        Ok(trace)
    }

    /// Runs one step of method `m`. It reads and writes the params and states that the other methods see; nothing is
    /// copied. The outputs of the other methods stay as they are. Errors as for [`Program::step`]; `m` is of another
    /// program.
    pub fn run(&mut self, m: Method) -> Result<()> {
        let at = self.method_number(m)?;
        self.step_of(at)
    }

    /// The input of method `m` called `name`. Errors: there is none, or its elements are not of type `T`; `m` is of
    /// another program.
    pub fn input_of<T: Elem>(&self, m: Method, name: &str) -> Result<Handle<T>> {
        self.handle(self.method_number(m)?, Role::Input, name)
    }

    /// The output of method `m` called `name`. Errors as for [`Program::input_of`].
    pub fn output_of<T: Elem>(&self, m: Method, name: &str) -> Result<Handle<T>> {
        self.handle(self.method_number(m)?, Role::Output, name)
    }

    /// The named tensors of method `m`: its inputs, params and states in the graph's order, then its outputs. Errors:
    /// `m` is of another program.
    pub fn bindings_of(&self, m: Method) -> Result<impl Iterator<Item = &Binding>> {
        let named = &self.methods[self.method_number(m)?].named;
        Ok(named.iter().map(|&i| &self.bindings[i as usize]))
    }

    /// The memory plan of method `m`. Its arena is that of the whole program. Errors: `m` is of another program.
    pub fn plan_of(&self, m: Method) -> Result<&PlanReport> {
        Ok(&self.methods[self.method_number(m)?].report)
    }

    /// Number of threads that run steps of the first method.
    pub fn threads(&self) -> usize {
        self.methods[0].report.threads
    }

    /// Whether the last step that failed may have changed params or states in part.
    pub(crate) fn is_half_done(&self) -> bool {
        self.half_done
    }

    #[cold]
    pub(super) fn stopped(&mut self, at: usize, stop: Stop) -> Error {
        self.half_done = stop.changed;
        let origin = &self.methods[at].origins[stop.instr];
        Error::new(Kind::Data, format!("{}: {stop}", origin.op)).at(origin.location.clone())
    }

    /// The memory plan of the first method. It prints as text.
    pub fn plan(&self) -> &PlanReport {
        &self.methods[0].report
    }

    /// All named tensors: of the first method its inputs, params and states in the graph's order, then its outputs;
    /// then those that each further method adds.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// Params and states of all methods with their bytes, in the graphs' order: what a checkpoint holds.
    pub fn persistent(&self) -> impl Iterator<Item = (&Binding, &[u8])> {
        self.bindings.iter().filter(|b| b.is_persistent()).map(|b| (b, self.bytes_of(b)))
    }

    /// The bytes of a binding of this program.
    pub fn bytes_of(&self, b: &Binding) -> &[u8] {
        self.arena.slice(b.range())
    }

    /// The index of the binding called `name` whose role is `wanted`, in the method at `at`; the error calls it a
    /// `what`.
    pub(super) fn named(&self, at: usize, what: &str, name: &str, wanted: &dyn Fn(Role) -> bool) -> Result<usize> {
        let method = &self.methods[at];
        if let Some(i) = method.index.find(&self.bindings, name, wanted) {
            return Ok(i);
        }
        let own = || method.named.iter().map(|&i| &self.bindings[i as usize]);
        let known: Vec<String> = own().map(|b| format!("{} {:?}", b.role.name(), b.name)).collect();
        let known = names::list_names(known.iter().map(String::as_str));
        let near = names::nearest_name(name, own().map(|b| b.name.as_str()));
        let place = match self.methods.len() {
            1 => "the program".to_string(),
            _ => format!("method {:?}", method.name),
        };
        let there = self.methods.iter().find(|m| m.index.find(&self.bindings, name, wanted).is_some());
        let there = there.map_or(String::new(), |m| format!("; method {:?} has one", m.name));
        Err(Error::new(Kind::Name, format!("there is no {what} {name:?}; {place} has {known}{near}{there}")))
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
            let o = &from.bindings[from.named(0, "output", &b.name, &|role| role == Role::Output)?];
            if (o.dtype, &o.dims[..]) != (b.dtype, &b.dims[..]) {
                let text = format!("state {:?} is {}{}, the output {}{}", b.name, b.dtype, b.dims, o.dtype, o.dims);
                return Err(Error::new(Kind::Data, text));
            }
            self.arena.slice_mut(b.range()).copy_from_slice(from.bytes_of(o));
            self.fresh.put(i);
        }
        Ok(())
    }

    /// The dimensions of the tensor called `name`, whatever its role. Errors: there is none, or an input, param or
    /// state has the same name as an output of other dimensions.
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
        let b = &self.bindings[self.named(0, "tensor", name, &|_| true)?];
        let output =
            self.methods[0].index.find(&self.bindings, name, &|role| role == Role::Output).map(|i| &self.bindings[i]);
        if let Some(o) = output.filter(|o| o.dims[..] != b.dims[..]) {
            let text = format!("{} {name:?} is {}, an output of that name {}", b.role.name(), b.dims, o.dims);
            return Err(Error::new(Kind::Name, text));
        }
        Ok(&b.dims)
    }

    /// Fills params and states with their start values, and sets the random key to seed `seed` and step number 0. The
    /// values of a leaf depend on its `Init`, the seed and the leaf's name alone. It is an error if a leaf that is no
    /// float has random start values; then nothing changes.
    pub fn init(&mut self, seed: u64) -> Result<()> {
        self.start(seed, |_| true)
    }

    /// As [`Program::init`], but only the params and states that were neither initialised nor loaded nor written.
    pub fn init_rest(&mut self, seed: u64) -> Result<()> {
        self.start(seed, |set| !set)
    }

    fn start(&mut self, seed: u64, wanted: impl Fn(bool) -> bool) -> Result<()> {
        // All are checked before the first is filled.
        for (i, b) in self.bindings.iter().enumerate() {
            let Some(init) = b.init.as_ref().filter(|_| wanted(self.fresh.is_set(i))) else { continue };
            self.check_writable(i)?;
            start_values::check_drawn_init((b.dtype, &b.dims), init, &b.name)
                .map_err(|e| Error::new(Kind::Data, format!("{} {:?}: {e}", b.role.name(), b.name)))?;
        }
        let is_large = self.bindings.iter().any(|b| b.init.is_some() && start_values::is_large(&b.dims));
        let pool = start_values::workers(if is_large { self.threads() } else { 1 });
        for (i, b) in self.bindings.iter().enumerate() {
            let Some(init) = b.init.as_ref().filter(|_| wanted(self.fresh.is_set(i))) else { continue };
            let bytes = self.arena.slice_mut(b.range());
            start_values::fill_leaf_bytes(bytes, (b.dtype, &b.dims), init, (seed, &b.name), pool.as_ref());
            self.fresh.put(i);
        }
        Ok(())
    }

    /// The input called `name` of the first method. Errors: there is none, or its elements are not of type `T`.
    pub fn input<T: Elem>(&self, name: &str) -> Result<Handle<T>> {
        self.handle(0, Role::Input, name)
    }

    /// The param called `name`. Errors as for [`Program::input`].
    pub fn param<T: Elem>(&self, name: &str) -> Result<Handle<T>> {
        self.handle(0, Role::Param, name)
    }

    /// The state called `name`. Errors as for [`Program::input`].
    pub fn state<T: Elem>(&self, name: &str) -> Result<Handle<T>> {
        self.handle(0, Role::State, name)
    }

    /// The output called `name` of the first method. Errors as for [`Program::input`].
    pub fn output<T: Elem>(&self, name: &str) -> Result<Handle<T>> {
        self.handle(0, Role::Output, name)
    }

    /// The tensor called `name` of the method at `at`.
    pub(super) fn handle<T: Elem>(&self, at: usize, role: Role, name: &str) -> Result<Handle<T>> {
        let i = self.named(at, role.name(), name, &|r| r == role)?;
        self.typed(i)
    }

    /// The handle of binding `i`.
    fn typed<T: Elem>(&self, i: usize) -> Result<Handle<T>> {
        let b = &self.bindings[i];
        if !T::holds(b.dtype) {
            let e = format!("{} {:?} is {}{}; it is asked for as {}", b.role.name(), b.name, b.dtype, b.dims, T::NAME);
            return Err(Error::new(Kind::Data, e));
        }
        Ok(Handle::new(self.id, i as u32))
    }

    fn binding<T>(&self, h: Handle<T>) -> Result<&Binding> {
        if h.program != self.id {
            return Err(Error::new(Kind::Data, "a handle of another program"));
        }
        Ok(&self.bindings[h.binding as usize])
    }

    /// The name of a handle's tensor. Errors: the handle is of another program.
    pub fn name_of<T>(&self, h: Handle<T>) -> Result<&str> {
        Ok(&self.binding(h)?.name)
    }

    /// The elements of a tensor, in row-major order; an output's are those of the last step. Errors: the handle is of
    /// another program.
    pub fn get<T: Elem>(&self, h: Handle<T>) -> Result<&[T]> {
        let b = self.binding(h)?;
        Ok(bytemuck::cast_slice(self.arena.slice(b.range())))
    }

    /// The elements of an input, param or state, writable; those of a bool must be 0 or 1. Errors: the handle is an
    /// output's, or of another program.
    pub fn get_mut<T: Elem>(&mut self, h: Handle<T>) -> Result<&mut [T]> {
        let b = self.binding(h)?;
        if b.role == Role::Output {
            return Err(Error::new(Kind::Data, format!("output {:?} cannot be written", b.name)));
        }
        let range = b.range();
        self.check_writable(h.binding as usize)?;
        self.fresh.put(h.binding as usize);
        Ok(bytemuck::cast_slice_mut(self.arena.slice_mut(range)))
    }

    /// Writes all elements of an input, param or state. Errors as for [`Program::get_mut`]; `data` has another length;
    /// an element of a bool is neither 0 nor 1.
    pub fn write<T: Elem>(&mut self, h: Handle<T>, data: &[T]) -> Result<()> {
        let b = self.binding(h)?;
        if data.len() != b.dims.numel() {
            let e =
                format!("{} {:?} is {}{}; {} elements are written", b.role.name(), b.name, b.dtype, b.dims, data.len());
            return Err(Error::new(Kind::Data, e));
        }
        elem::check_value_bytes(b, bytemuck::cast_slice(data))?;
        self.get_mut(h)?.copy_from_slice(data);
        Ok(())
    }

    /// Writes all elements of the input, param or state called `name`, as bytes in the host's order: for tools that
    /// read files. Errors: there is none, `bytes` has another length, or an element of a bool is neither 0 nor 1.
    pub fn write_bytes(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.write_bytes_at(0, name, bytes)
    }

    /// The elements of the tensor called `name`, whatever its role: for set-up and tools, as it looks the name up.
    /// Errors: there is none, its elements are not of type `T`, or an input, param or state has the same name as an
    /// output.
    pub fn values<T: Elem>(&self, name: &str) -> Result<&[T]> {
        let i = self.tensor_at(0, name)?;
        self.get(self.typed(i)?)
    }

    /// The elements of the input, param or state called `name`, writable: for set-up and tools, as it looks the name
    /// up. Errors: there is none, or its elements are not of type `T`.
    pub fn values_mut<T: Elem>(&mut self, name: &str) -> Result<&mut [T]> {
        let i = self.named(0, "input, param or state", name, &|role| role != Role::Output)?;
        self.get_mut(self.typed(i)?)
    }
}

/// Writes the constants of `g` to their places, which are added to `places`.
fn write_constants(arena: &mut TensorArena, g: &Graph<'_>, s: &Scheduled, places: &mut Vec<Range<usize>>) {
    for n in (0..g.nodes()).map(Node::new).filter(|n| g.op[n.at()] == Op::CONSTANT) {
        // Constants in bodies of loops have offsets, too; a constant that no instruction reads has none.
        let Some(&at) = s.plan.offset.get(s.slices[g.out(n).at()].buf as usize) else { continue };
        let bytes = ConstantAttrs::of(&g.attrs(n)).data;
        arena.slice_mut(at..at + bytes.len()).copy_from_slice(&bytes);
        places.push(at..at + bytes.len());
    }
}

const _: fn() = || {
    fn program_is_send<T: Send>() {}
    program_is_send::<Program>();
};

#[cfg(test)]
mod tests;
