//! Lowering of loops and choices: their limits, and the instructions that come of them.

use crate::kernels::abi::{DEPTH, Split};
use crate::kernels::cost_model::CostClass;
use crate::nodes::ir::call::Looks;
use crate::nodes::ir::text::parse;
use crate::nodes::{Builder, DType, Loop, Var};
use crate::sched::faults::FaultCheck;
use crate::sched::instructions::{BufKind, Operand};
use crate::sched::lower::lower;
use crate::sched::modelled_time::InstrTime;
use crate::sched::schedule;
use crate::sched::share::share_tapes;

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

/// In a body, threads divide a product by rows where each gets enough, and what follows in the same way.
#[test]
fn instructions_of_a_body_are_divided_alike() {
    let text = "region @body(%h: f32[64,128], %w: f32[128,128]) {\n  %y = matmul %h, %w ta=false tb=true : f32[64,128]\n  \
                %t = tanh %y : f32[64,128]\n  %s = add %t, %h : f32[64,128]\n  yield %s\n}\n\
                graph @g {\n  %h = input : f32[64,128]\n  %w = input : f32[128,128]\n  %x = scan %h, %w body=@body \
                carries=1 consts=1 length=8 reverse=false : f32[64,128]\n  \
                %p = matmul %h, %w ta=false tb=true : f32[64,128]\n  return x=%x, p=%p\n}\n";
    let graph = parse(text).unwrap();
    let columns = Split::Columns { row: 128, width: 32 };
    let splits = |threads: usize| {
        let code = lower(graph.view(), threads).unwrap().code;
        let outside = code.writes.iter().any(|o| o.split == columns);
        (code.loops[0].plan.code.writes_of(0)[0].split, outside)
    };
    assert_eq!(splits(2), (Split::PerUnit(16 * 128), true));
    assert_eq!([splits(1), splits(5)], [(columns, true); 2]);

    let plan = schedule(graph.view(), 2).unwrap().plan;
    let inner = &share_tapes(&plan).inner[0];
    assert_eq!(inner.threads(), 2);
    for t in 0..2 {
        let own: Vec<u32> = inner.thread(t).iter().filter(|e| !e.barrier && e.instr < 3).map(|e| e.instr).collect();
        assert_eq!(own, [0, 1, 2], "thread {t}");
    }
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
