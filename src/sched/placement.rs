//! Placements: what planning decided for the code of a graph or of a loop's body, so that the plan can be made again
//! without a search.
//!
//! A placement holds the order of groups and the offset of each buffer. All else follows from the graph: lowering makes
//! the instructions, and the rules for sharing bytes are applied to the stored order. The plan is then proved as any
//! other, so a wrong placement is an error, never a wrong plan.

use super::instructions::{Instructions, Operand};
use super::order::{CANDIDATES, Ordered, score_order};
use crate::arena::tensor::LINE;
use crate::error::{Error, Kind, Result};
use crate::kernels::abi::Split;
use std::cell::RefCell;
use std::collections::VecDeque;

/// See the file's head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// A checksum of the lowered code that the placement is for.
    pub code: u32,
    /// The groups of the lowered code, in the order in which they run.
    pub groups: Vec<u32>,
    /// The candidate that the order comes from, as an index into [`CANDIDATES`].
    pub candidate: u32,
    /// The first line of each buffer.
    pub lines: Vec<u32>,
    /// Lines of the address space.
    pub end: u32,
    /// Lower bound for all orders, in lines.
    pub order_bound: u64,
}

impl Placement {
    /// `code` in the stored order, and the offset of each buffer in bytes.
    pub(super) fn apply(&self, code: &Instructions) -> Result<(Ordered, Vec<usize>)> {
        let other = |what: &str| Err(Error::new(Kind::Plan, format!("the stored plan is for other code: {what}")));
        if self.code != code_checksum(code) {
            return other("this engine or this CPU lowers the graph to other instructions");
        }
        let mut at = vec![u32::MAX; code.groups()];
        for (k, &g) in self.groups.iter().enumerate() {
            match at.get_mut(g as usize) {
                Some(place) if *place == u32::MAX => *place = k as u32,
                _ => return other("its order names a group twice, or one that does not exist"),
            }
        }
        if self.order_bound > u64::from(u32::MAX) {
            return other("its bound is larger than an arena");
        }
        if self.groups.len() != code.groups() {
            return other("its order lacks groups");
        }
        let effects = (0..code.groups()).filter(|&g| code.effect[g]).map(|g| at[g]);
        if !effects.is_sorted() {
            return other("its order changes the order of effects");
        }
        let Some(&(name, _)) = CANDIDATES.get(self.candidate as usize) else {
            return other("its order has no name");
        };
        let ordered = score_order(code, &self.groups, name)?;
        if self.lines.len() != ordered.code.bytes.len() {
            return other("it has offsets for other buffers");
        }
        let offset = self.lines.iter().map(|&line| line as usize * LINE).collect();
        Ok((Ordered { order_bound: self.order_bound, ..ordered }, offset))
    }

    /// The placement of `best`, which lowered code of this checksum was ordered to.
    pub(super) fn of(code: u32, best: &Ordered, offset: &[usize], bytes: usize) -> Placement {
        let candidate = CANDIDATES.iter().position(|c| c.0 == best.name).unwrap_or(0) as u32;
        let lines = offset.iter().map(|&at| (at / LINE) as u32).collect();
        let end = (bytes / LINE) as u32;
        Placement { code, groups: best.groups.clone(), candidate, lines, end, order_bound: best.order_bound }
    }
}

/// A checksum of lowered code: units, parameters, operands, sizes and kinds, but not the addresses of kernels.
pub(super) fn code_checksum(code: &Instructions) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    let mut words: Vec<u64> = Vec::with_capacity(8 * (code.reads.len() + code.writes.len()));
    let operand = |words: &mut Vec<u64>, o: &Operand| {
        let split = match o.split {
            Split::Whole => [0, 0, 0],
            Split::PerUnit(n) => [1, n, 0],
            Split::Columns { row, width } => [2, row, width],
            Split::PerThread(n) => [3, n, 0],
        };
        words.extend([o.buf as usize, o.off, o.len, o.size].map(|n| n as u64));
        words.extend(split.map(|n| n as u64));
    };
    code.reads.iter().chain(&code.writes).chain(&code.outputs).for_each(|o| operand(&mut words, o));
    code.updates.iter().for_each(|u| {
        words.push(u64::from(u.leaf));
        operand(&mut words, &u.from);
    });
    words.extend(code.units.iter().chain(&code.bytes).map(|&n| n as u64));
    words.extend(code.kind.iter().map(|&k| k as u64));
    words.extend(code.pairs.iter().map(|&(r, w)| u64::from(r) << 8 | u64::from(w)));
    words.extend(&code.params);
    let columns = [&code.params_at, &code.reads_at, &code.writes_at, &code.pairs_at, &code.group_at];
    words.extend(columns.into_iter().flatten().map(|&at| u64::from(at)));
    words.extend(code.loops.iter().flat_map(|l| [l.length as u64, u64::from(l.reverse), l.externs.len() as u64]));
    // In place, so that equal code has one checksum on all machines.
    words.iter_mut().for_each(|w| *w = w.to_le());
    sum.update(bytemuck::cast_slice(&words));
    sum.finalize()
}

/// Where the places of the plans of a graph come from: bodies of loops first, as they are lowered, the graph last.
#[derive(Debug, Default)]
pub struct Placements {
    /// Those that are applied; `None`: the planner searches.
    stored: Option<RefCell<VecDeque<Placement>>>,
    made: RefCell<Vec<Placement>>,
}

impl Placements {
    /// The planner searches.
    pub fn search() -> Placements {
        Placements::default()
    }

    /// The planner applies these.
    pub fn stored(all: Vec<Placement>) -> Placements {
        Placements { stored: Some(RefCell::new(all.into())), made: RefCell::default() }
    }

    /// The next stored placement; `None` if the planner is to search. An error if there is none left.
    pub(super) fn next(&self) -> Result<Option<Placement>> {
        let Some(stored) = &self.stored else { return Ok(None) };
        match stored.borrow_mut().pop_front() {
            Some(next) => Ok(Some(next)),
            None => Err(Error::new(Kind::Plan, "the stored plan has fewer loops than the graph")),
        }
    }

    /// Notes a placement that was made.
    pub(super) fn note(&self, placement: Placement) {
        self.made.borrow_mut().push(placement);
    }

    /// All that were made, in order. An error if stored ones are left.
    pub(super) fn finish(self) -> Result<Vec<Placement>> {
        if self.stored.is_some_and(|left| !left.borrow().is_empty()) {
            return Err(Error::new(Kind::Plan, "the stored plan has more loops than the graph"));
        }
        Ok(self.made.into_inner())
    }
}
