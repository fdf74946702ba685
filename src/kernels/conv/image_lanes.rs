//! Correlations of sixteen images at once, pixel by pixel: one image in each SIMD lane. Rows of any width fill the
//! vectors, and taps that see only padding are skipped, row by row and tile by tile.
//!
//! Invariant: an output element is one chain of `mul_add` over the taps that may see a pixel of the source, in order.
//! Neither the tile size nor the other fifteen images affect its bits. Used by `correlate` only.

use super::conv_micro::{ConvMicroEpilogue, add_terms, load_array};
use super::conv_plan::{ConvPlan, IMAGES};
use super::strip;
use crate::float::Float;
use crate::gemm::{GemmFloat, transpose};
use crate::simd;
use crate::simd::Token;
use std::ops::Range;

/// Elements of the staging buffer: a block of output channels, or the source before it moves to the strip.
pub(super) fn staging_len(c: &ConvPlan) -> usize {
    let block = 6.min(c.dst_c) * c.dst[0] * c.dst[1];
    IMAGES * block.max(c.src_c * c.src[0] * c.src[1])
}

/// Copies the channels of one group of up to [`IMAGES`] images into a cleared strip. `each` is the stride from image to
/// image.
pub(super) fn load_channels<T: GemmFloat>(
    c: &ConvPlan,
    src: &[T],
    each: usize,
    images: usize,
    strip: &mut [T],
    stage: &mut [T],
) {
    let ([h, w], pixels) = (c.src, c.src_c * c.src[0] * c.src[1]);
    let direct = c.lead == [0, 0] && c.phase == [1, 1] && c.pitch == w && c.plane() == h * w;
    let stage = &mut stage[..pixels * IMAGES];
    let flat = if direct { &mut strip[..pixels * IMAGES] } else { &mut *stage };
    if images < IMAGES {
        strip::clear_planes(flat);
    }
    transpose(src, each, flat, IMAGES, pixels, images);
    if direct {
        return;
    }
    let [rows, cols] = [c.plane() / c.pitch, c.grid[1] + c.reach[1]];
    for (i, line) in stage.chunks_exact(w * IMAGES).enumerate() {
        let (channel, row) = (i / h, i % h + c.lead[0]);
        let plane = (channel * c.phase[0] + row % c.phase[0]) * c.phase[1];
        let row = row / c.phase[0];
        if row >= rows {
            continue;
        }
        for (q, pixels) in line.chunks_exact(c.image_lanes_run(w) * IMAGES).enumerate() {
            let col = q * c.image_lanes_run(w) + c.lead[1];
            let (plane, col) = (plane + col % c.phase[1], col / c.phase[1]);
            let room = cols.saturating_sub(col) * IMAGES;
            let at = (plane * c.plane() + row * c.pitch + col) * IMAGES;
            let n = room.min(pixels.len());
            strip[at..at + n].copy_from_slice(&pixels[..n]);
        }
    }
}

impl ConvPlan {
    /// Pixels of a row that stay adjacent in the strip.
    fn image_lanes_run(&self, w: usize) -> usize {
        if self.phase[1] == 1 { w } else { 1 }
    }

    /// The taps along axis `a`, of those that contribute to sub-grid `sub`, that see a pixel from one of the positions
    /// `at`. All of them if the source is split into phases.
    fn image_lanes_taps_seeing(&self, a: usize, sub: usize, at: Range<usize>) -> Range<usize> {
        let mut taps = (0..self.kernel[a]).filter_map(|k| self.tap(a, sub, k)).enumerate();
        if self.phase[a] != 1 {
            return 0..taps.count();
        }
        let sees = |shift: usize| at.end + shift > self.lead[a] && at.start + shift < self.lead[a] + self.src[a];
        // Shifts are monotonic in the taps, so the taps that see a pixel are contiguous.
        let first = taps.find(|(_, t)| sees(t.1));
        let Some((first, _)) = first else { return 0..0 };
        first..taps.take_while(|(_, t)| sees(t.1)).last().map_or(first, |(i, _)| i) + 1
    }
}

/// The taps of a tile: in each of `outer` groups of `size` taps, the rows `rows`, `step` taps apart, and in each row
/// the taps `cols`.
#[derive(Clone)]
struct ImageLanesTaps {
    outer: usize,
    size: usize,
    rows: Range<usize>,
    step: usize,
    cols: Range<usize>,
}

impl ImageLanesTaps {
    /// The taps that a tile needs of `channels` source channels with `of` = [rows, columns] taps each.
    fn new(channels: usize, of: [usize; 2], rows: Range<usize>, cols: Range<usize>) -> ImageLanesTaps {
        let size = of[0] * of[1];
        if cols.len() < of[1] {
            ImageLanesTaps { outer: channels, size, rows, step: of[1], cols }
        } else if rows.len() < of[0] {
            ImageLanesTaps { outer: channels, size, rows: 0..1, step: size, cols: rows.start * of[1]..rows.end * of[1] }
        } else {
            ImageLanesTaps { outer: 1, size: 0, rows: 0..1, step: 0, cols: 0..channels * size }
        }
    }
}

/// A tile of `M` channels by `P` positions of `L` images.
struct Tile<const M: usize, const P: usize, const L: usize>;

/// The sums stay in registers only if all indices are constants: hence the copy to `out` at the end.
#[inline(always)]
fn sum_in_registers<T: Float, const M: usize, const P: usize, const L: usize>(
    a: &[T],
    offs: &[u32],
    taps: &ImageLanesTaps,
    strip: &[T],
    out: &mut [[[T; L]; P]; M],
) {
    let mut acc = [[[T::ZERO; L]; P]; M];
    let a = a.as_chunks::<M>().0;
    for outer in 0..taps.outer {
        for row in taps.rows.clone() {
            let base = outer * taps.size + row * taps.step;
            let run = base + taps.cols.start..base + taps.cols.end;
            for (a, &off) in a[run.clone()].iter().zip(&offs[run]) {
                let x = &strip[off as usize * IMAGES..][..(P - 1) * IMAGES + L];
                acc = add_terms(a, std::array::from_fn(|p| load_array(&x[p * IMAGES..])), acc);
            }
        }
    }
    *out = acc;
}

/// One tile for all [`IMAGES`] images. `step` is the output stride from position to position, `ld` from channel to
/// channel.
#[inline(always)]
fn compute_tile<T: Float, const M: usize, const P: usize, const L: usize>(
    a: &[T],
    offs: &[u32],
    taps: &ImageLanesTaps,
    strip: &[T],
    dst: &mut [T],
    step: usize,
    ld: usize,
) {
    for lane in (0..IMAGES).step_by(L) {
        let mut out = [[[T::ZERO; L]; P]; M];
        sum_in_registers::<T, M, P, L>(a, offs, taps, &strip[lane..], &mut out);
        for (out, row) in out.iter().zip(dst.chunks_mut(ld)) {
            for (p, v) in out.iter().enumerate() {
                row[p * step + lane..][..L].copy_from_slice(v);
            }
        }
    }
}

simd! { wide
    fn image_lanes_tile_wide[T: Float, const M: usize, const P: usize, const L: usize](
        _t: Tile<M, P, L>, a: &[T], offs: &[u32], taps: &ImageLanesTaps, strip: &[T], dst: &mut [T], step: usize,
        ld: usize,
    ) {
        compute_tile::<T, M, P, L>(a, offs, taps, strip, dst, step, ld);
    }
}

simd! { narrow
    fn image_lanes_tile_narrow[T: Float, const M: usize, const P: usize, const L: usize](
        _t: Tile<M, P, L>, a: &[T], offs: &[u32], taps: &ImageLanesTaps, strip: &[T], dst: &mut [T], step: usize,
        ld: usize,
    ) {
        compute_tile::<T, M, P, L>(a, offs, taps, strip, dst, step, ld);
    }
}

/// Maximal number of positions that share their taps, for a block of `m` channels: as many as the widest vectors have
/// registers for. Of eight, LLVM would make vectors of positions, and gather and scatter their images.
fn most_positions<T: Float>(m: usize) -> usize {
    match (m, size_of::<T>() * Token::current().shape::<T>().lanes) {
        (6, _) => 4,
        (4, _) => 5,
        (_, 64) => 7,
        _ => 8,
    }
}

/// [`compute_tile`] for a block of `m` channels (1, 2, 4 or 6) at some of `left` positions. Returns their number.
fn compute_tiles<T: Float>(
    m: usize,
    left: usize,
    a: &[T],
    offs: &[u32],
    taps: &ImageLanesTaps,
    strip: &[T],
    dst: &mut [T],
    step: usize,
    ld: usize,
) -> usize {
    macro_rules! go {
        ($tile:ident, $m:literal, $l:literal, $($p:literal)*) => {
            match left {
                $(n if n >= $p => { $tile(Tile::<$m, $p, $l>, a, offs, taps, strip, dst, step, ld); $p })*
                _ => { $tile(Tile::<$m, 1, $l>, a, offs, taps, strip, dst, step, ld); 1 }
            }
        };
    }
    macro_rules! by_rows {
        (wide $l:literal) => {
            match m {
                1 => go!(image_lanes_tile_wide, 1, $l, 7 4 2),
                2 => go!(image_lanes_tile_wide, 2, $l, 7 4 2),
                4 => go!(image_lanes_tile_wide, 4, $l, 5 4 3 2),
                _ => go!(image_lanes_tile_wide, 6, $l, 4 3 2),
            }
        };
        // Vectors with twice the registers: a cache line is used whole once it is loaded.
        (narrow $l:literal) => {
            match m {
                1 => go!(image_lanes_tile_narrow, 1, $l, 4 2),
                2 => go!(image_lanes_tile_narrow, 2, $l, 2),
                4 => go!(image_lanes_tile_narrow, 4, $l, ),
                _ => go!(image_lanes_tile_narrow, 6, $l, ),
            }
        };
    }
    match (size_of::<T>(), Token::current().shape::<T>().lanes) {
        (4, 16) => by_rows!(wide 16),
        (4, _) => by_rows!(narrow 16),
        (_, 8) => by_rows!(wide 8),
        _ => by_rows!(narrow 8),
    }
}

/// A block of `rows` channels (packed as `m`) of all sub-grids, staged as [channel][position of the output][image].
/// `a(taps, weights)` returns the packed weights of a sub-grid, from the number of taps before it and its number of
/// weights.
pub(super) fn compute_block<'a, T: Float>(
    c: &ConvPlan,
    m: usize,
    rows: usize,
    offs: &[u32],
    a: impl Fn(usize, usize) -> &'a [T],
    strip: &[T],
    stage: &mut [T],
) {
    let (area, mut k0) = (c.dst[0] * c.dst[1] * IMAGES, 0);
    for sub in c.subs() {
        let of = [0, 1].map(|x| (0..c.kernel[x]).filter(|k| c.tap(x, sub[x], *k).is_some()).count());
        let count = c.src_c * of[0] * of[1];
        let (offs, a) = (&offs[k0..k0 + count], a(k0, count));
        let [height, width] = c.sub_grid(sub);
        for row in 0..height {
            let down = c.image_lanes_taps_seeing(0, sub[0], row..row + 1);
            let mut col = 0;
            while col < width {
                // As few tiles as possible, of about equal size.
                let left = width - col;
                let some = left.div_ceil(left.div_ceil(most_positions::<T>(m)));
                let taps = ImageLanesTaps::new(
                    c.src_c,
                    of,
                    down.clone(),
                    c.image_lanes_taps_seeing(1, sub[1], col..col + some),
                );
                let at = (row * c.step[0] + sub[0]) * c.dst[1] + col * c.step[1] + sub[1];
                let (step, mut done) = (c.step[1] * IMAGES, 0);
                while done < some {
                    let strip = &strip[(row * c.pitch + col + done) * IMAGES..];
                    let dst = &mut stage[at * IMAGES + done * step..rows * area];
                    done += compute_tiles(m, some - done, a, offs, &taps, strip, dst, step, area);
                }
                col += some;
            }
        }
        k0 += count;
    }
}

/// Applies the epilogue to a staged block and copies it to the images, `stride` elements apart.
pub(super) fn unstage_images<T: GemmFloat>(
    c: &ConvPlan,
    epilogue: ConvMicroEpilogue<'_, T>,
    images: usize,
    channels: Range<usize>,
    stride: usize,
    stage: &mut [T],
    dst: &mut [T],
) {
    let area = c.dst[0] * c.dst[1];
    let stage = &mut stage[..channels.len() * area * IMAGES];
    let epilogue = epilogue.of(channels.clone());
    if epilogue.some() {
        stage.chunks_exact_mut(area * IMAGES).enumerate().for_each(|(r, run)| epilogue.apply(r, run));
    }
    transpose(stage, IMAGES, dst, stride, images, channels.len() * area);
}
