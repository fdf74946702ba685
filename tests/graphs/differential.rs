//! One step, many plans: the small models of the zoo compute the same bits without reuse, as planned, upside down, in
//! random legal layouts, poisoned, in any legal order that a rule makes, and on more threads.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::TensorDraws;
use arenagrad::error::Result;
use arenagrad::graph::{DType, Graph};
use arenagrad::op::Op;
use arenagrad::tools::arena::Value;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::arena::tensor::TensorArena;
use arenagrad::tools::ops::constant::attrs::ConstantAttrs;
use arenagrad::tools::passes::pipeline::{self, run_whole_pipeline};
use arenagrad::tools::passes::remat;
use arenagrad::tools::sched::checker::{Checked, check_plan};
use arenagrad::tools::sched::exec::{Exec, ThreadState};
use arenagrad::tools::sched::instructions::BufKind;
use arenagrad::tools::sched::intervals::Intervals;
use arenagrad::tools::sched::lower::{Lowered, lower};
use arenagrad::tools::sched::order::deps::Deps;
use arenagrad::tools::sched::order::list::order_by_rule;
use arenagrad::tools::sched::order::{self, CANDIDATES, Ordered};
use arenagrad::tools::sched::pack::{Packing, greedy, lines};
use arenagrad::tools::sched::plan::Plan;
use arenagrad::tools::sched::{planned_offsets, share, team::Team};

type Pack<'a> = &'a dyn Fn(&Intervals) -> Result<Packing>;

fn planned(o: &Ordered, threads: usize, pack: Pack<'_>) -> Checked {
    let (offset, bytes) = planned_offsets(&o.code, &o.alias, &o.live, pack).unwrap();
    check_plan(Plan {
        code: o.code.clone(),
        offset,
        inplace: o.alias.inplace.clone(),
        bytes,
        threads,
        foreign: Vec::new(),
    })
    .unwrap()
}

/// First bytes of a leaf: labels are classes, numbers are small.
fn start(g: &Graph<'_>, v: Value, seed: usize) -> Vec<u8> {
    let n = g.numel(v);
    let mut d = TensorDraws(seed as u64);
    match g.dtype[v.at()] {
        DType::F32 => (0..n).flat_map(|_| (d.unit() as f32 - 0.5).to_le_bytes()).collect(),
        DType::I32 => (0..n).flat_map(|_| ((d.bits() % 3) as i32).to_le_bytes()).collect(),
        _ => (0..g.bytes(v)).map(|_| d.bits() as u8).collect(),
    }
}

/// The bytes of all outputs and leaves after three steps.
fn outcome(g: &Graph<'_>, l: &Lowered, plan: &Checked, poisoned: bool) -> Vec<Vec<u8>> {
    let mut arena = TensorArena::new(plan.bytes).unwrap();
    let at = |v: Value| {
        let slice = l.slices[v.at()];
        let from = plan.offset[slice.buf as usize] + slice.off;
        from..from + g.bytes(v)
    };
    let leaves: Vec<Value> = g.leaves().map(|l| l.value).collect();
    for (i, &v) in leaves.iter().enumerate() {
        arena.bytes_mut()[at(v)].copy_from_slice(&start(g, v, i));
    }
    for n in g.region_nodes(g.entry()).filter(|n| g.op[n.at()] == Op::CONSTANT) {
        arena.bytes_mut()[at(g.out(n))].copy_from_slice(&ConstantAttrs::of(&g.attrs(n)).data);
    }
    // Everything that has more than one unit is shared among threads.
    let tapes = share::share_tapes_above(plan, if plan.threads > 1 { 0 } else { u64::MAX });
    let exec = Exec::new(plan, tapes).unwrap();
    let lane = ThreadState::default();
    if plan.threads > 1 {
        let mut team = Team::new(exec.threads()).unwrap();
        (0..3).for_each(|_| team.step(&exec, &mut arena).unwrap());
    } else {
        for _ in 0..3 {
            if poisoned { exec.step_poisoned(&mut arena, &lane) } else { exec.step(&mut arena, &lane) }.unwrap();
        }
    }
    let outs = plan.code.outputs.iter().map(|o| {
        let from = plan.offset[o.buf as usize] + o.off;
        arena.bytes()[from..from + o.bytes()].to_vec()
    });
    outs.chain(leaves.iter().map(|&v| arena.bytes()[at(v)].to_vec())).collect()
}

fn apart(v: &Intervals) -> Result<Packing> {
    lines::pack_lines_with(v, greedy::place_apart)
}

/// The packed plan upside down.
fn reversed(v: &Intervals) -> Result<Packing> {
    let mut o = lines::pack_lines(v)?;
    for (at, lines) in o.at.iter_mut().zip(&v.lines) {
        *at = o.height.saturating_sub(*at + u64::from(*lines));
    }
    Ok(o)
}

/// Buffers in random order, each in a random one of the gaps that hold it, a line or more above its neighbour.
fn random(v: &Intervals, seed: u64) -> Result<Packing> {
    let mut d = TensorDraws(seed);
    let mut order: Vec<usize> = (0..v.len()).filter(|&b| v.lines[b] > 0 && v.first[b] < v.end[b]).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, (d.bits() % (i as u64 + 1)) as usize);
    }
    let size = |b: usize| u64::from(v.lines[b]);
    let (mut at, mut height) = (vec![0u64; v.len()], 0);
    let mut placed: Vec<usize> = Vec::new();
    for b in order {
        let mut near: Vec<usize> = placed.iter().copied().filter(|&p| v.overlap(b, p)).collect();
        near.sort_by_key(|&p| at[p]);
        let (mut low, mut gaps) = (0, Vec::new());
        for p in near {
            if at[p] >= low + size(b) {
                gaps.push((low, at[p] - size(b)));
            }
            low = low.max(at[p] + size(p));
        }
        gaps.push((low, low + 3));
        let (from, to) = gaps[(d.bits() % gaps.len() as u64) as usize];
        at[b] = from + d.bits() % (to - from + 1);
        height = height.max(at[b] + size(b));
        placed.push(b);
    }
    lines::pack_lines_with(v, |_| (at.clone(), height))
}

#[test]
fn every_plan_of_every_model_computes_the_same_bits() {
    for m in crate::common::zoo::ZOO {
        let prepared = run_whole_pipeline((m.small)().view()).unwrap();
        let g = prepared.view();
        let l = lower(g, 1).unwrap();
        let o = order::best_order(&l.code).unwrap();
        let want = outcome(&g, &l, &planned(&o, 1, &apart), false);
        let all = want.iter().flatten().count();
        assert!(all > 0 && want.iter().flatten().any(|&b| b != 0), "{}: nothing was computed", m.name);
        let packs: [(&str, Pack<'_>); 5] = [
            ("planned", &lines::pack_lines),
            ("reversed", &reversed),
            ("random 1", &|v| random(v, 1)),
            ("random 2", &|v| random(v, 2)),
            ("apart", &apart),
        ];
        for (name, pack) in packs {
            let p = planned(&o, 1, pack);
            for poisoned in [false, true] {
                assert!(outcome(&g, &l, &p, poisoned) == want, "{}: {name}, poisoned: {poisoned}", m.name);
            }
        }
        let d = Deps::new(&l.code);
        for &(name, rule) in CANDIDATES {
            let o = order::score_order(&l.code, &order_by_rule(&l.code, &d, rule), name).unwrap();
            assert!(outcome(&g, &l, &planned(&o, 1, &lines::pack_lines), true) == want, "{}: order {name}", m.name);
        }
        for threads in [2, 3, 7] {
            let l = lower(g, threads).unwrap();
            let o = order::best_order(&l.code).unwrap();
            let got = outcome(&g, &l, &planned(&o, threads, &lines::pack_lines), false);
            assert!(got == want, "{}: {threads} threads", m.name);
        }
    }
}

/// What is in place must be what the code says: out of place, the same bits come out.
#[test]
fn in_place_and_out_of_place_agree() {
    for m in crate::common::zoo::ZOO {
        let prepared = run_whole_pipeline((m.small)().view()).unwrap();
        let g = prepared.view();
        let l = lower(g, 1).unwrap();
        let with = order::best_order(&l.code).unwrap();
        let mut bare = l.code.clone();
        for i in 0..bare.len() {
            // Pairs on one buffer are how a node goes on with what it wrote, and leaves are updated in place.
            let own: Vec<bool> = bare
                .pairs_of(i)
                .iter()
                .map(|&(r, w)| {
                    let (r, w) = (bare.reads_of(i)[usize::from(r)], bare.writes_of(i)[usize::from(w)]);
                    r.buf == w.buf || bare.kind[r.buf as usize] != BufKind::Activation
                })
                .collect();
            let from = bare.pairs_at[i] as usize;
            for k in (0..own.len()).rev().filter(|&k| !own[k]) {
                bare.pairs.remove(from + k);
                bare.pairs_at[i + 1..].iter_mut().for_each(|at| *at -= 1);
            }
        }
        let without = order::best_order(&bare).unwrap();
        let count = |o: &Ordered| o.alias.inplace.iter().filter(|&&w| w != u8::MAX).count();
        assert!(count(&without) < count(&with), "{}: something is in place", m.name);
        let a = outcome(&g, &l, &planned(&with, 1, &lines::pack_lines), true);
        let b = outcome(&g, &l, &planned(&without, 1, &lines::pack_lines), true);
        assert!(a == b, "{}", m.name);
    }
}

/// What a memory budget has computed twice comes out the same.
#[test]
fn recomputed_values_are_the_same_values() {
    for m in crate::common::zoo::ZOO {
        let (first, second) = pipeline::full_halves();
        let simple = pipeline::run_pipeline((m.small)().view(), &first, true).unwrap().0;
        let facts = remat::remat_facts(simple.view());
        let mut want = None;
        let choices = remat::list_choices(simple.view(), &facts);
        assert!(choices.len() > 1, "{}: nothing can be computed twice", m.name);
        for c in choices {
            let again = remat::apply_choice(simple.view(), &facts, &c).unwrap();
            let prepared = pipeline::run_pipeline(&again, &second, true).unwrap().0;
            let g = prepared.view();
            let l = lower(g, 1).unwrap();
            let got = outcome(&g, &l, &planned(&order::best_order(&l.code).unwrap(), 1, &lines::pack_lines), true);
            assert!(*want.get_or_insert_with(|| got.clone()) == got, "{}: {}", m.name, c.name);
        }
    }
}
