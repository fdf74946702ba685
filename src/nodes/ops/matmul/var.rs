//! Methods of [`Var`]: matrix products.

use crate::nodes::build::axes::to_i64s;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::matmul::attrs::{DotGeneralAttrs, MatmulAttrs};

impl<'g> Var<'g> {
    /// Matrix product of the last two axes; leading axes broadcast.
    #[track_caller]
    pub fn matmul(self, b: Var<'g>) -> Var<'g> {
        self.matmul_t(b, false, false)
    }

    /// Matrix product with either operand's last two axes exchanged first.
    #[track_caller]
    pub fn matmul_t(self, b: Var<'g>, ta: bool, tb: bool) -> Var<'g> {
        self.g.emit1(Op::MATMUL, &[self, b], &MatmulAttrs { ta, tb }.list())
    }

    /// XLA's general product: batch axes, then free axes of this, then free axes of `b`.
    #[track_caller]
    pub fn dot_general(self, b: Var<'g>, batch: [&[usize]; 2], contract: [&[usize]; 2]) -> Var<'g> {
        let ([batch_a, batch_b], [contract_a, contract_b]) = (batch.map(to_i64s), contract.map(to_i64s));
        let axes = DotGeneralAttrs { batch_a, batch_b, contract_a, contract_b };
        self.g.emit1(Op::DOT_GENERAL, &[self, b], &axes.list())
    }
}
