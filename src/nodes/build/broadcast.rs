//! NumPy broadcasting: implicit in builder methods, explicit in the graph.

use crate::arena::dims::Dims;
use crate::error::Kind;
use crate::nodes::ir::builder::Var;
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
}
