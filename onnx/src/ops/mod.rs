//! The table of ops: one entry for each op of the format, by family.
//!
//! A rule takes the operands and writes nodes of the library. Half precision and small integers are stored as the model
//! says and computed in `f32`, `i32` and `i64`: operands are widened before the rule, and results narrowed after it.

mod attention;
mod conv;
mod index;
mod layout;
mod loss;
mod ml;
mod norm;
mod pointwise;
mod pool;
mod quant;
mod random;
mod recurrent;
mod reduce;
mod resize;
mod signal;
mod spatial;
mod trees;

use crate::import::{Cx, Out};
use arenagrad::graph::{DType, Var};

/// How dtypes of operands become dtypes of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// Operands are widened; results get the dtype of the first operand that was.
    Same,
    /// Operands are widened; results stay as the rule makes them.
    Own,
    /// Operands and results stay as they are stored: elements are moved, not computed.
    Moved,
}

/// One op.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    pub types: Types,
    /// Whether it draws random numbers.
    pub random: bool,
    pub rule: for<'c, 'g> fn(&Cx<'c, 'g>) -> Out<'g>,
}

const fn entry(name: &'static str, types: Types, rule: for<'c, 'g> fn(&Cx<'c, 'g>) -> Out<'g>) -> Entry {
    Entry { name, types, random: false, rule }
}

/// An op whose results have the dtype of its operands.
const fn same(name: &'static str, rule: for<'c, 'g> fn(&Cx<'c, 'g>) -> Out<'g>) -> Entry {
    entry(name, Types::Same, rule)
}

/// An op whose rule says the dtypes of its results.
const fn own(name: &'static str, rule: for<'c, 'g> fn(&Cx<'c, 'g>) -> Out<'g>) -> Entry {
    entry(name, Types::Own, rule)
}

/// An op that moves elements.
const fn moved(name: &'static str, rule: for<'c, 'g> fn(&Cx<'c, 'g>) -> Out<'g>) -> Entry {
    entry(name, Types::Moved, rule)
}

impl Entry {
    pub fn raw(&self) -> bool {
        self.types == Types::Moved
    }

    /// The results of the op for a node.
    pub fn run<'g>(&self, cx: &Cx<'_, 'g>) -> Out<'g> {
        let outs = (self.rule)(cx)?;
        if let Some(e) = cx.g.error() {
            return Err(e.context(crate::import::describe(cx.node)).into());
        }
        let narrow = |d: DType| crate::import::computed_in(d) != d;
        let stored = cx.args.iter().flatten().map(|v| v.dtype).find(|&d| narrow(d));
        let Some(to) = stored.filter(|_| self.types == Types::Same) else { return Ok(outs) };
        let wide = crate::import::computed_in(to);
        Ok(outs.into_iter().map(|v| if v.dtype() == wide { pointwise::narrowed(v, to) } else { v }).collect())
    }
}

/// Families of the default domain.
const FAMILIES: &[&[Entry]] = &[
    attention::OPS,
    conv::OPS,
    index::OPS,
    layout::OPS,
    loss::OPS,
    norm::OPS,
    pointwise::OPS,
    pool::OPS,
    quant::OPS,
    random::OPS,
    recurrent::OPS,
    reduce::OPS,
    resize::OPS,
    signal::OPS,
    spatial::OPS,
];

/// The entry of an op, if there is a rule for it.
pub fn find(domain: &str, name: &str) -> Option<&'static Entry> {
    let families: &[&[Entry]] = match domain {
        "" | "ai.onnx" => FAMILIES,
        "ai.onnx.ml" => &[ml::OPS, trees::OPS],
        "ai.onnx.preview.training" => &[ml::TRAINING],
        _ => return None,
    };
    families.iter().flat_map(|f| f.iter()).find(|e| e.name == name)
}

/// The names of all ops of the default domain that have a rule, in order. Constants, branches, loops and sequences come
/// beside them.
pub fn names() -> Vec<&'static str> {
    let mut all: Vec<&str> = FAMILIES.iter().flat_map(|f| f.iter()).map(|e| e.name).collect();
    all.sort_unstable();
    all
}

/// `x` with its axes after `rank` leading ones, and axes of size 1 in between, so that it broadcasts from the left.
fn from_left<'g>(x: Var<'g>, at: usize, rank: usize) -> Var<'g> {
    let d = x.dims();
    let mut dims = vec![1; rank];
    for (i, &n) in d.iter().enumerate() {
        match dims.get_mut(at + i) {
            Some(slot) => *slot = n,
            None => return x,
        }
    }
    x.reshape(dims)
}
