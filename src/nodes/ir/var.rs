//! Facts about the value of a [`Var`], such as its shape and its name.

use super::builder::{Builder, Var};
use super::dtype::{DType, Ty};
use crate::arena::dims::Dims;
use crate::arena::{Sym, Value};
use crate::error::Kind;

/// A [`Var`] without its builder, for those who cannot borrow one: bindings of other languages. [`Builder::var_of`]
/// gives the handle again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarId {
    v: Value,
    scope: u32,
    name: Sym,
}

impl Builder {
    /// The handle that `id` was made of, by [`Var::id`], on this builder. An id of another builder names some other
    /// value here, or none, which is then an error.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let id = g.input("x", [2], DType::F32).id();
    /// let y = g.var_of(id).exp(); // `id` has not borrowed `g`
    /// assert_eq!(y.dims()[..], [2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn var_of(&self, id: VarId) -> Var<'_> {
        Var { g: self, v: id.v, scope: id.scope, name: id.name }
    }
}

impl<'g> Var<'g> {
    /// What [`Builder::var_of`] makes this handle of.
    pub fn id(self) -> VarId {
        VarId { v: self.v, scope: self.scope, name: self.name }
    }

    /// Type.
    pub fn ty(self) -> Ty {
        self.g.with(|e| e.ty_in_region(self.v, self.scope).unwrap_or_else(|| e.ty(Value::NONE)))
    }

    /// Dimensions.
    pub fn dims(self) -> Dims {
        self.g.with(|e| match e.ty_in_region(self.v, self.scope) {
            Some(ty) => e.shapes.dims(ty.shape),
            None => Dims::default(),
        })
    }

    /// Element type.
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }

    /// Rank.
    pub fn rank(self) -> usize {
        self.dims().len()
    }

    /// The builder of the value's graph.
    pub fn builder(self) -> &'g Builder {
        self.g
    }

    /// The value's id in its graph; [`Value::NONE`] after an error.
    pub fn value(self) -> Value {
        self.v
    }

    /// Number of elements.
    pub fn numel(self) -> usize {
        self.dims().numel()
    }

    /// False if an error left no value: the op that should have made it was used wrongly.
    pub fn is_some(self) -> bool {
        self.v != Value::NONE
    }

    /// The same value with a name for [`Builder::finish`](super::builder::Builder::finish). Handles of one value may
    /// have different names. The text form shows the first name of a value.
    #[must_use = "the name belongs to the handle that is returned"]
    pub fn named(self, name: &str) -> Var<'g> {
        if name.is_empty() {
            return self;
        }
        let name = self.g.with(|e| {
            let name = e.strings.intern(name);
            e.set_name_in(self.v, self.scope, name);
            name
        });
        Var { name, ..self }
    }

    /// Makes this value an output called `name`, beside those of [`Builder::finish`](super::builder::Builder::finish).
    /// Returns it under that name. Use it to look at a value inside a layer. In the body of a loop it is an error:
    /// yield the value there.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("net");
    /// let x = g.input("x", [2], DType::F32);
    /// let h = x.exp().tap("h");
    /// let mut p = Session::new().compile(&g.finish([(h * h).sum(..).named("loss")])?)?;
    /// p.values_mut::<f32>("x")?.fill(0.0);
    /// p.step()?;
    /// assert_eq!(p.values::<f32>("h")?, [1.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn tap(self, name: &str) -> Var<'g> {
        let named = self.named(name);
        self.g.output(name, named);
        named
    }

    /// True if both are handles of one value.
    pub(crate) fn is_same_value(self, other: Var<'_>) -> bool {
        std::ptr::eq(self.g, other.g) && (self.v, self.scope) == (other.v, other.scope)
    }

    /// The value that an error leaves.
    pub(in crate::nodes) fn none(self) -> Var<'g> {
        self.g.var(Value::NONE)
    }

    /// Records the error "what(this value): why". Returns a value that later nodes skip.
    #[track_caller]
    pub(in crate::nodes) fn refuse(self, what: &str, why: impl std::fmt::Display) -> Var<'g> {
        self.g.fail(Kind::Shape, format!("{what}({self:?}): {why}"))
    }
}

impl std::fmt::Debug for Var<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}{}", self.v, self.dtype(), self.dims())
    }
}

#[cfg(test)]
mod tests {
    use crate::nodes::{Builder, DType};

    #[test]
    fn an_empty_name_changes_nothing() {
        let g = Builder::new("g");
        let x = g.input("x", [2], DType::F32);
        let graph = g.finish([x.exp().named(""), x.sin().named("z").named("")]).unwrap();
        let view = graph.view();
        let names: Vec<&str> = view.output_names.iter().map(|&name| view.str(name)).collect();
        assert_eq!(names, ["out0", "z"]);
    }
}
