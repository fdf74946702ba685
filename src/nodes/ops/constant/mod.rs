//! Constants: bytes, one number everywhere, and counters.

pub mod lower;
pub mod var;
use crate::ensure;
use crate::nodes::ir::attrs::{Field, Kind};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::leaf::{leaf, stated};
use crate::nodes::ir::opdef::{Case, Flags, Lower, OpDef};

/// See `doc`.
pub const CONSTANT: OpDef = OpDef {
    flags: Flags::PURE,
    infer: |cx| {
        stated(cx, 0)?;
        let want = cx.shapes.dims(cx.attrs.shape(1)).numel() * cx.attrs.dtype(0).size();
        let have = cx.attrs.words.get(2).map_or(0, |&n| n as usize);
        ensure!(have == want, "{have} bytes where the type takes {want}");
        if cx.attrs.dtype(0) == DType::Bool {
            let data = cx.attrs.bytes(2);
            if let Some(i) = DType::Bool.misfit(&data) {
                return Err(format!("element {i} is {}; a bool is 0 or 1", data[i]));
            }
        }
        Ok(())
    },
    cases: &[Case { args: "", attrs: "dtype=f32 shape=[2] data=0x0000803f00000040", domains: &[] }],
    ..leaf(
        "constant",
        "little-endian bytes in row-major order",
        &[Field::new("dtype", Kind::DType), Field::new("shape", Kind::Shape), Field::new("data", Kind::Bytes)],
    )
};

/// See `doc`.
pub const FULL: OpDef = OpDef {
    flags: Flags::PURE,
    infer: |cx| {
        let (value, dtype) = (cx.attrs.f64(0), cx.attrs.dtype(1));
        ensure!(dtype != DType::C64, "no kernel fills c64");
        ensure!(dtype.holds(value), "{value} is no element of {dtype}");
        stated(cx, 1)
    },
    lower: Lower::Kernel(lower::full),
    cases: &[Case { args: "", attrs: "value=1.5 dtype=f32 shape=[2,3]", domains: &[] }],
    ..leaf(
        "full",
        "yᵢ = value",
        &[Field::new("value", Kind::F64), Field::new("dtype", Kind::DType), Field::new("shape", Kind::Shape)],
    )
};

/// See `doc`.
pub const IOTA: OpDef = OpDef {
    flags: Flags::PURE,
    infer: |cx| {
        let d = cx.attrs.dtype(1);
        ensure!(!matches!(d, DType::I8 | DType::U8) && (d.is_float() || d.is_int()), "no iota of {d}; cast it");
        let rank = cx.shapes.dims(cx.attrs.shape(2)).len();
        cx.axis(0, rank)?;
        stated(cx, 1)
    },
    lower: Lower::Kernel(lower::iota),
    cases: &[
        Case { args: "", attrs: "axis=0 dtype=i32 shape=[4,3]", domains: &[] },
        Case { args: "", attrs: "axis=1 dtype=f64 shape=[4,3]", domains: &[] },
    ],
    ..leaf(
        "iota",
        "0, 1, 2 … along `axis`",
        &[Field::new("axis", Kind::Int), Field::new("dtype", Kind::DType), Field::new("shape", Kind::Shape)],
    )
};
