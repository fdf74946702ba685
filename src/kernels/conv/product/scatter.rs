//! The sum of what taps add to pixels: the adjoint of the copy of windows.
//!
//! With strides, pixels are first added in planes of one phase each, in which the positions of a row are adjacent.
//!
//! Invariant: each pixel is the sum of its terms in the order of the taps.

use super::super::geom::ConvGeom;
use crate::float::Float;
use crate::simd;

/// The padded plane of a channel, split by the phase of rows and columns.
#[derive(Clone, Copy)]
pub(super) struct PhasePlanes {
    /// Rows and columns of one phase.
    rows: usize,
    cols: usize,
}

impl PhasePlanes {
    pub fn new(g: &ConvGeom) -> PhasePlanes {
        let of = |size: usize, lead: usize, out: usize, k: usize, s: usize, d: usize| {
            ((k - 1) * d / s + out).max((size + lead).div_ceil(s))
        };
        PhasePlanes {
            rows: of(
                g.windows.size[0],
                g.windows.pad[0][0],
                g.windows.out()[0],
                g.windows.kernel[0],
                g.windows.stride[0],
                g.windows.dilation[0],
            ),
            cols: of(
                g.windows.size[1],
                g.windows.pad[1][0],
                g.windows.out()[1],
                g.windows.kernel[1],
                g.windows.stride[1],
                g.windows.dilation[1],
            ),
        }
    }

    /// Elements of all phases of a channel.
    pub fn len(&self, g: &ConvGeom) -> usize {
        self.rows * self.cols * g.windows.stride[0] * g.windows.stride[1]
    }

    /// Writes the plane `dx` of a channel of an image: the sum of what its taps add. Tap `t` adds `terms[t * step ..]`.
    pub fn sum_taps<T: Float>(&self, g: &ConvGeom, terms: &[T], step: usize, planes: &mut [T], dx: &mut [T]) {
        let ([s0, s1], one) = (g.windows.stride, self.rows * self.cols);
        let planes = &mut planes[..self.len(g)];
        planes.fill(T::ZERO);
        let (rows, cols) = (g.windows.out()[0], g.windows.out()[1]);
        for tap in 0..g.window() {
            let (i, j) =
                (tap / g.windows.kernel[1] * g.windows.dilation[0], tap % g.windows.kernel[1] * g.windows.dilation[1]);
            let at = (i % s0 * s1 + j % s1) * one + i / s0 * self.cols + j / s1;
            let terms = &terms[tap * step..][..rows * cols];
            let to = &mut planes[at..];
            match cols {
                16.. => add_rows(Run::<16>, terms, cols, to, self.cols),
                8.. => add_rows(Run::<8>, terms, cols, to, self.cols),
                4.. => add_rows(Run::<4>, terms, cols, to, self.cols),
                _ => add_rows(Run::<1>, terms, cols, to, self.cols),
            }
        }
        for (row, to) in dx.chunks_exact_mut(g.windows.size[1]).enumerate() {
            let at = row + g.windows.pad[0][0];
            let line = (at % s0 * s1) * one + at / s0 * self.cols;
            for phase in 0..s1 {
                // The first pixel of the row whose column has this phase.
                let first = (phase + s1 - g.windows.pad[1][0] % s1) % s1;
                let from = &planes[line + phase * one + (first + g.windows.pad[1][0]) / s1..];
                if s1 == 1 {
                    to.iter_mut().zip(from).for_each(|(to, v)| *to = *v);
                } else {
                    to.iter_mut().skip(first).step_by(s1).zip(from).for_each(|(to, v)| *to = *v);
                }
            }
        }
    }
}

/// Runs of `L` elements.
struct Run<const L: usize>;

simd! {
    /// Adds rows of `cols` elements to rows that are `pitch` elements apart.
    fn add_rows[T: Float, const L: usize](_run: Run<L>, terms: &[T], cols: usize, to: &mut [T], pitch: usize) {
        for (terms, to) in terms.chunks_exact(cols).zip(to.chunks_mut(pitch)) {
            let to = &mut to[..cols];
            let (runs, rest) = terms.as_chunks::<L>();
            let (to_runs, to_rest) = to.as_chunks_mut::<L>();
            for (to, v) in to_runs.iter_mut().zip(runs) {
                for i in 0..L {
                    to[i] += v[i];
                }
            }
            for (to, v) in to_rest.iter_mut().zip(rest) {
                *to += *v;
            }
        }
    }
}
