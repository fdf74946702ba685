//! Maxima with the positions that they came from, as torch's `return_indices`.
//!
//! One axis is a plane of height 1. Three axes are pooled in two steps: each plane, then along the planes. The first of
//! equal elements wins in both, so the first in row-major order wins.

use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::common::window_geometry::WindowGeometry;
use crate::nodes::ops::pool::pool_options::{Pool1d, Pool2d, Pool3d};

impl<'g> Var<'g> {
    /// [`Var::max_pool1d`] with the position in the row of x `[N, C, L]` that each result came from, `i32`, as torch's
    /// `return_indices`.
    #[track_caller]
    pub fn max_pool1d_with_indices(self, opt: Pool1d) -> [Var<'g>; 2] {
        let windows = self.pool_windows(&opt).and_then(|w| w[1].all_touch().map(|()| w));
        self.g.with_caller(|| match windows {
            _ if !self.is_some() => [self; 2],
            Ok([_, win]) => {
                let found = self.unsqueeze(2).max_of_planes(win.on_plane([None, Some(0)]));
                found.map(|x| x.squeeze(2))
            }
            Err(e) => [self.refused_pool(Op::MAX_POOL1D, &e); 2],
        })
    }

    /// [`Var::max_pool2d`] with the position h·W + w in the plane of x `[N, C, H, W]` that each result came from,
    /// `i32`, as torch's `return_indices`.
    #[track_caller]
    pub fn max_pool2d_with_indices(self, opt: Pool2d) -> [Var<'g>; 2] {
        match self.pool_windows(&opt) {
            _ if !self.is_some() => [self; 2],
            Ok([_, win]) => self.max_of_planes(win),
            Err(e) => [self.refused_pool(Op::MAX_POOL2D, &e); 2],
        }
    }

    /// [`Var::max_pool3d`] with the position (d·H + h)·W + w in the volume of x `[N, C, D, H, W]` that each result came
    /// from, `i32`, as torch's `return_indices`. A volume of more than 2³¹ − 1 elements is an error.
    #[track_caller]
    pub fn max_pool3d_with_indices(self, opt: Pool3d) -> [Var<'g>; 2] {
        self.g.with_caller(|| {
            let dims = self.dims();
            let win = match self.pool_windows(&opt).and_then(|w| w[1].all_touch().map(|()| w)) {
                _ if !self.is_some() => return [self; 2],
                Ok([_, win]) => win,
                Err(e) => return [self.refused_pool(Op::MAX_POOL3D, &e); 2],
            };
            let [n, c, d, h, w] = [0, 1, 2, 3, 4].map(|i| dims[i]);
            if d.checked_mul(h).and_then(|x| x.checked_mul(w)).is_none_or(|all| all > i32::MAX as usize) {
                let why = format!("a volume of {d} × {h} × {w} has more places than i32");
                return [self.refused_pool(Op::MAX_POOL3D, &why); 2];
            }
            let [y, place] = self.reshape([n, c * d, h, w]).max_of_planes(win.on_plane([Some(1), Some(2)]));
            if !y.is_some() {
                return [y; 2];
            }
            let [rows, cols] = [2, 3].map(|i| y.dims()[i]);
            let area = rows * cols;
            let [y, at] = y.reshape([n, c, d, area]).max_of_planes(win.on_plane([Some(0), None]));
            if !y.is_some() {
                return [y; 2];
            }
            let out = [n, c, y.dims()[2], rows, cols];
            let at = at.reshape([n * c, out[2] * area]);
            let place = place.reshape([n * c, d * area]).take_along_axis(at, 1);
            let plane = at.floor_divide(area.max(1) as f64);
            [y.reshape(out), (plane * (h * w) as f64 + place).reshape(out)]
        })
    }

    /// The largest element of each window over the planes of this, and its position.
    #[track_caller]
    fn max_of_planes(self, win: WindowGeometry<2>) -> [Var<'g>; 2] {
        let all = self.g.emit(Op::MAX_POOL2D, &[self], &win.attrs().list());
        [all[0], all[1]]
    }
}
