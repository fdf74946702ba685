//! Pools as methods of [`Var`]: formulas of pools of planes. `ceil_mode` becomes padding at the end: the ops have no
//! such mode.
//!
//! Maxima come with their positions, too, as in torch's `return_indices`. One axis is a plane of height 1. Three axes
//! are pooled in two steps: each plane, then along the planes. The first of equal elements wins in both, so the first
//! in row-major order wins.

use crate::ensure;
use crate::kernels::window::WindowGeometry;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::common::positions::numbers_by_position;
use crate::nodes::ops::common::window_attrs::WindowAttrs;
use crate::nodes::ops::pool::adaptive_pool;
use crate::nodes::ops::pool::planes::{self, Of};
use crate::nodes::ops::pool::pool_options::{Pool, Pool1d, Pool2d, Pool3d};

/// Methods for one, two and three axes.
macro_rules! by_axes {
    ($($n:literal $p:literal $shape:literal:
        $max:ident $min:ident $sum:ident $avg:ident $adaptive_max:ident $adaptive_avg:ident;)*) => {
        impl<'g> Var<'g> {
            $(
            #[doc = concat!("The largest element of each window of x `[N, C, ", $shape, "]`; NaN if the window has \
                one. Padding never wins.")]
            #[track_caller]
            pub fn $max(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.pool(stringify!($max), Of::Max, &opt)
            }

            #[doc = concat!("The smallest element of each window of x `[N, C, ", $shape, "]`; NaN if the window has \
                one. Padding never wins.")]
            #[track_caller]
            pub fn $min(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.pool(stringify!($min), Of::Min, &opt)
            }

            #[doc = concat!("The sum of each window of x `[N, C, ", $shape, "]`. A dilation is an error.")]
            #[track_caller]
            pub fn $sum(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.pool(stringify!($sum), Of::Sum, &opt)
            }

            #[doc = concat!("The mean of each window of x `[N, C, ", $shape, "]`. A dilation is an error.")]
            #[track_caller]
            pub fn $avg(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.pool(stringify!($avg), Of::Mean { count_pad: opt.count_include_pad }, &opt)
            }

            #[doc = concat!("The largest element of each of `output` windows along each axis of x `[N, C, ", $shape, "]`; window i of an axis of n begins at ⌊i·n/output⌋ and ends before ⌈(i + 1)·n/output⌉.")]
            #[track_caller]
            pub fn $adaptive_max(self, output: [usize; $n]) -> Var<'g> {
                self.adaptive_pool(stringify!($adaptive_max), &output, adaptive_pool::max)
            }

            #[doc = concat!("The mean of each of `output` windows along each axis of x `[N, C, ", $shape, "]`; window \
                i of an axis of n begins at ⌊i·n/output⌋ and ends before ⌈(i + 1)·n/output⌉.")]
            #[track_caller]
            pub fn $adaptive_avg(self, output: [usize; $n]) -> Var<'g> {
                self.adaptive_pool(stringify!($adaptive_avg), &output, adaptive_pool::mean)
            }
            )*
        }
    };
}

by_axes! {
    1 2 "L": max_pool1d min_pool1d sum_pool1d avg_pool1d adaptive_max_pool1d adaptive_avg_pool1d;
    2 4 "H, W": max_pool2d min_pool2d sum_pool2d avg_pool2d adaptive_max_pool2d adaptive_avg_pool2d;
    3 6 "D, H, W": max_pool3d min_pool3d sum_pool3d avg_pool3d adaptive_max_pool3d adaptive_avg_pool3d;
}

impl<'g> Var<'g> {
    /// The windows of a pool on this: without `ceil_mode`, and with it if it is set.
    fn pool_windows<const N: usize, const P: usize>(self, opt: &Pool<N, P>) -> Result<[WindowGeometry<N>; 2], String> {
        let win = opt.over(&planes::check_operand(self, N)?[2..]);
        win.half_padded()?;
        let whole = if opt.ceil_mode { win.ceiled()? } else { win };
        whole.all_touch().map(|()| [win, whole])
    }

    /// The pool called `name`.
    #[track_caller]
    fn pool<const N: usize, const P: usize>(self, name: &str, of: Of, opt: &Pool<N, P>) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        let checked = || {
            let dilated = opt.dilation != [1; N] && matches!(of, Of::Sum | Of::Mean { .. });
            ensure!(!dilated, "dilation {:?}; only pools of maxima and minima have one", opt.dilation);
            let mean = matches!(of, Of::Mean { .. });
            ensure!(!mean || opt.divisor_override != Some(0), "divisor_override is 0");
            let windows = self.pool_windows(opt)?;
            // Means of planes count no positions.
            if N != 2 || !mean { planes::check(self.dims()[1], &windows[1]).map(|()| windows) } else { Ok(windows) }
        };
        // All nodes get the caller's location.
        self.g.with_caller(|| {
            let [win, whole] = match checked() {
                Ok(windows) => windows,
                Err(why) => return self.refuse(name, why),
            };
            let sums = || planes::pool(self, Of::Sum, &whole);
            match (of, opt.divisor_override) {
                (Of::Mean { .. }, Some(n)) => sums() / n as f64,
                // Taps beyond the padding do not count, so windows have different divisors.
                (Of::Mean { count_pad: true }, None) if win.pad != whole.pad => divide_sums(sums(), &win),
                _ => planes::pool(self, of, &whole),
            }
        })
    }

    /// The pool called `name` to `output` windows along each axis.
    #[track_caller]
    fn adaptive_pool(self, name: &str, output: &[usize], pool: fn(Var<'g>, &[usize]) -> Var<'g>) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        self.g.with_caller(|| match adaptive_pool::check(self, output) {
            Err(why) => self.refuse(name, why),
            Ok(to) if self.numel() == 0 => self.reshape(to),
            Ok(_) => pool(self, output),
        })
    }

    /// [`Var::max_pool1d`] with the position in the row of x `[N, C, L]` that each result came from, `i32`, as torch's
    /// `return_indices`.
    #[track_caller]
    pub fn max_pool1d_with_indices(self, opt: Pool1d) -> [Var<'g>; 2] {
        self.g.with_caller(|| match self.pool_windows(&opt) {
            _ if !self.is_some() => [self; 2],
            Ok([_, win]) => {
                let found = self.unsqueeze(2).max_of_planes(win.on_plane([None, Some(0)]));
                found.map(|x| x.squeeze(2))
            }
            Err(e) => [self.refuse("max_pool1d", e); 2],
        })
    }

    /// [`Var::max_pool2d`] with the position h·W + w in the plane of x `[N, C, H, W]` that each result came from,
    /// `i32`, as in torch's `return_indices`.
    #[track_caller]
    pub fn max_pool2d_with_indices(self, opt: Pool2d) -> [Var<'g>; 2] {
        match self.pool_windows(&opt) {
            _ if !self.is_some() => [self; 2],
            Ok([_, win]) => self.max_of_planes(win),
            Err(e) => [self.refuse("max_pool2d", e); 2],
        }
    }

    /// [`Var::max_pool3d`] with the position (d·H + h)·W + w in the volume of x `[N, C, D, H, W]` that each result came
    /// from, `i32`, as in torch's `return_indices`. A volume of more than 2³¹ − 1 elements is an error.
    #[track_caller]
    pub fn max_pool3d_with_indices(self, opt: Pool3d) -> [Var<'g>; 2] {
        self.g.with_caller(|| {
            let dims = self.dims();
            let win = match self.pool_windows(&opt) {
                _ if !self.is_some() => return [self; 2],
                Ok([_, win]) => win,
                Err(e) => return [self.refuse("max_pool3d", e); 2],
            };
            let [n, c, d, h, w] = [0, 1, 2, 3, 4].map(|i| dims[i]);
            if d.checked_mul(h).and_then(|x| x.checked_mul(w)).is_none_or(|all| all > i32::MAX as usize) {
                let why = format!("a volume of {d} × {h} × {w} has more places than i32");
                return [self.refuse("max_pool3d", why); 2];
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
        let all = self.g.emit(Op::MAX_POOL2D, &[self], &WindowAttrs::from(win).list());
        [all[0], all[1]]
    }
}

/// Sums divided by the number of elements of their windows in the input or its padding.
#[track_caller]
fn divide_sums<'g, const N: usize>(sums: Var<'g>, win: &WindowGeometry<N>) -> Var<'g> {
    let d = sums.dims();
    (0..N).fold(sums, |y, a| {
        let (end, k, s) = (win.size[a] + win.pad[a][0] + win.pad[a][1], win.kernel[a], win.stride[a]);
        let windows = d.get(2 + a).copied().unwrap_or(0);
        let counts: Vec<f64> = (0..windows).map(|i| ((i * s + k).min(end) - i * s) as f64).collect();
        y / numbers_by_position(y.g, &counts, N - a, y.dtype())
    })
}
