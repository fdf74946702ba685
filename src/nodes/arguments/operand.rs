//! The right-hand side of an operator: a value or a number.

use crate::error::Kind;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

/// The right-hand side of an operator: a value or a number.
pub trait Operand<'g> {
    /// This operand of `op` as a value. A number becomes a fill of `like`'s type. An error if the dtype cannot
    /// represent it, such as a fraction next to integers.
    fn var_like(self, like: Var<'g>, op: Op) -> Var<'g>;

    /// The value, if this is no number.
    fn as_var(&self) -> Option<Var<'g>>;
}

impl<'g> Operand<'g> for Var<'g> {
    fn var_like(self, _: Var<'g>, _: Op) -> Var<'g> {
        self
    }

    fn as_var(&self) -> Option<Var<'g>> {
        Some(*self)
    }
}

impl<'g> Operand<'g> for f64 {
    #[track_caller]
    fn var_like(self, like: Var<'g>, op: Op) -> Var<'g> {
        match like.dtype().refuses(self).filter(|_| like.is_some()) {
            Some(why) => {
                let (name, dtype, dims) = (like.g.op_name(op), like.dtype(), like.dims());
                like.g.fail(Kind::Shape, format!("{name}({dtype}{dims}, {self}): {why}"))
            }
            None => like.full_like(self),
        }
    }

    fn as_var(&self) -> Option<Var<'g>> {
        None
    }
}
