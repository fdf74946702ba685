//! The operands that the forward kernel and the backward kernels read.

use super::dropout::Dropout;
use super::keys::KeyMask;
use super::shape::{AttentionShape, Element, Query};
use crate::kernels::abi::Args;
use std::ops::Range;

/// The reads of both kernels.
#[derive(Clone, Copy)]
pub(super) struct AttentionInputs<'a, T> {
    pub q: &'a [T],
    pub k: &'a [T],
    pub v: &'a [T],
    pub keep: KeyMask<'a, T>,
    /// Empty if there is none.
    pub bias: &'a [T],
    /// Dropout, if any.
    pub drop: Option<Dropout<T>>,
}

impl<'a, T: Element> AttentionInputs<'a, T> {
    /// q, k and v are operands from `first` on. The mask of keys, the bias and the random key, as far as they exist,
    /// are operands from `rest` on.
    pub fn read(p: &AttentionShape, args: &Args<'a>, first: usize, rest: usize) -> AttentionInputs<'a, T> {
        let keep = match (p.padding, p.bytes) {
            (false, _) => KeyMask::All,
            (true, false) => KeyMask::Float(args.read::<T>(rest)),
            (true, true) => KeyMask::Bytes(args.read::<u8>(rest)),
        };
        let bias = if p.bias { args.read::<T>(rest + usize::from(p.padding)) } else { &[] };
        let drop = Dropout::read(p, args, rest + usize::from(p.padding) + usize::from(p.bias));
        let [q, k, v] = [0, 1, 2].map(|i| args.read::<T>(first + i));
        AttentionInputs { q, k, v, keep, bias, drop }
    }

    /// The bias of query `q` for the keys in `span`; empty if there is no bias.
    pub fn bias(&self, p: &AttentionShape, q: Query, span: &Range<usize>) -> &'a [T] {
        if self.bias.is_empty() {
            return &[];
        }
        let row = q.b * p.bias_batch + q.h * p.bias_head + q.i * p.keys;
        &self.bias[row + span.start..row + span.end]
    }
}
