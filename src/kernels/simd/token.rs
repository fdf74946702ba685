//! The token of an instruction set that is chosen at run time.
//!
//! Invariant: a token exists only where [`detect_isa`](super::detect_isa) saw its instructions on this CPU.

use super::Portable;
#[cfg(all(target_arch = "aarch64", not(miri)))]
use super::neon::Neon;
use super::vector::Simd;
use super::{Isa, isa};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::{x86_v3::V3, x86_v4::V4};

/// The size and the number of vector registers, for one element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements of a vector.
    pub lanes: usize,
    /// Vector registers.
    pub registers: usize,
}

/// The token of an instruction set that is chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// x86-64 with AVX-512 F, VL, BW, DQ.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    V4(V4),
    /// x86-64 with AVX2, FMA and F16C.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    V3(V3),
    /// AArch64.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    Neon(Neon),
    /// Plain Rust.
    Portable(Portable),
}

impl Token {
    /// The token of the instruction set that kernels use.
    #[inline]
    pub fn current() -> Token {
        Token::of(isa())
    }

    /// The token of an instruction set that this CPU has.
    #[inline]
    fn of(isa: Isa) -> Token {
        match isa {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Isa::Avx512 => Token::V4(V4(())),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Isa::Avx2 => Token::V3(V3(())),
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            Isa::Neon => Token::Neon(Neon(())),
            _ => Token::Portable(Portable),
        }
    }

    /// The vectors of elements of type `T`.
    #[inline]
    pub fn shape<T>(self) -> Shape {
        fn of<S: Simd, T>(_: S) -> Shape {
            Shape { lanes: S::BYTES / size_of::<T>(), registers: S::REGS }
        }
        crate::with_token!(self, s => of::<_, T>(s))
    }

    /// The token of the best instruction set that is at most `isa`.
    #[cfg(test)]
    pub fn at_most(isa: Isa) -> Token {
        Token::of(super::best_at_most(isa))
    }
}

/// Evaluates `$body` with `$s` bound to the zero-sized token of a [`Token`].
#[macro_export]
#[doc(hidden)]
macro_rules! with_token {
    ($token:expr, $s:ident => $body:expr) => {
        match $token {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            $crate::simd::Token::V4($s) => $body,
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            $crate::simd::Token::V3($s) => $body,
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            $crate::simd::Token::Neon($s) => $body,
            $crate::simd::Token::Portable($s) => $body,
        }
    };
}
