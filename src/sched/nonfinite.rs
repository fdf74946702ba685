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
            let n = Counts::of(self.arena.slice(r.bytes.clone()), r.float);
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
        ArenaPtr::of(self.arena)
    }

    fn goes_on(&mut self, time: usize) -> bool {
        self.time = time;
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
                let held = Counts::of(self.arena.slice(bytes.clone()), float);
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
