//! The weight gradient as a product whose sums run over the positions of all images.

use super::super::geom::ConvGeom;
use super::product_plan::{FAR_GRADIENT, WEIGHT_BLOCK, upright};
use super::windows::{each_row_part, load_windows};
use crate::abi::MatrixMut;
use crate::gemm::{Gemm, GemmFloat, OpenProduct, Strides, transpose};
use std::ops::Range;

/// The blocks of the weight gradient.
struct Blocks {
    /// Positions of a block.
    positions: usize,
    /// Source channels of a block.
    channels: usize,
    /// Output channels of a block.
    outs: usize,
    /// See [`upright`].
    upright: bool,
}

impl Blocks {
    fn new(g: &ConvGeom) -> Blocks {
        let positions = g.n * g.windows.out()[0] * g.windows.out()[1];
        Blocks {
            positions: WEIGHT_BLOCK.min(positions),
            channels: (WEIGHT_BLOCK / (g.window())).clamp(1, g.c_in / g.groups),
            outs: WEIGHT_BLOCK.min(g.c_out / g.groups),
            upright: upright(g),
        }
    }

    fn rows(&self, g: &ConvGeom) -> usize {
        self.channels * g.window()
    }

    fn product<T: GemmFloat>(&self, g: &ConvGeom) -> OpenProduct {
        let (rows, k) = (self.rows(g), self.positions);
        let of = |m, n, b| OpenProduct::new::<T>(Gemm::new(m, n, k).with_strides(Strides { row: k, col: 1 }, b));
        if self.upright {
            let product = of(self.outs, rows, Strides { row: 1, col: k });
            if g.w_len() * size_of::<T>() > FAR_GRADIENT { product.with_far_c() } else { product }
        } else {
            of(rows, self.outs, Strides { row: self.outs, col: 1 })
        }
    }

    /// Elements of [windows, dy, the product].
    fn sizes(&self, g: &ConvGeom) -> [usize; 3] {
        let rows = self.rows(g);
        let product = if self.upright { 0 } else { rows * self.outs };
        [rows * self.positions, self.outs * self.positions, product].map(|len| len.next_multiple_of(16))
    }
}

/// Elements of scratch of a thread.
pub(in super::super) fn weight_grad_scratch(g: &ConvGeom) -> usize {
    let b = Blocks::new(g);
    let product = b.product::<f32>(g).scratch::<f32>().max(b.product::<f64>(g).scratch::<f64>());
    b.sizes(g).iter().sum::<usize>() + product
}

/// Computes the gradient of output channels `channels` into `dw`.
pub(in super::super) fn weight_grad<T: GemmFloat>(
    g: &ConvGeom,
    (x, dy): (&[T], &[T]),
    channels: Range<usize>,
    dw: &mut [T],
    scratch: &mut [T],
) {
    let b = Blocks::new(g);
    let (each, outs, window, taps) = (g.c_in / g.groups, g.c_out / g.groups, g.window(), g.taps());
    let [windows, right, sums] = b.sizes(g);
    let (windows, scratch) = scratch.split_at_mut(windows);
    let (right, scratch) = scratch.split_at_mut(right);
    let (sums, scratch) = scratch.split_at_mut(sums);
    let first = b.product::<T>(g);
    let next = first.accumulating();
    let all = g.n * g.windows.out()[0] * g.windows.out()[1];
    let mut o = channels.start;
    while o < channels.end {
        let group = o / outs;
        let end = channels.end.min((group + 1) * outs).min(o + b.outs);
        let count = end - o;
        let dw = &mut dw[(o - channels.start) * taps..][..count * taps];
        for c in (0..each).step_by(b.channels) {
            let some = c..(c + b.channels).min(each);
            let (m, from) = (some.len() * window, c * window);
            for at in (0..all).step_by(b.positions) {
                let positions = at..(at + b.positions).min(all);
                let k = positions.len();
                load_windows(g, x, (0, group), some.clone(), positions.clone(), windows, b.positions);
                load_dy(g, dy, o..end, positions, right, &b);
                let product = if at == 0 { &first } else { &next };
                if b.upright {
                    let to = MatrixMut::new(dw, count, taps).cut(0..count, from..from + m);
                    product.compute((right, windows), k, to, scratch);
                } else {
                    product.compute((windows, right), k, MatrixMut::new(sums, m, count), scratch);
                }
            }
            if !b.upright {
                transpose(sums, count, &mut dw[from..], taps, count, m);
            }
        }
        o = end;
    }
}

/// Copies dy at `positions`: a row for each channel, or if the product is transposed, a row for each position.
fn load_dy<T: GemmFloat>(
    g: &ConvGeom,
    dy: &[T],
    channels: Range<usize>,
    positions: Range<usize>,
    to: &mut [T],
    b: &Blocks,
) {
    let area = g.windows.out()[0] * g.windows.out()[1];
    each_row_part([1, area], positions, |image, _, cols, at| {
        let from = &dy[(image * g.c_out + channels.start) * area + cols.start..];
        if b.upright {
            for (c, to) in to.chunks_exact_mut(b.positions).take(channels.len()).enumerate() {
                let to = &mut to[at..at + cols.len()];
                to.iter_mut().zip(&from[c * area..]).for_each(|(to, v)| *to = *v);
            }
        } else {
            transpose(from, area, &mut to[at * b.outs..], b.outs, cols.len(), channels.len());
        }
    });
}
