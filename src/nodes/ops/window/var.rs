//! Methods of [`Var`] for what slides windows over images: convolutions, pools, columns; and resizing. Options are
//! called as torch calls them. What torch's `ceil_mode` adds becomes padding here, so that rows need not know of it.

use crate::error::Kind;
use crate::nodes::build::axes::{to_i64, to_i64s};
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::common::slide::{Slide, ints, pairs};
use crate::nodes::ops::pool::nd::along;
use crate::nodes::ops::window::resize::Interpolation;

/// Options of a convolution over `N` axes, with `P` = 2·`N` sides to pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv<const N: usize, const P: usize> {
    /// Step between windows along each axis.
    pub stride: [usize; N],
    /// Zeros before and after each axis, the first axis first (top, bottom, left, right).
    pub pad: [usize; P],
    /// Distance between the taps of a window.
    pub dilation: [usize; N],
    /// Independent groups of channels.
    pub groups: usize,
}

/// Options of [`Var::conv2d`].
pub type Conv2d = Conv<2, 4>;
/// Options of [`Var::conv3d`].
pub type Conv3d = Conv<3, 6>;

impl<const N: usize, const P: usize> Default for Conv<N, P> {
    fn default() -> Self {
        Conv { stride: [1; N], pad: [0; P], dilation: [1; N], groups: 1 }
    }
}

/// Options of a transposed convolution over `N` axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTranspose<const N: usize> {
    /// Places between two inputs in the output.
    pub stride: [usize; N],
    /// What is cut off on both sides of each axis.
    pub pad: [usize; N],
    /// Places added at the end of each axis, fewer than the stride or the dilation.
    pub output_pad: [usize; N],
    /// Distance between the taps.
    pub dilation: [usize; N],
    /// Independent groups of channels.
    pub groups: usize,
}

impl<const N: usize> Default for ConvTranspose<N> {
    fn default() -> Self {
        ConvTranspose { stride: [1; N], pad: [0; N], output_pad: [0; N], dilation: [1; N], groups: 1 }
    }
}

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
    /// Whether a last window that begins inside, or in the padding before, may reach beyond the padding at the end.
    pub ceil_mode: bool,
    /// What sums are divided by, whatever the windows hold (average only).
    pub divisor_override: Option<usize>,
}

/// Options of 1-D pools.
pub type Pool1d = Pool<1, 2>;
/// Options of 2-D pools.
pub type Pool2d = Pool<2, 4>;
/// Options of 3-D pools.
pub type Pool3d = Pool<3, 6>;

impl<const N: usize, const P: usize> Pool<N, P> {
    /// Windows of `kernel` side by side.
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

    fn slide(&self, size: &[usize]) -> Slide<N> {
        let mut win = Slide {
            size: [0; N],
            kernel: self.kernel,
            stride: self.stride,
            pad: pairs(&self.pad),
            dilation: self.dilation,
        };
        win.size.iter_mut().zip(size).for_each(|(to, n)| *to = *n);
        win
    }
}

/// Options of [`Var::im2col`] and [`Var::col2im`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfold {
    /// Height and width of a window.
    pub kernel: [usize; 2],
    /// Step between windows.
    pub stride: [usize; 2],
    /// Zeros around the image: top, bottom, left, right.
    pub pad: [usize; 4],
    /// Distance between the taps of a window.
    pub dilation: [usize; 2],
}

impl Unfold {
    /// Windows of `kernel` at every place.
    pub fn new(kernel: [usize; 2]) -> Unfold {
        Unfold { kernel, stride: [1, 1], pad: [0; 4], dilation: [1, 1] }
    }

    fn lists(&self) -> [Vec<i64>; 4] {
        [to_i64s(&self.kernel), to_i64s(&self.stride), to_i64s(&self.pad), to_i64s(&self.dilation)]
    }
}

// Pools by the number of axes.
const MAX: [Op; 3] = [Op::MAX_POOL1D, Op::MAX_POOL2D, Op::MAX_POOL3D];
const MIN: [Op; 3] = [Op::MIN_POOL1D, Op::MIN_POOL2D, Op::MIN_POOL3D];
const SUM: [Op; 3] = [Op::SUM_POOL1D, Op::SUM_POOL2D, Op::SUM_POOL3D];
const AVG: [Op; 3] = [Op::AVG_POOL1D, Op::AVG_POOL2D, Op::AVG_POOL3D];

/// Methods that differ in the number of axes alone.
macro_rules! by_axes {
    ($($n:literal $p:literal $shape:literal: $conv:ident $turned:ident $max:ident $min:ident $sum:ident $avg:ident
        $most:ident $mean:ident;)*) => {
        impl<'g> Var<'g> {
            $(
            #[doc = concat!("Convolution of x `[N, C, ", $shape, "]` with w `[O, C/groups, kernel…]` (cross-correlation).")]
            #[track_caller]
            pub fn $conv(self, w: Var<'g>, opt: Conv<$n, $p>) -> Var<'g> {
                self.convolved([Op::CONV1D, Op::CONV2D, Op::CONV3D][$n - 1], w, &opt)
            }

            #[doc = concat!("The transpose of [`Var::", stringify!($conv), "`]: x `[N, C, ", $shape, "]`, w `[C, O/groups, kernel…]`.")]
            #[track_caller]
            pub fn $turned(self, w: Var<'g>, opt: ConvTranspose<$n>) -> Var<'g> {
                let op = [Op::CONV_TRANSPOSE1D, Op::CONV_TRANSPOSE2D, Op::CONV_TRANSPOSE3D][$n - 1];
                self.transposed(op, w, &opt)
            }

            #[doc = concat!("The largest element of each window of x `[N, C, ", $shape, "]`; NaN where there is one.")]
            #[track_caller]
            pub fn $max(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.extreme(MAX[$n - 1], &opt)
            }

            #[doc = concat!("The least element of each window of x `[N, C, ", $shape, "]`; NaN where there is one.")]
            #[track_caller]
            pub fn $min(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.extreme(MIN[$n - 1], &opt)
            }

            #[doc = concat!("The sum of each window of x `[N, C, ", $shape, "]`.")]
            #[track_caller]
            pub fn $sum(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.summed(SUM[$n - 1], &opt)
            }

            #[doc = concat!("The mean of each window of x `[N, C, ", $shape, "]`.")]
            #[track_caller]
            pub fn $avg(self, opt: Pool<$n, $p>) -> Var<'g> {
                self.averaged(AVG[$n - 1], &opt)
            }

            #[doc = concat!("The largest elements of x `[N, C, ", $shape, "]` in `output` windows along each axis.")]
            #[track_caller]
            pub fn $most(self, output: [usize; $n]) -> Var<'g> {
                let op = [Op::ADAPTIVE_MAX_POOL1D, Op::ADAPTIVE_MAX_POOL2D, Op::ADAPTIVE_MAX_POOL3D][$n - 1];
                self.g.emit1(op, &[self], &[Attr::Ints(&to_i64s(&output))])
            }

            #[doc = concat!("The means of x `[N, C, ", $shape, "]` in `output` windows along each axis.")]
            #[track_caller]
            pub fn $mean(self, output: [usize; $n]) -> Var<'g> {
                let op = [Op::ADAPTIVE_AVG_POOL1D, Op::ADAPTIVE_AVG_POOL2D, Op::ADAPTIVE_AVG_POOL3D][$n - 1];
                self.g.emit1(op, &[self], &[Attr::Ints(&to_i64s(&output))])
            }
            )*
        }
    };
}

by_axes! {
    1 2 "L": conv1d conv_transpose1d max_pool1d min_pool1d sum_pool1d avg_pool1d adaptive_max_pool1d adaptive_avg_pool1d;
    2 4 "H, W": conv2d conv_transpose2d max_pool2d min_pool2d sum_pool2d avg_pool2d adaptive_max_pool2d adaptive_avg_pool2d;
    3 6 "D, H, W": conv3d conv_transpose3d max_pool3d min_pool3d sum_pool3d avg_pool3d adaptive_max_pool3d adaptive_avg_pool3d;
}

impl<'g> Var<'g> {
    #[track_caller]
    fn convolved<const N: usize, const P: usize>(self, op: Op, w: Var<'g>, opt: &Conv<N, P>) -> Var<'g> {
        let lists = [to_i64s(&opt.stride), to_i64s(&opt.pad), to_i64s(&opt.dilation)];
        let [stride, pad, dilation] = ints(&lists);
        self.g.emit1(op, &[self, w], &[stride, pad, dilation, Attr::Int(to_i64(opt.groups))])
    }

    #[track_caller]
    fn transposed<const N: usize>(self, op: Op, w: Var<'g>, opt: &ConvTranspose<N>) -> Var<'g> {
        let both: Vec<usize> = opt.pad.iter().flat_map(|&p| [p, p]).collect();
        let lists = [to_i64s(&opt.stride), to_i64s(&both), to_i64s(&opt.dilation), to_i64s(&opt.output_pad)];
        let [stride, pad, dilation, output_pad] = ints(&lists);
        self.g.emit1(op, &[self, w], &[stride, pad, dilation, Attr::Int(to_i64(opt.groups)), output_pad])
    }

    /// The windows of a pool on this, as its options have them and with what `ceil_mode` adds.
    fn windows<const N: usize, const P: usize>(self, opt: &Pool<N, P>) -> Result<[Slide<N>; 2], String> {
        let d = self.dims();
        if d.len() != N + 2 {
            return Err(format!("x has shape {d}; rank {} is needed", N + 2));
        }
        let win = opt.slide(&d[2..]);
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

    /// A largest or least element.
    #[track_caller]
    fn extreme<const N: usize, const P: usize>(self, op: Op, opt: &Pool<N, P>) -> Var<'g> {
        match self.windows(opt) {
            _ if !self.is_some() => self,
            Ok([_, win]) => self.g.emit1(op, &[self], &ints(&win.lists())),
            Err(e) => self.refused(op, &e),
        }
    }

    /// The windows of a sum, which have no dilation.
    fn undilated<const N: usize, const P: usize>(self, opt: &Pool<N, P>) -> Result<[Slide<N>; 2], String> {
        match opt.dilation == [1; N] {
            true => self.windows(opt),
            false => Err(format!("dilation {:?}; only pools of maxima and minima have one", opt.dilation)),
        }
    }

    #[track_caller]
    fn summed<const N: usize, const P: usize>(self, op: Op, opt: &Pool<N, P>) -> Var<'g> {
        match self.undilated(opt) {
            _ if !self.is_some() => self,
            Ok([_, win]) => self.g.emit1(op, &[self], &ints(&win.lists())[..3]),
            Err(e) => self.refused(op, &e),
        }
    }

    #[track_caller]
    fn averaged<const N: usize, const P: usize>(self, op: Op, opt: &Pool<N, P>) -> Var<'g> {
        // All nodes come from the line that asks for it.
        self.g.with_caller(|| {
            if !self.is_some() {
                return self;
            }
            let [win, whole] = match self.undilated(opt) {
                Ok(both) => both,
                Err(e) => return self.refused(op, &e),
            };
            let lists = whole.lists();
            let [kernel, stride, pad, _] = ints(&lists);
            let sums = || self.g.emit1(SUM[N - 1], &[self], &[kernel, stride, pad]);
            match opt.divisor_override {
                Some(0) => self.refused(op, "divisor_override is 0"),
                Some(n) => sums() / n as f64,
                // What reaches beyond the padding counts for nothing, so that windows have divisors of their own.
                None if opt.count_include_pad && win.pad != whole.pad => whole_divided(sums(), &win),
                None => self.g.emit1(op, &[self], &[kernel, stride, pad, Attr::Bool(opt.count_include_pad)]),
            }
        })
    }

    /// The windows of x `[N, C, H, W]` as columns `[N, C·kh·kw, windows]`, as `torch.nn.functional.unfold`: row
    /// (c·kh + i)·kw + j holds what tap (i, j) sees of channel c. (Rows by window, `[N·windows, C·kh·kw]`, are
    /// `.transpose(&[0, 2, 1])` and a reshape away.)
    #[track_caller]
    pub fn im2col(self, opt: Unfold) -> Var<'g> {
        self.g.emit1(Op::IM2COL, &[self], &ints(&opt.lists()))
    }

    /// Columns `[N, C·kh·kw, windows]` added where [`Var::im2col`] takes them from, in planes of height and width
    /// `size`: its transpose, as `torch.nn.functional.fold`.
    #[track_caller]
    pub fn col2im(self, size: [usize; 2], opt: Unfold) -> Var<'g> {
        let [kernel, stride, pad, dilation] = opt.lists();
        self.g.emit1(Op::COL2IM, &[self], &ints(&[to_i64s(&size), kernel, stride, pad, dilation]))
    }

    /// x `[N, C, …]` with the one to three axes after the second resized to `size`, as `torch.nn.functional.interpolate`
    /// with a size.
    #[track_caller]
    pub fn interpolate(self, size: &[usize], mode: Interpolation) -> Var<'g> {
        self.g.emit1(Op::INTERPOLATE, &[self], &[Attr::Ints(&to_i64s(size)), Attr::Choice(mode as u32)])
    }
}

/// Sums over the elements of their windows that lie in the input or its padding.
#[track_caller]
fn whole_divided<'g, const N: usize>(sums: Var<'g>, win: &Slide<N>) -> Var<'g> {
    let d = sums.dims();
    (0..N).fold(sums, |y, a| {
        let (end, k, s) = (win.size[a] + win.pad[a][0] + win.pad[a][1], win.kernel[a], win.stride[a]);
        let windows = d.get(2 + a).copied().unwrap_or(0);
        let counts: Vec<f64> = (0..windows).map(|i| ((i * s + k).min(end) - i * s) as f64).collect();
        y / along(y.g, &counts, N - a, y.dtype())
    })
}
