//! Kernel calls of recurrences.

use super::SWEEP;
use super::attrs::{
    GatedDeltaAttrs, GatedDeltaBackwardAttrs, SelectiveScanAttrs, SelectiveScanBackwardAttrs, SelectiveScanKeepAttrs,
    SelectiveScanKeptBackwardAttrs,
};
use crate::kernels::cost_model::CostClass;
use crate::kernels::recurrent::gated_delta::{GatedDelta, gated_delta_kernel_for};
use crate::kernels::recurrent::gated_delta_backward::gated_delta_backward_kernel_for;
use crate::kernels::recurrent::selective_scan::selective_scan_kernel_for;
use crate::kernels::recurrent::selective_scan_backward::selective_scan_backward_kernel_for;
use crate::kernels::recurrent::selective_scan_params::SelectiveScan;
use crate::kernels::recurrent::sequence_units::SequenceUnits;
use crate::kernels::reduce;
use crate::kernels::reduce::Reduce;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;

/// The kernel's params for a node, whose operands of the scan begin with `first`. `keep` as in the params.
fn selective_scan_params(cx: &LowerCx<'_>, first: usize, keep: usize) -> SelectiveScan {
    let SelectiveScanAttrs { d, h0 } = SelectiveScanAttrs::of(&cx.attrs());
    let (x, a) = (cx.arg_dims(first), cx.arg_dims(first + 2));
    let keep = keep.min(x[1].max(1));
    SelectiveScan { batch: x[0], steps: x[1], channels: x[2], states: a[1], d, h0, last: first == 2, keep }
}

/// `selective_scan`.
pub fn emit_selective_scan(cx: &mut LowerCx<'_>) -> Result<(), String> {
    emit_forward_scan(cx, 0)
}

/// `selective_scan_keep`.
pub fn emit_selective_scan_keep(cx: &mut LowerCx<'_>) -> Result<(), String> {
    emit_forward_scan(cx, SelectiveScanKeepAttrs::of(&cx.attrs()).every as usize)
}

/// A selective scan that keeps the state before every `keep`-th step, or none if that is 0.
fn emit_forward_scan(cx: &mut LowerCx<'_>, keep: usize) -> Result<(), String> {
    let p = selective_scan_params(cx, 0, keep);
    let (units, scratch) = (p.units(), cx.scratch(cx.dtype(0).size(), p.scratch()));
    let call = Call::new(selective_scan_kernel_for(cx.dtype(0))?, p.to_words(), units.count()).flops(cx.flops());
    let call = call.cost_class(SWEEP).reads_args(cx.args());
    let mut call = call.divided(Buf::Out(0), units.split(p.steps, 1)).divided(Buf::Out(1), units.split(1, p.states));
    if keep > 0 {
        call = call.divided(Buf::Out(2), units.split(p.stretches(), p.states));
    }
    cx.call(call.scratch(scratch));
    Ok(())
}

/// `selective_scan_backward`.
pub fn emit_selective_scan_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    emit_backward_scan(cx, SelectiveScanBackwardAttrs::of(&cx.attrs()).last, 0)
}

/// `selective_scan_kept_backward`.
pub fn emit_selective_scan_kept_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let SelectiveScanKeptBackwardAttrs { last, every, .. } = SelectiveScanKeptBackwardAttrs::of(&cx.attrs());
    emit_backward_scan(cx, last, every as usize)
}

/// All gradients of a selective scan. Units that have some of the channels write dB and dC apart; these are then added.
fn emit_backward_scan(cx: &mut LowerCx<'_>, last: bool, keep: usize) -> Result<(), String> {
    let (p, dtype) = (selective_scan_params(cx, 1 + usize::from(last), keep), cx.dtype(0));
    let (units, sums) = (p.units(), p.batch * p.steps * p.states);
    let parts = match units.sums() {
        1 => [Buf::Out(3), Buf::Out(4)],
        n => [(), ()].map(|()| cx.temp(dtype.size(), n * sums)),
    };
    let scratch = cx.scratch(dtype.size(), p.backward_scratch());
    let call = Call::new(selective_scan_backward_kernel_for(dtype)?, p.to_words(), units.count()).flops(cx.flops());
    let call = call.cost_class(SWEEP).reads_args(cx.args());
    let call = call.divided(Buf::Out(0), units.split(p.steps, 1)).divided(Buf::Out(1), units.split(p.steps, 1));
    let mut call = call.divided(Buf::Out(2), units.split(1, p.states));
    for part in parts {
        call = call.writes(part, p.sums_per_unit());
    }
    if p.d {
        call = call.divided(Buf::Out(5), units.split(1, 1));
    }
    if p.h0 {
        call = call.divided(Buf::Out(5 + usize::from(p.d)), units.split(1, p.states));
    }
    cx.call(call.scratch(scratch));
    sum_channel_parts(cx, parts, &units, sums)
}

/// dB and dC, those that are read: the sums of the parts of the units.
fn sum_channel_parts(cx: &mut LowerCx<'_>, parts: [Buf; 2], units: &SequenceUnits, len: usize) -> Result<(), String> {
    let (sum, dtype) = (Reduce::new(1, units.sums(), len), cx.dtype(0));
    for (part, to) in parts.into_iter().zip([3, 4]).filter(|(_, to)| units.sums() > 1 && cx.used[*to]) {
        let call = Call::new(reduce::sum_for(dtype)?, sum.to_words(), sum.units());
        cx.call(call.reads(&[part]).writes(Buf::Out(to), sum.per_unit()).cost_class(CostClass::REDUCE));
    }
    Ok(())
}

/// The kernel's params for a node, whose operands of the rule begin with `first`.
fn gated_delta_params(cx: &LowerCx<'_>, first: usize) -> GatedDelta {
    let (q, v, state) = (cx.arg_dims(first), cx.arg_dims(first + 2), GatedDeltaAttrs::of(&cx.attrs()).state);
    GatedDelta { batch: q[0], steps: q[1], heads: q[2], keys: q[3], values: v[3], state, last: first == 2 }
}

/// `gated_delta_net`.
pub fn emit_gated_delta_net(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = gated_delta_params(cx, 0);
    let (units, scratch) = (p.units(), cx.scratch(cx.dtype(0).size(), p.scratch()));
    let call = Call::new(gated_delta_kernel_for(cx.dtype(0))?, p.to_words(), units.count()).flops(cx.flops());
    let call = call.cost_class(SWEEP).reads_args(cx.args());
    let call = call.divided(Buf::Out(0), units.split(p.steps, p.values));
    cx.call(call.divided(Buf::Out(1), units.split(1, p.state_len())).scratch(scratch));
    Ok(())
}

/// `gated_delta_net_backward`.
pub fn emit_gated_delta_net_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let GatedDeltaBackwardAttrs { state, last } = GatedDeltaBackwardAttrs::of(&cx.attrs());
    let (p, dtype) = (gated_delta_params(cx, 1 + usize::from(last)), cx.dtype(0));
    let (units, scratch) = (p.units(), cx.scratch(dtype.size(), p.backward_scratch()));
    let call = Call::new(gated_delta_backward_kernel_for(dtype)?, p.to_words(), units.count()).flops(cx.flops());
    let mut call = call.cost_class(SWEEP).reads_args(cx.args());
    for (i, columns) in [p.keys, p.keys, p.values, 1, 1].into_iter().enumerate() {
        call = call.divided(Buf::Out(i), units.split(p.steps, columns));
    }
    if state {
        call = call.divided(Buf::Out(5), units.split(1, p.state_len()));
    }
    cx.call(call.scratch(scratch));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::abi::Split::{self, Columns, PerUnit};
    use crate::nodes::ir::attrs::Attr;
    use crate::nodes::ir::dtype::DType;
    use crate::nodes::ir::opdef::Op;
    use crate::nodes::ops::common::lowered_in_tests::LoweredInTests;
    use Buf::{Out, Temp};

    /// The shapes of x, Δ, A, B, C, D and h_0.
    fn scan_operands([b, s, h, n]: [usize; 4]) -> [Vec<usize>; 7] {
        [vec![b, s, h], vec![b, s, h], vec![h, n], vec![b, s, n], vec![b, s, n], vec![h], vec![b, h, n]]
    }

    fn lowered(op: Op, args: &[Vec<usize>], attrs: &[Attr<'_>], used: &[bool]) -> LoweredInTests {
        let args: Vec<&[usize]> = args.iter().map(|dims| &dims[..]).collect();
        LoweredInTests::of_one_type(DType::F64, op, &args, attrs, used)
    }

    /// Operations and class of the first call.
    fn work(l: &LoweredInTests) -> (u64, CostClass) {
        (l.calls[0].flops, l.calls[0].work)
    }

    /// What a call writes, without its scratch.
    fn results(call: &Call, n: usize) -> Vec<(Buf, Split)> {
        call.writes[..n].to_vec()
    }

    #[test]
    fn scans_are_divided_by_members_or_by_runs_of_channels() {
        let attrs = SelectiveScanAttrs { d: false, h0: false };
        // Three members, and channels of one vector.
        let l = lowered(Op::SELECTIVE_SCAN, &scan_operands([3, 4, 2, 5])[..5], &attrs.list(), &[true; 2]);
        assert_eq!((l.calls.len(), l.calls[0].units, l.calls[0].reads.len()), (1, 3, 5));
        assert_eq!(work(&l), (3 * 4 * 2 * 5 * 6, SWEEP));
        assert_eq!(results(&l.calls[0], 2), [(Out(0), PerUnit(4 * 2)), (Out(1), PerUnit(2 * 5))]);
        // One member, and three vectors of channels.
        let l = lowered(Op::SELECTIVE_SCAN, &scan_operands([1, 4, 35, 5])[..5], &attrs.list(), &[true; 2]);
        let (y, last) = (Columns { row: 35, width: 16 }, Columns { row: 35 * 5, width: 16 * 5 });
        assert_eq!((l.calls.len(), l.calls[0].units), (1, 3));
        assert_eq!(results(&l.calls[0], 2), [(Out(0), y), (Out(1), last)]);
        assert_eq!(l.calls[0].params, [1, 4, 35, 5, 0, 0, 0, 0]);
    }

    #[test]
    fn a_stretch_of_kept_states_is_no_longer_than_the_sequence() {
        for (every, steps, keep, stretches) in [(3, 7, 3, 3), (7, 7, 7, 1), (9, 7, 7, 1), (9, 1, 1, 1), (2, 0, 1, 0)] {
            let attrs = SelectiveScanKeepAttrs { d: true, h0: true, every };
            let l = lowered(Op::SELECTIVE_SCAN_KEEP, &scan_operands([3, steps, 2, 5]), &attrs.list(), &[true; 3]);
            let kept = (Out(2), PerUnit(stretches * 2 * 5));
            assert_eq!(results(&l.calls[0], 3)[2], kept, "{steps} steps, each {every}");
            assert_eq!(l.calls[0].params, [3, steps as u64, 2, 5, 1, 1, 0, keep]);
            assert_eq!(work(&l), (3 * steps as u64 * 2 * 5 * 6, SWEEP));
        }
    }

    #[test]
    fn gradients_of_members_need_no_sums() {
        let attrs = SelectiveScanBackwardAttrs { d: true, h0: true, last: true };
        let own = scan_operands([3, 4, 2, 5]);
        let args = [&[vec![3, 4, 2], vec![3, 2, 5]], &own[..]].concat();
        let l = lowered(Op::SELECTIVE_SCAN_BACKWARD, &args, &attrs.list(), &[true; 7]);
        assert_eq!((l.calls.len(), l.calls[0].units, l.calls[0].reads.len()), (1, 3, 9));
        let want = [4 * 2, 4 * 2, 2 * 5, 4 * 5, 4 * 5, 2, 2 * 5].map(PerUnit);
        let want: Vec<(Buf, Split)> = want.into_iter().enumerate().map(|(i, split)| (Out(i), split)).collect();
        assert_eq!(results(&l.calls[0], 7), want);
        assert_eq!(l.calls[0].params, [3, 4, 2, 5, 1, 1, 1, 0]);
        assert_eq!(work(&l), (3 * 4 * 2 * 5 * 26, SWEEP));
    }

    #[test]
    fn gradients_of_runs_of_channels_are_summed_where_they_are_read() {
        let attrs = SelectiveScanBackwardAttrs { d: false, h0: true, last: false };
        let own = scan_operands([2, 4, 35, 5]);
        let args = [&[vec![2, 4, 35]], &own[..5], &own[6..]].concat();
        let sum = Reduce::new(1, 3, 2 * 4 * 5);
        for (db, dc) in [(true, true), (true, false), (false, true), (false, false)] {
            let used = [true, true, true, db, dc, true];
            let l = lowered(Op::SELECTIVE_SCAN_BACKWARD, &args, &attrs.list(), &used);
            let (columns, states) = (Columns { row: 35, width: 16 }, Columns { row: 35 * 5, width: 16 * 5 });
            let parts = PerUnit(2 * 4 * 5);
            let want = [
                (Out(0), columns),
                (Out(1), columns),
                (Out(2), states),
                (Temp(0), parts),
                (Temp(1), parts),
                (Out(5), states),
            ];
            assert_eq!((l.calls[0].units, results(&l.calls[0], 6)), (3, want.to_vec()));
            assert_eq!(l.sizes()[..2], [(8, 3 * 2 * 4 * 5, false); 2]);
            let sums: Vec<(Buf, Buf)> = l.calls[1..].iter().map(|c| (c.reads[0], c.writes[0].0)).collect();
            let read = [(Temp(0), Out(3), db), (Temp(1), Out(4), dc)];
            let want: Vec<(Buf, Buf)> = read.iter().filter(|r| r.2).map(|r| (r.0, r.1)).collect();
            assert_eq!(sums, want);
            for c in &l.calls[1..] {
                assert_eq!((c.params.clone(), c.units, c.work), (sum.to_words(), sum.units(), CostClass::REDUCE));
                assert_eq!(c.writes, [(c.writes[0].0, PerUnit(sum.per_unit()))]);
            }
        }
    }

    /// Two vectors of channels: two parts are summed, too.
    #[test]
    fn gradients_from_kept_states_are_two_parts_and_their_sums() {
        let attrs = SelectiveScanKeptBackwardAttrs { d: false, h0: false, last: false, every: 3 };
        let own = scan_operands([1, 7, 19, 2]);
        let args = [&[vec![1, 7, 19]], &own[..5], &[vec![1, 3, 19, 2]]].concat();
        let l = lowered(Op::SELECTIVE_SCAN_KEPT_BACKWARD, &args, &attrs.list(), &[true; 5]);
        assert_eq!((l.calls.len(), l.calls[0].units), (3, 2));
        assert_eq!(l.calls[0].params, [1, 7, 19, 2, 0, 0, 0, 3]);
        assert_eq!(work(&l), (7 * 19 * 2 * 20, SWEEP));
        assert_eq!(l.calls[1].params, Reduce::new(1, 2, 7 * 2).to_words());
    }

    #[test]
    fn delta_rules_are_divided_by_members_or_by_heads() {
        let operands = |[b, s, h, n, m]: [usize; 5]| {
            [vec![b, s, h, n], vec![b, s, h, n], vec![b, s, h, m], vec![b, s, h], vec![b, s, h], vec![b, h, n, m]]
        };
        let attrs = GatedDeltaAttrs { state: false };
        let l = lowered(Op::GATED_DELTA_NET, &operands([2, 4, 1, 3, 5])[..5], &attrs.list(), &[true; 2]);
        assert_eq!((l.calls.len(), l.calls[0].units), (1, 2));
        assert_eq!(results(&l.calls[0], 2), [(Out(0), PerUnit(4 * 5)), (Out(1), PerUnit(3 * 5))]);
        assert_eq!(l.calls[0].params, [2, 4, 1, 3, 5, 0, 0]);
        assert_eq!(work(&l), (2 * 4 * 3 * 5 * 8, SWEEP));
        let attrs = GatedDeltaBackwardAttrs { state: true, last: true };
        let own = operands([1, 4, 2, 3, 5]);
        let args = [&[vec![1, 4, 2, 5], vec![1, 2, 3, 5]], &own[..]].concat();
        let l = lowered(Op::GATED_DELTA_NET_BACKWARD, &args, &attrs.list(), &[true; 6]);
        let by_head = |width: usize| Columns { row: 2 * width, width };
        let want = [3, 3, 5, 1, 1, 15].map(by_head);
        let want: Vec<(Buf, Split)> = want.into_iter().enumerate().map(|(i, split)| (Out(i), split)).collect();
        assert_eq!((l.calls[0].units, results(&l.calls[0], 6)), (2, want));
        assert_eq!(l.calls[0].params, [1, 4, 2, 3, 5, 1, 1]);
        assert_eq!(work(&l), (4 * 2 * 3 * 5 * 32, SWEEP));
    }
}
