//! Which params, states and inputs hold a value, and their bytes for those who write them by name.

use super::Program;
use super::method::Method;
use crate::error::Result;
use crate::session::bindings::{Binding, Role};

impl Program {
    /// True if the param or state called `name` was initialised, loaded or written, or is a state that starts with
    /// zeros.
    pub fn holds_value(&self, name: &str) -> bool {
        let of = |(i, b): (usize, &Binding)| b.is_persistent() && b.name == name && self.fresh.holds_value(i, b);
        self.bindings.iter().enumerate().any(of)
    }

    /// The binding of the param or state called `name`, and its bytes, writable.
    pub fn persistent_mut(&mut self, name: &str) -> Result<(&Binding, &mut [u8])> {
        self.leaf_mut("param or state", name, &|role| matches!(role, Role::Param | Role::State))
    }

    /// The binding called `name` whose role is `wanted`, and its bytes, writable; the error calls it a `what`.
    pub(crate) fn leaf_mut(
        &mut self,
        what: &str,
        name: &str,
        wanted: &dyn Fn(Role) -> bool,
    ) -> Result<(&Binding, &mut [u8])> {
        let i = self.named(0, what, name, wanted)?;
        self.check_writable(i)?;
        self.fresh.put(i);
        let b = &self.bindings[i];
        Ok((b, self.arena.slice_mut(b.range())))
    }

    /// The input, param or state called `name` counts as unset: a step that reads it is refused, or finds zeros where a
    /// state starts at zero.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Ok(i) = self.named(0, "input, param or state", name, &|role| role != Role::Output) {
            if self.check_writable(i).is_err() {
                return;
            }
            self.fresh.clear(i);
            let range = self.bindings[i].range();
            self.arena.slice_mut(range).fill(0);
        }
    }

    /// The input, param or state called `name` counts as written: for those who write its bytes in another way than by
    /// this program's methods, as views of other languages do.
    ///
    /// # Errors
    /// There is no input, param or state of that name.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let mut p = Session::new().compile(&g.finish([(g.input("x", [2], DType::F32) + 1.0).named("y")])?)?;
    /// assert!(p.step().is_err()); // "x" was never written
    /// p.mark_written("x")?; // it holds zeros
    /// p.step()?;
    /// assert_eq!(p.values::<f32>("y")?, [1.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn mark_written(&mut self, name: &str) -> Result<()> {
        self.leaf_mut("input, param or state", name, &|role| role != Role::Output).map(drop)
    }

    /// As [`Program::mark_written`], of method `m`: its own inputs, and the params and states of all methods.
    ///
    /// # Errors
    /// The method is another program's, or has no input, param or state of that name.
    pub fn mark_written_of(&mut self, m: Method, name: &str) -> Result<()> {
        let at = self.method_number(m)?;
        let i = self.named(at, "input, param or state", name, &|role| role != Role::Output)?;
        self.check_writable(i)?;
        self.fresh.put(i);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::nodes::{Builder, DType, Init};
    use crate::session::Session;

    #[test]
    fn what_is_marked_as_written_may_be_read() {
        let g = Builder::new("g");
        let (x, w) = (g.input("x", [2], DType::F32), g.param("w", [2], DType::F32, Init::Ones));
        let mut p = Session::new().compile(&g.finish([(x * w).named("y")]).unwrap()).unwrap();
        assert!(p.step().unwrap_err().message.starts_with("input \"x\" (f32[2]) was never written"));
        p.mark_written("x").unwrap();
        assert!(p.step().unwrap_err().message.starts_with("param \"w\" (f32[2]) was neither initialised"));
        assert!(!p.holds_value("w"));
        p.mark_written("w").unwrap();
        assert!(p.holds_value("w"));
        p.step().unwrap();
        assert_eq!(p.values::<f32>("y").unwrap(), [0.0, 0.0]);
        let e = p.mark_written("y").unwrap_err().message;
        assert!(e.starts_with("there is no input, param or state \"y\""), "{e}");
    }

    #[test]
    fn an_input_of_a_method_is_marked_for_it_alone() {
        let of = |name: &str| {
            let g = Builder::new(name);
            let (x, w) = (g.input("x", [2], DType::F32), g.param("w", [2], DType::F32, Init::Ones));
            g.finish([(x * w).named("y")]).unwrap()
        };
        let (a, b) = (of("a"), of("b"));
        let mut p = Session::new().compile_all(&[("a", &a), ("b", &b)]).unwrap();
        p.init(0).unwrap();
        let b = p.method("b").unwrap();
        p.mark_written_of(b, "x").unwrap();
        p.run(b).unwrap();
        assert!(p.step().unwrap_err().message.starts_with("input \"x\" (f32[2]) was never written"));
        let e = p.mark_written_of(b, "y").unwrap_err().message;
        assert!(e.starts_with("there is no input, param or state \"y\""), "{e}");
    }
}
