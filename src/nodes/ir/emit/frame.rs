//! Regions, outputs and updates, and [`Emit::finish`], which lays the regions end to end.
//!
//! Invariant: the entry is opened first and closed last, by [`Emit::finish`].

use super::Emit;
use super::body::Body;
use crate::arena::{Node, Region, Sym, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::graph::Graph;
use crate::nodes::ir::infer::Signature;
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ir::opdef::Op;
use bumpalo::Bump;

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
        let i = self.body().op.partition_point(|&op| op == Op::ARG);
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

    /// Adds an output called `name`.
    pub fn output(&mut self, name: &str, v: Value) {
        if self.is_over() {
            return;
        }
        if !self.at_entry() {
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

    /// Adds an update: after a step, `leaf` (a param or a state) has the value `next`.
    pub fn update(&mut self, leaf: Value, next: Value) {
        if self.is_over() {
            return;
        }
        if !self.at_entry() {
            return self
                .fail(Error::new(Kind::Verify, "an update stands inside a region; carry the value and update after"));
        }
        let why = match self.def(leaf).map(|d| d.op) {
            Some(Op::PARAM | Op::STATE) if next == Value::NONE => None,
            Some(Op::PARAM | Op::STATE) if self.ty(leaf) != self.ty(next) => Some("the next value is of another type"),
            Some(Op::PARAM | Op::STATE) if self.updates_seen.contains(&leaf) => Some("it has an update already"),
            Some(Op::PARAM | Op::STATE) => None,
            Some(_) => Some("only params and states are updated"),
            None => None,
        };
        if let Some(why) = why {
            let name = self.strings.str(self.name_of(leaf)).to_string();
            self.fail(Error::new(Kind::Shape, format!("update of {name:?}: {why}")));
        }
        self.updates_seen.insert(leaf);
        self.updates.push((leaf, next));
    }

    /// Freezes the columns in `bump`, or returns the first error.
    pub fn finish<'b>(mut self, bump: &'b Bump) -> Result<Graph<'b>> {
        self.close_entry()?;
        Ok(self.freeze(bump))
    }

    /// As [`Emit::finish`], for shared use: afterwards, types of values can still be read, and every addition is an
    /// error. After an error, the same error comes again.
    pub fn end<'b>(&mut self, bump: &'b Bump) -> Result<Graph<'b>> {
        self.is_over();
        self.close_entry()?;
        let graph = self.freeze(bump);
        let mut old = std::mem::replace(self, Emit::new(""));
        let types = old.done.pop().map_or(Vec::new(), |entry| entry.ty);
        (self.ended, self.scopes) = (true, old.scopes);
        (self.ops, self.shapes, self.strings) = (old.ops, old.shapes, old.strings);
        self.body_mut().ty = types;
        Ok(graph)
    }

    /// Closes the entry, or returns the recorded error.
    fn close_entry(&mut self) -> Result<()> {
        if self.open.len() > 1 {
            self.fail(Error::new(Kind::Verify, "a region is still open"));
        }
        if self.error.is_none() && self.outputs.iter().any(|o| o.1 == Value::NONE) {
            self.fail(Error::new(Kind::Verify, "an output does not exist"));
        }
        if let Some(e) = &self.error {
            return Err(e.clone());
        }
        let mut entry = self.open.remove(0);
        entry.yields = self.outputs.iter().map(|o| o.1).collect();
        entry.name = Some(self.name);
        self.done.push(entry);
        Ok(())
    }

    fn freeze<'b>(&self, bump: &'b Bump) -> Graph<'b> {
        let all = &self.done;
        let values: Vec<u32> = starts(all.iter().map(|b| b.def.len()));
        let nodes: Vec<u32> = starts(all.iter().map(|b| b.op.len()));
        let args: Vec<u32> = starts(all.iter().map(|b| b.args.len()));
        let base = values[all.len() - 1];
        let updates = self.updates.iter().map(|&(l, n)| (Value(l.0 + base), Value(n.0 + base)));
        let each = || all.iter().enumerate();
        let ty = |b: usize, i: usize| all[b].ty[i];
        let pairs = || each().flat_map(|(b, body)| (0..body.ty.len()).map(move |i| (b, i)));
        let shift = |v: &[Value], by: u32| v.iter().map(move |v| Value(v.0 + by)).collect::<Vec<_>>();
        let offsets = |at: &[u32], by: u32| at.iter().skip(1).map(move |x| x + by).collect::<Vec<_>>();
        Graph {
            name: self.name,
            ops: bump.alloc_slice_copy(&self.ops),
            op: alloc(bump, each().flat_map(|(_, b)| b.op.iter().copied())),
            args_at: alloc(bump, [0].into_iter().chain(each().flat_map(|(r, b)| offsets(&b.args_at, args[r])))),
            outs_at: alloc(bump, [0].into_iter().chain(each().flat_map(|(r, b)| offsets(&b.outs_at, values[r])))),
            attr: alloc(bump, each().flat_map(|(_, b)| b.attr.iter().copied())),
            loc: alloc(bump, each().flat_map(|(_, b)| b.loc.iter().copied())),
            args: alloc(bump, each().flat_map(|(r, b)| shift(&b.args, values[r]))),
            extra: bump.alloc_slice_copy(&self.extra),
            def: alloc(
                bump,
                each().flat_map(|(r, b)| b.def.iter().map(move |d| (r, d.0))).map(|(r, d)| Node(d + nodes[r])),
            ),
            dtype: alloc(bump, pairs().map(|(b, i)| ty(b, i).dtype)),
            shape: alloc(bump, pairs().map(|(b, i)| ty(b, i).shape)),
            names: alloc(bump, each().flat_map(|(_, b)| b.names.iter().copied())),
            nodes_at: bump.alloc_slice_copy(&nodes),
            yields_at: alloc(bump, starts(all.iter().map(|b| b.yields.len())).into_iter()),
            yields: alloc(bump, each().flat_map(|(r, b)| shift(&b.yields, values[r]))),
            region_names: alloc(bump, each().map(|(_, b)| b.name.unwrap_or(Sym::NONE))),
            output_names: alloc(bump, self.outputs.iter().map(|o| o.0)),
            updates: alloc(bump, updates),
            shapes: self.shapes.freeze(bump),
            strings: self.strings.freeze(bump),
            locs: bump.alloc_slice_copy(&self.locs),
        }
    }
}

fn starts(lens: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut at = vec![0];
    let mut sum = 0;
    at.extend(lens.map(|n| {
        sum += n as u32;
        sum
    }));
    at
}

fn alloc<T: Copy>(bump: &Bump, items: impl Iterator<Item = T>) -> &[T] {
    // One exact allocation: growing in the bump would leave dead copies behind.
    bump.alloc_slice_copy(&items.collect::<Vec<_>>())
}
