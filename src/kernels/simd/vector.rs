//! The traits of vectors: one for an instruction set, one for its vectors of one element type.
//!
//! A kernel made of vectors is written once, generic over a token. [`Simd::vectorize`] compiles it for the token's
//! instruction set. Invariant: a token exists only where [`detect_isa`](super::detect_isa) saw its instructions on this
//! CPU.
//!
//! All methods are one instruction or a few, and inlined. Outside of `vectorize` they are slow.

use crate::simd::f16_value::f16_of_bits;

/// A function that [`Simd::vectorize`] compiles for an instruction set. Implementations and all that they call are
/// `#[inline(always)]`.
pub trait SimdOp {
    /// The result.
    type Out;
    /// Calls the function.
    fn call(self) -> Self::Out;
}

/// The token of an instruction set.
pub trait Simd: Copy {
    /// Bytes of a vector.
    const BYTES: usize;
    /// Vector registers.
    const REGS: usize;

    /// Calls `op`, compiled for this instruction set.
    fn vectorize<O: SimdOp>(self, op: O) -> O::Out;

    /// Prefetches the cache line at `at` into L1. Any address is valid: a prefetch has no effect that a program can
    /// see.
    fn prefetch<T>(self, at: *const T);

    /// The numbers of four halves with these bits. A NaN stays a NaN.
    #[inline(always)]
    fn f16_values(self, bits: [u16; 4]) -> [f32; 4] {
        bits.map(f16_of_bits)
    }
}

/// The vectors of elements of one type.
pub trait Vectors<T: Copy>: Simd {
    /// A vector.
    type V: Copy;
    /// The token of the instruction set with vectors half as long, if there is one; else this token.
    type Half: Vectors<T>;
    /// A mask of the first lanes of a vector.
    type Mask: Copy;
    /// Elements of a vector.
    const LANES: usize = Self::BYTES / size_of::<T>();
    /// Elements of each row that [`transpose_block`](Vectors::transpose_block) reads.
    const BLOCK: usize;

    /// The token of [`Half`](Vectors::Half).
    fn half(self) -> Self::Half;
    /// `x` in all lanes.
    fn broadcast(self, x: T) -> Self::V;
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The mask of the first `lanes` lanes. `lanes` is at most `LANES`.
    fn mask(self, lanes: usize) -> Self::Mask;

    /// The vector at an address.
    ///
    /// # Safety
    /// `LANES` elements may be read from there.
    #[allow(unsafe_code)]
    unsafe fn load(self, from: *const T) -> Self::V;

    /// The lanes of `mask` from an address, and 0 in the other lanes.
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

    /// Transposes a block of [`LANES`](Vectors::LANES) rows of [`BLOCK`](Vectors::BLOCK) elements: element `q` of row
    /// `l` becomes element `l` of row `q`. Rows are `step` elements apart in `from` and `to_step` in `to`.
    ///
    /// # Safety
    /// All elements of the block may be read from `from` and written to `to`.
    #[allow(unsafe_code)]
    unsafe fn transpose_block(self, from: *const T, step: usize, to: *mut T, to_step: usize);

    /// The sum over the lanes of each vector: the upper half of the lanes is added to the lower half until one is left.
    /// `J * size_of::<T>()` must be 32.
    fn hsum<const J: usize>(self, r: [Self::V; J]) -> [T; J];

    /// The same sums in more instructions but less latency, for where no other work hides the latency.
    #[inline(always)]
    fn hsum_alone<const J: usize>(self, r: [Self::V; J]) -> [T; J] {
        self.hsum(r)
    }
}
