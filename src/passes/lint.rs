//! Lints: what is valid in a graph and is most likely a mistake. They are read off the columns, so a graph keeps no
//! list of them, and a graph from a text has them too.
//!
//! Invariant: a lint names a mistake, not a style. What one kind of honest graph does as well is no lint, such as
//! states that carry a cache, or `log_softmax` before a cross entropy, which changes nothing.

use super::moves::moved_from;
use super::optimiser::{ACCUMULATION, WHOLE_SPARSE_ADAM};
use crate::arena::{Node, Side, Value, Window, ids::Id};
use crate::error::Location;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::pointwise::attrs::MapAttrs;
use crate::nodes::{Graph, GraphBuf, LeafKind, Op};
use std::fmt;

/// What is most likely a mistake in a graph: see [`GraphBuf::warnings`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The op at fault; `update` for a state.
    pub op: &'static str,
    /// The name of the op's result or of the state; empty if it has none.
    pub name: String,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// The line of the op.
    pub location: Location,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op)?;
        if !self.name.is_empty() {
            write!(f, " {:?}", self.name)?;
        }
        write!(f, ": {}", self.message)?;
        self.location.origin().map_or(Ok(()), |at| write!(f, ", at {at}"))
    }
}

impl Graph<'_> {
    /// See [`GraphBuf::warnings`].
    pub fn warnings(&self) -> Vec<Warning> {
        let mut all = squashed_logits(*self);
        all.extend(means_of_uneven_means(*self));
        all.extend(whole_tables(*self));
        if !has_possible_loss(*self) {
            all.extend(find_training_forms(*self));
        }
        all
    }
}

impl GraphBuf {
    /// What is most likely a mistake in this graph, in the order of its nodes:
    ///
    /// * `softmax` or `sigmoid` before a loss that has it inside (`cross_entropy`, `bce_with_logits`), also behind
    ///   reshapes, transposes and casts;
    /// * a loss that divides by a number of its micro-batch, as the mean of `cross_entropy` does by the labels that are
    ///   not ignored, where micro-batches are accumulated without a weight;
    /// * a table that `SparseAdam` updates whole, because the loss does not read it by gathers alone;
    /// * dropout, or batch norm by the statistics of its batch, in a graph that trains nothing;
    /// * a running statistic that a graph which trains nothing moves.
    ///
    /// A graph trains if it updates a param or gives derivatives (outputs `grad.*`, `tangent.*` …). As long as it has a
    /// scalar output, [`train`](crate::optim::train) may still make a training step of it, so this list leaves the
    /// last two out; the plan of a compiled program ([`PlanReport::warnings`](crate::session::PlanReport::warnings))
    /// has them. The text of a graph ends with its warnings, as comments.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("net");
    /// let p = nn::linear(&g, "fc", g.input("x", [8, 4], DType::F32), 3).softmax(-1);
    /// let graph = g.finish([p.cross_entropy(g.input("label", [8], DType::I32)).named("loss")])?;
    /// assert_eq!(graph.warnings()[0].op, "softmax_cross_entropy");
    /// # Ok(())
    /// # }
    /// ```
    pub fn warnings(&self) -> Vec<Warning> {
        self.view().warnings()
    }
}

/// The warnings of a graph that runs as it is.
pub fn find_warnings(g: Graph<'_>) -> Vec<Warning> {
    let mut all = squashed_logits(g);
    all.extend(means_of_uneven_means(g));
    all.extend(whole_tables(g));
    all.extend(find_training_forms(g));
    all
}

/// The text form; the warnings follow as comments.
impl fmt::Display for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)?;
        self.warnings().iter().try_for_each(|w| writeln!(f, "; warning: {}", w.to_string().replace('\n', " ")))
    }
}

/// A graph prints as its text form; its [warnings](GraphBuf::warnings) follow as comments.
///
/// ```
/// use arenagrad::prelude::*;
/// let g = Builder::new("double");
/// let x = g.input("x", [3], DType::F32);
/// let graph = g.finish([(x * 2.0).named("y")]).unwrap();
/// assert!(graph.to_string().contains("return y=%y"));
/// ```
impl fmt::Display for GraphBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

fn warn_at(g: Graph<'_>, n: Node, message: String) -> Warning {
    let name = g.outs_of(n).next().map_or("", |v| g.str(g.names[v.at()])).to_string();
    Warning { op: g.def_of(n).name, name, message, location: g.location(n) }
}

/// The node that `v` is made of by ops that change no number, or only round it.
fn trace_source(g: Graph<'_>, mut v: Value) -> Node {
    loop {
        v = moved_from(g, v, None).value;
        let n = g.def[v.at()];
        match g.op[n.at()] {
            Op::CAST | Op::STOP_GRADIENT | Op::SLICE => v = g.args_of(n)[0],
            _ => return n,
        }
    }
}

/// The operand that a loss squashes itself: its node is `n`, or the node which is left where a derivative has
/// decomposed the loss.
fn find_squashed_operand(
    g: Graph<'_>,
    n: Node,
    softplus: &Side<Value, bool>,
) -> Option<(&'static str, &'static str, Value)> {
    let args = g.args_of(n);
    match g.op[n.at()] {
        Op::SOFTMAX_CROSS_ENTROPY => Some(("cross_entropy", "softmax", args[0])),
        // Cross entropy with probabilities for labels.
        Op::LOG_SOFTMAX if g.op[trace_source(g, args[0]).at()] == Op::SOFTMAX => {
            Some(("log_softmax", "softmax", args[0]))
        }
        Op::BCE_WITH_LOGITS => Some(("bce_with_logits", "sigmoid", args[0])),
        // ln(1 + e^−x)·y + ln(1 + eˣ)·(1 − y).
        Op::SOFTPLUS => {
            let minus = g.def[args[0].at()];
            let x = *g.args_of(minus).first().filter(|_| g.op[minus.at()] == Op::NEG)?;
            softplus[x].then_some(("bce_with_logits", "sigmoid", x))
        }
        _ => None,
    }
}

/// Losses of logits that get numbers between 0 and 1.
fn squashed_logits(g: Graph<'_>) -> Vec<Warning> {
    let mut softplus = Side::<Value, bool>::filled(g.values(), false);
    let all = || (0..g.nodes()).map(Node::new);
    all().filter(|n| g.op[n.at()] == Op::SOFTPLUS).for_each(|n| softplus[g.args_of(n)[0]] = true);
    let mut found: Vec<(Node, Warning)> = Vec::new();
    for n in all() {
        let Some((loss, inside, logits)) = find_squashed_operand(g, n, &softplus) else { continue };
        let source = trace_source(g, logits);
        if !matches!(g.op[source.at()], Op::SOFTMAX | Op::SIGMOID) || found.iter().any(|f| f.0 == source) {
            continue;
        }
        let (of, at) = (g.def_of(source).name, g.location(source).origin());
        let at = at.map_or(String::new(), |at| format!(" of {at}"));
        let text = format!("{loss} has the {inside} inside and takes logits; it gets the {of}{at}: leave that out");
        found.push((source, warn_at(g, n, text)));
    }
    found.into_iter().map(|f| f.1).collect()
}

/// Tables whose gradient is dense, and whose rule was to update the rows that a step reads.
fn whole_tables(g: Graph<'_>) -> Vec<Warning> {
    let gathered = |v| g.region_nodes(g.entry()).any(|n| g.op[n.at()] == Op::GATHER && g.args_of(n)[0] == v);
    let one = |&(leaf, next): &(Value, Value)| {
        let n = g.def[next.at()];
        let whole = g.op[n.at()] == Op::MAP
            && g.str(g.region_names[MapAttrs::of(&g.attrs(n)).body.at()]) == WHOLE_SPARSE_ADAM
            && gathered(leaf);
        let name = g.leaf(leaf).filter(|_| whole)?.1.to_string();
        let message =
            "a step updates all rows: the loss does not read this table by gathers alone, so its gradient is \
                       dense; give it `adam`, or give the other reader a param of its own"
                .to_string();
        Some(Warning { op: "update", name, message, location: g.location(n) })
    };
    g.updates.iter().filter_map(one).collect()
}

/// Losses whose mean is over what a micro-batch counts, if micro-batches of other counts have the same weight.
fn means_of_uneven_means(g: Graph<'_>) -> Vec<Warning> {
    let mut all = Vec::new();
    for n in g.region_nodes(g.entry()).filter(|&n| g.op[n.at()] == Op::SCAN) {
        let s = Scan::of(&g.attrs(n));
        if g.str(g.region_names[s.body.at()]) != ACCUMULATION {
            continue;
        }
        let first = s.carries + s.consts;
        let mut counted = Window::filled(g.region_values(s.body), false);
        g.region_args(s.body).skip(first).for_each(|v| counted[v] = true);
        for m in g.region_nodes(s.body) {
            let any = g.args_of(m).iter().any(|&a| counted[a]);
            g.outs_of(m).filter(|_| any).for_each(|v| counted[v] = true);
        }
        let summed = |v: Value| {
            let sums = |m: Node| matches!(g.op[m.at()], Op::REDUCE_SUM | Op::REDUCE_MEAN) && g.args_of(m) == [v];
            g.region_nodes(g.entry()).any(sums)
        };
        let stacked = g.outs_of(n).zip(g.region_yields(s.body)).skip(s.carries);
        for (_, &y) in stacked.filter(|&(v, _)| summed(v)) {
            all.extend(uneven_mean(g, y, &counted).map(|m| {
                let text = "this loss is divided by a number of its micro-batch, as a mean over the labels that are not \
                            ignored is, and accumulated with equal weights: weigh it by `accumulate_by(k, output)`, \
                            where \
                            the output is that number; if nothing is left out, take the mean over all rows \
                            (`CrossEntropy::per_row`)";
                warn_at(g, m, text.to_string())
            }));
        }
    }
    all
}

/// The division by a counted number that `y` is made of by sums, signs and factors.
fn uneven_mean(g: Graph<'_>, y: Value, counted: &Window<Value, bool>) -> Option<Node> {
    let (mut open, mut seen) = (vec![y], Side::<Node, bool>::filled(g.nodes(), false));
    while let Some(v) = open.pop() {
        let n = g.def[moved_from(g, v, None).value.at()];
        if std::mem::replace(&mut seen[n], true) {
            continue;
        }
        let args = g.args_of(n);
        match g.op[n.at()] {
            Op::DIV if counted[args[1]] => return Some(n),
            Op::DIV | Op::NEG | Op::CAST => open.push(args[0]),
            Op::ADD | Op::SUB => open.extend(args),
            Op::MUL => open.extend(args.iter().filter(|&&a| counted[a])),
            _ => {}
        }
    }
    None
}

/// True if `g` updates a param or gives derivatives, or has no param that could be trained.
fn is_trained(g: Graph<'_>) -> bool {
    let is_param = |v: Value| g.leaf(v).is_some_and(|l| l.0 == LeafKind::Param);
    let derivative = |name: &str| ["grad", "tangent", "jacobian", "saved."].iter().any(|p| name.starts_with(p));
    g.updates.iter().any(|u| is_param(u.0))
        || g.output_names.iter().any(|&s| derivative(g.str(s)))
        || !g.leaves().any(|l| l.kind == LeafKind::Param)
}

/// True if an output can be the loss of a training step.
fn has_possible_loss(g: Graph<'_>) -> bool {
    g.outputs().iter().any(|&v| g.dtype[v.at()].is_float() && g.dims(v).is_empty())
}

/// What belongs to training, in a graph that trains nothing.
fn find_training_forms(g: Graph<'_>) -> Vec<Warning> {
    if is_trained(g) {
        return Vec::new();
    }
    let instead = "the graph trains nothing: build it under `training(false)`";
    let drops = |n: Node| {
        let p = g.def_of(n).attrs.iter().position(|f| f.name == "dropout");
        g.op[n.at()] == Op::DROPOUT || p.is_some_and(|i| g.attrs(n).f64(i) != 0.0)
    };
    let mut all = Vec::new();
    for n in (0..g.nodes()).map(Node::new) {
        if drops(n) {
            all.push(warn_at(g, n, format!("values are dropped, but {instead}")));
        } else if g.op[n.at()] == Op::BATCH_NORM {
            all.push(warn_at(g, n, format!("the statistics are those of the batch, but {instead}")));
        }
    }
    let read = nodes_behind_outputs(g);
    for &(state, next) in g.updates {
        let Average { decays, normalises, stops } = Average::of(g, state, next);
        // What an output reads, and gradients may pass, is a carry from step to step. A batch norm has its own warning.
        if decays && !normalises && (stops || !read[g.def[state.at()]]) {
            let name = g.leaf(state).map_or("", |l| l.1).to_string();
            let message = format!("a step moves this running statistic, but {instead}");
            all.push(Warning { op: "update", name, message, location: g.location(g.def[next.at()]) });
        }
    }
    all
}

/// The nodes that outputs depend on.
fn nodes_behind_outputs(g: Graph<'_>) -> Side<Node, bool> {
    let mut read = Side::filled(g.nodes(), false);
    g.outputs().iter().for_each(|v| read[g.def[v.at()]] = true);
    for n in g.region_nodes(g.entry()).rev() {
        if read[n] {
            g.args_of(n).iter().for_each(|a| read[g.def[a.at()]] = true);
        }
    }
    read
}

/// How the next value of a state is made of the state.
struct Average {
    /// The state is multiplied by a constant, and something is added.
    decays: bool,
    /// Statistics of a batch norm are added.
    normalises: bool,
    /// No gradient passes.
    stops: bool,
}

impl Average {
    fn of(g: Graph<'_>, state: Value, next: Value) -> Average {
        let mut found = Average { decays: false, normalises: false, stops: false };
        let mut seen = Side::<Value, [bool; 2]>::filled(g.values(), [false; 2]);
        let mut open = vec![(next, false)];
        let is_constant = |v: &Value| {
            let n = g.def[moved_from(g, *v, None).value.at()];
            let one = || FullAttrs::of(&g.attrs(n)).value == 1.0;
            g.op[n.at()] == Op::CONSTANT || g.op[n.at()] == Op::FULL && !one()
        };
        while let Some((v, scaled)) = open.pop() {
            if std::mem::replace(&mut seen[v][usize::from(scaled)], true) {
                continue;
            }
            let n = g.def[v.at()];
            let args = g.args_of(n);
            match g.op[n.at()] {
                _ if v == state => found.decays |= scaled,
                Op::BATCH_NORM => found.normalises = true,
                Op::MUL if args.iter().any(is_constant) => open.extend(args.iter().map(|&a| (a, true))),
                Op::ADD | Op::SUB | Op::CAST => open.extend(args.iter().map(|&a| (a, scaled))),
                Op::SELECT => open.extend(args[1..].iter().map(|&a| (a, scaled))),
                Op::STOP_GRADIENT => {
                    found.stops = true;
                    open.push((args[0], scaled));
                }
                _ => {
                    let from = moved_from(g, v, None).value;
                    open.extend((from != v).then_some((from, scaled)));
                }
            }
        }
        found
    }
}
