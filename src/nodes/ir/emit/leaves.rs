//! Leaves by name.
//!
//! Invariant: names of leaves are distinct.

use super::Emit;
use crate::arena::Value;
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
}
