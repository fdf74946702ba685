//! What a correlation with channels in the lanes reads and writes: the offsets of its taps, and the sizes of blocks.
//!
//! Position `p` of an axis of a sub-grid reads pixel `p · stride + shift` of the source for each tap. The input
//! gradient is a correlation of dy, whose output is `step` interleaved sub-grids.

use super::super::geom::ConvGeom;

/// Channels that are computed together.
pub(super) const GROUP: usize = 64;
/// Most numbers of a run that are summed in one visit of the sums: their weights stay in L1.
pub(super) const RUN: usize = 256;
/// Elements of a strip, about.
const STRIP: usize = 1 << 16;
/// Positions of the sums, about: they stay in L2.
const POSITIONS: usize = 1 << 10;

/// A correlation. Channel counts are per group.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct LanesPlan {
    pub groups: usize,
    pub src_c: usize,
    pub src: [usize; 2],
    pub dst_c: usize,
    pub dst: [usize; 2],
    pub kernel: [usize; 2],
    /// Pixels from position to position in the source.
    pub stride: [usize; 2],
    /// The output is `step` interleaved sub-grids.
    pub step: [usize; 2],
    /// Rows of a sub-grid that are computed from one strip.
    pub band: usize,
    /// Zeros before the image, and rows and columns of the strip.
    pub lead: [usize; 2],
    pub rows: usize,
    pub cols: usize,
    /// Weight index = `m · w_dst + c · w_src + tap` for output channel m and source channel c of a group.
    pub w_dst: usize,
    pub w_src: usize,
    pub back: bool,
    pub dilation: [usize; 2],
    pub pad: [usize; 2],
}

impl LanesPlan {
    /// y from x.
    pub fn forward(g: &ConvGeom) -> LanesPlan {
        LanesPlan::of(g, false)
    }

    /// dx from dy.
    pub fn backward(g: &ConvGeom) -> LanesPlan {
        LanesPlan::of(g, true)
    }

    fn of(g: &ConvGeom, back: bool) -> LanesPlan {
        let (x, y) = ([g.windows.size[0], g.windows.size[1]], [g.windows.out()[0], g.windows.out()[1]]);
        let (c_in, c_out) = (g.c_in / g.groups, g.c_out / g.groups);
        let ((src_c, src, w_src), (dst_c, dst, w_dst)) = match back {
            false => ((c_in, x, g.window()), (c_out, y, g.taps())),
            true => ((c_out, y, g.taps()), (c_in, x, g.window())),
        };
        let mut p = LanesPlan {
            groups: g.groups,
            src_c,
            src,
            dst_c,
            dst,
            kernel: [g.windows.kernel[0], g.windows.kernel[1]],
            stride: if back { [1, 1] } else { g.windows.stride },
            step: if back { g.windows.stride } else { [1, 1] },
            band: 1,
            lead: [0, 0],
            rows: 0,
            cols: 0,
            w_dst,
            w_src,
            back,
            dilation: g.windows.dilation,
            pad: [g.windows.pad[0][0], g.windows.pad[1][0]],
        };
        let ends = [0, 1].map(|a| p.shifts(a));
        p.lead = ends.map(|e| (-e.0).max(0) as usize);
        let grid = p.grid();
        p.cols = p.strip_len(1, grid[1], ends[1].1);
        let [across, row] = [grid[1] * p.step[0] * p.step[1], p.cols * src_c];
        let rows = (STRIP / row.max(1) / p.stride[0]).min(POSITIONS / across.max(1));
        p.with_band(rows.clamp(1, grid[0].max(1)))
    }

    /// The same plan with strips for `band` rows of positions.
    pub fn with_band(self, band: usize) -> LanesPlan {
        LanesPlan { band, rows: self.strip_len(0, band, self.shifts(0).1), ..self }
    }

    /// Whether a strip is of bounded size: one of very wide images is not.
    pub fn fits(&self) -> bool {
        self.rows * self.cols * self.src_c <= 1 << 20
    }

    /// Rows and columns of the largest sub-grid.
    pub fn grid(&self) -> [usize; 2] {
        [0, 1].map(|a| self.dst[a].div_ceil(self.step[a]))
    }

    /// Rows and columns of sub-grid `sub`.
    pub fn sub_grid(&self, sub: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|a| self.dst[a].saturating_sub(sub[a]).div_ceil(self.step[a]))
    }

    /// Elements of axis `a` of a strip, for `positions` positions and a largest shift.
    fn strip_len(&self, a: usize, positions: usize, most: isize) -> usize {
        let last = positions.max(1) - 1;
        (last * self.stride[a]).saturating_add_signed(most) + self.lead[a] + 1
    }

    /// The pixel that tap `k` of axis `a` reads for position 0 of sub-grid `sub`, or `None` if it does not contribute.
    pub fn shift(&self, a: usize, sub: usize, k: usize) -> Option<isize> {
        let at = (k * self.dilation[a]) as isize;
        if !self.back {
            return Some(at - self.pad[a] as isize);
        }
        let (at, step) = ((sub + self.pad[a]) as isize - at, self.step[a] as isize);
        (at % step == 0).then_some(at / step)
    }

    /// The least and the largest shift of an axis.
    fn shifts(&self, a: usize) -> (isize, isize) {
        let all = (0..self.step[a]).flat_map(|sub| (0..self.kernel[a]).filter_map(move |k| self.shift(a, sub, k)));
        all.fold((0, 0), |(lo, hi), s| (lo.min(s), hi.max(s)))
    }

    /// The sub-grids of the output.
    pub fn subs(&self) -> impl Iterator<Item = [usize; 2]> + use<> {
        let [rows, cols] = self.step;
        (0..rows * cols).map(move |s| [s / cols, s % cols])
    }

    /// Calls `f(row, column, taps)` for each run of sub-grid `sub`, which is adjacent pixels: those of position (0, 0)
    /// begin at (row, column) of the strip. `taps` gives the tap of each.
    pub fn each_run(&self, sub: [usize; 2], mut f: impl FnMut(usize, usize, Taps)) {
        let lead = |a: usize, shift: isize| (shift + self.lead[a] as isize) as usize;
        for i in 0..self.kernel[0] {
            let Some(down) = self.shift(0, sub[0], i) else { continue };
            let mut run: Option<(isize, Taps)> = None;
            for j in 0..self.kernel[1] {
                let j = if self.back { self.kernel[1] - 1 - j } else { j };
                let Some(across) = self.shift(1, sub[1], j) else { continue };
                let tap = i * self.kernel[1] + j;
                match &mut run {
                    Some((from, taps)) if *from + taps.count as isize == across => {
                        taps.by = tap as isize - taps.last();
                        taps.count += 1;
                    }
                    _ => {
                        if let Some((from, taps)) = run {
                            f(lead(0, down), lead(1, from), taps);
                        }
                        run = Some((across, Taps { first: tap, by: 0, count: 1 }));
                    }
                }
            }
            if let Some((from, taps)) = run {
                f(lead(0, down), lead(1, from), taps);
            }
        }
    }

    /// Elements of an output plane.
    pub fn area(&self) -> usize {
        self.dst[0] * self.dst[1]
    }
}

/// The taps of a run, equally far apart in the kernel.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Taps {
    first: usize,
    by: isize,
    pub count: usize,
}

impl Taps {
    fn last(self) -> isize {
        self.first as isize + self.by * (self.count as isize - 1)
    }

    /// Tap `t` of the run.
    pub fn at(self, t: usize) -> usize {
        self.first.wrapping_add_signed(self.by * t as isize)
    }
}
