//! Tuning constants of matrix products: tile sizes, cache blocks, thresholds between algorithms, prefetching.
//!
//! A constant that depends on the instruction set is a field of [`Tuning`]. All others are plain constants. Sizes are
//! in elements unless the comment gives another unit.
//!
//! Invariant: constants that decide the order of a sum or the units of an instruction (the sections "Units" and
//! "Algorithms") are plain ones. So bits and units do not depend on the instruction set.

use crate::simd::{Isa, isa};

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// log₂ of the bytes of a page.
pub const LOG_PAGE: u32 = 12;

// Units.

/// Minimum multiply-adds of a unit: a few microseconds, some ten times the cost of a barrier.
pub const UNIT_WORK: usize = 1 << 17;
/// Multiply-adds that take as long as reading or writing an element that is used once.
pub const ELEMENT_WORK: usize = 8;
/// Rows of a unit are a multiple of this. Elements of a unit of a vector product are a multiple of 16 times this.
pub const UNIT_ROWS: usize = 4;
/// Rows of a unit are a multiple of this in a bf16 precision.
pub const UNIT_ROWS_BF16: usize = 16;
/// Columns of a unit are a multiple of this: whole cache lines, and whole tiles of the bf16 engine.
pub const UNIT_COLS: usize = 32;
/// Columns of C are divided among units only if there are this many, so that there are several units.
pub const DIVIDED_COLS: usize = 8 * UNIT_COLS;
/// A B of this many elements or more does not fit a core's cache, so reading it is slow even without packing.
pub const FAR_B: usize = 1 << 19;
/// Sums of the columns of C make units larger, so there are fewer of them. A product of more than two units computes
/// the sums only if this many units are left, or as many as it has without sums.
pub const SUM_UNITS: usize = 8;

// Algorithms.

/// From this many rows of C on, packing B pays, so the product is not computed as dot products.
pub const PACK_B_ROWS: usize = 48;
/// A product is computed as dot products if k is at least this times the rows of A. Summing the lanes then costs less
/// than packing B: the lanes of 24 dot products take about 60 cycles, packing an element 0.25.
pub const DOTS_TERMS_PER_ROW: usize = 13;
/// A C of at most this many columns leaves most lanes of a tile idle.
pub const DOTS_NARROW: usize = 16;
/// A product with such a narrow C is computed as dot products if k is at least this.
pub const DOTS_NARROW_TERMS: usize = 64;
/// Rows of C of a product that is computed by its transpose. With fewer rows, dot products are faster, or many lanes
/// are idle. With more rows, packing B costs little in comparison.
pub const TRANSPOSED_ROWS: std::ops::RangeInclusive<usize> = 32..=128;
/// Lanes of the widest vectors. In a transposed product rows of C are lanes, and lanes beyond the last row are idle.
pub const TRANSPOSED_LANES: usize = 16;

// Blocks of the general product.

/// Maximum block size along k: terms added to a sum in one visit of C. A micro-panel of B of 256 bytes a row is then
/// 128 KiB, and streams from L2 at half the bandwidth of L2.
pub const KC: usize = 512;
/// The same where C does not stay in a cache between two visits.
pub const KC_LARGE_C: usize = 1024;
/// A C of more bytes than this does not stay in L2.
pub const LARGE_C: usize = 2 << 20;
/// Bytes of a block of A: half of a 2 MiB L2.
pub const BLOCK_A: usize = 1 << 20;
/// Bytes of a block of C before an act-grad epilogue: C is then still in cache.
pub const BLOCK_C_ACT_GRAD: usize = 128 << 10;
/// Bytes of B that are packed at once.
pub const BLOCK_B: usize = 256 << 10;
/// The same where A has more than one block: B is packed once for all of them and waits in L3.
pub const BLOCK_B_SHARED: usize = 4 << 20;
/// The width in bytes of a packed block of B is a multiple of this, and so of the width of most micro-panels.
pub const MICRO_PANELS: usize = 512;
/// Rows of B that are packed together, from left to right, so that each row is read in order.
pub const PACK_ROWS: usize = 16;
/// Elements added to the rows of a packed block of A, so that rows do not share cache sets.
pub const PAD: usize = 16;
/// Micro-panels are made for tiles of at least this many rows if C has [`PACK_B_ROWS`] rows or more.
pub const MIN_TILE_ROWS: usize = 4;

/// Up to this many terms of a sum, an old C that comes from memory takes longer than the sums.
pub const SHORT_SUMS: usize = 64;

// Packing.

/// From this many columns of C on, packing an A that is contiguous along k costs next to nothing. For an A that is
/// contiguous along m, half as many are enough.
pub const PACK_A_COLS: usize = 1024;
/// From this many columns of C on, packing a transposed A from beyond L2 costs less than it saves.
pub const PACK_FAR_A_COLS: usize = 48;
/// A transposed A of at most this many bytes stays in L1 and is read in place.
pub const A_IN_L1: usize = 16 << 10;
/// If rows of B are this many bytes or more apart, an unpacked micro-panel falls into few cache sets.
pub const FAR_ROWS: usize = 2048;
/// Rows of A that are a multiple of this many bytes apart share cache sets.
pub const ALIASED_A: usize = 2 * FAR_ROWS;
/// The lines of a micro-panel of such a B share a few sets of L2: prefetched ones are lost before they are packed.
pub const ALIASED_B: usize = 1 << LOG_PAGE;

// Prefetching.

/// A B of more bytes than this comes from memory, and is prefetched: a smaller one stays in a cache.
pub const PREFETCH_B: usize = 2 << 20;
/// An old C of more bytes than this comes from memory, and is prefetched.
pub const PREFETCH_C: usize = 2 << 20;
/// From this k on, a tile of C is prefetched while the previous tile is computed.
pub const PREFETCH_C_TERMS: usize = 64;
/// If one row is multiplied by a matrix of more bytes than this, the matrix is prefetched from L2 to L1.
pub const PREFETCH_DOTS: usize = 32 << 10;

// Other algorithms.

/// Terms of the products of a stack that are multiplied as one. With this many the visits of C cost little, and
/// gathered operands stay in L2.
pub const STACKED_TERMS: usize = 128;
/// Maximum number of rows of gathered operands.
pub const STACKED_ROWS: usize = 512;
/// Maximum number of their columns.
pub const STACKED_COLS: usize = 1024;
/// Bytes of the block of Cᵀ that a transposed product computes at once.
pub const TRANSPOSED_BLOCK: usize = 256 << 10;
/// Rows of C that are transposed back at once, and elements of each.
pub const TRANSPOSED_SQUARE: (usize, usize) = (16, 64);
/// Bytes of A that a product for a sink packs at once. A larger A is packed block by block, and B again for each block.
pub const SINK_BLOCK_A: usize = 4 << 20;
/// Bytes of a block of B of a product for a sink: it stays in a part of L2 unless sums are long.
pub const SINK_BLOCK_B: usize = 256 << 10;
/// Rows of a block of a product for a sink: few, so that partial sums stay in L2; enough that a micro-panel of B, which
/// comes from L2 too, serves several tiles.
pub const SINK_ROWS: usize = 48;
/// Bytes of a row of such a block at most, so that it stays in L2 beside what the sink reads for it.
pub const SINK_COLS: usize = 1 << 10;

// Products with a B that is decoded.

/// Up to this many rows of C, decoding B takes most of the time. Blocks of decoded B then stay in L1.
pub const DECODED_FEW_ROWS: usize = 4;
/// Rows of such a block.
pub const DECODED_FEW_ROWS_DEPTH: usize = 32;
/// Bytes of such a block.
pub const DECODED_FEW_ROWS_BLOCK: usize = 16 << 10;

// bf16 units.

/// Words of A that are packed at once, 8 MiB. B is packed again for each such part of A, which costs as much as the
/// products of a hundred rows.
pub const BF16_WORDS_A: usize = 2 << 20;
/// Words of packed A that stay in L2.
pub const BF16_WORDS_A_IN_L2: usize = 192 << 10;
/// Words of a block of B.
pub const BF16_WORDS_B: usize = 96 << 10;
/// Maximum number of terms added to a sum in one visit of its tile.
pub const BF16_KC: usize = 512;
/// Maximum number of rows of partial sums in scratch.
pub const BF16_PARTIAL_ROWS: usize = 512;

/// The smallest product that the bf16 engine computes faster than f32 arithmetic. Measured by `cargo bench --bench gemm
/// -- --precision`. Packing must be cheap compared with the product: the cost of packing B is shared by all rows of C,
/// that of A by all columns. Tiles at the edges cost as much as whole ones.
#[derive(Clone, Copy, Debug)]
pub struct LeastShape {
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Terms of a sum.
    pub k: usize,
    /// Multiply-adds.
    pub work: usize,
}

/// Of products in `bf16`, by AVX512-BF16. Each thread packs B for its own rows, so a product must be large enough to
/// pay for packing B twice.
pub const BF16_LEAST_AVX512: LeastShape = LeastShape { m: 64, n: 64, k: 64, work: 1 << 18 };
/// Of products in `bf16`, by AMX.
pub const BF16_LEAST: LeastShape = LeastShape { m: 16, n: 32, k: 16, work: 1 << 17 };
/// Of products in `bf16x2`, by AMX, if B is contiguous along n.
pub const BF16X2_LEAST: LeastShape = LeastShape { m: 64, n: 32, k: 32, work: 1 << 20 };
/// Of products in `bf16x2`, by AMX, if B is not contiguous along n.
pub const BF16X2_LEAST_STRIDED: LeastShape = LeastShape { m: 32, ..BF16X2_LEAST };
/// Of products in `bf16x3`, by AMX.
pub const BF16X3_LEAST: LeastShape = LeastShape { m: 64, n: 64, k: 32, work: 1 << 20 };

/// The constants that depend on the instruction set. The sizes of register tiles are in [`tile_tables`].
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Maximum number of rows of a register tile.
    pub tile_rows: usize,
    /// Dot products of `f32`.
    pub dots_f32: DotsShape,
    /// Dot products of `f64`.
    pub dots_f64: DotsShape,
    /// When a micro-panel of B stays in L1 in place.
    pub panel_in_l1: PanelInL1,
    /// Maximum bytes of a B that is read in place from L2, if its rows fall into different cache sets.
    pub b_in_l2: usize,
    /// Maximum bytes of a B that is packed micro-panel by micro-panel, each just before its use.
    pub panel_b: usize,
    /// Maximum block size along k where a transposed A is packed.
    pub kc_packed: usize,
    /// Bytes of a block of A where a B that stays in a cache is packed once for all blocks. Sums are then near when the
    /// epilogue runs. `None`: [`BLOCK_A`].
    pub block_a: Option<usize>,
    /// A new C of more bytes than this is prefetched, a tile ahead: few stores can wait for lines at once.
    pub prefetch_new_c: usize,
    /// Rows of C that fill a tile of a product that is computed by its transpose: two vectors of lanes.
    pub transposed_lanes: usize,
    /// Operands of this many bytes together do not stay in L2. A transposed A is then packed, and both operands are
    /// prefetched for the next block of k.
    pub far_terms: usize,
    /// Tiles of fewer rows, two vectors wide, wait for their sums.
    pub waiting_rows: usize,
    /// How a B from memory is packed whose rows are a multiple of [`ALIASED_B`] bytes apart. `None`: as any other.
    pub wide_blocks: Option<WideBlocks>,
}

/// Sizes of packed blocks that read each row of B for some hundred bytes.
#[derive(Clone, Copy, Debug)]
pub struct WideBlocks {
    /// Maximum block size along k.
    pub kc: usize,
    /// Bytes of a packed block.
    pub bytes: usize,
}

/// How many dot products are computed at once.
#[derive(Clone, Copy, Debug)]
pub struct DotsShape {
    /// Rows of the first matrix.
    pub rows: usize,
    /// Rows of the second matrix.
    pub by: usize,
    /// Rows of the second matrix for a lone row of the first.
    pub by_alone: usize,
}

/// When a micro-panel of B stays in L1 in place.
#[derive(Clone, Copy, Debug)]
pub enum PanelInL1 {
    /// If it has at most `most` rows, and the stride between them is no multiple of `aliased` bytes.
    Rows {
        /// Rows.
        most: usize,
        /// Bytes.
        aliased: usize,
    },
    /// If its rows need at most this many bytes of L1. Each row of the micro-panel is as long as a cache line. If rows
    /// do not begin at lines, each needs three lines of L1: two for the row and one for A. Rows a power of two apart
    /// need more, because they leave cache sets unused.
    Bytes(usize),
}

impl PanelInL1 {
    /// Whether a micro-panel of `k` rows, `stride` bytes apart, stays there.
    #[inline]
    pub fn fits(self, k: usize, stride: usize) -> bool {
        match self {
            PanelInL1::Rows { most, aliased } => k <= most && !stride.is_multiple_of(aliased),
            PanelInL1::Bytes(bytes) => {
                let needed =
                    if stride.is_multiple_of(LINE) { 1 << stride.trailing_zeros().min(LOG_PAGE) } else { 3 * LINE };
                k <= bytes / needed
            }
        }
    }
}

/// Bytes of L1, which has as many sets as a page has lines.
const L1: usize = 32 << 10;

/// Tiles are up to four cache lines wide. An unpacked B in L2 is as fast as a packed one if its rows fall into
/// different cache sets, and so is a transposed A.
const AVX512: Tuning = Tuning {
    tile_rows: 6,
    dots_f32: DotsShape { rows: 3, by: 8, by_alone: 8 },
    dots_f64: DotsShape { rows: 4, by: 4, by_alone: 4 },
    panel_in_l1: PanelInL1::Rows { most: 64, aliased: FAR_ROWS / 2 },
    b_in_l2: 2 * BLOCK_B,
    panel_b: 0,
    kc_packed: KC,
    block_a: None,
    prefetch_new_c: usize::MAX,
    transposed_lanes: 2 * TRANSPOSED_LANES,
    far_terms: usize::MAX,
    waiting_rows: 0,
    wide_blocks: None,
};

/// Tiles of several rows are mostly one cache line wide. A transposed A in place would take as much of the bandwidth of
/// L2 as there is: a tile reads a part of each line, and lines of adjacent columns share cache sets. With blocks of 256
/// terms a micro-panel of B fills half of L1. Of an L2 of 512 KiB a block of A leaves half to B and C. A
/// micro-panel of a wide block is half of L1, and its block as large as L2. A multiply-add takes up to five cycles, two
/// begin in each: ten sums or more do not wait.
const AVX2: Tuning = Tuning {
    tile_rows: 6,
    dots_f32: DotsShape { rows: 3, by: 2, by_alone: 4 },
    dots_f64: DotsShape { rows: 3, by: 2, by_alone: 4 },
    panel_in_l1: PanelInL1::Bytes(L1),
    b_in_l2: 0,
    panel_b: BLOCK_B,
    kc_packed: KC / 2,
    block_a: Some(192 << 10),
    prefetch_new_c: 512 << 10,
    transposed_lanes: TRANSPOSED_LANES,
    far_terms: 384 << 10,
    waiting_rows: 5,
    wide_blocks: Some(WideBlocks { kc: 256, bytes: 512 << 10 }),
};

/// Not measured: blocks as for AVX2.
const NEON: Tuning = Tuning {
    waiting_rows: 0,
    dots_f32: DotsShape { rows: 2, by: 2, by_alone: 4 },
    dots_f64: DotsShape { rows: 2, by: 2, by_alone: 4 },
    ..AVX2
};

/// Blocks as for AVX2.
const PORTABLE: Tuning = Tuning {
    tile_rows: 4,
    waiting_rows: 0,
    dots_f32: DotsShape { rows: 1, by: 1, by_alone: 1 },
    dots_f64: DotsShape { rows: 1, by: 1, by_alone: 1 },
    ..AVX2
};

impl Tuning {
    /// Those of an instruction set.
    #[inline]
    pub const fn of(isa: Isa) -> &'static Tuning {
        match isa {
            Isa::Avx512 => &AVX512,
            Isa::Avx2 => &AVX2,
            Isa::Neon => &NEON,
            Isa::Portable => &PORTABLE,
        }
    }

    /// Those of the instruction set in use.
    #[inline]
    pub fn current() -> &'static Tuning {
        Tuning::of(isa())
    }
}

/// Calls `$kernels` with each instruction set of the target and its register tiles: the widths in vectors, least first,
/// for each number of rows. The accumulators, one row of B and one element of A must fit the registers. Nearly square
/// tiles need the fewest loads for each multiply-add, and loads are the bottleneck.
macro_rules! tile_tables {
    ($kernels:ident) => {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        $kernels! {
            V4, Avx512, [1: 1 2 3 4 8, 2: 1 2 3 4 8, 3: 1 2 3 4 8, 4: 1 2 3 4, 5: 1 2 3 4, 6: 1 2 3 4]
        }
        // Neither 3 × 4 nor 4 × 3: their sums, a row of B and an element of A need all registers, and LLVM moves them
        // about.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        $kernels! { V3, Avx2, [1: 1 2 3 4 8, 2: 1 2 3 4, 3: 1 2 3, 4: 1 2, 5: 1 2, 6: 1 2] }
        // As many registers as AVX-512 has. Its bits were checked under an emulator; its speed has not been measured.
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        $kernels! {
            Neon, Neon, [1: 1 2 3 4 8, 2: 1 2 3 4 8, 3: 1 2 3 4 8, 4: 1 2 3 4, 5: 1 2 3 4, 6: 1 2 3 4]
        }
        // Four rows of two vectors leave half of sixteen registers to operands.
        #[cfg(not(target_arch = "wasm32"))]
        $kernels! { Portable, Portable, [1: 1 2, 2: 1 2, 3: 1 2, 4: 1 2] }
        // Sums are pairs of `f64`: four vectors of them, half of sixteen registers.
        #[cfg(target_arch = "wasm32")]
        $kernels! { Portable, Portable, [1: 1 2, 2: 1 2, 3: 1, 4: 1] }
    };
}
pub(super) use tile_tables;
