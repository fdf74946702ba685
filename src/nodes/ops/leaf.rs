//! Leaves: values that come from outside, constants, and calls of regions.

use super::free;
use super::lowering::moves;
use crate::ensure;
use crate::nodes::attrs::{Field, Kind};
use crate::nodes::dtype::{DType, Ty};
use crate::nodes::infer::Infer;
use crate::nodes::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, OpDef};

const INITS: Kind = Kind::Choice(&["zeros", "ones", "uniform", "normal"]);

/// The type that attributes `i` and `i + 1` state.
fn stated(cx: &mut Infer<'_>, i: usize) -> Result<(), String> {
    cx.out.push(Ty { dtype: cx.attrs.dtype(i), shape: cx.attrs.shape(i + 1) });
    Ok(())
}

/// The type that a param or a state states. Its start values must be numbers.
fn start(cx: &mut Infer<'_>) -> Result<(), String> {
    let (dtype, scale) = (cx.attrs.dtype(1), cx.attrs.f64(4));
    ensure!(scale >= 0.0 && scale.is_finite(), "scale is {scale}; it must be finite and not negative");
    let most = match dtype {
        DType::F16 => half::f16::MAX.to_f64(),
        DType::BF16 => half::bf16::MAX.to_f64(),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    ensure!(scale <= most, "scale is {scale}; the largest {dtype} is {most:e}");
    stated(cx, 1)
}

const fn leaf(name: &'static str, doc: &'static str, attrs: &'static [Field]) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(0),
        attrs,
        flags: Flags::LEAF,
        infer: |cx| stated(cx, 1),
        deriv: Deriv::Zero,
        decompose: None,
        lower: Lower::Leaf,
        cost: free,
        cases: &[],
    }
}

/// See `doc`.
pub const INPUT: OpDef = OpDef {
    infer: |cx| {
        let (dtype, attrs) = (cx.attrs.dtype(1), cx.attrs);
        ensure!(!attrs.has(3) || dtype.can_hold(attrs.f64(3)), "{} is no default of {dtype}", attrs.f64(3));
        stated(cx, 1)
    },
    ..leaf(
    "input",
    "a value that the caller writes before each step; until then all its elements are `default`, if there is one",
    &[
        Field::new("name", Kind::Sym),
        Field::new("dtype", Kind::DType),
        Field::new("shape", Kind::Shape),
        Field::optional("default", Kind::F64),
    ],
    )
};

/// See `doc`.
pub const PARAM: OpDef = OpDef {
    infer: start,
    ..leaf(
        "param",
        "a trained value, kept from step to step",
        &[
            Field::new("name", Kind::Sym),
            Field::new("dtype", Kind::DType),
            Field::new("shape", Kind::Shape),
            Field::new("init", INITS),
            Field::new("scale", Kind::F64),
            Field::new("frozen", Kind::Bool),
        ],
    )
};

/// See `doc`.
pub const STATE: OpDef = OpDef {
    infer: start,
    ..leaf(
        "state",
        "a value kept from step to step; the moving average of param `averages`, if that is said",
        &[
            Field::new("name", Kind::Sym),
            Field::new("dtype", Kind::DType),
            Field::new("shape", Kind::Shape),
            Field::new("init", INITS),
            Field::new("scale", Kind::F64),
            Field::optional("averages", Kind::Sym),
        ],
    )
};

/// See `doc`.
pub const ARG: OpDef = leaf(
    "arg",
    "argument `index` of a region",
    &[Field::new("index", Kind::Int), Field::new("dtype", Kind::DType), Field::new("shape", Kind::Shape)],
);

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
    lower: Lower::Kernel(moves::full),
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
    lower: Lower::Kernel(moves::iota),
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

/// See `doc`.
pub const CALL: OpDef = OpDef {
    name: "call",
    doc: "the yields of region `body` on the operands",
    arity: Arity::AtLeast(0),
    attrs: &[Field::new("body", Kind::Region)],
    flags: Flags::PURE,
    infer: |cx| {
        let sig = cx.signature(0)?;
        ensure!(sig.args == cx.args, "operand types are not those of the region's {} arguments", sig.args.len());
        ensure!(!sig.yields.is_empty(), "the region yields nothing");
        cx.out.extend(sig.yields);
        Ok(())
    },
    deriv: Deriv::Error("calls are inlined before differentiation"),
    decompose: None,
    lower: Lower::Control,
    cost: free,
    cases: &[Case { args: "f[3] f[3]", attrs: "body=@case_body", domains: &[Domain::Real] }],
};
