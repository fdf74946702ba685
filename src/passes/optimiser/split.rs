//! A training step as two graphs: gradients, and the update that reads them. What happens in between is the caller's:
//! gradients of several processes are summed, for instance.
//!
//! Between the two stand the *flat gradients*: one state for each dtype, in which the gradients of all params of that
//! dtype lie one after another. The last param is first, because the backward half computes its gradient first.
//! Invariant: with the flat gradients as they are, the two graphs, run one after the other, give the bits of
//! [`train`](super::train), for every rule and option, but for micro-batches of tables that `train` updates by rows: it
//! scales their rows before it adds them. `grads` has all that reads the batch (accumulation, the scale of
//! the loss, states that the forward half moves); `update` has all that reads whole gradients (clipping, norms, rules).

use super::rule::Rule;
use super::{LOSS_SCALE, Optimiser, TrainedParams, append_to_gradients, append_updates};
use crate::arena::ids::Id;
use crate::error::{Error, Kind, Result};
use crate::nodes::{Builder, DType, Emit, Graph, GraphBuf, Init, Var};
use crate::passes::copier::Copier;
use crate::passes::rebuild::{finish_rebuild, rebuilt_by_pass};
use crate::passes::signature::Signature;
use std::ops::Range;
use std::panic::Location;

/// Name of the state that holds the flat gradients of `f32` params; those of `f64` are in `dp.grads.f64`.
pub const FLAT_GRADS: &str = "dp.grads";
/// Begins the names of leaves that a split step adds.
const PREFIX: &str = "dp.";

/// The name of the state that holds the flat gradients of `dtype`.
pub fn flat_grads_name(dtype: DType) -> &'static str {
    if dtype == DType::F64 { "dp.grads.f64" } else { FLAT_GRADS }
}

/// Whether `name` is that of flat gradients. No step reads those of another step, so no checkpoint holds them.
pub fn is_flat_grads(name: &str) -> bool {
    [DType::F32, DType::F64].iter().any(|&d| name == flat_grads_name(d))
}

/// A training step as two graphs; see [`train_split`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Split {
    /// Forward and backward: writes the flat gradients. It has the inputs and outputs of the graph of the loss.
    pub grads: GraphBuf,
    /// Reads the flat gradients and updates params. It has the input [`LR`](super::LR).
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

/// Where the gradient of one param lies in the flat gradients of its dtype.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlatParam {
    /// The param's name.
    pub name: String,
    /// The dtype of the flat gradients: the param's, or that of its parts if it is complex.
    pub dtype: DType,
    /// Its elements there; a complex number takes two.
    pub range: Range<usize>,
}

/// Where gradients lie: the params in the order of the flat gradients, the last one of the graph first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// The params. Those of one dtype follow one another without a gap.
    pub params: Vec<FlatParam>,
}

impl Layout {
    /// Puts the gradient of a param of `elements` elements behind the others.
    ///
    /// # Errors
    /// `dtype` is neither `f32` nor `f64` nor complex.
    pub fn push(&mut self, name: &str, dtype: DType, elements: usize) -> Result<()> {
        let parts = if dtype.is_complex() { 2 } else { 1 };
        if !dtype.part().is_float() {
            let text = format!("param {name:?} is {dtype}; params of flat gradients are f32, f64 or complex");
            return Err(Error::new(Kind::Data, text));
        }
        let start = self.elements(dtype.part());
        let range = start..start + parts * elements;
        self.params.push(FlatParam { name: name.to_string(), dtype: dtype.part(), range });
        Ok(())
    }

    /// Number of elements of the flat gradients of `dtype`.
    pub fn elements(&self, dtype: DType) -> usize {
        self.params.iter().filter(|p| p.dtype == dtype).map(|p| p.range.len()).sum()
    }

    /// The dtypes that have flat gradients, `f32` first.
    pub fn dtypes(&self) -> impl Iterator<Item = DType> {
        [DType::F32, DType::F64].into_iter().filter(|&d| self.params.iter().any(|p| p.dtype == d))
    }

    /// Consecutive ranges that cover the flat gradients of `dtype`, each of whole params and of at most `bytes` bytes.
    /// A larger param is cut into ranges of that size. The size of a bucket changes no bit of a sum.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("net");
    /// let h = nn::linear(&g, "fc1", g.input("x", [8, 4], DType::F32), 16).relu();
    /// let graph = g.finish([nn::linear(&g, "fc2", h, 1).square().mean(..).named("loss")])?;
    /// let layout = optim::train_split(&graph, "loss", optim::Sgd::new(0.1))?.layout;
    /// assert_eq!(layout.buckets(DType::F32, 200), [0..33, 33..83, 83..97]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn buckets(&self, dtype: DType, bytes: usize) -> Vec<Range<usize>> {
        let most = (bytes / dtype.size()).max(1);
        let mut all: Vec<Range<usize>> = Vec::new();
        for p in self.params.iter().filter(|p| p.dtype == dtype && !p.range.is_empty()) {
            match all.last_mut() {
                Some(last) if p.range.end - last.start <= most => last.end = p.range.end,
                _ => all.extend(p.range.clone().step_by(most).map(|at| at..(at + most).min(p.range.end))),
            }
        }
        all
    }
}

/// As [`train`](super::train), but the step is two graphs: `grads` ends with the gradients of all params in flat states
/// ([`FLAT_GRADS`]), and `update` reads them. Compiled together they share params and states, and nothing is copied. If
/// nothing changes the flat gradients in between, params and states have the bits that `train` gives. Micro-batches and
/// the scale of the loss are in `grads`; clipping, norms, rules, averages and projections in `update`.
///
/// [`train::Parallel`](crate::train::Parallel) sums the flat gradients of several processes.
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
/// assert_eq!(p.values::<f32>("dp.grads")?.len(), 2); // of the bias, then of the weight
/// p.run(update)?;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn train_split<'a>(g: impl Into<Graph<'a>>, loss: &str, opt: impl Into<Optimiser>) -> Result<Split> {
    let (g, opt, caller) = (g.into(), &opt.into(), Location::caller());
    check_split_names(g)?;
    let trained = TrainedParams::new(g, loss, opt)?;
    let names = trained.names();
    if let Some(i) = trained.rules().iter().position(|rule| matches!(rule, Rule::SparseAdam { .. })) {
        let text =
            format!("train_split: SparseAdam takes rows of a table, and flat gradients have all of {:?}", names[i]);
        return Err(Error::new(Kind::Data, text));
    }
    let layout = lay_out_gradients(g, &names)?;
    let grads = append_to_gradients("train_split", g, (loss, opt, &[]), &names, caller, |b, _, grads| {
        write_flat_gradients(b, &layout, &names, grads);
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
        let grads = read_flat_gradients(&b, &layout, &params);
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

/// Adds the updates of the flat states: `grads`, those of the params `names`, one after another.
fn write_flat_gradients<'g>(b: &'g Builder, layout: &Layout, names: &[&str], grads: Vec<Var<'g>>) {
    for dtype in layout.dtypes() {
        let own = names.iter().zip(&grads).rev().map(|(_, g)| g.view_as_real()).filter(|g| g.dtype() == dtype);
        let flat: Vec<Var<'g>> = own.map(|g| g.reshape([g.numel()])).collect();
        if let Some((first, rest)) = flat.split_first() {
            let state = b.state(flat_grads_name(dtype), [layout.elements(dtype)], dtype, Init::Zeros);
            b.update(state, first.concat(rest, 0));
        }
    }
}

/// The gradients of `params` in the flat states, those of complex params as pairs of reals.
fn read_flat_gradients<'g>(b: &'g Builder, layout: &Layout, params: &[Var<'g>]) -> Vec<Var<'g>> {
    let flat = |dtype| b.state(flat_grads_name(dtype), [layout.elements(dtype)], dtype, Init::Zeros);
    let states: Vec<(DType, Var<'g>)> = layout.dtypes().map(|d| (d, flat(d))).collect();
    let places = layout.params.iter().rev();
    let read = |(p, place): (&Var<'g>, &FlatParam)| {
        let state = states.iter().find(|s| s.0 == place.dtype).map_or(*p, |s| s.1);
        let dims = p.view_as_real().dims();
        state.narrow(0, place.range.start, place.range.len()).reshape(dims)
    };
    params.iter().zip(places).map(read).collect()
}
