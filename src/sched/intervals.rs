//! Lifetimes: for each buffer, the half-open range of instructions during which its bytes are in use.
//!
//! The reads and writes of one instruction are alive together. The packer relies on these columns; the checker does not
//! read them.

use super::alias::Alias;
use super::instructions::{BufKind, Instructions, Update};
use crate::arena::tensor::LINE;
use crate::error::{Error, Kind, Result};

/// Lifetimes and sizes, by buffer. The root of an alias class stands for the class; other members have no lines and
/// an empty lifetime.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intervals {
    /// First instruction that needs the bytes.
    pub first: Vec<u32>,
    /// One past the last instruction that needs the bytes.
    pub end: Vec<u32>,
    /// Size in lines of [`LINE`] bytes.
    pub lines: Vec<u32>,
}

impl Intervals {
    /// Number of buffers.
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// True if there is no buffer.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// True if `a` and `b` are alive at one instruction.
    pub fn overlap(&self, a: usize, b: usize) -> bool {
        self.first[a].max(self.first[b]) < self.end[a].min(self.end[b])
    }

    /// The sum of live lines at each instruction.
    pub fn alive(&self) -> Vec<u64> {
        let ends = self.end.iter().copied().max().unwrap_or(0) as usize;
        let mut change = vec![0i64; ends + 1];
        for i in 0..self.len() {
            if self.first[i] < self.end[i] {
                change[self.first[i] as usize] += i64::from(self.lines[i]);
                change[self.end[i] as usize] -= i64::from(self.lines[i]);
            }
        }
        let mut live = 0;
        let sums = change[..ends].iter().map(|c| {
            live += c;
            live as u64
        });
        sums.collect()
    }

    /// The largest sum of lines that are alive at one instruction. No plan for this order can have fewer.
    pub fn max_live(&self) -> u64 {
        self.alive().into_iter().max().unwrap_or(0)
    }
}

/// The lifetimes of `code` under `alias`. An error if a buffer has more than `u32::MAX` lines.
pub fn intervals(code: &Instructions, alias: &Alias) -> Result<Intervals> {
    let program: Vec<u32> = (0..code.len() as u32).collect();
    lifetimes_in_order(code, &program, &[], alias)
}

/// The lifetimes if the instructions run in the order `seq`, followed by a copy for each of `copies`.
pub fn lifetimes_in_order(code: &Instructions, seq: &[u32], copies: &[Update], alias: &Alias) -> Result<Intervals> {
    let n = code.bytes.len();
    let all = (seq.len() + copies.len()).max(1) as u32;
    let mut v = Intervals { first: vec![u32::MAX; n], end: vec![0; n], lines: vec![0; n] };
    let mut used = |b: u32, at: usize| {
        let root = alias.class[b as usize] as usize;
        v.first[root] = v.first[root].min(at as u32);
        v.end[root] = v.end[root].max(at as u32 + 1);
    };
    for (at, &i) in seq.iter().enumerate() {
        let i = i as usize;
        code.reads_of(i).iter().chain(code.writes_of(i)).for_each(|o| used(o.buf, at));
    }
    // Their leaves are pinned.
    copies.iter().enumerate().for_each(|(k, u)| used(u.from.buf, seq.len() + k));
    for b in 0..n {
        let root = alias.class[b] as usize;
        if code.kind[b].is_pinned() {
            // The contents exist before the first instruction, and the caller may read them after the last.
            v.first[root] = 0;
            v.end[root] = all;
        } else if code.kind[b] == BufKind::Output {
            v.first[root] = v.first[root].min(all - 1);
            v.end[root] = all;
        }
        if root == b {
            v.lines[b] = interval_lines(code.bytes[b])?;
        }
    }
    for b in 0..n {
        if v.first[b] == u32::MAX {
            (v.first[b], v.end[b]) = (0, 0);
        }
    }
    Ok(v)
}

/// Lines of a buffer of `bytes` bytes; an error above `u32::MAX`.
pub fn interval_lines(bytes: usize) -> Result<u32> {
    u32::try_from(bytes.div_ceil(LINE))
        .map_err(|_| Error::new(Kind::Plan, format!("a buffer of {bytes} bytes does not fit the arena's offsets")))
}
