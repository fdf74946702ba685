//! What this machine can do at most: arithmetic in registers, and memory that streams.
//!
//! Invariant: both are measured, on as many threads as the programs have that they are laid beside; nothing is read
//! from a table of processors. For `bench`.

use arenagrad::simd;
use arenagrad::tools::kernels::simd::{Isa, isa};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Rounds of a measurement; the best one counts.
const ROUNDS: usize = 6;
/// How long a round is made to take at least.
const ROUND: Duration = Duration::from_millis(8);
/// Floats of one chain: a register of AVX-512.
const LANES: usize = 16;
/// Bytes that are streamed at least and at most: what is less lies in the nearest cache, and what is more in none.
const STREAMED: (u64, u64) = (1 << 15, 1 << 28);

/// `turns` multiply-adds of each element, in chains that do not wait for each other.
macro_rules! fused {
    ($name:ident: $($chain:ident)*) => {
        simd! {
            /// Each chain is a variable of its own: an array of that size would be kept in memory.
            fn $name(acc: &mut [[f32; LANES]], turns: usize) {
                let &mut [$(mut $chain),*] = acc else { return };
                for _ in 0..turns {
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

/// The same where the target has no such instruction: a product and a sum.
fn separate(acc: &mut [[f32; LANES]], turns: usize) {
    let &mut [mut a, mut b] = acc else { return };
    for _ in 0..turns {
        for chain in [&mut a, &mut b] {
            for x in chain {
                *x = *x * 0.999 + 0.001;
            }
        }
    }
    acc.copy_from_slice(&[a, b]);
}

simd! {
    /// Reads and writes each element.
    fn sweep(x: &mut [f32]) {
        for x in x {
            *x = x.mul_add(0.999, 0.001);
        }
    }
}

/// Computes `turns` times; the operations done.
fn compute(turns: usize) -> f64 {
    // As many chains as registers hold beside the two factors; at least eight vectors, for units that take four
    // cycles and come in pairs.
    let (chains, run): (usize, fn(&mut [[f32; LANES]], usize)) = match isa() {
        Isa::Avx512 => (12, fused12),
        Isa::Avx2 | Isa::Neon => (6, fused6),
        Isa::Portable => (2, separate),
    };
    let mut acc = black_box([[0.5; LANES]; 12]);
    run(&mut acc[..chains], turns);
    black_box(acc);
    2.0 * (LANES * chains) as f64 * turns as f64
}

/// The best rate, summed over `threads` threads that work at once: `work(state, n)` does `n` pieces and tells what that
/// comes to, in a state of each thread's own.
fn rate<S>(threads: usize, state: impl Fn() -> S + Sync, work: impl Fn(&mut S, usize) -> f64 + Sync) -> f64 {
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
        // A thread that panicked has done nothing.
        own + others.into_iter().map(|t| t.join().unwrap_or(0.0)).sum::<f64>()
    })
}

/// Single-precision operations a second of `threads` threads: multiply-adds in registers, by the widest instructions
/// that kernels use.
pub fn flops(threads: usize) -> f64 {
    rate(threads, || (), |(), n| compute(n * 1000))
}

/// Bytes a second that `threads` threads read and write of `bytes` bytes that they sweep again and again.
pub fn bandwidth(threads: usize, bytes: u64) -> f64 {
    let floats = (bytes.clamp(STREAMED.0, STREAMED.1) / 4) as usize / threads.max(1);
    rate(
        threads,
        || vec![1f32; floats.max(1024)],
        |x, n| {
            for _ in 0..n {
                sweep(black_box(x));
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
        assert_eq!(compute(3) / compute(1), 3.0);
        let once = |x: f32| x.mul_add(0.999, 0.001);
        let mut acc = [[0.5f32; LANES]; 12];
        fused12(&mut acc, 2);
        fused6(&mut acc[..6], 1);
        let (twice, thrice) = (once(once(0.5)), once(once(once(0.5))));
        assert!(acc[..6].iter().flatten().all(|&x| x == thrice) && acc[6..].iter().flatten().all(|&x| x == twice));
        separate(&mut acc[6..8], 1);
        assert!(acc[6..8].iter().flatten().all(|&x| x == twice * 0.999 + 0.001));
        let mut swept = vec![2.0f32; 37];
        sweep(&mut swept);
        assert!(swept.iter().all(|&x| x == once(2.0)));
    }

    #[test]
    fn rates_add_up_over_threads() {
        // Each thread does one thing a piece; a rate is positive and finite.
        for threads in [1, 3] {
            let r = rate(
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
