//! Wrong plans of the model zoo, in every way that planners were wrong. Which of them are harmful is decided by running
//! them byte by byte (`simulate_plan`); the checker must refuse every one of those.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::TensorDraws;
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::tools::fuzz::seeded_draws;
use arenagrad::tools::fuzz::{PlannedGraph, WRONG_PLANS, simulate_plan};
use arenagrad::tools::ops::index::attrs::Scatter;
use arenagrad::tools::passes::pipeline::run_whole_pipeline;
use arenagrad::tools::sched::checker::check_plan;
use arenagrad::tools::sched::faults::UNSEEN;
use arenagrad::tools::sched::instructions::{BufKind, Instructions, Operand};
use arenagrad::tools::sched::order;
use arenagrad::tools::sched::order::deps::Deps;
use arenagrad::tools::sched::plan::Plan;
use arenagrad::tools::sched::{lower, pack::lines, planned_offsets};

/// States that swap and shift, params that others follow, outputs that are leaves: what needs copies.
fn leaves() -> GraphBuf {
    let g = Builder::new("leaves");
    let x = g.input("x", [40], DType::F32);
    let s: Vec<_> = (0..4).map(|i| g.state(&format!("s{i}"), [40], DType::F32, Init::Zeros)).collect();
    let w = g.param("w", [40], DType::F32, Init::Ones);
    let next = (w * x).tanh();
    g.update(s[0], s[1]);
    g.update(s[1], s[0]);
    g.update(s[2], w);
    g.update(s[3], s[2]);
    g.update(w, next);
    g.output("old", s[3]);
    g.output("both", (next.sin() + w).sum(..));
    g.finish([]).unwrap()
}

fn subject(g: &GraphBuf) -> PlannedGraph {
    let s = PlannedGraph::new(run_whole_pipeline(g).unwrap().view()).unwrap();
    check_plan(s.right.clone()).unwrap();
    assert_eq!(simulate_plan(&s.right).unwrap(), s.want, "the plan computes what the plan without reuse computes");
    s
}

/// What a step that stops at any of its checks would leave of the leaves, told without the checker: whether some check
/// that the step may fail comes after a change of a leaf's byte.
fn tears(p: &Plan) -> bool {
    let code = &p.code;
    let mut leaf = vec![false; p.bytes];
    for b in (0..code.bytes.len()).filter(|&b| matches!(code.kind[b], BufKind::Param | BufKind::State)) {
        leaf[p.offset[b]..p.offset[b] + code.bytes[b]].fill(true);
    }
    let (mut changed, mut good) = (false, Vec::new());
    for i in 0..code.len() {
        let bytes = |o: &Operand| p.offset[o.buf as usize] + o.off..p.offset[o.buf as usize] + o.off + o.bytes();
        let own = code.writes_of(i).iter().any(|o| leaf[bytes(o)].contains(&true));
        for c in code.checks_of(i) {
            let test = (c.buf, c.off, c.bytes, c.looks.below, c.looks.or);
            let known = c.buf != UNSEEN && c.looks.below.is_some() && good.contains(&test);
            if !known && (changed || (own && !c.looks.early)) {
                return true;
            }
            good.push(test);
        }
        changed |= own;
    }
    false
}

/// Look-ups, losses, scatters into states, loops: what may stop a step, beside updates that do not wait for it.
fn stopping() -> GraphBuf {
    let g = Builder::new("stopping");
    let (at, by) = (g.input("at", [6], DType::I32), g.input("by", [6], DType::I32));
    let table = g.param("table", [9, 8], DType::F32, Init::Ones);
    let w = g.param("w", [8, 8], DType::F32, Init::Ones);
    let (s, t) = (g.state("s", [9], DType::F32, Init::Zeros), g.state("t", [40], DType::F32, Init::Zeros));
    let h = table.gather(at, 0).matmul(w).tanh();
    g.update(t, t * 0.5 + 1.0);
    g.update(s, s.scatter_slices(by, h.sum(1), 0, Scatter::Add));
    g.update(w, w * 0.9 + h.sum(..));
    let inside = g.scan(&[h], &[at], |carry, x| {
        let row = table.gather(x[0].reshape([1]), 0);
        (vec![carry[0] + row], vec![])
    });
    g.output("rows", inside.0[0].gather(at, 0));
    g.output("old", table.gather(by, 0));
    g.finish([]).unwrap()
}

#[test]
fn the_checker_refuses_steps_that_tear() {
    let mut graphs: Vec<GraphBuf> = crate::common::zoo::ZOO.iter().map(|m| (m.small)()).collect();
    graphs.push(stopping());
    let (mut tried, mut torn) = (0, 0);
    for (k, g) in graphs.iter().enumerate() {
        let prepared = run_whole_pipeline(g).unwrap();
        let lowered = lower::lower(prepared.view(), 1).unwrap();
        let mut d = TensorDraws(k as u64);
        for _ in 0..if cfg!(debug_assertions) { 6 } else { 40 } {
            // Any order that data allows, planned as if nothing could stop the step.
            let order = shuffled(&lowered.code, &mut d);
            let mut blind = lowered.code.clone();
            (blind.checks, blind.checks_at) = (Vec::new(), vec![0; blind.checks_at.len()]);
            let o = order::score_order(&blind, &order, "any").unwrap();
            let (offset, bytes) = planned_offsets(&o.code, &o.alias, &o.live, lines::pack_lines).unwrap();
            let mut code = o.code;
            let seeing = lowered.code.permuted(&order);
            let copies = code.len() - seeing.len();
            code.checks_at = seeing.checks_at.clone();
            code.checks_at.extend(vec![seeing.checks.len() as u32; copies]);
            code.checks = seeing.checks;
            let p = Plan { code, offset, inplace: o.alias.inplace, bytes, threads: 1, foreign: Vec::new() };
            let (tears, refused) = (tears(&p), check_plan(p).is_err());
            assert_eq!(tears, refused, "graph {k}: a step that tears passes, or a whole one does not");
            (tried, torn) = (tried + 1, torn + usize::from(tears));
        }
        // The planner's own order, with checks in mind, passes.
        let same: Vec<u32> = (0..lowered.code.groups() as u32).collect();
        let o = order::score_order(&lowered.code, &same, "same").unwrap();
        let (offset, bytes) = planned_offsets(&o.code, &o.alias, &o.live, lines::pack_lines).unwrap();
        check_plan(Plan { code: o.code, offset, inplace: o.alias.inplace, bytes, threads: 1, foreign: Vec::new() })
            .unwrap();
    }
    println!("{torn} of {tried} plans tear a step, all refused");
    assert!(torn > tried / 20 && torn < tried, "{torn} of {tried}");
}

/// The groups of `code` in an order that is drawn among those that data and effects allow.
fn shuffled(code: &Instructions, d: &mut TensorDraws) -> Vec<u32> {
    let deps = Deps::new(code);
    let n = code.groups();
    let mut open: Vec<usize> = (0..n).map(|g| deps.before.of(g).len()).collect();
    let mut ready: Vec<u32> = (0..n as u32).filter(|&g| open[g as usize] == 0).collect();
    let mut order = Vec::new();
    while !ready.is_empty() {
        let g = ready.swap_remove((d.bits() % ready.len() as u64) as usize);
        order.push(g);
        for &s in deps.after.of(g as usize) {
            open[s as usize] -= 1;
            if open[s as usize] == 0 {
                ready.push(s);
            }
        }
    }
    assert_eq!(order.len(), n);
    order
}

#[derive(Clone, Copy, Default)]
struct Count {
    tried: usize,
    harmful: usize,
    killed: usize,
    harmless_refused: usize,
}

#[test]
fn the_checker_refuses_every_harmful_plan() {
    let tries = if cfg!(debug_assertions) { 12 } else { 80 };
    let mut graphs: Vec<GraphBuf> = crate::common::zoo::ZOO.iter().map(|m| (m.small)()).collect();
    graphs.push(leaves());
    let mut counts = [Count::default(); WRONG_PLANS.len()];
    for (k, g) in graphs.iter().enumerate() {
        let s = subject(g);
        for (kind, count) in counts.iter_mut().enumerate() {
            let mut d = seeded_draws((k * 100 + kind) as u64);
            for _ in 0..tries {
                let Some(p) = s.wrong_plan(kind, &mut d) else { continue };
                let harmful = simulate_plan(&p).is_none_or(|o| o != s.want);
                let refused = check_plan(p).is_err();
                count.tried += 1;
                count.harmful += usize::from(harmful);
                count.killed += usize::from(harmful && refused);
                count.harmless_refused += usize::from(!harmful && refused);
                assert!(refused || !harmful, "graph {k}: a harmful plan passes: {}", WRONG_PLANS[kind]);
            }
        }
    }
    println!(
        "{:<36} {:>7} {:>8} {:>7} {:>7} {:>17}",
        "wrong plan", "tried", "harmful", "killed", "missed", "harmless, refused"
    );
    for (name, c) in WRONG_PLANS.iter().zip(&counts) {
        let missed = c.harmful - c.killed;
        println!("{name:<36} {:>7} {:>8} {:>7} {missed:>7} {:>17}", c.tried, c.harmful, c.killed, c.harmless_refused);
        assert!(c.harmful > 0, "no mutant of kind {name:?} does harm: it tests nothing");
    }
    let harmful: usize = counts.iter().map(|c| c.harmful).sum();
    println!("{harmful} harmful plans, all refused");
    assert!(harmful >= if cfg!(debug_assertions) { 300 } else { 5000 }, "{harmful} harmful plans");
}
