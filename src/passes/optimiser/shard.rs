//! Optimiser states that are shared out: each rank of several updates some of the params, and keeps the states of these
//! alone. The others' params come from their owners after the update.
//!
//! Invariant: with all kept gradients, a rank's update gives the params that it owns the bits of the
//! whole update. A state that the updates of two params read, such as the count of steps, is on every rank.

use super::split::{Layout, OwnedState, Shard, Split};
use crate::arena::{Node, Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::leaf::StateAttrs;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, LeafKind};
use crate::passes::copier::Copier;
use crate::passes::rebuild::{finish_rebuild, rebuilt_by_pass};
use crate::passes::signature::Signature;

impl Layout {
    /// The owner of each param among `ranks`: whole params that follow one another, shares as equal as that allows.
    fn owners(&self, ranks: usize) -> Vec<usize> {
        let size = |i: usize| self.params[i].range.len() * self.params[i].dtype.size();
        let total: usize = (0..self.params.len()).map(size).sum();
        let mut before = 0;
        let owner = |i: usize| {
            // The rank in whose equal share the middle of the param lies.
            let middle = before + size(i) / 2;
            before += size(i);
            (middle as u128 * ranks as u128 / (total.max(1) as u128)).min(ranks as u128 - 1) as usize
        };
        (0..self.params.len()).map(owner).collect()
    }
}

impl Split {
    /// The same step for rank `rank` of `ranks`, which keeps the states of the optimiser for its share of the params
    /// alone. [`train::Parallel`](crate::train::Parallel) gives it the params of the others after each update. Bits are
    /// those of the whole step.
    ///
    /// # Errors
    /// There is no such rank; the rule is L-BFGS, whose history is of all params together; the optimiser has moving
    /// averages (`ema`), which every rank needs whole.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("net");
    /// let h = nn::linear(&g, "fc1", g.input("x", [8, 64], DType::F32), 64).relu();
    /// let graph = g.finish([nn::linear(&g, "fc2", h, 64).square().mean(..).named("loss")])?;
    /// let split = optim::train_split(&graph, "loss", optim::Adam::new(1e-3))?;
    /// let bytes = |s: &optim::Split| Session::new().compile_all(&s.methods()).map(|p| p.plan().arena_bytes);
    /// assert!(bytes(&split.shard(0, 2)?)? + 2 * 4 * 64 * 64 <= bytes(&split)?); // moments of one layer of two
    /// # Ok(())
    /// # }
    /// ```
    pub fn shard(&self, rank: usize, ranks: usize) -> Result<Split> {
        if rank >= ranks {
            return Err(Error::new(Kind::Data, format!("shard: there is no rank {rank} of {ranks}")));
        }
        let g = self.update.view();
        if g.leaves().any(|l| l.name == "opt.old_dirs") {
            let text = "shard: lbfgs keeps one history of all params, which cannot be shared out";
            return Err(Error::new(Kind::Data, text));
        }
        if g.leaves()
            .any(|l| l.kind == LeafKind::State && StateAttrs::of(&g.attrs(g.def[l.value.at()])).averages.is_some())
        {
            let text = "shard: moving averages (ema) stay whole on each rank, so states cannot be shared out";
            return Err(Error::new(Kind::Data, text));
        }
        let owners = self.layout.owners(ranks);
        let owner_of = |name: &str| {
            let at = self.layout.params.iter().position(|p| p.name == name);
            at.map_or(0, |i| owners[i])
        };
        let owned = owned_states(g, self.grads.view());
        let is_mine = |leaf: Value| match (g.leaf(leaf), owned[leaf]) {
            (Some((LeafKind::Param, name)), _) => owner_of(name) == rank,
            (_, Owned::By(param)) => g.leaf(param).is_none_or(|(_, name)| owner_of(name) == rank),
            _ => true,
        };
        let update = without_updates(g, &is_mine)?;
        let states = g.leaves().filter_map(|l| match owned[l.value] {
            Owned::By(param) => Some(OwnedState {
                name: l.name.to_string(),
                dtype: g.dtype[l.value.at()],
                dims: g.dims(l.value).to_vec(),
                owner: owner_of(g.leaf(param)?.1),
            }),
            _ => None,
        });
        let shard = Shard { rank, ranks, owners: owners.clone(), states: states.collect(), whole: self.update.clone() };
        Ok(Split { update, shard: Some(shard), ..self.clone() })
    }
}

/// Which params' updates read a state.
#[derive(Clone, Copy, PartialEq)]
enum Owned {
    /// None.
    None,
    /// One.
    By(Value),
    /// Several.
    Shared,
}

/// Of each leaf of the update `g`: the param whose update alone reads it, if it is a state that `grads` does not read.
fn owned_states(g: Graph<'_>, grads: Graph<'_>) -> Side<Value, Owned> {
    let mut owned = Side::filled(g.values(), Owned::None);
    let mut next = Side::filled(g.values(), Value::NONE);
    g.updates.iter().for_each(|&(leaf, v)| next[leaf] = v);
    let other = Signature::new(grads);
    let states = g.leaves().filter(|l| l.kind == LeafKind::State && next[l.value].is_some() && !other.has_leaf(l.name));
    let states: Vec<Value> = states.map(|l| l.value).collect();
    for param in g.leaves().filter(|l| l.kind == LeafKind::Param && next[l.value].is_some()) {
        let mut roots = vec![next[param.value]];
        loop {
            let read = nodes_read(g, &roots);
            let found = states.iter().filter(|&&s| read[g.def[s.at()]]);
            let more: Vec<Value> = found.map(|&s| next[s]).filter(|v| !roots.contains(v)).collect();
            if more.is_empty() {
                for &s in states.iter().filter(|&&s| read[g.def[s.at()]]) {
                    owned[s] = if owned[s] == Owned::None { Owned::By(param.value) } else { Owned::Shared };
                }
                break;
            }
            roots.extend(more);
        }
    }
    owned
}

/// The nodes of the entry that `roots` are computed from, theirs among them.
fn nodes_read(g: Graph<'_>, roots: &[Value]) -> Side<Node, bool> {
    let mut read = Side::filled(g.nodes(), false);
    roots.iter().for_each(|v| read[g.def[v.at()]] = true);
    for n in g.region_nodes(g.entry()).rev() {
        if read[n] {
            g.args_of(n).iter().for_each(|a| read[g.def[a.at()]] = true);
        }
    }
    read
}

/// `g` with the updates of the leaves that `wanted` picks. Other states that nothing reads are left out.
fn without_updates(g: Graph<'_>, wanted: &dyn Fn(Value) -> bool) -> Result<GraphBuf> {
    let updates: Vec<(Value, Value)> = g.updates.iter().copied().filter(|u| wanted(u.0)).collect();
    let roots: Vec<Value> = updates.iter().map(|u| u.1).chain(g.outputs().iter().copied()).collect();
    let mut stays = nodes_read(g, &roots);
    g.leaves().filter(|l| l.kind != LeafKind::State || wanted(l.value)).for_each(|l| stays[g.def[l.value.at()]] = true);
    rebuilt_by_pass("shard", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut entry = Side::<Node, bool>::filled(g.nodes(), false);
        g.region_nodes(g.entry()).for_each(|n| entry[n] = true);
        let mut c = Copier::new(g, &b).without(|n| entry[n] && !stays[n]);
        c.run(&mut |_| None);
        for (&v, &name) in g.outputs().iter().zip(g.output_names) {
            b.output(g.str(name), c.map[v]);
        }
        updates.iter().for_each(|u| b.update(c.map[u.0], c.map[u.1]));
        drop(c);
        finish_rebuild(b, bump)
    })
}
