//! The limits of this machine: rate of arithmetic in registers, bandwidth of memory.
//!
//! Invariant: both are measured, on as many threads as the programs that they are compared with. No table of processors
//! is used.

use arenagrad::tools::kernels::machine_limits::{machine_limit_of_compute, machine_limit_of_sweep};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Rounds of a measurement. The best one counts.
const ROUNDS: usize = 6;
/// Least duration of a round.
const ROUND: Duration = Duration::from_millis(8);
/// Bounds of the bytes that are streamed: the least fit in the nearest cache, the most in none.
const STREAMED: std::ops::RangeInclusive<u64> = 1 << 15..=1 << 28;

/// The sum over `threads` concurrent threads of each one's best rate, per second. Each thread has a state;
/// `work(state, n)` does `n` pieces of work and returns their amount.
fn rate_limit<S>(threads: usize, state: impl Fn() -> S + Sync, work: impl Fn(&mut S, usize) -> f64 + Sync) -> f64 {
    let mut own = state();
    work(&mut own, 1);
    let mut pieces = 1;
    loop {
        let start = Instant::now();
        work(&mut own, pieces);
        if start.elapsed() >= ROUND || pieces > 1 << 40 {
            break;
        }
        pieces *= 2;
    }
    drop(own);
    let barrier = Barrier::new(threads);
    let thread = || {
        let mut own = state();
        work(&mut own, 1);
        let mut best = 0f64;
        for _ in 0..ROUNDS {
            barrier.wait();
            let start = Instant::now();
            let done = work(&mut own, pieces);
            best = best.max(done / start.elapsed().as_secs_f64());
        }
        best
    };
    std::thread::scope(|s| {
        let others: Vec<_> = (1..threads).map(|_| s.spawn(thread)).collect();
        let own = thread();
        // A thread that panicked counts as 0.
        own + others.into_iter().map(|t| t.join().unwrap_or(0.0)).sum::<f64>()
    })
}

/// Single-precision operations per second of `threads` threads: multiply-adds in registers, by the widest instructions
/// that kernels use.
pub fn flops_limit(threads: usize) -> f64 {
    rate_limit(threads, || (), |(), n| machine_limit_of_compute(n * 1000))
}

/// Bytes per second that `threads` threads read and write, together, when they sweep over `bytes` bytes repeatedly.
pub fn bandwidth_limit(threads: usize, bytes: u64) -> f64 {
    let floats = (bytes.clamp(*STREAMED.start(), *STREAMED.end()) / 4) as usize / threads.max(1);
    rate_limit(
        threads,
        || vec![1f32; floats.max(1024)],
        |x, n| {
            for _ in 0..n {
                machine_limit_of_sweep(black_box(x));
            }
            (n * 8 * x.len()) as f64
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_add_up_over_threads() {
        // A piece of work is one addition. The rate must be positive and finite.
        for threads in [1, 3] {
            let r = rate_limit(
                threads,
                || 0u64,
                |x, n| {
                    for _ in 0..n {
                        *x = black_box(*x + 1);
                    }
                    n as f64
                },
            );
            assert!(r > 0.0 && r.is_finite());
        }
    }
}
