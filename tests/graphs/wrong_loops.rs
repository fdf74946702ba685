//! Wrong loops, in every way that their operands can meet in bytes while the body takes them for different ones: the
//! checker, or the linker behind it, refuses each. Which are harmful is decided by walking over the bytes that kernels
//! touch (see `overlaps.rs`).

use crate::common::TensorDraws;
use crate::overlaps::sound;
use arenagrad::graph::{Builder, DType, GraphBuf, Var};
use arenagrad::tools::arena::tensor::LINE;
use arenagrad::tools::kernels::abi::Split;
use arenagrad::tools::sched::checker::check_plan;
use arenagrad::tools::sched::exec::Exec;
use arenagrad::tools::sched::instructions::{BufKind, Operand};
use arenagrad::tools::sched::plan::Plan;
use arenagrad::tools::sched::planned_body::{Outer, PlannedBody};
use arenagrad::tools::sched::{schedule, share};
use std::sync::Arc;

const OUT: u8 = u8::MAX;

/// Two carries, one of them read late, stacked inputs and results, values from outside, a constant, and a loop inside.
/// All slices have one size, so that any operand may be taken for any other.
fn graph() -> GraphBuf {
    let g = Builder::new("loops");
    let [a, b, w] = ["a", "b", "w"].map(|name| g.input(name, [16], DType::F32));
    let x = g.input("x", [4, 16], DType::F32);
    let w = w.exp();
    let c = g.constant(&[0.5f32; 16], [16]);
    let (h, y) = g.scan(&[a, b], &[x], |h, x| {
        let next = (h[0] * w + x[0]).cumsum(0, false, false);
        let (inner, _) = g.scan(&[next], &[x[0].reshape([2, 8]).concat(&[c.reshape([2, 8])], 1)], |s, t| {
            (vec![(s[0] * t[0]).cumsum(0, false, false)], vec![])
        });
        (vec![inner[0], (h[0] + h[1]).cumsum(0, false, true)], vec![next, h[1]])
    });
    g.finish([h[0], h[1], y[0], y[1], w]).unwrap()
}

/// A plan, and which instruction is its loop.
#[derive(Clone)]
struct Subject {
    plan: Plan,
    at: usize,
}

impl Subject {
    fn new() -> Subject {
        Subject::of(&graph())
    }

    fn of(g: &GraphBuf) -> Subject {
        let s = schedule(g.view(), 1).unwrap();
        let plan: Plan = (*s.plan).clone();
        let at = (0..plan.code.len()).find(|&i| plan.code.has_body(i)).unwrap();
        Subject { plan, at }
    }

    fn body(&self) -> &PlannedBody {
        &self.plan.code.bodies_of(self.at)[0]
    }

    fn with_body(&mut self, f: impl FnOnce(&mut PlannedBody)) {
        self.with_body_at(0, f);
    }

    /// Changes body `k` of the instruction.
    fn with_body_at(&mut self, k: usize, f: impl FnOnce(&mut PlannedBody)) {
        let index = self.plan.code.body_range(self.at).start + k;
        let mut l: PlannedBody = (*self.plan.code.loops[index]).clone();
        f(&mut l);
        self.plan.code.loops[index] = Arc::new(l);
    }

    /// Another body, if it passes by itself.
    fn with_inner(&mut self, f: impl FnOnce(&mut Plan)) -> bool {
        let mut inner: Plan = (*self.body().plan).clone();
        f(&mut inner);
        let checked = check_plan(inner);
        let fits = checked.is_ok();
        self.with_body(|l| checked.into_iter().for_each(|plan| l.plan = plan));
        fits
    }

    fn reads(&self) -> usize {
        self.plan.code.reads_of(self.at).len()
    }

    fn writes(&self) -> usize {
        self.plan.code.writes_of(self.at).len()
    }

    fn read_mut(&mut self, r: usize) -> &mut Operand {
        let at = self.plan.code.reads_at[self.at] as usize + r;
        &mut self.plan.code.reads[at]
    }

    fn write_mut(&mut self, w: usize) -> &mut Operand {
        let at = self.plan.code.writes_at[self.at] as usize + w;
        &mut self.plan.code.writes[at]
    }

    fn inplace_mut(&mut self, r: usize) -> &mut u8 {
        let at = self.plan.code.reads_at[self.at] as usize + r;
        &mut self.plan.inplace[at]
    }

    /// Makes read `r` share its bytes with write `w`, and declares it.
    fn pair(&mut self, r: usize, w: usize) {
        let code = &mut self.plan.code;
        code.pairs.insert(code.pairs_at[self.at + 1] as usize, (r as u8, w as u8));
        code.pairs_at[self.at + 1..].iter_mut().for_each(|at| *at += 1);
        *self.inplace_mut(r) = w as u8;
    }

    /// Puts the buffer of write `w` where the buffer of read `r` is.
    fn over(&mut self, w: usize, r: usize) {
        let (from, to) = (self.read_mut(r).buf as usize, self.write_mut(w).buf as usize);
        self.plan.offset[to] = self.plan.offset[from];
    }

    /// An extern of the body that satisfies `is`.
    fn extern_at(&self, is: impl Fn(Outer, BufKind, bool) -> bool) -> usize {
        let (l, kind) = (self.body(), &self.body().plan.code.kind);
        l.externs.iter().position(|e| is(e.outer, kind[e.buf as usize], e.sliced)).unwrap()
    }

    /// Why it is refused, if it is.
    fn refused(&self) -> Option<String> {
        let checked = match check_plan(self.plan.clone()) {
            Ok(checked) => checked,
            Err(e) => return Some(e.to_string()),
        };
        let tapes = share::share_tapes(&checked);
        Exec::new(&checked, tapes).err().map(|e| e.to_string())
    }
}

/// A read of the loop that is not in place and that an unsliced extern of the body is: `w` of [`graph`].
fn outside(s: &Subject) -> (usize, usize) {
    let e = s.extern_at(|o, kind, sliced| matches!(o, Outer::Read(_)) && kind == BufKind::Input && !sliced);
    let Outer::Read(r) = s.body().externs[e].outer else { unreachable!() };
    (e, r)
}

/// The stacked input of the loop.
fn stacked(s: &Subject) -> usize {
    let e = s.extern_at(|o, _, sliced| matches!(o, Outer::Read(_)) && sliced);
    let Outer::Read(r) = s.body().externs[e].outer else { unreachable!() };
    r
}

type Wrong = fn(&mut Subject);

/// Each way for operands of a loop to meet, or not to be what the body takes them for, and the words of the refusal.
const NAMED: &[(&str, Wrong, &str)] = &[
    (
        "a carry is an extern by its read, too",
        |s| {
            let (e, _) = outside(s);
            s.with_body(|l| l.externs[e].outer = Outer::Read(0));
        },
        "in place and an extern",
    ),
    (
        "another read shares its bytes with a carry",
        |s| {
            let (_, r) = outside(s);
            s.pair(r, 0);
            s.over(0, r);
        },
        "in place",
    ),
    (
        "a read shares its bytes with a stacked result",
        |s| {
            let r = stacked(s);
            s.pair(r, 2);
            s.over(2, r);
        },
        "in place and an extern",
    ),
    (
        "a read lies in the workspace, in place",
        |s| {
            let (_, r) = outside(s);
            let w = s.writes() - 1;
            s.pair(r, w);
            s.over(w, r);
        },
        "in place and an extern",
    ),
    (
        "a read lies in the workspace",
        |s| {
            let (_, r) = outside(s);
            s.over(s.writes() - 1, r);
        },
        "overlaps read",
    ),
    (
        "two writes share bytes",
        |s| {
            let [a, b] = [2, 3].map(|w| s.write_mut(w).buf as usize);
            s.plan.offset[a] = s.plan.offset[b];
        },
        "two writes meet",
    ),
    (
        "a stacked result lies in the workspace",
        |s| {
            let w = s.writes() - 1;
            let [a, b] = [2, w].map(|w| s.write_mut(w).buf as usize);
            s.plan.offset[a] = s.plan.offset[b];
        },
        "two writes meet",
    ),
    ("one write is two externs", |s| s.with_body(|l| l.externs[0].outer = Outer::Write(1)), "is two externs"),
    (
        "a carry takes over a part of a read",
        |s| {
            let r = stacked(s);
            s.pair(r, 0);
            s.over(0, r);
        },
        "in place",
    ),
    ("a carry is read from its second element on", |s| s.read_mut(0).off += 4, "reaches beyond"),
    (
        "a carry is read in part",
        |s| {
            s.read_mut(0).off += 4;
            s.read_mut(0).len -= 4;
        },
        "in place on another extent",
    ),
    (
        "an operand begins between two elements",
        |s| {
            let (_, r) = outside(s);
            let o = s.read_mut(r);
            let buf = o.buf as usize;
            o.off += 2;
            s.plan.code.bytes[buf] += 2;
            s.plan.bytes += LINE;
        },
        "",
    ),
    ("an operand is shorter than its extern", |s| s.read_mut(outside(s).1).len -= 4, "does not fit its operand"),
    ("a carry is not in place", |s| *s.inplace_mut(0) = OUT, "the body reads write 0"),
    (
        "a carry starts with nothing",
        |s| {
            *s.inplace_mut(0) = OUT;
            *s.read_mut(0) = *s.read_mut(outside(s).1);
        },
        "the body reads write 0",
    ),
    (
        "the body has a next value for what the loop reads",
        |s| {
            let (e, _) = outside(s);
            let input = s.body().externs[e].buf as usize;
            s.with_body(|l| l.externs[e].outer = Outer::Read(0));
            s.with_inner(|p| p.code.kind[input] = BufKind::Param);
        },
        "",
    ),
    ("the workspace begins in an extern", |s| s.with_body(|l| l.base -= LINE), "behind its externs"),
    ("the workspace begins between lines", |s| s.with_body(|l| l.base += 4), "behind its externs"),
    ("the workspace begins behind the body", |s| s.with_body(|l| l.base = usize::MAX), "behind its externs"),
    ("no iteration", |s| s.with_body(|l| l.length = 0), "no iteration"),
    ("no tick", |s| s.with_body(|l| l.timestamps = 0), "timestamps"),
    ("a thread has a part of the workspace", |s| s.write_mut(s.writes() - 1).split = Split::PerThread(1), "divide"),
    ("a thread has a part of a carry", |s| s.write_mut(0).split = Split::PerUnit(8), "divide"),
    (
        "a write that the body does not know",
        |s| {
            let buf = s.plan.code.buffer(64, BufKind::Scratch, arenagrad::tools::arena::Value(0));
            s.plan.offset.push(s.plan.bytes);
            s.plan.bytes += LINE;
            let at = s.plan.code.writes_at[s.at] as usize + 2;
            s.plan.code.writes.insert(at, Operand::of_bytes(buf, 0, 64, Split::Whole));
            s.plan.code.writes_at[s.at + 1..].iter_mut().for_each(|at| *at += 1);
        },
        "",
    ),
];

#[test]
fn loops_whose_operands_meet_are_refused() {
    let right = Subject::new();
    assert_eq!((right.refused(), sound(&right.plan)), (None, true));
    let failed: Vec<String> = NAMED
        .iter()
        .filter_map(|(name, wrong, why)| {
            let mut s = right.clone();
            wrong(&mut s);
            match s.refused() {
                Some(e) if e.contains(why) => None,
                Some(e) => Some(format!("{name}: {e}")),
                None => Some(format!("{name}: passes")),
            }
        })
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The running sum.
fn running(x: Var<'_>) -> Var<'_> {
    x.cumsum(0, false, false)
}

/// Two branches that read one value and one each, write two results, and need a workspace.
fn choice() -> GraphBuf {
    let g = Builder::new("choice");
    let [a, b, c] = ["a", "b", "c"].map(|name| g.input(name, [16], DType::F32).exp());
    let on = g.input("on", [], DType::Bool);
    let y = g.cond(
        on,
        || vec![(running(a * b) + a).cumsum(0, false, true), running(b)],
        || vec![running(a), (running(c) * a).cumsum(0, false, true)],
    );
    g.finish([y[0], y[1], a, b, c]).unwrap()
}

/// Each way for operands of a choice to meet, and for its bodies to be other than two branches.
#[test]
fn choices_whose_operands_meet_are_refused() {
    let right = Subject::of(&choice());
    assert_eq!((right.refused(), sound(&right.plan)), (None, true));
    assert_eq!((right.reads(), right.writes()), (4, 3));
    for (w, r) in (0..3).flat_map(|w| (0..4).map(move |r| (w, r))) {
        let mut s = right.clone();
        s.over(w, r);
        let e = s.refused().unwrap_or_else(|| panic!("write {w} over read {r} passes"));
        assert!(e.contains("overlaps read"), "{w} over {r}: {e}");
        // In place, too: a branch may read a captured value after it has written a result.
        s.pair(r, w);
        assert!(s.refused().is_some(), "write {w} over read {r} passes in place");
    }
    let branches: [(&str, Wrong, &str); 6] = [
        ("two branches run", |s| s.with_body_at(1, |l| l.when = Some(true)), "neither a loop nor two branches"),
        (
            "the branches are exchanged",
            |s| (0..2).for_each(|k| s.with_body_at(k, |l| l.when = Some(k == 1))),
            "neither a loop nor two branches",
        ),
        (
            "both branches always run",
            |s| (0..2).for_each(|k| s.with_body_at(k, |l| l.when = None)),
            "neither a loop nor two branches",
        ),
        ("a branch runs twice", |s| s.with_body_at(1, |l| l.length = 2), ""),
        ("one branch is missing", |s| s.plan.code.body[s.at].1 -= 1, "neither a loop nor two branches"),
        ("the predicate is a captured value", |s| *s.read_mut(0) = *s.read_mut(1), "a branch without a predicate"),
    ];
    for (name, wrong, why) in branches {
        let mut s = right.clone();
        wrong(&mut s);
        let e = s.refused().unwrap_or_else(|| panic!("{name}: passes"));
        assert!(e.contains(why), "{name}: {e}");
    }
}

/// Two loops that run one body: each would need places of its own.
#[test]
fn a_loop_that_two_instructions_run_is_refused() {
    let g = Builder::new("twins");
    let (a, x) = (g.input("a", [16], DType::F32), g.input("x", [4, 16], DType::F32));
    let add = |from| g.scan(&[from], &[x], |h, x| (vec![h[0] + x[0]], vec![])).0[0];
    let (first, second) = (add(a), add(a.exp()));
    let mut plan: Plan = (*schedule(g.finish([first, second]).unwrap().view(), 1).unwrap().plan).clone();
    check_plan(plan.clone()).unwrap();
    let loops: Vec<usize> = (0..plan.code.len()).filter(|&i| plan.code.has_body(i)).collect();
    plan.code.body[loops[1]] = plan.code.body[loops[0]];
    assert!(check_plan(plan).unwrap_err().to_string().contains("two instructions run one loop"));
}

/// Applies a drawn change; false if it is none.
fn change(s: &mut Subject, kind: u64, d: &mut TensorDraws) -> bool {
    let mut below = |n: usize| (d.bits() % n.max(1) as u64) as usize;
    let (e, r, w) = (below(s.body().externs.len()), below(s.reads()), below(s.writes()));
    let other = below(s.writes());
    if s.body().externs.is_empty() {
        return false;
    }
    match kind {
        0 => s.with_body(|l| l.externs[e].outer = Outer::Read(r)),
        1 => s.with_body(|l| l.externs[e].outer = Outer::Write(w)),
        2 => s.with_body(|l| l.externs[e].sliced ^= true),
        3 => s.pair(r, w),
        4 => {
            s.pair(r, w);
            s.over(w, r);
        }
        5 => s.over(w, r),
        6 => {
            let [a, b] = [w, other].map(|w| s.write_mut(w).buf as usize);
            s.plan.offset[a] = s.plan.offset[b];
        }
        7 => *s.inplace_mut(r) = OUT,
        8 => s.with_body(|l| l.base -= LINE),
        9 => s.with_body(|l| l.length += 1),
        10 => *s.read_mut(r) = *s.read_mut(below(s.reads())),
        11 => s.with_body(|l| l.externs.truncate(e)),
        _ => {
            let leaf = s.body().externs[e].buf;
            return s.with_inner(|p| {
                let updates = p.code.updates.len();
                p.code.updates[below(updates)].leaf = leaf;
            });
        }
    }
    true
}

#[test]
fn the_checker_refuses_every_harmful_loop() {
    const KINDS: u64 = 13;
    let right = Subject::new();
    let mut d = TensorDraws(12);
    let (mut harmful, mut by_kind) = (0, [0usize; KINDS as usize]);
    for round in 0..if cfg!(debug_assertions) { 1_500 } else { 6_000 } {
        let mut s = right.clone();
        let (first, second) = (round % KINDS, d.bits() % (2 * KINDS));
        if !change(&mut s, first, &mut d) || (second < KINDS && !change(&mut s, second, &mut d)) {
            continue;
        }
        if !sound(&s.plan) {
            harmful += 1;
            by_kind[first as usize] += 1;
            assert!(s.refused().is_some(), "round {round}: a harmful loop passes");
        }
    }
    println!("{harmful} harmful loops, all refused: {by_kind:?}");
    assert!(harmful > 500 && by_kind.iter().filter(|&&n| n > 0).count() >= 10, "{harmful} {by_kind:?}");
}
