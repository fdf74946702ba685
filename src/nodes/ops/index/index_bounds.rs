//! Bounds of indices that are known when the graph is compiled. An index that an op such as `arg_max` computes needs no
//! check when the step runs.

use crate::arena::Value;
use crate::arena::ids::Id;
use crate::nodes::arguments::size_attrs::{to_size_attr, to_size_attrs};
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::constant::attrs::ConstantAttrs;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::constant::attrs::IotaAttrs;
use crate::nodes::ops::index::attrs::RavelIndexAttrs;
use crate::nodes::ops::pointwise::attrs::{ClampAttrs, MapAttrs};
use crate::nodes::ops::reduce::attrs::ArgExtremeAttrs;
use crate::nodes::ops::sort::attrs::CumArgMaxAttrs;
use crate::nodes::{DType, Graph};

/// The most moves between an index and the op that computes it.
const DEPTH: usize = 16;

/// A bound that all elements of `v` are below, if one is known and none of them is negative.
pub fn index_bound(g: &Graph<'_>, v: Value) -> Option<u64> {
    index_bound_within(g, v, DEPTH)
}

/// As [`index_bound`], through at most `depth` moves.
fn index_bound_within(g: &Graph<'_>, v: Value, depth: usize) -> Option<u64> {
    let n = g.def[v.at()];
    let (args, attrs) = (g.args_of(n), g.attrs(n));
    let along = |v: Value, axis: i64| g.dims(v).get(to_size_attr(axis)).map(|&d| d as u64);
    let through = |a: Value| if depth > 0 { index_bound_within(g, a, depth - 1) } else { None };
    match g.op[n.at()] {
        Op::IOTA => along(v, IotaAttrs::of(&attrs).axis),
        Op::ARG_MAX | Op::ARG_MIN => along(args[0], ArgExtremeAttrs::of(&attrs).axis),
        Op::CUM_ARG_MAX => along(args[0], CumArgMaxAttrs::of(&attrs).axis),
        Op::TOP_K if v == g.outs_of(n).nth(1).unwrap_or(v) => g.dims(args[0]).last().map(|&d| d as u64),
        Op::ARG_SORT => g.dims(v).last().map(|&d| d as u64),
        Op::RAVEL_INDEX => {
            let sizes = to_size_attrs(&RavelIndexAttrs::of(&attrs).sizes);
            sizes.iter().try_fold(1u64, |n, &s| n.checked_mul(s as u64))
        }
        Op::FULL => {
            let x = FullAttrs::of(&attrs).value;
            (x >= 0.0 && x < 2f64.powi(53)).then(|| x as u64 + 1)
        }
        Op::CONSTANT => constant_index_bound(&ConstantAttrs::of(&attrs).data, g.dtype[v.at()]),
        Op::CLAMP => {
            let ClampAttrs { lo, hi } = ClampAttrs::of(&attrs);
            (lo >= 0.0 && hi < 2f64.powi(53)).then(|| hi as u64 + 1)
        }
        Op::MAP => {
            let yields = g.region_yields(MapAttrs::of(&attrs).body);
            through(*yields.get(g.outs_of(n).position(|out| out == v)?)?)
        }
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

/// One more than the largest of these elements, if none of them is negative.
fn constant_index_bound(bytes: &[u8], dtype: DType) -> Option<u64> {
    let most = match dtype {
        DType::I32 => {
            bytes.as_chunks::<4>().0.iter().map(|&b| i64::from(i32::from_le_bytes(b))).try_fold(0, largest_index_bound)
        }
        DType::I64 => bytes.as_chunks::<8>().0.iter().map(|&b| i64::from_le_bytes(b)).try_fold(0, largest_index_bound),
        _ => None,
    };
    most.map(|m| m as u64 + 1)
}

fn largest_index_bound(most: i64, x: i64) -> Option<i64> {
    (x >= 0).then_some(most.max(x))
}

/// Whether `v` has the positions that a max pool found in planes of `area` elements; −1 means none.
pub fn has_pool_positions(g: &Graph<'_>, v: Value, area: usize) -> bool {
    let n = g.def[v.at()];
    let plane = |x: Value| g.dims(x).iter().rev().take(2).product::<usize>();
    g.op[n.at()] == Op::MAX_POOL2D && v != g.out(n) && plane(g.args_of(n)[0]) <= area
}
