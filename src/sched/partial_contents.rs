//! Which buffers have contents only in the slices of iterations that ran: what the checker knows of partial stacks.
//!
//! A loop that ends early writes nothing to the other slices of such a stack. So nothing may read them: a reader is a
//! loop of as many iterations, by the same number, that has a slice in each; or a loop whose body proves this of its
//! slice; or a copy, whose result is as partial. That a carry counts the iterations of its loop is lowering's word.

use super::instructions::{BufKind, Instructions, Operand};
use super::planned_body::{LoopExit, Outer, PlannedBody};
use std::collections::BTreeMap;

/// A number of iterations: a buffer, its version, and an offset in it.
type Number = (u32, u32, usize);

/// What bounds the slices of a buffer that have contents.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Trips {
    number: Number,
    /// How many loops further in the slices are of iterations.
    depth: usize,
}

/// What bounds the slices of each buffer; one that is not here has contents everywhere.
pub(super) struct PartialContents {
    of: BTreeMap<u32, Vec<Trips>>,
}

fn number(o: &Operand, version: &[u32]) -> Number {
    (o.buf, version[o.buf as usize], o.off)
}

/// The operand, with a slice for each iteration, of which buffer `buf` of the body is the slice.
fn sliced(l: &PlannedBody, buf: u32) -> Option<Outer> {
    l.externs.iter().find(|e| e.buf == buf && e.sliced && !e.behind_start).map(|e| e.outer)
}

impl PartialContents {
    /// What is there before the first instruction.
    pub fn new(code: &Instructions) -> PartialContents {
        let mut all = PartialContents { of: BTreeMap::new() };
        for p in code.partial.iter().filter(|p| code.kind[p.buf as usize] != BufKind::State) {
            all.add(p.buf, Trips { number: (p.trips, 0, 0), depth: p.depth });
        }
        all
    }

    fn add(&mut self, buf: u32, trips: Trips) {
        let of = self.of.entry(buf).or_default();
        if !of.contains(&trips) {
            of.push(trips);
        }
    }

    fn trips(&self, buf: u32) -> &[Trips] {
        self.of.get(&buf).map_or(&[], Vec::as_slice)
    }

    /// The read of instruction `i` that may find a slice without contents.
    pub fn wrong_read(&self, code: &Instructions, i: usize, version: &[u32]) -> Option<u32> {
        let reads = code.reads_of(i);
        let keeps = |r: usize, t: &Trips| {
            let loops = code.has_body(i) && code.bodies_of(i).iter().all(|l| t.are_kept_by(l, r, reads, version));
            code.is_whole(&reads[r]) && (loops || code.copies[i])
        };
        let wrong = |&r: &usize| !self.trips(reads[r].buf).iter().all(|t| keeps(r, t));
        (0..reads.len()).find(wrong).map(|r| reads[r].buf)
    }

    /// Takes in what instruction `i` has written.
    pub fn write(&mut self, code: &Instructions, i: usize, version: &[u32]) -> Result<(), String> {
        let (reads, writes) = (code.reads_of(i), code.writes_of(i));
        if let (true, Some(from), Some(to)) = (code.copies[i], reads.first(), writes.first()) {
            self.trips(from.buf).to_vec().into_iter().for_each(|t| self.add(to.buf, t));
        }
        let operand = |outer: Outer| match outer {
            Outer::Read(r) => reads.get(r),
            Outer::Write(w) => writes.get(w),
        };
        for l in code.bodies_of(i) {
            for p in &l.partial {
                let (Some(to), Some(trips)) = (writes.get(p.write), operand(p.trips)) else {
                    return Err("a partial stack that is no operand of the loop".into());
                };
                self.add(to.buf, Trips { number: number(trips, version), depth: 0 });
            }
            let inner = &l.plan.code;
            for p in inner.partial.iter().filter(|p| inner.kind[p.buf as usize] == BufKind::State) {
                let both = [p.buf, p.trips].map(|b| {
                    sliced(l, b).and_then(|outer| match outer {
                        Outer::Write(w) => writes.get(w),
                        Outer::Read(_) => None,
                    })
                });
                let [Some(to), Some(trips)] = both else {
                    return Err("the body leaves a partial stack that is no slice".into());
                };
                self.add(to.buf, Trips { number: number(trips, version), depth: p.depth + 1 });
            }
        }
        Ok(())
    }

    /// The output, or the buffer with a next value, that lacks contents although nothing says so.
    pub fn wrong_end(&self, code: &Instructions, version: &[u32]) -> Option<u32> {
        let said = |leaf: u32, from: &Operand, t: &Trips| {
            let beside =
                |trips: u32| code.updates.iter().any(|u| u.leaf == trips && number(&u.from, version) == t.number);
            let slice = code.partial.iter().any(|p| p.buf == leaf && p.depth == t.depth && beside(p.trips));
            code.iterated && code.is_whole(from) && slice
        };
        let output = code.outputs.iter().find(|o| !self.trips(o.buf).is_empty()).map(|o| o.buf);
        let update = code.updates.iter().find(|u| !self.trips(u.from.buf).iter().all(|t| said(u.leaf, &u.from, t)));
        output.or(update.map(|u| u.leaf))
    }
}

impl Trips {
    /// True if the loop `l` has slices of read `r` only, and reads no more of these than have contents.
    fn are_kept_by(&self, l: &PlannedBody, r: usize, reads: &[Operand], version: &[u32]) -> bool {
        let is_number = |outer: Option<Outer>| match outer {
            Some(Outer::Read(k)) => reads.get(k).is_some_and(|o| number(o, version) == self.number),
            _ => false,
        };
        let counted = matches!(l.exit, Some(LoopExit::Count(k)) if is_number(Some(Outer::Read(k))));
        let inner = |buf: u32| {
            let mut slices = l.plan.code.partial.iter().filter(|p| p.buf == buf && p.depth + 1 == self.depth);
            slices.any(|p| is_number(sliced(l, p.trips)))
        };
        l.externs
            .iter()
            .filter(|e| e.outer == Outer::Read(r))
            .all(|e| e.sliced && !e.behind_start && if self.depth == 0 { counted } else { inner(e.buf) })
    }
}
