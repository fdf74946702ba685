//! The plan of a convolution. One description, [`ConvPlan`], serves the forward pass, the input gradient (a correlation
//! of dy whose output is split into `stride` interleaved sub-grids) and the weight gradient.
//!
//! The source image is copied once into a *strip*: for each channel, zero-padded planes (one for each stride phase), in
//! which every tap of a window is at a constant offset from the output's position. So a product needs no im2col: row k
//! of its right operand is the strip at `offset(k)`. For small images, where padding would waste too much, rows are
//! first copied into columns without padding.
//!
//! Invariant: every number follows from the geometry alone, so the bits of the results do, too. Used by the files of
//! the folder only.

use super::geom::ConvGeom;
use super::outer_sweep::BLOCK;
use crate::abi::Split;
use crate::window::WindowGeometry;

/// Elements behind a strip that a tile may read and discard.
pub(super) const SLACK: usize = 128;
/// Maximal elements of a strip and of a chunk of packed weights: each about half of a 2 MiB second-level cache in f32.
const STRIP: usize = 1 << 18;
/// Positions of a strip for dot products: eight rows of them fit the first-level cache.
const DOTS: usize = 1024;
/// Positions of a pass with output channels in the lanes: their values of dy stay in cache.
const FIELD: usize = 512;
/// Images side by side if images are in the lanes.
pub(super) const IMAGES: usize = 16;
/// Lanes that sizes are rounded up to.
pub(super) const LANES: usize = 16;

/// A correlation of `src` planes with a kernel, giving `dst` planes. Channel counts are per group.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvPlan {
    pub n: usize,
    pub groups: usize,
    pub src_c: usize,
    pub src: [usize; 2],
    pub dst_c: usize,
    pub dst: [usize; 2],
    pub kernel: [usize; 2],
    dilation: [usize; 2],
    stride: [usize; 2],
    pad: [usize; 2],
    back: bool,
    /// Source row `r` is row `(r + lead) / phase` of plane `(r + lead) % phase`; the same for columns.
    pub lead: [usize; 2],
    pub phase: [usize; 2],
    /// The output is `step` interleaved sub-grids of at most `grid` positions, vertical and horizontal.
    pub step: [usize; 2],
    pub grid: [usize; 2],
    /// Largest shift of a tap.
    pub reach: [usize; 2],
    /// Row stride of a strip.
    pub pitch: usize,
    /// Rows of a sub-grid that are computed from one strip.
    pub band: usize,
    /// Images whose columns are adjacent in one product.
    pub fold: usize,
    /// Whether the lanes are [`IMAGES`] images (see `image_lanes`) instead of columns.
    pub images: bool,
    /// Whether columns are packed before the product.
    pub packed: bool,
    /// Whether the weight gradient has output channels in its lanes (see `outer`) instead of positions.
    pub outer: bool,
    /// Output channels whose weights are packed together.
    pub chunk: usize,
    /// Output channels of a unit, over all groups. If it is all of them, a unit is `fold` images.
    pub block: usize,
    /// Weight index = `m * w_dst + c * w_src + tap` for output channel m and source channel c of a group.
    pub w_dst: usize,
    pub w_src: usize,
}

/// The largest divisor of `n` up to `cap`; multiples of 8 are preferred.
pub(super) fn largest_divisor(n: usize, cap: usize) -> usize {
    let all = |step: usize| (1..=cap / step).rev().map(move |d| d * step).find(|d| n.is_multiple_of(*d));
    all(8).or_else(|| all(1)).unwrap_or(1)
}

impl ConvPlan {
    /// y from x.
    pub fn forward(g: &ConvGeom) -> ConvPlan {
        let mut c = ConvPlan::of(g);
        c.pick();
        c
    }

    /// dx from dy.
    pub fn backward(g: &ConvGeom) -> ConvPlan {
        let (mut c, WindowGeometry { stride, dilation, .. }) = (ConvPlan::of(g), g.windows);
        std::mem::swap(&mut c.src_c, &mut c.dst_c);
        std::mem::swap(&mut c.src, &mut c.dst);
        std::mem::swap(&mut c.w_dst, &mut c.w_src);
        c.back = true;
        c.phase = [1, 1];
        c.step = stride;
        for a in 0..2 {
            c.lead[a] = (dilation[a] * (c.kernel[a] - 1)).saturating_sub(c.pad[a]).div_ceil(stride[a]);
            c.grid[a] = c.dst[a].div_ceil(stride[a]);
            c.reach[a] = c.pad[a].div_ceil(stride[a]) + c.lead[a];
        }
        c.pick();
        c
    }

    /// The forward layout, with strips for dot products along positions. A strip holds `src_c` channels at a time out
    /// of `c_in / groups`.
    pub fn weight(g: &ConvGeom) -> ConvPlan {
        let mut c = ConvPlan::of(g);
        c.lay();
        let [rows, cols] = c.grid;
        let (wide, area, window) = (cols.next_multiple_of(LANES), rows * cols, g.window());
        let across = c.dst_c.next_multiple_of(BLOCK) * area;
        c.outer = g.windows.stride[1] == 1 && g.windows.dilation[1] == 1 && across <= c.dst_c * rows * wide;
        if c.outer {
            c.fold = (FIELD / area.max(1)).clamp(1, g.n.max(1));
            c.band = (FIELD / cols.max(1)).clamp(1, rows.max(1));
            let planes = c.phase[0] * c.phase[1] * c.plane() * c.fold;
            c.src_c = (STRIP / planes.max(1)).clamp(1, c.src_c);
            return c;
        }
        // Cost in 1/64 cycle for one (channel, tap) pair: products, and copies shared by all channels.
        let by_rows = 2 * rows * wide;
        let by_cols = 2 * area + rows * (128 + 8 * cols) / c.dst_c;
        c.packed = by_cols < by_rows && area <= DOTS;
        let one = if c.packed { area } else { rows * wide };
        c.fold = (DOTS / one).clamp(1, g.n.max(1));
        c.band = if c.packed || one <= DOTS { rows } else { (DOTS / wide).clamp(1, rows) };
        let planes = c.phase[0] * c.phase[1] * c.plane();
        let room = if c.packed { planes.max(window * c.columns()) } else { planes * c.fold };
        c.src_c = (STRIP / room).clamp(1, c.src_c);
        c
    }

    fn of(g: &ConvGeom) -> ConvPlan {
        let WindowGeometry { size: src, kernel, stride, pad, dilation } = g.windows;
        let (dst, before) = (g.windows.out(), pad.map(|[before, _]| before));
        ConvPlan {
            n: g.n,
            groups: g.groups,
            src_c: g.c_in / g.groups,
            src,
            dst_c: g.c_out / g.groups,
            dst,
            kernel,
            dilation,
            stride,
            pad: before,
            back: false,
            lead: before,
            phase: stride,
            step: [1, 1],
            grid: dst,
            reach: [0, 1].map(|a| (kernel[a] - 1) * dilation[a] / stride[a]),
            pitch: 0,
            band: 0,
            fold: 1,
            images: false,
            packed: false,
            outer: false,
            chunk: 0,
            block: g.c_out,
            w_dst: g.taps(),
            w_src: g.window(),
        }
    }

    /// Sets the pitch, and a band as tall as the grid.
    fn lay(&mut self) {
        let need = self.grid[1] + self.reach[1];
        // Without phases, the zeros right of a row also serve as those left of the next.
        self.pitch = need;
        if self.phase[1] == 1 {
            let lead = self.lead[1];
            self.pitch = (need - lead).max(lead + self.src[1].min(need - lead)).max(self.grid[1]);
        }
        self.band = self.grid[0];
    }

    /// Chooses the blocking of a product.
    fn pick(&mut self) {
        self.lay();
        let (taps, [rows, cols]) = (self.taps(), self.grid);
        let all = self.groups * self.dst_c;
        self.block = if self.n >= 8 { all } else { largest_divisor(all, 32) };
        let area = rows * cols;
        if self.n >= 8 && area < LANES {
            self.fold = (2 * LANES).div_ceil(area).min(self.n);
        }
        // Cost in 1/64 cycle for one image and group: products, and copies of rows.
        let by_pitch = self.dst_c * self.strip_cost(taps, rows);
        let by_cols = 2 * taps * self.dst_c * (self.fold * area).next_multiple_of(LANES) / self.fold
            + taps * self.copy_cost(rows);
        self.packed = self.fold > 1 || (self.pitch != cols && by_cols < by_pitch);
        if self.by_images().is_some_and(|cost| cost < if self.packed { by_cols } else { by_pitch }) {
            (self.images, self.packed, self.fold) = (true, false, IMAGES);
        }
        let row = self.planes() * self.pitch;
        let mut band = (STRIP / row).saturating_sub(self.reach[0]);
        if self.packed {
            band = band.min(STRIP / (taps * cols * self.fold));
        }
        self.band = if self.images { rows } else { band.max(4).min(rows) };
        self.chunk = (STRIP / taps / 8 * 8).clamp(8, self.dst_c.next_multiple_of(8)).min(self.dst_c);
    }

    /// Cost in 1/64 cycle of copies of `rows` rows.
    fn copy_cost(&self, rows: usize) -> usize {
        rows * (128 + 8 * self.grid[1])
    }

    /// Cost in 1/64 cycle of one channel's `rows` rows as one line at the strip's pitch, which are then copied.
    pub fn pitch_cost(&self, taps: usize, rows: usize) -> usize {
        2 * taps * (rows * self.pitch).next_multiple_of(LANES) + self.copy_cost(rows)
    }

    /// Cost in 1/64 cycle of one channel's `rows` rows, each in tiles of `tile` positions.
    pub fn lines_cost(&self, taps: usize, rows: usize, tile: usize) -> usize {
        2 * taps * rows * self.grid[1].next_multiple_of(tile)
    }

    /// The less of [`ConvPlan::pitch_cost`] and [`ConvPlan::lines_cost`], the latter in tiles of the widest vectors. An
    /// output in sub-grids is copied either way.
    fn strip_cost(&self, taps: usize, rows: usize) -> usize {
        let by_pitch = self.pitch_cost(taps, rows);
        if self.step == [1, 1] { by_pitch.min(self.lines_cost(taps, rows, 2 * LANES)) } else { by_pitch }
    }

    /// Cost in 1/64 cycle for one image and group with images in the lanes: products of pixels (of padding only if the
    /// source is split into phases), and copies. `None` if a strip is too large, or if there are too few units, which
    /// are [`IMAGES`] images each.
    fn by_images(&self) -> Option<usize> {
        if self.n < 4 * IMAGES || self.planes() * self.plane() * IMAGES > STRIP {
            return None;
        }
        // Positions that see a pixel, summed over the taps of an axis.
        let met = |a: usize| -> usize {
            let of = |sub: usize, k: usize| {
                let Some((_, shift)) = self.tap(a, sub, k) else { return 0 };
                let grid = self.dst[a].saturating_sub(sub).div_ceil(self.step[a]);
                let end = (self.lead[a] + self.src[a]).saturating_sub(shift).min(grid);
                if self.phase[a] == 1 { end.saturating_sub(self.lead[a].saturating_sub(shift)) } else { grid }
            };
            (0..self.step[a]).flat_map(|sub| (0..self.kernel[a]).map(move |k| (sub, k))).map(|(s, k)| of(s, k)).sum()
        };
        let products = 2 * self.src_c * self.dst_c * met(0) * met(1);
        let copies = 64 * (self.src_c * self.src[0] * self.src[1] + self.dst_c * self.dst[0] * self.dst[1]);
        Some((products + copies) * self.n.next_multiple_of(IMAGES) / self.n)
    }

    /// Whether it is the input gradient.
    pub fn is_back(&self) -> bool {
        self.back
    }

    /// Whether a group is one channel, with windows of this size, stride and dilation 1, and less padding before the
    /// image than a window is long.
    pub fn is_depthwise(&self, kernel: [usize; 2]) -> bool {
        let near = (0..2).all(|a| self.pad[a] < kernel[a]);
        let plain = (self.kernel, self.stride, self.dilation) == (kernel, [1, 1], [1, 1]);
        [self.src_c, self.dst_c] == [1, 1] && plain && near
    }

    /// Source channels times taps.
    pub fn taps(&self) -> usize {
        self.src_c * self.kernel[0] * self.kernel[1]
    }

    /// Number of (channel, tap) pairs that contribute to sub-grid `sub`.
    pub fn taps_of(&self, sub: [usize; 2]) -> usize {
        let meet = |a: usize| (0..self.kernel[a]).filter(|k| self.tap(a, sub[a], *k).is_some()).count();
        self.src_c * meet(0) * meet(1)
    }

    /// Planes of one image's strip.
    pub fn planes(&self) -> usize {
        self.src_c * self.phase[0] * self.phase[1]
    }

    /// Elements of a plane.
    pub fn plane(&self) -> usize {
        (self.band + self.reach[0]) * self.pitch
    }

    /// Elements of one image's strip.
    pub fn planes_len(&self) -> usize {
        self.planes() * self.plane()
    }

    /// Stride of packed columns: elements of a row of columns.
    pub fn columns(&self) -> usize {
        (self.fold * self.band * self.grid[1]).next_multiple_of(LANES)
    }

    /// (phase, shift) at which tap `k` of axis `a` reads for sub-grid `sub`; `None` if it does not contribute to that
    /// sub-grid.
    pub fn tap(&self, a: usize, sub: usize, k: usize) -> Option<(usize, usize)> {
        let at = k * self.dilation[a];
        if !self.back {
            return Some((at % self.stride[a], at / self.stride[a]));
        }
        let at = (sub + self.pad[a] + self.lead[a] * self.stride[a]).checked_sub(at)?;
        at.is_multiple_of(self.stride[a]).then_some((0, at / self.stride[a]))
    }

    /// Whether any tap reads phase `p` of axis `a`.
    pub fn reads_phase(&self, a: usize, p: usize) -> bool {
        self.phase[a] == 1 || (0..self.kernel[a]).any(|k| self.tap(a, 0, k).is_none_or(|t| t.0 == p))
    }

    /// Calls `f(source channel, tap of the kernel, offset in the strip)` in the order of the sums.
    pub fn each_tap(&self, sub: [usize; 2], mut f: impl FnMut(usize, usize, usize)) {
        for c in 0..self.src_c {
            for i in 0..self.kernel[0] {
                let Some((p, down)) = self.tap(0, sub[0], i) else { continue };
                for j in 0..self.kernel[1] {
                    let Some((q, across)) = self.tap(1, sub[1], j) else { continue };
                    let plane = (c * self.phase[0] + p) * self.phase[1] + q;
                    f(c, i * self.kernel[1] + j, plane * self.plane() + down * self.pitch + across);
                }
            }
        }
    }

    /// Rows and columns of sub-grid `sub`; 0 if the output is smaller than the step.
    pub fn sub_grid(&self, sub: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|a| self.dst[a].saturating_sub(sub[a]).div_ceil(self.step[a]))
    }

    /// The sub-grids of the output, in order.
    pub fn subs(&self) -> impl Iterator<Item = [usize; 2]> + use<> {
        let [rows, cols] = self.step;
        (0..rows * cols).map(move |s| [s / cols, s % cols])
    }

    /// How units divide the output, and their number.
    pub fn division(&self) -> (Split, usize) {
        let (count, per_unit) = self.units();
        (Split::PerUnit(per_unit), count)
    }

    /// (units, elements of the output in a unit) of the forward pass and of the input gradient.
    pub fn units(&self) -> (usize, usize) {
        let (area, all) = (self.dst[0] * self.dst[1], self.groups * self.dst_c);
        if self.block == all {
            (self.n.div_ceil(self.fold), self.fold * all * area)
        } else {
            (self.n * (all / self.block), self.block * area)
        }
    }
}

/// (image blocks, output channels of a unit) of the weight gradient. A block has enough positions to amortise
/// its sums over lanes, and there are enough units for many threads.
pub(super) fn weight_grad_blocks(g: &ConvGeom) -> (usize, usize) {
    let (enough, dst) = (if ConvPlan::weight(g).outer { 1024 } else { 3072 }, g.windows.out());
    let blocks = if g.w_len() <= 1 << 14 { (g.n * dst[0] * dst[1] / enough).clamp(1, g.n.clamp(1, 32)) } else { 1 };
    (blocks, if blocks >= 8 { g.c_out } else { largest_divisor(g.c_out, 16) })
}
