//! Matrix products as methods of [`Var`].

use crate::error::Kind;
use crate::nodes::arguments::axes::axis_from_front;
use crate::nodes::arguments::broadcast::broadcast_dims;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::complex::forms::complex_product_form;
use crate::nodes::ops::matmul::attrs::{DotGeneralAttrs, MatmulAttrs};
use crate::nodes::ops::matmul::matmul_dims::matmul_dims;

impl<'g> Var<'g> {
    /// The matrix product of the last two axes: `[.., m, k]` by `[.., k, n]` gives `[.., m, n]`; leading axes
    /// broadcast. A vector `[k]` is a row on the left and a column on the right, and that axis is left out of the
    /// result, as in NumPy: `[.., m, k]` by `[k]` gives `[.., m]`, and two vectors give their inner product, a scalar.
    /// Both operands have one type: `f32`, `f64`, `c64`, `c128`, `i32`, `i64`, or `i8` or `u8`, whose product is `i32`.
    /// Sums of integers wrap.
    #[track_caller]
    pub fn matmul(self, b: Var<'g>) -> Var<'g> {
        let owned = self.is_some() && b.is_some() && self.g.owns("matmul", &[b]);
        let ranks = if owned { [self.rank(), b.rank()] } else { [2; 2] };
        // A scalar goes to the op, whose check says why it does not fit.
        if !ranks.contains(&1) || ranks.contains(&0) {
            return self.matmul_t(b, false, false);
        }
        let (da, db) = (self.dims(), b.dims());
        let [k, l] = [da[ranks[0] - 1], db[ranks[1].saturating_sub(2)]];
        if k != l {
            let text = format!("matmul({}{da}, {}{db}): inner dimensions {k} and {l} differ", self.dtype(), b.dtype());
            return self.g.fail(Kind::Shape, text);
        }
        self.g.with_caller(|| {
            let row = if ranks[0] == 1 { self.reshape([1, k]) } else { self };
            let column = if ranks[1] == 1 { b.reshape([l, 1]) } else { b };
            let y = row.matmul_t(column, false, false);
            if !y.is_some() {
                return y;
            }
            let mut dims = y.dims().to_vec();
            if ranks[1] == 1 {
                dims.pop();
            }
            if ranks[0] == 1 {
                dims.remove(dims.len() - 1 - usize::from(ranks[1] != 1));
            }
            y.reshape(dims)
        })
    }

    /// As [`Var::matmul`], with the last two axes of this exchanged first if `ta`, and those of `b` if `tb`. No copy is
    /// made.
    #[track_caller]
    pub fn matmul_t(self, b: Var<'g>, ta: bool, tb: bool) -> Var<'g> {
        if self.is_some() && b.is_some() && std::ptr::eq(self.g, b.g) && self.dtype().is_int() {
            return self.int_matmul(b, ta, tb);
        }
        match complex_product_form(Op::MATMUL, self, b, |x, y| x.matmul_t(y, ta, tb)) {
            Some(y) => y,
            None => self.g.emit1(Op::MATMUL, &[self, b], &MatmulAttrs { ta, tb }.list()),
        }
    }

    /// XLA's `DotGeneral`. `batch` and `contract` name axes of this and of `b`, in pairs of equal sizes; negative ones
    /// count from the end. The result has the batch axes, then the free axes of this, then the free axes of `b`;
    /// contracted axes are summed. The types are those of [`Var::matmul`].
    #[track_caller]
    pub fn dot_general(self, b: Var<'g>, batch: [&[i64]; 2], contract: [&[i64]; 2]) -> Var<'g> {
        let axes = |x: Var<'g>, list: &[i64]| list.iter().map(|&a| axis_from_front(a, x.rank())).collect();
        let (batch_a, batch_b) = (axes(self, batch[0]), axes(b, batch[1]));
        let (contract_a, contract_b) = (axes(self, contract[0]), axes(b, contract[1]));
        let axes = DotGeneralAttrs { batch_a, batch_b, contract_a, contract_b };
        let real = |x: Var<'g>, y: Var<'g>| x.g.emit1(Op::DOT_GENERAL, &[x, y], &axes.list());
        match complex_product_form(Op::DOT_GENERAL, self, b, real) {
            Some(y) => y,
            None => self.g.emit1(Op::DOT_GENERAL, &[self, b], &axes.list()),
        }
    }

    /// aᵢ·bⱼ of two vectors, `[n, m]`, as in `torch.outer`.
    #[track_caller]
    pub fn outer(self, b: Var<'g>) -> Var<'g> {
        if !self.g.owns("outer", &[b]) || !self.is_some() || !b.is_some() {
            return self.none();
        }
        if self.rank() != 1 || b.rank() != 1 {
            return self.refuse("outer", format!("shapes {} and {}; two vectors are needed", self.dims(), b.dims()));
        }
        self.g.with_caller(|| self.reshape([self.numel(), 1]) * b.reshape([1, b.numel()]))
    }

    /// [`Var::matmul_t`] of integers: the batch axes become one.
    #[track_caller]
    pub(super) fn int_matmul(self, b: Var<'g>, ta: bool, tb: bool) -> Var<'g> {
        let attrs = MatmulAttrs { ta, tb };
        let (da, db) = (self.dims(), b.dims());
        let fits = self.dtype() == b.dtype() && matmul_dims(&da, &db, ta, tb).is_ok();
        let (ra, rb) = (da.len().saturating_sub(2), db.len().saturating_sub(2));
        let batch = if fits { broadcast_dims(&da[..ra], &db[..rb]) } else { None };
        // Operands that do not fit go to the op, whose check says why.
        let Some(batch) = batch else { return self.g.emit1(Op::INT_MATMUL, &[self, b], &attrs.list()) };
        let count: usize = batch.iter().product();
        let flat = |x: Var<'g>, last: &[usize]| {
            x.broadcast([&batch[..], last].concat()).reshape([&[count][..], last].concat())
        };
        let y = self.g.emit1(Op::INT_MATMUL, &[flat(self, &da[ra..]), flat(b, &db[rb..])], &attrs.list());
        let last = y.dims();
        if y.is_some() { y.reshape([&batch[..], &last[1..]].concat()) } else { y }
    }
}
