//! Outputs and updates of the growing graph.

use super::Emit;
use crate::arena::{Sym, Value};
use crate::error::{Error, Kind};
use crate::nodes::ir::opdef::Op;

impl Emit {
    /// Adds an output called `name`.
    pub fn output(&mut self, name: &str, v: Value) {
        if self.is_over() {
            return;
        }
        if !self.at_entry_region() {
            return self.fail(Error::new(Kind::Verify, format!("output {name:?} stands inside a region; yield it")));
        }
        let sym = self.strings.intern(name);
        if self.outputs_seen.insert(sym, v).is_some() {
            self.fail(Error::new(Kind::Name, format!("two outputs are called {name:?}")));
        }
        self.outputs.push((sym, v));
    }

    /// The output called `name`, if there is one yet.
    pub fn output_called(&self, name: Sym) -> Option<Value> {
        self.outputs_seen.get(&name).copied()
    }

    /// Adds an update, or puts `next` in the place of the value that it continues.
    pub fn update_again(&mut self, leaf: Value, next: Value) {
        let at = self.update_of.get(&leaf).copied().filter(|_| self.at_entry_region());
        let Some(at) = at else { return self.update(leaf, next) };
        // As an update of its own, to which the same rules apply.
        self.update_of.remove(&leaf);
        self.update(leaf, next);
        self.updates.swap_remove(at);
        self.update_of.insert(leaf, at);
    }

    /// Adds an update: after a step, `leaf` (a param or a state) has the value `next`.
    pub fn update(&mut self, leaf: Value, next: Value) {
        if self.is_over() {
            return;
        }
        if !self.at_entry_region() {
            return self
                .fail(Error::new(Kind::Verify, "an update stands inside a region; carry the value and update after"));
        }
        let why = match self.def(leaf).map(|d| d.op) {
            Some(Op::PARAM | Op::STATE) if next == Value::NONE => None,
            Some(Op::PARAM | Op::STATE) if self.ty(leaf) != self.ty(next) => Some("the next value is of another type"),
            Some(Op::PARAM | Op::STATE) if self.update_of.contains_key(&leaf) => Some("it has an update already"),
            Some(Op::PARAM | Op::STATE) => None,
            Some(_) => Some("only params and states are updated"),
            None => None,
        };
        if let Some(why) = why {
            let name = self.strings.str(self.name_of(leaf)).to_string();
            self.fail(Error::new(Kind::Shape, format!("update of {name:?}: {why}")));
        }
        self.update_of.insert(leaf, self.updates.len());
        self.updates.push((leaf, next));
    }
}
