//! Loops with wrong plans and wrong tapes, against the checker and the proof of no races.

use crate::arena::tensor::LINE;
use crate::nodes::{Builder, DType, GraphBuf, Loop};
use crate::sched::checker::check_plan;
use crate::sched::instructions::BufKind;
use crate::sched::plan::Plan;
use crate::sched::planned_body::{Outer, PlannedBody};
use crate::sched::races::race_free;
use crate::sched::schedule;
use crate::sched::share::share_tapes_above;
use crate::sched::tape::{Entry, Tapes};
use crate::session::Session;
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
fn changed(f: impl FnOnce(&mut Plan, &mut PlannedBody)) -> Result<(), String> {
    let s = schedule(graph().view(), 2).unwrap();
    let mut plan: Plan = (*s.plan).clone();
    let mut l: PlannedBody = (*plan.code.loops[0]).clone();
    f(&mut plan, &mut l);
    plan.code.loops[0] = Arc::new(l);
    check_plan(plan).map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn a_loop_whose_operands_are_not_its_body_s_is_refused() {
    assert_eq!(changed(|_, _| ()), Ok(()));
    let refused = |f: fn(&mut Plan, &mut PlannedBody), why: &str| {
        let e = changed(f).unwrap_err();
        assert!(e.contains(why), "{e}");
    };
    refused(|_, l| l.base -= LINE, "does not begin behind its externs");
    let smaller = |p: &mut Plan, _: &mut PlannedBody| {
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

/// The stack of a carry's values before the iterations, and that of those behind them, are windows of one buffer.
#[test]
fn both_stacks_of_a_carry_are_one_buffer() {
    for reverse in [false, true] {
        let g = Builder::new("stacks");
        let (x, h0) = (g.input("x", [6, 3, 5], DType::F32), g.input("h0", [3, 5], DType::F32));
        let (h, ys) = g.scan_with(Loop { reverse, ..Loop::default() }, &[h0], &[x], |h, x| {
            let next = h[0] * 0.5 + x[0];
            (vec![next], vec![h[0], x[0] * 3.0, next])
        });
        let outputs = [h[0].named("h"), ys[0].named("before"), ys[1].named("other"), ys[2].named("after")];
        let graph = g.finish(outputs).unwrap();
        let plan = schedule(graph.view(), 1).unwrap().plan;
        let slice = 3 * 5 * size_of::<f32>();
        let sizes: Vec<usize> = plan.code.outputs.iter().map(|o| plan.code.bytes[o.buf as usize] / slice).collect();
        assert_eq!(sizes, [1, 7, 6, 7]);
        assert_eq!(plan.code.outputs[1].buf, plan.code.outputs[3].buf);
        for threads in [1, 3] {
            let mut p = Session::new().threads(threads).compile(&graph).unwrap();
            let xs: Vec<f32> = (0..90).map(|i| i as f32 * 0.25 - 7.0).collect();
            p.values_mut::<f32>("x").unwrap().copy_from_slice(&xs);
            p.values_mut::<f32>("h0").unwrap().fill(3.0);
            for _ in 0..2 {
                p.step().unwrap();
            }
            let (mut h, mut before, mut after) = (vec![3.0; 15], vec![0.0; 90], vec![0.0; 90]);
            for turn in 0..6 {
                let at = 15 * if reverse { 5 - turn } else { turn };
                before[at..at + 15].copy_from_slice(&h);
                h.iter_mut().zip(&xs[at..]).for_each(|(h, x)| *h = *h * 0.5 + x);
                after[at..at + 15].copy_from_slice(&h);
            }
            for (name, want) in [("h", &h), ("before", &before), ("after", &after)] {
                assert_eq!(p.values::<f32>(name).unwrap(), want, "{name}, reverse: {reverse}");
            }
        }
    }
}

/// A stack is part of one such buffer at most: here the values behind the iterations are those of both carries. A loop
/// without iterations has none.
#[test]
fn carries_with_one_next_value_share_its_stack() {
    for length in [4, 0] {
        let g = Builder::new("shared");
        let starts = ["a", "b"].map(|name| g.input(name, [3], DType::F32));
        let x = g.input("x", [length, 3], DType::F32);
        let (h, ys) = g.scan(&starts, &[x], |h, x| {
            let next = h[0] * 0.5 + h[1] + x[0];
            (vec![next, next], vec![h[0], h[1], next])
        });
        let outputs = [h[0].named("h"), ys[0].named("one"), ys[1].named("other"), ys[2].named("after")];
        let mut p = Session::new().compile(&g.finish(outputs).unwrap()).unwrap();
        p.values_mut::<f32>("a").unwrap().fill(2.0);
        p.values_mut::<f32>("b").unwrap().fill(-1.0);
        p.values_mut::<f32>("x").unwrap().fill(0.25);
        p.step().unwrap();
        let (mut h, mut stacks) = ([2.0f32, -1.0], [const { Vec::new() }; 3]);
        for _ in 0..length {
            let next = h[0] * 0.5 + h[1] + 0.25;
            [h[0], h[1], next].iter().zip(&mut stacks).for_each(|(x, stack)| stack.extend([*x; 3]));
            h = [next; 2];
        }
        assert_eq!(p.values::<f32>("h").unwrap(), [h[0]; 3]);
        for (name, want) in ["one", "other", "after"].iter().zip(&stacks) {
            assert_eq!(p.values::<f32>(name).unwrap(), want, "{name} of {length} iterations");
        }
    }
}

#[test]
fn threads_meet_around_iterations() {
    let s = schedule(graph().view(), 3).unwrap();
    let right = share_tapes_above(&s.plan, 0);
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

/// Each instruction of each iteration has a timestamp of its own. A loop, alone or in another, that has more than can
/// be counted is refused with its numbers.
#[test]
fn loops_of_more_instructions_than_can_be_counted_are_refused() {
    let error = |outer: usize, inner: usize| {
        let g = Builder::new("long");
        let x = g.input("x", [4], DType::F32);
        let times = |n: usize| Loop { length: Some(n), ..Loop::default() };
        let (y, _) = g.scan_with(times(outer), &[x], &[], |h, _| {
            let (h, _) = g.scan_with(times(inner), h, &[], |h, _| (vec![h[0].exp()], vec![]));
            (h, vec![])
        });
        schedule(g.finish([y[0]]).unwrap().view(), 1).err().map(|e| e.to_string())
    };
    assert_eq!(error(1 << 20, 1 << 20), None);
    for (outer, inner, told) in [(1, 1usize << 62, 1usize << 62), (1 << 40, 1 << 40, 1 << 40)] {
        let e = error(outer, inner).unwrap();
        let numbers = format!("scan: {told} iterations of ");
        assert!(e.contains(&numbers) && e.contains(" instructions are too many"), "{e}");
    }
}
