//! Leaves: values that come from outside the graph, with their attributes and start values. Their op ids are fixed, so
//! that [`Emit`](super::emit::Emit), the verifier and the text form need no op table.

use crate::arena::{Shape, Sym};
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::op::Op;

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
    pub fn leaf_init(&self) -> Init {
        Init::from_attrs(self.init, self.scale)
    }
}

impl StateAttrs {
    /// The start values.
    pub fn leaf_init(&self) -> Init {
        Init::from_attrs(self.init, self.scale)
    }
}

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
