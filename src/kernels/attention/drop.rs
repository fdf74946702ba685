//! Dropout of probabilities: which of them count is a function of the key and their place alone, so both kernels find
//! the same ones without keeping them.
//!
//! Invariant: the numbers are those of [`rng_uniform`](crate::kernels::random::rng_uniform) for an `f32` tensor
//! `[batch, heads, queries, keys]`, whatever the type of the probabilities and the blocks they are drawn in.

use super::{Attention, BLOCK_KEYS, Element, rows};
use crate::kernels::abi::Args;
use crate::kernels::random::{Draw, uniform};

/// DropBuffer for the factors of one row of a block.
pub struct DropBuffer<T> {
    /// Some numbers may be drawn before the first.
    draws: [f32; BLOCK_KEYS + f32::PER_BLOCK],
    factors: [T; BLOCK_KEYS],
}

impl<T: Element> DropBuffer<T> {
    pub fn new() -> DropBuffer<T> {
        DropBuffer { draws: [0.0; BLOCK_KEYS + f32::PER_BLOCK], factors: [T::ZERO; BLOCK_KEYS] }
    }
}

/// How probabilities are dropped.
#[derive(Clone, Copy)]
pub struct Drop<T> {
    key: [u32; 4],
    stream: u64,
    p: f32,
    /// What those that stay are multiplied by.
    scale: T,
}

impl<T: Element> Drop<T> {
    /// From operand `at`, the key; nothing if nothing is dropped.
    pub fn read(p: &Attention, args: &Args<'_>, at: usize) -> Option<Drop<T>> {
        if p.drop == 0.0 {
            return None;
        }
        let mut key = [0; 4];
        key.copy_from_slice(args.read::<u32>(at));
        // All are dropped at p = 1: the scale must not be infinite.
        let scale = if p.drop < 1.0 { 1.0 / (1.0 - p.drop) } else { 0.0 };
        Some(Drop { key, stream: p.stream, p: p.drop as f32, scale: T::from_f64(scale) })
    }

    /// What `n` probabilities of one row from place `first` on are multiplied by.
    pub fn factors<'t>(&self, first: usize, n: usize, buffer: &'t mut DropBuffer<T>) -> &'t [T] {
        let before = first % f32::PER_BLOCK;
        let draws = &mut buffer.draws[..before + n];
        uniform(self.key, self.stream, (first / f32::PER_BLOCK) as u64, draws);
        rows::factors(&draws[before..], self.p, self.scale, &mut buffer.factors[..n]);
        &buffer.factors[..n]
    }
}
