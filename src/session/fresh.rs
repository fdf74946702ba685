//! Tracks which leaves hold a value. A step that would read an unset leaf is refused.
//!
//! Invariant: `missing` counts the unset leaves that a method needs, so that a step looks at one number. Only
//! [`Program`](super::Program) uses it.

use super::bindings::{Binding, Role};
use crate::error::{Error, Kind};
use crate::nodes::ir::leaf::InitKind;

/// See the file's head.
#[derive(Clone)]
pub struct Fresh {
    /// Of each method: the bindings that its steps read.
    read: Vec<Vec<u32>>,
    /// Of each binding: whether it was initialised, loaded or written.
    set: Vec<bool>,
    /// Of each method, of each binding: whether a step needs it set.
    needed: Vec<Vec<bool>>,
    /// Of each method.
    missing: Vec<usize>,
}

/// Whether a step that reads the binding needs it set.
fn must_be_set(b: &Binding) -> bool {
    let open = match b.role {
        Role::Input => b.default.is_none(),
        Role::Param => true,
        // Zeros are there from the beginning, and a state's own start value is meant.
        Role::State => b.init.as_ref().is_none_or(|init| init.kind != InitKind::Zeros),
        Role::Output => false,
    };
    open && b.bytes > 0
}

impl Fresh {
    /// Nothing is set; `read` has, for each method, the bindings that its steps read.
    pub fn new(bindings: &[Binding], read: &[Vec<u32>]) -> Fresh {
        let needed = read.iter().map(|read| {
            let mut needed = vec![false; bindings.len()];
            for &i in read {
                let b = &bindings[i as usize];
                needed[i as usize] = must_be_set(b);
            }
            needed
        });
        let needed: Vec<Vec<bool>> = needed.collect();
        let missing = needed.iter().map(|n| n.iter().filter(|n| **n).count()).collect();
        Fresh { read: read.to_vec(), set: vec![false; bindings.len()], needed, missing }
    }

    /// Binding `i` was written.
    #[inline]
    pub fn put(&mut self, i: usize) {
        if !self.set[i] {
            self.set[i] = true;
            for (missing, needed) in self.missing.iter_mut().zip(&self.needed) {
                *missing -= usize::from(needed[i]);
            }
        }
    }

    /// Binding `i` holds nothing of use.
    pub fn clear(&mut self, i: usize) {
        if std::mem::take(&mut self.set[i]) {
            for (missing, needed) in self.missing.iter_mut().zip(&self.needed) {
                *missing += usize::from(needed[i]);
            }
        }
    }

    /// Whether a step of `method` reads binding `i`.
    pub fn is_read(&self, method: usize, i: usize) -> bool {
        self.read[method].contains(&(i as u32))
    }

    /// Whether binding `i` was written.
    pub fn is_set(&self, i: usize) -> bool {
        self.set[i]
    }

    /// Whether binding `i`, which is `b`, holds what a step may read.
    pub fn holds_value(&self, i: usize, b: &Binding) -> bool {
        self.set[i] || !must_be_set(b)
    }

    /// Whether a step of `method` may run.
    #[inline]
    pub fn is_ready(&self, method: usize) -> bool {
        self.missing[method] == 0
    }

    /// Why a step of `method` may not run; `shared` says that the params are another program's.
    #[cold]
    pub fn error(&self, method: usize, bindings: &[Binding], shared: bool) -> Error {
        let open = (0..bindings.len()).filter(|&i| self.needed[method][i] && !self.set[i]).map(|i| &bindings[i]);
        // What the caller writes anew each time is the likelier slip.
        let first = open.clone().min_by_key(|b| b.role != Role::Input);
        let Some(b) = first else { return Error::new(Kind::Data, "a value was never written") };
        let what = format!("{} {:?} ({}{})", b.role.name(), b.name, b.dtype, b.dims);
        let others = open.filter(|o| o.role == b.role).count() - 1;
        let others = if others > 0 { format!(", nor were {others} more") } else { String::new() };
        // Start values for all would undo what was loaded.
        let filled = (bindings.iter().zip(&self.set)).any(|(b, set)| *set && b.is_weight());
        let how = if filled { "init_rest(seed), which keeps what is loaded" } else { "init(seed)" };
        let text = match b.role {
            Role::Input => format!("{what} was never written{others}: write it before the step, or give it a default"),
            Role::Param if shared => {
                format!("{what} has no value yet{others}: the program that shares its params fills and publishes them")
            }
            _ => format!("{what} was neither initialised nor loaded{others}: call {how}, or load it, before the step"),
        };
        Error::new(Kind::Data, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::dims::Dims;
    use crate::nodes::{DType, Init};

    fn binding(name: &str, role: Role, init: Option<Init>) -> Binding {
        let dims = Dims::new(&[2]).unwrap();
        let init = init.map(|init| init.attrs(&[]));
        let (dtype, offset, bytes, default, averages) = (DType::F32, 0, 8, None, None);
        let (buffer, encoded) = (false, Vec::new());
        Binding { name: name.to_string(), role, dtype, dims, offset, bytes, default, averages, buffer, init, encoded }
    }

    fn bindings() -> Vec<Binding> {
        vec![
            binding("x", Role::Input, None),
            Binding { default: Some(1.0), ..binding("d", Role::Input, None) },
            binding("w", Role::Param, Some(Init::Zeros)),
            binding("zeros", Role::State, Some(Init::Zeros)),
            binding("ones", Role::State, Some(Init::Ones)),
            binding("y", Role::Output, None),
            binding("v", Role::Param, Some(Init::Ones)),
            Binding { bytes: 0, ..binding("none", Role::Input, None) },
            Binding { bytes: 1, ..binding("t", Role::Input, None) },
        ]
    }

    #[test]
    fn a_step_needs_what_it_reads_and_what_has_no_value_of_its_own() {
        let all = bindings();
        let mut f = Fresh::new(&all, &[(0..9).collect(), vec![2]]);
        let ready = |f: &Fresh| [f.is_ready(0), f.is_ready(1)];
        let why = |f: &Fresh, method| f.error(method, &all, false).message;
        assert_eq!(ready(&f), [false, false]);
        let ask = "write it before the step, or give it a default";
        assert_eq!(why(&f, 0), format!("input \"x\" (f32[2]) was never written, nor were 1 more: {ask}"));
        f.put(0);
        assert_eq!(why(&f, 0), format!("input \"t\" (f32[2]) was never written: {ask}"));
        f.put(8);
        let ask = "call init(seed), or load it, before the step";
        assert_eq!(
            why(&f, 0),
            format!("param \"w\" (f32[2]) was neither initialised nor loaded, nor were 1 more: {ask}")
        );
        assert_eq!(why(&f, 1), format!("param \"w\" (f32[2]) was neither initialised nor loaded: {ask}"));
        // Twice counts once. What needs no value may have one.
        [2, 2, 3].into_iter().for_each(|i| f.put(i));
        assert_eq!(ready(&f), [false, true]);
        [4, 6].into_iter().for_each(|i| f.put(i));
        assert_eq!(ready(&f), [true, true]);
        [6, 6, 3].into_iter().for_each(|i| f.clear(i));
        assert_eq!(ready(&f), [false, true]);
        f.put(6);
        assert_eq!(ready(&f), [true, true]);
        f.clear(2);
        assert_eq!(ready(&f), [false, false]);
    }

    #[test]
    fn what_was_written_and_what_is_read_are_told() {
        let all = bindings();
        let mut f = Fresh::new(&all, &[(0..9).collect(), vec![2]]);
        f.put(4);
        assert_eq!([2, 0, 4].map(|i| f.is_read(1, i)), [true, false, false]);
        assert_eq!([3, 4].map(|i| f.is_set(i)), [false, true]);
        let held: Vec<bool> = (0..9).map(|i| f.holds_value(i, &all[i])).collect();
        assert_eq!(held, [false, true, false, true, true, true, false, true, false]);
    }
}
