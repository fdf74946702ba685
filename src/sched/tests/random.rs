//! Random graphs, planned and run in every way, against plain evaluation.

use super::ops::{self, ADD, COLUMNS, FRESH, REVERSE, SCALE, SUM, TAIL, TWICE, TWO};
use crate::arena::rng::SplitMix64;
use crate::arena::tensor::{LINE, TensorArena};
use crate::arena::{Value, ids::Id};
use crate::error::Result;
use crate::kernels::abi::Split;
use crate::nodes::ops::constant::attrs::ConstantAttrs;
use crate::nodes::{Builder, DType, Graph, GraphBuf, Init, Op, Var};
use crate::sched::checker::{Checked, check_plan};
use crate::sched::exec::{Exec, ThreadState};
use crate::sched::intervals::Intervals;
use crate::sched::lower::{Lowered, lower};
use crate::sched::order::{self, Ordered};
use crate::sched::pack::{Packing, greedy, lines};
use crate::sched::plan::Plan;
use crate::sched::planned_offsets;
use crate::sched::share::share_tapes_above;
use crate::sched::tape::Tapes;
use crate::sched::team::Team;

/// A stream of numbers.
pub struct Draw(pub SplitMix64);

impl Draw {
    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.0.bits() % n as u64) as usize
    }
}

/// A graph of `nodes` custom ops with leaves, views, updates and outputs of all kinds.
pub fn graph(seed: u64, nodes: usize) -> GraphBuf {
    let mut d = Draw(SplitMix64(seed));
    let g = Builder::new("random");
    let n = [5, 23, 64, 300][d.below(4)];
    let mut vars: Vec<Var<'_>> = Vec::new();
    let mut kept = Vec::new();
    for i in 0..2 {
        vars.push(g.input(&format!("x{i}"), [n], DType::F32));
        kept.push(g.param(&format!("w{i}"), [n], DType::F32, Init::Ones));
        kept.push(g.state(&format!("s{i}"), [n], DType::F32, Init::Zeros));
    }
    vars.extend(&kept);
    vars.push(g.constant(&vec![0.5; n], [n]));
    for _ in 0..nodes {
        let a = vars[d.below(vars.len())];
        let same: Vec<_> = vars.iter().copied().filter(|v| v.dims() == a.dims()).collect();
        let b = same[d.below(same.len())];
        let made = match d.below(12) {
            0..=2 => ops::node(&g, &ADD, &[a, b]),
            3 => ops::node(&g, &SCALE, &[a]),
            4 => ops::node(&g, &COLUMNS, &[a]),
            5 => ops::node(&g, &FRESH, &[a]),
            6 => ops::node(&g, &TWO, &[a]),
            7 => ops::node(&g, &REVERSE, &[a]),
            8 => ops::node(&g, &TWICE, &[a, b]),
            9 => ops::node(&g, &TAIL, &[a]),
            10 => vec![a.reshape([a.numel(), 1]).reshape([a.numel()])],
            _ => ops::node(&g, &SUM, &[a]),
        };
        vars.extend(made);
    }
    for &leaf in &kept {
        let same: Vec<_> = vars.iter().copied().filter(|v| v.dims() == leaf.dims()).collect();
        if d.below(5) > 0 {
            g.update(leaf, same[d.below(same.len())]);
        }
    }
    for i in 0..1 + d.below(4) {
        g.output(&format!("out{i}"), vars[d.below(vars.len())]);
    }
    g.finish([]).unwrap()
}

/// The values of the leaves at a step.
pub fn start(v: Value, len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + v.at() * 3) % 16) as f32 - 6.0).collect()
}

/// Outputs and leaves after `steps` steps of plain evaluation.
pub fn expected(g: &Graph<'_>, steps: usize) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let leaves: Vec<Value> = g.leaves().map(|l| l.value).collect();
    let mut now: Vec<Vec<f32>> = leaves.iter().map(|&v| start(v, g.numel(v))).collect();
    let mut outs = Vec::new();
    for _ in 0..steps {
        let vals = ops::reference(g, |v| now[leaves.iter().position(|&l| l == v).unwrap()].clone());
        outs = g.outputs().iter().map(|v| vals[v.at()].clone()).collect();
        for &(leaf, next) in g.updates {
            now[leaves.iter().position(|&l| l == leaf).unwrap()] = vals[next.at()].clone();
        }
    }
    (outs, now)
}

/// The bits of numbers; all NaNs are equal.
pub fn bits(x: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let bit = |x: &f32| if x.is_nan() { u32::MAX } else { x.to_bits() };
    x.iter().map(|x| x.iter().map(bit).collect()).collect()
}

/// A graph's plan, not proved, with the results of the phases before.
pub struct Planned {
    pub lowered: Lowered,
    pub ordered: Ordered,
    pub plan: Plan,
}

/// Plans `g` with the packer `pack`.
pub fn planned(g: Graph<'_>, threads: usize, pack: fn(&Intervals) -> Result<Packing>) -> Planned {
    let lowered = lower(g, threads).unwrap();
    let ordered = order::best_order(&lowered.code).unwrap();
    let (offset, bytes) = planned_offsets(&ordered.code, &ordered.alias, &ordered.live, pack).unwrap();
    let inplace = ordered.alias.inplace.clone();
    let plan = Plan { code: ordered.code.clone(), offset, inplace, bytes, threads, foreign: Vec::new() };
    Planned { lowered, ordered, plan }
}

/// How to run a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Solo,
    Poisoned,
    Team,
}

/// Outputs and leaves after `steps` steps of a plan.
pub fn outcome(g: &Graph<'_>, l: &Lowered, plan: &Checked, how: How, steps: usize) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let mut arena = TensorArena::new(plan.bytes).unwrap();
    let at = |v: Value| {
        let slice = l.slices[v.at()];
        let from = plan.offset[slice.buf as usize] + slice.off;
        from..from + g.bytes(v)
    };
    let leaves: Vec<Value> = g.leaves().map(|l| l.value).collect();
    for &v in &leaves {
        arena.bytes_mut()[at(v)].copy_from_slice(bytemuck::cast_slice(&start(v, g.numel(v))));
    }
    for n in g.region_nodes(g.entry()).filter(|n| g.op[n.at()] == Op::CONSTANT) {
        arena.bytes_mut()[at(g.out(n))].copy_from_slice(&ConstantAttrs::of(&g.attrs(n)).data);
    }
    let tapes: Tapes = share_tapes_above(plan, if how == How::Team { 0 } else { u64::MAX });
    let exec = Exec::new(plan, tapes).unwrap();
    let state = ThreadState::default();
    match how {
        How::Solo => (0..steps).for_each(|_| exec.step(&mut arena, &state).unwrap()),
        How::Poisoned => (0..steps).for_each(|_| exec.step_poisoned(&mut arena, &state).unwrap()),
        How::Team => {
            let mut team = Team::new(exec.threads()).unwrap();
            (0..steps).for_each(|_| team.step(&exec, &mut arena).unwrap());
        }
    }
    let floats = |r: std::ops::Range<usize>| bytemuck::pod_collect_to_vec::<u8, f32>(&arena.bytes()[r]);
    let outs = plan.code.outputs.iter().map(|o| {
        let from = plan.offset[o.buf as usize] + o.off;
        floats(from..from + o.bytes())
    });
    (outs.collect(), leaves.iter().map(|&v| floats(at(v))).collect())
}

/// The packing upside down.
fn reversed(v: &Intervals) -> Result<Packing> {
    let mut o = lines::pack_lines(v)?;
    for (at, lines) in o.at.iter_mut().zip(&v.lines) {
        *at = o.height - *at - u64::from(*lines);
    }
    Ok(o)
}

#[test]
fn every_plan_of_every_graph_computes_the_same() {
    let packs: [fn(&Intervals) -> Result<Packing>; 5] = [
        lines::pack_lines,
        reversed,
        |v| lines::pack_lines_with(v, greedy::place_apart),
        |v| lines::pack_lines_with(v, greedy::first_fit),
        |v| lines::pack_lines_with(v, greedy::best_fit),
    ];
    for seed in 0..150 {
        let buf = graph(seed, 4 + seed as usize % 40);
        let g = buf.view();
        let (outs, leaves) = expected(&g, 3);
        for (k, pack) in packs.iter().enumerate() {
            let Planned { lowered: l, plan, .. } = planned(g, 1, *pack);
            let plan = check_plan(plan).unwrap();
            for how in [How::Solo, How::Poisoned] {
                let (o, s) = outcome(&g, &l, &plan, how, 3);
                assert_eq!(bits(&o), bits(&outs), "outputs, seed {seed}, plan {k}, {how:?}");
                assert_eq!(bits(&s), bits(&leaves), "leaves, seed {seed}, plan {k}, {how:?}");
            }
        }
    }
}

#[test]
fn any_number_of_threads_computes_the_same() {
    for seed in 0..60 {
        let buf = graph(seed, 30);
        let g = buf.view();
        let want = expected(&g, 3);
        for threads in [2, 3] {
            let Planned { lowered: l, plan, .. } = planned(g, threads, lines::pack_lines);
            let (o, s) = outcome(&g, &l, &check_plan(plan).unwrap(), How::Team, 3);
            assert_eq!((bits(&o), bits(&s)), (bits(&want.0), bits(&want.1)), "seed {seed}, {threads} threads");
        }
    }
}

#[test]
fn products_by_columns_have_the_same_bits_on_any_number_of_threads() {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [50, 400], DType::F32), g.param("w", [400, 449], DType::F32, Init::Ones));
    let y = x.tanh().matmul(w);
    g.output("y", y);
    g.output("z", y.matmul_t(w, false, true));
    let buf = g.finish([]).unwrap();
    let all = [1, 2, 3, 7].map(|threads| {
        let Planned { lowered: l, plan, .. } = planned(buf.view(), threads, lines::pack_lines);
        let by_columns = plan.code.writes.iter().filter(|o| matches!(o.split, Split::Columns { .. })).count();
        assert_eq!(by_columns, 2);
        let how = if threads == 1 { How::Poisoned } else { How::Team };
        bits(&outcome(&buf.view(), &l, &check_plan(plan).unwrap(), how, 2).0)
    });
    assert!(all[1..].iter().all(|other| *other == all[0]));
}

/// Plans that are wrong in every way that planners are wrong: those that pass the checker compute the right results.
#[test]
fn no_wrong_plan_passes() {
    let (mut passed, mut refused) = (0, 0);
    for seed in 0..120 {
        let buf = graph(seed, 6 + seed as usize % 30);
        let g = buf.view();
        let want = expected(&g, 2);
        let Planned { lowered: l, ordered: o, plan: right } = planned(g, 1, lines::pack_lines);
        let mut d = Draw(SplitMix64(seed ^ 0xabc));
        for kind in 0..14 {
            let Some(wrong) = mutated(&o, &right, kind % 7, &mut d) else { continue };
            match check_plan(wrong) {
                Err(_) => refused += 1,
                Ok(plan) => {
                    passed += 1;
                    // Not poisoned: poison assumes that a buffer has its bytes to itself until its last use, which a
                    // plan that is right by luck need not ensure.
                    let (o, s) = outcome(&g, &l, &plan, How::Solo, 2);
                    let same = bits(&o) == bits(&want.0) && bits(&s) == bits(&want.1);
                    assert!(same, "seed {seed}: a wrong plan of kind {} passed", kind % 7);
                }
            }
        }
    }
    assert!(refused > passed / 4 && refused > 200, "{refused} of {} refused", refused + passed);
}

fn mutated(o: &Ordered, right: &Plan, kind: usize, d: &mut Draw) -> Option<Plan> {
    let mut p = right.clone();
    let mut live = o.live.clone();
    let free: Vec<usize> = (0..live.len()).filter(|&b| live.lines[b] > 0 && !p.code.kind[b].is_pinned()).collect();
    if free.is_empty() {
        return None;
    }
    let b = free[d.below(free.len())];
    let shift = |p: &mut Plan, root: usize, to: usize| {
        (0..p.offset.len()).filter(|&m| o.alias.class[m] as usize == root).for_each(|m| p.offset[m] = to);
    };
    match kind {
        0 => shift(&mut p, b, right.offset[b] + LINE),
        1 => shift(&mut p, b, right.offset[b].checked_sub(LINE)?),
        2 => {
            let c = free[d.below(free.len())];
            shift(&mut p, b, right.offset[c]);
            shift(&mut p, c, right.offset[b]);
        }
        3 => live.end[b] = live.end[b].saturating_sub(1),
        4 => live.first[b] += 1,
        5 => live.end[b] = live.first[b] + 1,
        _ => {
            let r = (!p.inplace.is_empty()).then(|| d.below(p.inplace.len()))?;
            p.inplace[r] = if p.inplace[r] == u8::MAX { 0 } else { u8::MAX };
        }
    }
    if (3..6).contains(&kind) {
        let (offset, bytes) = planned_offsets(&o.code, &o.alias, &live, lines::pack_lines).ok()?;
        (p.offset, p.bytes) = (offset, bytes);
    }
    (p.offset != right.offset || p.inplace != right.inplace).then_some(p)
}
