//! Leaves by name, and debug names of values. Names of outputs are stored with the outputs.
//!
//! Invariant: names of leaves are distinct.

use super::Emit;
use crate::arena::{Sym, Value, ids::Id};
use crate::error::{Error, Kind};
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::opdef::Op;

impl Emit {
    /// Adds a leaf called `name`. An error if there is a leaf of this name.
    pub fn leaf(&mut self, op: Op, name: &str, attrs: &[Attr<'_>]) -> Value {
        let sym = self.strings.intern(name);
        if name.is_empty() || name.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
            self.fail(Error::new(Kind::Name, format!("a leaf cannot be called {name:?}")));
            return Value::NONE;
        }
        if self.leaves.contains_key(&sym) {
            self.fail(Error::new(Kind::Name, format!("two leaves are called {name:?}")));
            return Value::NONE;
        }
        let mut all = vec![Attr::Sym(sym)];
        all.extend_from_slice(attrs);
        let v = self.emit(op, &[], &all).at(0);
        self.leaves.insert(sym, v);
        self.set_name(v, sym);
        v
    }

    /// The leaf called `name`.
    pub fn leaf_called(&mut self, name: &str) -> Option<Value> {
        let sym = self.strings.intern(name);
        self.leaves.get(&sym).copied()
    }

    /// Sets the debug name of `v`, unless it has one.
    pub fn set_name(&mut self, v: Value, name: Sym) {
        self.set_name_in(v, self.scope(), name);
    }

    /// Sets the debug name of value `v` of scope `scope`, if its region is open and `v` has no name.
    pub fn set_name_in(&mut self, v: Value, scope: u32, name: Sym) {
        let body = self.open.iter_mut().rev().find(|b| b.scope == scope);
        if let Some(slot) = body.and_then(|b| b.names.get_mut(v.at()))
            && *slot == Sym::NONE
        {
            *slot = name;
        }
    }

    /// The debug name of `v`, or [`Sym::NONE`].
    pub fn name_of(&self, v: Value) -> Sym {
        self.body().names.get(v.at()).copied().unwrap_or(Sym::NONE)
    }
}
