//! Reductions, norms, counts and running totals as methods of [`Var`], with torch's names. Negative axes count from
//! the end.

use crate::nodes::arguments::axes::{Axes, dims_without_axes};
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::complex::forms::{complex_form_by_parts, complex_reduced_form};
use crate::nodes::ops::reduce::attrs::{ArgExtremeAttrs, ReduceAttrs, RunningAttrs, VarAttrs};
use crate::nodes::ops::reduce::euclidean_length::reduce_root_with_zero_slope;

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
    /// The sum over `axes` (removed). An empty sum is 0. The type is `f32`, `f64`, `i32`, `i64`, `c64` or `c128`;
    /// [`Var::sum_as`] takes others.
    sum => REDUCE_SUM;
    /// The mean over `axes` (removed) of `f32`, `f64`, `c64` or `c128`. The mean of no element is NaN.
    mean => REDUCE_MEAN;
    /// The maximum over `axes` (removed) of floats, integers or bools; NaN if any element is. An empty axis is an
    /// error. Ties share the gradient evenly.
    amax => REDUCE_MAX;
    /// The minimum over `axes` (removed) of floats, integers or bools; NaN if any element is. An empty axis is an
    /// error. Ties share the gradient evenly.
    amin => REDUCE_MIN;
    /// The product over `axes` (removed). An empty product is 1. The gradient divides by nothing, so elements may be 0.
    prod => REDUCE_PROD;
    /// ln Σ eˣ over `axes` (removed), without overflow, of `f32` or `f64`. An empty axis is an error.
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
        match self.axes_for_op(op, axes) {
            Some(mut axes) => {
                axes.sort_unstable();
                match complex_reduced_form(op, self, &axes, keep) {
                    Some(y) => y,
                    None => self.g.emit1(op, &[self], &ReduceAttrs { axes, keep }.list()),
                }
            }
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// The sum over `axes` (removed), computed in `dtype`: of `i8`, `u8`, `u32` or bools as `i32` or `i64`, or of
    /// floats in a wider type. The elements are cast first; sums of integers wrap.
    #[track_caller]
    pub fn sum_as(self, axes: impl Axes, dtype: DType) -> Var<'g> {
        if self.is_some() { self.cast(dtype).sum(axes) } else { self }
    }

    /// The variance over `axes` with the divisor n − `correction`: 0 gives the biased variance, 1 that of `torch.var`.
    /// With `keep`, the axes stay with size 1.
    #[track_caller]
    pub fn var(self, axes: impl Axes, correction: i64, keep: bool) -> Var<'g> {
        match self.axes_for_op(Op::VAR, axes) {
            Some(mut axes) => {
                axes.sort_unstable();
                self.g.emit1(Op::VAR, &[self], &VarAttrs { axes, keep, correction }.list())
            }
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// The position of the first largest element along `axis` (removed), as `dtype`: `i32` or `i64`. NaN counts as
    /// largest. An empty axis is an error.
    #[track_caller]
    pub fn arg_max(self, axis: i64, dtype: DType) -> Var<'g> {
        self.on_axis(Op::ARG_MAX, axis, |axis| {
            self.g.emit1(Op::ARG_MAX, &[self], &ArgExtremeAttrs { axis, dtype }.list())
        })
    }

    /// The position of the first smallest element along `axis` (removed), as `dtype`: `i32` or `i64`. NaN counts as
    /// smallest. An empty axis is an error.
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
            let real = |x: Var<'g>| x.g.emit1(Op::CUMSUM, &[x], &RunningAttrs { axis, exclusive, reverse }.list());
            complex_form_by_parts(self, real).unwrap_or_else(|| real(self))
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

    /// Whether any element along `axes` differs from 0, as a bool. NaN differs from 0. An empty axis gives false.
    /// `axes` are removed.
    #[track_caller]
    pub fn any(self, axes: impl Axes) -> Var<'g> {
        self.g.with_caller(|| self.count_reduced_hits("any", axes, true).map_or(self.none(), |n| n.not_equal(0.0)))
    }

    /// Whether all elements along `axes` differ from 0, as a bool. NaN differs from 0. An empty axis gives true. `axes`
    /// are removed.
    #[track_caller]
    pub fn all(self, axes: impl Axes) -> Var<'g> {
        self.g.with_caller(|| self.count_reduced_hits("all", axes, false).map_or(self.none(), |n| n.equal(0.0)))
    }

    /// The number of elements along `axes` that differ from 0, as `i64`. NaN differs from 0. `axes` are removed.
    #[track_caller]
    pub fn count_nonzero(self, axes: impl Axes) -> Var<'g> {
        self.g.with_caller(|| self.count_reduced_hits("count_nonzero", axes, true).unwrap_or(self.none()))
    }

    /// [`Var::any`] whose `axes` stay with size 1, torch's `keepdim`.
    #[track_caller]
    pub fn any_keep(self, axes: impl Axes) -> Var<'g> {
        self.keep_reduced("any", axes, |axes| self.any(axes))
    }

    /// [`Var::all`] whose `axes` stay with size 1, torch's `keepdim`.
    #[track_caller]
    pub fn all_keep(self, axes: impl Axes) -> Var<'g> {
        self.keep_reduced("all", axes, |axes| self.all(axes))
    }

    /// [`Var::count_nonzero`] whose `axes` stay with size 1, torch's `keepdim`.
    #[track_caller]
    pub fn count_nonzero_keep(self, axes: impl Axes) -> Var<'g> {
        self.keep_reduced("count_nonzero", axes, |axes| self.count_nonzero(axes))
    }

    /// [`Var::norm`] whose `axes` stay with size 1, torch's `keepdim`: `x / x.norm_keep(2.0, -1)` scales each row to
    /// length 1.
    #[track_caller]
    pub fn norm_keep(self, p: f64, axes: impl Axes) -> Var<'g> {
        self.keep_reduced("norm", axes, |axes| self.norm(p, axes))
    }

    /// What `f` reduces over `axes`, with these axes of size 1. An axis out of range is an error of `what`.
    #[track_caller]
    fn keep_reduced(self, what: &str, axes: impl Axes, f: impl FnOnce(&[i64]) -> Var<'g>) -> Var<'g> {
        let Some(axes) = self.axes_at(what, axes) else { return self.none() };
        self.g.with_caller(|| {
            let y = f(&size_attrs_to_i64(&axes));
            if y.is_some() { y.reshape(dims_without_axes(&self.dims(), &axes, true)) } else { y }
        })
    }

    /// How many elements along `axes` are not 0, or are 0.
    #[track_caller]
    fn count_reduced_hits(self, what: &str, axes: impl Axes, nonzero: bool) -> Option<Var<'g>> {
        let axes = self.axes_at(what, axes)?;
        let hits = match (self.dtype(), nonzero) {
            (DType::Bool, true) => self,
            (DType::Bool, false) => self.logical_not(),
            (_, true) => self.not_equal(0.0),
            (_, false) => self.equal(0.0),
        };
        Some(hits.cast(DType::I64).sum(size_attrs_to_i64(&axes).as_slice()))
    }

    /// The standard deviation over `axes` with the divisor n − `correction`: 1 gives that of `torch.std`. With `keep`,
    /// the axes stay with size 1. Of one element with correction 1 it is NaN. Where it is 0, its derivative is 0.
    #[track_caller]
    pub fn std(self, axes: impl Axes, correction: i64, keep: bool) -> Var<'g> {
        self.g.with_caller(|| reduce_root_with_zero_slope(self.var(axes, correction, keep)))
    }

    /// The p-norm (Σ|x|ᵖ)^(1/p) over `axes` (removed), as in `torch.linalg.vector_norm`: p = ∞ gives the largest
    /// |x|, −∞ the smallest, 0 the number of elements that are not 0. Of `f32` or `f64`; squares are not scaled, so
    /// they may overflow. The derivative is 0 where the norm or the element is 0. Tied extremes share it evenly.
    #[track_caller]
    pub fn norm(self, p: f64, axes: impl Axes) -> Var<'g> {
        let Some(axes) = self.axes_at("norm", axes) else { return self.none() };
        if p.is_nan() || !self.dtype().is_float() {
            return self.refuse("norm", format!("no norm of order {p} of {}; f32 or f64 is needed", self.dtype()));
        }
        let axes = size_attrs_to_i64(&axes);
        let over = axes.as_slice();
        self.g.with_caller(|| match p {
            f64::INFINITY => self.abs().amax(over),
            f64::NEG_INFINITY => self.abs().amin(over),
            0.0 => self.not_equal(0.0).cast(self.dtype()).sum(over),
            1.0 => self.abs().sum(over),
            2.0 => reduce_root_with_zero_slope((self * self).sum(over)),
            _ => self.power_norm(p, over),
        })
    }

    /// [`Var::norm`] of any other order.
    #[track_caller]
    fn power_norm(self, p: f64, axes: &[i64]) -> Var<'g> {
        // 0ᵖ has no finite derivative for p < 1, so no power of a zero is taken.
        let zero = self.equal(0.0);
        let each = zero.select(if p > 0.0 { 0.0 } else { f64::INFINITY }, zero.select(1.0, self.abs()).pow(p));
        let sum = each.sum(axes);
        let edge = sum.equal(0.0).logical_or(sum.equal(f64::INFINITY));
        let limit = sum.equal(if p > 0.0 { 0.0 } else { f64::INFINITY }).select(0.0, sum.full_like(f64::INFINITY));
        edge.select(limit, edge.select(1.0, sum).pow(1.0 / p))
    }

    /// ln Σ eˣ of the elements so far along `axis`, each included, as in `torch.logcumsumexp`: a loop of ln(eᵃ + eᵇ),
    /// without overflow. The gradient of a run of −∞ is 0.
    #[track_caller]
    pub fn logcumsumexp(self, axis: i64) -> Var<'g> {
        let Some(at) = self.axis_at("logcumsumexp", axis) else { return self.none() };
        if !self.dtype().is_float() {
            return self.refuse("logcumsumexp", format!("no exponential of {}; f32 or f64 is needed", self.dtype()));
        }
        if self.numel() == 0 {
            return self;
        }
        self.g.with_caller(|| {
            let rows = self.movedim(&[size_attr_to_i64(at)], &[0]);
            let mut dims = self.dims().to_vec();
            dims.remove(at);
            let start = self.g.full(f64::NEG_INFINITY, dims, self.dtype());
            let (_, sums) = self.g.scan(&[start], &[rows], |sum, x| {
                let next = sum[0].stack(&[x[0]], 0).reduce(Op::LOGSUMEXP, 0, false);
                (vec![next], vec![next])
            });
            sums[0].movedim(&[0], &[size_attr_to_i64(at)])
        })
    }
}
