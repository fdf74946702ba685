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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::builder::{Builder, Var};
    use crate::nodes::ir::text::parse;
    use crate::nodes::ops::pool::pool_options::Pool2d;
    use DType::{F64, I32, I64};

    /// The bound of what `f` makes.
    fn bound(f: impl for<'g> FnOnce(&'g Builder) -> Var<'g>) -> Option<u64> {
        let g = Builder::new("g");
        let graph = g.finish([f(&g).named("i")]).unwrap();
        let view = graph.view();
        index_bound(&view, view.outputs()[0])
    }

    /// The bound of a constant of these numbers.
    fn constant(dtype: DType, numbers: &[i64]) -> Option<u64> {
        let byte = |&x: &i64| if dtype == I64 { x.to_le_bytes().to_vec() } else { (x as i32).to_le_bytes().to_vec() };
        let bytes: Vec<u8> = numbers.iter().flat_map(byte).collect();
        bound(|g| g.constant_bytes(&bytes, [numbers.len()], dtype))
    }

    #[test]
    fn positions_are_below_the_length_of_their_axis() {
        assert_eq!(bound(|g| g.iota(0, [9, 6], I64)), Some(9));
        assert_eq!(bound(|g| g.iota(1, [9, 6], I32)), Some(6));
        assert_eq!(bound(|g| g.input("x", [4, 7], F64).arg_max(0, I64)), Some(4));
        assert_eq!(bound(|g| g.input("x", [4, 7], F64).arg_min(1, I32)), Some(7));
        assert_eq!(bound(|g| g.input("x", [4, 7], F64).cummax(0).1), Some(4));
        assert_eq!(bound(|g| g.input("x", [4, 7], F64).cummin(1).1), Some(7));
        assert_eq!(bound(|g| g.input("x", [4, 7], F64).arg_sort(0, false)), Some(4));
        assert_eq!(bound(|g| g.input("x", [4, 7], F64).arg_sort(1, true)), Some(7));
        assert_eq!(bound(|g| g.input("x", [4, 7], I64).top_k(2, 1).1), Some(7));
        let ravelled = |sizes: &[i64]| {
            let attrs = RavelIndexAttrs { sizes: sizes.to_vec() };
            bound(|g| g.emit1(Op::RAVEL_INDEX, &[g.input("x", [2, sizes.len()], I64)], &attrs.list()))
        };
        assert_eq!((ravelled(&[3, 5]), ravelled(&[])), (Some(15), Some(1)));
        // The values themselves have none.
        assert_eq!(bound(|g| g.input("x", [4, 7], I64).top_k(2, 1).0), None);
        assert_eq!(bound(|g| g.input("x", [4], I64)), None);
    }

    #[test]
    fn numbers_of_the_graph_are_below_the_largest_one() {
        let most = 53f64.exp2();
        let full = |x: f64| bound(|g| g.full(x, [3], I64));
        assert_eq!([0.0, 5.0, most - 1.0].map(full), [1, 6, 1 << 53].map(Some));
        assert_eq!([-1.0, most, 62f64.exp2()].map(full), [None; 3]);
        let clamp = |(lo, hi): (f64, f64)| bound(|g| g.input("x", [3], I64).clamp(lo, hi));
        assert_eq!([(0.0, 0.0), (0.0, 5.0), (2.0, most - 1.0)].map(clamp), [1, 6, 1 << 53].map(Some));
        assert_eq!([(-1.0, 5.0), (0.0, most), (0.0, f64::INFINITY)].map(clamp), [None; 3]);
        for dtype in [I32, I64] {
            assert_eq!(constant(dtype, &[5, 0, 7, 3]), Some(8));
            assert_eq!(constant(dtype, &[0]), Some(1));
            assert_eq!(constant(dtype, &[-1]), None);
            assert_eq!(constant(dtype, &[4, -1, 5]), None);
        }
        assert_eq!(bound(|g| g.constant(&[1.0], [1])), None);
    }

    #[test]
    fn moves_and_casts_between_integers_keep_a_bound() {
        let cast = |hi: f64, to: DType| bound(|g| g.input("x", [3], I64).clamp(0.0, hi).cast(to));
        let most = f64::from(i32::MAX);
        assert_eq!([cast(5.0, I32), cast(most - 1.0, I32), cast(most, I32)], [Some(6), Some(i32::MAX as u64), None]);
        assert_eq!(bound(|g| g.full(most, [3], I32).cast(I64)), Some(1 << 31));
        // A real number has none.
        assert_eq!([cast(5.0, F64), bound(|g| g.iota(0, [6], F64).cast(I64))], [None; 2]);
        let flips = |n: usize| bound(|g| (0..n).fold(g.iota(0, [6], I64), |x, _| x.flip(0)));
        assert_eq!([flips(1), flips(DEPTH), flips(DEPTH + 1)], [Some(6), Some(6), None]);
        let of_iota = |f: for<'g> fn(Var<'g>) -> Var<'g>| bound(|g| f(g.iota(1, [2, 6], I64)));
        assert_eq!(of_iota(|x| x.reshape([3, 4])), Some(6));
        assert_eq!(of_iota(|x| x.t()), Some(6));
        assert_eq!(of_iota(|x| x.broadcast([5, 2, 6])), Some(6));
        assert_eq!(of_iota(|x| x.narrow(1, 0, 2)), Some(6));
        assert_eq!(of_iota(|x| x.gather(x.g.input("i", [2], I64), 0)), Some(6));
        assert_eq!(of_iota(|x| x * x), None);
    }

    #[test]
    fn each_result_of_a_region_has_its_own_bound() {
        let graph = parse(
            "region @r(%a: i64[2]) {\n  %c = clamp %a lo=0 hi=5\n  %d = clamp %a lo=0 hi=2\n  yield %c, %d\n}\n\
             graph @g {\n  %x = input : i64[2]\n  %y, %z = map %x body=@r\n  return y=%y, z=%z\n}\n",
        )
        .unwrap();
        let view = graph.view();
        let bounds: Vec<_> = view.outputs().iter().map(|&v| index_bound(&view, v)).collect();
        assert_eq!(bounds, [Some(6), Some(3)]);
    }

    #[test]
    fn positions_of_a_max_pool_are_good_in_planes_of_its_size() {
        let g = Builder::new("g");
        let x = g.input("x", [2, 3, 4, 6], F64);
        let [y, at] = x.max_pool2d_with_indices(Pool2d::new([2, 2]));
        let other = x.top_k(1, -1).1;
        let graph = g.finish([y.named("y"), at.named("at"), other.named("other")]).unwrap();
        let view = graph.view();
        let known = |i: usize, area: usize| has_pool_positions(&view, view.outputs()[i], area);
        assert_eq!([known(1, 23), known(1, 24), known(1, 25)], [false, true, true]);
        assert_eq!([known(0, 24), known(2, 24)], [false, false]);
    }
}
