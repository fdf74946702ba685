//! Wrong plans of the model zoo, in every way that planners were wrong. Which of them are harmful is decided by running
//! them byte by byte (see `common/words.rs`); the checker must refuse every one of those.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::Draw;
use crate::words::{is_free, outcome};
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::tools::arena::tensor::LINE;
use arenagrad::tools::ops::index::scatter::Scatter;
use arenagrad::tools::passes::pipeline::run_whole_pipeline;
use arenagrad::tools::sched::checker::{Plan, check_plan};
use arenagrad::tools::sched::faults::UNSEEN;
use arenagrad::tools::sched::instructions::{BufKind, Instructions, Operand};
use arenagrad::tools::sched::intervals::Intervals;
use arenagrad::tools::sched::order::deps::Deps;
use arenagrad::tools::sched::order::{self, Ordered};
use arenagrad::tools::sched::{lower, offsets, pack::lines};

/// A program with its order and its plan, and what it computes where no two buffers share a byte.
struct Subject {
    o: Ordered,
    right: Plan,
    want: Vec<u64>,
}

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

fn subject(g: &GraphBuf) -> Subject {
    let prepared = run_whole_pipeline(g).unwrap();
    let lowered = lower::lower(prepared.view(), 1).unwrap();
    let o = order::best_order(&lowered.code).unwrap();
    let (offset, bytes) = offsets(&o.code, &o.alias, &o.live, lines::pack_lines).unwrap();
    let right =
        Plan { code: o.code.clone(), offset, inplace: o.alias.inplace.clone(), bytes, threads: 1, foreign: Vec::new() };
    let apart = apart(&right);
    let want = outcome(&apart).unwrap();
    check_plan(right.clone()).unwrap();
    assert_eq!(outcome(&right).unwrap(), want, "the plan computes what the plan without reuse computes");
    Subject { o, right, want }
}

/// The plan without reuse: nothing is in place but what the code itself asks for, and copies bring next values home.
fn apart(right: &Plan) -> Plan {
    let mut p = right.clone();
    let mut end = 0;
    for b in 0..p.offset.len() {
        p.offset[b] = end;
        end += p.code.bytes[b].div_ceil(LINE) * LINE;
    }
    for i in 0..p.code.len() {
        for (k, r) in p.code.read_range(i).enumerate() {
            let w = p.inplace[r];
            if w != u8::MAX && p.code.writes_of(i)[usize::from(w)].buf != p.code.reads_of(i)[k].buf {
                p.inplace[r] = u8::MAX;
            }
        }
    }
    let updates = p.code.updates.clone();
    let groups = p.code.groups();
    let shared = |u: &arenagrad::tools::sched::instructions::Update| {
        right.offset[u.leaf as usize] == right.offset[u.from.buf as usize]
    };
    for u in updates.iter().filter(|u| shared(u)) {
        p.code.copy(u.from, u.leaf, p.code.node[0]);
    }
    p.inplace.resize(p.code.reads.len(), u8::MAX);
    assert!(p.code.groups() >= groups);
    p.bytes = end;
    p
}

const KINDS: [&str; 10] = [
    "offset + 64",
    "two offsets swapped",
    "end − 1, replanned",
    "start + 1, replanned",
    "late reader forgotten, replanned",
    "size − 64, replanned",
    "in-place flag dropped",
    "copy dropped",
    "in place where not declared",
    "in place on a value that lives on",
];

impl Subject {
    fn replanned(&self, live: &Intervals) -> Option<Plan> {
        let (offset, bytes) = offsets(&self.right.code, &self.o.alias, live, lines::pack_lines).ok()?;
        Some(Plan { offset, bytes, ..self.right.clone() })
    }

    /// Moves everything that shares the place of class `root`.
    fn moved(&self, p: &mut Plan, root: usize, to: usize) {
        let class = &self.o.alias.class;
        (0..class.len()).filter(|&b| class[b] as usize == root).for_each(|b| p.offset[b] = to);
    }

    /// A plan that is wrong in way `kind`; none if that way is not open.
    fn mutant(&self, kind: usize, d: &mut Draw) -> Option<Plan> {
        let (mut p, mut live) = (self.right.clone(), self.o.live.clone());
        let below = |d: &mut Draw, n: usize| (n > 0).then(|| (d.bits() % n as u64) as usize);
        let roots: Vec<usize> = (0..live.len())
            .filter(|&b| live.lines[b] > 0 && is_free(&p, b) && self.o.alias.class[b] as usize == b)
            .collect();
        let b = roots[below(d, roots.len())?];
        match kind {
            0 => self.moved(&mut p, b, self.right.offset[b] + LINE),
            1 => {
                let c = roots[below(d, roots.len())?];
                self.moved(&mut p, b, self.right.offset[c]);
                self.moved(&mut p, c, self.right.offset[b]);
            }
            2 => live.end[b] = live.end[b].checked_sub(1)?,
            3 => live.first[b] += 1,
            4 => live.end[b] = self.last_but_one(b)? + 1,
            5 => live.lines[b] -= 1,
            6 => {
                let pairs: Vec<usize> = (0..p.inplace.len()).filter(|&r| p.inplace[r] != u8::MAX).collect();
                p.inplace[pairs[below(d, pairs.len())?]] = u8::MAX;
            }
            7 => return self.without_copy(d),
            _ => return self.in_place(kind == 8, d),
        }
        if (2..6).contains(&kind) {
            p = self.replanned(&live)?;
        }
        (p.offset != self.right.offset || p.inplace != self.right.inplace).then_some(p)
    }

    /// The instruction before the last that reads class `root`.
    fn last_but_one(&self, root: usize) -> Option<u32> {
        let code = &self.right.code;
        let inside = |b: u32| self.o.alias.class[b as usize] as usize == root;
        let uses = |&i: &usize| code.reads_of(i).iter().chain(code.writes_of(i)).any(|o| inside(o.buf));
        let all: Vec<usize> = (0..code.len()).filter(uses).collect();
        (all.len() > 1).then(|| all[all.len() - 2] as u32)
    }

    fn without_copy(&self, d: &mut Draw) -> Option<Plan> {
        let code = &self.right.code;
        let copies: Vec<u32> =
            (0..code.groups() as u32).filter(|&g| code.copies[code.group(g as usize).start]).collect();
        if copies.is_empty() {
            return None;
        }
        let drop = copies[(d.bits() % copies.len() as u64) as usize];
        let rest: Vec<u32> = (0..code.groups() as u32).filter(|&g| g != drop).collect();
        let flags = |g: &u32| code.group(*g as usize).flat_map(|i| code.read_range(i)).map(|r| self.right.inplace[r]);
        let inplace = rest.iter().flat_map(flags).collect();
        Some(Plan { code: code.permuted(&rest), inplace, ..self.right.clone() })
    }

    /// Some result on some operand of one size: of a pair that no kernel declared, or of one that is declared and of
    /// no use here.
    fn in_place(&self, undeclared: bool, d: &mut Draw) -> Option<Plan> {
        let (code, mut p) = (&self.right.code, self.right.clone());
        let mut open = Vec::new();
        for i in 0..code.len() {
            for (r, read) in code.reads_of(i).iter().enumerate() {
                for (w, write) in code.writes_of(i).iter().enumerate() {
                    let declared = code.pairs_of(i).contains(&(r as u8, w as u8));
                    let apart = self.right.offset[read.buf as usize] != self.right.offset[write.buf as usize];
                    if declared != undeclared && apart && read.bytes() == write.bytes() && read.bytes() > 0 {
                        open.push((code.read_range(i).start + r, w as u8, read.buf, write.buf));
                    }
                }
            }
        }
        if open.is_empty() {
            return None;
        }
        let (r, w, from, to) = open[(d.bits() % open.len() as u64) as usize];
        p.inplace[r] = w;
        let root = self.o.alias.class[to as usize] as usize;
        self.moved(&mut p, root, self.right.offset[from as usize]);
        Some(p)
    }
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
        let mut d = Draw(k as u64);
        for _ in 0..if cfg!(debug_assertions) { 6 } else { 40 } {
            // Any order that data allows, planned as if nothing could stop the step.
            let order = shuffled(&lowered.code, &mut d);
            let mut blind = lowered.code.clone();
            (blind.checks, blind.checks_at) = (Vec::new(), vec![0; blind.checks_at.len()]);
            let o = order::score_order(&blind, &order, "any").unwrap();
            let (offset, bytes) = offsets(&o.code, &o.alias, &o.live, lines::pack_lines).unwrap();
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
        let (offset, bytes) = offsets(&o.code, &o.alias, &o.live, lines::pack_lines).unwrap();
        check_plan(Plan { code: o.code, offset, inplace: o.alias.inplace, bytes, threads: 1, foreign: Vec::new() })
            .unwrap();
    }
    println!("{torn} of {tried} plans tear a step, all refused");
    assert!(torn > tried / 20 && torn < tried, "{torn} of {tried}");
}

/// The groups of `code` in an order that is drawn among those that data and effects allow.
fn shuffled(code: &Instructions, d: &mut Draw) -> Vec<u32> {
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
    let tries = if cfg!(debug_assertions) { 12 } else { 150 };
    let mut graphs: Vec<GraphBuf> = crate::common::zoo::ZOO.iter().map(|m| (m.small)()).collect();
    graphs.push(leaves());
    let mut counts = [Count::default(); KINDS.len()];
    for (k, g) in graphs.iter().enumerate() {
        let s = subject(g);
        for (kind, count) in counts.iter_mut().enumerate() {
            let mut d = Draw((k * 100 + kind) as u64);
            for _ in 0..tries {
                let Some(p) = s.mutant(kind, &mut d) else { continue };
                let harmful = outcome(&p).is_none_or(|o| o != s.want);
                let refused = check_plan(p).is_err();
                count.tried += 1;
                count.harmful += usize::from(harmful);
                count.killed += usize::from(harmful && refused);
                count.harmless_refused += usize::from(!harmful && refused);
                assert!(refused || !harmful, "graph {k}: a harmful plan passes: {}", KINDS[kind]);
            }
        }
    }
    println!(
        "{:<36} {:>7} {:>8} {:>7} {:>7} {:>17}",
        "wrong plan", "tried", "harmful", "killed", "missed", "harmless, refused"
    );
    for (name, c) in KINDS.iter().zip(&counts) {
        let missed = c.harmful - c.killed;
        println!("{name:<36} {:>7} {:>8} {:>7} {missed:>7} {:>17}", c.tried, c.harmful, c.killed, c.harmless_refused);
        assert!(c.harmful > 0, "no mutant of kind {name:?} does harm: it tests nothing");
    }
    let harmful: usize = counts.iter().map(|c| c.harmful).sum();
    println!("{harmful} harmful plans, all refused");
    assert!(harmful >= if cfg!(debug_assertions) { 300 } else { 5000 }, "{harmful} harmful plans");
}
