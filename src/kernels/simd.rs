//! The one place where the instruction set is chosen.
//!
//! [`simd!`](crate::simd) compiles one safe body three times (AVX-512, AVX2 + FMA, portable) and calls the best that the CPU has.
//! The bodies are plain Rust over slices; `mul_add` is one instruction on the first two and a correctly rounded
//! library call on the third, so all three give the same bits.

use bytemuck::Pod;
use std::sync::atomic::{AtomicU8, Ordering};

/// Instruction sets, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// What the target guarantees.
    Portable = 1,
    /// AVX2 and FMA.
    Avx2 = 2,
    /// AVX-512 F, VL, BW, DQ.
    Avx512 = 3,
}

static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The instruction set in use: the best one that the CPU has, unless the environment names a lesser one.
#[inline]
pub fn isa() -> Isa {
    let chosen = match CHOSEN.load(Ordering::Relaxed) {
        3 => Isa::Avx512,
        2 => Isa::Avx2,
        1 => Isa::Portable,
        _ => choose(),
    };
    #[cfg(test)]
    let chosen = chosen.min(LIMIT.get());
    chosen
}

#[cfg(test)]
thread_local! {
    // Of one thread: tests run side by side, and some compare bits that depend on the instruction set.
    static LIMIT: std::cell::Cell<Isa> = const { std::cell::Cell::new(Isa::Avx512) };
}

#[cold]
fn choose() -> Isa {
    let best = match std::env::var("ARENAGRAD_ISA").as_deref() {
        Ok("portable") => Isa::Portable,
        Ok("avx2") => detect().min(Isa::Avx2),
        _ => detect(),
    };
    CHOSEN.store(best as u8, Ordering::Relaxed);
    best
}

/// The best instruction set that this CPU has.
pub fn detect() -> Isa {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("fma") {
            let v4 = has!("avx512f") && has!("avx512vl") && has!("avx512bw") && has!("avx512dq");
            return if v4 { Isa::Avx512 } else { Isa::Avx2 };
        }
    }
    Isa::Portable
}

/// Asks for the cache line at an address, into L2: it is needed soon, and no hardware foresees where.
#[inline(always)]
pub fn ahead(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: fetching has no effect that a program can see, wherever that is; every x86-64 has the instruction.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(std::ptr::without_provenance(address));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Keeps stores whole. What becomes `if c { x } else { y }` where `y` is, a compiler stores under a mask, and with AVX2 alone
/// that takes some CPUs twenty times as long as a plain store.
#[derive(Clone, Copy)]
pub struct Whole(u64);

impl Whole {
    /// One for a loop, made outside of it.
    #[inline(always)]
    pub fn here() -> Whole {
        Whole(std::hint::black_box(0))
    }

    /// `x`, which has become something else than a choice in the eyes of a compiler.
    #[inline(always)]
    pub fn of<T: Pod>(self, x: T) -> T {
        match size_of::<T>() {
            4 => bytemuck::cast(bytemuck::cast::<T, u32>(x) | self.0 as u32),
            8 => bytemuck::cast(bytemuck::cast::<T, u64>(x) | self.0),
            _ => x,
        }
    }
}

/// Uses at most `isa` on this thread from now on.
#[cfg(test)]
pub fn limit(isa: Isa) {
    LIMIT.set(isa);
}

/// Compiles a safe function for each instruction set and dispatches at run time.
///
/// ```text
/// simd! {
///     /// y += a * x.
///     pub fn axpy(a: f32, x: &[f32], y: &mut [f32]) {
///         for (y, x) in y.iter_mut().zip(x) { *y = a.mul_add(*x, *y); }
///     }
/// }
/// ```
/// Generic functions write their parameters in brackets, `pub fn axpy[T: Float](a: T, …)`; they must follow from the
/// arguments.
#[macro_export]
macro_rules! simd {
    ($(#[$doc:meta])* $vis:vis fn $name:ident $([$($g:tt)*])? ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $crate::simd!(@gen [$(#[$doc])*] [$vis] $name [$($($g)*)?] ($($arg : $ty),*) [$($ret)?] $body);
    };
    (@gen [$(#[$doc:meta])*] [$vis:vis] $name:ident [$($g:tt)*] ($($arg:ident : $ty:ty),*) [$($ret:ty)?] $body:block) => {
        $(#[$doc])*
        #[inline]
        $vis fn $name<$($g)*>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<$($g)*>($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
                fn v4<$($g)*>($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn v3<$($g)*>($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
                match $crate::kernels::simd::isa() {
                    // SAFETY: `isa` is never more than what `detect` saw on this CPU.
                    #[allow(unsafe_code)]
                    $crate::kernels::simd::Isa::Avx512 => unsafe { v4($($arg),*) },
                    // SAFETY: as above.
                    #[allow(unsafe_code)]
                    $crate::kernels::simd::Isa::Avx2 => unsafe { v3($($arg),*) },
                    $crate::kernels::simd::Isa::Portable => body($($arg),*),
                }
            }
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            body($($arg),*)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    simd! {
        /// Sum of squares in sixteen lanes.
        fn squares(x: &[f32]) -> f32 {
            let mut lanes = [0f32; 16];
            for c in x.chunks_exact(16) {
                for (l, v) in lanes.iter_mut().zip(c) {
                    *l = v.mul_add(*v, *l);
                }
            }
            lanes.iter().sum()
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let x: Vec<f32> = (0..160).map(|i| (i as f32).sin()).collect();
        let best = squares(&x);
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            limit(isa);
            assert_eq!(squares(&x).to_bits(), best.to_bits());
        }
        limit(detect());
    }
}
