//! Order: positions of the elements of a row in sorted order. Values follow by `take_along_axis`, whose derivative puts
//! gradients back where the values came from.

use super::lowering::moves;
use crate::ensure;
use crate::nodes::attrs::{Field, Kind};
use crate::nodes::dtype::DType;
use crate::nodes::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, OpDef};

/// See `doc`.
pub const ARG_SORT: OpDef = OpDef {
    name: "arg_sort",
    doc: "positions (i32) of the elements along the last axis in sorted order: equal ones in their order, NaN last",
    arity: Arity::Exactly(1),
    attrs: &[Field::new("descending", Kind::Bool)],
    flags: Flags::PURE,
    infer: |cx| {
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        ensure!(dtype.is_float() || dtype.is_index(), "no order of {dtype}; cast it");
        let n = d.last().copied().ok_or("x is a scalar; it needs an axis to sort")?;
        ensure!(i32::try_from(n).is_ok(), "the last axis of {d} is too long for i32 positions");
        cx.result(DType::I32, &d)
    },
    deriv: Deriv::Zero,
    decompose: None,
    lower: Lower::Kernel(moves::arg_sort),
    cost: |cx| cx.arg(0) * 8,
    cases: &[
        Case { args: "f[3,17]", attrs: "descending=false", domains: &[Domain::Distinct] },
        Case { args: "f[2,2,40]", attrs: "descending=true", domains: &[Domain::Distinct] },
        Case { args: "i32[9]", attrs: "descending=true", domains: &[Domain::Index(4)] },
        Case { args: "f[0,4]", attrs: "descending=false", domains: &[Domain::Distinct] },
        Case { args: "f[4,0]", attrs: "descending=false", domains: &[Domain::Distinct] },
    ],
};
