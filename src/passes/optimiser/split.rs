//! A training step as two graphs: gradients, and the update that reads them. What happens in between is the caller's:
//! gradients of several processes are summed, for instance.
//!
//! Between the two stand the *kept gradients*: a state for each param. Those of one dtype lie one after another in the
//! arena. The last param is first, because the backward half computes its gradient first, into the state.
//! Invariant: with the kept gradients as they are, the two graphs, run one after the other, give the bits of
//! [`train`](super::train), for every rule and option, but for micro-batches of tables that `train` updates by rows: it
//! scales their rows before it adds them. `grads` has all that reads the batch (accumulation, the scale of
//! the loss, states that the forward half moves); `update` has all that reads whole gradients (clipping, norms, rules).

use super::rule::Rule;
use super::{LOSS_SCALE, Optimiser, TrainedParams, append_to_gradients, append_updates};
use crate::arena::ids::Id;
use crate::arena::tensor::LINE;
use crate::error::{Error, Kind, Result};
use crate::nodes::{Builder, DType, Emit, Graph, GraphBuf, Init, Var};
use crate::passes::copier::Copier;
use crate::passes::rebuild::{finish_rebuild, rebuilt_by_pass};
use crate::passes::signature::Signature;
use std::ops::Range;
use std::panic::Location;

/// Begins the name of the state that holds the gradient of a param of a split step; the param's name follows.
pub const KEPT_GRAD: &str = "dp.grad.";
/// Begins the names of leaves that a split step adds.
const PREFIX: &str = "dp.";

/// The name of the state that holds the gradient of `param`.
pub fn kept_grad_name(param: &str) -> String {
    format!("{KEPT_GRAD}{param}")
}

/// Whether `name` is that of a kept gradient. No step reads those of another step, so no checkpoint holds them.
pub fn is_kept_grad(name: &str) -> bool {
    name.starts_with(KEPT_GRAD)
}

/// A training step as two graphs; see [`train_split`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Split {
    /// Forward and backward: writes the kept gradients. It has the inputs and outputs of the graph of the loss.
    pub grads: GraphBuf,
    /// Reads the kept gradients and updates params. It has the input [`LR`](super::LR).
    pub update: GraphBuf,
    /// Where the gradient of each param lies.
    pub layout: Layout,
    /// The name of the output of `grads` that is the loss.
    pub loss: String,
    /// What this rank owns, if the states are shared out; see [`Split::shard`].
    pub shard: Option<Shard>,
    /// Whether `grads` weighs its micro-batches; see [`Optimiser::accumulate_by`].
    pub(crate) weighted: bool,
}

impl Split {
    /// Both graphs with their names, for [`Session::compile_all`](crate::session::Session::compile_all).
    pub fn methods(&self) -> [(&'static str, &GraphBuf); 2] {
        [("grads", &self.grads), ("update", &self.update)]
    }
}

/// What one rank of several owns of a [`Split`]; see [`Split::shard`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shard {
    /// The rank.
    pub rank: usize,
    /// The number of ranks.
    pub ranks: usize,
    /// The owner of each param, in the order of the [`Layout`].
    pub owners: Vec<usize>,
    /// The states that only their owner has.
    pub states: Vec<OwnedState>,
    /// The update of all params.
    pub whole: GraphBuf,
}

/// A state that only one rank has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedState {
    /// Its name.
    pub name: String,
    /// Its dtype.
    pub dtype: DType,
    /// Its dimensions.
    pub dims: Vec<usize>,
    /// The rank that has it.
    pub owner: usize,
}

/// Where the gradient of one param lies among the kept gradients of its dtype.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptGrad {
    /// The param's name.
    pub name: String,
    /// The dtype of the gradient: the param's, or that of its parts if it is complex.
    pub dtype: DType,
    /// Its elements, counted from the first gradient of that dtype; a complex number takes two. They begin at a line of
    /// the arena.
    pub range: Range<usize>,
}

/// Where gradients lie: the params in the order of the kept gradients, the last one of the graph first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// The params. Between those of one dtype is no gap but what fills lines.
    pub params: Vec<KeptGrad>,
}

impl Layout {
    /// Puts the gradient of a param of `elements` elements behind the others.
    ///
    /// # Errors
    /// `dtype` is neither `f32` nor `f64` nor complex.
    pub fn push(&mut self, name: &str, dtype: DType, elements: usize) -> Result<()> {
        let parts = if dtype.is_complex() { 2 } else { 1 };
        if !dtype.part().is_float() {
            let text = format!("param {name:?} is {dtype}; params of kept gradients are f32, f64 or complex");
            return Err(Error::new(Kind::Data, text));
        }
        let start = self.elements(dtype.part());
        let range = start..start + parts * elements;
        self.params.push(KeptGrad { name: name.to_string(), dtype: dtype.part(), range });
        Ok(())
    }

    /// The params whose gradients are of `dtype`.
    pub fn of(&self, dtype: DType) -> impl DoubleEndedIterator<Item = &KeptGrad> {
        self.params.iter().filter(move |p| p.dtype == dtype)
    }

    /// Number of elements of the kept gradients of `dtype`, with those that fill lines.
    pub fn elements(&self, dtype: DType) -> usize {
        self.of(dtype).next_back().map_or(0, |p| p.range.end.next_multiple_of(LINE / dtype.size()))
    }

    /// The dtypes that gradients have, `f32` first.
    pub fn dtypes(&self) -> impl Iterator<Item = DType> {
        [DType::F32, DType::F64].into_iter().filter(|&d| self.of(d).next().is_some())
    }

    /// Consecutive ranges that cover the kept gradients of `dtype`, each of at most `bytes` bytes and of one or several
    /// lines for each of `ranks` ranks. All but the last are of one size, which changes no bit of a sum.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("net");
    /// let h = nn::linear(&g, "fc1", g.input("x", [8, 4], DType::F32), 16).relu();
    /// let graph = g.finish([nn::linear(&g, "fc2", h, 1).square().mean(..).named("loss")])?;
    /// let layout = optim::train_split(&graph, "loss", optim::Sgd::new(0.1))?.layout;
    /// let places: Vec<_> = layout.params.iter().map(|p| (p.name.as_str(), p.range.clone())).collect();
    /// assert_eq!(places, [("fc2.bias", 0..1), ("fc2.weight", 16..32), ("fc1.bias", 32..48), ("fc1.weight", 48..112)]);
    /// assert_eq!(layout.buckets(DType::F32, 200, 2), [0..32, 32..64, 64..96, 96..112]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn buckets(&self, dtype: DType, bytes: usize, ranks: usize) -> Vec<Range<usize>> {
        let (all, least) = (self.elements(dtype), (LINE / dtype.size()).saturating_mul(ranks.max(1)));
        let most = (bytes / dtype.size() / least).max(1).saturating_mul(least);
        (0..all).step_by(most).map(|at| at..at.saturating_add(most).min(all)).collect()
    }
}

/// As [`train`](super::train), but the step is two graphs: `grads` computes the gradient of each param into a state
/// ([`KEPT_GRAD`]), and `update` reads these. Compiled together they share params and states, and nothing is copied. If
/// nothing changes the gradients in between, params and states have the bits that `train` gives. Micro-batches and
/// the scale of the loss are in `grads`; clipping, norms, rules, averages and projections in `update`.
///
/// [`train::Parallel`](crate::train::Parallel) sums the gradients of several processes.
///
/// Errors: those of `train`; a leaf of `g` is called `dp.…`; a param is neither `f32` nor `f64` nor complex;
/// the rule of one is `SparseAdam`.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("line");
/// let (x, y) = (g.input("x", [8, 1], DType::F32), g.input("y", [8, 1], DType::F32));
/// let graph = g.finish([nn::linear(&g, "fc", x, 1).mse(y).named("loss")])?;
/// let split = optim::train_split(&graph, "loss", optim::Adam::new(1e-2))?;
/// let mut p = Session::new().compile_all(&split.methods())?;
/// p.init(0)?;
/// p.values_mut::<f32>("x")?.fill(1.0);
/// p.values_mut::<f32>("y")?.fill(2.0);
/// let (grads, update) = (p.method("grads")?, p.method("update")?);
/// p.run(grads)?;
/// assert_eq!(p.values::<f32>("dp.grad.fc.weight")?.len(), 1);
/// p.run(update)?;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn train_split<'a>(g: impl Into<Graph<'a>>, loss: &str, opt: impl Into<Optimiser>) -> Result<Split> {
    let (g, opt, caller) = (g.into(), &opt.into(), Location::caller());
    let at = (caller.file(), caller.line());
    check_split_names(g)?;
    let trained = TrainedParams::new(g, loss, opt)?;
    let names = trained.names();
    if let Some(i) = trained.rules().iter().position(|rule| matches!(rule, Rule::SparseAdam { .. })) {
        let text =
            format!("train_split: SparseAdam takes rows of a table, and kept gradients have all of {:?}", names[i]);
        return Err(Error::new(Kind::Data, text));
    }
    let layout = lay_out_gradients(g, &names)?;
    let grads = append_to_gradients("train_split", g, (loss, opt, &[]), &names, at, |b, _, grads| {
        keep_gradients(b, &layout, grads);
    })?;
    let update = rebuilt_by_pass("train_split", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let signature = Signature::new(g);
        let mut c = Copier::new(g, &b);
        let params = names.iter().map(|n| Ok(c.leaf(signature.leaf(n)?))).collect::<Result<Vec<_>>>()?;
        b.come_from(caller);
        if let Some(scale) = &opt.loss_scale {
            b.state(LOSS_SCALE, [], DType::F32, Init::Constant(scale.init));
        }
        let grads = kept_gradients(&b, &layout, &params);
        append_updates(&b, opt, &trained.settings, &names, &params, grads);
        drop(c);
        finish_rebuild(b, bump)
    })?;
    Ok(Split { grads, update, layout, loss: loss.to_string(), shard: None, weighted: opt.accumulate_by.is_some() })
}

/// An error if a leaf of `g` has a name that a split step adds.
fn check_split_names(g: Graph<'_>) -> Result<()> {
    let Some(leaf) = g.leaves().find(|l| l.name.starts_with(PREFIX)) else { return Ok(()) };
    let text = format!("the graph has a leaf called {:?}, a name that a split step adds: rename it", leaf.name);
    Err(Error::new(Kind::Name, text).at(g.location(g.def[leaf.value.at()])))
}

/// The places of the gradients of the params `names`, the last one first.
fn lay_out_gradients(g: Graph<'_>, names: &[&str]) -> Result<Layout> {
    let signature = Signature::new(g);
    let mut layout = Layout::default();
    for name in names.iter().rev() {
        let v = signature.leaf(name)?;
        let placed = layout.push(name, g.dtype[v.at()], g.dims(v).numel());
        placed.map_err(|e| e.context("train_split").at(g.location(g.def[v.at()])))?;
    }
    Ok(layout)
}

/// Adds the states of the gradients `grads`, dtype by dtype, so that those of one are adjacent.
fn keep_gradients<'g>(b: &'g Builder, layout: &Layout, grads: Vec<Var<'g>>) {
    for dtype in layout.dtypes() {
        let own = layout.params.iter().zip(grads.iter().rev()).filter(|(place, _)| place.dtype == dtype);
        for (place, grad) in own {
            let grad = grad.view_as_real();
            b.update(b.state(&kept_grad_name(&place.name), grad.dims(), dtype, Init::Zeros), grad);
        }
    }
}

/// The kept gradients of `params`, those of complex params as pairs of reals.
fn kept_gradients<'g>(b: &'g Builder, layout: &Layout, params: &[Var<'g>]) -> Vec<Var<'g>> {
    let places = layout.params.iter().rev();
    let read = |(p, place): (&Var<'g>, &KeptGrad)| {
        b.state(&kept_grad_name(&place.name), p.view_as_real().dims(), place.dtype, Init::Zeros)
    };
    params.iter().zip(places).map(read).collect()
}
