//! Dependencies among groups: data, the order of effects, and preferences.
//!
//! Invariant: an edge leads to a group with a larger number, because program order is a legal order. A preference may
//! lead anywhere. Used by the other files of this folder.

use crate::sched::faults;
use crate::sched::instructions::{BufKind, Instructions};

/// A list of `u32` for each index, in one column.
#[derive(Default)]
pub struct DepLists {
    at: Vec<u32>,
    /// All items, list by list.
    pub items: Vec<u32>,
}

impl DepLists {
    /// From pairs (index, item), with indices below `n`. Items of one index keep their order.
    pub fn new(n: usize, pairs: &[(u32, u32)]) -> DepLists {
        let mut at = vec![0u32; n + 1];
        pairs.iter().for_each(|p| at[p.0 as usize + 1] += 1);
        (0..n).for_each(|i| at[i + 1] += at[i]);
        let (mut next, mut items) = (at.clone(), vec![0; pairs.len()]);
        for &(i, item) in pairs {
            items[next[i as usize] as usize] = item;
            next[i as usize] += 1;
        }
        DepLists { at, items }
    }

    /// The list of index `i`.
    pub fn of(&self, i: usize) -> &[u32] {
        &self.items[self.at[i] as usize..self.at[i + 1] as usize]
    }
}

/// Dependencies among groups, and who reads and writes buffers.
pub struct Deps {
    /// Groups that need what a group writes.
    pub after: DepLists,
    /// Groups whose results a group needs.
    pub before: DepLists,
    /// Preferences: groups that should come after a group, if data allows.
    pub preferred: DepLists,
    /// Distinct buffers that a group reads.
    pub reads: DepLists,
    /// Distinct buffers that a group writes.
    pub writes: DepLists,
    /// Distinct groups that read a buffer.
    pub readers: DepLists,
    /// True for groups that only serve the update of a leaf.
    pub serves: Vec<bool>,
    /// True for buffers that are expected to be made in the bytes of a leaf.
    pub lands: Vec<bool>,
    /// The group that writes a buffer; `u32::MAX` for none.
    pub writer: Vec<u32>,
    /// True for groups that may stop a step at a bad index.
    pub stops: Vec<bool>,
    /// Groups that make next values and should come after all groups in `stops`. Part of the preferences, kept apart
    /// because their pairs would be as many as the product of both.
    pub waits: Vec<u32>,
}

fn distinct_edges(code: &Instructions, write: bool) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    for g in 0..code.groups() {
        let start = pairs.len();
        for i in code.group(g) {
            let ops = if write { code.writes_of(i) } else { code.reads_of(i) };
            pairs.extend(ops.iter().map(|o| (g as u32, o.buf)));
        }
        pairs[start..].sort_unstable();
    }
    pairs.dedup();
    pairs
}

impl Deps {
    /// The dependencies of `code`.
    pub fn new(code: &Instructions) -> Deps {
        let (n, bufs) = (code.groups(), code.bytes.len());
        let (read, written) = (distinct_edges(code, false), distinct_edges(code, true));
        let mut writer = vec![u32::MAX; bufs];
        written.iter().for_each(|&(g, b)| writer[b as usize] = g);
        let by_buf = |pairs: &[(u32, u32)]| pairs.iter().map(|&(g, b)| (b, g)).collect::<Vec<_>>();
        let readers = DepLists::new(bufs, &by_buf(&read));
        let mut edges = Vec::new();
        for &(g, b) in &read {
            let w = writer[b as usize];
            if w != u32::MAX && w != g {
                edges.push((w, g));
            }
        }
        let effects: Vec<u32> = (0..n as u32).filter(|&g| code.effect[g as usize]).collect();
        edges.extend(effects.windows(2).map(|w| (w[0], w[1])));
        let mut preferred = Vec::new();
        let mut lands = vec![false; bufs];
        for u in &code.updates {
            let maker = writer[u.from.buf as usize];
            if maker == u32::MAX || code.kind[u.from.buf as usize] != BufKind::Activation {
                continue;
            }
            lands[u.from.buf as usize] = code.is_whole(&u.from);
            let before = readers.of(u.leaf as usize).iter().filter(|&&r| r != maker);
            preferred.extend(before.map(|&r| (r, maker)));
        }
        let mut d = Deps {
            after: DepLists::new(n, &edges),
            before: DepLists::new(n, &edges.iter().map(|e| (e.1, e.0)).collect::<Vec<_>>()),
            preferred: DepLists::new(n, &preferred),
            reads: DepLists::new(n, &read),
            writes: DepLists::new(n, &written),
            readers,
            serves: Vec::new(),
            lands,
            writer,
            stops: faults::faulting_groups(code),
            waits: Vec::new(),
        };
        d.serves = d.servants(code);
        d.waits = d.waiting(code);
        d
    }

    /// See [`Deps::waits`]. A group that a stopping group needs cannot wait for it.
    fn waiting(&self, code: &Instructions) -> Vec<u32> {
        if !self.stops.contains(&true) {
            return Vec::new();
        }
        let mut needed = self.stops.clone();
        for g in (0..needed.len()).rev() {
            needed[g] |= self.after.of(g).iter().any(|&s| needed[s as usize]);
        }
        let makers = code.updates.iter().map(|u| self.writer[u.from.buf as usize]);
        let mut waits: Vec<u32> = makers.filter(|&g| g != u32::MAX && !needed[g as usize]).collect();
        waits.sort_unstable();
        waits.dedup();
        waits
    }

    /// True for groups whose results are all next values of leaves, or are read only by such groups for a value of the
    /// same size (the gradient itself). The eager rule runs them as early as possible.
    fn servants(&self, code: &Instructions) -> Vec<bool> {
        let n = code.groups();
        let mut serves = vec![false; n];
        // Bytes of the leaf that a group serves; 0 for none.
        let mut size = vec![0usize; n];
        let mut next = vec![0usize; code.bytes.len()];
        code.updates.iter().for_each(|u| next[u.from.buf as usize] = u.from.bytes());
        for g in (0..n).rev() {
            let mut ok = !code.effect[g];
            for &b in self.writes.of(g) {
                let b = b as usize;
                let readers = self.readers.of(b);
                let own = readers.iter().all(|&r| r as usize == g);
                let kind = code.kind[b];
                if kind == BufKind::Scratch || (next[b] > 0 && own) {
                    size[g] = size[g].max(next[b]);
                    continue;
                }
                let all = readers.iter().all(|&r| {
                    let r = r as usize;
                    r == g || (serves[r] && (next[b] > 0 || size[r] == code.bytes[b]))
                });
                ok &= kind == BufKind::Activation && !readers.is_empty() && all;
                size[g] = size[g].max(code.bytes[b]);
            }
            serves[g] = ok && size[g] > 0;
        }
        serves
    }
}
