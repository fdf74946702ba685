//! For each invariant of tapes, tapes that break only this one, and the message that refuses them.

use super::hand::hand_tapes;
use super::ops::{FRESH, PICK, REVERSE, one};
use super::random::planned;
use crate::nodes::{Builder, DType, GraphBuf, Init};
use crate::sched::checker::{Checked, check_plan};
use crate::sched::pack::lines;
use crate::sched::races::race_free;
use crate::sched::schedule;
use crate::sched::share::share_tapes_above;
use crate::sched::tape::{Entry, Tapes};

/// A look-up, which may stop a step, and an update that waits for it.
fn stopping() -> GraphBuf {
    let g = Builder::new("g");
    let (x, at) = (g.input("x", [64], DType::F32), g.input("at", [64], DType::I32));
    let w = g.param("w", [64], DType::F32, Init::Ones);
    g.output("y", one(&g, &PICK, &[x, at]));
    g.update(w, one(&g, &REVERSE, &[one(&g, &FRESH, &[w])]));
    g.finish([]).unwrap()
}

/// A loop that all threads run.
fn looping() -> GraphBuf {
    let g = Builder::new("loop");
    let (x, h0) = (g.input("x", [5, 64, 128], DType::F32), g.input("h0", [64, 128], DType::F32));
    let w = g.input("w", [128, 128], DType::F32).exp();
    let (h, _) = g.scan(&[h0], &[x], |h, x| (vec![(h[0].matmul(w) + x[0]).tanh()], vec![]));
    g.finish([h[0], w]).unwrap()
}

/// A choice that all threads run.
fn choosing() -> GraphBuf {
    let g = Builder::new("choice");
    let [x, w] = ["x", "w"].map(|name| g.input(name, [128, 128], DType::F32));
    let on = g.input("on", [], DType::Bool);
    let y = g.cond(on, || vec![x.matmul(w)], || vec![w.matmul(x)]);
    g.finish([y[0]]).unwrap()
}

fn refused(plan: &Checked, right: &Tapes, why: &str, wrong: impl FnOnce(&mut Vec<Vec<Entry>>)) {
    race_free(plan, right).unwrap();
    let mut threads: Vec<Vec<Entry>> = (0..right.threads()).map(|t| right.thread(t).to_vec()).collect();
    wrong(&mut threads);
    let e = race_free(plan, &hand_tapes(&threads, right.inner.clone())).unwrap_err();
    assert!(e.contains(why), "{why}: {e}");
}

#[test]
fn every_refusal_of_tapes_has_tapes_that_break_one_promise() {
    let plan = check_plan(planned(stopping().view(), 2, lines::pack_lines).plan).unwrap();
    let right = share_tapes_above(&plan, 1);
    let wrong = |why: &str, f: &dyn Fn(&mut Vec<Vec<Entry>>)| refused(&plan, &right, why, f);
    wrong("3 threads; the plan has scratch for 2", &|t| t.push(t[0].clone()));
    wrong("thread 1 has other barriers than thread 0", &|t| t[1].retain(|e| !e.barrier));
    wrong("thread 1 runs instruction", &|t| {
        let last = t[1].len() - 1;
        t[1].swap(0, last);
    });
    wrong("out of order", &|t| {
        // In front of a barrier that belongs before it.
        let at = t[0].iter().position(|e| e.barrier).unwrap();
        t[0].swap(at, at + 1);
    });
    wrong("are not run once each", &|t| {
        t[1].pop();
    });
    wrong("are not run once each", &|t| {
        let e = t[0].iter_mut().find(|e| !e.barrier).unwrap();
        e.to += 1;
    });
    // A run of no unit behind a run of all.
    wrong("are not run once each", &|t| {
        let i = t[1].iter().find(|e| !e.barrier).unwrap().instr;
        let all = plan.code.units[i as usize];
        for (t, from) in t.iter_mut().zip([0, all]) {
            let e = t.iter_mut().find(|e| !e.barrier && e.instr == i).unwrap();
            (e.from, e.to) = (from, all);
        }
    });
    // One thread runs the look-up, the other all the rest. They share no byte.
    let pick = plan.code.checks_at.iter().position(|&n| n > 0).unwrap() - 1;
    let whole = |i: usize| Entry { instr: i as u32, barrier: false, from: 0, to: plan.code.units[i] };
    let halves: [Vec<Entry>; 2] = [true, false].map(|own| {
        let all = (0..plan.code.len()).filter(|&i| (i == pick) == own);
        all.map(whole).collect()
    });
    wrong("writes leaves by", &|t| *t = halves.to_vec());
    let barriers = right.thread(0).iter().filter(|e| e.barrier).count();
    for k in 0..barriers {
        wrong("thread", &|t| {
            for t in t.iter_mut() {
                let at: Vec<usize> = (0..t.len()).filter(|&i| t[i].barrier).collect();
                t.remove(at[k]);
            }
        });
    }

    let s = schedule(looping().view(), 2).unwrap();
    let right = share_tapes_above(&s.plan, 0);
    assert_eq!((right.threads(), right.inner[0].threads()), (2, 2));
    let at = |e: &Entry| s.plan.code.has_body(e.instr as usize);
    let open = |t: &mut Vec<Vec<Entry>>| t.iter_mut().for_each(|t| t.retain(|e| !(e.barrier && at(e))));
    refused(&s.plan, &right, "without a barrier", open);
    refused(&s.plan, &right, "are not run once each", |t| t[1].retain(|e| e.barrier || !at(e)));
    let single = share_tapes_above(&s.plan, u64::MAX);
    let alone = Tapes { inner: single.inner.clone(), ..right.clone() };
    let e = race_free(&s.plan, &alone).unwrap_err();
    assert!(e.contains("whose tape is for thread 0"), "{e}");
    let e = race_free(&s.plan, &Tapes { inner: Vec::new(), ..right }).unwrap_err();
    assert!(e.contains("the tapes are of other loops"), "{e}");
    let s = schedule(choosing().view(), 2).unwrap();
    let (right, single) = (share_tapes_above(&s.plan, 0), share_tapes_above(&s.plan, u64::MAX));
    assert_eq!(right.inner.iter().map(Tapes::threads).collect::<Vec<_>>(), [2, 2]);
    race_free(&s.plan, &right).unwrap();
    let inner = vec![right.inner[0].clone(), single.inner[1].clone()];
    let e = race_free(&s.plan, &Tapes { inner, ..right }).unwrap_err();
    assert!(e.contains("are for different numbers of threads"), "{e}");
}

/// If one branch of a choice is worth all threads, the other runs on them, too.
#[test]
fn both_branches_of_a_choice_run_on_the_same_threads() {
    for first in [true, false] {
        let g = Builder::new("choice");
        let [x, w] = ["x", "w"].map(|name| g.input(name, [128, 128], DType::F32));
        let on = g.input("on", [], DType::Bool);
        let branch = |long: bool| vec![if long { x.matmul(w) } else { x.exp() }];
        let y = g.cond(on, || branch(first), || branch(!first));
        let s = schedule(g.finish([y[0]]).unwrap().view(), 2).unwrap();
        let longest = s.plan.code.loops.iter().map(|l| {
            let code = &l.plan.code;
            (0..code.len()).filter(|&i| code.units[i] > 1).map(|i| code.time[i].total).max().unwrap_or(0)
        });
        let times: Vec<u64> = longest.collect();
        assert_ne!(times[0], times[1]);
        let tapes = share_tapes_above(&s.plan, times[0].max(times[1]));
        assert_eq!(tapes.inner.iter().map(Tapes::threads).collect::<Vec<_>>(), [2, 2]);
        race_free(&s.plan, &tapes).unwrap();
    }
}
