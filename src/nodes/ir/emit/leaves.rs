//! Leaves by name, and their next values.
//!
//! Invariant: names of leaves are distinct.

use super::Emit;
use crate::arena::{Value, ids::Id};
use crate::error::{Error, Kind};
use crate::nodes::ir::attrs::{Attr, Attrs, Field, Kind as AttrKind, Owned};
use crate::nodes::ir::init::{InitKind, LeafInit};
use crate::nodes::ir::leaf::is_leaf_name;
use crate::nodes::ir::opdef::Op;

impl Emit {
    /// Adds a leaf called `name`. If there is a leaf of this name, that is an error, unless leaves are shared and the
    /// two are equal: then it is that leaf.
    pub fn leaf(&mut self, op: Op, name: &str, attrs: &[Attr<'_>]) -> Value {
        let sym = self.strings.intern(name);
        if !is_leaf_name(name) {
            self.fail(Error::new(Kind::Name, format!("a leaf cannot be called {name:?}")));
            return Value::NONE;
        }
        let mut all = vec![Attr::Sym(sym)];
        all.extend_from_slice(attrs);
        if let Some(&known) = self.leaves.get(&sym) {
            return self.leaf_again(known, op, name, &all);
        }
        let v = self.emit(op, &[], &all).at(0);
        self.leaves.insert(sym, v);
        self.set_name(v, sym);
        v
    }

    /// The leaf `known` for a second one of its name. An error if leaves are not shared, or if the two differ.
    fn leaf_again(&mut self, known: Value, op: Op, name: &str, attrs: &[Attr<'_>]) -> Value {
        // After an error there may be no node.
        let Some(first) = self.def(known) else { return Value::NONE };
        let (def, mut words) = (self.ops[op.0 as usize], Vec::new());
        let unfit = self.encode_attrs(def, attrs, &mut words).err();
        if self.shares_leaves && unfit.is_none() && first.op == op && first.attrs.words == words {
            return known;
        }
        let place = self.current().def.get(known.at()).map(|n| self.current().loc[n.at()] as usize);
        let place = place.and_then(|loc| self.locs.get(loc)).copied().unwrap_or_default();
        let place = place.map(|s| self.strings.str(s).to_string()).origin();
        let at = |text: &str| place.as_ref().map_or(String::new(), |place| format!("{text}{place}"));
        let text = match (self.shares_leaves, unfit) {
            (false, _) => {
                let first = at(", the first at ");
                format!("two leaves are called {name:?}{first}; to apply one layer twice, build it in Builder::reuse")
            }
            (true, Some(unfit)) => format!("{}: {unfit}", def.name),
            (true, None) => {
                let (a, b) = (
                    self.leaf_text(first.op, first.attrs),
                    self.leaf_text(op, Attrs { fields: def.attrs, words: &words }),
                );
                format!("leaf {name:?} is {a}{}, and is used again as {b}", at(" at "))
            }
        };
        self.fail(Error::new(Kind::Name, text));
        Value::NONE
    }

    /// A leaf as its op and its attributes, for an error.
    fn leaf_text(&self, op: Op, attrs: Attrs<'_>) -> String {
        let show = |field: &Field, value: Owned| match (value, field.kind) {
            (Owned::Bool(x), _) => x.to_string(),
            (Owned::Int(x), _) => x.to_string(),
            (Owned::F64(x), _) => x.to_string(),
            (Owned::DType(x), _) => x.to_string(),
            (Owned::Shape(x), _) => self.shapes.dims(x).to_string(),
            (Owned::Sym(x), _) => format!("{:?}", self.strings.str(x)),
            (Owned::Choice(i), AttrKind::Choice(names)) => {
                names.get(i as usize).map_or(String::new(), |n| n.to_string())
            }
            (Owned::Floats(x), _) => LeafInit::new(InitKind::Values, 0.0, Some(x)).numbers_text(),
            (other, _) => format!("{other:?}"),
        };
        // The name comes first, and is the same.
        let named = attrs.iter().skip(1).filter(|(_, value)| *value != Owned::Absent);
        let named: Vec<String> = named.map(|(field, value)| format!("{}={}", field.name, show(field, value))).collect();
        format!("{} {}", self.ops[op.0 as usize].name, named.join(" "))
    }

    /// Whether from now on a leaf whose name is taken is the leaf that has the name. What held before.
    pub fn share_leaves(&mut self, on: bool) -> bool {
        std::mem::replace(&mut self.shares_leaves, on)
    }

    /// The leaf called `name`.
    pub fn leaf_called(&mut self, name: &str) -> Option<Value> {
        let sym = self.strings.intern(name);
        self.leaves.get(&sym).copied()
    }

    /// The leaves that have an update, in the order of the updates.
    pub fn updated_leaves(&self) -> Vec<Value> {
        self.updates.iter().map(|u| u.0).collect()
    }

    /// The next value of `leaf`, as a value of the open region, if `leaf` has an update. Both may be captured.
    pub fn next_value_of(&mut self, leaf: Value) -> Option<Value> {
        let leaf = self.value_in_entry(leaf)?;
        let next = self.updates[*self.update_of.get(&leaf)?].1;
        let entry = self.in_entry_region(|e| e.region_scope());
        Some(self.import_captured(next, entry))
    }
}
