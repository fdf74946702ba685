//! The instructions of a plan as the statements of the step.

use crate::call::{Call, Statement};
use crate::helpers::Helpers;
use crate::known_kernels::{Known, KnownKernels, What};
use crate::rows::Losses;
use crate::{maps, moves, optimisers, products, reductions, rows, windows};
use arenagrad::error::Location;
use arenagrad::graph::Graph;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::sched::checker::Checked;
use arenagrad_kernels::tile::TileCode;
use std::fmt;

/// Why an op cannot be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// The op.
    pub op: &'static str,
    /// Where the first of its nodes that has this reason comes from.
    pub place: Location,
    /// How many of its nodes have it.
    pub nodes: usize,
    /// The reason, and what can be done.
    pub why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { op, place, nodes, why } = self;
        match nodes {
            1 => write!(f, "{op} ({place}): {why}"),
            _ => write!(f, "{op} ({nodes} times, first {place}): {why}"),
        }
    }
}

/// The statements of a step.
pub struct Body {
    /// The text, indented as the body of a function.
    pub text: String,
    /// For each check, from 1: the op and its place.
    pub checks: Vec<(&'static str, Location)>,
}

/// The statements of `plan`, which is of `g`; or all that cannot be written.
pub fn write(g: &Graph<'_>, plan: &Checked, helpers: &Helpers) -> Result<Body, Vec<Missing>> {
    let known = KnownKernels::new();
    let mut body = Body { text: String::new(), checks: Vec::new() };
    let mut missing: Vec<Missing> = Vec::new();
    for at in 0..plan.code.len() {
        let node = plan.code.node[at];
        // The planner's own copies are of no node.
        let (op, place, result) = match node.at() < g.nodes() {
            true => (g.def_of(node).name, g.location(node), Some(g.dtype[g.out(node).at()])),
            false => ("copy", Location::Nowhere, None),
        };
        match statement(&Call::new(plan, at, result), plan, &known).and_then(|s| exists(s, helpers)) {
            Ok(s) => body.push(s, op, place),
            Err(why) => match missing.iter_mut().find(|m| m.op == op && m.why == why) {
                Some(m) => m.nodes += 1,
                None => missing.push(Missing { op, place, nodes: 1, why }),
            },
        }
    }
    if missing.is_empty() { Ok(body) } else { Err(missing) }
}

impl Body {
    fn push(&mut self, s: Statement, op: &'static str, place: Location) {
        if s.text.is_empty() {
            return;
        }
        self.text += &format!("    /* {op} */\n");
        if s.check {
            self.checks.push((op, place));
            self.text += &format!("    if (!{})\n        return {};\n", s.text, self.checks.len());
            return;
        }
        for line in s.text.lines() {
            self.text += &format!("    {line}\n");
        }
    }
}

/// `s`, if all functions that it calls exist.
fn exists(s: Statement, helpers: &Helpers) -> Result<Statement, String> {
    match helpers.missing_in(&s.text) {
        Some(name) => Err(format!("C has no {}; compute in f32", name.trim_start_matches("ag_"))),
        None => Ok(s),
    }
}

/// The statement of an instruction; the error says why there is none, and what can be done.
fn statement(c: &Call<'_>, plan: &Checked, known: &KnownKernels) -> Result<Statement, String> {
    let (code, at) = (&plan.code, c.at);
    if code.has_body(at) {
        return Err("C has no loops and no choices yet; write the iterations out".into());
    }
    if code.copies[at] {
        return moves::copy(c);
    }
    if let Some(tile) = code.prepared[at].as_ref().and_then(|p| p.downcast_ref::<TileCode>()) {
        return maps::map(c, tile.program());
    }
    if let Some(kernel) = known.find(code.kernel[at]) {
        return of_kernel(c, kernel);
    }
    let product = products::product(c, code.kernel[at]);
    product.unwrap_or_else(|| {
        Err("C has no form of it yet; write it in other ops, or compute it outside of the step".into())
    })
}

/// The statement of a kernel that is known.
fn of_kernel(c: &Call<'_>, Known { what, dtype, index }: Known) -> Result<Statement, String> {
    match what {
        What::Reduce(fold) => reductions::whole(c, fold, dtype, false),
        What::Mean(fold) => reductions::whole(c, fold, dtype, true),
        What::Partial(fold) => reductions::partial(c, fold, dtype),
        What::RootSumSquares => reductions::root_sum_squares(c, dtype),
        What::LogSumExp => reductions::logsumexp(c, dtype),
        What::ArgMax => reductions::position(c, "max", dtype, index),
        What::ArgMin => reductions::position(c, "min", dtype, index),
        What::SquaredError => reductions::squared_error(c, dtype),
        What::Softmax => rows::softmax(c, "softmax", dtype),
        What::LogSoftmax => rows::softmax(c, "log_softmax", dtype),
        What::SoftmaxBackward => rows::softmax(c, "softmax_backward", dtype),
        What::LogSoftmaxBackward => rows::softmax(c, "log_softmax_backward", dtype),
        What::CrossEntropy => rows::cross_entropy(c, Losses::Loss, dtype, index),
        What::CrossEntropyBackward => rows::cross_entropy(c, Losses::Gradient, dtype, index),
        What::CrossEntropyBoth => rows::cross_entropy(c, Losses::Both, dtype, index),
        What::LayerNorm => rows::norm(c, "layer_norm", dtype),
        What::RmsNorm => rows::norm(c, "rms_norm", dtype),
        What::LayerNormBackward => rows::norm_backward(c, "layer_norm", dtype),
        What::RmsNormBackward => rows::norm_backward(c, "rms_norm", dtype),
        What::ResidualLayerNorm => rows::residual_norm(c, "layer_norm", dtype),
        What::ResidualRmsNorm => rows::residual_norm(c, "rms_norm", dtype),
        What::Sgd => optimisers::sgd(c, dtype),
        What::Adam => optimisers::adam(c, dtype),
        What::ProductSgd => products::update(c, false, dtype),
        What::ProductAdam => products::update(c, true, dtype),
        What::ActWithGrad(name) => maps::with_gradient(c, name, dtype),
        What::Convolution => windows::convolution(c, dtype),
        What::MaxPool => windows::max_pool(c, dtype),
        What::MaxPoolBackward => windows::max_pool_backward(c, dtype),
        What::AvgPool => windows::avg_pool(c, dtype),
        What::StridedCopy => moves::strided(c),
        What::Concat => moves::concat(c),
        What::Pad => moves::pad(c),
        What::Iota => moves::iota(c, dtype),
        What::Fill => moves::fill(c),
        What::Gather => moves::gather(c, "gather", index),
        What::Take => moves::gather(c, "take", index),
        What::ScatterAdd => moves::scatter(c, "scatter_add", dtype, index),
        What::ScatterAlong => moves::scatter(c, "scatter_along", dtype, index),
    }
}
