//! What may stop a step, and what writes leaves, on code by hand.

use super::code::Code;
use super::hand::{CALL, HandPlan};
use crate::arena::tensor::LINE;
use crate::nodes::ir::call::Looks;
use crate::sched::faults::{FaultCheck, FaultCommits, FaultLeaves, UNSEEN, faulting_groups, first_fault_free};
use crate::sched::instructions::{BufKind, Instr};
use crate::sched::plan::Plan;

fn early(mut check: FaultCheck) -> FaultCheck {
    check.looks.early = true;
    check
}

/// Groups that make these checks, of two buffers of indices.
fn checked(groups: impl Fn(FaultCheck, FaultCheck) -> Vec<Vec<FaultCheck>>) -> Code {
    let mut c = Code::new();
    let (i, j) = (c.input(1), c.input(1));
    for checks in groups(c.check(i, Some(8)), c.check(j, Some(8))) {
        c.checking(&[i, j], &[], &checks);
    }
    c
}

/// The first position where leaves may be written, in program order.
fn settled(groups: impl Fn(FaultCheck, FaultCheck) -> Vec<Vec<FaultCheck>>) -> u32 {
    let c = checked(groups);
    let program: Vec<u32> = (0..c.0.len() as u32).collect();
    first_fault_free(&c.0, &program)
}

/// Behind the last instruction that may stop, or at it if it checks before it writes.
#[test]
fn leaves_may_be_written_once_nothing_can_stop_any_more() {
    assert_eq!(settled(|_, _| vec![vec![]; 3]), 0);
    assert_eq!(settled(|i, _| vec![vec![], vec![i], vec![]]), 2);
    assert_eq!(settled(|i, _| vec![vec![], vec![early(i)], vec![]]), 1);
    assert_eq!(settled(|i, j| vec![vec![], vec![early(i), early(j)]]), 1);
    assert_eq!(settled(|i, j| vec![vec![], vec![early(i), j]]), 2);
    assert_eq!(settled(|i, j| vec![vec![], vec![i, early(j)]]), 2);
    assert_eq!(settled(|i, j| vec![vec![i], vec![], vec![early(j)]]), 2);
}

#[test]
fn what_was_checked_before_cannot_stop_the_step() {
    assert_eq!(settled(|i, _| vec![vec![i], vec![], vec![i]]), 1);
    assert_eq!(settled(|i, j| vec![vec![i, j], vec![], vec![early(j)]]), 1);
    // Another bound, one more good value, a part of the indices: other checks.
    let other: [fn(&mut FaultCheck); 4] =
        [|c| c.looks.below = Some(7), |c| c.looks.or = Some(-1), |c| c.off = 4, |c| c.bytes = 4];
    for change in other {
        let changed = |mut c: FaultCheck| {
            change(&mut c);
            c
        };
        assert_eq!(settled(|i, _| vec![vec![i], vec![], vec![changed(i)]]), 3);
    }
    // Other tests, and checks inside loops, may fail each time.
    let unknown: [fn(&mut FaultCheck); 2] = [|c| c.looks.below = None, |c| c.buf = UNSEEN];
    for change in unknown {
        let changed = |mut c: FaultCheck| {
            change(&mut c);
            c
        };
        assert_eq!(settled(|i, _| vec![vec![changed(i)], vec![], vec![changed(i)]]), 3);
    }
}

/// The order counts, not the numbers. In the body of a loop nothing stops the step.
#[test]
fn the_first_to_check_in_an_order_is_the_one_that_may_stop() {
    let mut c = checked(|i, j| vec![vec![j], vec![early(i)], vec![i], vec![]]);
    assert_eq!(first_fault_free(&c.0, &[0, 1, 2, 3]), 1);
    assert_eq!(first_fault_free(&c.0, &[3, 0, 2, 1]), 3);
    assert_eq!(faulting_groups(&c.0), [true, true, false, false]);
    c.0.iterated = true;
    assert_eq!(first_fault_free(&c.0, &[0, 1, 2, 3]), 0);
    assert_eq!(faulting_groups(&c.0), [false; 4]);
}

/// All checks of a group count for the groups behind it.
#[test]
fn a_group_makes_the_checks_of_all_its_calls() {
    let mut c = Code::new();
    let (i, j) = (c.input(1), c.input(1));
    let (at_i, at_j) = (c.check(i, Some(8)), c.check(j, Some(8)));
    for check in [at_i, at_j] {
        c.push(&[i, j], &[], &[]);
        c.0.checks.push(check);
        *c.0.checks_at.last_mut().unwrap() += 1;
    }
    c.close();
    c.checking(&[j], &[], &[at_j]);
    assert_eq!(faulting_groups(&c.0), [true, false]);
}

/// Params and states at bytes 64 to 128, 256 to 320, and 640, made in another order than they lie.
fn two_leaves(iterated: bool) -> Plan {
    let mut h = HandPlan::new();
    let state = h.bytes(4 * LINE, LINE, BufKind::State);
    let param = h.bytes(LINE, LINE, BufKind::Param);
    h.bytes(4 * LINE, 0, BufKind::Param);
    h.bytes(10 * LINE, 1, BufKind::State);
    let x = h.bytes(2 * LINE, LINE, BufKind::Input);
    // In the bytes of the state.
    let next = h.bytes(4 * LINE, LINE, BufKind::Activation);
    let y = h.bytes(3 * LINE, LINE, BufKind::Activation);
    let looks = Looks { read: 0, below: Some(8), or: None, early: false };
    let check = [FaultCheck { buf: x.buf, off: 0, bytes: LINE, looks }];
    h.call(&Instr { reads: &[x], writes: &[y], checks: &check, ..CALL });
    h.call(&Instr { reads: &[x], writes: &[y, next], ..CALL });
    h.call(&Instr { reads: &[x], writes: &[param], checks: &check, ..CALL });
    h.call(&Instr { reads: &[state, param], ..CALL });
    h.code.iterated = iterated;
    (*h.plan(1)).clone()
}

#[test]
fn bytes_of_leaves_are_found_wherever_they_lie() {
    let leaves = FaultLeaves::new(&two_leaves(false));
    for (from, to, met) in [
        (0, 64, false),
        (0, 65, true),
        (100, 100, false),
        (100, 101, true),
        (127, 128, true),
        (128, 256, false),
        (128, 257, true),
        (319, 400, true),
        (320, 640, false),
        (640, 641, true),
        (641, 700, false),
        (0, 1000, true),
    ] {
        assert_eq!(leaves.overlap(&(from..to)), met, "bytes {from} to {to}");
    }
}

#[test]
fn instructions_that_may_stop_and_that_write_leaves_are_known() {
    let commits = FaultCommits::new(&two_leaves(false));
    assert_eq!((commits.stops, commits.writes), (vec![true, false, false, false], vec![false, true, true, false]));
    let commits = FaultCommits::new(&two_leaves(true));
    assert_eq!((commits.stops, commits.writes), (vec![false; 4], vec![false; 4]));
}
