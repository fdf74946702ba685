//! The checker: walks the instructions over the arena's bytes and proves that a plan is right.
//!
//! It knows nothing of lifetimes. An ordered map says which version of which buffer each byte holds. The walk proves:
//!
//! * operands lie inside the arena, outside the bytes of other plans, and are aligned;
//! * every read finds all bytes of the version that earlier instructions wrote;
//! * a write overlaps no other write, and no read unless the pair is declared in place on the identical extent;
//! * units divide each write into disjoint parts (runs, or columns of whole rows) that cover it;
//! * of a stack whose loop may end early without filling the rest, only slices are read that an iteration made;
//! * at the end, each output is in its bytes, each updated leaf has its next value, and each other leaf has its old
//!   value;
//! * a step that stops at a bad index has changed no byte of a param or a state, because no instruction that may stop
//!   comes after one that writes there.
//!
//! [`Checked`] can be made here only: the executor's unsafe code rests on it. The walk runs in release builds too.

use super::faults::{FaultCheck, FaultLeaves};
use super::instructions::{BufKind, NO_LOOP, OUT_OF_PLACE, Operand};
use super::partial_contents::PartialContents;
use super::plan::Plan;
use crate::arena::tensor::LINE;
use crate::error::{Error, Kind, Result};
use crate::kernels::abi::Split;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A proven plan.
#[derive(Clone, Debug)]
pub struct Checked(Plan);

impl std::ops::Deref for Checked {
    type Target = Plan;
    fn deref(&self) -> &Plan {
        &self.0
    }
}

impl Checked {
    /// The plan, without its proof.
    pub(super) fn into_plan(self) -> Plan {
        self.0
    }
}

#[cfg(test)]
impl Checked {
    /// A plan without proof, for tests of red zones.
    pub fn unproven(plan: Plan) -> Checked {
        Checked(plan)
    }
}

/// Proves `plan`. The error (kind `Plan`) names the instruction and the broken invariant.
pub fn check_plan(plan: Plan) -> Result<Checked> {
    match Checker::new(&plan).and_then(Checker::run) {
        Ok(()) => Ok(Checked(plan)),
        Err(e) => Err(Error::new(Kind::Plan, format!("the memory plan is wrong: {e}"))),
    }
}

/// The contents of a byte: a buffer, and its version. Version 0 is from before the first instruction.
type Label = (u32, u32);

/// The contents of the arena.
#[derive(Default)]
struct CheckerMap {
    // First byte → one past the last, and their label. Extents are disjoint and not empty.
    extents: BTreeMap<usize, (usize, Label)>,
}

impl CheckerMap {
    /// Labels `r`; old labels there are lost.
    fn put(&mut self, r: Range<usize>, label: Label) {
        if r.is_empty() {
            return;
        }
        if let Some((&start, &(end, old))) = self.extents.range(..r.start).next_back()
            && end > r.start
        {
            self.extents.insert(start, (r.start, old));
            self.extents.insert(r.start, (end, old));
        }
        while let Some((&start, &(end, old))) = self.extents.range(r.start..r.end).next() {
            self.extents.remove(&start);
            if end > r.end {
                self.extents.insert(r.end, (end, old));
            }
        }
        self.extents.insert(r.start, (r.end, label));
    }

    /// True if every byte of `r` has `label`.
    fn holds(&self, r: Range<usize>, label: Label) -> bool {
        let mut at = r.start;
        if let Some((_, &(end, l))) = self.extents.range(..=at).next_back()
            && end > at
            && l == label
        {
            at = end;
        }
        for (&start, &(end, l)) in self.extents.range(at..r.end.max(at)) {
            if start > at || l != label {
                break;
            }
            at = end;
        }
        at >= r.end
    }

    /// True if any byte of `r` has a label.
    fn touches(&self, r: Range<usize>) -> bool {
        self.extents.range(..r.end).next_back().is_some_and(|(_, &(end, _))| end > r.start) && !r.is_empty()
    }
}

fn checked_ranges_overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

struct Checker<'p> {
    plan: &'p Plan,
    map: CheckerMap,
    version: Vec<u32>,
    /// The last instruction that wrote each buffer.
    writer: Vec<u32>,
    partial: PartialContents,
    /// Indices that were found good: label, offset, bytes, bound (`below`) and extra good value (`or`).
    good: BTreeSet<(Label, usize, usize, u64, Option<i64>)>,
    leaves: FaultLeaves,
    /// The first instruction that wrote bytes of a param or a state.
    changed: Option<usize>,
}

type Proof<T = ()> = Result<T, String>;

fn prove_if(ok: bool, broken: impl FnOnce() -> String) -> Proof {
    if ok { Ok(()) } else { Err(broken()) }
}

impl<'p> Checker<'p> {
    fn new(plan: &'p Plan) -> Proof<Checker<'p>> {
        let (code, n) = (&plan.code, plan.code.bytes.len());
        let ordered = plan.foreign.windows(2).all(|w| w[0].end <= w[1].start);
        prove_if(ordered && plan.foreign.iter().all(|f| f.start <= f.end), || "foreign bytes are not in order".into())?;
        prove_if(plan.offset.len() == n && plan.inplace.len() == code.reads.len(), || "columns do not fit".into())?;
        let mut runs = vec![0; code.loops.len()];
        for (i, &b) in code.body.iter().enumerate().filter(|(_, b)| **b != NO_LOOP) {
            let bodies = code.bodies_of(i);
            let whens: Vec<Option<bool>> = bodies.iter().map(|l| l.when).collect();
            let shape = matches!(whens[..], [None] | [Some(true), Some(false)]);
            prove_if(shape && b.0 < b.1, || format!("instruction {i} runs neither a loop nor two branches"))?;
            code.body_range(i).for_each(|b| runs[b] += 1);
        }
        prove_if(runs.iter().all(|&n| n <= 1), || "two instructions run one loop".into())?;
        let mut w = Checker {
            plan,
            map: CheckerMap::default(),
            version: vec![0; n],
            writer: vec![u32::MAX; n],
            partial: PartialContents::new(code),
            good: BTreeSet::new(),
            leaves: FaultLeaves::new(plan),
            changed: None,
        };
        for b in (0..n).filter(|&b| code.kind[b].is_pinned()) {
            let r = w.extent(&Operand::of_bytes(b as u32, 0, code.bytes[b], Split::Whole))?;
            prove_if(!w.map.touches(r.clone()), || format!("{} overlaps another leaf or constant", w.name(b as u32)))?;
            w.map.put(r, (b as u32, 0));
        }
        Ok(w)
    }

    fn name(&self, b: u32) -> String {
        let b = b as usize;
        format!("{} b{b} ({})", self.plan.code.kind[b].name(), self.plan.code.value[b])
    }

    /// The bytes of an operand, inside its buffer and the arena, and aligned.
    fn extent(&self, o: &Operand) -> Proof<Range<usize>> {
        let (code, place) = (&self.plan.code, self.plan.offset.get(o.buf as usize));
        let bytes = o.len.checked_mul(o.size);
        let (Some(&place), Some(bytes)) = (place, bytes) else { return Err("an operand that does not exist".into()) };
        let inner = o.off.checked_add(bytes).is_some_and(|end| end <= code.bytes[o.buf as usize]);
        prove_if(inner, || format!("an operand reaches beyond {}", self.name(o.buf)))?;
        let start = place.checked_add(o.off);
        let end = start.and_then(|s| s.checked_add(bytes)).filter(|&e| e <= self.plan.bytes);
        let (Some(start), Some(end)) = (start, end) else {
            return Err(format!("{} lies outside the arena", self.name(o.buf)));
        };
        let met = self.plan.foreign.partition_point(|f| f.start < end).checked_sub(1);
        let apart = start == end || met.is_none_or(|k| self.plan.foreign[k].end <= start);
        prove_if(apart, || format!("{} lies in the bytes of another plan", self.name(o.buf)))?;
        prove_if(place % LINE == 0 && start % o.align() == 0, || format!("{} is not aligned", self.name(o.buf)))?;
        Ok(start..end)
    }

    fn run(mut self) -> Proof {
        for i in 0..self.plan.code.len() {
            self.instruction(i).map_err(|e| format!("instruction {i} ({}): {e}", self.plan.code.node[i]))?;
        }
        self.end()
    }

    fn instruction(&mut self, i: usize) -> Proof {
        let code = &self.plan.code;
        let reads = code.reads_of(i).iter().map(|o| self.extent(o)).collect::<Proof<Vec<_>>>()?;
        let writes = code.writes_of(i).iter().map(|o| self.extent(o)).collect::<Proof<Vec<_>>>()?;
        for l in code.bodies_of(i) {
            l.fits(code, i, &self.plan.inplace[code.read_range(i)])?;
        }
        prove_if(code.has_body(i) || writes.len() <= 64, || "more than 64 writes".into())?;
        for (o, r) in code.reads_of(i).iter().zip(&reads) {
            let label = (o.buf, self.version[o.buf as usize]);
            let known = label.1 > 0 || code.kind[o.buf as usize].is_pinned() || r.is_empty();
            prove_if(known, || format!("{} is read before it is written", self.name(o.buf)))?;
            prove_if(self.map.holds(r.clone(), label), || format!("{} was overwritten", self.name(o.buf)))?;
        }
        let half = self.partial.wrong_read(code, i, &self.version);
        prove_if(half.is_none(), || {
            format!("a slice of {} is read that no iteration made", self.name(half.unwrap_or(0)))
        })?;
        self.in_place(i, &reads, &writes)?;
        for (j, (o, w)) in code.writes_of(i).iter().zip(&writes).enumerate() {
            let kind = code.kind[o.buf as usize];
            prove_if(!writes[..j].iter().any(|v| checked_ranges_overlap(v, w)), || {
                format!("two writes meet in {}", self.name(o.buf))
            })?;
            prove_if(code.is_whole(o), || format!("{} is written in part", self.name(o.buf)))?;
            prove_if(!matches!(kind, BufKind::Input | BufKind::Constant), || {
                format!("{} is written", self.name(o.buf))
            })?;
            self.units(i, o)?;
            // A buffer's second write may keep parts of the first, which must therefore be intact. Per-thread scratch
            // keeps nothing.
            let label = (o.buf, self.version[o.buf as usize]);
            let fresh = label.1 == 0 || matches!(o.split, Split::PerThread(_));
            prove_if(fresh || self.map.holds(w.clone(), label), || format!("{} was overwritten", self.name(o.buf)))?;
        }
        self.stops(i, &writes)?;
        for (o, w) in code.writes_of(i).iter().zip(&writes) {
            self.version[o.buf as usize] += 1;
            self.writer[o.buf as usize] = i as u32;
            self.map.put(w.clone(), (o.buf, self.version[o.buf as usize]));
        }
        self.partial.write(code, i, &self.version)
    }

    /// No instruction that may stop the step comes after one that writes a leaf, nor writes a leaf itself before all of
    /// its units have checked their indices. In a loop's body nothing is checked: the loop's instruction counts as the
    /// one that may stop.
    fn stops(&mut self, i: usize, writes: &[Range<usize>]) -> Proof {
        let code = &self.plan.code;
        if code.iterated {
            return Ok(());
        }
        let own = writes.iter().any(|w| self.leaves.overlap(w));
        let inner: Vec<FaultCheck>;
        let checks = match code.has_body(i) {
            true => {
                inner = code.bodies_of(i).iter().flat_map(|l| l.checks(code.reads_of(i))).collect();
                &inner[..]
            }
            false => code.checks_of(i),
        };
        for c in checks {
            let read = |o: &Operand| (o.buf, o.off, o.bytes()) == (c.buf, c.off, c.bytes);
            let seen = code.reads_of(i).iter().any(read);
            let test = c.looks.below.filter(|_| seen);
            let known = test.is_some_and(|below| {
                let label = (c.buf, self.version[c.buf as usize]);
                !self.good.insert((label, c.off, c.bytes, below, c.looks.or))
            });
            let before = self.changed.map_or(String::new(), |k| format!(", which instruction {k} does before it"));
            prove_if(known || self.changed.is_none(), || format!("it may stop a step after leaves changed{before}"))?;
            prove_if(known || !own || c.looks.early, || "it may stop a step and changes a leaf".into())?;
        }
        if own {
            self.changed.get_or_insert(i);
        }
        Ok(())
    }

    /// A write overlaps a read only if they are a declared pair on one extent; no other operand overlaps such a read.
    fn in_place(&self, i: usize, reads: &[Range<usize>], writes: &[Range<usize>]) -> Proof {
        let code = &self.plan.code;
        for (r, read) in reads.iter().enumerate() {
            let with = self.plan.inplace[code.read_range(i).start + r];
            if with != OUT_OF_PLACE {
                let declared = code.pairs_of(i).iter().any(|&(from, to)| usize::from(from) == r && to == with);
                prove_if(declared, || format!("read {r} is in place, which the kernel cannot do"))?;
                let to = code.writes_of(i).get(usize::from(with));
                let threads = to.is_none_or(|o| matches!(o.split, Split::PerThread(_)));
                let same = writes.get(usize::from(with)) == Some(read) && !threads;
                prove_if(same, || format!("read {r} is in place on another extent"))?;
                let others = reads.iter().enumerate().all(|(s, other)| s == r || !checked_ranges_overlap(read, other));
                prove_if(others, || format!("read {r} is in place and read twice"))?;
            }
            for (w, write) in writes.iter().enumerate() {
                let met = checked_ranges_overlap(read, write) && usize::from(with) != w;
                prove_if(!met, || format!("write {w} overlaps read {r}"))?;
            }
        }
        Ok(())
    }

    /// Units (or threads) divide the write into parts that cover it.
    fn units(&self, i: usize, o: &Operand) -> Proof {
        let (units, scratch) = (self.plan.code.units[i], self.plan.code.kind[o.buf as usize] == BufKind::Scratch);
        let covers = |n: usize, parts: usize| n.checked_mul(parts).is_some_and(|all| all >= o.len);
        match o.split {
            Split::Whole => prove_if(units == 1, || format!("{units} units write one operand whole")),
            Split::PerUnit(n) => prove_if(covers(n, units), || format!("{units} units of {n} leave a rest")),
            Split::Columns { row, width } => {
                let all = width.checked_mul(units).is_some_and(|all| all >= row);
                prove_if(all && o.len.is_multiple_of(row), || {
                    format!("{units} units of {width} columns of {row} leave a rest")
                })
            }
            Split::PerThread(n) => {
                prove_if(scratch && n.checked_mul(self.plan.threads) == Some(o.len), || "threads leave a rest".into())
            }
        }
    }

    fn end(&self) -> Proof {
        let code = &self.plan.code;
        let half = self.partial.wrong_end(code, &self.version);
        prove_if(half.is_none(), || {
            format!("slices of {} are left that no iteration made", self.name(half.unwrap_or(0)))
        })?;
        for o in &code.outputs {
            let ok = self.map.holds(self.extent(o)?, (o.buf, self.version[o.buf as usize]));
            let made = self.version[o.buf as usize] > 0 || code.kind[o.buf as usize].is_pinned() || o.bytes() == 0;
            prove_if(ok && made, || format!("output {} is not there at the end", self.name(o.buf)))?;
        }
        let mut updated = vec![false; code.bytes.len()];
        for u in &code.updates {
            let kept = |k: &BufKind| matches!(k, BufKind::Param | BufKind::State);
            prove_if(code.kind.get(u.leaf as usize).is_some_and(kept), || "a next value of what is not kept".into())?;
            updated[u.leaf as usize] = true;
            let leaf = self.extent(&Operand::of_bytes(u.leaf, 0, code.bytes[u.leaf as usize], Split::Whole))?;
            let next = (u.from.buf, self.version[u.from.buf as usize]);
            let there = self.extent(&u.from)? == leaf && next.1 > 0 && self.map.holds(leaf.clone(), next);
            let copied = self.copied(u.leaf, &u.from) && self.map.holds(leaf, (u.leaf, 1));
            prove_if(there || copied, || format!("{} does not hold its next value", self.name(u.leaf)))?;
        }
        for b in (0..code.bytes.len()).filter(|&b| code.kind[b].is_pinned() && !updated[b]) {
            let r = self.extent(&Operand::of_bytes(b as u32, 0, code.bytes[b], Split::Whole))?;
            prove_if(self.map.holds(r, (b as u32, 0)), || format!("{} was overwritten", self.name(b as u32)))?;
        }
        Ok(())
    }

    /// True if the one write of `leaf` copied the final version of `from`.
    fn copied(&self, leaf: u32, from: &Operand) -> bool {
        let (code, i) = (&self.plan.code, self.writer[leaf as usize]);
        if i == u32::MAX || !code.copies[i as usize] || self.version[leaf as usize] != 1 {
            return false;
        }
        let final_write = self.writer[from.buf as usize];
        code.reads_of(i as usize).first() == Some(from) && final_write < i
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_knows_what_bytes_hold() {
        let (a, b) = ((1, 1), (2, 1));
        let mut m = CheckerMap::default();
        m.put(0..64, a);
        m.put(64..128, a);
        assert!(m.holds(0..128, a) && m.holds(10..100, a) && m.holds(5..5, b));
        assert!(!m.holds(0..129, a) && !m.holds(0..1, b));
        m.put(32..96, b);
        assert!(m.holds(0..32, a) && m.holds(32..96, b) && m.holds(96..128, a));
        assert!(!m.holds(0..33, a) && !m.holds(31..40, b));
        m.put(0..128, a);
        assert_eq!(m.extents.len(), 1);
        assert!(m.touches(127..200) && !m.touches(128..200) && !m.touches(5..5));
        m.put(40..41, b);
        assert!(m.holds(0..40, a) && m.holds(40..41, b) && m.holds(41..128, a));
    }
}
