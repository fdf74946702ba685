//! Loops that reach the limits of a machine: arithmetic in registers, sweeps over memory. The caller measures the time,
//! and divides the work by it.

use crate::simd;
use crate::simd::{Isa, isa};
use std::hint::black_box;

/// Floats of one chain: a register of AVX-512.
const LANES: usize = 16;

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
fn machine_limit_of_separate_flops(acc: &mut [[f32; LANES]], count: usize) {
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
    pub fn machine_limit_of_sweep(x: &mut [f32]) {
        for x in x {
            *x = x.mul_add(0.999, 0.001);
        }
    }
}

/// Runs `count` multiply-adds of each element, and returns the number of operations done.
pub fn machine_limit_of_compute(count: usize) -> f64 {
    // As many chains as the registers hold besides the two factors, and at least eight vectors: two units with a
    // latency of four cycles each need eight independent operations.
    let (chains, run): (usize, fn(&mut [[f32; LANES]], usize)) = match isa() {
        Isa::Avx512 => (12, fused12),
        Isa::Avx2 | Isa::Neon => (6, fused6),
        Isa::Portable => (2, machine_limit_of_separate_flops),
    };
    let mut acc = black_box([[0.5; LANES]; 12]);
    run(&mut acc[..chains], count);
    black_box(acc);
    2.0 * (LANES * chains) as f64 * count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_what_it_says() {
        assert_eq!(machine_limit_of_compute(3) / machine_limit_of_compute(1), 3.0);
        let once = |x: f32| x.mul_add(0.999, 0.001);
        let mut acc = [[0.5f32; LANES]; 12];
        fused12(&mut acc, 2);
        fused6(&mut acc[..6], 1);
        let (twice, thrice) = (once(once(0.5)), once(once(once(0.5))));
        assert!(acc[..6].iter().flatten().all(|&x| x == thrice) && acc[6..].iter().flatten().all(|&x| x == twice));
        machine_limit_of_separate_flops(&mut acc[6..8], 1);
        assert!(acc[6..8].iter().flatten().all(|&x| x == twice * 0.999 + 0.001));
        let mut swept = vec![2.0f32; 37];
        machine_limit_of_sweep(&mut swept);
        assert!(swept.iter().all(|&x| x == once(2.0)));
    }
}
