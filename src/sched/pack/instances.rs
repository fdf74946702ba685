//! Synthetic packing problems, some of known best height, for tests, benches and comparisons with other packers.
//!
//! Every function is a pure function of its arguments.

use super::buffers::Buffers;
use crate::arena::rng::SplitMix64;

/// A rectangle in time and memory.
#[derive(Clone, Copy)]
struct Piece {
    from: u64,
    to: u64,
    low: u64,
    high: u64,
}

/// A guillotine dissection of a rectangle of `width` moments and height `height` into `n` buffers, or fewer if no piece
/// can be cut any more. Every moment is full, so the best height is `height`.
pub fn perfect_instance(n: usize, width: u64, height: u64, seed: u64) -> Buffers {
    let mut dice = SplitMix64(seed);
    let mut open = vec![Piece { from: 0, to: width, low: 0, high: height }];
    let mut done = Vec::new();
    while open.len() + done.len() < n && !open.is_empty() {
        let k = dice.below(open.len() as u64) as usize;
        let piece = open.swap_remove(k);
        let (wide, high) = (piece.to - piece.from > 1, piece.high - piece.low > 1);
        if !wide && !high {
            done.push(piece);
        } else if wide && (!high || dice.below(2) == 0) {
            let cut = piece.from + 1 + dice.below(piece.to - piece.from - 1);
            open.extend([Piece { to: cut, ..piece }, Piece { from: cut, ..piece }]);
        } else {
            let cut = piece.low + 1 + dice.below(piece.high - piece.low - 1);
            open.extend([Piece { high: cut, ..piece }, Piece { low: cut, ..piece }]);
        }
    }
    done.append(&mut open);
    // The position in the list must not reveal the offset of a piece.
    for k in (1..done.len()).rev() {
        done.swap(k, dice.below(k as u64 + 1) as usize);
    }
    Buffers::from_rows(done.into_iter().map(|p| (p.from, p.to, p.high - p.low)))
}

/// A training step of a chain of layers, of about `n` buffers. Each layer keeps activations until its backward half,
/// which frees them in the opposite order and makes gradients. Both halves need short-lived scratch.
pub fn training_instance(n: usize, seed: u64) -> Buffers {
    let mut dice = SplitMix64(seed);
    let layers = (n / 7).max(1) as u64;
    let last = 2 * 4 * layers;
    let mut v = Buffers::default();
    // A block repeats every few layers, as blocks of networks do.
    let block: Vec<[u64; 4]> = (0..6).map(|_| [0; 4].map(|_| 64 << dice.below(11))).collect();
    for l in 0..layers {
        let [kept, wide, scratch, weights] = block[l as usize % block.len()];
        let (f, b) = (4 * l, last - 4 * (l + 1));
        v.push(f, b + 3, kept);
        v.push(f + 1, b + 2, wide);
        v.push(f + 1, f + 2, scratch);
        v.push(f + 2, f + 5, kept);
        v.push(b, b + 5, kept);
        v.push(b + 1, b + 2, scratch);
        v.push(b + 2, b + 4, weights);
    }
    v
}

/// A recurrent cell unrolled over time, with its backward pass, of about `n` buffers. All sizes repeat at every step,
/// and the gradients of the weights are alive throughout the backward half.
pub fn unrolled_instance(n: usize) -> Buffers {
    let steps = (n / 14).max(1) as u64;
    let ops = 8;
    let last = 2 * ops * steps;
    let mut v = Buffers::default();
    for t in 0..steps {
        let (f, b) = (ops * t, last - ops * (t + 1));
        // The forward half keeps the hidden state and the gate, and drops four products.
        v.push(f + 5, b + 6, 256);
        v.push(f + 3, b + 4, 512);
        for (k, size) in [512, 512, 256, 1024].into_iter().enumerate() {
            v.push(f + k as u64, f + k as u64 + 2, size);
        }
        // The backward half hands one gradient down the chain and drops the rest.
        v.push(b, b + ops + 1, 256);
        for (k, size) in [256, 512, 512, 256, 1024, 512, 256].into_iter().enumerate() {
            v.push(b + k as u64, b + k as u64 + 2, size);
        }
    }
    for size in [4096, 8192, 1024] {
        v.push(last / 2, last, size);
    }
    v
}

/// Lifetimes and sizes drawn from power laws of density `x^-2`: most are short and small, a few are long or large.
pub fn power_law_instance(n: usize, seed: u64) -> Buffers {
    let mut dice = SplitMix64(seed);
    let span = n as u64;
    let mut v = Buffers::default();
    for _ in 0..n {
        let first = dice.below(span);
        let mut heavy = |most: u64| ((1 << 32) / (1 + dice.below(1 << 32))).min(most);
        let (life, size) = (heavy(span), heavy(1 << 16));
        v.push(first, first + 1 + life, 64 * size);
    }
    v
}
