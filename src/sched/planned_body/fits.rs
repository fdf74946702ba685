//! Proof that a loop's body may run on the operands of its instruction. Used by the checker only.
//!
//! The body was proved in an address space of its own, where externs are disjoint. That proof holds in the arena on two
//! conditions: any two operands are disjoint unless both are only read, and each operand has the contents that the body
//! expects of its extern. The checker proves which operands of an instruction share bytes; this file proves that the
//! body neither writes what the loop only reads, nor reads a result of the loop that has no contents yet.

use super::{Extern, FlagBound, LoopExit, Outer, PlannedBody, count_timestamps};
use crate::arena::tensor::LINE;
use crate::kernels::abi::Split;
use crate::sched::instructions::{BufKind, Instructions, OUT_OF_PLACE, Operand};

type Proof = Result<(), String>;

fn prove_if(ok: bool, broken: impl FnOnce() -> String) -> Proof {
    if ok { Ok(()) } else { Err(broken()) }
}

/// The operands of a loop's instruction.
struct BodyFitsTarget<'a> {
    reads: &'a [Operand],
    writes: &'a [Operand],
    /// For each read, the write that shares its bytes, or [`OUT_OF_PLACE`].
    inplace: &'a [u8],
}

impl BodyFitsTarget<'_> {
    fn operand(&self, outer: Outer) -> Option<&Operand> {
        match outer {
            Outer::Read(r) => self.reads.get(r),
            Outer::Write(w) => self.writes.get(w),
        }
    }

    /// True if write `w` starts with the contents of a read.
    fn starts(&self, w: usize) -> bool {
        self.inplace.iter().any(|&with| with != OUT_OF_PLACE && usize::from(with) == w)
    }
}

impl PlannedBody {
    /// Proves that the body's externs and workspace fit the operands of instruction `i` of `code`. `inplace` names, for
    /// each read, the write that shares its bytes.
    pub fn fits(&self, code: &Instructions, i: usize, inplace: &[u8]) -> Proof {
        let outside = BodyFitsTarget { reads: code.reads_of(i), writes: code.writes_of(i), inplace };
        // One thread runs all of it, or all threads do with barriers: no thread has a part of an operand.
        let whole = |o: &Operand| o.split == Split::Whole;
        let all = outside.reads.iter().chain(outside.writes).all(whole) && code.units[i] == 1 && !code.copies[i];
        prove_if(all, || "threads divide the operands of a loop".into())?;
        self.timestamps_fit()?;
        self.predicate_fits(&outside)?;
        self.exit_fits(&outside)?;
        self.externs_fit_space()?;
        let mut written = vec![false; outside.writes.len()];
        for e in &self.externs {
            self.extern_fits(e, &outside)?;
            if let Outer::Write(w) = e.outer {
                let twice = std::mem::replace(&mut written[w], true);
                prove_if(!twice, || format!("write {w} of the loop is two externs of the body"))?;
            }
        }
        for &w in inplace.iter().filter(|&&w| w != OUT_OF_PLACE) {
            let carried = written.get(usize::from(w)) == Some(&true);
            prove_if(carried, || format!("write {w} of the loop takes over a read and is no extern of the body"))?;
        }
        let (last, before) = match written.split_last() {
            Some((last, before)) => (*last, before),
            None => (true, written.as_slice()),
        };
        prove_if(!before.contains(&false), || "the body does not know a write of the loop".into())?;
        let scratch = outside.writes.last().filter(|_| !last).map_or(0, Operand::bytes);
        prove_if(scratch >= self.workspace(), || {
            format!("the body needs {} bytes of workspace and has {scratch}", self.workspace())
        })
    }

    /// A branch runs once, and read 0 is its predicate: one byte that no write takes over.
    fn predicate_fits(&self, outside: &BodyFitsTarget<'_>) -> Proof {
        let Some(_) = self.when else { return Ok(()) };
        let one = outside.reads.first().is_some_and(|o| o.bytes() == 1 && o.size == 1);
        let apart = outside.inplace.first() == Some(&OUT_OF_PLACE);
        prove_if(one && apart && self.length == 1, || "a branch without a predicate of its own".into())
    }

    /// What ends the loop early has the size that the executor reads, and no iteration needs to run: each write has
    /// contents before the first.
    fn exit_fits(&self, outside: &BodyFitsTarget<'_>) -> Proof {
        let Some(exit) = self.exit else {
            return prove_if(self.partial.is_empty(), || "a partial stack of a loop of all iterations".into());
        };
        // The number of iterations that a partial stack names is what ends the loop, or a carry.
        let carried = |w: usize| self.externs.iter().any(|e| e.outer == Outer::Write(w) && !e.sliced);
        let numbered = self.partial.iter().all(|p| match (exit, p.trips) {
            (LoopExit::Count(k), trips) => trips == Outer::Read(k),
            (LoopExit::Flag(_), Outer::Write(w)) => {
                carried(w) && outside.writes.get(w).is_some_and(|o| o.bytes() == size_of::<i64>())
            }
            (LoopExit::Flag(_), Outer::Read(_)) => false,
        });
        prove_if(numbered, || "a partial stack without the number of iterations".into())?;
        let there = match exit {
            LoopExit::Flag(bound) => {
                let byte = outside.writes.first().is_some_and(|o| o.bytes() == 1 && o.size == 1);
                let carried = self.externs.iter().any(|e| e.outer == Outer::Write(0) && !e.sliced);
                byte && carried && (bound != FlagBound::None || self.externs.iter().all(|e| !e.sliced))
            }
            LoopExit::Count(k) => {
                let number = outside.reads.get(k).is_some_and(|o| o.bytes() == size_of::<i64>() && o.size == 1);
                number && outside.inplace.get(k) == Some(&OUT_OF_PLACE)
            }
        };
        prove_if(there && self.when.is_none(), || "a loop that ends early without what ends it".into())?;
        let starts = |e: &Extern| match e.outer {
            Outer::Write(w) => {
                let partial = e.sliced && self.partial.iter().any(|p| p.write == w);
                partial || outside.starts(w) || outside.writes.get(w).is_none_or(|o| o.bytes() == 0)
            }
            Outer::Read(_) => true,
        };
        prove_if(self.externs.iter().all(starts), || {
            "a loop that ends early has a write without contents before it".into()
        })
    }

    /// There is an iteration, and its timestamps are counted right.
    fn timestamps_fit(&self) -> Proof {
        let code = &self.plan.code;
        let all = (0..code.len()).map(|i| count_timestamps(code, i)).fold(self.barriers(), usize::saturating_add);
        let few = self.timestamps.checked_mul(self.length).is_some_and(|n| n <= isize::MAX as usize);
        prove_if(self.length > 0, || "a loop of no iteration".into())?;
        prove_if(few && self.timestamps == all, || "the timestamps of an iteration are not those of the body".into())
    }

    /// The externs are the pinned buffers of the body, each once, in front of the workspace.
    fn externs_fit_space(&self) -> Proof {
        let code = &self.plan.code;
        let mut known = vec![false; code.bytes.len()];
        for e in &self.externs {
            let first = known.get_mut(e.buf as usize).is_some_and(|k| !std::mem::replace(k, true));
            prove_if(first, || format!("extern b{} of the body does not fit its operand", e.buf))?;
        }
        let there = (0..known.len()).all(|b| known[b] == code.kind[b].is_pinned());
        prove_if(there, || "the externs of the body are not what is there before it".into())?;
        let end = self.externs.iter().map(|e| self.extern_range(e).end).max().unwrap_or(0);
        let behind = self.base.is_multiple_of(LINE) && (end..=self.plan.bytes).contains(&self.base);
        prove_if(behind, || "the workspace of the body does not begin behind its externs".into())
    }

    /// Extern `e` has the size of its operand and the contents that the body expects; the body does not write what the
    /// loop reads.
    fn extern_fits(&self, e: &Extern, outside: &BodyFitsTarget<'_>) -> Proof {
        let (code, buf) = (&self.plan.code, e.buf as usize);
        let Some(o) = outside.operand(e.outer) else {
            return Err("an extern of the body is no operand of the loop".into());
        };
        let fits = code.bytes[buf].checked_mul(self.slices(e)) == Some(o.bytes());
        prove_if(fits, || format!("extern b{buf} of the body does not fit its operand"))?;
        let updated = code.updates.iter().any(|u| u.leaf == e.buf);
        let starts = matches!(e.outer, Outer::Write(w) if e.sliced && updated && outside.starts(w));
        prove_if(starts || !e.behind_start, || format!("extern b{buf} of the body stands behind no start"))?;
        match e.outer {
            Outer::Read(r) => {
                let reads = code.kind[buf] != BufKind::State && !updated;
                prove_if(reads, || "the body writes what the loop reads".into())?;
                // An in-place read is reached through its write, which is another extern, or none.
                let apart = outside.inplace.get(r) == Some(&OUT_OF_PLACE);
                prove_if(apart, || format!("read {r} of the loop is in place and an extern of the body"))
            }
            // A write without a read in place has no contents yet.
            Outer::Write(w) if !outside.starts(w) && o.bytes() > 0 => {
                prove_if(updated, || format!("the body does not make write {w} of the loop"))?;
                let read = code.reads.iter().any(|r| r.buf == e.buf && r.bytes() > 0);
                prove_if(!read, || format!("the body reads write {w} of the loop before it is written"))
            }
            Outer::Write(_) => Ok(()),
        }
    }
}
