//! The input gradient: the product of the transposed weights and dy is what each tap of a window adds to x.

use super::super::geom::ConvGeom;
use super::super::way::Share;
use super::product_plan::INPUT_ROWS;
use super::scatter::PhasePlanes;
use crate::abi::MatrixMut;
use crate::gemm::{Gemm, GemmFloat, OpenProduct, Strides};
use crate::simd::prefetch_l2;
use arenagrad_arena::tensor::LINE;
use std::ops::Range;

/// Rows of weights that are fetched ahead: they lie in pages of their own, which hardware does not foresee.
const AHEAD: usize = 8;

/// The blocks of the input gradient.
struct Blocks {
    /// Channels of x of a block.
    channels: usize,
    /// Columns of a product: positions of dy of the images side by side.
    columns: usize,
    /// Whether the product is the gradient itself.
    direct: bool,
    planes: PhasePlanes,
}

impl Blocks {
    fn new(g: &ConvGeom, share: Share) -> Blocks {
        Blocks {
            channels: (INPUT_ROWS / (g.window())).clamp(1, g.c_in / g.groups),
            columns: share.fold * g.windows.out()[0] * g.windows.out()[1],
            direct: g.windows_are_pixels() && share.fold == 1,
            planes: PhasePlanes::new(g),
        }
    }

    fn rows(&self, g: &ConvGeom) -> usize {
        self.channels * g.window()
    }

    fn product<T: GemmFloat>(&self, g: &ConvGeom) -> OpenProduct {
        let rows = self.rows(g);
        let shape = Gemm::new(rows, self.columns, g.c_out / g.groups);
        OpenProduct::new::<T>(shape.with_strides(Strides { row: 1, col: rows }, Strides { row: self.columns, col: 1 }))
    }

    /// Elements of [packed weights, dy, the product, planes].
    fn sizes(&self, g: &ConvGeom) -> [usize; 4] {
        let (rows, outs) = (self.rows(g), g.c_out / g.groups);
        let dy = if self.columns > g.windows.out()[0] * g.windows.out()[1] { outs * self.columns } else { 0 };
        let (terms, planes) = if self.direct { (0, 0) } else { (rows * self.columns, self.planes.len(g)) };
        [outs * rows, dy, terms, planes].map(|len| len.next_multiple_of(16))
    }
}

/// Elements of scratch of a thread.
pub(in super::super) fn input_grad_scratch(g: &ConvGeom, share: Share) -> usize {
    let b = Blocks::new(g, share);
    let product = b.product::<f32>(g).scratch::<f32>().max(b.product::<f64>(g).scratch::<f64>());
    b.sizes(g).iter().sum::<usize>() + product
}

/// Computes channels `channels` of x of images `images`: a row of `dx` for each image.
pub(in super::super) fn input_grad<T: GemmFloat>(
    g: &ConvGeom,
    share: Share,
    (dy, weight): (&[T], &[T]),
    (images, channels): (Range<usize>, Range<usize>),
    mut dx: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    let b = Blocks::new(g, share);
    let (area, pixels) = (g.windows.out()[0] * g.windows.out()[1], g.windows.size[0] * g.windows.size[1]);
    let (each, outs, window) = (g.c_in / g.groups, g.c_out / g.groups, g.window());
    let [left, right, terms, planes] = b.sizes(g);
    let (left, scratch) = scratch.split_at_mut(left);
    let (right, scratch) = scratch.split_at_mut(right);
    let (terms, scratch) = scratch.split_at_mut(terms);
    let (planes, scratch) = scratch.split_at_mut(planes);
    let pixels_alone = g.windows_are_pixels();
    let (product, step, mut joined) = (b.product::<T>(g), b.rows(g), None);
    for group in channels.start / each..channels.end.div_ceil(each) {
        let (lo, hi) = (channels.start.max(group * each), channels.end.min((group + 1) * each));
        for c in (lo..hi).step_by(b.channels) {
            let some = b.channels.min(hi - c);
            let m = some * window;
            let rows = weight[group * outs * g.taps() + (c - group * each) * window..].chunks(g.taps());
            for (row, to) in rows.zip(left.chunks_exact_mut(step)).take(outs) {
                let ahead = row.as_ptr().addr().wrapping_add(AHEAD * g.taps() * size_of::<T>());
                (0..m * size_of::<T>()).step_by(LINE).for_each(|at| prefetch_l2(ahead.wrapping_add(at)));
                to[..m].copy_from_slice(&row[..m]);
            }
            for image in images.clone().step_by(share.fold) {
                let count = share.fold.min(images.end - image);
                let from = &dy[(image * g.groups + group) * outs * area..];
                let b_of: &[T] = if share.fold > 1 {
                    if joined.replace((group, image)) != Some((group, image)) {
                        join_images(from, [g.c_out * area, area, outs], count, right, b.columns);
                    }
                    right
                } else {
                    from
                };
                let (at, row) = ((c - channels.start) * pixels, image - images.start);
                if b.direct {
                    let to = MatrixMut::new(&mut dx.row(row)[at..], m, area);
                    product.compute((left, b_of), outs, to, scratch);
                    continue;
                }
                let n = count * area;
                product.compute((left, b_of), outs, MatrixMut::new(terms, m, n), scratch);
                for i in 0..count {
                    for (k, dx) in dx.row(row + i)[at..].chunks_exact_mut(pixels).take(some).enumerate() {
                        let terms = &terms[k * window * n + i * area..];
                        if pixels_alone {
                            dx.copy_from_slice(&terms[..area]);
                        } else {
                            b.planes.sum_taps(g, terms, n, planes, dx);
                        }
                    }
                }
            }
        }
    }
}

/// Copies the planes of `count` images side by side: a row of `to` for each channel. The sizes are those of an image,
/// of a plane, and the number of channels.
fn join_images<T: GemmFloat>(from: &[T], [image, area, channels]: [usize; 3], count: usize, to: &mut [T], step: usize) {
    for (c, to) in to.chunks_exact_mut(step).take(channels).enumerate() {
        for (i, to) in to.chunks_exact_mut(area).take(count).enumerate() {
            let from = &from[i * image + c * area..][..area];
            to.iter_mut().zip(from).for_each(|(to, v)| *to = *v);
        }
    }
}
