//! Vectors of one instruction set, behind one trait, and the tokens that prove that the CPU has it.
//!
//! A kernel that is made of vectors is written once, generic over a token, and runs inside [`Simd::vectorize`], which
//! compiles it for the token's instruction set. Invariant: a token exists only where [`detect`](super::detect) saw its
//! instructions on this CPU. All methods are one operation or a few, and inlined: outside of `vectorize` they are slow.

#[cfg(all(target_arch = "aarch64", not(miri)))]
use super::neon::Neon;
use super::portable::Portable;
use super::{Isa, isa};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::{x86_v3::V3, x86_v4::V4};

/// A function that is compiled for the instruction set it is called on. Implementations are `#[inline(always)]`, and so
/// is all that they call.
pub trait Op {
    /// What it gives.
    type Out;
    /// Calls it.
    fn call(self) -> Self::Out;
}

/// The token of an instruction set.
pub trait Simd: Copy {
    /// Bytes of a vector.
    const BYTES: usize;
    /// Vector registers.
    const REGS: usize;

    /// Calls `op`, compiled for the instruction set.
    fn vectorize<O: Op>(self, op: O) -> O::Out;

    /// Asks for the cache line at `at`, into the first cache. Fetching has no effect that a program can see, so any
    /// address will do.
    fn prefetch<T>(self, at: *const T);
}

/// The vectors of elements of one type.
pub trait Vectors<T: Copy>: Simd {
    /// A vector.
    type V: Copy;
    /// The instruction set of vectors half as long, if there is one; else the same.
    type Half: Vectors<T>;
    /// The first lanes of a vector.
    type Mask: Copy;
    /// Elements of a vector.
    const LANES: usize = Self::BYTES / size_of::<T>();
    /// Elements of each line that [`transpose_block`](Vectors::transpose_block) reads.
    const BLOCK: usize;

    /// The token of [`Half`](Vectors::Half).
    fn half(self) -> Self::Half;
    /// `x` in all lanes.
    fn splat(self, x: T) -> Self::V;
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The first `lanes` lanes; at most all of them.
    fn mask(self, lanes: usize) -> Self::Mask;

    /// The vector at an address.
    ///
    /// # Safety
    /// `LANES` elements may be read from there.
    #[allow(unsafe_code)]
    unsafe fn load(self, from: *const T) -> Self::V;

    /// The lanes of `mask` from an address, 0 in the others.
    ///
    /// # Safety
    /// As many elements may be read from there as the mask has lanes.
    #[allow(unsafe_code)]
    unsafe fn load_partial(self, from: *const T, mask: Self::Mask) -> Self::V;

    /// Writes a vector.
    ///
    /// # Safety
    /// `LANES` elements may be written there.
    #[allow(unsafe_code)]
    unsafe fn store(self, to: *mut T, v: Self::V);

    /// Writes the lanes of `mask`.
    ///
    /// # Safety
    /// As many elements may be written there as the mask has lanes.
    #[allow(unsafe_code)]
    unsafe fn store_partial(self, to: *mut T, mask: Self::Mask, v: Self::V);

    /// Transposes a block: element `q` of line `l` becomes element `l` of line `q`, for [`LANES`](Vectors::LANES) lines
    /// of [`BLOCK`](Vectors::BLOCK) elements. Lines are `step` elements apart, those of the result `to_step`.
    ///
    /// # Safety
    /// All those elements may be read from `from`, and written to `to`.
    #[allow(unsafe_code)]
    unsafe fn transpose_block(self, from: *const T, step: usize, to: *mut T, to_step: usize);

    /// The sum over the lanes of each vector: the upper half of the lanes is added to the lower half until one is left.
    /// `J` vectors are as many as elements have 32 bytes.
    fn hsum<const J: usize>(self, r: [Self::V; J]) -> [T; J];

    /// The same sums, sooner done where nothing else goes on beside, for more operations.
    #[inline(always)]
    fn hsum_alone<const J: usize>(self, r: [Self::V; J]) -> [T; J] {
        self.hsum(r)
    }
}

/// The vectors of an instruction set, as numbers.
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
    /// x86-64 with AVX2 and FMA.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    V3(V3),
    /// AArch64.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    Neon(Neon),
    /// Plain Rust.
    Portable(Portable),
}

impl Token {
    /// The one that kernels use.
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

    /// Its vectors of elements of type `T`.
    #[inline]
    pub fn shape<T>(self) -> Shape {
        fn of<S: Simd, T>(_: S) -> Shape {
            Shape { lanes: S::BYTES / size_of::<T>(), registers: S::REGS }
        }
        crate::with_token!(self, s => of::<_, T>(s))
    }

    /// The best one that is at most `isa`.
    #[cfg(test)]
    pub fn at_most(isa: Isa) -> Token {
        Token::of(super::at_most(isa))
    }
}

/// `$body` for the token `$s` of a [`Token`], by its type.
#[macro_export]
#[doc(hidden)]
macro_rules! with_token {
    ($token:expr, $s:ident => $body:expr) => {
        match $token {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            $crate::kernels::simd::Token::V4($s) => $body,
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            $crate::kernels::simd::Token::V3($s) => $body,
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            $crate::kernels::simd::Token::Neon($s) => $body,
            $crate::kernels::simd::Token::Portable($s) => $body,
        }
    };
}
