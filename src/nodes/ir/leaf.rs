//! Leaves: values that come from outside the graph. Their op ids are fixed, so that [`Emit`](super::emit::Emit), the
//! verifier and the text form need no op table.

use crate::arena::{Shape, Sym};
use crate::ensure;
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Deriv, Flags, Lower, Op, OpDef};
use crate::nodes::ir::typed::{attrs, choice};

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

choice! {
    /// The distribution of a leaf's start values. The attribute `scale` is its width. See [`Init`].
    pub enum InitKind {
        /// All 0.
        Zeros = "zeros",
        /// All 1.
        Ones = "ones",
        /// Uniform in ±scale.
        Uniform = "uniform",
        /// Normal with mean 0; the scale is the standard deviation.
        Normal = "normal",
    }
}

/// Start values of a param or a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// Uniform in ±bound.
    Uniform(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
}

impl Init {
    /// The attributes `init` and `scale` of a leaf.
    pub fn attrs(self) -> (InitKind, f64) {
        match self {
            Init::Zeros => (InitKind::Zeros, 0.0),
            Init::Ones => (InitKind::Ones, 0.0),
            Init::Uniform(bound) => (InitKind::Uniform, bound),
            Init::Normal(deviation) => (InitKind::Normal, deviation),
        }
    }

    /// From the attributes `init` and `scale` of a leaf.
    pub fn from_attrs(init: InitKind, scale: f64) -> Init {
        match init {
            InitKind::Zeros => Init::Zeros,
            InitKind::Ones => Init::Ones,
            InitKind::Uniform => Init::Uniform(scale),
            InitKind::Normal => Init::Normal(scale),
        }
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
        /// The distribution of its start values.
        init: InitKind,
        /// The scale of `init`.
        scale: f64,
        /// True if the param is not trained.
        frozen: bool,
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
        /// The distribution of its start values.
        init: InitKind,
        /// The scale of `init`.
        scale: f64,
        /// The param of which this state is the moving average.
        averages: Option<Sym>,
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
    pub fn start(&self) -> Init {
        Init::from_attrs(self.init, self.scale)
    }
}

impl StateAttrs {
    /// The start values.
    pub fn start(&self) -> Init {
        Init::from_attrs(self.init, self.scale)
    }
}

/// Infers the type that the attributes of a leaf state.
pub(in crate::nodes) fn stated(cx: &mut Infer<'_>, dtype: DType, shape: Shape) -> Result<(), String> {
    cx.out.push(Ty { dtype, shape });
    Ok(())
}

/// An error unless `scale` is finite, not negative, and at most the largest number of `dtype`.
fn check_scale(dtype: DType, scale: f64) -> Result<(), String> {
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
pub(in crate::nodes) const fn leaf(
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
        decompose: None,
        lower: Lower::Leaf,
        cost: |_| 0,
        cases: &[],
    }
}

/// A value that the caller writes before each step.
pub const INPUT: OpDef = leaf(
    "input",
    "a value that the caller writes before each step; until then all its elements are `default`, if there is one",
    InputAttrs::FIELDS,
    Deriv::Zero,
    |cx| {
        let InputAttrs { dtype, shape, default, .. } = InputAttrs::of(&cx.attrs);
        if let Some(x) = default {
            ensure!(dtype.can_hold(x), "{x} is no default of {dtype}");
        }
        stated(cx, dtype, shape)
    },
);

/// A trained value.
pub const PARAM: OpDef =
    leaf("param", "a trained value, kept from step to step", ParamAttrs::FIELDS, Deriv::Zero, |cx| {
        let ParamAttrs { dtype, shape, scale, .. } = ParamAttrs::of(&cx.attrs);
        check_scale(dtype, scale)?;
        stated(cx, dtype, shape)
    });

/// A value kept from step to step.
pub const STATE: OpDef = leaf(
    "state",
    "a value kept from step to step; the moving average of param `averages`, if that is given",
    StateAttrs::FIELDS,
    Deriv::Zero,
    |cx| {
        let StateAttrs { dtype, shape, scale, .. } = StateAttrs::of(&cx.attrs);
        check_scale(dtype, scale)?;
        stated(cx, dtype, shape)
    },
);

/// An argument of a region.
pub const ARG: OpDef = leaf("arg", "argument `index` of a region", ArgAttrs::FIELDS, Deriv::Zero, |cx| {
    let ArgAttrs { dtype, shape, .. } = ArgAttrs::of(&cx.attrs);
    stated(cx, dtype, shape)
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
}
