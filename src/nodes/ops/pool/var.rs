//! Pools as methods of [`Var`]. Options have torch's names. `ceil_mode` becomes padding at the end: the ops have no
//! such mode.

use crate::error::Kind;
use crate::nodes::build::axes::to_i64s;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::common::window::{WindowGeometry, array, pairs};
use crate::nodes::ops::pool::attrs::{AdaptivePoolAttrs, AvgPoolAttrs, SumPoolAttrs};
use crate::nodes::ops::pool::nd::along;

/// Options of a pool over `N` axes, with `P` = 2·`N` sides to pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool<const N: usize, const P: usize> {
    /// Elements of a window along each axis.
    pub kernel: [usize; N],
    /// Step between windows.
    pub stride: [usize; N],
    /// Padding before and after each axis, at most half of a window: the first axis first (top, bottom, left, right).
    pub pad: [usize; P],
    /// Distance between the taps of a window (maximum and minimum only).
    pub dilation: [usize; N],
    /// Whether padding counts as elements (average only).
    pub count_include_pad: bool,
    /// Whether the last window may reach beyond the padding at the end, if it begins before that padding.
    pub ceil_mode: bool,
    /// The divisor of the sums, instead of the number of elements (average only).
    pub divisor_override: Option<usize>,
}

/// Options of 1-D pools.
pub type Pool1d = Pool<1, 2>;
/// Options of 2-D pools.
pub type Pool2d = Pool<2, 4>;
/// Options of 3-D pools.
pub type Pool3d = Pool<3, 6>;

impl<const N: usize, const P: usize> Pool<N, P> {
    /// Windows of size `kernel`, with a stride of `kernel` (they do not overlap) and no padding.
    pub fn new(kernel: [usize; N]) -> Self {
        Pool {
            kernel,
            stride: kernel,
            pad: [0; P],
            dilation: [1; N],
            count_include_pad: true,
            ceil_mode: false,
            divisor_override: None,
        }
    }

    /// These windows, `stride` apart.
    pub fn stride(self, stride: [usize; N]) -> Self {
        Pool { stride, ..self }
    }

    /// These windows with the same padding on both sides of each axis.
    pub fn padding(self, padding: [usize; N]) -> Self {
        let mut pad = [0; P];
        pad.iter_mut().enumerate().for_each(|(i, p)| *p = padding.get(i / 2).copied().unwrap_or(0));
        Pool { pad, ..self }
    }

    /// The windows over axes of these sizes.
    fn over(&self, size: &[usize]) -> WindowGeometry<N> {
        let Pool { kernel, stride, pad, dilation, .. } = *self;
        WindowGeometry { size: array(size), kernel, stride, pad: pairs(&pad), dilation }
    }
}

// Pools by the number of axes.
const MAX: [Op; 3] = [Op::MAX_POOL1D, Op::MAX_POOL2D, Op::MAX_POOL3D];
const MIN: [Op; 3] = [Op::MIN_POOL1D, Op::MIN_POOL2D, Op::MIN_POOL3D];
const SUM: [Op; 3] = [Op::SUM_POOL1D, Op::SUM_POOL2D, Op::SUM_POOL3D];
const AVG: [Op; 3] = [Op::AVG_POOL1D, Op::AVG_POOL2D, Op::AVG_POOL3D];

/// Methods for one, two and three axes.
macro_rules! by_axes {
    ($($n:literal $p:literal $shape:literal:
        $max:ident $min:ident $sum:ident $avg:ident $adaptive_max:ident $adaptive_avg:ident;)*) => {
        impl<'g> Var<'g> {
            $(
            #[doc = concat!("The largest element of each window of x `[N, C, ", $shape, "]`; NaN if the window has one. Padding never wins.")]
            #[track_caller]
            pub fn $max(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.extreme(MAX[$n - 1], &opt)
            }

            #[doc = concat!("The smallest element of each window of x `[N, C, ", $shape, "]`; NaN if the window has one. Padding never wins.")]
            #[track_caller]
            pub fn $min(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.extreme(MIN[$n - 1], &opt)
            }

            #[doc = concat!("The sum of each window of x `[N, C, ", $shape, "]`. A dilation is an error.")]
            #[track_caller]
            pub fn $sum(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.summed(SUM[$n - 1], &opt)
            }

            #[doc = concat!("The mean of each window of x `[N, C, ", $shape, "]`. A dilation is an error.")]
            #[track_caller]
            pub fn $avg(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.averaged(AVG[$n - 1], &opt)
            }

            #[doc = concat!("The largest element of each of `output` windows along each axis of x `[N, C, ", $shape, "]`; window i of an axis of n begins at ⌊i·n/output⌋ and ends before ⌈(i + 1)·n/output⌉.")]
            #[track_caller]
            pub fn $adaptive_max(self, output: [usize; $n]) -> Var<'g> {
                let op = [Op::ADAPTIVE_MAX_POOL1D, Op::ADAPTIVE_MAX_POOL2D, Op::ADAPTIVE_MAX_POOL3D][$n - 1];
                self.g.emit1(op, &[self], &AdaptivePoolAttrs { output: to_i64s(&output) }.list())
            }

            #[doc = concat!("The mean of each of `output` windows along each axis of x `[N, C, ", $shape, "]`; window i of an axis of n begins at ⌊i·n/output⌋ and ends before ⌈(i + 1)·n/output⌉.")]
            #[track_caller]
            pub fn $adaptive_avg(self, output: [usize; $n]) -> Var<'g> {
                let op = [Op::ADAPTIVE_AVG_POOL1D, Op::ADAPTIVE_AVG_POOL2D, Op::ADAPTIVE_AVG_POOL3D][$n - 1];
                self.g.emit1(op, &[self], &AdaptivePoolAttrs { output: to_i64s(&output) }.list())
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
    fn windows<const N: usize, const P: usize>(self, opt: &Pool<N, P>) -> Result<[WindowGeometry<N>; 2], String> {
        let d = self.dims();
        if d.len() != N + 2 {
            return Err(format!("x has shape {d}; rank {} is needed", N + 2));
        }
        let win = opt.over(&d[2..]);
        win.half_padded()?;
        if opt.ceil_mode {
            return Ok([win, win.ceiled()?]);
        }
        win.count()?;
        Ok([win, win])
    }

    #[track_caller]
    fn refused(self, op: Op, why: &str) -> Var<'g> {
        self.g.fail(Kind::Shape, format!("{}({self:?}): {why}", self.g.op_name(op)))
    }

    /// A pool of maxima or minima.
    #[track_caller]
    fn extreme<const N: usize, const P: usize>(self, op: Op, opt: &Pool<N, P>) -> Var<'g> {
        match self.windows(opt) {
            _ if !self.is_some() => self,
            Ok([_, win]) => self.g.emit1(op, &[self], &win.attrs().list()),
            Err(e) => self.refused(op, &e),
        }
    }

    /// [`Var::max_pool2d`] with the position h·W + w in the plane of x `[N, C, H, W]` that each result came from, `i32`,
    /// as torch's `return_indices`.
    #[track_caller]
    pub fn max_pool2d_with_indices(self, opt: Pool2d) -> [Var<'g>; 2] {
        match self.windows(&opt) {
            _ if !self.is_some() => [self; 2],
            Ok([_, win]) => {
                let all = self.g.emit(Op::MAX_POOL2D, &[self], &win.attrs().list());
                [all[0], all[1]]
            }
            Err(e) => [self.refused(Op::MAX_POOL2D, &e); 2],
        }
    }

    /// The windows of a sum, which have no dilation.
    fn undilated<const N: usize, const P: usize>(self, opt: &Pool<N, P>) -> Result<[WindowGeometry<N>; 2], String> {
        match opt.dilation == [1; N] {
            true => self.windows(opt),
            false => Err(format!("dilation {:?}; only pools of maxima and minima have one", opt.dilation)),
        }
    }

    #[track_caller]
    fn summed<const N: usize, const P: usize>(self, op: Op, opt: &Pool<N, P>) -> Var<'g> {
        match self.undilated(opt) {
            _ if !self.is_some() => self,
            Ok([_, win]) => self.g.emit1(op, &[self], &SumPoolAttrs::new(win.attrs()).list()),
            Err(e) => self.refused(op, &e),
        }
    }

    #[track_caller]
    fn averaged<const N: usize, const P: usize>(self, op: Op, opt: &Pool<N, P>) -> Var<'g> {
        // All nodes get the caller's location.
        self.g.with_caller(|| {
            if !self.is_some() {
                return self;
            }
            let [win, whole] = match self.undilated(opt) {
                Ok(both) => both,
                Err(e) => return self.refused(op, &e),
            };
            let sums = || self.g.emit1(SUM[N - 1], &[self], &SumPoolAttrs::new(whole.attrs()).list());
            match opt.divisor_override {
                Some(0) => self.refused(op, "divisor_override is 0"),
                Some(n) => sums() / n as f64,
                // Taps beyond the padding do not count, so windows have different divisors.
                None if opt.count_include_pad && win.pad != whole.pad => whole_divided(sums(), &win),
                None => self.g.emit1(op, &[self], &AvgPoolAttrs::new(whole.attrs(), opt.count_include_pad).list()),
            }
        })
    }
}

/// Sums divided by the number of elements of their windows in the input or its padding.
#[track_caller]
fn whole_divided<'g, const N: usize>(sums: Var<'g>, win: &WindowGeometry<N>) -> Var<'g> {
    let d = sums.dims();
    (0..N).fold(sums, |y, a| {
        let (end, k, s) = (win.size[a] + win.pad[a][0] + win.pad[a][1], win.kernel[a], win.stride[a]);
        let windows = d.get(2 + a).copied().unwrap_or(0);
        let counts: Vec<f64> = (0..windows).map(|i| ((i * s + k).min(end) - i * s) as f64).collect();
        y / along(y.g, &counts, N - a, y.dtype())
    })
}
