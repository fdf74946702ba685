//! NumPy broadcasting: implicit in builder methods, explicit in the graph.

use crate::arena::dims::Dims;
use crate::error::Kind;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::Op;

/// The common shape of `a` and `b` by NumPy's rule, or `None`: shapes are aligned at their last axes, and an axis of
/// length 1 repeats.
pub fn broadcast_dims(a: &[usize], b: &[usize]) -> Option<Dims> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut out = Dims::new(long)?;
    let lead = long.len() - short.len();
    for (o, &s) in out.make_mut()[lead..].iter_mut().zip(short) {
        *o = match (*o, s) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => return None,
        };
    }
    Some(out)
}

impl<'g> Var<'g> {
    /// `op` on `self` and `b`, after both are broadcast to their common shape.
    #[track_caller]
    pub fn pair(self, op: Op, b: Var<'g>) -> Var<'g> {
        let (da, db) = (self.dims(), b.dims());
        // `emit1` refuses values of another builder.
        if da == db || !self.is_some() || !b.is_some() || !std::ptr::eq(self.g, b.g) {
            return self.g.emit1(op, &[self, b], &[]);
        }
        let Some(dims) = broadcast_dims(&da, &db) else {
            let name = self.g.op_name(op);
            return self.g.fail(Kind::Shape, format!("{name}: shapes {da} and {db} do not broadcast"));
        };
        self.g.emit1(op, &[self.broadcast(dims), b.broadcast(dims)], &[])
    }

    /// The sum over the axes that a broadcast from `dims` repeats: the transpose of [`Var::broadcast`]. It is an error
    /// if `dims` do not broadcast to this shape.
    #[track_caller]
    pub fn unbroadcast(self, dims: &[usize]) -> Var<'g> {
        let from = self.dims();
        if *from == *dims || !self.is_some() {
            return self;
        }
        if broadcast_dims(dims, &from) != Some(from) {
            let text = format!("unbroadcast({self:?}): {} does not broadcast to {from}", Infer::show_dims(dims));
            return self.g.fail(Kind::Shape, text);
        }
        let lead = from.len() - dims.len();
        let axes: Vec<i64> =
            (0..from.len()).filter(|&i| i < lead || (dims[i - lead] == 1 && from[i] != 1)).map(|i| i as i64).collect();
        self.reduce(Op::REDUCE_SUM, axes.as_slice(), false).reshape(dims)
    }
}
