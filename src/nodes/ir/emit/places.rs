//! Where nodes were asked for.
//!
//! Invariant: a place is said before the nodes that it is of, except for [`Emit::relocate`], by which a text says it
//! after them. Part of the writer; callers see [`Emit`].

use super::Emit;
use crate::arena::Sym;
use crate::error::Place;
use crate::nodes::ir::graph::Loc;

impl Emit {
    /// Nodes made from now on come from `loc` (an index as in `Graph::loc`).
    pub fn set_loc(&mut self, loc: u32) {
        self.here = loc;
    }

    /// Nodes made from now on come from this place.
    pub fn set_place(&mut self, loc: Loc) {
        self.here = self.loc_id(loc);
    }

    fn loc_id(&mut self, loc: Loc) -> u32 {
        let (locs, next) = (&mut self.locs, self.loc_ids.len() as u32);
        *self.loc_ids.entry(loc).or_insert_with(|| {
            locs.push(loc);
            next
        })
    }

    /// Number of nodes in the open region.
    pub fn nodes(&self) -> usize {
        self.body().op.len()
    }

    /// Nodes of the open region from number `first` on come from this place.
    pub fn relocate(&mut self, first: usize, loc: Loc) {
        let id = self.loc_id(loc);
        self.body_mut().loc.iter_mut().skip(first).for_each(|at| *at = id);
    }

    /// The place of the nodes being made.
    pub fn place(&self) -> Place {
        match self.locs.get(self.here as usize) {
            Some(l) if l.file == Sym::NONE => Place::Text(l.line, l.col),
            Some(l) => Place::Source(self.strings.str(l.file).to_string(), l.line),
            None => Place::Nowhere,
        }
    }
}
