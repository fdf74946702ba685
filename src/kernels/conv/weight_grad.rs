//! The weight gradient. A block of images gives a partial gradient, by products of strips of x with dy. Then the
//! partial gradients are added.
//!
//! Lanes are output channels (see `outer_sweep`) or positions of a row (see `conv_micro::add_tap_dots`), whichever
//! fill vectors better. The order of sums depends only on the shape and on which strips of x hold infinity or NaN: rows
//! of such a strip are summed one by one, and rows of other strips may be summed as one long row, with zeros in the
//! gaps. The images of a block are read in order. A strip holds one band of rows of a few images. Each lane is one
//! chain through all strips of a unit, and the lanes are added in a tree. The partial gradients are added in the order
//! of the blocks. Used by the entry points of the folder.

use super::conv_micro::{self, Rows, TAPS, conv_micro_all_finite, dot_lanes, fold_lanes, next_dots_rows};
use super::conv_plan::{ConvPlan, LANES, SLACK, weight_grad_blocks};
use super::depthwise;
use super::geom::ConvGeom;
use super::outer_sweep::{BLOCK, Field, sum_tap_runs, transpose_channels, widest_tap_run};
use super::strip;
use crate::float::Float;
use crate::gemm::GemmFloat;
use crate::simd;
use std::ops::Range;

/// The scratch of one thread, split.
struct Scratch<'a, T> {
    /// Offset of each tap in a strip, and of its packed column.
    offs: &'a mut [u32],
    even: &'a mut [u32],
    strip: &'a mut [T],
    cols: &'a mut [T],
    dy: &'a mut [T],
    /// Sums of a unit. With channels in the lanes: the channels for each tap. Else: the lanes for each tile of dots.
    sums: &'a mut [T],
    /// Whether everything in the strip is finite.
    finite: bool,
}

/// Elements of [`Scratch::sums`] for a unit's share of a group; and, with channels in the lanes, for each tap.
fn lane_sums_len(g: &ConvGeom, c: &ConvPlan) -> [usize; 2] {
    let channels = weight_grad_blocks(g).1.min(c.dst_c);
    let across = channels.next_multiple_of(BLOCK);
    if c.outer {
        [across * c.taps(), across]
    } else {
        [channels.next_multiple_of(8) * c.taps().next_multiple_of(TAPS) * LANES, 0]
    }
}

/// Vectors of positions in one row of dy. With packed columns a strip is one row.
fn vectors_in_row<T>(c: &ConvPlan) -> usize {
    if c.packed { c.columns() / dot_lanes::<T>() } else { c.grid[1].div_ceil(dot_lanes::<T>()) }
}

/// [images of a strip, elements of columns, elements of dy's copies].
fn strip_sizes(c: &ConvPlan) -> [usize; 3] {
    if c.outer {
        [c.fold, 0, BLOCK * c.fold * c.band * c.grid[1]]
    } else if c.packed {
        [1, c.taps() * c.columns(), 9 * c.columns()]
    } else {
        // Eight channels, and a line for each.
        [c.fold, 0, 8 * (c.fold + 1) * c.band * c.grid[1].next_multiple_of(LANES)]
    }
}

/// Elements of scratch for one thread.
pub(super) fn thread_scratch_len(g: &ConvGeom, c: &ConvPlan) -> usize {
    let [strips, cols, dy] = strip_sizes(c);
    2 * c.taps() + strip::len_for_images(c, strips) + cols + dy + lane_sums_len(g, c)[0]
}

fn split_scratch<'a, T: Float>(g: &ConvGeom, c: &ConvPlan, scratch: &'a mut [T]) -> Scratch<'a, T> {
    // Buffers for vector access come first: their sizes are whole cache lines.
    let [strips, cols, dy] = strip_sizes(c);
    let (dy, rest) = scratch.split_at_mut(dy);
    let (sums, rest) = rest.split_at_mut(lane_sums_len(g, c)[0]);
    let (cols, rest) = rest.split_at_mut(cols);
    let (strip, rest) = rest.split_at_mut(strip::len_for_images(c, strips));
    let (offs, even) = rest.split_at_mut(c.taps());
    let (offs, even) = (bytemuck::cast_slice_mut(offs), bytemuck::cast_slice_mut(even));
    Scratch { offs: &mut offs[..c.taps()], even: &mut even[..c.taps()], strip, cols, dy, sums, finite: true }
}

/// Computes the units `units` of the parts; `part` is their part of the result.
pub(super) fn compute_parts<T: GemmFloat>(
    g: &ConvGeom,
    x: &[T],
    dy: &[T],
    units: Range<usize>,
    part: &mut [T],
    scratch: &mut [T],
) {
    let c = ConvPlan::weight(g);
    let (blocks, channels) = weight_grad_blocks(g);
    let taps = g.taps();
    let first = units.start * channels;
    let last = first + part.len() / taps;
    if depthwise::fits(&c) {
        return depthwise::weight_parts(&c, (x, dy), first..last, blocks, part);
    }
    let mut scratch = split_scratch(g, &c, &mut scratch[..thread_scratch_len(g, &c)]);
    strip::clear_planes(scratch.strip);
    strip::clear_planes(scratch.cols);
    // With channels in the lanes, offsets are those of runs of taps.
    let run = if c.outer { widest_tap_run(g.windows.kernel[1]) } else { 1 };
    let mut k = 0;
    c.each_tap([0, 0], |_, _, off| {
        if k % run == 0 {
            scratch.offs[k / run] = off as u32;
        }
        scratch.even[k] = (k * c.columns()) as u32;
        k += 1;
    });
    part.fill(T::ZERO);
    let mut at = first;
    while at < last {
        let (block, from) = (at / g.c_out, at % g.c_out);
        // A unit at a time: the sums hold one.
        let to = g.c_out.min(from + channels).min(from + last - at);
        let images = block * g.n / blocks..(block + 1) * g.n / blocks;
        let part = &mut part[(at - first) * taps..][..(to - from) * taps];
        for group in from / c.dst_c..to.div_ceil(c.dst_c) {
            let lo = from.max(group * c.dst_c);
            let hi = to.min((group + 1) * c.dst_c);
            let part = &mut part[(lo - from) * taps..(hi - from) * taps];
            fill_channel_rows(g, &c, x, dy, Piece { images: images.clone(), group, lo, row: 0 }, part, &mut scratch);
        }
        at += to - from;
    }
}

/// The contents of one strip: some images (at the end at most `fold`), one band of rows, some channels of a group.
#[derive(Clone)]
struct Piece {
    images: Range<usize>,
    group: usize,
    /// First channel of dy.
    lo: usize,
    row: usize,
}

/// Rows of the gradient of one image block and group. Loop nest: chunk of source channels → images → band.
fn fill_channel_rows<T: GemmFloat>(
    g: &ConvGeom,
    c: &ConvPlan,
    x: &[T],
    dy: &[T],
    p: Piece,
    part: &mut [T],
    scratch: &mut Scratch<'_, T>,
) {
    let (all, pixels) = (g.c_in / g.groups, g.windows.size.iter().product::<usize>());
    for from in (0..all).step_by(c.src_c) {
        let count = c.src_c.min(all - from);
        // These channels' planes in an image.
        let planes = |image: usize| &x[((image * g.groups + p.group) * all + from) * pixels..][..count * pixels];
        let cols = from * g.window()..(from + count) * g.window();
        let channels = part.len() / g.taps();
        strip::clear_planes(scratch.sums);
        for image in p.images.clone().step_by(c.fold) {
            let images = image..(image + c.fold).min(p.images.end);
            for row in (0..c.grid[0]).step_by(c.band) {
                let p = Piece { images: images.clone(), row, ..p };
                load_x(c, planes, &p, scratch);
                if c.outer {
                    add_strip_products(g, c, dy, &p, cols.len(), channels, scratch);
                } else {
                    add_strip_dots(c, dy, &p, cols.len(), channels, scratch);
                }
            }
        }
        if c.outer {
            let ld = lane_sums_len(g, c)[1];
            for (m, row) in part.chunks_exact_mut(g.taps()).enumerate() {
                let sums = scratch.sums[m..].iter().step_by(ld);
                row[cols.clone()].iter_mut().zip(sums).for_each(|(row, s)| *row = *s);
            }
        } else {
            fold_tiles(scratch.sums, part, g.taps(), cols);
        }
    }
}

/// Sums the lanes of all tiles of [`add_strip_dots`] into columns `cols` of a part with rows of `taps` elements.
fn fold_tiles<T: Float>(sums: &[T], part: &mut [T], taps: usize, cols: Range<usize>) {
    let (channels, mut m0, mut sums) = (part.len() / taps, 0, sums);
    while m0 < channels {
        let m = next_dots_rows(channels - m0);
        for k0 in (0..cols.len()).step_by(TAPS) {
            let (tile, rest) = sums.split_at(m * TAPS * dot_lanes::<T>());
            let mut out = [T::ZERO; 8 * TAPS];
            fold_lanes(tile, &mut out);
            for (part, out) in part[m0 * taps..].chunks_exact_mut(taps).zip(out.as_chunks::<TAPS>().0).take(m) {
                part[cols.clone()][k0..].iter_mut().zip(out).for_each(|(p, o)| *p = *o);
            }
            sums = rest;
        }
        m0 += m.min(channels - m0);
    }
}

/// Adds one strip's products to the sums of its `taps` taps, for `channels` channels of dy in the lanes.
fn add_strip_products<T: GemmFloat>(
    g: &ConvGeom,
    c: &ConvPlan,
    dy: &[T],
    p: &Piece,
    taps: usize,
    channels: usize,
    scratch: &mut Scratch<'_, T>,
) {
    let ([h, w], all, ld, run) =
        (c.grid, c.groups * c.dst_c, lane_sums_len(g, c)[1], widest_tap_run(g.windows.kernel[1]));
    let rows = c.band.min(h - p.row);
    let f = Field { images: p.images.len(), rows, cols: w, x: [c.pitch, c.planes_len()] };
    for m0 in (0..channels).step_by(BLOCK) {
        let some = BLOCK.min(channels - m0);
        for (image, to) in p.images.clone().zip(scratch.dy.chunks_exact_mut(rows * w * BLOCK)) {
            let from = &dy[((image * all + p.lo + m0) * h + p.row) * w..];
            transpose_channels(from, h * w, rows * w, some, to);
        }
        let sums = &mut scratch.sums[..taps * ld];
        let offs = &scratch.offs[..taps / run];
        // The sums of a block start at its first channel; only that block's sums are updated for each tap.
        sum_tap_runs(run, scratch.strip, offs, scratch.dy, f, &mut sums[m0..], ld);
    }
}

/// Positions of `rows` rows at the strip's pitch, if one run over them needs no more vectors than row by row. The
/// elements between the rows must be finite: they are multiplied by zeros.
fn joined_positions(c: &ConvPlan, rows: usize) -> Option<usize> {
    let width = (rows.max(1) - 1) * c.pitch + c.grid[1];
    (width.next_multiple_of(LANES) <= rows * c.grid[1].next_multiple_of(LANES)).then_some(width)
}

/// Adds one strip's dot products to the lane sums of its `taps` taps and `channels` channels of dy, tile by tile.
fn add_strip_dots<T: Float>(
    c: &ConvPlan,
    dy: &[T],
    p: &Piece,
    taps: usize,
    channels: usize,
    scratch: &mut Scratch<'_, T>,
) {
    let rows = c.band.min(c.grid[0] - p.row);
    let (s, x, offs): (_, &[T], &[u32]) = if c.packed {
        (Rows { images: 1, rows: 1, width: c.columns(), x: [0, 0], finite: true }, scratch.cols, scratch.even)
    } else if let Some(width) = joined_positions(c, rows).filter(|_| scratch.finite) {
        let s = Rows { images: p.images.len(), rows: 1, width, x: [0, c.planes_len()], finite: true };
        (s, scratch.strip, scratch.offs)
    } else {
        let x = [c.pitch, c.planes_len()];
        let s = Rows { images: p.images.len(), rows, width: c.grid[1], x, finite: scratch.finite };
        (s, scratch.strip, scratch.offs)
    };
    let (mut m0, mut at) = (0, 0);
    while m0 < channels {
        let m = next_dots_rows(channels - m0);
        let real = m.min(channels - m0);
        load_dy(c, dy, p, p.lo + m0..p.lo + m0 + real, m, scratch.finite, scratch.dy);
        for k0 in (0..taps).step_by(TAPS) {
            let offs = [0, 1, 2].map(|j| offs[(k0 + j).min(taps - 1)] as usize);
            conv_micro::add_tap_dots(m, x, offs, scratch.dy, s, &mut scratch.sums[at..]);
            at += m * TAPS * dot_lanes::<T>();
        }
        m0 += real;
    }
}

/// Copies the channels of the images into the strip and, if packed, from there into columns.
fn load_x<'x, T: Float>(c: &ConvPlan, planes: impl Fn(usize) -> &'x [T], p: &Piece, scratch: &mut Scratch<'_, T>) {
    let [rows, cols] = c.grid;
    if !c.outer && !c.packed {
        // Vectors read past rows, into whatever the strip contains there.
        let finite = p.images.clone().all(|image| conv_micro_all_finite(planes(image)));
        if finite && !scratch.finite {
            strip::clear_planes(scratch.strip);
        }
        scratch.finite = finite;
    }
    for (i, image) in p.images.clone().enumerate() {
        if !c.packed {
            strip::load_planes(c, planes(image), p.row, &mut scratch.strip[i * c.planes_len()..]);
            continue;
        }
        strip::load_planes(c, planes(image), p.row, scratch.strip);
        for (off, to) in scratch.offs.iter().zip(scratch.cols.chunks_exact_mut(c.columns())) {
            strip::copy_rows(&scratch.strip[*off as usize..], c.pitch, &mut to[i * rows * cols..], cols, cols, rows);
        }
    }
    if c.packed {
        let used = p.images.len() * rows * cols;
        scratch.cols.chunks_exact_mut(c.columns()).for_each(|col| col[used..].fill(T::ZERO));
    }
}

/// Copies a block of channels of dy in the order in which `dots` reads it: for each vector of positions, the vectors of
/// the `m` channels. Elements past the end of a row and missing channels are zeros.
fn load_dy<T: Float>(c: &ConvPlan, dy: &[T], p: &Piece, channels: Range<usize>, m: usize, finite: bool, to: &mut [T]) {
    let (steps, l) = (vectors_in_row::<T>(c), dot_lanes::<T>());
    let ([h, cols], all) = (c.grid, c.groups * c.dst_c);
    let rows = c.band.min(h - p.row);
    let row_len = steps * m * l;
    let plane = |image: usize, channel: usize| &dy[((image * all + channel) * h + p.row) * cols..][..rows * cols];
    if c.packed {
        let (to, line) = to.split_at_mut(row_len);
        let line = &mut line[..c.columns()];
        strip::clear_planes(line);
        if channels.len() < m {
            strip::clear_planes(to);
        }
        for (i, channel) in channels.enumerate() {
            for (image, line) in p.images.clone().zip(line.chunks_exact_mut(rows * cols)) {
                line.copy_from_slice(plane(image, channel));
            }
            interleave_dy(line, i, m, l, to);
        }
    } else if let Some(width) = joined_positions(c, rows).filter(|_| finite) {
        let width = width.next_multiple_of(l);
        let (to, lines) = to.split_at_mut(p.images.len() * m * width);
        let lines = &mut lines[..m * width];
        strip::clear_planes(lines);
        for (image, to) in p.images.clone().zip(to.chunks_exact_mut(m * width)) {
            // All lines first: reading bytes that were just written in other pieces stalls.
            for (line, channel) in lines.chunks_exact_mut(width).zip(channels.clone()) {
                strip::copy_rows(plane(image, channel), cols, line, c.pitch, cols, rows);
            }
            for (i, line) in lines.chunks_exact(width).enumerate() {
                interleave_dy(line, i, m, l, to);
            }
        }
    } else {
        let to = &mut to[..p.images.len() * rows * row_len];
        if channels.len() < m {
            strip::clear_planes(to);
        }
        for (image, to) in p.images.clone().zip(to.chunks_exact_mut(rows * row_len)) {
            for (i, channel) in channels.clone().enumerate() {
                let from = plane(image, channel);
                for at in (0..cols).step_by(l) {
                    // One column of vectors, in all rows.
                    let (to, width) = (&mut to[(at / l * m + i) * l..], l.min(cols - at));
                    if width < l {
                        to.chunks_mut(row_len).for_each(|row| row[..l].fill(T::ZERO));
                    }
                    strip::copy_rows(&from[at..], cols, to, row_len, width, rows);
                }
            }
        }
    }
}

/// Writes a row, split into vectors, as every `m`-th vector from the `i`-th on.
fn interleave_dy<T: Float>(from: &[T], i: usize, m: usize, l: usize, to: &mut [T]) {
    match l {
        16 => interleave_weight_grad_dy_by(By::<16>, from, i, m, to),
        _ => interleave_weight_grad_dy_by(By::<8>, from, i, m, to),
    }
}

/// Vectors of `L`.
struct By<const L: usize>;

simd! {
    fn interleave_weight_grad_dy_by[T: Float, const L: usize](_by: By<L>, from: &[T], i: usize, m: usize, to: &mut [T]) {
        let to = to.as_chunks_mut::<L>().0[i..].iter_mut().step_by(m);
        from.as_chunks::<L>().0.iter().zip(to).for_each(|(from, to)| *to = *from);
    }
}

/// Adds the parts of the image blocks in order: elements `from..from + dw.len()` of the gradient.
pub(super) fn combine_parts<T: Float>(parts: &[T], len: usize, from: usize, dw: &mut [T]) {
    for (i, block) in parts.chunks_exact(len).enumerate() {
        let block = &block[from..][..dw.len()];
        if i == 0 {
            dw.copy_from_slice(block);
        } else {
            dw.iter_mut().zip(block).for_each(|(d, b)| *d += *b);
        }
    }
}

/// `dots` reads at most one vector past a row.
const _: () = assert!(SLACK >= LANES);
