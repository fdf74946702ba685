//! The limits of this machine: rate of arithmetic in registers, bandwidth of memory.
//!
//! Invariant: both are measured, on as many threads as the programs that they are compared with. No table of processors
//! is used.

use arenagrad::simd;
use arenagrad::tools::kernels::simd::{Isa, isa};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Rounds of a measurement. The best one counts.
const ROUNDS: usize = 6;
/// Least duration of a round.
const ROUND: Duration = Duration::from_millis(8);
/// Floats of one chain: a register of AVX-512.
const LANES: usize = 16;
/// Bounds of the bytes that are streamed: the least fit in the nearest cache, the most in none.
const STREAMED: std::ops::RangeInclusive<u64> = 1 << 15..=1 << 28;

/// Defines a function of `count` multiply-adds of each element, in independent chains.
macro_rules! fused {
    ($name:ident: $($chain:ident)*) => {
        simd! {
            /// Each chain is a variable, because an array of this size would stay in memory.
            fn $name(acc: &mut [[f32; LANES]], count: usize) {
                let &mut [$(mut $chain),*] = acc else { return };
                for _ in 0..count {
                    for chain in [$(&mut $chain),*] {
                        for x in chain {
                            *x = x.mul_add(0.999, 0.001);
                        }
                    }
                }
                acc.copy_from_slice(&[$($chain),*]);
            }
        }
    };
}

fused!(fused12: a b c d e f g h i j k l);
fused!(fused6: a b c d e f);

/// The same for targets without a multiply-add instruction: a product and a sum.
fn separate_flops_limit(acc: &mut [[f32; LANES]], count: usize) {
    let &mut [mut a, mut b] = acc else { return };
    for _ in 0..count {
        for chain in [&mut a, &mut b] {
            for x in chain {
                *x = *x * 0.999 + 0.001;
            }
        }
    }
    acc.copy_from_slice(&[a, b]);
}

simd! {
    /// Reads and writes each element once.
    fn sweep_limit(x: &mut [f32]) {
        for x in x {
            *x = x.mul_add(0.999, 0.001);
        }
    }
}

/// Runs `count` multiply-adds of each element, and returns the number of operations done.
fn compute_limit(count: usize) -> f64 {
    // As many chains as the registers hold besides the two factors, and at least eight vectors: two units with a
    // latency of four cycles each need eight independent operations.
    let (chains, run): (usize, fn(&mut [[f32; LANES]], usize)) = match isa() {
        Isa::Avx512 => (12, fused12),
        Isa::Avx2 | Isa::Neon => (6, fused6),
        Isa::Portable => (2, separate_flops_limit),
    };
    let mut acc = black_box([[0.5; LANES]; 12]);
    run(&mut acc[..chains], count);
    black_box(acc);
    2.0 * (LANES * chains) as f64 * count as f64
}

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
    rate_limit(threads, || (), |(), n| compute_limit(n * 1000))
}

/// Bytes per second that `threads` threads read and write, together, when they sweep over `bytes` bytes repeatedly.
pub fn bandwidth_limit(threads: usize, bytes: u64) -> f64 {
    let floats = (bytes.clamp(*STREAMED.start(), *STREAMED.end()) / 4) as usize / threads.max(1);
    rate_limit(
        threads,
        || vec![1f32; floats.max(1024)],
        |x, n| {
            for _ in 0..n {
                sweep_limit(black_box(x));
            }
            (n * 8 * x.len()) as f64
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_what_it_says() {
        assert_eq!(compute_limit(3) / compute_limit(1), 3.0);
        let once = |x: f32| x.mul_add(0.999, 0.001);
        let mut acc = [[0.5f32; LANES]; 12];
        fused12(&mut acc, 2);
        fused6(&mut acc[..6], 1);
        let (twice, thrice) = (once(once(0.5)), once(once(once(0.5))));
        assert!(acc[..6].iter().flatten().all(|&x| x == thrice) && acc[6..].iter().flatten().all(|&x| x == twice));
        separate_flops_limit(&mut acc[6..8], 1);
        assert!(acc[6..8].iter().flatten().all(|&x| x == twice * 0.999 + 0.001));
        let mut swept = vec![2.0f32; 37];
        sweep_limit(&mut swept);
        assert!(swept.iter().all(|&x| x == once(2.0)));
    }

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
