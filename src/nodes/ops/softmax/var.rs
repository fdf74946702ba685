//! Methods of [`Var`]: softmax and its logarithm.

use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::softmax::SoftmaxAttrs;

impl<'g> Var<'g> {
    /// eˣ / Σ eˣ along `axis`.
    #[track_caller]
    pub fn softmax(self, axis: i64) -> Var<'g> {
        self.on_axis(Op::SOFTMAX, axis, |axis| self.g.emit1(Op::SOFTMAX, &[self], &SoftmaxAttrs { axis }.list()))
    }

    /// x − ln Σ eˣ along `axis`.
    #[track_caller]
    pub fn log_softmax(self, axis: i64) -> Var<'g> {
        self.on_axis(Op::LOG_SOFTMAX, axis, |axis| {
            self.g.emit1(Op::LOG_SOFTMAX, &[self], &SoftmaxAttrs { axis }.list())
        })
    }
}
