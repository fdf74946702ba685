//! The operands that the forward kernel and the backward kernels read.

use super::attention_shape::{AttentionShape, BLOCK_KEYS, Element, Query};
use super::dropout::Dropout;
use super::keys::AttentionKeyMask;
use crate::abi::Args;
use std::ops::Range;

/// What is added to the scores, `[batch or 1, heads or 1, queries, keys]`.
#[derive(Clone, Copy)]
pub(super) enum Bias<'a, T> {
    /// Nothing.
    None,
    /// A number for each score.
    Numbers(&'a [T]),
    /// 0 where a byte is not zero, −∞ elsewhere.
    Mask(&'a [u8]),
}

/// Room for the numbers that stand for a row of a mask.
pub(super) struct AttentionBiasBuffer<T>([T; BLOCK_KEYS]);

impl<T: Element> AttentionBiasBuffer<T> {
    pub fn new() -> AttentionBiasBuffer<T> {
        AttentionBiasBuffer([T::ZERO; BLOCK_KEYS])
    }
}

/// The reads of both kernels.
#[derive(Clone, Copy)]
pub(super) struct AttentionInputs<'a, T> {
    pub q: &'a [T],
    pub k: &'a [T],
    pub v: &'a [T],
    pub keep: AttentionKeyMask<'a, T>,
    pub bias: Bias<'a, T>,
    /// Dropout, if any.
    pub drop: Option<Dropout<T>>,
}

impl<'a, T: Element> AttentionInputs<'a, T> {
    /// q, k and v are operands from `first` on. The mask of keys, the bias and the random key, as far as they exist,
    /// are operands from `rest` on.
    pub fn read(p: &AttentionShape, args: &Args<'a>, first: usize, rest: usize) -> AttentionInputs<'a, T> {
        let keep = match (p.padding, p.bytes) {
            (false, _) => AttentionKeyMask::All,
            (true, false) => AttentionKeyMask::Float(args.read::<T>(rest)),
            (true, true) => AttentionKeyMask::Bytes(args.read::<u8>(rest)),
        };
        let at = rest + usize::from(p.padding);
        let bias = match (p.bias, p.bias_bytes) {
            (false, _) => Bias::None,
            (true, false) => Bias::Numbers(args.read::<T>(at)),
            (true, true) => Bias::Mask(args.read::<u8>(at)),
        };
        let drop = Dropout::read(p, args, at + usize::from(p.bias));
        let [q, k, v] = [0, 1, 2].map(|i| args.read::<T>(first + i));
        AttentionInputs { q, k, v, keep, bias, drop }
    }

    /// The bias of query `q` for the keys in `span`, at most [`BLOCK_KEYS`]; empty if there is no bias.
    pub fn bias<'t>(
        &self,
        p: &AttentionShape,
        q: Query,
        span: &Range<usize>,
        to: &'t mut AttentionBiasBuffer<T>,
    ) -> &'t [T]
    where
        'a: 't,
    {
        let row = q.b * p.bias_batch + q.h * p.bias_head + q.i * p.keys;
        let span = row + span.start..row + span.end;
        match self.bias {
            Bias::None => &[],
            Bias::Numbers(x) => &x[span],
            Bias::Mask(x) => {
                let to = &mut to.0[..span.len()];
                for (to, seen) in to.iter_mut().zip(&x[span]) {
                    *to = if *seen != 0 { T::ZERO } else { -T::INFINITY };
                }
                to
            }
        }
    }
}
