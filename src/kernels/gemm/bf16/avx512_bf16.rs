//! AVX512-BF16: packing, and tiles of products by `vdpbf16ps`.
//!
//! Invariants: packing gives the same words as `terms`. For each pair of elements along k, a sum first adds the product
//! of the odd element, then that of the even one. Callers have an [`Bf16Engine`](super::engine::Bf16Engine) other than
//! the portable one. Such an engine exists only where the CPU has the instructions.

use super::operands::Tile;
use super::packed::{DEPTH, LINE, LINES, PackedTile, Runs, Side};
use super::terms;
use std::arch::x86_64::*;

/// Packs the numbers of one packed tile, as `to.len()` terms each. Returns what `lay_out_lines` returns, which is
/// `Some(false)`, or `None`, with invalid words, if a number that is split is too large for this code, infinite or NaN.
pub fn pack_numbers(runs: Runs<'_>, side: Side, to: &mut [PackedTile]) -> Option<bool> {
    let Runs { data, step, lines } = runs;
    let transposed = lines != (side == Side::A);
    let convert = match (lines, to.len(), transposed) {
        (false, 1, false) => pack_terms::<false, 1, false>,
        (false, 1, true) => pack_terms::<false, 1, true>,
        (false, 2, false) => pack_terms::<false, 2, false>,
        (false, 2, true) => pack_terms::<false, 2, true>,
        (false, _, false) => pack_terms::<false, 3, false>,
        (false, _, true) => pack_transposed::<false>,
        (true, 1, false) => pack_terms::<true, 1, false>,
        (true, 1, true) => pack_terms::<true, 1, true>,
        (true, 2, false) => pack_terms::<true, 2, false>,
        (true, 2, true) => pack_terms::<true, 2, true>,
        (true, _, false) => pack_terms::<true, 3, false>,
        (true, _, true) => pack_transposed::<true>,
    };
    // SAFETY: an `Engine` other than the portable one exists only where the CPU has these instructions.
    #[allow(unsafe_code)]
    let done = unsafe { convert(data, step, to) };
    done.then_some(false)
}

/// The words of a vector of bf16.
fn words_of_vector(x: __m512bh) -> __m512i {
    // SAFETY: both are 64 bytes of any bits.
    #[allow(unsafe_code)]
    unsafe {
        std::mem::transmute(x)
    }
}

/// A vector of bf16, from its words.
fn vector_of_words(x: __m512i) -> __m512bh {
    // SAFETY: as above.
    #[allow(unsafe_code)]
    unsafe {
        std::mem::transmute(x)
    }
}

/// Prefetches the cache line of an element that the next block will read. Hardware prefetchers do not foresee the order
/// in which blocks are read.
#[inline(always)]
fn prefetch_element(data: &[f32], at: usize) {
    // SAFETY: a prefetch has no effect that a program can see, whatever the address is.
    #[allow(unsafe_code)]
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().wrapping_add(at).cast());
    }
}

/// The sixteen numbers from `at` on, if there are as many.
#[inline(always)]
fn load_line(data: &[f32], at: usize) -> Option<__m512> {
    data.get(at..)?.first_chunk::<LINES>().map(|x| bytemuck::cast(*x))
}

/// The sources of the upper halves of sixteen numbers: the first or the second sixteen of 32 terms.
const HALVES: [[u16; 32]; 2] = {
    let mut halves = [[0; 32]; 2];
    let mut i = 0;
    while i < 32 {
        halves[0][i] = i as u16 / 2;
        halves[1][i] = 16 + i as u16 / 2;
        i += 1;
    }
    halves
};

/// Packs numbers as `SPLITS` terms each. With `LINES_RUN`, runs are lines. With `TRANSPOSE`, words are transposed.
/// Returns whether all numbers are small enough for this code.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,avx2,fma")]
fn pack_terms<const LINES_RUN: bool, const SPLITS: usize, const TRANSPOSE: bool>(
    data: &[f32],
    step: usize,
    to: &mut [PackedTile],
) -> bool {
    // Interleaves the bf16 numbers of two runs.
    let mix: [u16; 32] = std::array::from_fn(|i| (i / 2 + 16 * (i % 2)) as u16);
    let (mix, magnitude) = (bytemuck::cast::<_, __m512i>(mix), _mm512_set1_epi32(0x7fff_ffff));
    let [first, second] = [bytemuck::cast::<_, __m512i>(HALVES[0]), bytemuck::cast(HALVES[1])];
    let Some(to) = to.first_chunk_mut::<SPLITS>() else { return false };
    let mut to = to.each_mut().map(|tile| tile.as_chunks_mut::<LINES>().0);
    let mut most = _mm512_setzero_si512();
    let mut kept = [[_mm512_setzero_si512(); LINES]; SPLITS];
    for i in 0..LINES {
        // Sixteen words: of one line, or of two steps along k.
        let (x, y) = if LINES_RUN { (i * step, i * step + LINES) } else { (2 * i * step, (2 * i + 1) * step) };
        let (Some(mut x), Some(mut y)) = (load_line(data, x), load_line(data, y)) else { return false };
        prefetch_element(data, if LINES_RUN { i * step + DEPTH } else { 2 * i * step + LINES });
        prefetch_element(data, if LINES_RUN { i * step + DEPTH + LINES } else { (2 * i + 1) * step + LINES });
        if SPLITS > 1 {
            let of = |x: __m512| _mm512_and_si512(_mm512_castps_si512(x), magnitude);
            most = _mm512_max_epi32(most, _mm512_max_epi32(of(x), of(y)));
        }
        for t in 0..SPLITS {
            let words = words_of_vector(_mm512_cvtne2ps_pbh(y, x));
            let mixed = if LINES_RUN { words } else { _mm512_permutexvar_epi16(mix, words) };
            if TRANSPOSE {
                kept[t][i] = mixed
            } else {
                to[t][i] = bytemuck::cast(mixed)
            }
            if t + 1 < SPLITS {
                let low = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaa_aaaa, first, words));
                let upper = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaa_aaaa, second, words));
                (x, y) = (_mm512_sub_ps(x, low), _mm512_sub_ps(y, upper));
            }
        }
    }
    if TRANSPOSE {
        for (to, kept) in to.iter_mut().zip(kept) {
            to.iter_mut().zip(transpose_words(kept)).for_each(|(to, words)| *to = bytemuck::cast(words));
        }
    }
    _mm512_cmpgt_epi32_mask(most, _mm512_set1_epi32(terms::SAFE as i32)) == 0
}

/// As [`pack_terms`] in three terms, transposed. The numbers are transposed before they are split, because
/// three terms that wait for it would not stay in registers.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,avx2,fma")]
fn pack_transposed<const LINES_RUN: bool>(data: &[f32], step: usize, to: &mut [PackedTile]) -> bool {
    let mut across = [[0f32; LINES]; DEPTH];
    for square in 0..2 {
        let mut r = [_mm512_setzero_si512(); LINES];
        for (i, r) in r.iter_mut().enumerate() {
            let at = if LINES_RUN { i * step + square * LINES } else { (square * LINES + i) * step };
            let Some(x) = load_line(data, at) else { return false };
            prefetch_element(data, if LINES_RUN { at + DEPTH } else { at + LINES });
            *r = _mm512_castps_si512(x);
        }
        for (i, x) in transpose_words(r).into_iter().enumerate() {
            // Steps along k one after the other, or lines of two halves.
            across[if LINES_RUN { square * LINES + i } else { 2 * i + square }] = bytemuck::cast(x);
        }
    }
    let across = across.as_flattened();
    if LINES_RUN {
        pack_terms::<false, 3, false>(across, LINES, to)
    } else {
        pack_terms::<true, 3, false>(across, DEPTH, to)
    }
}

/// Transposes a 16 × 16 square of words.
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose_words(r: [__m512i; 16]) -> [__m512i; 16] {
    let mut a = r;
    for i in 0..8 {
        a[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    // b[4 q + c]: columns c, c + 4, c + 8, c + 12 of rows 4 q to 4 q + 3.
    let mut b = a;
    for q in 0..4 {
        b[4 * q] = _mm512_unpacklo_epi64(a[4 * q], a[4 * q + 2]);
        b[4 * q + 1] = _mm512_unpackhi_epi64(a[4 * q], a[4 * q + 2]);
        b[4 * q + 2] = _mm512_unpacklo_epi64(a[4 * q + 1], a[4 * q + 3]);
        b[4 * q + 3] = _mm512_unpackhi_epi64(a[4 * q + 1], a[4 * q + 3]);
    }
    let mut out = b;
    for c in 0..4 {
        let (x, y, z, w) = (b[c], b[4 + c], b[8 + c], b[12 + c]);
        let (xy, zw) = (_mm512_shuffle_i32x4::<0x88>(x, y), _mm512_shuffle_i32x4::<0x88>(z, w));
        let (xy2, zw2) = (_mm512_shuffle_i32x4::<0xdd>(x, y), _mm512_shuffle_i32x4::<0xdd>(z, w));
        out[c] = _mm512_shuffle_i32x4::<0x88>(xy, zw);
        out[8 + c] = _mm512_shuffle_i32x4::<0xdd>(xy, zw);
        out[4 + c] = _mm512_shuffle_i32x4::<0x88>(xy2, zw2);
        out[12 + c] = _mm512_shuffle_i32x4::<0xdd>(xy2, zw2);
    }
    out
}

/// Computes a tile: sixteen rows for each micro-panel of A, 32 columns.
pub fn compute_tile(t: Tile<'_, '_>) {
    let Tile { splits, a, b, c, c_row, add } = t;
    for (i, a) in a.iter().enumerate() {
        for half in 0..2 {
            let c = &mut c[(16 * i + 8 * half) * c_row..];
            // SAFETY: an `Engine` other than the portable one exists only where the CPU has these instructions.
            #[allow(unsafe_code)]
            unsafe {
                compute_eight_rows(splits, a, b, half, c, c_row, add);
            }
        }
    }
}

/// Computes half of the rows of a micro-panel of A: rows `8 * half ..` by 32 columns.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,avx2,fma")]
fn compute_eight_rows(
    splits: usize,
    a: &[PackedTile],
    b: [&[PackedTile]; 2],
    half: usize,
    c: &mut [f32],
    c_row: usize,
    add: bool,
) {
    let mut acc = [[_mm512_setzero_ps(); 2]; 8];
    if add {
        for (acc, c) in acc.iter_mut().zip(c.chunks(c_row)) {
            let [x, y]: [[f32; 16]; 2] = bytemuck::cast(*c.first_chunk::<32>().unwrap_or(&[0.0; 32]));
            *acc = [bytemuck::cast(x), bytemuck::cast(y)];
        }
    }
    for ((a, x), y) in a.chunks_exact(splits).zip(b[0].chunks_exact(splits)).zip(b[1].chunks_exact(splits)) {
        for &(of_a, of_b) in terms::product_order(splits) {
            let rows: &[[u32; LINE]] = &a[of_a].as_chunks().0[8 * half..];
            if let Some(rows) = rows.first_chunk() {
                acc = add_products(acc, rows, &x[of_b], &y[of_b]);
            }
        }
    }
    for (acc, c) in acc.into_iter().zip(c.chunks_mut(c_row)) {
        if let Some(c) = c.first_chunk_mut::<32>() {
            *c = bytemuck::cast(acc);
        }
    }
}

/// Adds the products of two packed tiles of B to the sums of eight rows. Sums are passed by value: by reference they
/// would go through memory.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,avx2,fma")]
#[inline]
fn add_products(mut acc: [[__m512; 2]; 8], a: &[[u32; LINE]; 8], x: &PackedTile, y: &PackedTile) -> [[__m512; 2]; 8] {
    for (p, (x, y)) in x.as_chunks::<LINE>().0.iter().zip(y.as_chunks::<LINE>().0).enumerate() {
        let (x, y) = (vector_of_words(bytemuck::cast(*x)), vector_of_words(bytemuck::cast(*y)));
        for i in 0..8 {
            let w = vector_of_words(_mm512_set1_epi32(a[i][p] as i32));
            acc[i] = [_mm512_dpbf16_ps(acc[i][0], w, x), _mm512_dpbf16_ps(acc[i][1], w, y)];
        }
    }
    acc
}
