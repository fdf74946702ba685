//! Implicit broadcasting as in NumPy, made explicit in the graph.

use crate::arena::intern::Dims;
use crate::error::Kind;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

/// The shape that `a` and `b` broadcast to (trailing alignment, as NumPy), or `None`.
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

/// The right-hand side of an operator: a value, or a number.
pub trait Operand<'g> {
    /// The operand of `op` as a value beside `like`: a number takes its type. A number that is no element of it, such
    /// as a fraction beside integers, is an error.
    fn var_like(self, like: Var<'g>, op: Op) -> Var<'g>;
}

impl<'g> Operand<'g> for Var<'g> {
    fn var_like(self, _: Var<'g>, _: Op) -> Var<'g> {
        self
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
}

impl<'g> Var<'g> {
    /// A two-operand op after broadcasting both operands to one shape.
    #[track_caller]
    pub fn pair(self, op: Op, b: Var<'g>) -> Var<'g> {
        let (da, db) = (self.dims(), b.dims());
        // What is no value of this builder is refused there.
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
