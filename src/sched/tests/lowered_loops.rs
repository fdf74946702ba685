//! Lowering of loops and choices: their limits, and the instructions that come of them.

use super::ops::{FRESH, one};
use crate::kernels::abi::{DEPTH, Split};
use crate::kernels::cost_model::CostClass;
use crate::nodes::ir::call::Looks;
use crate::nodes::ir::text::parse;
use crate::nodes::{Builder, DType, Loop, Var};
use crate::sched::faults::FaultCheck;
use crate::sched::instructions::{BufKind, Instructions, Operand};
use crate::sched::lower::lower;
use crate::sched::modelled_time::InstrTime;
use crate::sched::schedule;

const F32: DType = DType::F32;

fn times(length: usize) -> Loop {
    Loop { length: Some(length), ..Loop::default() }
}

fn nested<'g>(g: &'g Builder, x: Var<'g>, depth: usize) -> Var<'g> {
    match depth {
        0 => x.exp(),
        _ => g.scan_with(times(2), &[x], &[], |h, _| (vec![nested(g, h[0], depth - 1)], vec![])).0[0],
    }
}

#[test]
fn loops_stand_in_one_another_up_to_a_depth() {
    let planned = |depth: usize| {
        let g = Builder::new("g");
        g.output("y", nested(&g, g.input("x", [4], F32), depth));
        let graph = g.finish([]).unwrap();
        lower(graph.view(), 1).map(|l| l.code.loops.len()).map_err(|e| e.message)
    };
    assert_eq!(planned(DEPTH), Ok(1));
    let told = format!("scan: loops and branches stand more than {DEPTH} deep in one another");
    assert!(planned(DEPTH + 1).unwrap_err().starts_with(&told));
}

/// Carries of which only the first changes.
fn first_exp<'g>(carries: &[Var<'g>]) -> Vec<Var<'g>> {
    let mut next = carries.to_vec();
    next[0] = next[0].exp();
    next
}

/// A loop that a flag ends carries the flag and the number of iterations besides.
#[test]
fn a_loop_has_up_to_250_carries() {
    let planned = |carries: usize, flag: bool| {
        let g = Builder::new("g");
        let (x, n) = (g.input("x", [1], F32), g.input("n", [], F32));
        let starts = vec![x; carries];
        let h = match flag {
            true => g.while_loop(&starts, 9, |c| c[0].sum(..).less(n), first_exp).0,
            false => g.scan_with(times(2), &starts, &[], |c, _| (first_exp(c), vec![])).0,
        };
        g.output("y", h[0]);
        let graph = g.finish([]).unwrap();
        lower(graph.view(), 1).map(|l| l.code.loops.len()).map_err(|e| e.message)
    };
    assert_eq!((planned(250, false), planned(248, true)), (Ok(1), Ok(1)));
    assert_eq!(planned(251, false), Err("scan: 251 carries; 250 is the limit".to_string()));
    let told = "scan: 251 carries and stacked results; 250 is the limit";
    assert_eq!(planned(249, true), Err(told.to_string()));
}

/// The time of all calls of some code.
fn total(code: &Instructions) -> u64 {
    code.time.iter().map(|t| t.total).sum()
}

/// The first carry is copied, and the loop costs all its iterations.
#[test]
fn a_loop_is_a_copy_and_an_instruction() {
    let g = Builder::new("g");
    let (h, _) = g.scan_with(times(4), &[g.input("x", [64], F32)], &[], |h, _| {
        (vec![one(&g, &FRESH, &[one(&g, &FRESH, &[h[0]])])], vec![])
    });
    g.output("h", h[0]);
    let code = lower(g.finish([]).unwrap().view(), 1).unwrap().code;
    let body = &code.loops[0];
    assert!(body.plan.code.iterated && body.workspace() >= 256);
    assert_eq!((&code.copies[..], code.groups(), &code.effect[..]), (&[true, false][..], 1, &[false][..]));
    assert_eq!((&code.units[..], &code.whole[..]), (&[1, 1][..], &[0, 0][..]));
    assert_eq!(code.flops, [0, 8 << 20]);
    let run = InstrTime { total: 4 * total(&body.plan.code), fixed: 0 };
    assert_eq!(code.time, [InstrTime::of(CostClass::COPY, 0, 2 * 256), run]);
    let (x, h) = (Operand::of_bytes(0, 0, 256, Split::Whole), Operand::of_bytes(1, 0, 256, Split::Whole));
    let workspace = Operand::of_bytes(2, 0, body.workspace(), Split::Whole);
    assert_eq!((code.reads_of(0), code.reads_of(1)), (&[x][..], &[h][..]));
    assert_eq!(code.writes_of(1), [h, workspace]);
    assert_eq!((code.pairs_of(0), code.pairs_of(1)), (&[(0, 0)][..], &[(0, 0)][..]));
    assert_eq!(code.body_range(1), 0..1);
}

/// Both stacks of a carry are one buffer, into which the first carry is copied: in front, or behind if the loop runs
/// backwards.
#[test]
fn a_stack_starts_with_the_first_carry() {
    for (reverse, at) in [(false, 0), (true, 384)] {
        let g = Builder::new("g");
        let how = Loop { reverse, ..times(6) };
        let (h, ys) = g.scan_with(how, &[g.input("x", [16], F32)], &[], |h, _| {
            let next = one(&g, &FRESH, &[h[0]]);
            (vec![next], vec![h[0], next])
        });
        for (name, value) in [("h", h[0]), ("before", ys[0]), ("after", ys[1])] {
            g.output(name, value);
        }
        let code = lower(g.finish([]).unwrap().view(), 1).unwrap().code;
        let stack = Operand::of_bytes(1, 0, 7 * 64, Split::Whole);
        assert_eq!((code.params_of(0), code.writes_of(0)), (&[at][..], &[stack][..]));
        assert_eq!(
            (&code.units[..], &code.flops[..2], &code.copies[..2]),
            (&[1; 3][..], &[0, 0][..], &[false, true][..])
        );
        assert_eq!(code.time[..2], [InstrTime::of(CostClass::COPY, 0, 2 * 64); 2]);
        assert_eq!((code.reads_of(2)[1], code.writes_of(2)[1]), (stack, stack));
        assert_eq!(code.pairs_of(2), [(0, 0), (1, 1)]);
    }
}

/// A choice costs its longer branch, and has the workspace of the larger one.
#[test]
fn a_choice_is_one_instruction_with_two_bodies() {
    for first in [true, false] {
        let g = Builder::new("g");
        let (on, x) = (g.input("on", [], DType::Bool), g.input("x", [64], F32));
        let branch = |long: bool| match long {
            true => vec![one(&g, &FRESH, &[one(&g, &FRESH, &[x])])],
            false => vec![one(&g, &FRESH, &[x])],
        };
        g.output("y", g.cond(on, || branch(first), || branch(!first))[0]);
        let code = lower(g.finish([]).unwrap().view(), 1).unwrap().code;
        assert_eq!((code.len(), code.groups(), code.body_range(0)), (1, 1, 0..2));
        let bodies = &code.loops;
        assert_eq!([bodies[0].when, bodies[1].when], [Some(true), Some(false)]);
        let (long, short) = if first { (0, 1) } else { (1, 0) };
        assert!(bodies[short].workspace() < bodies[long].workspace());
        assert_eq!(code.writes_of(0)[1].bytes(), bodies[long].workspace());
        assert_eq!((code.flops[0], code.time[0].total), (2 << 20, total(&bodies[long].plan.code)));
        assert_eq!((code.time[0].fixed, code.units[0], code.effect[0], code.copies[0]), (0, 1, false, false));
    }
}

/// A constant of a body is a buffer of the code around it, also where two loops run the body.
#[test]
fn loops_over_one_body_read_one_constant() {
    let text = "region @body(%h: f32[2]) {\n  %c = constant data=0x0000003f00000040 : f32[2]\n  \
                %y = mul %h, %c : f32[2]\n  yield %y\n}\ngraph @g {\n  %x = input : f32[2]\n  \
                %a = scan %x body=@body carries=1 consts=0 length=2 reverse=false : f32[2]\n  \
                %b = scan %a body=@body carries=1 consts=0 length=3 reverse=false : f32[2]\n  return b=%b\n}\n";
    let code = lower(parse(text).unwrap().view(), 1).unwrap().code;
    let constants: Vec<usize> = (0..code.kind.len()).filter(|&b| code.kind[b] == BufKind::Constant).collect();
    assert_eq!(constants.len(), 1);
    let runs: Vec<usize> = (0..code.len()).filter(|&i| code.has_body(i)).collect();
    let read = |i: &usize| code.reads_of(*i)[1].buf as usize;
    assert_eq!(runs.iter().map(read).collect::<Vec<_>>(), [constants[0]; 2]);
}

/// Twice the timestamps of a loop, and of both branches of a choice, can be counted.
#[test]
fn as_many_iterations_are_planned_as_can_be_counted() {
    let looped = |g: &Builder, length: usize| {
        let x = g.input("x", [4], F32);
        let y = g.scan_with(times(length), &[x], &[], |h, _| (vec![h[0].exp()], vec![])).0[0];
        g.output("y", y);
    };
    let chosen = |g: &Builder, length: usize| {
        let (on, x) = (g.input("on", [], DType::Bool), g.input("x", [4], F32));
        let branch = || g.scan_with(times(length), &[x], &[], |h, _| (vec![h[0].exp()], vec![])).0;
        g.output("y", g.cond(on, branch, branch)[0]);
    };
    // The timestamps of all bodies, for one iteration of a loop.
    let planned = |write: &dyn Fn(&Builder, usize), length: usize| {
        let g = Builder::new("g");
        write(&g, length);
        let graph = g.finish([]).unwrap();
        let all = lower(graph.view(), 1).map(|l| l.code.loops.iter().map(|b| b.timestamps).sum::<usize>());
        all.map_err(|e| e.message)
    };
    let each = planned(&looped, 1).unwrap();
    let most = isize::MAX as usize / 2 / each;
    assert_eq!(planned(&looped, most), Ok(each));
    let told = format!("scan: {} iterations of {each} instructions are too many", most + 1);
    assert_eq!(planned(&looped, most + 1), Err(told));

    let [once, twice] = [1, 2].map(|length| planned(&chosen, length).unwrap());
    let (each, rest) = (twice - once, 2 * once - twice);
    let most = (isize::MAX as usize / 2 - rest) / each;
    assert_eq!(planned(&chosen, most), Ok(rest + each * most));
    let told = "if: its branches have too many instructions".to_string();
    assert_eq!(planned(&chosen, most + 1), Err(told));
}

/// A loop that may end early begins with zeros in what it stacks, and reads the number of its iterations.
#[test]
fn a_counted_loop_fills_its_stacks_with_zeros() {
    let text = "region @body(%h: f32[16], %n: i64[]) {\n  %y = sin %h : f32[16]\n  yield %y, %y\n}\n\
                graph @g {\n  %x = input : f32[16]\n  %n = input : i64[]\n  %h, %ys = scan %x, %n body=@body \
                carries=1 consts=1 length=3 reverse=false exit=count : f32[16], f32[3,16]\n  return h=%h, ys=%ys\n}\n";
    let code = lower(parse(text).unwrap().view(), 1).unwrap().code;
    let part = |buf, bytes| Operand::of_bytes(buf, 0, bytes, Split::Whole);
    assert_eq!((code.len(), code.groups(), &code.copies[..]), (3, 1, &[true, false, false][..]));
    let written = code.writes_of(1)[0];
    assert_eq!((code.reads_of(1), Operand { split: Split::Whole, ..written }), (&[][..], part(3, 192)));
    assert_eq!((code.units[1], code.flops[1], code.whole[1]), (1, 0, 0));
    assert_eq!(code.time[1], InstrTime::of(CostClass::COPY, 0, 192));
    assert_eq!(code.reads_of(2), [part(2, 64), part(3, 192), part(1, 8)]);
    assert_eq!(code.pairs_of(2), [(0, 0), (1, 1)]);
    let looks = Looks { read: 2, below: Some(4), or: None, early: false };
    assert_eq!(code.checks, [FaultCheck { buf: 1, off: 0, bytes: 8, looks }]);
}

/// Branches may read nothing but constants. They are read behind the predicate.
#[test]
fn branches_may_be_constants() {
    let g = Builder::new("g");
    let to = &g;
    let branch = |x: f32| move || vec![to.constant(&[x; 4], [4])];
    let y = g.cond(g.input("on", [], DType::Bool), branch(1.0), branch(2.0));
    g.output("y", y[0]);
    let plan = schedule(g.finish([]).unwrap().view(), 1).unwrap().plan;
    let run = (0..plan.code.len()).find(|&i| plan.code.has_body(i)).unwrap();
    let kinds: Vec<BufKind> = plan.code.reads_of(run).iter().map(|o| plan.code.kind[o.buf as usize]).collect();
    assert_eq!(kinds, [BufKind::Input, BufKind::Constant, BufKind::Constant]);
}
