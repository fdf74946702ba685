//! The plan of a blocked product: which operands are packed, and the sizes of the cache blocks.

use super::desc::Gemm;
use super::float::GemmFloat;
use super::prefetch::LINE;
use crate::kernels::simd::{Isa, Token, isa};

/// Longest sums between two visits of C. A micro-panel of B of 256 bytes a row then takes 128 KiB, which streams from
/// L2 at half of what L2 gives.
const DEPTH: usize = 512;
/// The same where C is too large to stay in a cache between two visits.
const DEEP: usize = 1024;
/// Bytes of such a C: more than L2 has.
const LARGE_C: usize = 2 << 20;
/// Bytes of the block of A: half of a 2 MiB L2.
const BLOCK_A: usize = 1 << 20;
/// Bytes of the block of C where an activation's gradient follows.
const ACT_GRAD_C: usize = 128 << 10;
/// Bytes of B that are packed at once.
const BLOCK_B: usize = 256 << 10;
/// The same where A has more than one block: B is packed once for all of them, and waits in L3.
const SHARED_B: usize = 4 << 20;
/// Bytes that the widths of all micro-panels but a few divide: the columns of a packed block of B are a multiple.
pub const PANELS: usize = 512;
/// Rows of C from which packing B pays.
pub const MANY_ROWS: usize = 48;
/// Least height of the tiles that micro-panels are made for where there are that many rows.
const HIGH: usize = 4;
/// Bytes from which B is fetched ahead: less stays in a cache.
const LARGE_B: usize = 2 << 20;
/// Columns of C from which packing A costs next to nothing.
const MANY_COLS: usize = 1024;
/// Bytes of a transposed A that stays in the first cache.
const NEAR_A: usize = 16 << 10;
/// Columns of C from which packing an A of many pages costs less than it saves.
const FEW_COLS: usize = 96;
/// Distance between lines of such an A, in bytes.
const FAR_A: usize = 1536;
/// Bytes of 64 pages: what the first token of a TLB knows.
const PAGES: usize = 64 << PAGE;
/// Distance between rows, in bytes, from which a micro-panel in place falls into few cache sets.
const FAR: usize = 2048;
/// Bytes of the first cache: as many sets as a page has lines.
const NEAR_B: usize = 32 << 10;
/// The logarithm of a page's bytes.
const PAGE: u32 = 12;
/// Rows of B of which a micro-panel stays in the first cache in place, unless they are a power of two apart.
const FEW: usize = 64;
/// Elements added to the lines of a packed block of A, so that lines do not share cache sets.
pub const PAD: usize = 16;

/// Which operands are packed, and the sizes of the blocks, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Whether A is packed.
    pub pack_a: bool,
    /// Whether B is packed.
    pub pack_b: bool,
    /// Whether B is packed micro-panel by micro-panel, each just before its only use.
    pub by_panel: bool,
    /// Whether each micro-panel is fetched while the one before is used.
    pub far: bool,
    /// B micro-panels are at most as wide as tiles of that many rows, also where a thread has fewer: they have room for
    /// no more. (The fewer rows a tile has, the wider it may be.)
    pub high: usize,
    /// Rows of a block of A.
    pub mc: usize,
    /// Terms of a sum between two visits of C.
    pub kc: usize,
    /// Columns of a block of B.
    pub nc: usize,
}

impl Plan {
    /// The plan of a product, from its shape and the instruction set.
    pub fn new<T>(g: &Gemm) -> Plan {
        let size = size_of::<T>();
        let (wide, row) = (isa() == Isa::Avx512, g.b.row * size);
        // Whether a micro-panel stays in the first cache in place. One that is a line wide takes two where rows begin
        // anywhere (and a third of room for A), and leaves sets unused where they are a power of two apart.
        let apart = if row.is_multiple_of(LINE) { 1 << row.trailing_zeros().min(PAGE) } else { 3 * LINE };
        let few = if wide { g.k <= FEW && !row.is_multiple_of(FAR / 2) } else { g.k * apart <= NEAR_B };
        // What is in L2 and spread over its sets is read as fast in place by tiles of four lines.
        let large_b = (!wide || g.k * g.n * size > 2 * BLOCK_B || row >= FAR) && !few;
        let pack_b = g.b.col != 1 || (g.m >= MANY_ROWS && large_b);
        let aliased_a = (g.a.row.max(g.a.col) * size).is_multiple_of(2 * FAR) && g.n >= MANY_COLS / 4;
        // A tile reads a few elements of each row of a transposed A: a cache line for them, and often a page.
        let many = if g.a.col == 1 { MANY_COLS } else { MANY_COLS / 2 };
        // Where all of it stays in the first cache, it is read as fast in place.
        let near = g.a.row == 1 && g.m * g.k * size <= NEAR_A;
        // Tiles that read from more pages than a CPU has at hand, most of them for a row or two.
        let pages =
            !wide && g.a.row == 1 && g.a.col * size >= FAR_A && g.k * g.a.col * size >= PAGES && g.n >= FEW_COLS;
        let often = g.n >= many || aliased_a || pages;
        let pack_a = (g.a.col != 1 && g.a.row != 1) || (g.m >= MANY_ROWS && !near && often);
        let depth = if g.m * g.n * size > LARGE_C { DEEP } else { DEPTH };
        // Divisions only where blocks are cut: this runs in every call, and the smallest products take 20 ns.
        let kc = if g.k <= depth { g.k.max(1) } else { g.k.div_ceil(g.k.div_ceil(depth)) };
        let mc = if g.m * kc <= BLOCK_A / size { g.m } else { BLOCK_A / size / kc };
        // What that gradient is by comes from afar: C need not, too, if all of B can wait meanwhile.
        let lines = g.n * size;
        let by_matrix = g.act.gates() && g.k * lines <= BLOCK_B && mc * lines > 4 * ACT_GRAD_C;
        let mc = if by_matrix { (ACT_GRAD_C / lines).max(MANY_ROWS).min(mc) } else { mc };
        let block = if mc < g.m { SHARED_B } else { BLOCK_B };
        let nc = if g.n * kc <= block / size { g.n } else { (block / kc / PANELS).max(1) * (PANELS / size) };
        // Lines along k are read to their end for each micro-panel; lines along n are left after a few cache lines,
        // which those who read ahead take badly, unless they are told.
        let far = g.k * g.n * size > LARGE_B && g.m >= MANY_ROWS && g.b.row.min(g.b.col) == 1;
        let by_panel = pack_b && (g.b.col != 1 || far || (!wide && g.k * g.n * size <= BLOCK_B)) && mc == g.m;
        let high = if g.m >= MANY_ROWS { HIGH } else { 1 };
        Plan { pack_a, pack_b, by_panel, far: far && by_panel, high, mc, kc, nc: nc.min(g.n) }
    }

    /// Elements of scratch that `product` needs: whole cache lines, so that those of two lanes stay apart.
    pub fn scratch<T: GemmFloat>(&self) -> usize {
        (self.scratch_b::<T>() + if self.pack_a { self.packed_a() } else { 0 }).next_multiple_of(PAD)
    }

    /// Elements of a packed block of A.
    pub fn packed_a(&self) -> usize {
        (self.mc + PAD) * (self.kc + PAD)
    }

    /// Whether sums of `k` terms are not cut.
    pub fn whole(&self, k: usize) -> bool {
        k <= self.kc
    }

    pub fn scratch_b<T: GemmFloat>(&self) -> usize {
        let cols = if self.by_panel { self.nc.min(T::shape(Token::current(), self.high).1) } else { self.nc };
        if self.pack_b { (self.kc * cols).next_multiple_of(PAD) } else { 0 }
    }
}
