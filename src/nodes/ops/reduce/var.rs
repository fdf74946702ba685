//! Reductions and running totals as methods of [`Var`], with torch's names. Negative axes count from the end.

use crate::nodes::build::axes::Axes;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::reduce::attrs::{ArgExtremeAttrs, ReduceAttrs, RunningAttrs, VarAttrs};

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl<'g> Var<'g> {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(self, axes: impl Axes) -> Var<'g> {
                self.reduce(Op::$op, axes, false)
            })*
        }
    };
}

reductions! {
    /// The sum over `axes`, which disappear. An empty sum is 0. The type is `f32`, `f64`, `i32` or `i64`;
    /// [`Var::sum_as`] takes others.
    sum => REDUCE_SUM;
    /// The mean over `axes`, which disappear, of `f32` or `f64`. The mean of no element is NaN.
    mean => REDUCE_MEAN;
    /// The maximum over `axes`, which disappear, of floats, integers or bools; NaN if any element is. An empty axis is
    /// an error. Ties share the gradient evenly.
    amax => REDUCE_MAX;
    /// The minimum over `axes`, which disappear, of floats, integers or bools; NaN if any element is. An empty axis is
    /// an error. Ties share the gradient evenly.
    amin => REDUCE_MIN;
    /// The product over `axes`, which disappear. An empty product is 1. The gradient divides by nothing, so elements
    /// may be 0.
    prod => REDUCE_PROD;
    /// ln Σ eˣ over `axes`, which disappear, without overflow. An empty axis is an error.
    logsumexp => LOGSUMEXP;
}

impl<'g> Var<'g> {
    /// The reduction `op` over `axes`: one, several, or `..` for all; negative ones count from the end. With `keep`,
    /// the axes stay with size 1.
    #[track_caller]
    pub fn reduce(self, op: Op, axes: impl Axes, keep: bool) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        match self.axes(op, axes) {
            Some(mut axes) => {
                axes.sort_unstable();
                self.g.emit1(op, &[self], &ReduceAttrs { axes, keep }.list())
            }
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// The sum over `axes`, which disappear, computed in `dtype`: of `i8`, `u8`, `u32` or bools as `i32` or `i64`, or
    /// of floats in a wider type. The elements are cast first; sums of integers wrap.
    #[track_caller]
    pub fn sum_as(self, axes: impl Axes, dtype: DType) -> Var<'g> {
        if self.is_some() { self.cast(dtype).sum(axes) } else { self }
    }

    /// The variance over `axes` with the divisor n − `correction`: 0 gives the biased variance, 1 that of `torch.var`.
    /// With `keep`, the axes stay with size 1.
    #[track_caller]
    pub fn var(self, axes: impl Axes, correction: i64, keep: bool) -> Var<'g> {
        match self.axes(Op::VAR, axes) {
            Some(mut axes) => {
                axes.sort_unstable();
                self.g.emit1(Op::VAR, &[self], &VarAttrs { axes, keep, correction }.list())
            }
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// The position of the first largest element along `axis`, which disappears, as `dtype`: `i32` or `i64`. NaN counts
    /// as largest. An empty axis is an error.
    #[track_caller]
    pub fn arg_max(self, axis: i64, dtype: DType) -> Var<'g> {
        self.on_axis(Op::ARG_MAX, axis, |axis| {
            self.g.emit1(Op::ARG_MAX, &[self], &ArgExtremeAttrs { axis, dtype }.list())
        })
    }

    /// The position of the first smallest element along `axis`, which disappears, as `dtype`: `i32` or `i64`. NaN
    /// counts as smallest. An empty axis is an error.
    #[track_caller]
    pub fn arg_min(self, axis: i64, dtype: DType) -> Var<'g> {
        self.on_axis(Op::ARG_MIN, axis, |axis| {
            self.g.emit1(Op::ARG_MIN, &[self], &ArgExtremeAttrs { axis, dtype }.list())
        })
    }

    /// The running sum along `axis`. `exclusive` leaves the element itself out; `reverse` runs from the end.
    #[track_caller]
    pub fn cumsum(self, axis: i64, exclusive: bool, reverse: bool) -> Var<'g> {
        self.on_axis(Op::CUMSUM, axis, |axis| {
            self.g.emit1(Op::CUMSUM, &[self], &RunningAttrs { axis, exclusive, reverse }.list())
        })
    }

    /// The running product along `axis`. `exclusive` leaves the element itself out; `reverse` runs from the end. The
    /// gradient divides by nothing, so elements may be 0.
    #[track_caller]
    pub fn cumprod(self, axis: i64, exclusive: bool, reverse: bool) -> Var<'g> {
        self.on_axis(Op::CUMPROD, axis, |axis| {
            self.g.emit1(Op::CUMPROD, &[self], &RunningAttrs { axis, exclusive, reverse }.list())
        })
    }
}
