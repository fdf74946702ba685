//! Correlations: the forward pass and the input gradient.
//!
//! A call computes several whole images, or some channels of one image. Its loops, from outside to inside: groups,
//! chunks of packed weights, images, bands of rows, sub-grids, blocks of channels. Each output element is one chain of
//! sums over the taps, so the blocking does not affect its bits. Used by the entry points of the folder.

use super::conv_micro::{Product, Span, multiply_panel, next_block_rows, tile_positions};
use super::conv_plan::{ConvPlan, IMAGES, SLACK};
use super::depthwise;
use super::image_lanes;
use super::strip;
use crate::float::Float;
use crate::gemm::GemmFloat;
use std::ops::Range;

/// The scratch of one thread, split.
struct Scratch<'a, T> {
    /// Offset of each tap in the strip, by sub-grid.
    offs: &'a mut [u32],
    /// Offset of each row of packed columns.
    even: &'a mut [u32],
    weights: &'a mut [T],
    strip: &'a mut [T],
    cols: &'a mut [T],
    stage: &'a mut [T],
}

/// The part of the output that one iteration computes.
#[derive(Clone, Copy)]
struct Part {
    /// First image, and number of images computed side by side.
    image: usize,
    images: usize,
    group: usize,
    /// Output channels of the group: `from..to`.
    from: usize,
    to: usize,
    /// First output row of the band within a sub-grid.
    row: usize,
}

/// Elements of the staging buffer: positions of a band, at the strip's pitch or packed, times the rows of a block.
fn staging_len(c: &ConvPlan) -> usize {
    if c.images {
        return image_lanes::staging_len(c);
    }
    let together = c.columns();
    let apart = (c.band * c.pitch).next_multiple_of(SLACK);
    8 * together.max(apart)
}

/// Rows of packed weights, padding included.
fn packed_weight_rows(c: &ConvPlan) -> usize {
    c.chunk + 8
}

/// Elements of scratch for one thread.
pub(super) fn thread_scratch_len(c: &ConvPlan) -> usize {
    2 * c.taps() + packed_weight_rows(c) * c.taps() + strips_len(c) + packed_columns_len(c) + staging_len(c)
}

/// Elements of the strip of one image, or of several side by side.
fn strips_len(c: &ConvPlan) -> usize {
    strip::len_for_images(c, if c.images { IMAGES } else { 1 })
}

/// Elements of packed columns.
fn packed_columns_len(c: &ConvPlan) -> usize {
    if c.packed { c.taps() * c.columns() + SLACK } else { 0 }
}

fn split_scratch<'a, T: Float>(c: &ConvPlan, scratch: &'a mut [T]) -> Scratch<'a, T> {
    let taps = c.taps();
    // Buffers for vector stores come first: their sizes are whole cache lines.
    let (stage, rest) = scratch.split_at_mut(staging_len(c));
    let (cols, rest) = rest.split_at_mut(packed_columns_len(c));
    let (strip, rest) = rest.split_at_mut(strips_len(c));
    let (weights, rest) = rest.split_at_mut(packed_weight_rows(c) * taps);
    let (offs, even) = rest.split_at_mut(taps);
    let (offs, even) = (bytemuck::cast_slice_mut(offs), bytemuck::cast_slice_mut(even));
    Scratch { offs: &mut offs[..taps], even: &mut even[..taps], weights, strip, cols, stage }
}

/// Computes the units `units` of a correlation; `dst` is their part of the output.
pub(super) fn correlate<T: GemmFloat>(
    c: &ConvPlan,
    p: Product<'_, T>,
    units: Range<usize>,
    dst: &mut [T],
    scratch: &mut [T],
) {
    let (_, per_unit) = c.units();
    let (area, all) = (c.dst[0] * c.dst[1], c.groups * c.dst_c);
    // Planes of the output over all images and channels.
    let first = units.start * (per_unit / area);
    let last = first + dst.len() / area;
    if depthwise::fits(c) {
        return depthwise::correlate_planes(c, p, first..last, dst);
    }
    let mut scratch = split_scratch(c, &mut scratch[..thread_scratch_len(c)]);
    strip::clear_planes(scratch.strip);
    for (k, even) in scratch.even.iter_mut().enumerate() {
        *even = (k * c.columns()) as u32;
    }
    let mut at = first;
    while at < last {
        let (image, from) = (at / all, at % all);
        let whole = if from == 0 { (last - at) / all } else { 0 };
        let (images, count) = if whole > 0 { (whole, all) } else { (1, (all - from).min(last - at)) };
        let dst = &mut dst[(at - first) * area..][..images * count * area];
        fill_segment(c, p, image..image + images, from..from + count, dst, &mut scratch);
        at += images * count;
    }
}

/// All images of a segment, for a range of output channels over all groups.
fn fill_segment<T: GemmFloat>(
    c: &ConvPlan,
    p: Product<'_, T>,
    images: Range<usize>,
    channels: Range<usize>,
    dst: &mut [T],
    scratch: &mut Scratch<'_, T>,
) {
    let area = c.dst[0] * c.dst[1];
    for group in channels.start / c.dst_c..channels.end.div_ceil(c.dst_c) {
        let base = group * c.dst_c;
        let (lo, hi) = (channels.start.max(base) - base, channels.end.min(base + c.dst_c) - base);
        for from in (lo..hi).step_by(c.chunk) {
            let to = (from + c.chunk).min(hi);
            pack_weights(c, p.weight, group, from..to, scratch);
            for image in images.clone().step_by(c.fold) {
                let part = Part { image, images: c.fold.min(images.end - image), group, from, to, row: 0 };
                // In `dst`, the planes of these images start at this group's channel `from`.
                let skip = (image - images.start) * channels.len() + base + from - channels.start;
                for row in (0..c.grid[0]).step_by(c.band) {
                    let dst = &mut dst[skip * area..];
                    fill_band(c, p, Part { row, ..part }, channels.len() * area, dst, scratch);
                }
            }
        }
    }
}

/// Writes the weights of a range of output channels as blocks of [tap][channel], and the offsets of the taps.
fn pack_weights<T: Float>(
    c: &ConvPlan,
    weight: &[T],
    group: usize,
    channels: Range<usize>,
    scratch: &mut Scratch<'_, T>,
) {
    let weight = &weight[group * c.taps() * c.dst_c..];
    let (mut k0, mut at) = (0, 0);
    for sub in c.subs() {
        let mut k = k0;
        c.each_tap(sub, |_, _, off| {
            scratch.offs[k] = off as u32;
            k += 1;
        });
        let mut from = channels.start;
        while from < channels.end {
            let m = next_block_rows(channels.end - from);
            let real = m.min(channels.end - from);
            let mut block = scratch.weights[at..at + (k - k0) * m].chunks_exact_mut(m);
            c.each_tap(sub, |src, tap, _| {
                let Some(row) = block.next() else { return };
                let w = weight[from * c.w_dst + src * c.w_src + tap..].iter().step_by(c.w_dst);
                row[real..].fill(T::ZERO);
                row[..real].iter_mut().zip(w).for_each(|(r, w)| *r = *w);
            });
            at += (k - k0) * m;
            from += real;
        }
        k0 = k;
    }
}

/// One band of rows of one image (or of a few small ones), for a chunk of channels.
fn fill_band<T: GemmFloat>(
    c: &ConvPlan,
    p: Product<'_, T>,
    part: Part,
    stride: usize,
    dst: &mut [T],
    scratch: &mut Scratch<'_, T>,
) {
    if c.images {
        return fill_side_by_side(c, p, part, stride, dst, scratch);
    }
    let pixels = c.src[0] * c.src[1];
    let image = |i: usize| &p.src[((part.image + i) * c.groups + part.group) * c.src_c * pixels..][..c.src_c * pixels];
    let (mut k0, mut at) = (0, 0);
    if !c.packed {
        strip::load_planes(c, image(0), part.row, scratch.strip);
    }
    for (i, sub) in c.subs().enumerate() {
        let taps = c.taps_of(sub);
        let [rows, cols] = c.sub_grid(sub);
        let rows = rows.saturating_sub(part.row).min(c.band);
        if c.packed {
            for one in 0..part.images {
                if i == 0 || part.images > 1 {
                    strip::load_planes(c, image(one), part.row, scratch.strip);
                }
                for (off, col) in scratch.offs[k0..k0 + taps].iter().zip(scratch.cols.chunks_exact_mut(c.columns())) {
                    strip::copy_rows(
                        &scratch.strip[*off as usize..],
                        c.pitch,
                        &mut col[one * rows * cols..],
                        cols,
                        cols,
                        rows,
                    );
                }
            }
        }
        let job = Job { sub, rows, cols, taps: k0..k0 + taps, at };
        at += multiply_blocks(c, p, part, &job, stride, dst, scratch);
        k0 += taps;
    }
}

/// All rows of some images with images in the lanes, for a chunk of channels.
fn fill_side_by_side<T: GemmFloat>(
    c: &ConvPlan,
    p: Product<'_, T>,
    part: Part,
    stride: usize,
    dst: &mut [T],
    scratch: &mut Scratch<'_, T>,
) {
    let channels = c.src_c * c.src[0] * c.src[1];
    let src = &p.src[(part.image * c.groups + part.group) * channels..];
    image_lanes::load_channels(c, src, c.groups * channels, part.images, scratch.strip, scratch.stage);
    // Packed rows of all blocks, and of the blocks before this one.
    let (mut all, mut before) = (0, 0);
    let mut m0 = part.from;
    while m0 < part.to {
        all += next_block_rows(part.to - m0);
        m0 += next_block_rows(part.to - m0).min(part.to - m0);
    }
    m0 = part.from;
    while m0 < part.to {
        let m = next_block_rows(part.to - m0);
        let rows = m.min(part.to - m0);
        let a = |taps: usize, count: usize| &scratch.weights[taps * all + count * before..][..count * m];
        image_lanes::compute_block(c, m, rows, scratch.offs, a, scratch.strip, scratch.stage);
        let first = part.group * c.dst_c + m0;
        let area = c.dst[0] * c.dst[1];
        let to = &mut dst[(m0 - part.from) * area..];
        image_lanes::unstage_images(c, p.epilogue, part.images, first..first + rows, stride, scratch.stage, to);
        before += m;
        m0 += rows;
    }
}

/// One sub-grid's product.
struct Job {
    sub: [usize; 2],
    rows: usize,
    cols: usize,
    /// Range of its taps among the offsets.
    taps: Range<usize>,
    /// First of its weights.
    at: usize,
}

/// All blocks of channels of one product. Returns the number of packed weights used.
fn multiply_blocks<T: Float>(
    c: &ConvPlan,
    p: Product<'_, T>,
    part: Part,
    job: &Job,
    stride: usize,
    dst: &mut [T],
    scratch: &mut Scratch<'_, T>,
) -> usize {
    let (area, taps) = (c.dst[0] * c.dst[1], job.taps.len());
    let pitch = if c.packed { job.cols } else { c.pitch };
    // Whether what is computed lies in the output as it is computed: as one line, or line by line.
    let in_place = c.step == [1, 1] && part.images == 1;
    let joined = pitch == job.cols;
    let by_lines = joined || c.lines_cost(taps, job.rows, tile_positions::<T>()) <= c.pitch_cost(taps, job.rows);
    let width = match (job.rows * job.cols, c.packed) {
        (0, _) => 0,
        (area, true) => part.images * area,
        _ => (job.rows - 1) * pitch + job.cols,
    };
    let (offs, b) = if c.packed {
        (&scratch.even[..taps], &*scratch.cols)
    } else {
        (&scratch.offs[job.taps.clone()], &*scratch.strip)
    };
    let (mut m0, mut at) = (part.from, job.at);
    while m0 < part.to {
        let m = next_block_rows(part.to - m0);
        let rows = m.min(part.to - m0);
        let a = &scratch.weights[at..at + taps * m];
        let first = part.group * c.dst_c + m0;
        let epilogue = p.epilogue.of(first..first + rows);
        let dst = &mut dst[(m0 - part.from) * area..];
        if width > 0 && in_place && by_lines {
            let (lines, width) = if joined { (1, width) } else { (job.rows, job.cols) };
            let span = Span { rows, lines, width, pitch, ld: area, epilogue };
            multiply_panel(m, a, offs, b, span, &mut dst[part.row * job.cols..]);
        } else if width > 0 {
            let ld = width.next_multiple_of(LINE);
            let span = Span { rows, lines: 1, width, pitch: 0, ld, epilogue };
            multiply_panel(m, a, offs, b, span, scratch.stage);
            unstage_block(c, part, job, Staged { pitch, ld, rows, stride }, scratch.stage, dst);
        }
        at += taps * m;
        m0 += rows;
    }
    at - job.at
}

/// Row alignment of the staging buffer.
const LINE: usize = 16;

/// A block of channels in the staging buffer.
struct Staged {
    /// Elements from row to row of a channel.
    pitch: usize,
    /// Elements from channel to channel.
    ld: usize,
    /// Channels.
    rows: usize,
    /// Elements from image to image in the output.
    stride: usize,
}

/// Copies a block from the staging buffer to the output.
fn unstage_block<T: Float>(c: &ConvPlan, part: Part, job: &Job, n: Staged, stage: &[T], dst: &mut [T]) {
    let (Staged { pitch, ld, rows, stride }, [h, w]) = (n, c.dst);
    for image in 0..part.images {
        for m in 0..rows {
            let from = &stage[m * ld + image * job.rows * pitch..][..(job.rows - 1) * pitch + job.cols];
            let plane = &mut dst[image * stride + m * h * w..][..h * w];
            if c.step == [1, 1] {
                strip::copy_rows(from, pitch, &mut plane[part.row * w..], w, job.cols, job.rows);
            } else {
                let at = (part.row * c.step[0] + job.sub[0]) * w + job.sub[1];
                let to = &mut plane[at..];
                strip::spread_rows(from, pitch, to, w, c.step, job.cols);
            }
        }
    }
}
