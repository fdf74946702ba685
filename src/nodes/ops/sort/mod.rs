//! Positions of elements in sorted order, and of running extremes. `take_along_axis` gives the values, and its
//! derivative moves gradients back to where the values came from.

pub mod attrs;
pub mod lower;
pub mod var;

use crate::ensure;
use crate::nodes::build::axes::check_axis;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ops::sort::attrs::{ArgSortAttrs, CumArgMaxAttrs};

const POSITIONS: usize = i32::MAX as usize;

/// The positions that sort the last axis.
pub const ARG_SORT: OpDef = OpDef {
    name: "arg_sort",
    doc: "positions (i32) of the elements along the last axis in sorted order: equal ones in their order, NaN last",
    arity: Arity::Exactly(1),
    attrs: ArgSortAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::STEP),
    infer: |cx| {
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        ensure!(dtype.is_float() || dtype.is_index(), "no order of {dtype}; cast it");
        let n = d.last().copied().ok_or("x is a scalar; it needs an axis to sort")?;
        ensure!(i32::try_from(n).is_ok(), "the last axis of {d} is too long for i32 positions");
        cx.result(DType::I32, &d)
    },
    deriv: Deriv::Zero,
    batch: Batch::Leading,
    decompose: None,
    lower: Lower::Kernel(lower::lower_arg_sort),
    cost: |cx| cx.arg(0) * 8,
    cases: &[
        Case { args: "f[3,17]", attrs: "descending=false", domains: &[Domain::Distinct] },
        Case { args: "f[2,2,40]", attrs: "descending=true", domains: &[Domain::Distinct] },
        Case { args: "i32[9]", attrs: "descending=true", domains: &[Domain::Index(4)] },
        Case { args: "f[0,4]", attrs: "descending=false", domains: &[Domain::Distinct] },
        Case { args: "f[4,0]", attrs: "descending=false", domains: &[Domain::Distinct] },
    ],
};

fn batch_cum_arg_max<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let a = CumArgMaxAttrs::of(&s.site.attrs);
    s.emit(s.site.args, &CumArgMaxAttrs { axis: a.axis + 1, ..a }.list())
}

/// The position of the running maximum or minimum along an axis.
pub const CUM_ARG_MAX: OpDef = OpDef {
    name: "cum_arg_max",
    doc: "position (i32) of the largest (or, if `smallest`, smallest) element so far along `axis`: the last of equals, \
          the last NaN once there is one",
    arity: Arity::Exactly(1),
    attrs: CumArgMaxAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::STEP),
    infer: |cx| {
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        ensure!(dtype.is_float() || dtype.is_index(), "no order of {dtype}; cast it");
        let axis = check_axis(CumArgMaxAttrs::of(&cx.attrs).axis, d.len())?;
        ensure!(d[axis] <= POSITIONS, "axis {axis} of {d} is too long for i32 positions");
        cx.result(DType::I32, &d)
    },
    deriv: Deriv::Zero,
    batch: Batch::Rule(batch_cum_arg_max),
    decompose: None,
    lower: Lower::Kernel(lower::lower_cum_arg_max),
    cost: |cx| cx.arg(0),
    cases: &[
        Case { args: "f[3,17]", attrs: "axis=1 smallest=false", domains: &[Domain::Distinct] },
        Case { args: "f[4,6,5]", attrs: "axis=1 smallest=true", domains: &[Domain::Distinct] },
        Case { args: "i64[9,2]", attrs: "axis=0 smallest=false", domains: &[Domain::Index(4)] },
    ],
};
