//! The selective scan of a training step. The forward op keeps the state before every `every`-th step, and the backward
//! op computes the other states from these. Without kept states the backward op would compute each state twice: once to
//! find the states before the stretches, and once inside its stretch.

use super::PACK;
use super::attrs::{SelectiveScanKeepAttrs, SelectiveScanKeptBackwardAttrs};
use super::lower;
use super::selective_scan::{SelectiveScanShape, check_scan_operands, count_state_flops, infer_scan_gradients};
use super::selective_scan_steps::ScanSteps;
use crate::ensure;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use Domain::{Positive, Real, Unit};

/// The shape of the states that are kept, `[batch, stretches, channels, states]`.
fn infer_kept_states(s: &SelectiveScanShape, every: i64) -> Result<[usize; 4], String> {
    ensure!(every > 0, "every={every}; it is the number of steps between two states, at least 1");
    Ok([s.batch, s.steps.div_ceil(every as usize), s.channels, s.states])
}

fn infer_selective_scan_keep(cx: &mut Infer<'_>) -> Result<(), String> {
    let shape = check_scan_operands(cx, 0, 0)?;
    let kept = infer_kept_states(&shape, SelectiveScanKeepAttrs::of(&cx.attrs).every)?;
    cx.same_as(0)?;
    cx.result(cx.dtype(0), &[shape.batch, shape.channels, shape.states])?;
    cx.result(cx.dtype(0), &kept)
}

fn infer_backward_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let SelectiveScanKeptBackwardAttrs { last, every, .. } = SelectiveScanKeptBackwardAttrs::of(&cx.attrs);
    let shape = check_scan_operands(cx, 1 + usize::from(last), 1)?;
    cx.expect_dims(cx.args.len() - 1, "kept", &infer_kept_states(&shape, every)?)?;
    infer_scan_gradients(cx, last, &shape)
}

/// The selective scan that keeps states.
pub const SELECTIVE_SCAN_KEEP: OpDef = OpDef {
    name: "selective_scan_keep",
    doc: "selective_scan, and the h before every `every`-th step: [B,⌈S/every⌉,H,N]",
    arity: Arity::Between(5, 7),
    attrs: SelectiveScanKeepAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED).and(Flags::HEAVY),
    infer: infer_selective_scan_keep,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(|s| {
        let every = SelectiveScanKeepAttrs::of(&s.attrs).every.max(1) as usize;
        ScanSteps::of(s, 0).forward_and_keep(every).into()
    }),
    lower: Lower::Kernel(lower::emit_selective_scan_keep),
    cost: |cx| count_state_flops(cx, 0, 6),
    cases: &[
        Case {
            args: "f[2,5,3] f[2,5,3] f[3,4] f[2,5,4] f[2,5,4]",
            attrs: "d=false h0=false every=2",
            domains: &[Real, Positive, Unit, Real, Real],
        },
        // The last vector is not full, and the last stretch is short.
        Case {
            args: "f[1,5,19] f[1,5,19] f[19,2] f[1,5,2] f[1,5,2] f[19] f[1,19,2]",
            attrs: "d=true h0=true every=3",
            domains: &[Real, Positive, Unit],
        },
        Case {
            args: "f[3,4,2] f[3,4,2] f[2,1] f[3,4,1] f[3,4,1] f[3,2,1]",
            attrs: "d=false h0=true every=4",
            domains: &[Real, Positive, Unit, Real],
        },
        Case {
            args: "f[2,0,3] f[2,0,3] f[3,2] f[2,0,2] f[2,0,2]",
            attrs: "d=false h0=false every=1",
            domains: &[Real, Positive, Unit, Real],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

/// The cotangents of the operands of a selective scan, from the states that [`SELECTIVE_SCAN_KEEP`] kept.
pub const SELECTIVE_SCAN_KEPT_BACKWARD: OpDef = OpDef {
    name: "selective_scan_kept_backward",
    doc: "the results of selective_scan_backward, from its operands and then the kept states; h_0 is not read",
    arity: Arity::Between(7, 10),
    attrs: SelectiveScanKeptBackwardAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED).and(Flags::HEAVY),
    infer: infer_backward_types,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(|s| {
        let SelectiveScanKeptBackwardAttrs { last, every, .. } = SelectiveScanKeptBackwardAttrs::of(&s.attrs);
        let (scan, kept) = (ScanSteps::of(s, 1 + usize::from(last)), s.args[s.args.len() - 1]);
        let before = scan.states_from_kept(kept, every.max(1) as usize);
        scan.backward(before, s.args[0], last.then(|| s.args[1]))
    }),
    lower: Lower::Kernel(lower::emit_selective_scan_kept_backward),
    cost: |cx| count_state_flops(cx, 1, 20),
    cases: &[
        Case {
            args: "f[2,5,3] f[2,5,3] f[2,5,3] f[3,4] f[2,5,4] f[2,5,4] f[2,3,3,4]",
            attrs: "d=false h0=false last=false every=2",
            domains: &[Real, Real, Positive, Unit, Real, Real],
        },
        Case {
            args: "f[1,5,19] f[1,19,2] f[1,5,19] f[1,5,19] f[19,2] f[1,5,2] f[1,5,2] f[19] f[1,19,2] f[1,2,19,2]",
            attrs: "d=true h0=true last=true every=3",
            domains: &[Unit, Unit, Unit, Positive, Unit],
        },
        Case {
            args: "f[3,4,2] f[3,4,2] f[3,4,2] f[2,1] f[3,4,1] f[3,4,1] f[3,2,1] f[3,1,2,1]",
            attrs: "d=false h0=true last=false every=4",
            domains: &[Real, Real, Positive, Unit, Real],
        },
        Case {
            args: "f[2,0,3] f[2,3,2] f[2,0,3] f[2,0,3] f[3,2] f[2,0,2] f[2,0,2] f[3] f[2,0,3,2]",
            attrs: "d=true h0=false last=true every=1",
            domains: &[Real, Real, Real, Positive, Unit, Real],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
