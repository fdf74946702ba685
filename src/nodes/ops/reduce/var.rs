//! Methods of [`Var`] that reduce along axes.

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
    /// Sum over `axes`, which disappear.
    sum => REDUCE_SUM;
    /// Mean over `axes`, which disappear.
    mean => REDUCE_MEAN;
    /// Maximum over `axes`, which disappear.
    amax => REDUCE_MAX;
    /// Minimum over `axes`, which disappear.
    amin => REDUCE_MIN;
    /// Product over `axes`, which disappear.
    prod => REDUCE_PROD;
    /// ln Σ eˣ over `axes`, which disappear.
    logsumexp => LOGSUMEXP;
}

impl<'g> Var<'g> {
    /// A reduction over `axes`; with `keep`, they stay with size 1.
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

    /// Variance over `axes` with the divisor n − `correction` (0: biased; 1: as `torch.var`).
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

    /// Index of the first largest element along `axis`, which disappears.
    #[track_caller]
    pub fn arg_max(self, axis: i64, dtype: DType) -> Var<'g> {
        self.on_axis(Op::ARG_MAX, axis, |axis| {
            self.g.emit1(Op::ARG_MAX, &[self], &ArgExtremeAttrs { axis, dtype }.list())
        })
    }

    /// Index of the first smallest element along `axis`, which disappears.
    #[track_caller]
    pub fn arg_min(self, axis: i64, dtype: DType) -> Var<'g> {
        self.on_axis(Op::ARG_MIN, axis, |axis| {
            self.g.emit1(Op::ARG_MIN, &[self], &ArgExtremeAttrs { axis, dtype }.list())
        })
    }

    /// Running sum along `axis`: `exclusive` leaves the element itself out, `reverse` runs from the end.
    #[track_caller]
    pub fn cumsum(self, axis: i64, exclusive: bool, reverse: bool) -> Var<'g> {
        self.on_axis(Op::CUMSUM, axis, |axis| {
            self.g.emit1(Op::CUMSUM, &[self], &RunningAttrs { axis, exclusive, reverse }.list())
        })
    }

    /// Running product along `axis`: `exclusive` leaves the element itself out, `reverse` runs from the end.
    #[track_caller]
    pub fn cumprod(self, axis: i64, exclusive: bool, reverse: bool) -> Var<'g> {
        self.on_axis(Op::CUMPROD, axis, |axis| {
            self.g.emit1(Op::CUMPROD, &[self], &RunningAttrs { axis, exclusive, reverse }.list())
        })
    }
}
