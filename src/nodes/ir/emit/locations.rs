//! Source locations of nodes.
//!
//! Invariant: a location is set before its nodes are emitted. The exception is [`Emit::relocate`]: in a text, the
//! location follows the node.

use super::Emit;
use crate::arena::Sym;
use crate::error::Location;

impl Emit {
    /// The location of later nodes, for [`Emit::set_loc`].
    pub fn loc_here(&self) -> u32 {
        self.here
    }

    /// Later nodes get location `loc`, an index as in `Graph::loc`; `u32::MAX` is none.
    pub fn set_loc(&mut self, loc: u32) {
        self.here = loc;
    }

    /// Later nodes get this location.
    pub fn set_location(&mut self, location: Location<Sym>) {
        self.here = self.loc_id(location);
    }

    fn loc_id(&mut self, location: Location<Sym>) -> u32 {
        let (locs, next) = (&mut self.locs, self.loc_ids.len() as u32);
        *self.loc_ids.entry(location).or_insert_with(|| {
            locs.push(location);
            next
        })
    }

    /// Nodes of the open region from number `first` on get this location.
    pub fn relocate(&mut self, first: usize, location: Location<Sym>) {
        let id = self.loc_id(location);
        self.current_mut().loc.iter_mut().skip(first).for_each(|at| *at = id);
    }

    /// The location of the nodes being emitted.
    pub fn location(&self) -> Location {
        let location = self.locs.get(self.here as usize).copied().unwrap_or_default();
        location.map(|s| self.strings.str(s).to_string())
    }
}
