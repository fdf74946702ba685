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
