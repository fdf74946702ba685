//! Regions of the growing graph: opening and closing them, setting them aside, and which one is open.
//!
//! A value is identified by its id and the *scope* of its region. `loop_captures` has the captures of regions.
//!
//! Invariant: the entry is opened first and closed last, by [`Emit::finish`].

use super::Emit;
use super::body::Body;
use super::outs::Outs;
use crate::arena::{Region, Sym, Value, ids::Id};
use crate::error::{Error, Kind};
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::flags::Flags;
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
        let sig = Signature { args: b.ty[..args].to_vec(), yields: tys(yields) };
        self.push_region(b, sig)
    }

    /// The last closed region called `name`.
    pub fn region_called(&self, name: Sym) -> Option<Region> {
        self.done.iter().rposition(|b| b.name == Some(name)).map(Region::new)
    }

    /// As [`Emit::emit`], for a method `what` of the builder that writes `op`: an error names the method.
    pub(in crate::nodes) fn emit_as(&mut self, what: &str, op: Op, args: &[Value], attrs: &[Attr<'_>]) -> Outs {
        let (before, name) = (self.error.is_some(), self.ops[op.0 as usize].name);
        let outs = self.emit(op, args, attrs);
        if let Some(e) = self.error.as_mut().filter(|_| !before) {
            e.message = e.message.replacen(&format!("{name}("), &format!("{what}("), 1);
        }
        outs
    }

    /// The region that a copy of a node of `op` takes in place of `r`: `r`, or a copy of it if `op` is fused and
    /// another copy has `r`, because the region of a fused op has one user.
    pub(super) fn region_of_copy(&mut self, op: Op, r: Region) -> Region {
        if !self.ops[op.0 as usize].flags.has(Flags::FUSED) || self.fused.insert(r.0) {
            return r;
        }
        let (Some(body), Some(sig)) = (self.done.get(r.at()), self.sigs.get(r.at()).cloned()) else { return r };
        let copy = Body { scope: self.scopes + 1, ..body.copied() };
        let admitted =
            (0..copy.op.len()).try_for_each(|n| self.count.admit(copy.args_of(n).len(), 0, self.extra.len()));
        if let Err(why) = admitted {
            self.fail(Error::new(Kind::Verify, why));
            return r;
        }
        self.scopes += 1;
        self.push_region(copy, sig)
    }

    /// Number of open regions, the entry included.
    pub(in crate::nodes) fn open_regions(&self) -> usize {
        self.open.len()
    }

    /// Drops the open regions from number `depth` on, which a panic has left half written: an error of the graph.
    pub(in crate::nodes) fn abandon_region(&mut self, depth: usize, what: &str) {
        let why = format!("{what}: a closure that writes the graph panicked, so the graph is not whole");
        self.fail(Error::new(Kind::Verify, why));
        self.open.truncate((depth - 1).max(1));
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
