//! What is known of indices before a step: ops that make positions make good ones.

use crate::arena::Value;
use crate::arena::ids::Id;
use crate::nodes::ir::opdef::Op;
use crate::nodes::{DType, Graph};

/// Moves that are looked through.
const DEPTH: usize = 16;

/// A bound that all elements of `v`, none of them negative, are below, if one is known.
pub fn below(g: &Graph<'_>, v: Value) -> Option<u64> {
    within(g, v, DEPTH)
}

/// As [`below`], of values that come through at most `depth` ops.
fn within(g: &Graph<'_>, v: Value, depth: usize) -> Option<u64> {
    let n = g.def[v.at()];
    let (args, attrs) = (g.args_of(n), g.attrs(n));
    let axis = |v: Value, i: usize| g.dims(v).get(attrs.size(i)).map(|&d| d as u64);
    let through = |a: Value| if depth > 0 { within(g, a, depth - 1) } else { None };
    match g.op[n.at()] {
        Op::IOTA => axis(v, 0),
        Op::ARG_MAX | Op::ARG_MIN | Op::CUM_ARG_MAX => axis(args[0], 0),
        Op::ARG_SORT => g.dims(v).last().map(|&d| d as u64),
        Op::RAVEL_INDEX => attrs.sizes(0).iter().try_fold(1u64, |n, &s| n.checked_mul(s as u64)),
        Op::FULL => {
            let x = attrs.f64(0);
            (x >= 0.0 && x < 2f64.powi(53)).then_some(x as u64 + 1)
        }
        Op::CONSTANT => constant(&attrs.bytes(2), g.dtype[v.at()]),
        Op::RESHAPE
        | Op::TRANSPOSE
        | Op::BROADCAST
        | Op::SLICE
        | Op::FLIP
        | Op::CHECKPOINT
        | Op::OPTIMIZATION_BARRIER
        | Op::GATHER
        | Op::TAKE_ALONG_AXIS => through(args[0]),
        Op::CAST if g.dtype[args[0].at()].is_index() => {
            let fits = |n: &u64| g.dtype[v.at()] == DType::I64 || *n <= i32::MAX as u64;
            through(args[0]).filter(|n| g.dtype[v.at()].is_index() && fits(n))
        }
        _ => None,
    }
}

/// One more than the largest of these elements, none of them negative.
fn constant(bytes: &[u8], dtype: DType) -> Option<u64> {
    let most = match dtype {
        DType::I32 => bytes.as_chunks::<4>().0.iter().map(|&b| i64::from(i32::from_le_bytes(b))).try_fold(0, largest),
        DType::I64 => bytes.as_chunks::<8>().0.iter().map(|&b| i64::from_le_bytes(b)).try_fold(0, largest),
        _ => None,
    };
    most.map(|m| m as u64 + 1)
}

fn largest(most: i64, x: i64) -> Option<i64> {
    (x >= 0).then_some(most.max(x))
}

/// Whether `v` holds positions in planes of `area` elements, or −1: what a max pool of such planes found.
pub fn winners(g: &Graph<'_>, v: Value, area: usize) -> bool {
    let n = g.def[v.at()];
    let plane = |x: Value| g.dims(x).iter().rev().take(2).product::<usize>();
    g.op[n.at()] == Op::MAX_POOL2D && v != g.out(n) && plane(g.args_of(n)[0]) <= area
}
