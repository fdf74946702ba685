//! Looking for NaN and infinities while a step runs: operands are scanned before a node's instructions, its results
//! after them.
//!
//! A node *makes* a bad number if it gives a NaN from operands without NaN, or an infinity from finite operands. The
//! first such node in the order of execution is the culprit. Later nodes whose results are not finite are carriers. A
//! step goes on after the culprit, so that the carriers are known. Invariant: watching changes no result.

use super::link::Segment;
use super::observer::StepObserver;
use crate::arena::tensor::TensorArena;
use crate::kernels::abi::{ArenaPtr, LoopOffsets};
use std::ops::Range;

/// A float type whose elements can be scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScannedFloat {
    /// 16 bits, 5 of them for the exponent.
    F16,
    /// 16 bits, 8 of them for the exponent.
    BF16,
    /// 32 bits.
    F32,
    /// 64 bits.
    F64,
    /// Pairs of 32 bits; scanned by their moduli.
    C64,
    /// Pairs of 64 bits; scanned by their moduli.
    C128,
}

/// What is watched of one instruction.
#[derive(Clone, Debug, Default)]
pub struct WatchedCall {
    /// Of each read: its type and the value's number, unless it is scratch, no float, or a result of the same node.
    pub reads: Vec<Option<(ScannedFloat, u32)>>,
    /// Of each write: its type, if it is a result that is a float.
    pub writes: Vec<Option<ScannedFloat>>,
    /// True for the first instruction of a node.
    pub first: bool,
    /// True for the last instruction of a node.
    pub last: bool,
    /// True if the node asks for an infinity itself, as a mask filled with −∞ does.
    pub infinite: bool,
}

/// What the elements of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// Number of elements.
    pub count: usize,
    /// How many are NaN.
    pub nan: usize,
    /// How many are infinite.
    pub infinite: usize,
    /// The first element that is not finite.
    pub first: Option<usize>,
    /// The smallest finite element; +∞ if there is none.
    pub low: f64,
    /// The largest finite element; −∞ if there is none.
    pub high: f64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts { count: 0, nan: 0, infinite: 0, first: None, low: f64::INFINITY, high: f64::NEG_INFINITY }
    }
}

impl Counts {
    /// What `bytes` hold. They need not be aligned.
    pub fn of(bytes: &[u8], float: ScannedFloat) -> Counts {
        let mut n = Counts::default();
        match float {
            ScannedFloat::F16 => {
                bytes.as_chunks::<2>().0.iter().for_each(|b| n.add(half::f16::from_le_bytes(*b).to_f64()))
            }
            ScannedFloat::BF16 => {
                bytes.as_chunks::<2>().0.iter().for_each(|b| n.add(half::bf16::from_le_bytes(*b).to_f64()))
            }
            ScannedFloat::F32 => bytes.as_chunks::<4>().0.iter().for_each(|b| n.add(f64::from(f32::from_le_bytes(*b)))),
            ScannedFloat::F64 => bytes.as_chunks::<8>().0.iter().for_each(|b| n.add(f64::from_le_bytes(*b))),
            ScannedFloat::C128 => bytes.as_chunks::<8>().0.as_chunks::<2>().0.iter().for_each(|pair| {
                let [re, im] = pair.map(f64::from_le_bytes);
                n.add(if re.is_nan() || im.is_nan() { f64::NAN } else { re.hypot(im) });
            }),
            ScannedFloat::C64 => bytes.as_chunks::<4>().0.as_chunks::<2>().0.iter().for_each(|pair| {
                let [re, im] = pair.map(|b| f64::from(f32::from_le_bytes(b)));
                n.add(if re.is_nan() || im.is_nan() { f64::NAN } else { re.hypot(im) });
            }),
        }
        n
    }

    fn add(&mut self, x: f64) {
        if x.is_finite() {
            (self.low, self.high) = (self.low.min(x), self.high.max(x));
        } else {
            self.nan += usize::from(x.is_nan());
            self.infinite += usize::from(x.is_infinite());
            self.first.get_or_insert(self.count);
        }
        self.count += 1;
    }

    /// How many elements are not finite.
    pub fn bad(&self) -> usize {
        self.nan + self.infinite
    }
}

/// The node that made the first bad numbers.
#[derive(Clone, Debug)]
pub struct Culprit {
    /// Timestamp of the node's last instruction.
    pub time: usize,
    /// The instruction, counted over all segments, and which of its writes.
    pub write: (usize, usize),
    /// The result.
    pub result: Counts,
    /// The operands: the value's number, and what it held before the node ran.
    pub operands: Vec<(u32, Counts)>,
}

/// What a watched step found. Its space is kept from step to step.
#[derive(Debug, Default)]
pub struct NonfiniteFindings {
    /// The first node that made bad numbers.
    pub culprit: Option<Culprit>,
    /// Number of nodes that ran after it and have results that are not finite; each iteration of a loop counts.
    pub carriers: usize,
    operands: Vec<Read>,
    results: Vec<Written>,
}

/// An operand of the current node: the value's number, its bytes, and what they held before the node ran.
#[derive(Clone, Debug)]
struct Read {
    value: u32,
    bytes: Range<usize>,
    held: Counts,
}

/// A result of the current node.
#[derive(Clone, Debug)]
struct Written {
    bytes: Range<usize>,
    float: ScannedFloat,
    write: (usize, usize),
}

/// The observer of a watched step.
pub(super) struct NonfiniteObserver<'a> {
    arena: &'a mut TensorArena,
    calls: &'a [WatchedCall],
    found: &'a mut NonfiniteFindings,
    time: usize,
}

impl<'a> NonfiniteObserver<'a> {
    /// Watches a step in `arena`; `calls` are the instructions of all segments.
    pub fn new(arena: &'a mut TensorArena, calls: &'a [WatchedCall], found: &'a mut NonfiniteFindings) -> Self {
        (found.culprit, found.carriers) = (None, 0);
        NonfiniteObserver { arena, calls, found, time: 0 }
    }

    /// Judges the results of the node whose last instruction is done.
    fn judge(&mut self, infinite: bool) {
        let found = &mut *self.found;
        let nan_in = found.operands.iter().any(|o| o.held.nan > 0);
        let bad_in = found.operands.iter().any(|o| o.held.bad() > 0);
        let mut carries = false;
        for r in &found.results {
            let n = Counts::of(&self.arena.bytes()[r.bytes.clone()], r.float);
            if n.bad() == 0 {
                continue;
            }
            let makes = (n.nan > 0 && !nan_in) || (n.infinite > 0 && !bad_in && !infinite);
            if makes && found.culprit.is_none() {
                let operands = found.operands.iter().map(|o| (o.value, o.held)).collect();
                found.culprit = Some(Culprit { time: self.time, write: r.write, result: n, operands });
                carries = false;
                break;
            }
            carries = true;
        }
        found.carriers += usize::from(carries && found.culprit.is_some());
    }
}

impl StepObserver for NonfiniteObserver<'_> {
    fn arena(&mut self) -> ArenaPtr {
        ArenaPtr::new(self.arena.bytes_mut())
    }

    fn goes_on(&mut self, time: usize) -> bool {
        self.time = time;
        true
    }

    fn barrier(&mut self, _: usize) -> bool {
        true
    }

    fn dead(&mut self, _: &[Range<usize>]) {}

    fn begins(&mut self, segment: &Segment, i: usize, moves: &LoopOffsets<'_>) {
        let number = segment.first + i;
        let (call, watched) = (&segment.calls[i], &self.calls[number]);
        if watched.first {
            self.found.operands.clear();
            self.found.results.clear();
        }
        let range = |slot: u32| {
            let s = &segment.slots[slot as usize];
            let at = moves.operand_offset(s);
            at..at + s.len * s.size
        };
        for (slot, read) in (call.reads.0..call.reads.1).zip(&watched.reads) {
            let Some((float, value)) = *read else { continue };
            let bytes = range(slot);
            // Two windows of one buffer are two operands.
            if self.found.operands.iter().all(|o| (o.value, &o.bytes) != (value, &bytes)) {
                let held = Counts::of(&self.arena.bytes()[bytes.clone()], float);
                self.found.operands.push(Read { value, bytes, held });
            }
        }
        for (k, (slot, write)) in (call.writes.0..call.writes.1).zip(&watched.writes).enumerate() {
            let Some(float) = *write else { continue };
            let bytes = range(slot);
            if self.found.results.iter().all(|r| r.bytes != bytes) {
                self.found.results.push(Written { bytes, float, write: (number, k) });
            }
        }
    }

    fn done(&mut self, segment: &Segment, i: usize) {
        // A loop's instruction is no node of its own here: its body has been watched.
        let watched = &self.calls[segment.first + i];
        if watched.last && segment.calls[i].runs_kernel() {
            self.judge(watched.infinite);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::abi::Args;
    use crate::sched::exec::{Exec, ThreadState};
    use crate::sched::instructions::{BufKind, Instr};
    use crate::sched::share::share_tapes_above;
    use crate::sched::tests::hand::{CALL, HandPlan};

    const F32: Option<ScannedFloat> = Some(ScannedFloat::F32);

    #[test]
    fn numbers_are_counted_in_each_type() {
        let x = [1.5, f64::NAN, -2.0, f64::INFINITY, f64::NEG_INFINITY];
        let f32s: Vec<u8> = x.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect();
        let f64s: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        let f16s: Vec<u8> = x.iter().flat_map(|&x| half::f16::from_f64(x).to_le_bytes()).collect();
        let bf16s: Vec<u8> = x.iter().flat_map(|&x| half::bf16::from_f64(x).to_le_bytes()).collect();
        let want = Counts { count: 5, nan: 1, infinite: 2, first: Some(1), low: -2.0, high: 1.5 };
        for (bytes, float) in [
            (f32s, ScannedFloat::F32),
            (f64s, ScannedFloat::F64),
            (f16s, ScannedFloat::F16),
            (bf16s, ScannedFloat::BF16),
        ] {
            assert_eq!(Counts::of(&bytes, float), want, "{float:?}");
        }
        assert_eq!(Counts::of(&[], ScannedFloat::F32).bad(), 0);
    }

    /// A complex number is as large as its modulus. It is NaN if a part is, whatever the other one.
    #[test]
    fn complex_numbers_are_counted_by_their_moduli() {
        let parts = [[3.0, -4.0], [f64::NAN, f64::INFINITY], [0.0, f64::NEG_INFINITY], [0.0, 0.5]];
        let c128s: Vec<u8> = parts.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect();
        let c64s: Vec<u8> = parts.as_flattened().iter().flat_map(|&x| (x as f32).to_le_bytes()).collect();
        let want = Counts { count: 4, nan: 1, infinite: 1, first: Some(1), low: 0.5, high: 5.0 };
        for (bytes, float) in [(c128s, ScannedFloat::C128), (c64s, ScannedFloat::C64)] {
            assert_eq!(Counts::of(&bytes, float), want, "{float:?}");
        }
    }

    /// The culprit's write and the carriers after a node that reads `operand` and a 1, and writes `results`.
    fn judged(operand: f32, results: [f32; 2], infinite: bool, later: bool) -> (Option<(usize, usize)>, usize) {
        let mut arena = TensorArena::new(64).unwrap();
        arena.bytes_mut()[..8].copy_from_slice(results.map(f32::to_le_bytes).as_flattened());
        let mut found = NonfiniteFindings::default();
        let mut observer = NonfiniteObserver::new(&mut arena, &[], &mut found);
        let held = Counts::of(&operand.to_le_bytes(), ScannedFloat::F32);
        if later {
            let (result, operands) = (held, Vec::new());
            observer.found.culprit = Some(Culprit { time: 1, write: (9, 9), result, operands });
        }
        let one = Counts::of(&1f32.to_le_bytes(), ScannedFloat::F32);
        observer.found.operands.push(Read { value: 7, bytes: 8..12, held });
        observer.found.operands.push(Read { value: 8, bytes: 12..16, held: one });
        let written = |k: usize| Written { bytes: 4 * k..4 * k + 4, float: ScannedFloat::F32, write: (5, k) };
        observer.found.results.extend([written(0), written(1)]);
        assert!(observer.goes_on(3));
        observer.judge(infinite);
        if let Some(culprit) = found.culprit.as_ref().filter(|_| !later) {
            assert_eq!((culprit.time, &culprit.operands[..]), (3, &[(7, held), (8, one)][..]));
            assert_eq!((culprit.result.count, culprit.result.bad()), (1, 1));
        }
        (found.culprit.map(|c| c.write), found.carriers)
    }

    #[test]
    fn a_node_is_the_culprit_if_it_makes_what_it_did_not_read() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let none = (None, 0);
        assert_eq!(judged(1.0, [2.0, 3.0], false, false), none);
        assert_eq!(judged(1.0, [2.0, nan], false, false), (Some((5, 1)), 0));
        assert_eq!(judged(1.0, [nan, nan], false, false), (Some((5, 0)), 0));
        assert_eq!(judged(1.0, [inf, 3.0], false, false), (Some((5, 0)), 0));
        // A NaN explains all that follows from it, an infinity explains infinities.
        assert_eq!(judged(nan, [nan, 3.0], false, false), none);
        assert_eq!(judged(nan, [-inf, 3.0], false, false), none);
        assert_eq!(judged(inf, [inf, 3.0], false, false), none);
        assert_eq!(judged(inf, [inf, nan], false, false), (Some((5, 1)), 0));
        // A node may ask for an infinity, not for a NaN.
        assert_eq!(judged(1.0, [inf, 3.0], true, false), none);
        assert_eq!(judged(1.0, [inf, nan], true, false), (Some((5, 1)), 0));
        // Behind the culprit each node with such results counts once.
        let first = Some((9, 9));
        assert_eq!(judged(nan, [nan, nan], false, true), (first, 1));
        assert_eq!(judged(1.0, [2.0, nan], false, true), (first, 1));
        assert_eq!(judged(1.0, [inf, 3.0], true, true), (first, 1));
        assert_eq!(judged(nan, [2.0, 3.0], false, true), (first, 0));
    }

    #[test]
    fn only_finite_numbers_count_for_the_extremes() {
        let none = Counts::of(&f32::NAN.to_le_bytes(), ScannedFloat::F32);
        assert_eq!((none.low, none.high, none.first, none.bad()), (f64::INFINITY, f64::NEG_INFINITY, Some(0), 1));
        let one = Counts::of(&3f32.to_le_bytes(), ScannedFloat::F32);
        assert_eq!((one.low, one.high, one.first, one.bad(), one.count), (3.0, 3.0, None, 0, 1));
    }

    /// Makes NaN of the last write, or zeros if it has a parameter.
    fn spoil(args: &mut Args<'_>) {
        let byte = if args.params().is_empty() { 0xff } else { 0 };
        args.write_bytes(args.writes() - 1).fill(byte);
    }

    /// What a step of `p` finds.
    fn watched(p: HandPlan, calls: &[WatchedCall]) -> NonfiniteFindings {
        let plan = p.plan(1);
        let exec = Exec::new(&plan, share_tapes_above(&plan, u64::MAX)).unwrap();
        let mut arena = TensorArena::new(exec.bytes()).unwrap();
        let mut found = NonfiniteFindings::default();
        exec.step_watched(&mut arena, &ThreadState::default(), calls, &mut found).unwrap();
        found
    }

    /// Reads and writes without a float stand before those with one; an operand may be read twice.
    #[test]
    fn all_floats_of_a_call_are_looked_at_and_each_operand_once() {
        let mut p = HandPlan::new();
        let [index, x, y] = [0, 64, 128].map(|at| p.bytes(at, 4, BufKind::Input));
        let [scratch, good, bad] = [192, 256, 320].map(|at| p.bytes(at, 4, BufKind::Activation));
        p.call(&Instr { kernel: spoil, reads: &[index, x, x, y], writes: &[scratch, good, bad], ..CALL });
        let of = |value: u32| Some((ScannedFloat::F32, value));
        let (reads, writes) = (vec![None, of(7), of(7), of(8)], vec![None, F32, F32]);
        let found = watched(p, &[WatchedCall { reads, writes, first: true, last: true, infinite: false }]);
        let culprit = found.culprit.unwrap();
        let zero = Counts::of(&[0; 4], ScannedFloat::F32);
        assert_eq!((culprit.time, culprit.write, found.carriers), (0, (0, 2), 0));
        assert_eq!(culprit.operands, [(7, zero), (8, zero)]);
    }

    #[test]
    fn a_node_is_judged_behind_its_last_call() {
        let mut p = HandPlan::new();
        let y = p.bytes(0, 4, BufKind::Output);
        p.call(&Instr { kernel: spoil, writes: &[y], ..CALL });
        p.call(&Instr { kernel: spoil, params: &[1], writes: &[y], ..CALL });
        let writes = || WatchedCall { writes: vec![F32], ..WatchedCall::default() };
        let found = watched(p, &[WatchedCall { first: true, ..writes() }, WatchedCall { last: true, ..writes() }]);
        assert!(found.culprit.is_none() && found.carriers == 0);
    }

    #[test]
    fn a_node_without_bad_results_carries_none_on() {
        let mut p = HandPlan::new();
        let [x, y] = [0, 64].map(|at| p.bytes(at, 4, BufKind::Output));
        p.call(&Instr { kernel: spoil, writes: &[x], ..CALL });
        p.call(&Instr { kernel: spoil, params: &[1], reads: &[x], writes: &[y], ..CALL });
        let (reads, writes) = (vec![Some((ScannedFloat::F32, 7))], vec![F32]);
        let node = WatchedCall { reads, writes, first: true, last: true, infinite: false };
        let found = watched(p, &[WatchedCall { reads: Vec::new(), ..node.clone() }, node]);
        let culprit = found.culprit.unwrap();
        assert_eq!((culprit.write, culprit.operands.len(), found.carriers), ((0, 0), 0, 0));
    }
}
