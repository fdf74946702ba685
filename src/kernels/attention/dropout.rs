//! Dropout of attention probabilities. The factor of a probability follows from the random key and the index of the
//! probability alone, so the backward kernel recomputes it instead of reading it.
//!
//! Invariant: the random numbers are those of [`random_uniform_kernel`](crate::random::random_uniform_kernel)
//! for an `f32` tensor `[batch, heads, queries, keys]`, whatever the type of the probabilities and the blocks.

use super::attention_shape::{AttentionShape, BLOCK_KEYS, Element};
use crate::abi::Args;
use crate::random::{Draw, random_uniform};
use crate::simd;

/// Buffer for the dropout factors of one row of a block.
pub struct DropoutBuffer<T> {
    /// A draw starts at a block of the generator, so some numbers may precede the first.
    draws: [f32; BLOCK_KEYS + f32::PER_BLOCK],
    factors: [T; BLOCK_KEYS],
}

impl<T: Element> DropoutBuffer<T> {
    pub fn new() -> DropoutBuffer<T> {
        DropoutBuffer { draws: [0.0; BLOCK_KEYS + f32::PER_BLOCK], factors: [T::ZERO; BLOCK_KEYS] }
    }
}

/// The parameters of dropout.
#[derive(Clone, Copy)]
pub struct Dropout<T> {
    key: [u32; 4],
    stream: u64,
    p: f32,
    /// Factor of the kept probabilities.
    scale: T,
}

impl<T: Element> Dropout<T> {
    /// Reads the random key from operand `at`; `None` without dropout.
    pub fn read(p: &AttentionShape, args: &Args<'_>, at: usize) -> Option<Dropout<T>> {
        if p.drop == 0.0 {
            return None;
        }
        let mut key = [0; 4];
        key.copy_from_slice(args.read::<u32>(at));
        // p = 1 drops all: the scale must not be infinite.
        let scale = if p.drop < 1.0 { 1.0 / (1.0 - p.drop) } else { 0.0 };
        Some(Dropout { key, stream: p.stream, p: p.drop as f32, scale: T::from_f64(scale) })
    }

    /// The factors of `n` probabilities of one row; `first` is the index of the first one.
    pub fn factors<'t>(&self, first: usize, n: usize, buffer: &'t mut DropoutBuffer<T>) -> &'t [T] {
        let before = first % f32::PER_BLOCK;
        let draws = &mut buffer.draws[..before + n];
        random_uniform(self.key, self.stream, (first / f32::PER_BLOCK) as u64, draws);
        dropout_factors(&draws[before..], self.p, self.scale, &mut buffer.factors[..n]);
        &buffer.factors[..n]
    }
}

simd! {
    /// 0 if the uniform number is below p, else `scale`.
    pub fn dropout_factors[T: Element](draws: &[f32], p: f32, scale: T, to: &mut [T]) {
        for (to, draw) in to.iter_mut().zip(draws) {
            *to = if *draw >= p { scale } else { T::ZERO };
        }
    }
}
