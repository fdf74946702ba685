//! Diagonals, windows, grids and pixels as methods, with torch's names and defaults. None of them is an op.

use crate::error::Kind;
use crate::nodes::build::axes::Axes;
use crate::nodes::build::sizes::size_to_i64;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;

/// The most elements of all windows along an axis: positions are i32.
const MOST_TAPS: usize = 1 << 28;

/// The number of elements on diagonal `offset` of `[rows, cols]`.
fn diagonal_len(rows: usize, cols: usize, offset: i64) -> usize {
    let beyond = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    match offset >= 0 {
        true => rows.min(cols.saturating_sub(beyond)),
        false => rows.saturating_sub(beyond).min(cols),
    }
}

impl<'g> Var<'g> {
    /// The elements `[i, i + offset]` of the plane of `axis1` and `axis2`, along a new last axis, as `torch.diagonal`:
    /// offset 0 is the main diagonal, 1 the one above it. A diagonal outside of the plane is empty.
    #[track_caller]
    pub fn diagonal(self, offset: i64, axis1: i64, axis2: i64) -> Var<'g> {
        let Some(axes) = self.axes_at("diagonal", [axis1, axis2]) else { return self.none() };
        self.g.with_caller(|| {
            let d = self.dims();
            let rest: Vec<usize> = (0..d.len()).filter(|a| !axes.contains(a)).collect();
            let (rows, cols) = (d[axes[0]], d[axes[1]]);
            let mut lead: Vec<usize> = rest.iter().map(|&a| d[a]).collect();
            let perm = [&rest[..], &axes].concat();
            let x = if perm.is_sorted() { self } else { self.permute(&perm) };
            let flat = x.reshape([lead.iter().product(), rows * cols]);
            let len = diagonal_len(rows, cols, offset);
            // An offset far outside of the plane has no first element.
            let first = |beyond: usize| if offset >= 0 { beyond } else { beyond * cols };
            let start = if len == 0 { 0 } else { first(offset.unsigned_abs() as usize) };
            let limit = if len == 0 { 0 } else { start + (len - 1) * (cols + 1) + 1 };
            let picked = flat.slice(&[0, start], &[flat.dims()[0], limit], &[1, cols + 1]);
            lead.push(len);
            picked.reshape(lead)
        })
    }

    /// Zeros with the elements of the last axis on diagonal `offset` of the plane of `axis1` and `axis2` of the result,
    /// as `torch.diag_embed`: the transpose of [`Var::diagonal`]. The plane is square, of n + |offset| elements a side.
    #[track_caller]
    pub fn diag_embed(self, offset: i64, axis1: i64, axis2: i64) -> Var<'g> {
        let Some(last) = self.axis_at("diag_embed", -1) else { return self.none() };
        let rank = self.rank() + 1;
        match [axis1, axis2].resolve(rank) {
            Err(bad) => return self.refuse("diag_embed", format!("axis {bad} is outside rank {rank} of the result")),
            Ok(at) if at[0] == at[1] => return self.refuse("diag_embed", format!("axis {} is named twice", at[0])),
            Ok(_) => {}
        }
        self.g.with_caller(|| {
            let (d, beyond) = (self.dims(), usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX));
            let side = d[last].saturating_add(beyond);
            let Some(area) = side.checked_mul(side) else {
                return self.refuse("diag_embed", format!("the plane of diagonal {offset} is too large"));
            };
            let (lead, n): (usize, usize) = (d[..last].iter().product(), d[last]);
            let first = if offset >= 0 { beyond } else { beyond * side };
            // Each element and the side zeros up to the next one on the diagonal; then to the length of the plane.
            let rows = self.reshape([lead, n, 1]).pad(&[0; 3], &[0, 0, side], 0.0).reshape([lead, n * (side + 1)]);
            let used = rows.narrow(1, 0, (n * (side + 1)).min(area - first.min(area)));
            let high = (area - first.min(area)).saturating_sub(n * (side + 1));
            let flat = used.pad(&[0, first.min(area)], &[0, high], 0.0);
            let plane = flat.reshape([&d[..last], &[side, side]].concat());
            plane.movedim(&[-2, -1], &[axis1, axis2])
        })
    }

    /// The sum of diagonal `offset` of the plane of `axis1` and `axis2`, which disappear. The type is `f32`, `f64`,
    /// `i32` or `i64`.
    #[track_caller]
    pub fn trace(self, offset: i64, axis1: i64, axis2: i64) -> Var<'g> {
        let Some(_) = self.axes_at("trace", [axis1, axis2]) else { return self.none() };
        self.g.with_caller(|| self.diagonal(offset, axis1, axis2).sum(-1))
    }

    /// aᵢ·bⱼ of two vectors, `[n, m]`, as `torch.outer`.
    #[track_caller]
    pub fn outer(self, b: Var<'g>) -> Var<'g> {
        if !self.g.owns("outer", &[b]) || !self.is_some() || !b.is_some() {
            return self.none();
        }
        if self.rank() != 1 || b.rank() != 1 {
            return self.refuse("outer", format!("shapes {} and {}; two vectors are needed", self.dims(), b.dims()));
        }
        self.g.with_caller(|| self.reshape([self.numel(), 1]) * b.reshape([1, b.numel()]))
    }

    /// All windows of `size` elements along `axis`, `step` apart, as `torch.Tensor.unfold`: `axis` counts the windows,
    /// and a new last axis has the elements of each. Elements after the last whole window are left out.
    #[track_caller]
    pub fn sliding_window(self, axis: i64, size: usize, step: usize) -> Var<'g> {
        let Some(at) = self.axis_at("sliding_window", axis) else { return self.none() };
        let n = self.dims()[at];
        if size == 0 || step == 0 || size > n {
            let why =
                format!("windows of {size}, {step} apart, along an axis of {n}: size is in 1..={n}, step above 0");
            return self.refuse("sliding_window", why);
        }
        let count = (n - size) / step + 1;
        if count.checked_mul(size).is_none_or(|taps| taps > MOST_TAPS) || n > MOST_TAPS {
            let why =
                format!("{count} windows of {size} along an axis of {n}; at most {MOST_TAPS} elements are allowed");
            return self.refuse("sliding_window", why);
        }
        self.g.with_caller(|| {
            let taps = (0..count).flat_map(|w| (0..size).map(move |k| (w * step + k) as i32));
            let bytes: Vec<u8> = taps.flat_map(i32::to_le_bytes).collect();
            let at = size_to_i64(at);
            let windows = self.gather(self.g.constant_bytes(&bytes, [count, size], DType::I32), at);
            windows.movedim(&[at + 1], &[-1])
        })
    }

    /// `[.., C·r², H, W]` as `[.., C, H·r, W·r]`: channel c·r² + i·r + j becomes the pixels (i, j) of each r × r block,
    /// as `torch.nn.PixelShuffle`. Source: Shi et al., "Real-time single image and video super-resolution".
    #[track_caller]
    pub fn pixel_shuffle(self, r: usize) -> Var<'g> {
        let d = self.dims();
        if !self.is_some() {
            return self;
        }
        let &[ref lead @ .., c, h, w] = &d[..] else {
            return self.refuse("pixel_shuffle", "rank 3 or more is needed");
        };
        if r == 0 || !r.checked_mul(r).is_some_and(|area| c.is_multiple_of(area)) {
            return self.refuse("pixel_shuffle", format!("r = {r}: its square must divide the {c} channels"));
        }
        if h.checked_mul(r).is_none() || w.checked_mul(r).is_none() {
            return self.refuse("pixel_shuffle", format!("r = {r}: the image is too large"));
        }
        self.g.with_caller(|| {
            let (n, c) = (lead.iter().product(), c / (r * r));
            let blocks = self.reshape([n, c, r, r, h, w]).permute(&[0, 1, 4, 2, 5, 3]);
            blocks.reshape([lead, &[c, h * r, w * r]].concat())
        })
    }

    /// `[.., C, H·r, W·r]` as `[.., C·r², H, W]`: the inverse of [`Var::pixel_shuffle`], as `torch.nn.PixelUnshuffle`.
    #[track_caller]
    pub fn pixel_unshuffle(self, r: usize) -> Var<'g> {
        let d = self.dims();
        if !self.is_some() {
            return self;
        }
        let &[ref lead @ .., c, h, w] = &d[..] else {
            return self.refuse("pixel_unshuffle", "rank 3 or more is needed");
        };
        if r == 0 || !h.is_multiple_of(r) || !w.is_multiple_of(r) {
            return self.refuse("pixel_unshuffle", format!("r = {r} does not divide the last axes, {h} and {w}"));
        }
        if r.checked_mul(r).is_none_or(|area| c.checked_mul(area).is_none()) {
            return self.refuse("pixel_unshuffle", format!("r = {r}: the channels are too many"));
        }
        self.g.with_caller(|| {
            let (n, h, w) = (lead.iter().product(), h / r, w / r);
            let blocks = self.reshape([n, c, h, r, w, r]).permute(&[0, 1, 3, 5, 2, 4]);
            blocks.reshape([lead, &[c * r * r, h, w]].concat())
        })
    }
}

impl Builder {
    /// Each of these vectors repeated over the grid that they span, as `torch.meshgrid` with `indexing="ij"`: vector i
    /// runs along axis i, and all results have shape `[n₀, n₁, …]`.
    #[track_caller]
    pub fn meshgrid<'g>(&'g self, xs: &[Var<'g>]) -> Vec<Var<'g>> {
        self.with_caller(|| {
            let none = vec![self.var(crate::arena::Value::NONE); xs.len()];
            if !self.owns("meshgrid", xs) || xs.iter().any(|x| !x.is_some()) {
                return none;
            }
            if let Some((i, x)) = xs.iter().enumerate().find(|(_, x)| x.rank() != 1) {
                self.fail(Kind::Shape, format!("meshgrid: operand {i} has shape {}; vectors are needed", x.dims()));
                return none;
            }
            let grid: Vec<usize> = xs.iter().map(|x| x.numel()).collect();
            let along = |(i, x): (usize, &Var<'g>)| {
                let mut d = vec![1; grid.len()];
                d[i] = grid[i];
                x.reshape(d).broadcast(&grid)
            };
            xs.iter().enumerate().map(along).collect()
        })
    }
}
