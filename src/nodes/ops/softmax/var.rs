//! Softmax and its logarithm as methods of [`Var`].

use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::softmax::attrs::SoftmaxAttrs;

impl<'g> Var<'g> {
    /// Softmax along `axis`: eˣ / Σ eˣ, without overflow, of `f32` or `f64`.
    #[track_caller]
    pub fn softmax(self, axis: i64) -> Var<'g> {
        self.on_axis(Op::SOFTMAX, axis, |axis| self.g.emit1(Op::SOFTMAX, &[self], &SoftmaxAttrs { axis }.list()))
    }

    /// Softmax of −x along `axis`, as in `torch.nn.functional.softmin`.
    #[track_caller]
    pub fn softmin(self, axis: i64) -> Var<'g> {
        self.g.with_caller(|| (-self).softmax(axis))
    }

    /// The logarithm of softmax along `axis`: x − ln Σ eˣ, without overflow, of `f32` or `f64`.
    #[track_caller]
    pub fn log_softmax(self, axis: i64) -> Var<'g> {
        self.on_axis(Op::LOG_SOFTMAX, axis, |axis| {
            self.g.emit1(Op::LOG_SOFTMAX, &[self], &SoftmaxAttrs { axis }.list())
        })
    }
}
