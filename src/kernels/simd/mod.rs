//! Instruction sets: their choice, and vectors.
//!
//! There are two ways to compile code for each instruction set. [`simd!`](macro@crate::simd) compiles a safe function,
//! plain Rust over slices, and calls the version for the best instruction set of the CPU. Kernels made of vectors are
//! generic over a zero-sized token of an instruction set ([`Simd`], [`Vectors`]) and run inside [`Simd::vectorize`].
//!
//! | file | instruction set |
//! |---|---|
//! | `x86_v4` | x86-64 with AVX-512 F, VL, BW and DQ |
//! | `x86_v3` | x86-64 with AVX2, FMA and F16C |
//! | `neon` | AArch64 |
//! | `x86_vnni` | x86-64 with AVX-512 VNNI, for products of integers |
//! | `wasm`, `wasm_fma`, `wasm_terms` | WebAssembly with vectors, under the name of `portable` |
//! | `portable` | plain Rust, on every other target |
//!
//! `isa` has the choice, `vector` and `pair_products` the traits, `token` the token that is chosen at run time,
//! `transpose_x86` and `hsum_x86` the code that both x86-64 files share.
//!
//! Invariant: all instruction sets give the same bits. `mul_add` is one instruction where there is one. Elsewhere (an
//! x86-64 without FMA, WebAssembly) it is a correctly rounded library call or arithmetic in `f64`, which are slow.
//!
//! The environment variable `ARENAGRAD_ISA` asks for a lesser instruction set: `portable`, `neon`, `avx2` or `avx512`.
//! Sessions refuse one that the CPU lacks ([`instruction_choice`]).

pub(crate) mod f16_value;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod hsum_x86;
mod isa;
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod neon;
mod pair_products;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod portable;
mod token;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod transpose_x86;
mod unmasked;
mod vector;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm_fma;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm_terms;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_v3;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_v4;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_vnni;

use bytemuck::Pod;

#[cfg(test)]
pub use isa::limit;
pub use isa::{Isa, best_at_most, detect_isa, instruction_choice, isa};
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub use neon::Neon;
pub use pair_products::PairProducts;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub use portable::Portable;
pub use token::{Shape, Token};
pub use unmasked::Unmasked;
pub use vector::{Simd, SimdOp, TileTerms, Vectors};
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub use wasm::Portable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use {
    x86_v3::V3,
    x86_v4::V4,
    x86_vnni::{Vnni, vnni},
};

/// The token of AVX-512 VNNI, which this target lacks.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub fn vnni() -> Option<std::convert::Infallible> {
    None
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

/// A loop over bytes that is chosen once for the instruction set of the CPU, by [`byte_loop`], and then called often.
/// `run` is inlined.
pub trait ByteLoop {
    /// An element of the result.
    type To: Pod;
    /// What the loop knows beside its operands.
    type Step;
    /// Where its operands are.
    type Operands<'a>: ?Sized;
    /// What it returns.
    type Out;
    /// Computes `dst`.
    fn run(step: &Self::Step, dst: &mut [Self::To], operands: &Self::Operands<'_>) -> Self::Out;
}

/// A [`ByteLoop`] that was chosen.
pub type ChosenLoop<B> = fn(&<B as ByteLoop>::Step, &mut [u8], &<B as ByteLoop>::Operands<'_>) -> <B as ByteLoop>::Out;

/// The version of `B` for the best instruction set.
pub fn byte_loop<B: ByteLoop>() -> ChosenLoop<B> {
    macro_rules! chosen {
        ($isa:ident, $features:literal) => {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                #[target_feature(enable = $features)]
                fn compiled<B: ByteLoop>(step: &B::Step, dst: &mut [B::To], operands: &B::Operands<'_>) -> B::Out {
                    B::run(step, dst, operands)
                }
                fn chosen<B: ByteLoop>(step: &B::Step, dst: &mut [u8], operands: &B::Operands<'_>) -> B::Out {
                    // Here, because the compiler forgets that nothing shares bytes with `dst` where it is cast.
                    let dst = bytemuck::cast_slice_mut(dst);
                    // SAFETY: a pointer to this function is made below only, if `isa` has these instructions. `isa` is
                    // never better than what `detect_isa` saw on this CPU.
                    #[allow(unsafe_code)]
                    unsafe {
                        compiled::<B>(step, dst, operands)
                    }
                }
                if isa() == Isa::$isa {
                    return chosen::<B>;
                }
            }
        };
    }
    chosen!(Avx512, "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma");
    chosen!(Avx2, "avx2,fma");
    |step, dst, operands| B::run(step, bytemuck::cast_slice_mut(dst), operands)
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
            // A `wide` function runs where vectors have 64 bytes.
            #[cfg_attr(any(miri, not(target_arch = "x86_64")), allow(dead_code))]
            #[inline(always)]
            fn body<$($g)*>($($arg: $ty),*) $(-> $ret)? $body
            $crate::simd!(@v4 $which [$($g)*] ($($arg: $ty),*) [$($ret)?]);
            $crate::simd!(@v3 $which [$($g)*] ($($arg: $ty),*) [$($ret)?]);
            $crate::simd!(@other $which [$($g)*] ($($arg: $ty),*) [$($ret)?])
        }
    };
    (@v4 narrow $($f:tt)*) => {};
    (@v4 $which:ident [$($g:tt)*] ($($arg:ident : $ty:ty),*) [$($ret:ty)?]) => {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
            fn v4<$($g)*>($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
            if $crate::simd::isa() == $crate::simd::Isa::Avx512 {
                // SAFETY: `isa` is never better than what `detect_isa` saw on this CPU.
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
            if $crate::simd::isa() == $crate::simd::Isa::Avx2 {
                // SAFETY: `isa` is never better than what `detect_isa` saw on this CPU.
                #[allow(unsafe_code)]
                return unsafe { v3($($arg),*) };
            }
        }
    };
    (@other wide [$($g:tt)*] ($($arg:ident : $ty:ty),*) [$($ret:ty)?]) => {{
        let _ = ($($arg,)*);
        unreachable!("this CPU has no vectors of 64 bytes")
    }};
    // Where other instruction sets are the rule, one copy that no caller repeats.
    (@other $which:ident [$($g:tt)*] ($($arg:ident : $ty:ty),*) [$($ret:ty)?]) => {{
        #[cfg_attr(all(target_arch = "x86_64", not(miri)), inline(never))]
        #[cfg_attr(not(all(target_arch = "x86_64", not(miri))), inline(always))]
        fn portable<$($g)*>($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
        portable($($arg),*)
    }};
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
        limit(detect_isa());
    }
}
