//! The activations, and derivatives of activations, that the epilogue of a product applies.

use crate::kernels::gemm::Act;
use crate::nodes::ir::attr_types::{Choice, choice};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

choice! {
    /// An activation that an epilogue can apply.
    pub enum Activation {
        /// The identity.
        None = "none",
        /// `relu`.
        Relu = "relu",
        /// `gelu`.
        Gelu = "gelu",
        /// `gelu_tanh`.
        GeluTanh = "gelu_tanh",
        /// `silu`.
        Silu = "silu",
        /// `tanh`.
        Tanh = "tanh",
        /// `sigmoid`.
        Sigmoid = "sigmoid",
    }
}

impl Activation {
    /// The point-wise op that computes it; the identity has none.
    pub fn op(self) -> Option<Op> {
        match self {
            Activation::None => None,
            Activation::Relu => Some(Op::RELU),
            Activation::Gelu => Some(Op::GELU),
            Activation::GeluTanh => Some(Op::GELU_TANH),
            Activation::Silu => Some(Op::SILU),
            Activation::Tanh => Some(Op::TANH),
            Activation::Sigmoid => Some(Op::SIGMOID),
        }
    }

    /// The epilogue that computes it.
    pub fn epilogue_act(self) -> Act {
        match self {
            Activation::None => Act::None,
            Activation::Relu => Act::Relu,
            Activation::Gelu => Act::Gelu,
            Activation::GeluTanh => Act::GeluTanh,
            Activation::Silu => Act::Silu,
            Activation::Tanh => Act::Tanh,
            Activation::Sigmoid => Act::Sigmoid,
        }
    }

    /// The activation that `op` computes.
    pub fn of_op(op: Op) -> Option<Activation> {
        (0..Activation::NAMES.len() as u32).map(Activation::from_choice_index).find(|a| a.op() == Some(op))
    }

    /// This activation of `y`.
    pub fn apply(self, y: Var<'_>) -> Var<'_> {
        self.op().map_or(y, |op| y.g.emit1(op, &[y], &[]))
    }
}

choice! {
    /// An act-grad epilogue. r is the result of the activation, of the product's shape.
    pub enum ActGrad {
        /// 1 where r > 0, else 0.
        Relu = "relu",
        /// 1 − r².
        Tanh = "tanh",
        /// r·(1 − r).
        Sigmoid = "sigmoid",
        /// r itself.
        Mul = "mul",
    }
}

impl ActGrad {
    /// The epilogue that computes it.
    pub fn epilogue_act(self) -> Act {
        match self {
            ActGrad::Relu => Act::ReluGrad,
            ActGrad::Tanh => Act::TanhGrad,
            ActGrad::Sigmoid => Act::SigmoidGrad,
            ActGrad::Mul => Act::Mul,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ops::table::OPS;

    #[test]
    fn an_activation_is_found_by_its_op() {
        for i in 1..Activation::NAMES.len() as u32 {
            let act = Activation::from_choice_index(i);
            let op = act.op().unwrap();
            assert_eq!(OPS[op.0 as usize].name, Activation::NAMES[i as usize]);
            assert_eq!(Activation::of_op(op), Some(act));
        }
        assert_eq!(Activation::of_op(Op::EXP), None);
    }
}
