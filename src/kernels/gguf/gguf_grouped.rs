//! Multiplies each row by the matrix of its group, where the matrices are stored as blocks: tokens by the weights of
//! their experts.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`gguf_grouped_kernel`] | x: `T[rows, k]`, D `[groups, n, k]` as blocks: `u8`, starts: `i32[groups + 1]` | y = x·Dᵀ of the group: `T[rows, n]`, scratch | [`GgufGrouped`] |
//! | the same, if `back` | g: `T[rows, n]`, D, starts | g·D of the group: `T[rows, k]`, scratch | |
//!
//! Rows are in the order of their groups, see [`grouped`](crate::grouped). A group without rows is not decoded. If x is
//! `f32` and has few rows, they are multiplied by the codes, as in `gguf_matmul`. Otherwise the rows are multiplied by
//! panels that are decoded for each group. Invariant: the params and the element type alone decide which of the two is
//! used, so a row of the result depends neither on the number of threads nor on the groups of the other rows.

use super::block_codec::GROUP;
use super::block_type::BlockType;
use super::coded_rows::CodedRows;
use super::gguf_matmul::{CODED_ROWS, coded_rows_scratch, coded_unit_columns, multiply_coded_rows};
use crate::abi::{Args, Split};
use crate::by_dtype::by_dtype;
use crate::gemm::{Gemm, GemmFloat, OpenDecoded, TransposedDecoder, block_target};
use crate::grouped::group_rows;
use crate::params::params;

/// Of this many groups and more, four times as many rows are multiplied by codes: few of them share a group.
const MANY_GROUPS: usize = 4;

params! {
    /// Params of [`gguf_grouped_kernel`].
    pub struct GgufGrouped {
        /// Place of the block type in [`BlockType::ALL`].
        pub block_type: usize,
        /// Rows of x and of the result.
        pub rows: usize,
        /// Rows of a matrix.
        pub n: usize,
        /// Columns of a matrix: whole blocks.
        pub k: usize,
        /// Number of groups.
        pub groups: usize,
        /// Whether the products are g·D, and not x·Dᵀ.
        pub back: bool,
    }
}

impl GgufGrouped {
    /// Whether it multiplies by codes, for elements of `size` bytes.
    fn by_codes(&self, size: usize) -> bool {
        size == 4 && !self.back && self.rows <= CODED_ROWS * self.groups.clamp(1, MANY_GROUPS)
    }

    /// The product of `m` rows.
    fn gemm(&self, m: usize) -> Gemm {
        if self.back { Gemm::new(m, self.k, self.n) } else { Gemm::new(m, self.n, self.k) }
    }

    /// The products of all groups.
    fn open(&self) -> OpenDecoded {
        OpenDecoded::new(self.gemm(self.rows / self.groups.max(1)))
    }

    /// How units divide the result, and their number, for elements of `size` bytes.
    pub fn division(&self, size: usize) -> (Split, usize) {
        if !self.by_codes(size) {
            return self.gemm(self.rows).decoded_division();
        }
        let width = coded_unit_columns(BlockType::ALL[self.block_type], self.rows, self.k);
        (Split::Columns { row: self.n, width }, self.n.div_ceil(width))
    }

    /// Elements of scratch of each thread, for elements of `size` bytes.
    pub fn scratch(&self, size: usize) -> usize {
        match (self.by_codes(size), size) {
            (true, _) => coded_rows_scratch(BlockType::ALL[self.block_type], self.rows, self.k),
            (_, 4) => self.open().scratch::<f32>(GROUP),
            _ => self.open().scratch::<f64>(GROUP),
        }
    }

    /// The matrix of a group, from row `first` on.
    fn matrix<'a>(&self, blocks: &'a [u8], group: usize, first: usize) -> CodedRows<'a> {
        let d = CodedRows { block_type: BlockType::ALL[self.block_type], blocks, k: self.k };
        let row = d.row_bytes();
        let own = &blocks[(group * self.n + first) * row..(group + 1) * self.n * row];
        CodedRows { blocks: own, ..d }
    }
}

/// Products of rows by the matrix of their group; see the head of the file.
///
/// Reads x, the blocks and starts; writes the result, divided by [`GgufGrouped::division`], and scratch
/// (`Split::PerThread`, [`GgufGrouped::scratch`]); params [`GgufGrouped`].
pub fn gguf_grouped_kernel<T: GemmFloat + From<f32>>(args: &mut Args<'_>) {
    let p = GgufGrouped::from_words(args.params());
    if args.units().is_empty() {
        return;
    }
    let (blocks, starts) = (args.read::<u8>(1), args.read::<i32>(2));
    if p.by_codes(size_of::<T>()) {
        let first = args.units().start * coded_unit_columns(BlockType::ALL[p.block_type], p.rows, p.k);
        let (x, mut y, scratch) = (args.read::<f32>(0), args.panel::<f32>(0), args.write::<f32>(1));
        let columns = y.cols();
        for (group, rows) in group_rows::groups_within(starts, 0..p.rows) {
            let x = &x[rows.start * p.k..rows.end * p.k];
            multiply_coded_rows(p.matrix(blocks, group, first), x, y.part(rows, 0..columns), scratch);
        }
        return;
    }
    let (product, terms) = (p.open(), if p.back { p.n } else { p.k });
    let (at, mut y) = block_target::<T>(args, &p.gemm(p.rows));
    let (x, scratch, columns) = (args.read::<T>(0), args.write::<T>(1), y.cols());
    for (group, rows) in group_rows::groups_within(starts, at.row..at.row + y.rows()) {
        let (d, a) = (p.matrix(blocks, group, 0), &x[rows.start * terms..rows.end * terms]);
        let c = y.part(rows.start - at.row..rows.end - at.row, 0..columns);
        match p.back {
            true => product.compute(a, &d, at.col, c, scratch),
            false => product.compute(a, &TransposedDecoder(d), at.col, c, scratch),
        }
    }
}

by_dtype!(gguf_grouped_kernel_for = gguf_grouped_kernel::<floats>);
