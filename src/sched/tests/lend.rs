//! Steps that lend bytes: a second thread gets them once no instruction touches them, also if the step stops.

use super::hand::{CALL, HandPlan};
use crate::arena::tensor::TensorArena;
use crate::kernels::abi::{Args, Kernel};
use crate::sched::exec::{Exec, Stop, ThreadState};
use crate::sched::instructions::{BufKind, Instr};
use crate::sched::lend::{Lender, Taker};
use crate::sched::modelled_time::InstrTime;
use crate::sched::panicked::panicked;
use crate::sched::share::share_tapes_above;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const LINE: usize = 64;

/// Fills its result with the first parameter.
fn fill(args: &mut Args<'_>) {
    let x = args.params()[0] as u8;
    args.write_bytes(0).fill(x);
}

/// Two states: instruction 0 writes the first, `between` runs, instruction 2 writes the second.
fn exec(between: Kernel) -> Arc<Exec> {
    let mut p = HandPlan::new();
    let leaf = |p: &mut HandPlan, at: usize| p.bytes(at * LINE, LINE, BufKind::State);
    let (first, second) = (leaf(&mut p, 0), leaf(&mut p, 1));
    let call = Instr { time: InstrTime { total: 10, ..InstrTime::default() }, ..CALL };
    p.call(&Instr { kernel: fill, params: &[1], writes: &[first], ..call });
    p.call(&Instr { kernel: between, ..call });
    p.call(&Instr { kernel: fill, params: &[2], writes: &[second], ..call });
    let plan = p.plan(1);
    Arc::new(Exec::new(&plan, share_tapes_above(&plan, u64::MAX)).unwrap())
}

/// Adds 10 to what it takes, and notes it.
#[derive(Default)]
struct Adder<'a> {
    taken: Vec<(usize, u8, bool)>,
    told: Option<&'a AtomicUsize>,
}

impl Taker for Adder<'_> {
    fn take(&mut self, part: usize, bytes: &mut [u8], computes: bool) {
        self.taken.push((part, bytes[LINE - 1], computes));
        bytes.iter_mut().for_each(|x| *x += 10);
        if let Some(told) = self.told {
            told.fetch_add(1, Ordering::Release);
        }
    }
}

/// What a step does, and the contents of both states.
fn step(lender: &mut Lender, taker: &mut dyn Taker) -> (Result<(), Stop>, [u8; 2]) {
    let mut arena = TensorArena::new(2 * LINE).unwrap();
    let done = lender.step(&mut arena, taker, |lending| lending.step_alone(&ThreadState::default()));
    (done, [arena.bytes()[0], arena.bytes()[2 * LINE - 1]])
}

#[test]
fn bytes_are_lent_once_nothing_touches_them() {
    let exec = exec(|_| ());
    let of = |bytes| {
        let part = exec.lent_part(bytes);
        (part.last, (3.0 * part.left).round())
    };
    assert_eq!((of(0..LINE), of(LINE..2 * LINE), of(0..2 * LINE)), ((Some(0), 2.0), (Some(2), 0.0), (Some(2), 0.0)));
    assert_eq!((of(2 * LINE..3 * LINE), of(LINE - 1..LINE)), ((None, 3.0), (Some(0), 2.0)));
    assert!(Lender::new(&exec, &[0..LINE, LINE - 1..2 * LINE]).is_err());
}

/// The instruction in the middle ends when the first state has been taken, or fails.
#[test]
fn a_part_is_taken_while_the_step_goes_on() {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    let exec = exec(|_| {
        let looks = (0..10_000).find(|_| {
            std::thread::sleep(Duration::from_millis(1));
            TAKEN.load(Ordering::Acquire) == 1
        });
        assert!(looks.is_some(), "the part was not taken");
    });
    let mut lender = Lender::new(&exec, &[0..LINE, LINE..2 * LINE]).unwrap();
    for _ in 0..3 {
        TAKEN.store(0, Ordering::Release);
        let mut taker = Adder { told: Some(&TAKEN), ..Adder::default() };
        assert_eq!(step(&mut lender, &mut taker), (Ok(()), [11, 12]));
        assert_eq!(taker.taken[0], (0, 1, true));
        assert_eq!((taker.taken[1].0, taker.taken[1].1, taker.taken.len()), (1, 2, 2));
    }
}

#[test]
fn a_step_that_stops_lends_all_parts() {
    let exec = exec(|_| std::panic::resume_unwind(Box::new("stop")));
    let mut lender = Lender::new(&exec, &[LINE..2 * LINE, 0..LINE]).unwrap();
    for _ in 0..3 {
        let mut taker = Adder::default();
        let (done, bytes) = step(&mut lender, &mut taker);
        assert_eq!((done.unwrap_err().instr, bytes), (1, [11, 10]));
        assert_eq!(taker.taken, [(0, 0, false), (1, 1, false)]);
    }
}

#[test]
fn a_taker_that_panics_ends_the_step() {
    struct Panics;
    impl Taker for Panics {
        fn take(&mut self, _: usize, _: &mut [u8], _: bool) {
            std::panic::resume_unwind(Box::new("no"));
        }
    }
    let exec = exec(|_| ());
    let mut lender = Lender::new(&exec, std::slice::from_ref(&(0..LINE))).unwrap();
    assert!(panicked(|| _ = step(&mut lender, &mut Panics)));
    // The next step is whole.
    assert_eq!(step(&mut lender, &mut Adder::default()).1, [11, 2]);
}
