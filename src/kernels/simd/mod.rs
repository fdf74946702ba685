//! Instruction sets: their choice, and vectors.
//!
//! There are two ways to compile code for each instruction set. [`simd!`](crate::simd) compiles a safe function, plain
//! Rust over slices, and calls the version for the best instruction set of the CPU. Kernels made of vectors are generic
//! over a zero-sized token of an instruction set ([`Simd`], [`Vectors`]) and run inside [`Simd::vectorize`].
//!
//! | file | instruction set |
//! |---|---|
//! | `x86_v4` | x86-64 with AVX-512 F, VL, BW and DQ |
//! | `x86_v3` | x86-64 with AVX2 and FMA |
//! | `neon` | AArch64 |
//! | `portable` | plain Rust, on every target |
//!
//! `vector` has the traits, `token` the token that is chosen at run time, `transpose_x86` what both x86-64 files share.
//!
//! Invariant: all instruction sets give the same bits. `mul_add` is one instruction where there is one. Elsewhere (an
//! x86-64 without FMA, WebAssembly) it is a correctly rounded library call or arithmetic in `f64`, which are slow.
//!
//! The environment variable `ARENAGRAD_ISA` asks for a lesser instruction set: `portable`, `neon`, `avx2` or `avx512`.
//! Sessions refuse one that the CPU lacks ([`isa_choice`]).

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod neon;
mod portable;
mod token;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod transpose_x86;
mod vector;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_v3;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_v4;

#[cfg(all(target_arch = "aarch64", not(miri)))]
pub use neon::Neon;
pub use portable::Portable;
pub use token::{Shape, Token};
pub use vector::{Op, Simd, Vectors};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use {x86_v3::V3, x86_v4::V4};

use bytemuck::Pod;
use std::sync::atomic::{AtomicU8, Ordering};

/// Instruction sets, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// The instructions that the target guarantees.
    Portable = 1,
    /// AArch64 Advanced SIMD.
    Neon = 2,
    /// AVX2 and FMA.
    Avx2 = 3,
    /// AVX-512 F, VL, BW, DQ.
    Avx512 = 4,
}

/// The names in `ARENAGRAD_ISA` and in reports, least first.
const NAMES: [(&str, Isa); 4] =
    [("portable", Isa::Portable), ("neon", Isa::Neon), ("avx2", Isa::Avx2), ("avx512", Isa::Avx512)];

impl Isa {
    /// The name: `portable`, `neon`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        NAMES[self as usize - 1].0
    }
}

static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The instruction set that kernels use: the best one of the CPU, unless `ARENAGRAD_ISA` names a lesser one.
#[inline]
pub fn isa() -> Isa {
    let chosen = match CHOSEN.load(Ordering::Relaxed) {
        4 => Isa::Avx512,
        3 => Isa::Avx2,
        2 => Isa::Neon,
        1 => Isa::Portable,
        _ => choose(),
    };
    #[cfg(test)]
    let chosen = at_most(chosen.min(LIMIT.get()));
    chosen
}

#[cfg(test)]
thread_local! {
    // Per thread, because tests run in parallel and compare instruction sets.
    static LIMIT: std::cell::Cell<Isa> = const { std::cell::Cell::new(Isa::Avx512) };
}

#[cold]
fn choose() -> Isa {
    let chosen = isa_choice().unwrap_or_else(|_| detect());
    CHOSEN.store(chosen as u8, Ordering::Relaxed);
    chosen
}

/// The instruction set that kernels use.
///
/// # Errors
/// Why the one that the environment variable `ARENAGRAD_ISA` names cannot be used.
pub fn isa_choice() -> Result<Isa, String> {
    let Some(name) = std::env::var_os("ARENAGRAD_ISA") else { return Ok(detect()) };
    let why = match NAMES.iter().find(|n| name == n.0) {
        Some(n) if at_most(n.1) == n.1 => return Ok(n.1),
        Some(_) => format!("this CPU lacks it; its best is {:?}", detect().name()),
        None => format!("it may be {}", NAMES.map(|n| n.0).join(", ")),
    };
    Err(format!("ARENAGRAD_ISA asks for {name:?}: {why}"))
}

/// The best instruction set of this CPU that is at most `isa`.
pub fn at_most(isa: Isa) -> Isa {
    match (detect(), isa) {
        // No CPU has both NEON and AVX.
        (Isa::Avx2 | Isa::Avx512, Isa::Neon) => Isa::Portable,
        (best, isa) => best.min(isa),
    }
}

/// The best instruction set of this CPU.
pub fn detect() -> Isa {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("fma") {
            let v4 = has!("avx512f") && has!("avx512vl") && has!("avx512bw") && has!("avx512dq");
            return if v4 { Isa::Avx512 } else { Isa::Avx2 };
        }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    return Isa::Neon;
    #[cfg(not(all(target_arch = "aarch64", not(miri))))]
    Isa::Portable
}

/// Prefetches the cache line at an address into L2. Any address is valid.
#[inline(always)]
pub fn prefetch_l2(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch has no effect that a program can see, at any address. Every x86-64 has the instruction.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(std::ptr::without_provenance(address));
        }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch has no effect that a program can see, at any address.
    #[allow(unsafe_code)]
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    let _ = address;
}

/// Prevents masked stores. A compiler may turn `y = if c { x } else { y }` into a masked store. With AVX2, masked
/// stores take some CPUs twenty times as long as plain ones.
#[derive(Clone, Copy)]
pub struct Unmasked(u64);

impl Unmasked {
    /// Call it once, before the loop that uses the result.
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Unmasked {
        Unmasked(std::hint::black_box(0))
    }

    /// Returns `x`, and hides from the compiler how it was chosen.
    #[inline(always)]
    pub fn of<T: Pod>(self, x: T) -> T {
        match size_of::<T>() {
            4 => bytemuck::cast(bytemuck::cast::<T, u32>(x) | self.0 as u32),
            8 => bytemuck::cast(bytemuck::cast::<T, u64>(x) | self.0),
            _ => x,
        }
    }
}

/// Limits this thread to `isa` from now on.
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
/// Generic functions write their parameters in brackets, `pub fn axpy[T: Float](a: T, …)`. The parameters must be
/// inferable from the arguments.
///
/// A tile of fixed size fits one vector length. `simd! { wide fn …` compiles it for vectors of 64 bytes only, `simd! {
/// narrow fn …` for shorter ones only. The caller asks [`Token::shape`] which of the two to call.
#[macro_export]
macro_rules! simd {
    (wide $(#[$doc:meta])* $vis:vis fn $($f:tt)*) => { $crate::simd!(@gen wide [$(#[$doc])*] [$vis] $($f)*); };
    (narrow $(#[$doc:meta])* $vis:vis fn $($f:tt)*) => { $crate::simd!(@gen narrow [$(#[$doc])*] [$vis] $($f)*); };
    ($(#[$doc:meta])* $vis:vis fn $($f:tt)*) => { $crate::simd!(@gen all [$(#[$doc])*] [$vis] $($f)*); };
    (@gen $which:ident $docs:tt $vis:tt $name:ident $([$($g:tt)*])? ($($args:tt)*) $(-> $ret:ty)? $body:block) => {
        $crate::simd!(@fn $which $docs $vis $name [$($($g)*)?] ($($args)*) [$($ret)?] $body);
    };
    (@fn $which:ident [$(#[$doc:meta])*] [$vis:vis] $name:ident [$($g:tt)*] ($($arg:ident : $ty:ty),* $(,)?) [$($ret:ty)?] $body:block) => {
        $(#[$doc])*
        #[inline]
        $vis fn $name<$($g)*>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<$($g)*>($($arg: $ty),*) $(-> $ret)? $body
            $crate::simd!(@v4 $which [$($g)*] ($($arg: $ty),*) [$($ret)?]);
            $crate::simd!(@v3 $which [$($g)*] ($($arg: $ty),*) [$($ret)?]);
            $crate::simd!(@other $which ($($arg),*))
        }
    };
    (@v4 narrow $($f:tt)*) => {};
    (@v4 $which:ident [$($g:tt)*] ($($arg:ident : $ty:ty),*) [$($ret:ty)?]) => {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
            fn v4<$($g)*>($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
            if $crate::tools::kernels::simd::isa() == $crate::tools::kernels::simd::Isa::Avx512 {
                // SAFETY: `isa` is never better than what `detect` saw on this CPU.
                #[allow(unsafe_code)]
                return unsafe { v4($($arg),*) };
            }
        }
    };
    (@v3 wide $($f:tt)*) => {};
    (@v3 $which:ident [$($g:tt)*] ($($arg:ident : $ty:ty),*) [$($ret:ty)?]) => {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            #[target_feature(enable = "avx2,fma")]
            fn v3<$($g)*>($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
            if $crate::tools::kernels::simd::isa() == $crate::tools::kernels::simd::Isa::Avx2 {
                // SAFETY: `isa` is never better than what `detect` saw on this CPU.
                #[allow(unsafe_code)]
                return unsafe { v3($($arg),*) };
            }
        }
    };
    (@other wide ($($arg:ident),*)) => { unreachable!("this CPU has no vectors of 64 bytes") };
    (@other $which:ident ($($arg:ident),*)) => { body($($arg),*) };
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
