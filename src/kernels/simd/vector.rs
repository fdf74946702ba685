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

/// Terms of the sums of a tile: the products of elements of A and rows of B.
#[derive(Clone, Copy)]
pub struct TileTerms<T> {
    /// A, from the tile's first row.
    pub a: *const T,
    /// Stride between its rows.
    pub a_row: usize,
    /// Stride between its columns: one for each term.
    pub a_col: usize,
    /// B, from the tile's first column.
    pub b: *const T,
    /// Stride between its rows: one for each term.
    pub b_row: usize,
    /// Number of terms.
    pub terms: usize,
    /// Columns of the tile.
    pub cols: usize,
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

    /// Whether a tile adds its terms by [`add_terms`](Vectors::add_terms), not one by one with [`fma`](Vectors::fma).
    const ADDS_TERMS: bool = false;

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

    /// Adds terms to the sums of a tile of `MR` rows and `NV` vectors, each rounded once, in order. Gives the places of
    /// the next term in A and B.
    ///
    /// # Safety
    /// `MR` elements of each column of A and the tile's columns of each row of B may be read.
    #[inline(always)]
    #[allow(unsafe_code)]
    unsafe fn add_terms<const MR: usize, const NV: usize>(
        self,
        _: &mut [[Self::V; NV]; MR],
        t: TileTerms<T>,
    ) -> (*const T, *const T) {
        (t.a, t.b)
    }

    /// The sum over the lanes of each vector: the upper half of the lanes is added to the lower half until one is left.
    /// `J * size_of::<T>()` must be 32.
    fn hsum<const J: usize>(self, r: [Self::V; J]) -> [T; J];

    /// The same sums in more instructions but less latency, for where no other work hides the latency.
    #[inline(always)]
    fn hsum_alone<const J: usize>(self, r: [Self::V; J]) -> [T; J] {
        self.hsum(r)
    }
}

/// Implements [`Simd`] for the token of x86-64 instructions.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! x86_token {
    ($token:ident, $bytes:literal bytes, $registers:literal registers, $features:literal $(, { $($more:tt)* })?) => {
        impl Simd for $token {
            const BYTES: usize = $bytes;
            const REGS: usize = $registers;

            #[inline(always)]
            fn vectorize<O: SimdOp>(self, op: O) -> O::Out {
                #[target_feature(enable = $features)]
                fn within<O: SimdOp>(op: O) -> O::Out {
                    op.call()
                }
                here!(within(op))
            }

            #[inline(always)]
            fn prefetch<T>(self, at: *const T) {
                here!(_mm_prefetch::<_MM_HINT_T0>(at.cast()));
            }

            $($($more)*)?
        }
    };
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) use x86_token;

/// Implements [`Vectors`] for a token and an element type. An operation is an expression of its operands, which stands
/// in the `here!` of the file.
macro_rules! vectors {
    (
        $token:ident, $t:ident in $v:ty, mask $mask:ty, half $half:ty = $half_token:expr, block $block:literal,
        broadcast: |$broadcast_x:ident| $broadcast:expr,
        add: |$add_a:ident, $add_b:ident| $add:expr,
        fma: |$fma_a:ident, $fma_b:ident, $fma_c:ident| $fma:expr,
        mask: |$lanes:ident| $mask_of:expr,
        load: |$load_from:ident| $load:expr,
        load_partial: |$part_from:ident, $part_mask:ident| $load_partial:expr,
        store: |$store_to:ident, $store_v:ident| $store:expr,
        store_partial: |$part_to:ident, $store_mask:ident, $part_v:ident| $store_partial:expr,
        transpose_block: |$from:ident, $step:ident, $to:ident, $to_step:ident| $transpose:expr,
        hsum: |$sums:ident| $hsum:expr,
        $(hsum_alone: |$alone:ident| $hsum_alone:expr,)?
        $(add_terms: $add_terms:path,)?
    ) => {
        impl Vectors<$t> for $token {
            type V = $v;
            type Half = $half;
            type Mask = $mask;
            const BLOCK: usize = $block;

            #[inline(always)]
            fn half(self) -> $half {
                $half_token
            }
            #[inline(always)]
            fn broadcast(self, $broadcast_x: $t) -> $v {
                here!($broadcast)
            }
            #[inline(always)]
            fn add(self, $add_a: $v, $add_b: $v) -> $v {
                here!($add)
            }
            #[inline(always)]
            fn fma(self, $fma_a: $v, $fma_b: $v, $fma_c: $v) -> $v {
                here!($fma)
            }
            #[inline(always)]
            fn mask(self, $lanes: usize) -> $mask {
                here!($mask_of)
            }
            // SAFETY: as the trait says, here and below.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn load(self, $load_from: *const $t) -> $v {
                here!($load)
            }
            // SAFETY: as the trait says.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn load_partial(self, $part_from: *const $t, $part_mask: $mask) -> $v {
                here!($load_partial)
            }
            // SAFETY: as the trait says.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn store(self, $store_to: *mut $t, $store_v: $v) {
                here!($store)
            }
            // SAFETY: as the trait says.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn store_partial(self, $part_to: *mut $t, $store_mask: $mask, $part_v: $v) {
                here!($store_partial)
            }
            // SAFETY: as the trait says.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn transpose_block(self, $from: *const $t, $step: usize, $to: *mut $t, $to_step: usize) {
                here!($transpose)
            }
            #[inline(always)]
            fn hsum<const J: usize>(self, $sums: [$v; J]) -> [$t; J] {
                here!($hsum)
            }
            $(
                const ADDS_TERMS: bool = true;
                // SAFETY: as the trait says.
                #[inline(always)]
                #[allow(unsafe_code)]
                unsafe fn add_terms<const MR: usize, const NV: usize>(
                    self,
                    sums: &mut [[$v; NV]; MR],
                    terms: TileTerms<$t>,
                ) -> (*const $t, *const $t) {
                    here!($add_terms(sums, terms))
                }
            )?
            $(#[inline(always)]
            fn hsum_alone<const J: usize>(self, $alone: [$v; J]) -> [$t; J] {
                here!($hsum_alone)
            })?
        }
    };
}
pub(super) use vectors;

/// Loads a square of `$n` vectors, transposes it with `$turn`, and stores it.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
macro_rules! transpose_square {
    ($n:literal, $zero:expr, $load:ident, $turn:path, $store:ident, $from:ident, $step:ident, $to:ident, $to_step:ident) => {{
        let mut square = [$zero; $n];
        for l in 0..$n {
            square[l] = $load($from.add(l * $step));
        }
        let square = $turn(square);
        for l in 0..$n {
            $store($to.add(l * $to_step), square[l]);
        }
    }};
}
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
pub(super) use transpose_square;

/// The first `lanes` of `N` elements from an address, and 0 in the other lanes.
///
/// # Safety
/// As many elements may be read from there.
#[inline(always)]
#[allow(unsafe_code)]
pub(super) unsafe fn first_lanes<T: Copy + Default, const N: usize>(from: *const T, lanes: usize) -> [T; N] {
    let mut v = [T::default(); N];
    for (i, v) in v.iter_mut().enumerate().take(lanes) {
        // SAFETY: the caller allows to read that many.
        *v = unsafe { from.add(i).read() };
    }
    v
}

/// Writes the first `lanes` elements.
///
/// # Safety
/// As many elements may be written there.
#[inline(always)]
#[allow(unsafe_code)]
pub(super) unsafe fn write_first_lanes<T: Copy, const N: usize>(to: *mut T, lanes: usize, all: [T; N]) {
    for (i, x) in all.into_iter().enumerate().take(lanes) {
        // SAFETY: the caller allows to write that many.
        unsafe { to.add(i).write(x) };
    }
}
