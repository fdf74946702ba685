//! The builder, with which users, and the rules of op definitions, write graphs.
//!
//! [`Var`] is a `Copy` handle with operators and methods. Each method adds nodes to the graph of its [`Builder`].
//! Errors stick (see [`Emit`]): the first error is kept with the caller's file and line, and [`Builder::finish`]
//! returns it. Broadcasting is implicit in methods only; the graph has explicit nodes for it.
//!
//! Invariant: a value enters the columns through [`Builder::local`] or [`Builder::emit`], which refuse values of
//! another builder.

use super::attrs::Attr;
use super::dtype::DType;
use super::emit::Emit;
use super::graph::GraphBuf;
use super::leaf::{Init, InputAttrs, LeafInit, ParamAttrs};
use super::opdef::{Op, OpDef};
use super::pack::Pack;
use super::results::Results;
use super::sizes::Sizes;
use crate::arena::dims::Dims;
use crate::arena::{Region, Shape, Sym, Value};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::asked_sizes::AskedSizes;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Writes one graph: leaves ([`Builder::input`], [`Builder::param`], [`Builder::state`]), ops as methods of [`Var`],
/// and [`Builder::finish`] with the outputs. Wrong use of an op is an error of `finish`, which names the op, the shapes
/// and your line; nothing panics while you build.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("line");
/// let x = g.input("x", [4], DType::F32);
/// let (slope, shift) = (g.param("slope", [], DType::F32, Init::Ones), g.param("shift", [], DType::F32, Init::Zeros));
/// let graph = g.finish([(x * slope + shift).named("y")])?;
/// let mut p = Session::new().compile(&graph)?;
/// p.init(0)?;
/// p.values_mut::<f32>("slope")?[0] = 3.0;
/// p.values_mut::<f32>("x")?.copy_from_slice(&[0.0, 1.0, 2.0, 3.0]);
/// p.step()?;
/// assert_eq!(p.values::<f32>("y")?, [0.0, 3.0, 6.0, 9.0]);
///
/// let g = Builder::new("wrong");
/// let (a, b) = (g.input("a", [2, 3], DType::F32), g.input("b", [2, 3], DType::F32));
/// let error = g.finish([a.matmul(b)]).unwrap_err().to_string();
/// assert!(error.contains("matmul(f32[2,3], f32[2,3])"), "{error}");
/// # Ok(())
/// # }
/// ```
pub struct Builder {
    emit: RefCell<Emit>,
    /// True if nodes get the caller's file and line. Passes set the location of the original node instead.
    pub(super) track: Cell<bool>,
    /// Whether layers are built for training.
    pub(super) training: Cell<bool>,
    /// The lists of [`Builder::start_values`].
    pub(super) starts: RefCell<Vec<Arc<[f64]>>>,
    /// The sizes that [`Builder::symbol`] gives.
    symbols: AskedSizes,
    /// The random draws of this builder have streams from this number on.
    pub(in crate::nodes) first_stream: i64,
}

/// A value of a graph that is being built: a handle, which is copied freely. Its methods and operators add nodes; what
/// they compute is known when a program runs. Shape and dtype are known at once.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("distance");
/// let (a, b) = (g.input("a", [3, 2], DType::F64), g.input("b", [2], DType::F64));
/// let d = a - b; // broadcasts as in NumPy
/// let distance = (d * d).sum([1]).sqrt();
/// assert_eq!((distance.dims().to_vec(), distance.dtype()), (vec![3], DType::F64));
/// let mut p = Session::new().compile(&g.finish([distance.named("distance")])?)?;
/// p.values_mut::<f64>("a")?.copy_from_slice(&[3.0, 4.0, 0.0, 0.0, 6.0, 8.0]);
/// p.values_mut::<f64>("b")?.fill(0.0);
/// p.step()?;
/// assert_eq!(p.values::<f64>("distance")?, [5.0, 0.0, 10.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Var<'g> {
    /// The graph's builder.
    pub(crate) g: &'g Builder,
    /// The value; [`Value::NONE`] after an error.
    pub(crate) v: Value,
    /// The scope of the value's region.
    pub(super) scope: u32,
    /// The name of an output made of this handle, or [`Sym::NONE`]. Other handles of the value may have other names.
    pub(super) name: Sym,
}

/// A finished region, for [`Builder::call`]. Only the builder that made it may call it.
#[derive(Clone, Copy)]
pub struct Routine<'g> {
    pub(in crate::nodes) g: &'g Builder,
    /// The region, for attributes of nodes of the same builder.
    pub region: Region,
}

impl Builder {
    /// A builder that continues `emit`. Nodes get the caller's file and line.
    pub(in crate::nodes) fn tracking(emit: Emit) -> Builder {
        Builder::tracking_sizes(emit, Sizes::default())
    }

    /// As [`Builder::tracking`], with the sizes of symbols.
    pub(in crate::nodes) fn tracking_sizes(emit: Emit, sizes: Sizes) -> Builder {
        Builder {
            emit: RefCell::new(emit),
            track: Cell::new(true),
            training: Cell::new(true),
            starts: RefCell::default(),
            symbols: AskedSizes::new(sizes),
            first_stream: 0,
        }
    }

    /// A builder that continues `emit`, for users. The numbers of its random draws begin with `first_stream`.
    pub(crate) fn continuing(emit: Emit, first_stream: i64) -> Builder {
        Builder { first_stream, ..Builder::tracking(emit) }
    }

    /// A builder that continues `emit`, for passes. Nodes get the location that the pass sets.
    pub fn rewriting(emit: Emit) -> Builder {
        Builder {
            emit: RefCell::new(emit),
            track: Cell::new(false),
            training: Cell::new(true),
            starts: RefCell::default(),
            symbols: AskedSizes::default(),
            first_stream: 0,
        }
    }

    /// The columns.
    pub fn into_emit(self) -> Emit {
        self.emit.into_inner()
    }

    /// Calls `f` with the columns.
    pub fn with<R>(&self, f: impl FnOnce(&mut Emit) -> R) -> R {
        f(&mut self.emit.borrow_mut())
    }

    /// The handle of value `v` of the open region.
    pub fn var(&self, v: Value) -> Var<'_> {
        Var { g: self, v, scope: self.with(|e| e.region_scope()), name: Sym::NONE }
    }

    /// The value of `x` in the open region: `x` itself, or the argument by which the body of a loop captures it. A
    /// value of another builder is an error.
    pub(in crate::nodes) fn local(&self, x: Var<'_>) -> Value {
        if !std::ptr::eq(self, x.g) {
            self.with(|e| e.fail(foreign_value_error("the graph")));
            return Value::NONE;
        }
        self.with(|e| e.import_captured(x.v, x.scope))
    }

    /// True if all of `xs` are values of this builder.
    fn has(&self, xs: &[Var<'_>]) -> bool {
        xs.iter().all(|x| std::ptr::eq(self, x.g))
    }

    /// True if `xs`, operands of the op or function `what`, are values of this builder. Else records an error.
    #[track_caller]
    pub(crate) fn owns(&self, what: &str, xs: &[Var<'_>]) -> bool {
        if !self.has(xs) {
            self.record_location();
            // Inside a layer of the other builder, the line at fault is that of the layer's caller.
            if let Some(other) = xs.iter().map(|x| x.g).find(|g| !g.track.get()).filter(|_| self.track.get()) {
                self.come_from_line_of(other);
            }
            self.with(|e| e.fail(foreign_value_error(what)));
        }
        self.has(xs)
    }

    /// The name of `op` in the text form.
    pub(in crate::nodes) fn op_name(&self, op: Op) -> &'static str {
        self.with(|e| e.ops.get(op.0 as usize).map_or("an op", |d| d.name))
    }

    /// Records an error. Returns a value that later nodes skip.
    #[track_caller]
    pub fn fail(&self, kind: Kind, message: impl Into<String>) -> Var<'_> {
        self.record_location();
        self.with(|e| e.fail(Error::new(kind, message)));
        self.var(Value::NONE)
    }

    /// The first error, if any.
    pub fn error(&self) -> Option<Error> {
        self.with(|e| e.error().cloned())
    }

    /// Adds a node of any op. Returns all its results, or none after an error. Ids in `attrs` must be of this builder.
    #[track_caller]
    pub fn emit(&self, op: Op, args: &[Var<'_>], attrs: &[Attr<'_>]) -> Results<'_> {
        self.record_location();
        if !self.has(args) {
            self.owns(self.op_name(op), args);
            return Results::new(self, Vec::new());
        }
        let (outs, scope) = self.with(|e| {
            let args: Vec<Value> = args.iter().map(|a| e.import_captured(a.v, a.scope)).collect();
            (e.emit(op, &args, attrs), e.region_scope())
        });
        Results::new(self, outs.iter().map(|v| Var { g: self, v, scope, name: Sym::NONE }).collect())
    }

    /// Adds a node of any op. Returns its first result. Ids in `attrs` must be of this builder.
    #[track_caller]
    pub fn emit1(&self, op: Op, args: &[Var<'_>], attrs: &[Attr<'_>]) -> Var<'_> {
        self.record_location();
        if !self.has(args) {
            self.owns(self.op_name(op), args);
            return self.var(Value::NONE);
        }
        let (v, scope) = self.with(|e| {
            let mut few = [Value::NONE; 4];
            let many: Vec<Value>;
            let ids: &[Value] = if args.len() <= few.len() {
                few.iter_mut().zip(args).for_each(|(id, a)| *id = e.import_captured(a.v, a.scope));
                &few[..args.len()]
            } else {
                many = args.iter().map(|a| e.import_captured(a.v, a.scope)).collect();
                &many
            };
            (e.emit(op, ids, attrs).at(0), e.region_scope())
        });
        Var { g: self, v, scope, name: Sym::NONE }
    }

    /// Adds a node of a custom op, defined by the user: see [`OpDef`]. Returns all its results, or none after an error.
    #[track_caller]
    pub fn custom(&self, def: &'static OpDef, args: &[Var<'_>], attrs: &[Attr<'_>]) -> Results<'_> {
        let op = self.with(|e| e.register(def));
        self.emit(op, args, attrs)
    }

    /// Lets patterns put nodes of this graph into the ops of `pack`, of which there need be no node yet: see
    /// [`Pack`](crate::op::Pack).
    #[track_caller]
    pub fn pack(&self, pack: &'static Pack) {
        self.with(|e| {
            for def in pack.ops {
                e.register(def);
            }
        });
    }

    /// The size that this graph is built for under the name `name`, as `SizedProgram::at` or [`Builder::with_sizes`]
    /// binds it. It is a plain number: `2 * batch + 1`, loops and branches work. A name that is not bound is an error
    /// of the graph, which [`Builder::finish`] returns; the size is then 1.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::with_sizes("net", &[("batch", 7)]);
    /// let batch = g.symbol("batch");
    /// let x = g.input("x", [batch, 6], DType::F32);
    /// let y = x.reshape([2 * batch, 3]);
    /// assert_eq!(y.dims()[..], [14, 3]);
    /// g.symbol("len");
    /// let e = g.finish([y]).unwrap_err().to_string();
    /// assert!(e.contains("symbol \"len\" has no size; bound are batch"));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn symbol(&self, name: &str) -> usize {
        match self.symbols.ask(name) {
            Ok(size) => size,
            Err(e) => {
                self.record_location();
                self.with(|emit| emit.fail(e));
                1
            }
        }
    }

    /// The sizes of all symbols, for functions that take them as a whole, such as the parser of texts. They count as
    /// asked for.
    pub fn sizes(&self) -> &Sizes {
        self.symbols.sizes().names().for_each(|name| drop(self.symbols.ask(name)));
        self.symbols.sizes()
    }

    /// The symbols, and which were asked for.
    pub(crate) fn asked_sizes(&self) -> &AskedSizes {
        &self.symbols
    }

    /// Interns a shape. An impossible shape is an error of the graph.
    #[track_caller]
    pub fn shape(&self, dims: &[usize]) -> Option<Shape> {
        self.record_location();
        self.with(|e| e.shapes.intern(dims).map_err(|m| e.fail(Error::new(Kind::Shape, m))).ok())
    }

    /// The dimensions of an interned shape.
    pub fn shape_dims(&self, shape: Shape) -> Dims {
        self.with(|e| e.shapes.dims(shape))
    }

    /// Interns a string.
    pub fn sym(&self, s: &str) -> Sym {
        self.with(|e| e.strings.intern(s))
    }

    /// Adds a leaf with these attributes, of which the first is `name`.
    #[track_caller]
    pub(super) fn leaf(&self, op: Op, name: &str, attrs: &[Attr<'_>]) -> Var<'_> {
        // Leaves are nodes of the entry, whichever region is open.
        let v = self.with(|e| {
            let scope = e.in_entry_region(|e| e.region_scope());
            let v = e.in_entry_region(|e| e.leaf(op, name, &attrs[1..]));
            e.import_captured(v, scope)
        });
        Var { name: self.sym(name), ..self.var(v) }
    }

    #[track_caller]
    fn any_input(&self, name: &str, dims: &[usize], dtype: DType, default: Option<f64>) -> Var<'_> {
        let Some(shape) = self.shape(dims) else { return self.var(Value::NONE) };
        self.leaf(Op::INPUT, name, &InputAttrs { name: self.sym(name), dtype, shape, default }.list())
    }

    #[track_caller]
    fn any_param(&self, name: &str, dims: &[usize], dtype: DType, init: Init, frozen: bool) -> Var<'_> {
        let Some(shape) = self.shape(dims) else { return self.var(Value::NONE) };
        let Some(init) = self.leaf_init(name, init) else { return self.var(Value::NONE) };
        let (name_id, start, LeafInit { kind, scale, .. }) = (self.sym(name), init.start_attr(), init);
        let attrs = ParamAttrs { name: name_id, dtype, shape, init: kind, scale, frozen, start };
        self.leaf(Op::PARAM, name, &attrs.list())
    }

    /// An input: a value that the caller writes before a step. A second leaf of this name is an error, except in
    /// [`Builder::reuse`].
    #[track_caller]
    pub fn input(&self, name: &str, dims: impl AsRef<[usize]>, dtype: DType) -> Var<'_> {
        self.any_input(name, dims.as_ref(), dtype, None)
    }

    /// As [`Builder::input`], with a start value: until the caller writes it, all elements are `default`. An error if
    /// the dtype cannot represent `default`.
    #[track_caller]
    pub fn input_or(&self, name: &str, dims: impl AsRef<[usize]>, dtype: DType, default: f64) -> Var<'_> {
        self.any_input(name, dims.as_ref(), dtype, Some(default))
    }

    /// A param: a value that training changes, and that starts as `init` says. A second leaf of this name is an error,
    /// except in [`Builder::reuse`].
    #[track_caller]
    pub fn param(&self, name: &str, dims: impl AsRef<[usize]>, dtype: DType, init: Init) -> Var<'_> {
        self.any_param(name, dims.as_ref(), dtype, init, false)
    }

    /// A param that no gradient changes.
    #[track_caller]
    pub fn frozen_param(&self, name: &str, dims: impl AsRef<[usize]>, dtype: DType, init: Init) -> Var<'_> {
        self.any_param(name, dims.as_ref(), dtype, init, true)
    }

    /// A state: a value that persists from step to step and changes by [`Builder::update`] only. A second leaf of this
    /// name is an error, except in [`Builder::reuse`].
    #[track_caller]
    pub fn state(&self, name: &str, dims: impl AsRef<[usize]>, dtype: DType, init: Init) -> Var<'_> {
        self.any_state(name, dims.as_ref(), dtype, init, (None, None))
    }

    /// Adds an output called `name`.
    #[track_caller]
    pub fn output(&self, name: &str, v: Var<'_>) {
        self.record_location();
        let v = self.local(v);
        self.with(|e| e.output(name, v));
    }

    /// Adds an update: after a step, `leaf` (a param or a state) has the value `next`, which must have its dtype and
    /// shape. A second update of `leaf` is an error, and so is one inside a loop or a branch.
    #[track_caller]
    pub fn update(&self, leaf: Var<'_>, next: Var<'_>) {
        self.record_location();
        let (leaf, next) = (self.local(leaf), self.local(next));
        self.with(|e| e.update(leaf, next));
    }

    /// Adds an update that continues the earlier ones of this step: `f` computes the next value of `leaf` from the
    /// value after those updates, or from `leaf` itself if there are none. So a layer that is applied twice updates its
    /// states twice, in the order of the calls.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    ///
    /// let g = Builder::new("count");
    /// let n = g.state("n", [], DType::I64, Init::Zeros);
    /// (0..2).for_each(|_| g.update_with(n, |n| n + 1.0));
    /// let mut p = Session::new().compile(&g.finish([])?)?;
    /// p.init(0)?;
    /// p.step()?;
    /// assert_eq!(p.values::<i64>("n")?, [2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn update_with<'g>(&'g self, leaf: Var<'g>, f: impl FnOnce(Var<'g>) -> Var<'g>) {
        let next = f(self.updated(leaf));
        self.record_location();
        let (leaf, next) = (self.local(leaf), self.local(next));
        self.with(|e| e.update_again(leaf, next));
    }

    /// The value that `leaf` has after the updates so far; `leaf` itself, if it has none.
    #[track_caller]
    pub fn updated<'g>(&'g self, leaf: Var<'g>) -> Var<'g> {
        self.record_location();
        let here = self.local(leaf);
        let next = self.with(|e| e.next_value_of(here));
        self.var(next.unwrap_or(here))
    }

    /// The finished graph, with `outputs` after the outputs of [`Builder::output`]. An output has its handle's name
    /// (see [`Var::named`]) or, without a name, `out0`, `out1` … by its position. If a value is already an output under
    /// its handle's name, it becomes an output once more, as `out0`, `out1` ….
    ///
    /// # Errors
    /// The first error of any call; two outputs of one name. A graph is finished once: later nodes, and finishing
    /// again, are errors.
    #[track_caller]
    pub fn finish<'g>(&'g self, outputs: impl IntoIterator<Item = Var<'g>>) -> Result<GraphBuf> {
        self.record_location();
        for (i, x) in outputs.into_iter().enumerate() {
            let v = self.local(x);
            // A name is an id of the value's builder. A value of another builder has been recorded as an error.
            let name = x.g.with(|e| match e.output_called(x.name) == Some(v) || x.name == Sym::NONE {
                true => format!("out{i}"),
                false => e.strings.str(x.name).to_string(),
            });
            self.with(|e| e.output(&name, v));
        }
        GraphBuf::make(|bump| self.with(|e| e.finish_shared(bump)))
    }

    /// Whether later layers are built for training (the default) or for evaluation, as `train()` and `eval()` of
    /// torch's modules. For evaluation, every dropout is the identity ([`Var::dropout`], that of
    /// [`Attention`](crate::graph::Attention) and those of [`nn`](crate::nn)'s layers), and batch norm reads its
    /// running statistics. Draws that are asked for, such as [`Builder::uniform`] or [`Var::sample`], go on. So one
    /// function builds both networks.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    ///
    /// let net = |g: &Builder, training: bool| {
    ///     g.training(training);
    ///     let x = g.input("x", [8, 4], DType::F32);
    ///     let h = nn::dropout(nn::linear(g, "fc1", x, 16).relu(), 0.5);
    ///     nn::linear(g, "fc2", h, 2).tap("y");
    /// };
    /// let [learn, eval] = [true, false].map(|training| {
    ///     let g = Builder::new("net");
    ///     net(&g, training);
    ///     g.finish([])
    /// });
    /// let (learn, eval) = (learn?, eval?);
    /// let mut p = Session::new().compile_all(&[("learn", &learn), ("eval", &eval)])?;
    /// # p.init(0)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn training(&self, on: bool) {
        self.training.set(on);
    }

    /// `p`, the rate of a dropout, while building for training, else 0. One that no op takes stays, so that the op
    /// refuses it in both.
    pub(crate) fn dropout_now(&self, p: f64) -> f64 {
        if self.is_training() || !(0.0..=1.0).contains(&p) { p } else { 0.0 }
    }

    /// What [`Builder::training`] said last.
    pub fn is_training(&self) -> bool {
        self.training.get()
    }
}

/// The error for a value of another builder, used by op or function `what`.
pub(in crate::nodes) fn foreign_value_error(what: &str) -> Error {
    Error::new(Kind::Verify, format!("{what}: a value of another builder is used; a graph has one builder"))
}
