//! Vectors of one instruction set, behind one trait, and the tokens that prove that the CPU has it.
//!
//! A kernel that is made of vectors is written once, generic over a token, and runs inside [`Simd::vectorize`], which
//! compiles it for the token's instruction set. Invariant: a token exists only where [`detect`](super::detect) saw its
//! instructions on this CPU. All methods are one operation or a few, and inlined: outside of `vectorize` they are slow.

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
