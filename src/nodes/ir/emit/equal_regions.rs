//! Equal regions: which was closed first of those that compute the same. Two nodes with equal operands whose bodies are
//! equal are then one node, as loops of two equal gradients.
//!
//! Names and locations do not count. Invariant: an inner region is closed before the regions whose nodes name it.

use super::Emit;
use super::body::Body;
use super::finish::run_starts;
use crate::arena::{Region, ids::Id};
use crate::nodes::ir::attrs::{Attrs, Kind, attrs_are_inline};
use crate::nodes::ir::infer::Signature;
use crate::nodes::ir::opdef::Op;
use hashbrown::HashTable;
use std::borrow::Cow;
use std::hash::{BuildHasher, Hash, Hasher};

/// For each closed region, the first one that is equal.
#[derive(Default)]
pub(super) struct EqualRegions {
    first: Vec<u32>,
    /// The first ones, by hash.
    table: HashTable<u32>,
}

impl Emit {
    /// Adds a closed region.
    pub(super) fn push_region(&mut self, b: Body, sig: Signature) -> Region {
        self.sigs.push(sig);
        self.done.push(b);
        let r = (self.done.len() - 1) as u32;
        let hash = self.hash_region(r);
        let known = self.equal.table.find(hash, |&first| self.are_equal_regions(first, r)).copied();
        if known.is_none() {
            // The table moves out during the insertion, because rehashing reads the columns.
            let mut table = std::mem::take(&mut self.equal.table);
            table.insert_unique(hash, r, |&first| self.hash_region(first));
            self.equal.table = table;
        }
        self.equal.first.push(known.unwrap_or(r));
        Region::new(r as usize)
    }

    fn hash_region(&self, r: u32) -> u64 {
        let b = &self.done[r as usize];
        let mut h = self.hasher.build_hasher();
        (&b.op, &b.args_at, &b.args, &b.yields).hash(&mut h);
        (0..b.op.len()).for_each(|n| self.words_of_equal(b.op[n], self.attrs_in(b, n).words).hash(&mut h));
        h.finish()
    }

    fn are_equal_regions(&self, a: u32, b: u32) -> bool {
        let (x, y) = (&self.done[a as usize], &self.done[b as usize]);
        let words = |b: &Body, n: usize| self.words_of_equal(b.op[n], self.attrs_in(b, n).words).into_owned();
        x.op == y.op
            && (&x.args_at, &x.args, &x.yields) == (&y.args_at, &y.args, &y.yields)
            && (&x.outs_at, &x.ty) == (&y.outs_at, &y.ty)
            && (0..x.op.len()).all(|n| words(x, n) == words(y, n))
    }

    /// The attribute words of a node of `op`, with the first of equal regions for each region.
    pub(super) fn words_of_equal<'w>(&self, op: Op, words: &'w [u32]) -> Cow<'w, [u32]> {
        let def = self.ops[op.0 as usize];
        if !def.names_region() {
            return Cow::Borrowed(words);
        }
        let attrs = Attrs { fields: def.attrs, words };
        let mut all = words.to_vec();
        for (i, _) in def.attrs.iter().enumerate().filter(|(i, f)| f.kind == Kind::Region && attrs.has(*i)) {
            let word = &mut all[attrs.start(i)];
            *word = self.equal.first.get(*word as usize).copied().unwrap_or(*word);
        }
        Cow::Owned(all)
    }

    /// The words of region `r` that name regions: nodes whose word is their attribute, and positions in `extra`.
    fn region_words(&self, r: usize) -> (Vec<usize>, Vec<usize>) {
        let (mut inline, mut extra) = (Vec::new(), Vec::new());
        let b = &self.done[r];
        for (n, op) in b.op.iter().enumerate() {
            let attrs = self.attrs_in(b, n);
            if !self.ops[op.0 as usize].names_region() {
                continue;
            }
            match attrs_are_inline(attrs.fields) {
                true => inline.push(n),
                false => {
                    let named = |i: &usize| attrs.fields[*i].kind == Kind::Region && attrs.has(*i);
                    extra
                        .extend((0..attrs.fields.len()).filter(named).map(|i| b.attr[n] as usize + 1 + attrs.start(i)));
                }
            }
        }
        (inline, extra)
    }

    /// Drops the regions that have no user because the node that had one is equal to another. The entry is the last
    /// region.
    pub(super) fn drop_unused_twins(&mut self) {
        let entry = self.done.len() - 1;
        let mut stays: Vec<bool> =
            (0..=entry).map(|r| self.equal.first.get(r).is_none_or(|&f| f == r as u32)).collect();
        if stays.iter().all(|&s| s) {
            return;
        }
        let (mut inline, mut extra) = (Vec::new(), Vec::new());
        for r in (0..=entry).rev() {
            if stays[r] {
                let words = self.region_words(r);
                let named =
                    words.0.iter().map(|&n| self.done[r].attr[n]).chain(words.1.iter().map(|&at| self.extra[at]));
                // What is no region is an error of the verifier.
                for inner in named {
                    stays.get_mut(inner as usize).into_iter().for_each(|s| *s = true);
                }
                inline.extend(words.0.iter().map(|&n| (r, n)));
                extra.extend(words.1);
            }
        }
        let starts = run_starts(stays.iter().map(|&s| usize::from(s)));
        let now = |r: u32| starts.get(r as usize).copied().unwrap_or(r);
        inline.into_iter().for_each(|(r, n)| self.done[r].attr[n] = now(self.done[r].attr[n]));
        // Copies of a region share their words.
        extra.sort_unstable();
        extra.dedup();
        extra.into_iter().for_each(|at| self.extra[at] = now(self.extra[at]));
        let mut keep = stays.iter();
        self.done.retain(|_| keep.next().is_none_or(|&s| s));
        let mut keep = stays.iter();
        self.sigs.retain(|_| keep.next().is_none_or(|&s| s));
    }
}
