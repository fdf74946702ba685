//! Quantisation-aware training: rounds weights and activations of a graph to numbers that codes can stand for.
//!
//! Invariant: names, order and types of leaves, outputs and updates stay; states for running scales are added. A weight
//! is rounded once, before the first of its readers, for all of them.

use super::copier::Copier;
use super::moves::moved_from;
use super::rebuild::{RebuildVisit, finish_rebuild, rebuilt_by_pass};
use super::signature::Signature;
use crate::arena::{Node, Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::ops::quant::attrs::{FakeQuantizeAttrs, LsqAttrs};
use crate::nodes::{Builder, Emit, FakeQuantize, FakeSte, Graph, GraphBuf, LeafKind, Op, QuantScale, Var};

/// The products whose operands are rounded.
const PRODUCTS: [Op; 8] = [
    Op::MATMUL,
    Op::DOT_GENERAL,
    Op::CONV1D,
    Op::CONV2D,
    Op::CONV3D,
    Op::CONV_TRANSPOSE1D,
    Op::CONV_TRANSPOSE2D,
    Op::CONV_TRANSPOSE3D,
];

/// Which numbers of a network [`qat`] rounds, and how. A pattern is a name; its first `*` is any run of characters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Qat {
    /// Bits of a code, 2 to 8.
    pub bits: u32,
    /// Patterns of params: see [`Qat::weights`].
    pub weights: Vec<String>,
    /// Patterns of named values and inputs: see [`Qat::activations`].
    pub activations: Vec<String>,
    /// Whether the other operand of each product with a rounded weight is rounded too. The default is true.
    pub inputs: bool,
    /// Whether a weight has a scale for each output channel, or one. The default is true.
    pub per_channel: bool,
    /// The decay of the running scales of activations. The default is 0.9.
    pub decay: f64,
    /// The derivative of what is rounded. The default is [`FakeSte::Clipped`].
    pub ste: FakeSte,
    /// Whether the graph is for training: whether the running scales follow the batches. The default is true.
    pub training: bool,
}

impl Qat {
    /// Codes of 8 bits, −127 to 127.
    pub fn int8() -> Qat {
        Qat::with_bits(8)
    }

    /// Codes of `bits` bits, 2 to 8, the same on both sides of 0.
    pub fn with_bits(bits: u32) -> Qat {
        Qat {
            bits,
            weights: Vec::new(),
            activations: Vec::new(),
            inputs: true,
            per_channel: true,
            decay: 0.9,
            ste: FakeSte::Clipped,
            training: true,
        }
    }

    /// Rounds the params that match `pattern`, with the scale of their largest element, for all their readers. What a
    /// product multiplies such a weight with is rounded, too, with the running scale of a state `<weight without
    /// .weight>.input.scale`, unless it is rounded already or [`Qat::inputs`] is false. The rounded value is named
    /// `<weight without .weight>.input`.
    pub fn weights(mut self, pattern: &str) -> Qat {
        self.weights.push(pattern.to_string());
        self
    }

    /// Rounds the values of the entry that have a name that matches `pattern`
    /// ([`Var::named`](crate::graph::Var::named)), and the inputs, with the running scale of a state `<name>.scale`.
    pub fn activations(mut self, pattern: &str) -> Qat {
        self.activations.push(pattern.to_string());
        self
    }

    fn options(&self) -> FakeQuantize {
        FakeQuantize::bits(self.bits).ste(self.ste)
    }
}

setters! {
    [] Qat { inputs: bool, per_channel: bool, decay: f64, ste: FakeSte, training: bool }
}

/// `g` with weights and activations rounded as codes of few bits would be, and with derivatives that pass through: a
/// network that is trained so loses little when [`export_int8`](crate::session::export_int8) makes integers of it.
///
/// The training graph and the evaluating one have the same states by name; make the second with
/// [`Qat::training`]`(false)`, so that it reads the running scales of the activations and leaves them as they are.
/// Values inside loops and branches are not rounded; weights that these capture are.
///
/// # Errors
/// A pattern that matches nothing; a weight or an activation that is not `f32` or `f64`; bits outside 2 to 8; a decay
/// outside [0, 1).
///
/// ```
/// use arenagrad::graph::quant::Qat;
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let net = |training: bool| -> Result<GraphBuf> {
///     let g = Builder::new("net");
///     let h = nn::linear(&g, "fc1", g.input("x", [8, 4], DType::F32), 16).relu();
///     let loss = nn::linear(&g, "fc2", h, 1).mse(g.input("y", [8, 1], DType::F32)).named("loss");
///     g.finish([loss])?.qat(&Qat::int8().weights("*.weight").training(training))
/// };
/// let mut step = Session::new().compile(&train(&net(true)?, "loss", optim::Adam::new(1e-2))?)?;
/// step.init(0)?;
/// step.values_mut::<f32>("x")?.fill(0.5);
/// step.values_mut::<f32>("y")?.fill(1.0);
/// step.step()?;
/// assert!(step.values::<f32>("fc1.input.scale")?[0] > 0.0);
/// assert_eq!(step.values::<f32>("fc2.input.scale")?.len(), 1);
/// # Ok(())
/// # }
/// ```
pub fn qat<'a>(g: impl Into<Graph<'a>>, options: &Qat) -> Result<GraphBuf> {
    let g = g.into();
    if !(2..=8).contains(&options.bits) {
        return Err(Error::new(Kind::Data, format!("qat: bits is {}; it goes from 2 to 8", options.bits)));
    }
    let sites = QatSites::find(g, options)?;
    rebuilt_by_pass("qat", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        b.training(options.training);
        let mut c = Copier::new(g, &b);
        let mut rounded = Side::filled(g.values(), None);
        c.run(&mut |v| sites.rewrite(v, options, &mut rounded));
        c.signature();
        drop(c);
        finish_rebuild(b, bump)
    })
}

/// What is rounded where.
struct QatSites {
    /// Of a weight: the axis of its scales.
    weights: Side<Value, Option<Option<i64>>>,
    /// Of an activation: the name of its scale.
    activations: Side<Value, Option<String>>,
    /// Operands of products that are rounded for one product alone: the node, the operand, the name of the scale. In
    /// the order of nodes and operands.
    inputs: Vec<(Node, usize, String)>,
}

impl QatSites {
    fn find(g: Graph<'_>, options: &Qat) -> Result<QatSites> {
        let mut sites = QatSites {
            weights: Side::filled(g.values(), None),
            activations: Side::filled(g.values(), None),
            inputs: Vec::new(),
        };
        let params = g.leaves().filter(|l| l.kind == LeafKind::Param).map(|l| (l.name, l.value));
        for v in match_names(g, &options.weights, "weights", "param", params.collect())? {
            sites.weights[v] = Some(None);
        }
        let inputs = g.leaves().filter(|l| l.kind == LeafKind::Input).map(|l| (l.name, l.value));
        let inner = g.region_values(g.entry()).map(Value).filter(|v| g.names[v.at()].is_some() && g.leaf(*v).is_none());
        let outputs = g.output_names.iter().zip(g.outputs()).map(|(&s, &v)| (g.str(s), v));
        let named = inputs.chain(inner.map(|v| (g.str(g.names[v.at()]), v)));
        // An output is a value under its own name, which may have no other one.
        let named = named.chain(outputs.filter(|(_, v)| !g.names[v.at()].is_some() && g.leaf(*v).is_none()));
        let named: Vec<(&str, Value)> = named.filter(|(_, v)| g.dtype[v.at()].is_float()).collect();
        let mut names = Signature::new(g);
        for v in match_names(g, &options.activations, "activations", "named value or input", named.clone())? {
            let name = named.iter().find(|n| n.1 == v).map_or("", |n| n.0);
            sites.activations[v] = Some(unused_scale_name(&mut names, name));
        }
        sites.find_inputs(g, options, &mut names);
        Ok(sites)
    }

    /// Finds the products with weights: the axes of the weights' scales, and the other operands.
    fn find_inputs(&mut self, g: Graph<'_>, options: &Qat, names: &mut Signature<'_>) {
        let mut seen = Side::filled(g.values(), false);
        for n in g.region_nodes(g.entry()).filter(|n| PRODUCTS.contains(&g.op[n.at()])) {
            for (i, &a) in g.args_of(n).iter().enumerate() {
                let origin = moved_from(g, a, channel_axis(g, n, i));
                let Some(old) = self.weights[origin.value] else { continue };
                let axis = origin.axis.filter(|_| options.per_channel).map(|a| a as i64);
                // Products that see other channels share one scale.
                let axis = if seen[origin.value] && axis != old { None } else { axis };
                seen[origin.value] = true;
                self.weights[origin.value] = Some(axis);
                let other = g.args_of(n)[1 - i.min(1)];
                let from = moved_from(g, other, None).value;
                let rounded = self.weights[from].is_some() || self.activations[from].is_some();
                if options.inputs && !rounded && self.activations[other].is_none() {
                    let layer = g.leaf(origin.value).map_or("", |l| l.1);
                    let layer = layer.strip_suffix(".weight").unwrap_or(layer);
                    self.inputs.push((n, 1 - i.min(1), unused_scale_name(names, &format!("{layer}.input"))));
                }
            }
        }
    }

    /// The results of the node on rounded operands, rounded where they are activations.
    fn rewrite<'g>(
        &self,
        v: &RebuildVisit<'_, 'g>,
        options: &Qat,
        rounded: &mut Side<Value, Option<Value>>,
    ) -> Option<Vec<Var<'g>>> {
        // Only the entry has weights and activations.
        let src = v.src;
        if v.node.at() < src.nodes_at[src.entry().at()] as usize {
            return None;
        }
        let ema =
            |name: &str, x: Var<'g>| v.g.fake_quantize(name, x, options.options(), QuantScale::Ema(options.decay));
        let mut args = v.args.to_vec();
        for (i, (&a, x)) in src.args_of(v.node).iter().zip(&mut args).enumerate() {
            let leaf = src.leaf(a).is_some();
            if let Some(axis) = self.weights[a] {
                let with = FakeQuantize { axis, ..options.options() };
                *x =
                    v.g.var(*rounded[a].get_or_insert_with(|| v.g.fake_quantize("", *x, with, QuantScale::PerBatch).v));
            } else if let Some(name) = self.activations[a].as_deref().filter(|_| leaf) {
                *x = v.g.var(*rounded[a].get_or_insert_with(|| ema(name, *x).v));
            } else if let Ok(at) = self.inputs.binary_search_by_key(&(v.node, i), |s| (s.0, s.1)) {
                let name = &self.inputs[at].2;
                *x = ema(name, *x).named(name);
            }
        }
        let outs: Vec<Value> = src.outs_of(v.node).collect();
        let changed = args.iter().zip(v.args).any(|(a, b)| a.v != b.v);
        if !changed && outs.iter().all(|&y| self.activations[y].is_none()) {
            return None;
        }
        let ids: Vec<Value> = args.iter().map(|a| a.v).collect();
        let new = v.g.with(|e| e.copy(&src, v.node, &ids, v.regions));
        let result = |(&old, new): (&Value, Value)| match &self.activations[old] {
            Some(name) => ema(name, v.g.var(new)),
            None => v.g.var(new),
        };
        Some(outs.iter().zip(new.iter()).map(result).collect())
    }
}

/// A name of a running scale that no leaf has, without its end `.scale`.
fn unused_scale_name(names: &mut Signature<'_>, name: &str) -> String {
    let numbered = (2..).map(|i| format!("{name}.{i}"));
    let mut all = std::iter::once(name.to_string()).chain(numbered);
    let free = all.find(|name| {
        let scale = format!("{name}.scale");
        names.unused(&scale) == scale
    });
    free.unwrap_or_else(|| name.to_string())
}

/// The values of `known` whose names match a pattern. A pattern without a value, and one that is no float, are errors.
fn match_names(
    g: Graph<'_>,
    patterns: &[String],
    what: &str,
    kind: &str,
    known: Vec<(&str, Value)>,
) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for pattern in patterns {
        let found: Vec<Value> = known.iter().filter(|k| names::matches_name(pattern, k.0)).map(|k| k.1).collect();
        if found.is_empty() {
            let instead = names::list_names_instead(pattern, known.iter().map(|k| k.0));
            return Err(Error::new(Kind::Name, format!("qat: {what}: {pattern:?} matches no {kind}{instead}")));
        }
        if let Some(&v) = found.iter().find(|v| !g.dtype[v.at()].is_float()) {
            let text = format!("qat: {what}: {pattern:?} matches a value that is {}, not f32 or f64", g.ty_text(v));
            return Err(Error::new(Kind::Data, text).at(g.location(g.def[v.at()])));
        }
        all.extend(found);
    }
    Ok(all)
}

/// The axis of operand `i` of product `n` that becomes the channels of the result.
fn channel_axis(g: Graph<'_>, n: Node, i: usize) -> Option<usize> {
    let rank = g.dims(g.args_of(n)[i]).len();
    match (g.op[n.at()], i) {
        (Op::MATMUL, _) => {
            let MatmulAttrs { ta, tb } = MatmulAttrs::of(&g.attrs(n));
            let last = if i == 0 { ta } else { !tb };
            rank.checked_sub(if last { 1 } else { 2 })
        }
        (Op::CONV1D | Op::CONV2D | Op::CONV3D, 1) => Some(0),
        _ => None,
    }
}

/// The bits of the codes to which the param `name` is rounded: those of the first `fake_quantize` or `lsq` that reads
/// it. `None` if there is none.
///
/// # Errors
/// There is no leaf of this name.
pub fn quantized_weight_bits<'a>(g: impl Into<Graph<'a>>, name: &str) -> Result<Option<u32>> {
    let g = g.into();
    let leaf = super::signature::leaf_by_name(g, name)?;
    for n in g.region_nodes(g.entry()).filter(|&n| g.args_of(n).first() == Some(&leaf)) {
        let (lo, hi) = match g.op[n.at()] {
            Op::FAKE_QUANTIZE => {
                let a = FakeQuantizeAttrs::of(&g.attrs(n));
                (a.lo, a.hi)
            }
            Op::LSQ => {
                let a = LsqAttrs::of(&g.attrs(n));
                (a.lo, a.hi)
            }
            _ => continue,
        };
        // `hi − lo + 1` codes.
        return Ok(Some(64 - hi.abs_diff(lo).leading_zeros()));
    }
    Ok(None)
}

impl GraphBuf {
    /// See [`qat`].
    pub fn qat(&self, options: &Qat) -> Result<GraphBuf> {
        qat(self, options)
    }

    /// See [`quantized_weight_bits`].
    pub fn quantized_weight_bits(&self, name: &str) -> Result<Option<u32>> {
        quantized_weight_bits(self, name)
    }
}
