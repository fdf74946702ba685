//! Constants: stored elements, fills, and counters.

pub mod attrs;
pub mod builder;
pub mod lower;

use crate::ensure;
use crate::nodes::arguments::axes::check_axis;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::leaf::{define_without_operands, infer_stated_type};
use crate::nodes::ir::opdef::{Case, Deriv, Flags, Lower, OpDef};
use crate::nodes::ops::constant::attrs::{ConstantAttrs, ConstantType, FullAttrs, IotaAttrs};

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let ConstantType { dtype, shape } = ConstantType::of(&cx.attrs);
    infer_stated_type(cx, dtype, shape)?;
    let want = cx.shapes.dims(shape).numel() * dtype.size();
    let have = ConstantAttrs::data_len(&cx.attrs);
    ensure!(have == want, "{have} bytes where the type takes {want}");
    if dtype == DType::Bool {
        let data = ConstantAttrs::of(&cx.attrs).data;
        if let Some(i) = DType::Bool.misfit(&data) {
            return Err(format!("element {i} is {}; a bool is 0 or 1", data[i]));
        }
    }
    Ok(())
}

/// A tensor whose elements are stored in the graph.
pub const CONSTANT: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::MOVE),
    cases: &[Case { args: "", attrs: "dtype=f32 shape=[2] data=0x0000803f00000040", domains: &[] }],
    ..define_without_operands(
        "constant",
        "the elements in `data`: little-endian bytes in row-major order",
        ConstantAttrs::FIELDS,
        Deriv::Zero,
        infer_types,
    )
};

/// A tensor filled with one number.
pub const FULL: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::MOVE),
    lower: Lower::Kernel(lower::emit_full),
    cases: &[Case { args: "", attrs: "value=1.5 dtype=f32 shape=[2,3]", domains: &[] }],
    ..define_without_operands("full", "yᵢ = value", FullAttrs::FIELDS, Deriv::Zero, |cx| {
        let FullAttrs { value, dtype, shape } = FullAttrs::of(&cx.attrs);
        ensure!(dtype.holds(value), "{value} is no element of {dtype}");
        infer_stated_type(cx, dtype, shape)
    })
};

/// A tensor that counts along an axis.
pub const IOTA: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::MOVE),
    lower: Lower::Kernel(lower::emit_iota),
    cases: &[
        Case { args: "", attrs: "axis=0 dtype=i32 shape=[4,3]", domains: &[] },
        Case { args: "", attrs: "axis=1 dtype=f64 shape=[4,3]", domains: &[] },
    ],
    ..define_without_operands("iota", "0, 1, 2 … along `axis`", IotaAttrs::FIELDS, Deriv::Zero, |cx| {
        let IotaAttrs { axis, dtype: d, shape } = IotaAttrs::of(&cx.attrs);
        ensure!(!matches!(d, DType::I8 | DType::U8) && (d.is_float() || d.is_int()), "no iota of {d}; cast it");
        let at = check_axis(axis, cx.shapes.dims(shape).len())?;
        let last = cx.shapes.dims(shape)[at].saturating_sub(1);
        ensure!(d.is_float() || d.holds(last as f64), "{last} is no element of {d}");
        infer_stated_type(cx, d, shape)
    })
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_begins_with_its_type() {
        assert_eq!(ConstantAttrs::FIELDS.split_last().map(|f| f.1), Some(ConstantType::FIELDS));
    }
}
