//! Leaves: values that come from outside the graph, with their attributes, start values and op definitions. Their op
//! ids are fixed, so that [`Emit`](super::emit::Emit), the verifier and the text form need no op table.

use crate::arena::{Shape, Sym};
use crate::ensure;
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::op::Op;
use crate::nodes::ir::opdef::{Arity, Batch, Deriv, Flags, Lower, OpDef};

/// Whether a leaf can be called `name`: not if it is empty or has a control character, a quote or a backslash.
pub fn is_leaf_name(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c.is_control() || c == '"' || c == '\\')
}

pub use crate::nodes::ir::init::{Init, InitKind, LeafInit, StartValues};

impl Op {
    /// A value that the caller writes before a step.
    pub const INPUT: Op = Op(0);
    /// A trained value.
    pub const PARAM: Op = Op(1);
    /// A value kept from step to step.
    pub const STATE: Op = Op(2);
    /// An argument of a region.
    pub const ARG: Op = Op(3);

    /// True for a leaf of the entry. Its first attribute is its name.
    pub fn is_named_leaf(self) -> bool {
        matches!(self, Op::INPUT | Op::PARAM | Op::STATE)
    }
}

attrs! {
    /// The attribute that inputs, params and states begin with.
    pub struct NameAttrs {
        /// Its name.
        name: Sym,
    }
}

attrs! {
    /// Attributes of an input.
    pub struct InputAttrs {
        /// Its name.
        name: Sym,
        /// Its element type.
        dtype: DType,
        /// Its shape.
        shape: Shape,
        /// The value of all elements until the caller writes them.
        default: Option<f64>,
    }
}

attrs! {
    /// Attributes of a param.
    pub struct ParamAttrs {
        /// Its name.
        name: Sym,
        /// Its element type.
        dtype: DType,
        /// Its shape.
        shape: Shape,
        /// The rule of its start values.
        init: InitKind,
        /// The scale of `init`.
        scale: f64,
        /// True if the param is not trained.
        frozen: bool,
        /// The other numbers of `init`, or the elements.
        start: Option<Vec<f64>>,
    }
}

choice! {
    /// Whose a state is.
    pub enum StateOwner {
        /// A layer's: files of weights hold it, and copies of params take it along.
        Layer = "layer",
    }
}

attrs! {
    /// Attributes of a state.
    pub struct StateAttrs {
        /// Its name.
        name: Sym,
        /// Its element type.
        dtype: DType,
        /// Its shape.
        shape: Shape,
        /// The rule of its start values.
        init: InitKind,
        /// The scale of `init`.
        scale: f64,
        /// The param of which this state is the moving average.
        averages: Option<Sym>,
        /// Whose it is, if it is more than a value of this graph.
        owner: Option<StateOwner>,
        /// The other numbers of `init`, or the elements.
        start: Option<Vec<f64>>,
    }
}

attrs! {
    /// Attributes of an argument of a region.
    pub struct ArgAttrs {
        /// Its position among the arguments.
        index: i64,
        /// Its element type.
        dtype: DType,
        /// Its shape.
        shape: Shape,
    }
}

impl ParamAttrs {
    /// The start values.
    pub fn leaf_init(&self) -> LeafInit {
        LeafInit::new(self.init, self.scale, self.start.clone())
    }
}

impl StateAttrs {
    /// The start values.
    pub fn leaf_init(&self) -> LeafInit {
        LeafInit::new(self.init, self.scale, self.start.clone())
    }
}

/// Infers the type that the attributes of a leaf state.
pub(in crate::nodes) fn infer_stated_type(cx: &mut Infer<'_>, dtype: DType, shape: Shape) -> Result<(), String> {
    cx.out.push(Ty { dtype, shape });
    Ok(())
}

/// An error unless `scale` is finite, not negative, and at most the largest number of `dtype`.
fn check_init_scale(dtype: DType, scale: f64) -> Result<(), String> {
    ensure!(scale >= 0.0 && scale.is_finite(), "scale is {scale}; it must be finite and not negative");
    let most = match dtype {
        DType::F16 => half::f16::MAX.to_f64(),
        DType::BF16 => half::bf16::MAX.to_f64(),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    ensure!(scale <= most, "scale is {scale}; the largest {dtype} is {most:e}");
    Ok(())
}

/// An op definition without operands and without a kernel.
pub(in crate::nodes) const fn define_without_operands(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [Field],
    deriv: Deriv,
    infer: fn(&mut Infer<'_>) -> Result<(), String>,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(0),
        attrs,
        flags: Flags::LEAF,
        infer,
        deriv,
        batch: Batch::Leading,
        lower: Lower::Leaf,
        cost: |_| 0,
        cases: &[],
        ..OpDef::BLANK
    }
}

/// A value that the caller writes before each step.
pub const INPUT: OpDef = define_without_operands(
    "input",
    "a value that the caller writes before each step; until then all its elements are `default`, if there is one",
    InputAttrs::FIELDS,
    Deriv::Zero,
    |cx| {
        let InputAttrs { dtype, shape, default, .. } = InputAttrs::of(&cx.attrs);
        if let Some(x) = default {
            ensure!(dtype.can_hold(x), "{x} is no default of {dtype}");
        }
        infer_stated_type(cx, dtype, shape)
    },
);

/// A trained value.
pub const PARAM: OpDef = define_without_operands(
    "param",
    "a trained value, kept from step to step",
    ParamAttrs::FIELDS,
    Deriv::Zero,
    |cx| {
        let attrs = ParamAttrs::of(&cx.attrs);
        let ParamAttrs { dtype, shape, scale, .. } = attrs;
        check_init_scale(dtype, scale)?;
        attrs.leaf_init().check(dtype, &cx.shapes.dims(shape))?;
        infer_stated_type(cx, dtype, shape)
    },
);

/// A value kept from step to step.
pub const STATE: OpDef = define_without_operands(
    "state",
    "a value kept from step to step; the moving average of param `averages`, or a buffer of its `owner`, if given",
    StateAttrs::FIELDS,
    Deriv::Zero,
    |cx| {
        let attrs = StateAttrs::of(&cx.attrs);
        let StateAttrs { dtype, shape, scale, .. } = attrs;
        check_init_scale(dtype, scale)?;
        attrs.leaf_init().check(dtype, &cx.shapes.dims(shape))?;
        infer_stated_type(cx, dtype, shape)
    },
);

/// An argument of a region.
pub const ARG: OpDef =
    define_without_operands("arg", "argument `index` of a region", ArgAttrs::FIELDS, Deriv::Zero, |cx| {
        let ArgAttrs { dtype, shape, .. } = ArgAttrs::of(&cx.attrs);
        infer_stated_type(cx, dtype, shape)
    });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_leaves_begin_with_their_name() {
        for fields in [InputAttrs::FIELDS, ParamAttrs::FIELDS, StateAttrs::FIELDS] {
            assert!(fields.starts_with(NameAttrs::FIELDS), "{fields:?}");
        }
    }

    #[test]
    fn a_scale_is_at_most_the_largest_number_of_its_type() {
        let f16 = (DType::F16, 65504.0);
        for (dtype, most) in [f16, (DType::F32, f64::from(f32::MAX)), (DType::F64, f64::MAX)] {
            assert_eq!([0.0, most].map(|scale| check_init_scale(dtype, scale)), [Ok(()), Ok(())]);
            for scale in [-1.0, 2.0 * most, f64::NAN] {
                assert!(check_init_scale(dtype, scale).is_err(), "{dtype}: {scale}");
            }
        }
    }
}
