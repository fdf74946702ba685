//! The forward pass and the input gradient of depthwise convolutions.

use super::super::conv_micro::{ConvMicroEpilogue, fma_arrays, load_array};
use super::plane_strip::{LANES, PlanePlan};
use crate::float::Float;
use crate::simd;
use crate::simd::Token;
use std::ops::Range;

/// Elements of a row of results, before it goes to its place.
fn stage_len(p: &PlanePlan) -> usize {
    p.step[1] * 8 * p.pitch
}

/// Elements of scratch of a thread.
pub(in super::super) fn planes_scratch(p: &PlanePlan) -> usize {
    stage_len(p) + p.strip_len() + 3 * p.step[0] * p.step[1] * (p.kernel[0] * p.kernel[1] + 1)
}

/// The taps of each sub-grid: the first of `size` numbers is how many there are.
#[derive(Clone, Copy)]
struct Lists<'a, T> {
    size: usize,
    offs: &'a [u32],
    weights: &'a [T],
}

impl<'a, T: Float> Lists<'a, T> {
    fn of(&self, sub: usize) -> Taps<'a, T> {
        let (from, to) = (sub * self.size + 1, sub * self.size + 1 + self.offs[sub * self.size] as usize);
        Taps { weights: &self.weights[from..to], offs: &self.offs[from..to] }
    }
}

/// Computes planes `planes`, which count through all images, into `dst`.
pub(in super::super) fn correlate_planes<T: Float>(
    p: &PlanePlan,
    (src, weight): (&[T], &[T]),
    epilogue: ConvMicroEpilogue<'_, T>,
    planes: Range<usize>,
    dst: &mut [T],
    scratch: &mut [T],
) {
    let (taps, subs) = (p.kernel[0] * p.kernel[1], p.step[0] * p.step[1]);
    let (size, all) = (taps + 1, subs * (taps + 1));
    let (stage, scratch) = scratch.split_at_mut(stage_len(p));
    let (strip, scratch) = scratch.split_at_mut(p.strip_len());
    let (weights, scratch) = scratch.split_at_mut(all);
    let lists: &mut [u32] = bytemuck::cast_slice_mut(&mut scratch[..2 * all]);
    let (offs, chosen) = lists[..2 * all].split_at_mut(all);
    for sub in 0..subs {
        list_taps(p, [sub / p.step[1], sub % p.step[1]], &mut offs[sub * size..], &mut chosen[sub * size..]);
    }
    strip.fill(T::ZERO);
    let pixels = p.src[0] * p.src[1];
    for (plane, dst) in planes.zip(dst.chunks_exact_mut(p.area().max(1))) {
        let channel = plane % p.channels;
        let own = &weight[channel * taps..][..taps];
        weights.iter_mut().zip(&*chosen).for_each(|(w, tap)| *w = own[*tap as usize]);
        let lists = Lists { size, offs, weights };
        let mut row = 0;
        while row * p.step[0] < p.dst[0] {
            p.load(&src[plane * pixels..][..pixels], row, strip);
            for a in 0..p.step[0] {
                let [rows, _] = p.sub_grid([a, 0]);
                fill_rows(p, a, (row, row..rows.min(row + p.band)), strip, lists, stage, dst);
            }
            row += p.band;
        }
        if epilogue.some() {
            epilogue.of(channel..channel + 1).apply(0, dst);
        }
    }
}

/// Computes rows `rows` of the sub-grids whose rows have phase `a`. The strip begins at row `first`.
fn fill_rows<T: Float>(
    p: &PlanePlan,
    a: usize,
    (first, rows): (usize, Range<usize>),
    strip: &[T],
    lists: Lists<'_, T>,
    stage: &mut [T],
    dst: &mut [T],
) {
    for at in rows.clone().step_by(8) {
        let some = 8.min(rows.end - at);
        let strip = &strip[(at - first) * p.pitch..];
        for b in 0..p.step[1] {
            let [_, cols] = p.sub_grid([a, b]);
            let t = lists.of(a * p.step[1] + b);
            if p.step == [1, 1] {
                sum_rows(t, strip, p.pitch, [some, cols], &mut dst[at * p.dst[1]..], p.dst[1]);
            } else {
                sum_rows(t, strip, p.pitch, [some, cols], &mut stage[b * 8 * p.pitch..], p.pitch);
            }
        }
        if p.step == [1, 1] {
            continue;
        }
        for i in 0..some {
            let to = &mut dst[((at + i) * p.step[0] + a) * p.dst[1]..][..p.dst[1]];
            if p.step[1] == 2 {
                let (even, odd) = stage.split_at(8 * p.pitch);
                interleave_planes_row(&even[i * p.pitch..], &odd[i * p.pitch..], to);
                continue;
            }
            for (b, stage) in stage.chunks_exact(8 * p.pitch).enumerate() {
                to.iter_mut().skip(b).step_by(p.step[1]).zip(&stage[i * p.pitch..]).for_each(|(to, v)| *to = *v);
            }
        }
    }
}

simd! {
    /// Writes elements of two rows in turn.
    fn interleave_planes_row[T: Float](even: &[T], odd: &[T], to: &mut [T]) {
        let (pairs, last) = to.as_chunks_mut::<2>();
        let count = pairs.len();
        for ((to, a), b) in pairs.iter_mut().zip(&even[..count]).zip(&odd[..count]) {
            *to = [*a, *b];
        }
        if let Some(last) = last.first_mut() {
            *last = even[count];
        }
    }
}

/// Lists the offsets and the numbers of the taps of a sub-grid, behind how many there are.
fn list_taps(p: &PlanePlan, sub: [usize; 2], offs: &mut [u32], chosen: &mut [u32]) {
    let mut count = 0;
    chosen[0] = 0;
    for tap in 0..p.kernel[0] * p.kernel[1] {
        chosen[tap + 1] = 0;
        if let Some(off) = p.tap(sub, [tap / p.kernel[1], tap % p.kernel[1]]) {
            count += 1;
            (offs[count], chosen[count]) = (off as u32, tap as u32);
        }
    }
    offs[0] = count as u32;
}

/// The taps of a sub-grid.
#[derive(Clone, Copy)]
struct Taps<'a, T> {
    weights: &'a [T],
    offs: &'a [u32],
}

/// Vectors of a tile.
const VECTORS: usize = 8;

/// A tile of `R` rows of vectors of `L` positions.
struct Tile<const R: usize, const L: usize>;

/// The vectors begin at `starts`, ascending. The sums stay in registers only if they are one array with constant
/// indices: hence the copy to `out` at the end.
#[inline(always)]
fn sum_tile<T: Float, const L: usize>(
    t: Taps<'_, T>,
    strip: &[T],
    starts: [usize; VECTORS],
    out: &mut [[T; L]; VECTORS],
) {
    let mut acc = [[T::ZERO; L]; VECTORS];
    let all = starts[VECTORS - 1] + L;
    for (w, off) in t.weights.iter().zip(t.offs) {
        let from = &strip[*off as usize..][..all];
        for v in 0..VECTORS {
            acc[v] = fma_arrays([*w; L], load_array(&from[starts[v]..]), acc[v]);
        }
    }
    *out = acc;
}

/// Writes the first elements of a vector: two pieces that overlap, where it has enough.
#[inline(always)]
fn store_part<T: Float, const L: usize>(from: &[T; L], to: &mut [T]) {
    let len = to.len();
    match len {
        8.. => {
            to[..8].copy_from_slice(&from[..8]);
            to[len - 8..].copy_from_slice(&from[len - 8..][..8]);
        }
        4.. => {
            to[..4].copy_from_slice(&from[..4]);
            to[len - 4..].copy_from_slice(&from[len - 4..][..4]);
        }
        _ => to.iter_mut().zip(from).for_each(|(to, v)| *to = *v),
    }
}

simd! {
    fn plane_rows[T: Float, const R: usize, const L: usize](
        _tile: Tile<R, L>, t: Taps<'_, T>, strip: &[T], pitch: usize, size: [usize; 2], to: &mut [T], step: usize,
    ) {
        let ([rows, cols], wide) = (size, VECTORS / R * L);
        let starts: [usize; VECTORS] = std::array::from_fn(|v| v / (VECTORS / R) * pitch + v % (VECTORS / R) * L);
        for r in (0..rows).step_by(R) {
            for q in (0..cols).step_by(wide) {
                let mut out = [[T::ZERO; L]; VECTORS];
                sum_tile::<T, L>(t, &strip[r * pitch + q..], starts, &mut out);
                let to = &mut to[r * step + q..];
                if r + R <= rows && q + wide <= cols {
                    let to = &mut to[..(R - 1) * step + wide];
                    for v in 0..VECTORS {
                        to[v / (VECTORS / R) * step + v % (VECTORS / R) * L..][..L].copy_from_slice(&out[v]);
                    }
                } else {
                    for v in 0..VECTORS {
                        let (row, col) = (v / (VECTORS / R), v % (VECTORS / R) * L);
                        if r + row < rows && q + col < cols {
                            let len = (cols - q - col).min(L);
                            store_part(&out[v], &mut to[row * step + col..][..len]);
                        }
                    }
                }
            }
        }
    }
}

/// Sums all taps for `size` = [rows, columns] positions; at most eight rows. Rows of results are `step` apart.
fn sum_rows<T: Float>(t: Taps<'_, T>, strip: &[T], pitch: usize, size: [usize; 2], to: &mut [T], step: usize) {
    let [rows, cols] = size;
    if cols == 0 {
        return;
    }
    macro_rules! by_lanes {
        ($l:literal) => {
            match rows {
                1 => plane_rows(Tile::<1, $l>, t, strip, pitch, size, to, step),
                2..=4 if cols > $l => plane_rows(Tile::<4, $l>, t, strip, pitch, size, to, step),
                _ => plane_rows(Tile::<8, $l>, t, strip, pitch, size, to, step),
            }
        };
    }
    match (size_of::<T>(), Token::current().shape::<T>().lanes) {
        (4, 16) => by_lanes!(16),
        (4, _) | (_, 8) => by_lanes!(8),
        _ => by_lanes!(4),
    }
}

/// A tile reads at most this far behind a row: [`PlanePlan::strip_len`] has room for it.
const _: () = assert!(LANES == 16 && VECTORS == 8);
