//! Leaves: values that come from outside the graph, with their attributes and start values. Their op ids are fixed, so
//! that [`Emit`](super::emit::Emit), the verifier and the text form need no op table.

use crate::arena::{Shape, Sym};
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::op::Op;

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
