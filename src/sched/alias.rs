//! In-place results: a result may take over the bytes of an operand that dies, and a next value those of its leaf.
//!
//! Buffers of one *sharing class* have the same offset. A result joins the class of an operand only if its kernel
//! declares the pair, the extents are identical, and nothing reads the old contents afterwards. It is not enough that
//! the operand's lifetime ends at the instruction: most kernels still read it after they begin to write. A next value
//! joins the class of its leaf if all other readers of the leaf come before its maker, and the maker does not read the
//! leaf or may work in place on it. A next value that cannot join, or that is made while the step may still stop at a
//! bad index, is copied into the leaf at the end of the step.

use super::faults;
use super::instructions::{BufKind, Instructions, OUT_OF_PLACE, Operand, Update};
use crate::arena::Node;
use crate::kernels::abi::Split;

/// Which buffers, and which operands, share bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alias {
    /// The root of each buffer's class; a root has itself.
    pub class: Vec<u32>,
    /// For each read, by position in [`Instructions::reads`]: the write of its instruction that shares its bytes, or
    /// [`OUT_OF_PLACE`].
    pub inplace: Vec<u8>,
}

/// First and last uses of each buffer, as positions in the order; [`NEVER`] for none.
struct AliasUses {
    first_write: Vec<u32>,
    last_read: Vec<u32>,
    /// Last read or write; 0 for none.
    last: Vec<u32>,
}

const NEVER: u32 = u32::MAX;

impl AliasUses {
    fn new(code: &Instructions, seq: &[u32]) -> AliasUses {
        let n = code.bytes.len();
        let mut u = AliasUses { first_write: vec![NEVER; n], last_read: vec![NEVER; n], last: vec![0; n] };
        for (at, &i) in seq.iter().enumerate() {
            for o in code.reads_of(i as usize) {
                u.last_read[o.buf as usize] = at as u32;
                u.last[o.buf as usize] = at as u32;
            }
            for o in code.writes_of(i as usize) {
                let b = o.buf as usize;
                u.first_write[b] = u.first_write[b].min(at as u32);
                u.last[b] = at as u32;
            }
        }
        u
    }
}

/// Decides which buffers share bytes, and appends copies to `code` for next values that cannot be made in their leaves.
pub fn alias(code: &mut Instructions) -> Alias {
    settle_aliases(code, decide_aliases)
}

/// As [`alias`], for leaves only: next values are made in their leaf's bytes or copied there, and no result takes over
/// an operand.
pub fn settle_leaves_only(code: &mut Instructions) -> Alias {
    settle_aliases(code, |code, seq| decide_leaf_aliases(code, seq, &AliasUses::new(code, seq)))
}

fn settle_aliases(code: &mut Instructions, decide: fn(&Instructions, &[u32]) -> (Alias, Vec<Update>)) -> Alias {
    let program: Vec<u32> = (0..code.len() as u32).collect();
    let (mut a, copies) = decide(code, &program);
    copies.iter().for_each(|u| code.copy(u.from, u.leaf, Node::NONE));
    a.inplace.resize(code.reads.len(), OUT_OF_PLACE);
    a
}

/// The sharing if the instructions run in the order `seq`, and the updates that need copies behind the last one.
pub fn decide_aliases(code: &Instructions, seq: &[u32]) -> (Alias, Vec<Update>) {
    let mut uses = AliasUses::new(code, seq);
    let (mut a, copies) = decide_leaf_aliases(code, seq, &uses);
    // The copies read as well.
    for (k, u) in copies.iter().enumerate() {
        uses.last[u.from.buf as usize] = (seq.len() + k) as u32;
    }
    for (at, &i) in seq.iter().enumerate() {
        for &(r, w) in code.pairs_of(i as usize) {
            a.reuse_operand(code, &mut uses, i as usize, at as u32, usize::from(r), usize::from(w));
        }
    }
    (a, copies)
}

/// The part of [`decide_aliases`] that concerns leaves.
fn decide_leaf_aliases(code: &Instructions, seq: &[u32], uses: &AliasUses) -> (Alias, Vec<Update>) {
    let class = (0..code.bytes.len() as u32).collect();
    let mut a = Alias { class, inplace: vec![OUT_OF_PLACE; code.reads.len()] };
    a.explicit(code);
    let settled = faults::first_fault_free(code, seq);
    let copies = code.updates.iter().filter(|u| {
        // No instruction writes a leaf while the step may still stop.
        let made = uses.first_write[u.from.buf as usize];
        made < settled || !a.reuse_leaf(code, uses, seq, u.leaf, u.from)
    });
    let copies = copies.copied().collect();
    (a, copies)
}

impl Alias {
    /// Pairs whose read and write are one buffer: the call changes what an earlier call of its node wrote.
    fn explicit(&mut self, code: &Instructions) {
        for i in 0..code.len() {
            for &(r, w) in code.pairs_of(i) {
                let (read, write) = (&code.reads_of(i)[usize::from(r)], &code.writes_of(i)[usize::from(w)]);
                if read.buf == write.buf && code.is_whole(read) {
                    self.inplace[code.read_range(i).start + usize::from(r)] = w;
                }
            }
        }
    }

    /// Puts the next value `from` of `leaf` into the leaf's class if all other readers of the old value come before it
    /// is made. True if it did.
    fn reuse_leaf(&mut self, code: &Instructions, uses: &AliasUses, seq: &[u32], leaf: u32, from: Operand) -> bool {
        let (l, b) = (leaf as usize, from.buf as usize);
        let free = code.kind[b] == BufKind::Activation && self.class[b] == from.buf;
        if !free || !code.is_whole(&from) || uses.first_write[b] == NEVER {
            return false;
        }
        let made = uses.first_write[b];
        if uses.last_read[l] == NEVER || uses.last_read[l] < made {
            self.class[b] = leaf;
            return true;
        }
        if uses.last_read[l] > made {
            return false;
        }
        // The maker reads the leaf, so it must be able to work in place.
        let i = seq[made as usize] as usize;
        let pair = code.pairs_of(i).iter().find(|&&(r, w)| {
            code.writes_of(i)[usize::from(w)].buf == from.buf
                && code.reads_of(i)[usize::from(r)].buf == leaf
                && code.is_whole(&code.reads_of(i)[usize::from(r)])
        });
        match pair {
            Some(&(r, w)) if self.readers(code, i, leaf) == 1 => {
                self.class[b] = leaf;
                self.inplace[code.read_range(i).start + usize::from(r)] = w;
                true
            }
            _ => false,
        }
    }

    /// Puts write `w` of instruction `i`, which runs at position `at`, into the class of read `r` if that read is the
    /// last use of the class.
    fn reuse_operand(&mut self, code: &Instructions, uses: &mut AliasUses, i: usize, at: u32, r: usize, w: usize) {
        let (read, write) = (code.reads_of(i)[r], code.writes_of(i)[w]);
        let (old, new) = (self.class[read.buf as usize], write.buf as usize);
        let kind = |b: u32| code.kind[b as usize];
        let old_ok = matches!(kind(old), BufKind::Activation | BufKind::Scratch);
        let new_ok = self.class[new] == write.buf && uses.first_write[new] == at;
        let same = code.is_whole(&read) && code.is_whole(&write) && read.bytes() == write.bytes() && read.bytes() > 0;
        let same = same && !matches!(write.split, Split::PerThread(_));
        let dies = uses.last[old as usize] == at;
        let alone =
            self.readers(code, i, old) == 1 && code.writes_of(i).iter().all(|o| self.class[o.buf as usize] != old);
        if old_ok && new_ok && same && dies && alone {
            self.class[new] = old;
            self.inplace[code.read_range(i).start + r] = w as u8;
            uses.last[old as usize] = if kind(write.buf) == BufKind::Output { NEVER } else { uses.last[new] };
        }
    }

    /// Number of reads of instruction `i` in the class of `root`.
    fn readers(&self, code: &Instructions, i: usize, root: u32) -> usize {
        code.reads_of(i).iter().filter(|o| self.class[o.buf as usize] == root).count()
    }
}
