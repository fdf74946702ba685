//! [`Emit::finish`], which lays the regions end to end, and the refusal of what comes after it.

use super::Emit;
use crate::arena::{Node, Sym, Value};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::graph::Graph;
use bumpalo::Bump;

impl Emit {
    /// Freezes the columns in `bump`, or returns the first error.
    pub fn finish<'b>(mut self, bump: &'b Bump) -> Result<Graph<'b>> {
        self.finish_entry()?;
        Ok(self.finish_columns(bump))
    }

    /// As [`Emit::finish`], for shared use: afterwards, types of values can still be read, and every addition is an
    /// error. After an error, the same error comes again.
    pub fn finish_shared<'b>(&mut self, bump: &'b Bump) -> Result<Graph<'b>> {
        self.is_over();
        self.finish_entry()?;
        let graph = self.finish_columns(bump);
        let mut old = std::mem::replace(self, Emit::new(""));
        let types = old.done.pop().map_or(Vec::new(), |entry| entry.ty);
        (self.ended, self.scopes) = (true, old.scopes);
        (self.ops, self.shapes, self.strings) = (old.ops, old.shapes, old.strings);
        self.current_mut().ty = types;
        Ok(graph)
    }

    /// Closes the entry, or returns the recorded error.
    fn finish_entry(&mut self) -> Result<()> {
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
        self.drop_unused_twins();
        Ok(())
    }

    fn finish_columns<'b>(&self, bump: &'b Bump) -> Graph<'b> {
        let all = &self.done;
        let values: Vec<u32> = run_starts(all.iter().map(|b| b.def.len()));
        let nodes: Vec<u32> = run_starts(all.iter().map(|b| b.op.len()));
        let args: Vec<u32> = run_starts(all.iter().map(|b| b.args.len()));
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
            op: finished_column(bump, each().flat_map(|(_, b)| b.op.iter().copied())),
            args_at: finished_column(
                bump,
                [0].into_iter().chain(each().flat_map(|(r, b)| offsets(&b.args_at, args[r]))),
            ),
            outs_at: finished_column(
                bump,
                [0].into_iter().chain(each().flat_map(|(r, b)| offsets(&b.outs_at, values[r]))),
            ),
            attr: finished_column(bump, each().flat_map(|(_, b)| b.attr.iter().copied())),
            loc: finished_column(bump, each().flat_map(|(_, b)| b.loc.iter().copied())),
            args: finished_column(bump, each().flat_map(|(r, b)| shift(&b.args, values[r]))),
            extra: bump.alloc_slice_copy(&self.extra),
            def: finished_column(
                bump,
                each().flat_map(|(r, b)| b.def.iter().map(move |d| (r, d.0))).map(|(r, d)| Node(d + nodes[r])),
            ),
            dtype: finished_column(bump, pairs().map(|(b, i)| ty(b, i).dtype)),
            shape: finished_column(bump, pairs().map(|(b, i)| ty(b, i).shape)),
            names: finished_column(bump, each().flat_map(|(_, b)| b.names.iter().copied())),
            nodes_at: bump.alloc_slice_copy(&nodes),
            yields_at: finished_column(bump, run_starts(all.iter().map(|b| b.yields.len())).into_iter()),
            yields: finished_column(bump, each().flat_map(|(r, b)| shift(&b.yields, values[r]))),
            region_names: finished_column(bump, each().map(|(_, b)| b.name.unwrap_or(Sym::NONE))),
            output_names: finished_column(bump, self.outputs.iter().map(|o| o.0)),
            updates: finished_column(bump, updates),
            shapes: self.shapes.freeze(bump),
            strings: self.strings.freeze(bump),
            locs: bump.alloc_slice_copy(&self.locs),
        }
    }

    /// True if the graph is finished. Records an error then, because the caller wants to add to it.
    pub(super) fn is_over(&mut self) -> bool {
        if self.ended {
            self.fail(Error::new(Kind::Verify, "the graph is finished; another one takes another builder"));
        }
        self.ended
    }
}

/// Where each of some runs starts, and the end of the last.
pub(super) fn run_starts(lens: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut at = vec![0];
    let mut sum = 0;
    at.extend(lens.map(|n| {
        sum += n as u32;
        sum
    }));
    at
}

fn finished_column<T: Copy>(bump: &Bump, items: impl Iterator<Item = T>) -> &[T] {
    // One exact allocation: growing in the bump would leave dead copies behind.
    bump.alloc_slice_copy(&items.collect::<Vec<_>>())
}
