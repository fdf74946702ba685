//! For each condition under which a loop's body may run on the operands of its instruction, a loop that breaks only
//! this one, and the message that refuses it.

use crate::arena::tensor::LINE;
use crate::kernels::abi::Split;
use crate::nodes::{Builder, DType};
use crate::sched::checker::Checked;
use crate::sched::instructions::{Instructions, OUT_OF_PLACE, Operand};
use crate::sched::planned_body::{Extern, FlagBound, LoopExit, Outer, PlannedBody};
use crate::sched::schedule;

/// A loop, and the code with the instruction that runs it.
#[derive(Clone)]
struct LoopSubject {
    code: Instructions,
    at: usize,
    inplace: Vec<u8>,
    l: PlannedBody,
}

impl LoopSubject {
    /// Two carries that are made in place, and a stacked input and a stacked result of one type.
    fn new() -> LoopSubject {
        let g = Builder::new("loop");
        let (x, h0) = (g.input("x", [5, 64, 128], DType::F32), g.input("h0", [64, 128], DType::F32));
        let w = g.input("w", [128, 128], DType::F32).exp();
        let (h, y) = g.scan(&[h0.exp(), h0.tanh()], &[x], |h, x| {
            let first = (h[0].matmul(w) + x[0]).tanh();
            (vec![first, h[1].exp()], vec![first.exp()])
        });
        let graph = g.finish([h[0], h[1], y[0], w]).unwrap();
        let plan = schedule(graph.view(), 2).unwrap().plan;
        let at = (0..plan.code.len()).find(|&i| plan.code.has_body(i)).unwrap();
        let inplace = plan.inplace[plan.code.read_range(at)].to_vec();
        let l: PlannedBody = (*plan.code.loops[0]).clone();
        LoopSubject { code: plan.code.clone(), at, inplace, l }
    }

    /// The extern of operand `outer`.
    fn extern_of(&self, outer: Outer) -> usize {
        self.l.externs.iter().position(|e| e.outer == outer).unwrap()
    }

    /// The first read that is an extern, sliced or not.
    fn read_extern(&self, sliced: bool) -> (usize, usize) {
        let of = |e: &Extern| match e.outer {
            Outer::Read(r) if e.sliced == sliced => Some(r),
            _ => None,
        };
        self.l.externs.iter().enumerate().find_map(|(k, e)| Some((k, of(e)?))).unwrap()
    }

    /// The read that carry `w` starts with.
    fn start_of(&self, w: usize) -> usize {
        self.inplace.iter().position(|&with| usize::from(with) == w).unwrap()
    }

    fn scratch(&self) -> usize {
        self.code.writes_at[self.at + 1] as usize - 1
    }

    fn refused(&self) -> Option<String> {
        self.l.fits(&self.code, self.at, &self.inplace).err()
    }
}

type WrongLoop = fn(&mut LoopSubject);

const WRONG_LOOPS: &[(&str, WrongLoop)] = &[
    ("threads divide the operands", |s| s.code.units[s.at] = 2),
    ("threads divide the operands", |s| s.code.copies[s.at] = true),
    ("a branch without a predicate", |s| s.l.when = Some(true)),
    ("a loop of no iteration", |s| s.l.length = 0),
    ("are not those of the body", |s| s.l.timestamps += 1),
    ("are not those of the body", |s| s.l.length = usize::MAX),
    ("of the body does not fit its operand", |s| s.l.externs.push(s.l.externs[0])),
    ("are not what is there before it", |s| s.l.externs.truncate(1)),
    ("does not begin behind its externs", |s| s.l.base -= LINE),
    ("does not begin behind its externs", |s| s.l.base += 1),
    ("is no operand of the loop", |s| s.l.externs[0].outer = Outer::Read(99)),
    ("of the body does not fit its operand", |s| s.l.length += 1),
    ("the body writes what the loop reads", |s| {
        let carry = s.extern_of(Outer::Write(0));
        s.l.externs[carry].outer = Outer::Read(s.start_of(0));
    }),
    ("is in place and an extern of the body", |s| {
        let (_, r) = s.read_extern(true);
        s.inplace[r] = 0;
    }),
    ("of the body stands behind no start", |s| {
        let carry = s.extern_of(Outer::Write(0));
        s.l.externs[carry].behind_start = true;
    }),
    ("the body does not make write 2", |s| {
        let (stacked, _) = s.read_extern(true);
        s.l.externs[stacked].outer = Outer::Write(2);
    }),
    ("the body reads write 0 of the loop before", |s| {
        let r = s.start_of(0);
        s.inplace[r] = OUT_OF_PLACE;
    }),
    ("write 0 of the loop is two externs", |s| {
        let carry = s.extern_of(Outer::Write(1));
        s.l.externs[carry].outer = Outer::Write(0);
    }),
    ("takes over a read and is no extern of the body", |s| s.inplace.push(3)),
    ("without what ends it", |s| {
        s.l.exit = Some(LoopExit::Flag(FlagBound::Stops(1)));
        s.l.timestamps += 1;
    }),
    ("without what ends it", |s| s.l.exit = Some(LoopExit::Count(99))),
    ("without what ends it", |s| s.l.exit = Some(LoopExit::Count(s.read_extern(true).1))),
    ("has a write without contents before it", |s| {
        let (at, r) = (s.code.reads_at[s.at] as usize, s.read_extern(false).1);
        s.l.exit = Some(LoopExit::Count(r));
        s.code.reads[at + r] = Operand { len: 8, size: 1, ..s.code.reads[at + r] };
    }),
    ("the body does not know a write", |s| {
        let at = s.scratch();
        s.code.writes.insert(at, s.code.writes[at]);
        s.code.writes_at[s.at + 1..].iter_mut().for_each(|end| *end += 1);
    }),
    ("bytes of workspace and has", |s| {
        let at = s.scratch();
        s.code.writes[at].len -= LINE;
    }),
];

#[test]
fn every_refusal_of_a_loop_has_a_loop_that_breaks_one_promise() {
    let right = LoopSubject::new();
    assert_eq!(right.refused(), None);
    let mut failed = Vec::new();
    for (k, (why, wrong)) in WRONG_LOOPS.iter().enumerate() {
        let mut s = right.clone();
        wrong(&mut s);
        match s.refused() {
            Some(e) if e.contains(why) => {}
            other => failed.push(format!("{k}, {why}: {other:?}")),
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// A loop that a carry ends, and what its plan must be.
#[test]
fn a_flag_is_one_byte_that_is_carried_and_ends_no_slices_without_a_bound() {
    let g = Builder::new("flag");
    let (x, n) = (g.input("x", [64], DType::F32), g.input("n", [], DType::F32));
    let (y, _) = g.while_loop(&[x], 9, |c| c[0].sum(..).less(n), |c| vec![c[0].exp()]);
    let graph = g.finish([y[0]]).unwrap();
    let plan = schedule(graph.view(), 2).unwrap().plan;
    let at = (0..plan.code.len()).find(|&i| plan.code.has_body(i)).unwrap();
    let inplace = &plan.inplace[plan.code.read_range(at)];
    let refused = |wrong: &dyn Fn(&mut Instructions, &mut PlannedBody)| {
        let (mut code, mut l) = (plan.code.clone(), (*plan.code.loops[0]).clone());
        wrong(&mut code, &mut l);
        l.fits(&code, at, inplace).err().unwrap_or_default()
    };
    assert_eq!(refused(&|_, _| ()), "");
    assert_eq!(plan.code.loops[0].barriers(), 2);
    let writes = plan.code.writes_at[at] as usize;
    for wrong in [
        &|code: &mut Instructions, _: &mut PlannedBody| code.writes[writes].len = 2,
        &|_: &mut Instructions, l: &mut PlannedBody| l.when = Some(true),
        &|_: &mut Instructions, l: &mut PlannedBody| {
            l.externs.iter_mut().filter(|e| e.outer == Outer::Write(0)).for_each(|e| e.sliced = true);
        },
        &|_: &mut Instructions, l: &mut PlannedBody| {
            l.exit = Some(LoopExit::Flag(FlagBound::None));
            l.externs.iter_mut().filter(|e| e.outer == Outer::Write(1)).for_each(|e| e.sliced = true);
        },
    ] as [&dyn Fn(&mut Instructions, &mut PlannedBody); 4]
    {
        let e = refused(wrong);
        assert!(e.contains("without what ends it") || e.contains("a branch without a predicate"), "{e}");
    }
    // One barrier fewer: the timestamps are not those of the body.
    assert!(refused(&|_, l| l.timestamps -= 1).contains("are not those of the body"));
}

/// A read of no bytes is no read of what the loop has not written yet; a read of one element is.
#[test]
fn an_empty_read_of_a_stacked_result_is_no_read() {
    for (len, refused) in [(0, None), (1, Some("the body reads write 2 of the loop before it is written"))] {
        let mut s = LoopSubject::new();
        let stacked = s.l.externs[s.extern_of(Outer::Write(2))].buf;
        let mut body = (*s.l.plan).clone();
        let read = Operand { len, ..Operand::of_bytes(stacked, 0, 1, Split::Whole) };
        body.code.reads.push(read);
        *body.code.reads_at.last_mut().unwrap() += 1;
        s.l.plan = Checked::unproven(body);
        assert_eq!(s.refused().as_deref(), refused);
    }
}
