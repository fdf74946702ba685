//! The name of the growing graph, debug names of values, and names of layers. Names of outputs are stored with the
//! outputs.

use super::Emit;
use crate::arena::{Sym, Value, ids::Id};

impl Emit {
    /// Sets the debug name of `v`, unless it has one.
    pub fn set_name(&mut self, v: Value, name: Sym) {
        self.set_name_in(v, self.region_scope(), name);
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
        self.current().names.get(v.at()).copied().unwrap_or(Sym::NONE)
    }

    /// Sets the name of the graph.
    pub fn rename(&mut self, name: &str) {
        self.name = self.strings.intern(name);
    }

    /// Later nodes are of the layer called `name`, until [`Emit::leave_layer`].
    pub fn enter_layer(&mut self, name: &str) {
        let name = self.strings.intern(name);
        self.layers.push(name);
    }

    /// Later nodes are of the layer around the one entered last.
    pub fn leave_layer(&mut self) {
        self.layers.pop();
    }
}
