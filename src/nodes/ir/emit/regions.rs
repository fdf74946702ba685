//! Regions of the growing graph: opening and closing them, setting them aside, and which one is open.
//!
//! A value is identified by its id and the *scope* of its region. `loop_captures` has the captures of regions.
//!
//! Invariant: the entry is opened first and closed last, by [`Emit::finish`].

use super::Emit;
use super::body::Body;
use crate::arena::{Region, Sym, Value, ids::Id};
use crate::error::{Error, Kind};
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::infer::Signature;
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ir::opdef::Op;

impl Emit {
    /// Opens a region. Nodes are added to it until it is closed.
    pub fn open_region(&mut self, name: &str) {
        let mut b = Body::new();
        b.name = Some(self.strings.intern(name));
        self.scopes += 1;
        b.scope = self.scopes;
        self.open.push(b);
    }

    /// Adds the next argument of the open region.
    pub fn region_arg(&mut self, ty: Ty) -> Value {
        // Arguments are the first nodes of a region.
        let i = self.current().op.partition_point(|&op| op == Op::ARG);
        self.emit(Op::ARG, &[], &ArgAttrs { index: i as i64, dtype: ty.dtype, shape: ty.shape }.list()).at(0)
    }

    /// Closes the open region, which yields `yields`.
    pub fn close_region(&mut self, yields: &[Value]) -> Region {
        if yields.contains(&Value::NONE) && self.error.is_none() {
            self.fail(Error::new(Kind::Verify, "a region yields a value that does not exist"));
        }
        let Some(mut b) = (self.open.len() > 1).then(|| self.open.pop()).flatten() else {
            self.fail(Error::new(Kind::Verify, "a region is closed that was not opened"));
            return Region::NONE;
        };
        b.yields = yields.to_vec();
        let args = b.op.iter().take_while(|&&op| op == Op::ARG).count();
        let tys = |vs: &[Value]| vs.iter().filter_map(|v| b.ty.get(v.at()).copied()).collect();
        self.sigs.push(Signature { args: b.ty[..args].to_vec(), yields: tys(yields) });
        self.done.push(b);
        Region::new(self.done.len() - 1)
    }

    /// The last closed region called `name`.
    pub fn region_called(&self, name: Sym) -> Option<Region> {
        self.done.iter().rposition(|b| b.name == Some(name)).map(Region::new)
    }

    /// The scope of the open region.
    pub fn region_scope(&self) -> u32 {
        self.current().scope
    }

    /// Type of value `v` of scope `scope`, whose region must be open.
    pub fn ty_in_region(&self, v: Value, scope: u32) -> Option<Ty> {
        self.open.iter().rev().find(|b| b.scope == scope)?.ty.get(v.at()).copied()
    }

    /// True if the entry is the open region.
    pub fn at_entry_region(&self) -> bool {
        self.open.len() == 1
    }

    /// Calls `f` with the open region number `level` (0 is the entry) as the innermost one.
    pub(super) fn at_region_level<R>(&mut self, level: usize, f: impl FnOnce(&mut Emit) -> R) -> R {
        let inner = self.open.split_off(level + 1);
        let result = f(self);
        self.open.extend(inner);
        result
    }

    /// Calls `f` with the entry as the open region, for leaves.
    pub fn in_entry_region<R>(&mut self, f: impl FnOnce(&mut Emit) -> R) -> R {
        self.at_region_level(0, f)
    }

    /// Sets the open region aside, so that regions beside it can be written before it is closed.
    pub fn set_region_aside(&mut self) -> Option<Aside> {
        let region = if self.at_entry_region() { None } else { self.open.pop() };
        self.aside += region.as_ref().map_or(0, |b| b.def.len());
        region.map(Aside)
    }

    /// Opens again a region that was set aside while the same regions were open around it.
    pub fn resume_region(&mut self, region: Aside) {
        self.aside -= region.0.def.len();
        self.open.push(region.0);
    }
}

/// A region that is set aside: it is neither open nor closed, and is completed later.
pub struct Aside(Body);
