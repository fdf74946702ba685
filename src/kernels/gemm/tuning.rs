//! Tuning constants of matrix products: tile sizes, cache blocks, thresholds between algorithms, prefetching.
//!
//! A constant that depends on the instruction set is a field of [`Tuning`]. All others are plain constants. Sizes are
//! in elements unless the comment gives another unit.
//!
//! Invariant: constants that decide the order of a sum or the units of an instruction (the sections "Units" and
//! "Algorithms") are plain ones. So bits and units do not depend on the instruction set.

use crate::kernels::simd::{Isa, isa};

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// The logarithm of a page's bytes.
pub const LOG_PAGE: u32 = 12;

// Units.

/// Least multiply-adds of a unit: a few microseconds, some ten times the cost of a barrier.
pub const UNIT_WORK: usize = 1 << 17;
/// Rows of a unit are a multiple of this. Elements of a unit of a vector product are a multiple of 16 times this.
pub const UNIT_ROWS: usize = 4;
/// Rows of a unit are a multiple of this where bf16 units may compute.
pub const UNIT_ROWS_BF16: usize = 16;
/// Columns of a unit are a multiple of this: whole cache lines, and whole tiles where bf16 units may compute.
pub const UNIT_COLS: usize = 32;
/// Fewest columns of C that are divided among units: several units.
pub const DIVIDED_COLS: usize = 8 * UNIT_COLS;
/// Elements from which B does not fit a core's cache, so that reading it takes long even if it is not packed.
pub const FAR_B: usize = 1 << 19;
/// Least units of a product with sums of columns, unless it has fewer without the sums. One is enough if it has at most
/// two without the sums.
pub const SUM_UNITS: usize = 8;

// Algorithms.

/// Rows of C from which packing B pays, so that a product is no longer dot products.
pub const PACK_B_ROWS: usize = 48;
/// Fewest terms of a sum, for each row of A, from which summing the lanes of a dot product costs less than packing B:
/// summing the lanes of 24 dot products takes about 60 cycles, packing an element 0.25.
pub const DOTS_TERMS_PER_ROW: usize = 13;
/// Columns of C that leave most lanes of a tile idle.
pub const DOTS_NARROW: usize = 16;
/// Fewest terms from which products with so few columns are dot products.
pub const DOTS_NARROW_TERMS: usize = 64;
/// Rows of C of a product that is computed by its transpose: fewer are dot products, or leave lanes idle; with more,
/// packing B costs little.
pub const TRANSPOSED_ROWS: std::ops::RangeInclusive<usize> = 32..=128;
/// Lanes of the widest vectors: those beyond the last row of a transposed product are idle.
pub const TRANSPOSED_LANES: usize = 16;

// Blocks of the general product.

/// Most terms of a sum between two visits of C. A micro-panel of B of 256 bytes a row is then 128 KiB, and streams from
/// L2 at half the bandwidth of L2.
pub const KC: usize = 512;
/// The same where C does not stay in a cache between two visits.
pub const KC_LARGE_C: usize = 1024;
/// Bytes of such a C: more than L2 has.
pub const LARGE_C: usize = 2 << 20;
/// Bytes of a block of A: half of a 2 MiB L2.
pub const BLOCK_A: usize = 1 << 20;
/// Bytes of a block of C that an act-grad epilogue follows.
pub const BLOCK_C_ACT_GRAD: usize = 128 << 10;
/// Bytes of B that are packed at once.
pub const BLOCK_B: usize = 256 << 10;
/// The same where A has more than one block: B is packed once for all of them and waits in L3.
pub const BLOCK_B_SHARED: usize = 4 << 20;
/// Columns of a packed block of B are a multiple of this many bytes, which the widths of all micro-panels but a few
/// divide.
pub const MICRO_PANELS: usize = 512;
/// Rows of B that are packed side by side before the next ones, so that reads go on along each row.
pub const PACK_ROWS: usize = 16;
/// Elements added to the rows of a packed block of A, so that rows do not share cache sets.
pub const PAD: usize = 16;
/// Least height of the tiles that micro-panels are made for, if C has [`PACK_B_ROWS`] rows.
pub const MIN_TILE_ROWS: usize = 4;

// Packing.

/// Columns of C from which packing an A that is contiguous along m costs next to nothing; half as many for other A.
pub const PACK_A_COLS: usize = 1024;
/// Bytes of a transposed A that stays in L1 and is therefore read in place.
pub const A_IN_L1: usize = 16 << 10;
/// Columns of C from which packing an A that spans many pages costs less than it saves.
pub const PACK_A_PAGES_COLS: usize = 96;
/// Bytes between lines of such an A.
pub const PACK_A_PAGES_STRIDE: usize = 1536;
/// Bytes of 64 pages: what the first level of a TLB holds.
const TLB: usize = 64 << LOG_PAGE;
/// Bytes between rows of B from which a micro-panel in place falls into few cache sets.
pub const FAR_ROWS: usize = 2048;
/// Rows of A that are a multiple of this many bytes apart share cache sets.
pub const ALIASED_A: usize = 2 * FAR_ROWS;

// Prefetching.

/// Bytes from which B is prefetched: less stays in a cache.
pub const PREFETCH_B: usize = 2 << 20;
/// Terms of a sum from which a tile of C is prefetched while the tile before it is computed.
pub const PREFETCH_C_TERMS: usize = 64;
/// Bytes from which the matrix that a lone row is multiplied with is prefetched to L1: it comes from L2.
pub const PREFETCH_DOTS: usize = 32 << 10;

// Other algorithms.

/// Bytes of the block of Cᵀ that a transposed product computes at once.
pub const TRANSPOSED_BLOCK: usize = 256 << 10;
/// Lines that are transposed back at once, and elements of each.
pub const TRANSPOSED_SQUARE: (usize, usize) = (16, 64);
/// Elements that the loop of an outer product computes together: whole vectors on every instruction set.
pub const OUTER_ELEMENTS: usize = 16;
/// Bytes of A that a product for a sink packs at once. A larger A is packed block by block, and B again for each block.
pub const SINK_BLOCK_A: usize = 4 << 20;
/// Bytes of a block of B of a product for a sink: it stays in a part of L2 unless sums are long.
pub const SINK_BLOCK_B: usize = 256 << 10;
/// Rows of a block of a product for a sink: few, so that partial sums stay in L2; enough that a micro-panel of B, which
/// comes from L2 too, serves several tiles.
pub const SINK_ROWS: usize = 48;

// bf16 units.

/// Words of A that are packed at once, 8 MiB. B is packed once for that many rows, which costs as much as the products
/// of a hundred.
pub const BF16_WORDS_A: usize = 2 << 20;
/// Words of the part of that A that stays in L2.
pub const BF16_WORDS_A_IN_L2: usize = 192 << 10;
/// Words of a block of B.
pub const BF16_WORDS_B: usize = 96 << 10;
/// Most terms of a sum between two visits of the same tile.
pub const BF16_KC: usize = 512;
/// Most rows of partial sums in scratch.
pub const BF16_PARTIAL_ROWS: usize = 512;

/// The least shape of a product that bf16 units compute faster than f32 units. Measured by `cargo bench --bench gemm --
/// --precision`. Packing must be cheap compared with the product: the cost of packing B is shared by all rows of C,
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

/// Of products in `bf16`, by AVX512-BF16 or AMX.
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
    /// Most rows of a register tile.
    pub tile_rows: usize,
    /// Dot products of `f32`.
    pub dots_f32: DotsShape,
    /// Dot products of `f64`.
    pub dots_f64: DotsShape,
    /// When a micro-panel of B stays in L1 in place.
    pub panel_in_l1: PanelInL1,
    /// Most bytes of a B that is read in place from L2, if it spreads over the cache sets.
    pub b_in_l2: usize,
    /// Most bytes of a B that is packed micro-panel by micro-panel, each just before its use.
    pub panel_b: usize,
    /// Bytes that a transposed A spans, from which its pages miss in the TLB: tiles read a row or two of most pages.
    pub many_pages_a: usize,
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
    /// If it has at most `most` rows that are no multiple of `aliased` bytes apart.
    Rows {
        /// Rows.
        most: usize,
        /// Bytes.
        aliased: usize,
    },
    /// If its rows need at most this many bytes of L1. A row, which is one cache line wide, needs three lines if rows
    /// begin anywhere: two of its own and one for A. Rows a power of two apart need more, because they leave sets
    /// unused.
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
                k * needed <= bytes
            }
        }
    }
}

/// Bytes of L1, which has as many sets as a page has lines.
const L1: usize = 32 << 10;

/// Tiles are up to four cache lines wide. They read a B that is in L2 and spreads over its sets as fast in place as
/// packed. Pages of A do not slow them down.
const AVX512: Tuning = Tuning {
    tile_rows: 6,
    dots_f32: DotsShape { rows: 3, by: 8, by_alone: 8 },
    dots_f64: DotsShape { rows: 4, by: 4, by_alone: 4 },
    panel_in_l1: PanelInL1::Rows { most: 64, aliased: FAR_ROWS / 2 },
    b_in_l2: 2 * BLOCK_B,
    panel_b: 0,
    many_pages_a: usize::MAX,
};

/// Tiles of several rows are mostly one cache line wide.
const AVX2: Tuning = Tuning {
    tile_rows: 6,
    dots_f32: DotsShape { rows: 3, by: 2, by_alone: 4 },
    dots_f64: DotsShape { rows: 3, by: 2, by_alone: 4 },
    panel_in_l1: PanelInL1::Bytes(L1),
    b_in_l2: 0,
    panel_b: BLOCK_B,
    many_pages_a: TLB,
};

/// Not measured: blocks as for AVX2.
const NEON: Tuning = Tuning {
    dots_f32: DotsShape { rows: 2, by: 2, by_alone: 4 },
    dots_f64: DotsShape { rows: 2, by: 2, by_alone: 4 },
    ..AVX2
};

/// Blocks as for AVX2.
const PORTABLE: Tuning = Tuning {
    tile_rows: 4,
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

/// Calls `$kernels` with each instruction set of the target and its register tiles: the widths in vectors, least
/// first, for each number of rows. The accumulators, one row of B and one element of A must fit the registers. Nearly
/// square tiles load least for each multiply-add, and loads are what runs short first.
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
        $kernels! { Portable, Portable, [1: 1 2, 2: 1 2, 3: 1 2, 4: 1 2] }
    };
}
pub(super) use tile_tables;
