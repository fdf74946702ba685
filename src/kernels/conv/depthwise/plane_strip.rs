//! The strip of a plane: what a depthwise correlation reads, and where.

use super::super::geom::ConvGeom;
use super::super::strip::copy_rows;
use crate::float::Float;
use crate::simd;
use std::ops::Range;

/// Lanes that rows are rounded up to.
pub(super) const LANES: usize = 16;
/// Elements of a strip, about.
const STRIP: usize = 1 << 14;
/// Multiply-adds of a unit, at least.
const UNIT: usize = 1 << 15;

/// Whether every channel is convolved by itself.
pub(in super::super) fn is_depthwise(g: &ConvGeom) -> bool {
    g.groups == g.c_in && g.groups == g.c_out && g.groups > 1
}

/// A correlation of single planes. Position `p` of an axis of a sub-grid reads pixel `p · phase + shift` of the source.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct PlanePlan {
    /// Planes of all images, and planes of an image.
    pub planes: usize,
    pub channels: usize,
    pub src: [usize; 2],
    pub dst: [usize; 2],
    pub kernel: [usize; 2],
    /// The source is split into `phase` planes, vertically and horizontally; the output has `step` sub-grids.
    pub phase: [usize; 2],
    pub step: [usize; 2],
    /// Rows of a sub-grid that are computed from one strip.
    pub band: usize,
    /// Zeros before the plane.
    pub lead: [usize; 2],
    /// Rows and row stride of a phase of the strip.
    pub rows: usize,
    pub pitch: usize,
    back: bool,
    stride: [usize; 2],
    dilation: [usize; 2],
    pad: [usize; 2],
}

impl PlanePlan {
    /// y from x, or with `back` dx from dy.
    pub fn new(g: &ConvGeom, back: bool) -> PlanePlan {
        let (x, y) = ([g.h, g.w], [g.out_h(), g.out_w()]);
        let mut p = PlanePlan {
            planes: g.n * g.groups,
            channels: g.groups,
            src: if back { y } else { x },
            dst: if back { x } else { y },
            kernel: [g.kh, g.kw],
            phase: if back { [1, 1] } else { g.stride },
            step: if back { g.stride } else { [1, 1] },
            band: 1,
            lead: [g.pad[0], g.pad[2]],
            rows: 0,
            pitch: 0,
            back,
            stride: g.stride,
            dilation: g.dilation,
            pad: [g.pad[0], g.pad[2]],
        };
        let grid = [0, 1].map(|a| p.dst[a].div_ceil(p.step[a]));
        let reach = [0, 1].map(|a| {
            let far = (p.kernel[a] - 1) * g.dilation[a];
            if !back {
                return far / g.stride[a];
            }
            p.lead[a] = far.saturating_sub(p.pad[a]).div_ceil(g.stride[a]);
            p.pad[a].div_ceil(g.stride[a]) + p.lead[a]
        });
        p.pitch = grid[1] + reach[1];
        let fit = (STRIP / p.pitch / p.phase[0] / p.phase[1]).saturating_sub(reach[0]);
        p.band = fit.next_multiple_of(8).clamp(8, grid[0].max(1).next_multiple_of(8));
        p.rows = p.band + reach[0];
        p
    }

    /// Rows and columns of sub-grid `sub`.
    pub fn sub_grid(&self, sub: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|a| self.dst[a].saturating_sub(sub[a]).div_ceil(self.step[a]))
    }

    /// Elements of a phase of the strip.
    fn one(&self) -> usize {
        self.rows * self.pitch
    }

    /// Elements of a strip, and of a tile behind its end.
    pub fn strip_len(&self) -> usize {
        self.one() * self.phase[0] * self.phase[1] + 8 * LANES
    }

    /// The offset of tap (i, j) in the strip for sub-grid `sub`, or `None` if it does not contribute.
    pub fn tap(&self, sub: [usize; 2], tap: [usize; 2]) -> Option<usize> {
        let mut at = [0; 2];
        let mut phase = [0; 2];
        for a in 0..2 {
            let far = tap[a] * self.dilation[a];
            if self.back {
                let from = (sub[a] + self.pad[a] + self.lead[a] * self.stride[a]).checked_sub(far)?;
                if !from.is_multiple_of(self.stride[a]) {
                    return None;
                }
                at[a] = from / self.stride[a];
            } else {
                (phase[a], at[a]) = (far % self.stride[a], far / self.stride[a]);
            }
        }
        Some((phase[0] * self.phase[1] + phase[1]) * self.one() + at[0] * self.pitch + at[1])
    }

    /// Elements of an output plane.
    pub fn area(&self) -> usize {
        self.dst[0] * self.dst[1]
    }

    /// Planes of a unit, and the number of units.
    pub fn units(&self) -> (usize, usize) {
        let work = self.area() * self.kernel[0] * self.kernel[1];
        let some = (UNIT / work.max(1)).max(1);
        (some, self.planes.div_ceil(some))
    }

    /// The planes of some units.
    pub fn planes_of(&self, units: &Range<usize>) -> Range<usize> {
        let (some, _) = self.units();
        units.start * some..self.planes.min(units.end * some)
    }

    /// Copies what rows `row..` of the sub-grids read into a cleared strip, row after row. Later copies overwrite all
    /// that earlier ones wrote.
    pub fn load<T: Float>(&self, plane: &[T], row: usize, strip: &mut [T]) {
        let (w, [ph, pw]) = (self.src[1], self.phase);
        if self.band < self.dst[0].div_ceil(self.step[0]) {
            for (p, strip) in strip.chunks_exact_mut(self.one()).take(ph * pw).enumerate() {
                let inside = self.inside(row, p / pw);
                strip[..inside.start * self.pitch].fill(T::ZERO);
                strip[inside.end * self.pitch..].fill(T::ZERO);
            }
        }
        if pw == 1 && ph == 1 {
            let inside = self.inside(row, 0);
            let width = w.min(self.pitch.saturating_sub(self.lead[1]));
            if !inside.is_empty() {
                let from = &plane[(row + inside.start - self.lead[0]) * w..];
                let to = &mut strip[inside.start * self.pitch + self.lead[1]..];
                copy_rows(from, w, to, self.pitch, width, inside.len());
            }
            return;
        }
        // Of a phase: columns before the image, the first column of the image, columns copied.
        let of = |q: usize| {
            let lead = self.lead[1].saturating_sub(q).div_ceil(pw);
            let skip = lead * pw + q - self.lead[1];
            [lead, skip, w.saturating_sub(skip).div_ceil(pw).min(self.pitch.saturating_sub(lead))]
        };
        let two = [of(0), of(1 % pw)];
        // Row `y` of the plane is row `i` of phase `p`.
        let first = (row * ph).saturating_sub(self.lead[0]);
        let at = first + self.lead[0] - row * ph;
        let (mut i, mut p) = (at / ph, at % ph);
        for from in plane[(first * w).min(plane.len())..].chunks_exact(w) {
            if i >= self.rows {
                break;
            }
            for q in 0..pw {
                let [lead, skip, width] = if q < 2 { two[q] } else { of(q) };
                let at = (p * pw + q) * self.one() + i * self.pitch + lead;
                match pw {
                    _ if width == 0 => {}
                    2 => pick_plane_row(&from[skip..], &mut strip[at..][..width]),
                    _ => {
                        let from = from[skip..].iter().step_by(pw);
                        strip[at..][..width].iter_mut().zip(from).for_each(|(to, v)| *to = *v);
                    }
                }
            }
            p += 1;
            if p == ph {
                (i, p) = (i + 1, 0);
            }
        }
    }

    /// The rows of phase `p` of the strip that are rows of the plane.
    fn inside(&self, row: usize, p: usize) -> Range<usize> {
        let (at, ph) = (row * self.phase[0] + p, self.phase[0]);
        let lo = self.lead[0].saturating_sub(at).div_ceil(ph).min(self.rows);
        let hi = (self.src[0] + self.lead[0]).saturating_sub(at).div_ceil(ph).clamp(lo, self.rows);
        lo..hi
    }
}

/// Every second element of a run.
#[inline(always)]
fn pick<T: Float>(from: &[T]) -> [T; 16] {
    let from = &from[..31];
    let (mut low, mut high) = ([T::ZERO; 16], [T::ZERO; 16]);
    low.copy_from_slice(&from[..16]);
    high.copy_from_slice(&from[15..]);
    let mut all = low;
    for i in 0..16 {
        all[i] = if i < 8 { low[2 * i] } else { high[2 * i - 15] };
    }
    all
}

simd! {
    /// Copies every second element of a row.
    fn pick_plane_row[T: Float](from: &[T], to: &mut [T]) {
        let width = to.len();
        if width < 16 {
            to.iter_mut().zip(from.iter().step_by(2)).for_each(|(to, v)| *to = *v);
            return;
        }
        let mut q = 0;
        while q < width - 16 {
            to[q..][..16].copy_from_slice(&pick(&from[2 * q..]));
            q += 16;
        }
        to[width - 16..].copy_from_slice(&pick(&from[2 * (width - 16)..]));
    }
}
