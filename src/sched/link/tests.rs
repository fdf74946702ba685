//! Links of plans by hand, and bodies that do not link.

use super::*;
use crate::kernels::abi::Split;
use crate::nodes::{Builder, DType};
use crate::sched::instructions::{BufKind, Instr, Update};
use crate::sched::plan::Plan;
use crate::sched::planned_body::Extern;
use crate::sched::schedule;
use crate::sched::share::share_tapes_above;
use crate::sched::tests::hand::{CALL, HandPlan, hand_body};
use std::array::from_fn;
use std::sync::Arc;

/// Why a loop does not link inside `depth` loops after `change`; none if it links. No checker looks at it.
fn unlinked(depth: usize, change: fn(&mut PlannedBody)) -> Option<String> {
    let g = Builder::new("loop");
    let (x, h) = (g.input("x", [5, 64, 128], DType::F32), g.input("h", [64, 128], DType::F32));
    let w = g.input("w", [128, 128], DType::F32).exp();
    let (h, _) = g.scan(&[h], &[x], |h, x| (vec![(h[0].matmul(w) + x[0]).tanh().exp()], vec![]));
    let right = schedule(g.finish([h[0], w]).unwrap().view(), 1).unwrap().plan;
    let tapes = share_tapes_above(&right, 0);
    let mut plan: Plan = (*right).clone();
    let mut body: PlannedBody = (*plan.code.loops[0]).clone();
    change(&mut body);
    plan.code.loops[0] = Arc::new(body);
    let (map, mut l) = (LinkMap { externs: Vec::new(), base: 0, at: 0 }, Linked::default());
    l.strides.push([0; DEPTH]);
    let plan = Checked::unproven(plan);
    l.segment(&plan, tapes, &map, depth, find_deaths(&plan)).err()
}

#[test]
fn a_body_outside_its_loop_does_not_link() {
    assert_eq!(unlinked(0, |_| ()), None);
    assert_eq!(unlinked(DEPTH - 1, |_| ()), None);
    let refused = |depth, change, why: &str| {
        let e = unlinked(depth, change).unwrap_or_default();
        assert!(e.contains(why), "{why}: {e:?}");
    };
    refused(DEPTH, |_| (), "deep in one another");
    refused(0, |l| l.externs.truncate(1), "lie in no operand of the loop");
    refused(0, |l| l.base -= 1, "not aligned in its loop");
}

/// The links of `plan`, of which nothing is divided.
fn linked(plan: &Checked) -> Linked {
    link(plan, share_tapes_above(plan, u64::MAX)).unwrap()
}

/// A plan of `n` instructions.
fn idle(n: usize) -> Checked {
    let mut p = HandPlan::new();
    (0..n).for_each(|_| p.call(&CALL));
    p.plan(1)
}

#[test]
fn timestamps_of_a_loop_tell_the_instruction_and_the_iteration() {
    let exit = Some(LoopExit::Flag(FlagBound::None));
    for (reverse, exit, iterations) in [
        (false, None, [Some(0), Some(1), Some(2)]),
        (true, None, [Some(2), Some(1), Some(0)]),
        // Iterations behind the last one have its timestamps.
        (false, exit, [Some(0), Some(1), None]),
    ] {
        let mut p = HandPlan::new();
        p.call(&CALL);
        // Three timestamps: two instructions and a barrier.
        p.call_bodies([PlannedBody { reverse, exit, ..hand_body(idle(2), 3) }], &CALL);
        p.call(&CALL);
        let l = linked(&p.plan(1));
        assert_eq!([0, 1].map(|time| l.instruction_at(time)), [(0, None), (1, None)]);
        for (n, iteration) in iterations.into_iter().enumerate() {
            // The instructions of the body are numbered behind those of the graph. A barrier is the last one's.
            let found = [2, 3, 4].map(|time| l.instruction_at(time + 3 * n));
            assert_eq!(found, [3, 4, 4].map(|i| (i, iteration)), "iteration {n}");
        }
        assert_eq!([11, 12].map(|time| l.instruction_at(time)), [(2, None); 2]);
        let times: Vec<usize> = l.segments[0].calls.iter().map(|c| c.time).collect();
        assert_eq!(times, [0, 1, 11]);
    }
}

#[test]
fn timestamps_of_a_branch_tell_which_branch_and_the_iteration_of_the_loop_around() {
    let mut body = HandPlan::new();
    let branch = |when, n| PlannedBody { when: Some(when), ..hand_body(idle(n), 1) };
    body.call_bodies([branch(true, 1), branch(false, 2)], &CALL);
    body.call(&CALL);
    let mut p = HandPlan::new();
    p.call_bodies([hand_body(body.plan(1), 2)], &CALL);
    let l = linked(&p.plan(1));
    // Instruction 0 is the loop, 1 the choice, 2 the one behind it, 3 the first branch, 4 and 5 the second.
    assert_eq!(l.instruction_at(0), (0, None));
    for n in 0..2 {
        // The branches have 2 and 3 timestamps, so the body has 1 + 2 + 3 + 1 + 1.
        let found = [0, 1, 2, 3, 4, 5, 6, 7].map(|time| l.instruction_at(1 + 8 * n + time));
        assert_eq!(found, [1, 3, 3, 4, 5, 5, 2, 2].map(|i| (i, Some(n))), "iteration {n}");
    }
    assert_eq!(l.nodes.len(), 6);
    assert_eq!(l.segments.iter().map(|s| s.first).collect::<Vec<_>>(), [0, 1, 3, 4]);
}

/// A loop without a bound in another loop: what its last iteration shares with those behind it has no number, not that
/// of the loop around.
#[test]
fn iterations_that_share_timestamps_have_no_number() {
    let exit = Some(LoopExit::Flag(FlagBound::None));
    let mut body = HandPlan::new();
    body.call_bodies([PlannedBody { exit, ..hand_body(idle(2), 3) }], &CALL);
    let mut p = HandPlan::new();
    p.call_bodies([hand_body(body.plan(1), 2)], &CALL);
    let l = linked(&p.plan(1));
    for n in 0..2 {
        // An iteration of the loop around has 1 + 3 · 3 timestamps and that of its barrier.
        let at = 1 + 11 * n;
        assert_eq!(l.instruction_at(at), (1, Some(n)));
        let found = [1, 4, 7].map(|time| l.instruction_at(at + time));
        assert_eq!(found, [Some(0), Some(1), None].map(|iteration| (2, iteration)), "iteration {n}");
    }
}

/// The offset and the strides of each operand of segment `s`.
fn slots(l: &Linked, s: usize) -> Vec<(usize, &[usize])> {
    l.segments[s].slots.iter().map(|o| (o.off, &l.strides[o.moves as usize][..2])).collect()
}

fn pairs_of(all: &[Range<usize>]) -> Vec<(usize, usize)> {
    all.iter().map(|r| (r.start, r.end)).collect()
}

/// A loop of three iterations over slices of 64 bytes of its read, which runs a loop of four over parts of 16 bytes of
/// a slice. Both carry 64 bytes and have a workspace of 64 bytes.
fn nested(reverse: bool, behind_start: bool) -> Checked {
    let all = Extern { buf: 0, outer: Outer::Write(0), sliced: false, behind_start: false };
    let slice = Extern { buf: 1, outer: Outer::Read(0), sliced: true, behind_start: false };
    let mut inner = HandPlan::new();
    let (h, x) = (inner.bytes(0, 64, BufKind::State), inner.bytes(64, 16, BufKind::Input));
    let t = inner.bytes(128, 32, BufKind::Activation);
    inner.call(&Instr { reads: &[x], writes: &[t], ..CALL });
    inner.call(&Instr { reads: &[t, Operand { off: 8, len: 4, ..h }], ..CALL });
    // It begins where the slice does, and has no bytes.
    let none = Extern { buf: inner.buffer(64, 0, BufKind::Input), sliced: false, ..slice };
    let mut plan: Plan = (*inner.plan(1)).clone();
    plan.bytes = 192;
    let externs = vec![all, slice, none];
    let inner = PlannedBody { externs, base: 128, ..hand_body(Checked::unproven(plan), 4) };

    let mut outer = HandPlan::new();
    let (h, x) = (outer.bytes(0, 64, BufKind::State), outer.bytes(64, 64, BufKind::Input));
    let scratch = outer.bytes(192, 64, BufKind::Scratch);
    outer.call_bodies([inner], &Instr { reads: &[x], writes: &[h, scratch], ..CALL });
    let slice = Extern { behind_start, ..slice };
    let outer = PlannedBody { externs: vec![slice, all], base: 128, reverse, ..hand_body(outer.plan(1), 3) };

    let mut p = HandPlan::new();
    let slices = if behind_start { 4 } else { 3 };
    let (xs, h) = (p.bytes(1024, 64 * slices, BufKind::Input), p.bytes(512, 64, BufKind::Activation));
    let scratch = p.bytes(2048, 128, BufKind::Scratch);
    p.call_bodies([outer], &Instr { reads: &[xs], writes: &[h, scratch], ..CALL });
    p.plan(1)
}

#[test]
fn operands_of_bodies_lie_in_those_of_their_loops() {
    for (reverse, behind_start) in [(false, false), (true, false), (false, true), (true, true)] {
        let l = linked(&nested(reverse, behind_start));
        // The slice of the first iteration stands behind what was there before it.
        let x = if behind_start && !reverse { 1088 } else { 1024 };
        let fixed: &[usize] = &[0, 0];
        assert_eq!(slots(&l, 0), [(1024, fixed), (512, fixed), (2048, fixed)]);
        assert!(l.segments[0].slots.iter().all(|o| o.moves == 0), "outside of loops nothing moves");
        // The workspace of the body begins at its byte 128.
        assert_eq!(slots(&l, 1), [(x, &[64, 0][..]), (512, fixed), (2112, fixed)]);
        assert_eq!(slots(&l, 2), [(x, &[64, 16][..]), (2112, fixed), (2112, fixed), (520, fixed)]);
        let bodies: Vec<_> = l.loop_calls.iter().map(|b| (b.depth, b.segment, b.length, b.reverse)).collect();
        assert_eq!(bodies, [(1, 2, 4, false), (0, 1, 3, reverse)]);
        let deaths = [1, 2].map(|s| pairs_of(&l.segments[s].deaths.before));
        assert_eq!(deaths, [vec![(2048, 2176)], vec![(2112, 2176)]]);
        assert_eq!([0, 1].map(|i| pairs_of(l.segments[2].deaths.after(i))), [vec![], vec![(2112, 2144)]]);
        assert_eq!(pairs_of(l.segments[1].deaths.after(0)), [(2112, 2176)]);
    }
}

#[test]
fn addresses_lie_in_an_operand_or_in_the_workspace() {
    let to = |off, stride| ArenaOffset { off, strides: from_fn(|i| if i == 0 { stride } else { 0 }) };
    let externs = vec![MappedExtern { bytes: 0..64, to: to(512, 0) }, MappedExtern { bytes: 64..128, to: to(256, 9) }];
    let map = LinkMap { externs, base: 128, at: 1000 };
    let found = |from: usize, end: usize| map.offset(from..end).ok().map(|o| (o.off, o.strides[0]));
    assert_eq!(
        [(0, 64), (10, 20), (64, 128)].map(|(a, b)| found(a, b)),
        [Some((512, 0)), Some((522, 0)), Some((256, 9))]
    );
    assert_eq!([(128, 130), (140, 150)].map(|(a, b)| found(a, b)), [Some((1000, 0)), Some((1012, 0))]);
    // No bytes lie anywhere.
    assert_eq!([(70, 70), (128, 128)].map(|(a, b)| found(a, b)), [Some((0, 0)); 2]);
    assert_eq!([(60, 70), (120, 140)].map(|(a, b)| found(a, b)), [None; 2]);
    let none = LinkMap { externs: Vec::new(), ..map };
    let why = none.offset(4..8).err();
    assert_eq!(why.as_deref(), Some("bytes 4..8 of a loop's body lie in no operand of the loop"));
}

fn linked_body(when: Option<bool>, exit: Option<LoopExit>) -> LinkedBody {
    let (segment, length, reverse, barriers, team, depth, timestamps) = (0, 3, false, 1, false, 0, 2);
    LinkedBody { segment, length, reverse, when, exit, barriers, team, depth, timestamps }
}

#[test]
fn what_ends_a_loop_bounds_its_iterations() {
    let iterations = |exit, value| linked_body(None, exit).iterations(value);
    let count = |value| iterations(Some(LoopExit::Count(1)), value);
    assert_eq!([-1, 0, 2, 3, 4, i64::MAX].map(count), [None, Some(0), Some(2), Some(3), None, None]);
    let flag = |bound| iterations(Some(LoopExit::Flag(bound)), 1);
    assert_eq!([FlagBound::None, FlagBound::Ends, FlagBound::Stops(3)].map(flag), [Some(usize::MAX), Some(3), Some(3)]);
    assert_eq!(iterations(None, 0), Some(3));
    // It is read 0 of a choice, write 0 of a loop with a flag, and any read of a loop with a number.
    let [reads, writes] = [0, 100].map(|at| [at, at + 1, at + 2].map(|off| OperandRef::new(off, 1, 1, Split::Whole)));
    let decides = |when, exit| linked_body(when, exit).decides(&reads, &writes).map(|o| o.off);
    assert_eq!(decides(None, None), None);
    assert_eq!([true, false].map(|when| decides(Some(when), None)), [Some(0); 2]);
    assert_eq!(decides(None, Some(LoopExit::Flag(FlagBound::Ends))), Some(100));
    assert_eq!([0, 2].map(|k| decides(None, Some(LoopExit::Count(k)))), [Some(0), Some(2)]);
}

#[test]
fn bytes_die_after_their_last_use() {
    let mut p = HandPlan::new();
    let (x, w, s) =
        (p.bytes(0, 64, BufKind::Input), p.bytes(128, 64, BufKind::Param), p.bytes(448, 64, BufKind::State));
    let [a, t] = [192, 256].map(|at| p.bytes(at, 64, BufKind::Activation));
    // No instruction uses this one.
    p.bytes(640, 64, BufKind::Activation);
    // b takes over the bytes of a, and the next value of w those of w. That of s is copied.
    let [b, c] = [192, 320].map(|at| p.bytes(at, 64, BufKind::Activation));
    let (next, other) = (p.bytes(128, 64, BufKind::Activation), p.bytes(576, 64, BufKind::Activation));
    let out = p.bytes(384, 64, BufKind::Output);
    p.call(&Instr { reads: &[x], writes: &[a], ..CALL });
    p.call(&Instr { reads: &[a], writes: &[t, b], ..CALL });
    p.inplace[1] = 1;
    p.call(&Instr { reads: &[b, b], writes: &[c], ..CALL });
    // It changes its own result in place, which another instruction read before.
    p.call(&Instr { reads: &[c], writes: &[c], ..CALL });
    p.inplace[4] = 0;
    p.call(&Instr { reads: &[w, b], writes: &[next, other, out], ..CALL });
    p.inplace[5] = 0;
    p.code.updates = vec![Update { leaf: w.buf, from: next }, Update { leaf: s.buf, from: other }];
    p.code.outputs = vec![out];
    let mut plan: Plan = (*p.plan(1)).clone();
    plan.bytes = 1000;
    plan.foreign.push(70..100);
    let deaths = find_deaths(&Checked::unproven(plan));
    let after: Vec<_> = (0..5).map(|i| pairs_of(deaths.after(i))).collect();
    assert_eq!(after, [vec![], vec![(256, 320)], vec![], vec![(320, 384)], vec![(192, 256), (576, 640)]]);
    assert_eq!(pairs_of(&deaths.before), [(0, 0), (64, 70), (100, 128), (192, 448), (512, 1000)]);
}

/// A next value may be a part of a buffer that lies over its leaf. The buffer is kept; another one dies.
#[test]
fn a_buffer_that_holds_a_next_value_in_its_leaf_is_kept() {
    let mut p = HandPlan::new();
    let other = p.bytes(256, 64, BufKind::Activation);
    let (w, long) = (p.bytes(128, 64, BufKind::Param), p.bytes(64, 128, BufKind::Activation));
    p.call(&Instr { writes: &[other, long], ..CALL });
    p.code.updates = vec![Update { leaf: w.buf, from: Operand { off: 64, len: 64, ..long } }];
    assert_eq!(pairs_of(find_deaths(&p.plan(1)).after(0)), [(256, 320)]);
}

#[test]
fn red_zones_begin_where_buffers_end() {
    let mut p = HandPlan::new();
    let x = p.bytes(64, 64, BufKind::Input);
    p.bytes(0, 64, BufKind::Param);
    let below = p.bytes(64, 64, BufKind::Activation);
    let [first, one, none, last] =
        [(128, 70), (320, 1), (448, 0), (512, 64)].map(|(at, n)| p.bytes(at, n, BufKind::Activation));
    p.call(&Instr { reads: &[x], writes: &[below, first], ..CALL });
    p.call(&Instr { reads: &[first], ..CALL });
    p.call(&Instr { writes: &[none, one, last], ..CALL });
    let mut plan: Plan = (*p.plan(1)).clone();
    plan.bytes = 600;
    let zones = find_red_zones(&Checked::unproven(plan));
    let zones: Vec<_> = zones.iter().map(|all| pairs_of(all)).collect();
    assert_eq!(zones, [vec![(198, 320)], vec![], vec![(321, 448), (576, 600)]]);
    // Where nothing is pinned, the first byte of the arena may be a buffer's. Its zone ends with the arena.
    let mut p = HandPlan::new();
    let y = p.bytes(0, 64, BufKind::Output);
    p.call(&Instr { writes: &[y], ..CALL });
    assert_eq!(pairs_of(&find_red_zones(&p.plan(1))[0]), [(64, 64)]);
}
