//! Dropout of attention probabilities. The factor of a probability is a function of the key and of its index alone, so
//! the backward kernel recomputes it instead of reading it.
//!
//! Invariant: the random numbers are those of [`rng_uniform`](crate::kernels::random::rng_uniform) for an `f32` tensor
//! `[batch, heads, queries, keys]`, whatever the type of the probabilities and the blocks.

use super::rows;
use super::shape::{Attention, BLOCK_KEYS, Element};
use crate::kernels::abi::Args;
use crate::kernels::random::{Draw, uniform};

/// Buffer for the dropout factors of one row of a block.
pub struct DropBuffer<T> {
    /// A draw starts at a block of the generator, so some numbers may precede the first.
    draws: [f32; BLOCK_KEYS + f32::PER_BLOCK],
    factors: [T; BLOCK_KEYS],
}

impl<T: Element> DropBuffer<T> {
    pub fn new() -> DropBuffer<T> {
        DropBuffer { draws: [0.0; BLOCK_KEYS + f32::PER_BLOCK], factors: [T::ZERO; BLOCK_KEYS] }
    }
}

/// The parameters of dropout.
#[derive(Clone, Copy)]
pub struct Drop<T> {
    key: [u32; 4],
    stream: u64,
    p: f32,
    /// Factor of the kept probabilities.
    scale: T,
}

impl<T: Element> Drop<T> {
    /// Reads the random key from operand `at`; `None` without dropout.
    pub fn read(p: &Attention, args: &Args<'_>, at: usize) -> Option<Drop<T>> {
        if p.drop == 0.0 {
            return None;
        }
        let mut key = [0; 4];
        key.copy_from_slice(args.read::<u32>(at));
        // p = 1 drops all: the scale must not be infinite.
        let scale = if p.drop < 1.0 { 1.0 / (1.0 - p.drop) } else { 0.0 };
        Some(Drop { key, stream: p.stream, p: p.drop as f32, scale: T::from_f64(scale) })
    }

    /// The factors of `n` probabilities of one row; `first` is the index of the first one.
    pub fn factors<'t>(&self, first: usize, n: usize, buffer: &'t mut DropBuffer<T>) -> &'t [T] {
        let before = first % f32::PER_BLOCK;
        let draws = &mut buffer.draws[..before + n];
        uniform(self.key, self.stream, (first / f32::PER_BLOCK) as u64, draws);
        rows::factors(&draws[before..], self.p, self.scale, &mut buffer.factors[..n]);
        &buffer.factors[..n]
    }
}
