//! The domains of leaves: the numbers that all readers of a leaf can use.
//!
//! The domains of a reader's conformance cases say which numbers it can use; for indices, the axis that they count
//! along gives the range. A reader of a copy of the leaf (a slice, another shape, an operand of a call) counts as a
//! reader of the leaf.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::attrs::Kind;
use crate::nodes::ir::opdef::Domain;
use crate::nodes::ops::index::attrs::{GatherAttrs, OneHotAttrs, RavelIndexAttrs, ScatterAddAttrs, ScatterAttrs};
use crate::nodes::ops::pool::attrs::MaxPoolBackwardAttrs;
use crate::nodes::{DType, Graph, Op};

/// How often demands pass through calls and loops.
const SWEEPS: usize = 3;

/// The numbers that a leaf may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LeafRange {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Whether numbers near 0 are left out, where functions may have kinks.
    pub(super) off_zero: bool,
    /// Whether the elements differ from each other.
    pub(super) distinct: bool,
    /// Whether the matrices of the last two axes have a large diagonal.
    pub(super) dominant: bool,
}

impl LeafRange {
    fn of(domain: Domain) -> LeafRange {
        let from = |low: f64, high: f64| LeafRange { low, high, off_zero: false, distinct: false, dominant: false };
        match domain {
            Domain::Real => LeafRange { off_zero: true, ..from(-1.5, 1.5) },
            Domain::Positive => from(0.5, 2.0),
            Domain::Beyond => from(2.5, 4.0),
            Domain::Chance => from(0.05, 0.95),
            Domain::Unit => from(-0.9, 0.9),
            Domain::Distinct => LeafRange { distinct: true, ..from(-1.5, 1.5) },
            Domain::Dominant => LeafRange { dominant: true, ..from(-0.3, 0.3) },
            Domain::Index(n) => from(0.0, n.max(1) as f64 - 1.0),
            Domain::Count(n) => from(1.0, n.max(1) as f64),
            Domain::Bit => from(0.0, 1.0),
            Domain::Bits => from(0.0, 4_294_967_295.0),
            Domain::Code => from(-128.0, 255.0),
        }
    }

    /// The numbers of both; those of `self` where no number is in both.
    pub(super) fn and(self, other: LeafRange) -> LeafRange {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        match low <= high {
            true => LeafRange {
                low,
                high,
                off_zero: self.off_zero || other.off_zero,
                distinct: self.distinct || other.distinct,
                dominant: self.dominant || other.dominant,
            },
            false => self,
        }
    }
}

/// The range of each leaf, in order; `None` where no reader asks for one.
pub(super) fn leaf_domains(g: Graph<'_>) -> Vec<Option<LeafRange>> {
    let mut asked: Vec<Option<LeafRange>> = vec![None; g.values()];
    for _ in 0..SWEEPS {
        for n in (0..g.nodes()).rev().map(Node::new) {
            ask_of_operands(g, n, &mut asked);
        }
    }
    g.leaves().map(|l| asked[l.value.at()]).collect()
}

fn ask_leaf_domain(asked: &mut [Option<LeafRange>], v: Value, more: Option<LeafRange>) {
    let old = asked[v.at()];
    asked[v.at()] = old.zip(more).map(|(a, b)| a.and(b)).or(old).or(more);
}

/// Adds what node `n` asks of its operands.
fn ask_of_operands(g: Graph<'_>, n: Node, asked: &mut [Option<LeafRange>]) {
    let (args, attrs) = (g.args_of(n), g.attrs(n));
    // A region's arguments are the operands, and what reads a result reads the yield.
    if let Some(i) = g.def_of(n).attrs.iter().position(|f| f.kind == Kind::Region) {
        let body = attrs.region(i);
        let outs: Vec<_> = g.outs_of(n).map(|v| asked[v.at()]).collect();
        g.region_yields(body).iter().zip(outs).for_each(|(&y, r)| ask_leaf_domain(asked, y, r));
        let inside: Vec<_> = g.region_args(body).map(|a| asked[a.at()]).collect();
        args.iter().zip(inside).for_each(|(&a, r)| ask_leaf_domain(asked, a, r));
        return;
    }
    for (i, &a) in args.iter().enumerate() {
        let whole = !g.dtype[a.at()].is_real_float();
        let domain = leaf_domain_of_index(g, n, i).or_else(|| leaf_domain_of_case(g, n, i)).filter(|d| match d {
            // Cases of integers keep numbers small, without need.
            Domain::Index(_) if whole => leaf_domain_of_index(g, n, i).is_some(),
            Domain::Real | Domain::Distinct => !whole,
            _ => true,
        });
        let copied = copies_leaf_domain(g, n, i).then(|| asked[g.out(n).at()]).flatten();
        ask_leaf_domain(asked, a, domain.map(LeafRange::of));
        ask_leaf_domain(asked, a, copied);
    }
}

/// Whether the result has the elements of operand `i`.
fn copies_leaf_domain(g: Graph<'_>, n: Node, i: usize) -> bool {
    let (from, to) = (g.dtype[g.args_of(n)[i].at()], g.dtype[g.out(n).at()]);
    match g.op[n.at()] {
        Op::RESHAPE | Op::CHECKPOINT | Op::OPTIMIZATION_BARRIER | Op::STOP_GRADIENT | Op::TRANSPOSE => true,
        Op::BROADCAST | Op::SLICE | Op::FLIP | Op::CONCAT | Op::PAD => true,
        Op::GATHER | Op::TAKE_ALONG_AXIS => i == 0,
        Op::SELECT => i > 0,
        Op::CAST => from.is_real_float() == to.is_real_float() && to != DType::Bool,
        _ => false,
    }
}

/// The indices that operand `i` may hold, if it holds indices; the divisors, if it holds divisors of integers.
fn leaf_domain_of_index(g: Graph<'_>, n: Node, i: usize) -> Option<Domain> {
    #[cfg(feature = "gguf")]
    if let Some(domain) = super::grouped_ops::leaf_domain_of_groups(g, n, i) {
        return Some(domain);
    }
    let (args, attrs) = (g.args_of(n), g.attrs(n));
    let along = |axis: i64| Domain::Index(g.dims(args[0]).get(axis as usize).copied().unwrap_or(1));
    Some(match (g.op[n.at()], i) {
        (Op::GATHER | Op::TAKE_ALONG_AXIS, 1) => along(GatherAttrs::of(&attrs).axis),
        (Op::SCATTER, 2) => along(ScatterAttrs::of(&attrs).axis),
        (Op::SCATTER_ADD | Op::SCATTER_ALONG_AXIS, 1) => Domain::Index(ScatterAddAttrs::of(&attrs).size as usize),
        #[cfg(feature = "linalg")]
        (Op::LU_SOLVE, 1) => Domain::Index(g.dims(args[0]).last().copied().unwrap_or(1)),
        (Op::ONE_HOT, 0) => Domain::Index(OneHotAttrs::of(&attrs).depth as usize),
        (Op::RAVEL_INDEX, 0) => {
            Domain::Index(to_size_attrs(&RavelIndexAttrs::of(&attrs).sizes).into_iter().min().unwrap_or(1))
        }
        (Op::SOFTMAX_CROSS_ENTROPY | Op::SOFTMAX_CROSS_ENTROPY_BACKWARD | Op::CROSS_ENTROPY_GRADIENT, 1) => along(1),
        (Op::MAX_POOL2D_BACKWARD, 1) => {
            Domain::Index(to_size_attrs(&MaxPoolBackwardAttrs::of(&attrs).in_hw).iter().product())
        }
        (Op::MAX_POOL2D_GATHER, 1) => Domain::Index(g.dims(args[0]).iter().skip(2).product()),
        (Op::DIV | Op::FMOD | Op::REMAINDER | Op::FLOOR_DIVIDE | Op::POW, 1)
            if !g.dtype[args[1].at()].is_real_float() =>
        {
            Domain::Count(7)
        }
        _ => return None,
    })
}

/// The domain of operand `i` in the op's cases: in one with the same operand types, or in one with this operand's.
fn leaf_domain_of_case(g: Graph<'_>, n: Node, i: usize) -> Option<Domain> {
    let types: Vec<DType> = g.args_of(n).iter().map(|a| g.dtype[a.at()]).collect();
    let fits = |token: &str, d: DType| match token.split('[').next() {
        Some("f") => d.is_real_float(),
        name => name == Some(d.name()),
    };
    let tokens = |args: &'static str| args.split_whitespace().collect::<Vec<_>>();
    let cases = g.def_of(n).cases;
    let same = cases.iter().find(|c| {
        let t = tokens(c.args);
        t.len() == types.len() && t.iter().zip(&types).all(|(t, &d)| fits(t, d))
    });
    let near = || cases.iter().find(|c| tokens(c.args).get(i).is_some_and(|t| fits(t, types[i])));
    let case = same.or_else(near)?;
    case.domains.get(i).or(case.domains.last()).copied()
}
