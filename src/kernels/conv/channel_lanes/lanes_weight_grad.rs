//! The weight gradient with output channels in the lanes: windowsᵀ · dy, where the windows of some positions are copied
//! from a strip of pixels whose channels are adjacent.
//!
//! Invariant: an element is one chain of `mul_add` over images, rows and columns of dy, in this order.

use super::super::geom::ConvGeom;
use super::lanes_plan::{GROUP, LanesPlan};
use super::operands::{SOME, load_pixels, transposed_len};
use crate::abi::MatrixMut;
use crate::gemm::{Gemm, GemmFloat, OpenProduct, Strides, transpose};
use crate::simd;
use std::ops::Range;

/// Source channels of a block.
const CHANNELS: usize = 128;
/// Numbers of a run that are copied together.
const RUN: usize = 128;
/// Positions of a block.
const POSITIONS: usize = 256;

/// The blocks of the weight gradient.
struct Blocks {
    plan: LanesPlan,
    /// Source channels of a block.
    channels: usize,
    /// Images of a block.
    fold: usize,
}

impl Blocks {
    fn new(g: &ConvGeom) -> Blocks {
        let (plan, channels) = (LanesPlan::forward(g), CHANNELS.min(g.c_in / g.groups));
        let [rows, cols] = plan.grid();
        let plan = LanesPlan { src_c: channels, ..plan }.with_band((POSITIONS / cols.max(1)).clamp(1, rows.max(1)));
        let fold = if plan.band < rows { 1 } else { (POSITIONS / (rows * cols).max(1)).clamp(1, g.n.max(1)) };
        Blocks { plan, channels, fold }
    }

    fn positions(&self) -> usize {
        self.fold * self.plan.band * self.plan.grid()[1]
    }

    fn product<T: GemmFloat>(&self) -> OpenProduct {
        let shape = Gemm::new(RUN, GROUP, self.positions());
        OpenProduct::new::<T>(shape.with_strides(Strides { row: 1, col: RUN }, Strides { row: GROUP, col: 1 }))
    }

    /// Elements of a strip of an image.
    fn strip(&self) -> usize {
        self.plan.rows * self.plan.cols * self.channels
    }

    /// Elements of [windows, dy, strips, sums, their transposes].
    fn sizes(&self) -> [usize; 5] {
        let p = &self.plan;
        let sums = p.kernel[0] * p.kernel[1] * self.channels * GROUP;
        let all = [RUN * self.positions(), GROUP * self.positions(), self.fold * self.strip(), sums, transposed_len(p)];
        all.map(|len| len.next_multiple_of(16))
    }
}

/// Elements of scratch of a thread.
pub(in super::super) fn lanes_weight_scratch(g: &ConvGeom) -> usize {
    let b = Blocks::new(g);
    b.sizes().iter().sum::<usize>() + b.product::<f32>().scratch::<f32>().max(b.product::<f64>().scratch::<f64>())
}

/// Computes the gradient of output channels `channels` into `dw`.
pub(in super::super) fn lanes_weight_grad<T: GemmFloat>(
    g: &ConvGeom,
    (x, dy): (&[T], &[T]),
    channels: Range<usize>,
    dw: &mut [T],
    scratch: &mut [T],
) {
    let b = Blocks::new(g);
    let (each, outs, taps) = (g.c_in / g.groups, g.c_out / g.groups, g.taps());
    let [windows, fields, strips, sums, work] = b.sizes();
    let (windows, scratch) = scratch.split_at_mut(windows);
    let (fields, scratch) = scratch.split_at_mut(fields);
    let (strips, scratch) = scratch.split_at_mut(strips);
    let (sums, scratch) = scratch.split_at_mut(sums);
    let (work, scratch) = scratch.split_at_mut(work);
    let (first, next) = (b.product::<T>(), b.product::<T>().accumulating());
    let mut m = channels.start;
    while m < channels.end {
        let group = m / outs;
        let count = GROUP.min(channels.end - m).min((group + 1) * outs - m);
        let dw = &mut dw[(m - channels.start) * taps..][..count * taps];
        for c in (0..each).step_by(b.channels) {
            let p = LanesPlan { src_c: b.channels.min(each - c), ..b.plan };
            strips.fill(T::ZERO);
            let mut product = &first;
            for image in (0..g.n).step_by(b.fold) {
                let images = image..g.n.min(image + b.fold);
                for row in (0..p.dst[0]).step_by(p.band) {
                    let rows = row..p.dst[0].min(row + p.band);
                    for (image, strip) in images.clone().zip(strips.chunks_exact_mut(b.strip())) {
                        let plane = (image * g.c_in + group * each + c) * g.windows.size[0] * g.windows.size[1];
                        load_pixels(&p, &x[plane..], row, strip);
                    }
                    load_dy(g, dy, images.clone(), (m, count), &rows, fields);
                    let strips = Strips { all: strips, len: b.strip(), images: images.len(), rows: rows.len() };
                    add_windows(&p, strips, fields, count, product, windows, sums, scratch);
                    product = &next;
                }
            }
            unpack_sums(&p, sums, count, work, &mut dw[c * g.window()..], taps);
        }
        m += count;
    }
}

/// Copies rows `rows` of `count` channels of dy from `m` on, for each of the images: a row of channels for each
/// position.
fn load_dy<T: GemmFloat>(
    g: &ConvGeom,
    dy: &[T],
    images: Range<usize>,
    (m, count): (usize, usize),
    rows: &Range<usize>,
    to: &mut [T],
) {
    let (area, cols) = (g.windows.out()[0] * g.windows.out()[1], g.windows.out()[1]);
    let len = rows.len() * cols;
    for (image, to) in images.zip(to.chunks_exact_mut(len * GROUP)) {
        let from = &dy[(image * g.c_out + m) * area + rows.start * cols..];
        transpose(from, area, to, GROUP, len, count);
    }
}

/// The strips of some images.
#[derive(Clone, Copy)]
struct Strips<'a, T> {
    all: &'a [T],
    /// Elements of a strip.
    len: usize,
    images: usize,
    /// Rows of positions.
    rows: usize,
}

/// Adds the products of the windows of a block and dy to the sums of `count` channels.
fn add_windows<T: GemmFloat>(
    p: &LanesPlan,
    strips: Strips<'_, T>,
    dy: &[T],
    count: usize,
    product: &OpenProduct,
    windows: &mut [T],
    sums: &mut [T],
    scratch: &mut [T],
) {
    let mut sums = sums;
    let cols = p.grid()[1];
    let k = strips.images * strips.rows * cols;
    p.each_run([0, 0], |down, across, taps| {
        let all = taps.count * p.src_c;
        for at in (0..all).step_by(RUN) {
            let len = RUN.min(all - at);
            let mut to = windows.as_chunks_mut::<RUN>().0.iter_mut();
            for image in 0..strips.images {
                for row in 0..strips.rows {
                    let from = image * strips.len + ((row * p.stride[0] + down) * p.cols + across) * p.src_c + at;
                    copy_runs(&strips.all[from..], p.stride[1] * p.src_c, len, to.by_ref().take(cols));
                }
            }
            let to = MatrixMut::new(&mut sums[at * GROUP..], len, GROUP).cut(0..len, 0..count);
            product.compute((windows, dy), k, to, scratch);
        }
        sums = &mut std::mem::take(&mut sums)[all * GROUP..];
    });
}

/// Copies `len` numbers, from every `step`-th on, to each row.
fn copy_runs<'a, T: GemmFloat>(from: &[T], step: usize, len: usize, to: impl Iterator<Item = &'a mut [T; RUN]>) {
    for (i, to) in to.enumerate() {
        copy_lanes_run(&from[i * step..][..len], to);
    }
}

simd! {
    fn copy_lanes_run[T: GemmFloat](from: &[T], to: &mut [T; RUN]) {
        let (pieces, rest) = from.as_chunks::<16>();
        let (to_pieces, to_rest) = to.split_at_mut(pieces.len() * 16);
        for (to, from) in to_pieces.as_chunks_mut::<16>().0.iter_mut().zip(pieces) {
            *to = *from;
        }
        to_rest.iter_mut().zip(rest).for_each(|(to, v)| *to = *v);
    }
}

/// Writes the sums of `count` channels, a row for each (tap, source channel) in the order of the runs, as rows of
/// (source channel, tap), `step` apart.
fn unpack_sums<T: GemmFloat>(p: &LanesPlan, sums: &[T], count: usize, work: &mut [T], dw: &mut [T], step: usize) {
    let window = p.kernel[0] * p.kernel[1];
    for c in (0..p.src_c).step_by(SOME) {
        let some = SOME.min(p.src_c - c);
        let mut at = 0;
        p.each_run([0, 0], |_, _, taps| {
            for t in 0..taps.count {
                let from = sums[at + (t * p.src_c + c) * GROUP..][..some * GROUP].as_chunks::<GROUP>().0;
                let to = work.as_chunks_mut::<GROUP>().0[taps.at(t)..].iter_mut().step_by(window);
                from.iter().zip(to).for_each(|(from, to)| *to = *from);
            }
            at += taps.count * p.src_c * GROUP;
        });
        transpose(work, GROUP, &mut dw[c * window..], step, count, some * window);
    }
}
