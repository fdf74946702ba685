//! Kernel calls of pools.

use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::pool;
use crate::kernels::pool::PoolGeom;
use crate::kernels::window::Units;
use crate::kernels::window::WindowGeometry;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::common::window_attrs::WindowAttrs;
use crate::nodes::ops::common::window_geometry::first_entries;
use crate::nodes::ops::index::index_bounds::has_pool_positions;
use crate::nodes::ops::pool::attrs::{AvgPoolAttrs, AvgPoolBackwardAttrs, SumPoolAttrs, SumPoolBackwardAttrs};
use crate::nodes::ops::pool::last_two_dims;

/// The kernels' parameters of a pool of `[n, c, …]`.
pub(in crate::nodes::ops) fn pool_geom(nc: &[usize], windows: WindowGeometry<2>) -> PoolGeom {
    let [n, c] = first_entries(nc);
    PoolGeom { n, c, windows }
}

/// `max_pool2d`; positions are not written if no instruction reads them.
pub fn emit_max_pool2d(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(0);
    let g = pool_geom(&d, WindowAttrs::of(&cx.attrs()).over(last_two_dims(&d)));
    let units = g.y_units();
    let kernel = pool::max_pool2d_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, g.to_words(), units.count).flops(cx.flops()).cost_class(CostClass::POOL);
    let call = call.reads_args(1).writes(Buf::Out(0), units.per_unit);
    cx.call(if cx.used[1] { call.writes(Buf::Out(1), units.per_unit) } else { call });
    Ok(())
}

/// A geometry of windows with the given plane and number of windows: all that moving between them depends on.
pub(in crate::nodes::ops) fn moving_geom(nc: &[usize], plane: [usize; 2], count: [usize; 2]) -> PoolGeom {
    let kernel = [0, 1].map(|a| plane[a].saturating_sub(count[a]) + 1);
    let more = [0, 1].map(|a| count[a].saturating_sub(plane[a]));
    let pad = more.map(|n| [0, n]);
    pool_geom(nc, WindowGeometry { pad, ..WindowGeometry::new(plane, kernel) })
}

/// `max_pool2d_backward`.
pub fn emit_max_pool2d_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (dy, dx) = (cx.arg_dims(0), cx.out_dims(0));
    let g = moving_geom(&dy, last_two_dims(&dx), last_two_dims(&dy));
    let units = g.x_units();
    let kernel = pool::max_pool2d_backward_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, g.to_words(), units.count).flops(cx.flops()).cost_class(CostClass::POOL);
    push_moves(cx, call.writes(Buf::Out(0), units.per_unit), last_two_dims(&dx));
    Ok(())
}

/// Adds `call`, which moves between windows and planes by positions in the planes, its second operand.
fn push_moves(cx: &mut LowerCx<'_>, call: Call, plane: [usize; 2]) {
    let area = plane.iter().product();
    let call = call.reads_args(2).looks(1, area).or(-1);
    let sure = has_pool_positions(&cx.graph, cx.graph.args_of(cx.node)[1], area);
    cx.call(if sure { call.sure() } else { call });
}

/// `max_pool2d_gather`.
pub fn emit_max_pool2d_gather(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (x, y) = (cx.arg_dims(0), cx.out_dims(0));
    let g = moving_geom(&x, last_two_dims(&x), last_two_dims(&y));
    let units = g.y_units();
    let kernel = pool::max_pool2d_gather_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, g.to_words(), units.count).flops(cx.flops()).cost_class(CostClass::POOL);
    push_moves(cx, call.writes(Buf::Out(0), units.per_unit), last_two_dims(&x));
    Ok(())
}

fn push_mean(cx: &mut LowerCx<'_>, kernel: Kernel, g: &PoolGeom, units: Units, count_pad: bool) -> Result<(), String> {
    let flags = if count_pad { pool::COUNT_PAD } else { 0 };
    let call = Call::new(kernel, [&g.to_words()[..], &[flags]].concat(), units.count)
        .flops(cx.flops())
        .cost_class(CostClass::POOL);
    cx.call(call.reads_args(1).writes(Buf::Out(0), units.per_unit));
    Ok(())
}

/// `avg_pool2d`.
pub fn emit_avg_pool2d(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (d, a) = (cx.arg_dims(0), AvgPoolAttrs::of(&cx.attrs()));
    let g = pool_geom(&d, a.windows().over(last_two_dims(&d)));
    let kernel = pool::avg_pool2d_kernel_for(cx.dtype(0))?;
    push_mean(cx, kernel, &g, g.y_units(), a.count_include_pad)
}

/// `avg_pool2d_backward`.
pub fn emit_avg_pool2d_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (d, a) = (cx.out_dims(0), AvgPoolBackwardAttrs::of(&cx.attrs()));
    let g = pool_geom(&d, a.windows().over(last_two_dims(&d)));
    let kernel = pool::avg_pool2d_backward_kernel_for(cx.dtype(0))?;
    push_mean(cx, kernel, &g, g.x_units(), a.count_include_pad)
}

/// A pool of sums with these windows, from or to planes.
fn push_sum(cx: &mut LowerCx<'_>, kernel: Kernel, g: &PoolGeom, units: Units) -> Result<(), String> {
    let call = Call::new(kernel, [&g.to_words()[..], &[pool::SUM]].concat(), units.count)
        .flops(cx.flops())
        .cost_class(CostClass::POOL);
    cx.call(call.reads_args(1).writes(Buf::Out(0), units.per_unit));
    Ok(())
}

/// `sum_pool2d`.
pub fn emit_sum_pool2d(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(0);
    let g = pool_geom(&d, SumPoolAttrs::of(&cx.attrs()).windows().over(last_two_dims(&d)));
    push_sum(cx, pool::avg_pool2d_kernel_for(cx.dtype(0))?, &g, g.y_units())
}

/// `sum_pool2d_backward`.
pub fn emit_sum_pool2d_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.out_dims(0);
    let g = pool_geom(&d, SumPoolBackwardAttrs::of(&cx.attrs()).windows().over(last_two_dims(&d)));
    push_sum(cx, pool::avg_pool2d_backward_kernel_for(cx.dtype(0))?, &g, g.x_units())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::ids::Id;
    use crate::nodes::ir::builder::Builder;
    use crate::nodes::ir::call::Looks;
    use crate::nodes::ir::dtype::DType::{F64, I32};
    use crate::nodes::ir::opdef::Op;
    use crate::nodes::ops::common::lowered_in_tests::LoweredInTests;
    use crate::nodes::ops::pool::attrs::MaxPoolBackwardAttrs;
    use crate::nodes::ops::pool::pool_options::Pool2d;
    use Buf::{Arg, Out};

    const X: [usize; 4] = [2, 3, 4, 6];
    const Y: [usize; 4] = [2, 3, 2, 3];

    /// Windows of two rows and three columns, a row above and a column to the right being padding.
    fn windows() -> WindowAttrs {
        WindowAttrs { kernel: vec![2, 3], stride: vec![2, 2], pad: vec![1, 0, 0, 1], dilation: vec![1, 1] }
    }

    /// Their words, over planes of [`X`].
    const WORDS: [u64; 14] = [2, 3, 4, 6, 2, 3, 2, 2, 1, 0, 0, 1, 1, 1];

    /// What the only call reads and writes.
    fn operands(l: &LoweredInTests) -> (Vec<Buf>, Vec<Buf>) {
        assert_eq!((l.calls.len(), l.calls[0].work), (1, CostClass::POOL));
        (l.calls[0].reads.clone(), l.calls[0].writes.iter().map(|w| w.0).collect())
    }

    #[test]
    fn positions_of_maxima_are_written_if_they_are_read() {
        for (used, outs) in [([true, true], vec![Out(0), Out(1)]), ([true, false], vec![Out(0)])] {
            let l = LoweredInTests::of_one_type(F64, Op::MAX_POOL2D, &[&X], &windows().list(), &used);
            assert_eq!(operands(&l), (vec![Arg(0)], outs));
            assert_eq!(l.calls[0].params, WORDS);
        }
    }

    #[test]
    fn moves_between_planes_and_windows_check_their_positions() {
        let looks = |area| Some(Looks { read: 1, below: Some(area), or: Some(-1), early: false });
        let places = |d: [usize; 4], in_hw: [i64; 2]| {
            let attrs = MaxPoolBackwardAttrs { in_hw: in_hw.to_vec() };
            LoweredInTests::of(Op::MAX_POOL2D_BACKWARD, &[(&d[..], F64), (&d[..], I32)], &attrs.list(), &[true])
        };
        let gathered = LoweredInTests::of(Op::MAX_POOL2D_GATHER, &[(&X[..], F64), (&Y[..], I32)], &[], &[true]);
        // As many windows as there are places for windows of three rows and four columns.
        for l in [places(Y, [4, 6]), gathered] {
            assert_eq!(operands(&l), (vec![Arg(0), Arg(1)], vec![Out(0)]));
            assert_eq!(
                (l.calls[0].looks, &l.calls[0].params[..]),
                (looks(24), &[2, 3, 4, 6, 3, 4, 1, 1, 0, 0, 0, 0, 1, 1][..])
            );
        }
        // More windows than places: the rest is padding.
        let l = places([1, 2, 3, 4], [2, 2]);
        assert_eq!(
            (l.calls[0].looks, &l.calls[0].params[..]),
            (looks(4), &[1, 2, 2, 2, 1, 1, 1, 1, 0, 1, 0, 2, 1, 1][..])
        );
    }

    #[test]
    fn positions_that_a_pool_found_need_no_check() {
        let g = Builder::new("found");
        let [y, at] = g.input("x", X, F64).max_pool2d_with_indices(Pool2d::new(2));
        let dx = g.emit1(Op::MAX_POOL2D_BACKWARD, &[y, at], &MaxPoolBackwardAttrs { in_hw: vec![4, 6] }.list());
        let graph = g.finish([dx]).unwrap();
        let view = graph.view();
        let node = view.region_nodes(view.entry()).find(|n| view.op[n.at()] == Op::MAX_POOL2D_BACKWARD).unwrap();
        let mut cx = LowerCx::new(view, node, &[true]);
        emit_max_pool2d_backward(&mut cx).unwrap();
        assert_eq!((cx.calls.len(), cx.calls[0].looks), (1, None));
    }

    #[test]
    fn means_and_sums_say_what_they_divide_by() {
        let WindowAttrs { kernel, stride, pad, .. } = windows();
        let in_hw = vec![4, 6];
        let check = |l: LoweredInTests, flag: u64| {
            assert_eq!(operands(&l), (vec![Arg(0)], vec![Out(0)]));
            assert_eq!(l.calls[0].params, [&WORDS[..], &[flag]].concat());
        };
        for (count_include_pad, flag) in [(true, pool::COUNT_PAD), (false, 0)] {
            let attrs = AvgPoolAttrs::new(windows(), count_include_pad);
            check(LoweredInTests::of_one_type(F64, Op::AVG_POOL2D, &[&X], &attrs.list(), &[true]), flag);
            let (in_hw, kernel, stride, pad) = (in_hw.clone(), kernel.clone(), stride.clone(), pad.clone());
            let attrs = AvgPoolBackwardAttrs { in_hw, kernel, stride, pad, count_include_pad };
            check(LoweredInTests::of_one_type(F64, Op::AVG_POOL2D_BACKWARD, &[&Y], &attrs.list(), &[true]), flag);
        }
        let attrs = SumPoolAttrs::new(windows());
        check(LoweredInTests::of_one_type(F64, Op::SUM_POOL2D, &[&X], &attrs.list(), &[true]), pool::SUM);
        let attrs = SumPoolBackwardAttrs { in_hw, kernel, stride, pad };
        check(LoweredInTests::of_one_type(F64, Op::SUM_POOL2D_BACKWARD, &[&Y], &attrs.list(), &[true]), pool::SUM);
    }
}
