//! Sources of randomness: a seed, or a list of numbers such as a fuzzer's input.
//!
//! A source is any function that takes a bound and returns a number below it. So proptest and libFuzzer can both drive,
//! shrink and replay graphs.

use crate::arena::rng::SplitMix64;

/// A source of randomness: a number below the bound, which is at least 1.
pub type Draw<'d> = dyn FnMut(u32) -> u32 + 'd;

/// A source with a seed.
pub fn seeded_draws(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut stream = SplitMix64(seed);
    move |bound| (((stream.bits() >> 32) * u64::from(bound.max(1))) >> 32) as u32
}

/// A source that reads `numbers`, and then zeros for ever: shorter inputs are simpler graphs.
pub fn scripted_draws<N: Into<u64>>(numbers: impl IntoIterator<Item = N>) -> impl FnMut(u32) -> u32 {
    let mut numbers = numbers.into_iter();
    move |bound| (numbers.next().map_or(0, Into::into) % u64::from(bound.max(1))) as u32
}
