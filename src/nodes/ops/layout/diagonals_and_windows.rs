//! Diagonals, triangles and windows as methods, with torch's names and defaults. None of them is an op.

use crate::error::Kind;
use crate::nodes::arguments::axes::Axes;
use crate::nodes::arguments::size_attrs::size_attr_to_i64;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;

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

/// The number of windows of `size` elements, `step` apart, along an axis of `n`; an error if there is none, or if they
/// have too many elements.
fn sliding_window_count(n: usize, size: usize, step: usize) -> Result<usize, String> {
    if size == 0 || step == 0 || size > n {
        return Err(format!("windows of {size}, {step} apart, along an axis of {n}: size is in 1..={n}, step above 0"));
    }
    let count = (n - size) / step + 1;
    if count.checked_mul(size).is_none_or(|taps| taps > MOST_TAPS) || n > MOST_TAPS {
        return Err(format!(
            "{count} windows of {size} along an axis of {n}; at most {MOST_TAPS} elements are allowed"
        ));
    }
    Ok(count)
}

impl<'g> Var<'g> {
    /// The elements `[i, i + offset]` of the plane of `axis1` and `axis2`, along a new last axis, as in
    /// `torch.diagonal`: offset 0 is the main diagonal, 1 the one above it. A diagonal outside of the plane is empty.
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
            let planes: usize = lead.iter().product();
            let flat = x.reshape([planes, rows * cols]);
            let len = diagonal_len(rows, cols, offset);
            // An offset far outside of the plane has no first element.
            let first = |beyond: usize| if offset >= 0 { beyond } else { beyond * cols };
            let start = if len == 0 { 0 } else { first(offset.unsigned_abs() as usize) };
            let limit = if len == 0 { 0 } else { start + (len - 1) * (cols + 1) + 1 };
            let picked = flat.slice(&[0, start], &[planes, limit], &[1, cols + 1]);
            lead.push(len);
            picked.reshape(lead)
        })
    }

    /// Zeros with the elements of the last axis on diagonal `offset` of the plane of `axis1` and `axis2` of the result,
    /// as in `torch.diag_embed`: the transpose of [`Var::diagonal`]. The plane is square, of n + |offset| elements a
    /// side.
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
            // Where the diagonal begins in the plane, at most at its end.
            let first = if offset >= 0 { beyond } else { beyond * side };
            // Each element and the side zeros up to the next one on the diagonal; then to the length of the plane.
            let rows = self.reshape([lead, n, 1]).pad(&[0; 3], &[0, 0, side], 0.0).reshape([lead, n * (side + 1)]);
            let used = rows.narrow(1, 0, (n * (side + 1)).min(area - first));
            let high = (area - first).saturating_sub(n * (side + 1));
            let flat = used.pad(&[0, first], &[0, high], 0.0);
            let plane = flat.reshape([&d[..last], &[side, side]].concat());
            plane.movedim(&[-2, -1], &[axis1, axis2])
        })
    }

    /// The sum of diagonal `offset` of the plane of `axis1` and `axis2`. Both axes are removed. The type is `f32`,
    /// `f64`, `i32` or `i64`.
    #[track_caller]
    pub fn trace(self, offset: i64, axis1: i64, axis2: i64) -> Var<'g> {
        let Some(_) = self.axes_at("trace", [axis1, axis2]) else { return self.none() };
        self.g.with_caller(|| self.diagonal(offset, axis1, axis2).sum(-1))
    }

    /// All windows of `size` elements along `axis`, `step` apart, as in `torch.Tensor.unfold`: `axis` counts the
    /// windows, and a new last axis has the elements of each. Elements after the last whole window are left out.
    #[track_caller]
    pub fn sliding_window(self, axis: i64, size: usize, step: usize) -> Var<'g> {
        let Some(at) = self.axis_at("sliding_window", axis) else { return self.none() };
        let count = match sliding_window_count(self.dims()[at], size, step) {
            Ok(count) => count,
            Err(why) => return self.refuse("sliding_window", why),
        };
        self.g.with_caller(|| {
            let taps = (0..count).flat_map(|w| (0..size).map(move |k| (w * step + k) as i32));
            let bytes: Vec<u8> = taps.flat_map(i32::to_le_bytes).collect();
            let at = size_attr_to_i64(at);
            let windows = self.gather(self.g.constant_bytes(&bytes, [count, size], DType::I32), at);
            windows.movedim(&[at + 1], &[-1])
        })
    }

    /// The lower triangle of the last two axes: elements above diagonal `k` become 0 (0 is the main diagonal, 1 the one
    /// above it). A rank below 2 is an error.
    #[track_caller]
    pub fn tril(self, k: i64) -> Var<'g> {
        self.triangle(Op::LE, k)
    }

    /// The elements whose column is `side` of their row + `k`: `LE` or `GE`.
    #[track_caller]
    fn triangle(self, side: Op, k: i64) -> Var<'g> {
        // All nodes get the caller's location.
        self.g.with_caller(|| {
            let name = if side == Op::LE { "tril" } else { "triu" };
            let (d, r) = (self.dims(), self.rank());
            if !self.is_some() || r < 2 {
                return match self.is_some() {
                    true => self.g.fail(Kind::Shape, format!("{name}({self:?}): rank 2 or more is needed")),
                    false => self,
                };
            }
            let position = |axis| self.g.iota(axis, [d[r - 2], d[r - 1]], DType::I64);
            // A diagonal beyond the corner is as good as any further one, and its number is exact.
            let k = k.clamp(-(d[r - 2] as i64) - 1, d[r - 1] as i64 + 1);
            let (row, col) = (position(0), position(1));
            let keep = col.pair(side, row + k as f64);
            keep.broadcast(d).select(self, self.full_like(0.0))
        })
    }

    /// The upper triangle of the last two axes: elements below diagonal `k` become 0 (0 is the main diagonal, 1 the one
    /// above it). A rank below 2 is an error.
    #[track_caller]
    pub fn triu(self, k: i64) -> Var<'g> {
        self.triangle(Op::GE, k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Builder;

    #[test]
    fn a_diagonal_ends_at_either_edge() {
        let lens = |rows: usize, cols: usize| [-4, -3, -1, 0, 1, 3, 4].map(|offset| diagonal_len(rows, cols, offset));
        assert_eq!(lens(3, 3), [0, 0, 2, 3, 2, 0, 0]);
        assert_eq!(lens(2, 5), [0, 0, 1, 2, 2, 2, 1]);
        assert_eq!(lens(5, 2), [1, 2, 2, 2, 1, 0, 0]);
        assert_eq!([i64::MIN, i64::MAX].map(|offset| diagonal_len(3, 4, offset)), [0, 0]);
    }

    #[test]
    fn values_of_a_finished_graph_are_an_error() {
        let methods: [for<'g> fn(Var<'g>) -> Var<'g>; 3] =
            [|x| x.diagonal(0, 0, 1), |x| x.trace(0, 0, 1), |x| x.logcumsumexp(1)];
        for f in methods {
            let g = Builder::new("g");
            let x = g.input("x", [2, 3], DType::F32);
            g.finish([x]).unwrap();
            f(x);
            assert!(g.error().unwrap().message.starts_with("the graph is finished"));
        }
    }

    #[test]
    fn whole_windows_are_counted() {
        for ([n, size, step], want) in
            [([9, 4, 2], 3), ([5, 1, 1], 5), ([5, 5, 1], 1), ([5, 2, 7], 1), ([7, 3, 3], 2), ([9, 3, 3], 3)]
        {
            assert_eq!(sliding_window_count(n, size, step), Ok(want), "{n} {size} {step}");
        }
        for [n, size, step] in [[9, 0, 1], [9, 1, 0], [9, 10, 1], [0, 1, 1]] {
            let why = sliding_window_count(n, size, step).unwrap_err();
            assert!(why.contains(&format!("windows of {size}, {step} apart")), "{why}");
        }
    }

    #[test]
    fn windows_have_a_limit_together() {
        assert_eq!(sliding_window_count(MOST_TAPS, 1, 1), Ok(MOST_TAPS));
        assert_eq!(sliding_window_count(MOST_TAPS / 2 + 1, 2, 1), Ok(MOST_TAPS / 2));
        for ([n, size, step], count) in [
            // Two elements too many; too long an axis; a number of elements that no word holds.
            ([MOST_TAPS / 2 + 2, 2, 1], MOST_TAPS / 2 + 1),
            ([MOST_TAPS + 1, 1, MOST_TAPS], 2),
            ([usize::MAX, 1 << 62, 1], usize::MAX - (1 << 62) + 1),
        ] {
            let why = sliding_window_count(n, size, step).unwrap_err();
            assert!(why.starts_with(&format!("{count} windows of {size} along an axis of {n}; at most")), "{why}");
        }
    }
}
