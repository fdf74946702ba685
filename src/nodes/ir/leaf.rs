//! Leaves: values that come from outside. Their ids are fixed, so that writer, verifier and text form need no table.

use crate::ensure;
use crate::nodes::ir::attrs::{Field, Kind};
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Deriv, Flags, Lower, Op, OpDef};

impl Op {
    /// A value that the caller writes before each step.
    pub const INPUT: Op = Op(0);
    /// A trained value.
    pub const PARAM: Op = Op(1);
    /// A value kept from step to step.
    pub const STATE: Op = Op(2);
    /// An argument of a region.
    pub const ARG: Op = Op(3);
}

const INITS: Kind = Kind::Choice(&["zeros", "ones", "uniform", "normal"]);

/// The type that attributes `i` and `i + 1` state.
pub(in crate::nodes) fn stated(cx: &mut Infer<'_>, i: usize) -> Result<(), String> {
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

pub(in crate::nodes) const fn leaf(name: &'static str, doc: &'static str, attrs: &'static [Field]) -> OpDef {
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
        cost: |_| 0,
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
