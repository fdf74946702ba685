//! Choices between two values or numbers, as methods of [`Var`].

use crate::nodes::build::broadcast::Operand;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;

impl<'g> Var<'g> {
    /// The number `a` where this bool is true, `b` elsewhere, as `dtype`, which must hold both.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    ///
    /// let g = Builder::new("signs");
    /// let x = g.input("x", [3], DType::F32);
    /// x.less(0.0).select_as(-1.0, 1.0, DType::I32).tap("sign");
    /// let mut p = Session::new().compile(&g.finish([])?)?;
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[-2.0, 0.0, 3.0]);
    /// p.step()?;
    /// assert_eq!(p.values::<i32>("sign")?, [-1, 1, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn select_as(self, a: f64, b: f64, dtype: DType) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        if let Some(x) = [a, b].into_iter().find(|&x| !dtype.can_hold(x)) {
            return self.refuse("select_as", format!("{x:?} is no element of {dtype}"));
        }
        self.g.with_caller(|| self.select(self.g.full(a, [], dtype), b))
    }

    /// This value where `cond` is true, `other` (a value or a number) elsewhere, as `torch.Tensor.where`: the same as
    /// `cond.select(self, other)`.
    #[track_caller]
    pub fn where_(self, cond: Var<'g>, other: impl Operand<'g>) -> Var<'g> {
        cond.select(self, other)
    }
}
