//! Products with a matrix of blocks.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`gguf_matmul_kernel`] | x: `T[m, k]`, D `[n, k]` as blocks: `u8` | y = x·Dᵀ: `T[m, n]`, scratch | [`GgufMatmul`] |
//! | the same, if `back` | g: `T[m, n]`, D | g·D: `T[m, k]`, scratch | |
//!
//! If x is `f32` and has few rows, they are multiplied by the codes (`code_dots`, `nibble_dots`): reading D is then
//! most of the work. All other products decode D into the panels of the general product, and have the bits of a product
//! with the decoded matrix. Invariant: the params and the element type alone decide which of the two is used.

use super::block_codec::GROUP;
use super::block_type::BlockType;
use super::byte_dots::byte_row_dot;
use super::code_dots::{CodeDotsRow, code_group_sums, code_row_dot};
use super::coded_rows::CodedRows;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::nibble_bytes::prepare_x_steps;
use super::nibble_codes::NibbleProduct;
use super::nibble_dots::{has_nibbles, nibble_part_sums};
use super::nibble_x::{NibbleX, PART};
use crate::abi::{Args, MatrixMut, Split};
use crate::by_dtype::by_dtype;
use crate::gemm::{Gemm, GemmFloat, TransposedDecoder, run_decoded};
use crate::params::params;
use crate::scratch::scratch;

/// Up to this many rows are multiplied by codes.
pub(super) const CODED_ROWS: usize = 4;
/// Multiply-adds of a unit of a product by codes, about.
const UNIT: usize = 1 << 17;
/// The same by codes of four bits, which take a quarter of the time; each unit writes x as integers.
const NIBBLES_UNIT: usize = 1 << 19;
/// Columns of such a unit are a multiple of this: a cache line.
const UNIT_COLS: usize = 16;

/// Columns of a unit of a product of `m` rows of `k` terms by codes.
pub(super) fn coded_unit_columns(t: BlockType, m: usize, k: usize) -> usize {
    let unit = if has_nibbles(t, k) { NIBBLES_UNIT } else { UNIT };
    (unit / (m * k).max(1)).max(1).next_multiple_of(UNIT_COLS)
}

/// `f32`s of scratch of each thread for a product of `m` rows of `k` terms by codes.
pub(super) fn coded_rows_scratch(t: BlockType, m: usize, k: usize) -> usize {
    // Each row of x has its sums, and its elements as integers.
    let (groups, parts) = (k / GROUP, k / PART);
    let codes = CodeDotsRow::scratch(k) + m * groups;
    let nibbles = NibblesScratch::len(k) + m * (NibbleX::scratch(k) + parts);
    codes.max(if has_nibbles(t, k) { nibbles } else { 0 }).next_multiple_of(GROUP)
}

scratch! {
    /// The scratch of a product with rows of `k` terms as integers.
    struct NibblesScratch(k: usize) {
        /// The scales of a row of D.
        scales: k / PART,
        /// The sums of a row of x.
        of_groups: k / GROUP,
        ..rows
    }
}

params! {
    /// Params of [`gguf_matmul_kernel`].
    pub struct GgufMatmul {
        /// Place of the block type in [`BlockType::ALL`].
        pub block_type: usize,
        /// Rows of x, and of the result.
        pub m: usize,
        /// Rows of D.
        pub n: usize,
        /// Columns of D: whole blocks.
        pub k: usize,
        /// Whether the product is g·D, and not x·Dᵀ.
        pub back: bool,
    }
}

impl GgufMatmul {
    /// The block type.
    fn block_type(&self) -> BlockType {
        BlockType::ALL[self.block_type]
    }

    /// Whether it multiplies by codes, for elements of `size` bytes.
    fn by_codes(&self, size: usize) -> bool {
        size == 4 && !self.back && self.m <= CODED_ROWS
    }

    /// The general product.
    fn gemm(&self) -> Gemm {
        if self.back { Gemm::new(self.m, self.k, self.n) } else { Gemm::new(self.m, self.n, self.k) }
    }

    /// How units divide the result, and their number, for elements of `size` bytes.
    pub fn division(&self, size: usize) -> (Split, usize) {
        if !self.by_codes(size) {
            return self.gemm().decoded_division();
        }
        let width = coded_unit_columns(self.block_type(), self.m, self.k);
        (Split::Columns { row: self.n, width }, self.n.div_ceil(width))
    }

    /// Elements of scratch of each thread, for elements of `size` bytes.
    pub fn scratch(&self, size: usize) -> usize {
        match (self.by_codes(size), size) {
            (true, _) => coded_rows_scratch(self.block_type(), self.m, self.k),
            (_, 4) => self.gemm().decoded_scratch::<f32>(GROUP),
            _ => self.gemm().decoded_scratch::<f64>(GROUP),
        }
    }
}

/// Products with a matrix of blocks; see the head of the file.
///
/// Reads x and the blocks; writes the result, divided by [`GgufMatmul::division`], and scratch (`Split::PerThread`,
/// [`GgufMatmul::scratch`]); params [`GgufMatmul`].
pub fn gguf_matmul_kernel<T: GemmFloat + From<f32>>(args: &mut Args<'_>) {
    let p = GgufMatmul::from_words(args.params());
    let d = CodedRows { block_type: p.block_type(), blocks: args.read::<u8>(1), k: p.k };
    if p.by_codes(size_of::<T>()) {
        let first = args.units().start * coded_unit_columns(p.block_type(), p.m, p.k);
        let (x, y, scratch) = (args.read::<f32>(0), args.panel::<f32>(0), args.write::<f32>(1));
        let blocks = &d.blocks[first * d.row_bytes()..];
        return multiply_coded_rows(CodedRows { blocks, ..d }, x, y, scratch);
    }
    let (g, x) = (p.gemm(), args.read::<T>(0));
    if p.back { run_decoded(args, &g, x, &d) } else { run_decoded(args, &g, x, &TransposedDecoder(d)) }
}

/// y = x·Dᵀ for as many rows of D as y has columns, by codes. `scratch` has [`coded_rows_scratch`] elements.
pub(super) fn multiply_coded_rows(d: CodedRows<'_>, x: &[f32], mut y: MatrixMut<'_, f32>, scratch: &mut [f32]) {
    if !has_nibbles(d.block_type, d.k) {
        return multiply_codes(d, x, y, scratch);
    }
    let (rows, columns) = (y.rows(), y.cols());
    for from in (0..rows).step_by(CODED_ROWS) {
        let to = (from + CODED_ROWS).min(rows);
        multiply_nibbles(d, &x[from * d.k..to * d.k], y.part(from..to, 0..columns), scratch);
    }
}

/// The same for any type.
fn multiply_codes(d: CodedRows<'_>, x: &[f32], mut y: MatrixMut<'_, f32>, scratch: &mut [f32]) {
    let (k, m, groups) = (d.k, y.rows(), d.k / GROUP);
    if d.block_type == BlockType::Q8_0 {
        for j in 0..y.cols() {
            for i in 0..m {
                y.row(i)[j] = byte_row_dot(d.row(j), &x[i * k..][..k]);
            }
        }
        return;
    }
    let (mut row, sums) = CodeDotsRow::of(k, scratch);
    (0..m).for_each(|i| code_group_sums(&x[i * k..][..k], &mut sums[i * groups..][..groups]));
    for j in 0..y.cols() {
        row.fill(d.block_type, d.row(j));
        for i in 0..m {
            y.row(i)[j] = code_row_dot(&row, &x[i * k..][..k], &sums[i * groups..][..groups]);
        }
    }
}

/// The same for a type that [`has_nibbles`] and at most [`CODED_ROWS`] rows of x. Rows that integers cannot hold
/// ([`NibbleX::fill`]) are multiplied by codes of eight bits.
fn multiply_nibbles(d: CodedRows<'_>, x: &[f32], mut y: MatrixMut<'_, f32>, scratch: &mut [f32]) {
    let (k, parts, columns) = (d.k, d.k / PART, y.cols());
    let NibblesScratch { scales, of_groups, rows: mut rest } = NibblesScratch::cut(k, scratch);
    let mut rows = [const { None }; CODED_ROWS];
    for (x, to) in x.chunks_exact(k).zip(&mut rows) {
        let (mut integers, behind) = NibbleX::of(k, rest);
        let (sums, behind) = behind.split_at_mut(parts);
        if integers.fill(x) {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            prepare_x_steps(integers.steps);
            code_group_sums(x, of_groups);
            nibble_part_sums(of_groups, sums);
            *to = Some((integers, sums));
        }
        rest = behind;
    }
    for j in 0..columns {
        for (i, x) in rows.iter().enumerate() {
            if let Some((x, sums)) = x {
                y.row(i)[j] = NibbleProduct { block_type: d.block_type, row: d.row(j), x, sums, scales }.value();
            }
        }
    }
    let held = rows.map(|row| row.is_some());
    for (i, x) in x.chunks_exact(k).enumerate().filter(|(i, _)| !held[*i]) {
        multiply_codes(d, x, y.part(i..i + 1, 0..columns), scratch);
    }
}

by_dtype!(gguf_matmul_kernel_for = gguf_matmul_kernel::<floats>);
