//! Loops with wrong plans and wrong tapes, against the checker and the proof of no races.

use crate::arena::tensor::LINE;
use crate::nodes::{Builder, DType, GraphBuf};
use crate::sched::checker::{Plan, check_plan};
use crate::sched::instructions::BufKind;
use crate::sched::planned_loop::{Outer, PlannedLoop};
use crate::sched::races::race_free;
use crate::sched::schedule;
use crate::sched::share::shared_tapes_above;
use crate::sched::tape::{Entry, Tapes};
use std::sync::Arc;

/// A loop over products, with a carry, a constant, a stacked input and a stacked result.
fn graph() -> GraphBuf {
    let g = Builder::new("loop");
    let (x, h0) = (g.input("x", [5, 64, 128], DType::F32), g.input("h0", [64, 128], DType::F32));
    let w = g.input("w", [128, 128], DType::F32).exp();
    let (h, y) = g.scan(&[h0], &[x], |h, x| {
        let h = (h[0].matmul(w) + x[0]).tanh();
        (vec![h], vec![h.sum([1])])
    });
    g.finish([h[0], y[0], w]).unwrap()
}

/// The plan of [`graph`] with its loop, and maybe itself, changed.
fn changed(f: impl FnOnce(&mut Plan, &mut PlannedLoop)) -> Result<(), String> {
    let s = schedule(graph().view(), 2).unwrap();
    let mut plan: Plan = (*s.plan).clone();
    let mut l: PlannedLoop = (*plan.code.loops[0]).clone();
    f(&mut plan, &mut l);
    plan.code.loops[0] = Arc::new(l);
    check_plan(plan).map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn a_loop_whose_operands_are_not_its_body_s_is_refused() {
    assert_eq!(changed(|_, _| ()), Ok(()));
    let refused = |f: fn(&mut Plan, &mut PlannedLoop), why: &str| {
        let e = changed(f).unwrap_err();
        assert!(e.contains(why), "{e}");
    };
    refused(|_, l| l.base -= LINE, "does not begin behind its externs");
    let smaller = |p: &mut Plan, _: &mut PlannedLoop| {
        let i = (0..p.code.len()).find(|&i| p.code.has_body(i)).unwrap();
        let o = &mut p.code.writes[p.code.writes_at[i + 1] as usize - 1];
        o.len -= LINE;
        p.code.bytes[o.buf as usize] -= LINE;
    };
    refused(smaller, "bytes of workspace and has");
    refused(|_, l| l.length += 1, "does not fit its operand");
    refused(|_, l| l.externs[0].outer = Outer::Read(0), "the body writes what the loop reads");
    refused(|_, l| l.externs[0].outer = Outer::Read(99), "is no operand of the loop");
    refused(|_, l| l.externs.truncate(1), "are not what is there before it");
    refused(|_, l| l.externs.push(l.externs[0]), "does not fit its operand");
}

/// The slot of a buffer that does not change in the loop is not used again inside it (PTOAS 913).
#[test]
fn the_place_of_what_does_not_change_is_not_used_again() {
    let s = schedule(graph().view(), 1).unwrap();
    let body = &s.plan.code.loops[0].plan;
    let of = |kind: BufKind| (0..body.code.kind.len()).find(|&b| body.code.kind[b] == kind).unwrap();
    let (constant, temporary) = (of(BufKind::Input), of(BufKind::Activation));
    let mut wrong: Plan = (**body).clone();
    assert!(check_plan(wrong.clone()).is_ok());
    wrong.offset[temporary] = wrong.offset[constant];
    let e = check_plan(wrong).unwrap_err().to_string();
    assert!(e.contains("overlaps") || e.contains("was overwritten"), "{e}");
}

/// A carry that is read after its next value is made keeps its old value until then.
#[test]
fn a_carry_waits_for_its_readers() {
    let g = Builder::new("late");
    let (x, h0) = (g.input("x", [5, 16, 16], DType::F32), g.input("h0", [16, 16], DType::F32));
    let (h, y) = g.scan(&[h0], &[x], |h, x| {
        let next = (h[0] * x[0]).tanh();
        let late = h[0].matmul(next);
        (vec![next], vec![late])
    });
    let graph = g.finish([h[0], y[0]]).unwrap();
    let s = schedule(graph.view(), 1).unwrap();
    let body = &s.plan.code.loops[0].plan;
    let carry = body.code.kind.iter().position(|&k| k == BufKind::State).unwrap();
    let update = body.code.updates.iter().find(|u| u.leaf as usize == carry).unwrap();
    assert_ne!(body.offset[update.from.buf as usize], body.offset[carry], "the next value is made beside the carry");
    let mut wrong: Plan = (**body).clone();
    wrong.offset[update.from.buf as usize] = wrong.offset[carry];
    assert!(check_plan(wrong).is_err());
}

#[test]
fn threads_meet_around_iterations() {
    let s = schedule(graph().view(), 3).unwrap();
    let right = shared_tapes_above(&s.plan, 0);
    assert_eq!((right.threads(), right.inner[0].threads()), (3, 3));
    race_free(&s.plan, &right).unwrap();
    let without = |tapes: &Tapes, gone: &dyn Fn(&Entry) -> bool| {
        let counts: Vec<u32> = (0..3).map(|t| tapes.thread(t).iter().filter(|e| !gone(e)).count() as u32).collect();
        let mut t = tapes.clone();
        t.entries.retain(|e| !gone(e));
        t.at = (0..=3).map(|n| counts[..n].iter().sum()).collect();
        t
    };
    let e = race_free(&s.plan, &without(&right, &|e| e.barrier && s.plan.code.has_body(e.instr as usize)));
    assert!(e.unwrap_err().contains("without a barrier"));
    let inner = without(&right.inner[0], &|e| e.barrier);
    let e = race_free(&s.plan, &Tapes { inner: vec![inner], ..right.clone() });
    assert!(e.unwrap_err().contains("without a barrier between"));
    let e = race_free(&s.plan, &Tapes { inner: Vec::new(), ..right.clone() });
    assert!(e.unwrap_err().contains("other loops"));
}
