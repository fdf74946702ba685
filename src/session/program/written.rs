//! Which params, states and inputs hold a value, and their bytes for those who write them by name.

use super::Program;
use super::method::Method;
use crate::error::{Error, Kind, Result};
use crate::session::bindings::{Binding, Role};
use crate::session::elem;
use std::ops::Range;

/// What a caller may write, in words.
const LEAF: &str = "input, param or state";

/// Whether a caller may write it.
fn is_leaf(role: Role) -> bool {
    role != Role::Output
}

impl Program {
    /// True if the param or state called `name` was initialised, loaded or written, or is a state that starts with
    /// zeros.
    pub fn holds_value(&self, name: &str) -> bool {
        let of = |(i, b): (usize, &Binding)| b.is_persistent() && b.name == name && self.fresh.holds_value(i, b);
        self.bindings.iter().enumerate().any(of)
    }

    /// The params and states that [`Program::holds_value`] says no to.
    pub(crate) fn without_values(&self) -> impl Iterator<Item = &Binding> {
        let empty = |(i, b): &(usize, &Binding)| b.is_persistent() && !self.fresh.holds_value(*i, b);
        self.bindings.iter().enumerate().filter(empty).map(|(_, b)| b)
    }

    /// The binding of the param or state called `name`, and its bytes, writable.
    pub fn persistent_mut(&mut self, name: &str) -> Result<(&Binding, &mut [u8])> {
        self.leaf_mut(0, "param or state", name, &|role| matches!(role, Role::Param | Role::State))
    }

    /// Bytes `r` of the arena, those of params and states that follow one another, writable.
    pub(crate) fn leaf_bytes_mut(&mut self, r: Range<usize>) -> Result<&mut [u8]> {
        let (from, to) = (r.start, r.end);
        match self.arena.slice_mut(r) {
            found if found.len() == to - from => Ok(found),
            _ => {
                Err(Error::new(Kind::Data, format!("bytes {from} to {to} are not in one block of the program's arena")))
            }
        }
    }

    /// The binding of the method at `at` called `name` whose role is `wanted`, and its bytes, writable; the error calls
    /// it a `what`.
    pub(crate) fn leaf_mut(
        &mut self,
        at: usize,
        what: &str,
        name: &str,
        wanted: &dyn Fn(Role) -> bool,
    ) -> Result<(&Binding, &mut [u8])> {
        let i = self.named(at, what, name, wanted)?;
        self.check_writable(i)?;
        self.fresh.put(i);
        let b = &self.bindings[i];
        Ok((b, self.arena.slice_mut(b.range())))
    }

    /// The input, param or state called `name` counts as unset: a step that reads it is refused, or finds zeros where a
    /// state starts at zero.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Ok(i) = self.named(0, LEAF, name, &is_leaf) {
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
        self.leaf_mut(0, LEAF, name, &is_leaf).map(drop)
    }

    /// As [`Program::mark_written`], of method `m`. Errors: `m` is of another program, too.
    pub fn mark_written_of(&mut self, m: Method, name: &str) -> Result<()> {
        let at = self.method_number(m)?;
        self.leaf_mut(at, LEAF, name, &is_leaf).map(drop)
    }

    /// As [`Program::write_bytes`], into a tensor of method `m`. Errors: `m` is of another program, too.
    pub fn write_bytes_of(&mut self, m: Method, name: &str, bytes: &[u8]) -> Result<()> {
        self.write_bytes_at(self.method_number(m)?, name, bytes)
    }

    /// Writes the input, param or state called `name` of the method at `at`.
    pub(super) fn write_bytes_at(&mut self, at: usize, name: &str, bytes: &[u8]) -> Result<()> {
        let i = self.named(at, LEAF, name, &is_leaf)?;
        let b = &self.bindings[i];
        if bytes.len() != b.bytes {
            let (role, size, given) = (b.role.name(), b.bytes, bytes.len());
            return Err(Error::new(Kind::Data, format!("{role} {name:?} has {size} bytes; {given} are written")));
        }
        elem::check_value_bytes(b, bytes)?;
        self.check_writable(i)?;
        self.fresh.put(i);
        self.arena.slice_mut(b.range()).copy_from_slice(bytes);
        Ok(())
    }

    /// The tensor of method `m` called `name`, whatever its role: for those who reach its bytes by
    /// [`Program::bytes_of`]. Errors: there is none; an input, param or state has the same name as an output; `m` is of
    /// another program.
    pub fn tensor_of(&self, m: Method, name: &str) -> Result<&Binding> {
        let at = self.method_number(m)?;
        Ok(&self.bindings[self.tensor_at(at, name)?])
    }

    /// The index of the binding called `name` of the method at `at`, which no other tensor there is called.
    pub(super) fn tensor_at(&self, at: usize, name: &str) -> Result<usize> {
        let i = self.named(at, "tensor", name, &|_| true)?;
        let role = self.bindings[i].role;
        let output = || self.methods[at].index.find(&self.bindings, name, &|r| r == Role::Output);
        if role != Role::Output && output().is_some() {
            let (role, a) = (role.name(), if role == Role::Input { "an" } else { "a" });
            let e = format!("{a} {role} and an output are called {name:?}: ask for {role}(..) or output(..)");
            return Err(Error::new(Kind::Name, e));
        }
        Ok(i)
    }
}

#[cfg(test)]
mod tests {
    use crate::nodes::{Builder, DType, Init};
    use crate::session::{Program, Session};

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
    fn inputs_of_methods_are_written_by_name() {
        let method = |by: f64| {
            let g = Builder::new("g");
            g.finish([(g.input("x", [2], DType::F32) * by).named("y")]).unwrap()
        };
        let graphs = [("twice", method(2.0)), ("thrice", method(3.0))];
        let mut p = Session::new().compile_all(&graphs.each_ref().map(|(n, g)| (*n, g))).unwrap();
        let (twice, thrice) = (p.method("twice").unwrap(), p.method("thrice").unwrap());
        p.write_bytes_of(thrice, "x", bytemuck::cast_slice(&[1f32, 2.0])).unwrap();
        p.run(thrice).unwrap();
        let y = |p: &Program| bytemuck::pod_collect_to_vec::<u8, f32>(p.bytes_of(p.tensor_of(thrice, "y").unwrap()));
        assert_eq!(y(&p), [3.0, 6.0]);
        assert!(p.run(twice).is_err());
        p.mark_written_of(twice, "x").unwrap();
        p.run(twice).unwrap();
        let e = p.write_bytes_of(thrice, "x", &[0; 4]).unwrap_err().message;
        assert_eq!(e, "input \"x\" has 8 bytes; 4 are written");
        assert!(p.write_bytes_of(thrice, "y", &[0; 8]).is_err() && p.tensor_of(thrice, "z").is_err());
    }
}
