//! The verifier: twelve invariants of a graph, which hold between any two passes.
//!
//! * **V1** Ids are in range: ops, operands, defining nodes, results of regions, updates.
//! * **V2** References point backwards inside the region: an operand's id is smaller than the ids of the results.
//! * **V3** Columns of nodes, values and regions have one length each. A column of starts (`args_at`) rises from 0 to
//!   the length of the column that it indexes (`args`).
//! * **V4** Each node has as many operands as its op definition says.
//! * **V5** Attribute words follow the schema of the op definition and are in range.
//! * **V6** Result types are those of `infer`, which runs again for every node.
//! * **V7** Signatures: a region's arguments are its first nodes, numbered from 0, and the entry has none; inputs,
//!   params and states stand in the entry, under distinct names; yields and outputs are values of their region, and
//!   outputs have distinct names.
//! * **V8** Regions stand before their users. The region of a fused op has no other user; calls and loops may share a
//!   region. A region without a user is allowed in [`Stage::Block`] only; passes drop it.
//! * **V9** Ops belong to the stage: no fused op in [`Stage::Core`], block ops in [`Stage::Block`] only.
//! * **V10** Ops with effects are not pure and stand in the entry only: storage order is their order.
//! * **V11** Updates: the leaf is a param or a state, the next value has its type, and a leaf has one update.
//! * **V12** Interned ids exist: shapes, strings, locations.
//!
//! Invariant: the columns may be broken in any way; every id is checked before it is used. If V3 fails, nothing else is
//! checked. All errors are collected; each names the invariant, the node and the reason. Called by passes, tests and
//! tools.

use super::attrs::{Attrs, Kind as FieldKind, attrs_are_inline};
use super::dtype::Ty;
use super::graph::Graph;
use super::infer::{Infer, Signature};
use super::leaf::ArgAttrs;
use super::opdef::{Flags, Op, OpDef};
use super::text::Printer;
use crate::arena::shapes::Shapes;
use crate::arena::{Node, Region, Shape, Sym, Value, ids::Id};
use crate::error::{Error, Kind, Location, Result};
use std::cell::OnceCell;

/// The stage of compilation of a graph, which limits its ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stage {
    /// As a user wrote it: all ops.
    Block,
    /// As derivatives need it: neither block ops nor fused ops.
    Core,
    /// After fusion: no block ops.
    Fused,
}

/// All broken invariants of `g`; empty for a sound graph.
pub fn verify(g: Graph<'_>, stage: Stage) -> Vec<Error> {
    let mut errors = Vec::new();
    check_columns(&g, &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    let mut v = Verifier {
        g,
        stage,
        errors,
        printer: OnceCell::new(),
        shapes: Shapes::seeded(g.shapes),
        sigs: Vec::with_capacity(g.regions()),
        uses: vec![Uses::default(); g.regions()],
        tys: Vec::new(),
        out: Vec::new(),
    };
    for r in (0..g.regions()).map(Region::new) {
        v.region(r);
    }
    v.uses();
    v.entry();
    v.updates();
    v.errors
}

/// An error for the first broken invariant of `g`, with the number of others.
pub fn check(g: Graph<'_>, stage: Stage) -> Result<()> {
    let errors = verify(g, stage);
    let others = errors.len().saturating_sub(1);
    match errors.into_iter().next() {
        None => Ok(()),
        Some(mut e) => {
            if others > 0 {
                e.message = format!("{} (and {others} more)", e.message);
            }
            Err(e)
        }
    }
}

/// Checks V3.
fn check_columns(g: &Graph<'_>, errors: &mut Vec<Error>) {
    let mut say = |why: String| errors.push(Error::new(Kind::Verify, format!("V3: {why}")));
    let (nodes, values, regions) = (g.op.len(), g.def.len(), g.nodes_at.len().saturating_sub(1));
    if regions == 0 {
        say("there is no entry region".into());
    }
    let lengths = [
        ("attr", g.attr.len(), nodes),
        ("loc", g.loc.len(), nodes),
        ("args_at", g.args_at.len(), nodes + 1),
        ("outs_at", g.outs_at.len(), nodes + 1),
        ("dtype", g.dtype.len(), values),
        ("shape", g.shape.len(), values),
        ("names", g.names.len(), values),
        ("nodes_at", g.nodes_at.len(), regions + 1),
        ("yields_at", g.yields_at.len(), regions + 1),
        ("region_names", g.region_names.len(), regions),
    ];
    for (name, is, want) in lengths {
        if is != want {
            say(format!("column {name} has {is} entries, not {want}"));
        }
    }
    let offsets = [
        ("args_at", g.args_at, g.args.len()),
        ("outs_at", g.outs_at, values),
        ("nodes_at", g.nodes_at, nodes),
        ("yields_at", g.yields_at, g.yields.len()),
    ];
    for (name, at, end) in offsets {
        let ends = at.first() == Some(&0) && at.last().map(|&x| x as usize) == Some(end);
        if !ends || !at.is_sorted() {
            say(format!("offsets {name} do not rise from 0 to {end}"));
        }
    }
}

/// Numbers of users of a region.
#[derive(Clone, Copy, Default)]
struct Uses {
    /// Calls and loops.
    shared: u32,
    /// Fused ops.
    fused: u32,
}

/// A walk over a graph whose offsets are sound.
struct Verifier<'a> {
    g: Graph<'a>,
    stage: Stage,
    errors: Vec<Error>,
    /// Made for the first message.
    printer: OnceCell<Printer<'a>>,
    shapes: Shapes,
    sigs: Vec<Signature>,
    /// Users of each region.
    uses: Vec<Uses>,
    tys: Vec<Ty>,
    out: Vec<Ty>,
}

impl<'a> Verifier<'a> {
    fn say(&mut self, invariant: u8, why: impl std::fmt::Display) {
        self.errors.push(Error::new(Kind::Verify, format!("V{invariant}: {why}")));
    }

    fn say_at(&mut self, invariant: u8, n: Node, why: impl std::fmt::Display) {
        self.fail_at(Kind::Verify, invariant, n, why);
    }

    fn fail_at(&mut self, kind: Kind, invariant: u8, n: Node, why: impl std::fmt::Display) {
        let text = self.text(n);
        let known = |l: &Location<Sym>| match *l {
            Location::Nowhere => false,
            Location::Text(..) => true,
            Location::Source(s, _) | Location::Node(s) => self.has_str(s),
        };
        let location = self.g.locs.get(self.g.loc[n.at()] as usize).copied().filter(known);
        let location = location.map(|l| l.map(|s| self.g.str(s).to_string()));
        self.errors.push(match location {
            Some(location) => Error::new(kind, format!("V{invariant}: {why}: {text}")).at(location),
            None => Error::new(kind, format!("V{invariant}: {why}")).at(Location::Node(text)),
        });
    }

    /// `n` in the text form if its ids exist, else by its ids.
    fn text(&self, n: Node) -> String {
        let g = &self.g;
        let outs = g.outs_at[n.at()] as usize..g.outs_at[n.at() + 1] as usize;
        let typed = g.shape[outs].iter().all(|&s| self.has_shape(s));
        match (self.def(n), self.words(n)) {
            (Some(def), Some(words)) if typed && self.schema(def, words).is_ok() => {
                let mut out = String::new();
                self.printer.get_or_init(|| Printer::new(self.g)).node(&mut out, n);
                out
            }
            (def, _) => {
                let op = def.map_or_else(|| format!("op {}", g.op[n.at()].0), |d| d.name.to_string());
                let args: Vec<String> = g.args_of(n).iter().map(Value::to_string).collect();
                format!("{n} = {op} {}", args.join(", "))
            }
        }
    }

    // Lookups that check ids.

    fn def(&self, n: Node) -> Option<&'static OpDef> {
        self.g.ops.get(self.g.op[n.at()].0 as usize).copied()
    }

    fn has_shape(&self, s: Shape) -> bool {
        s.at() < self.g.shapes.len()
    }

    fn has_str(&self, s: Sym) -> bool {
        s.at() < self.g.strings.len()
    }

    /// The attribute words of `n`, if they are inside the pool.
    fn words(&self, n: Node) -> Option<&'a [u32]> {
        let (fields, word) = (self.def(n)?.attrs, &self.g.attr[n.at()]);
        if fields.is_empty() {
            return Some(&[]);
        }
        if attrs_are_inline(fields) {
            return Some(std::slice::from_ref(word));
        }
        let (&count, words) = self.g.extra.get(*word as usize..)?.split_first()?;
        words.get(..count as usize)
    }

    fn schema(&self, def: &'static OpDef, words: &[u32]) -> Result<(), String> {
        let (shapes, strings) = (self.g.shapes.len(), self.g.strings.len());
        Attrs { fields: def.attrs, words }.validate(shapes, strings, self.g.regions())
    }

    /// The type of `v`, if there is such a value and its shape exists.
    fn ty(&self, v: Value) -> Option<Ty> {
        let ty = Ty { dtype: *self.g.dtype.get(v.at())?, shape: *self.g.shape.get(v.at())? };
        self.has_shape(ty.shape).then_some(ty)
    }

    /// The ids of the values of `r`.
    fn values_of(&self, r: Region) -> std::ops::Range<u32> {
        let at = |i: usize| self.g.outs_at[self.g.nodes_at[i] as usize];
        at(r.at())..at(r.at() + 1)
    }

    // Regions and their nodes.

    fn region(&mut self, r: Region) {
        let entry = r == self.g.entry();
        let values = self.values_of(r);
        let mut args = 0;
        for (i, n) in self.g.region_nodes(r).enumerate() {
            let is_arg = self.g.op[n.at()] == Op::ARG;
            if is_arg && entry {
                self.say_at(7, n, "the entry has no arguments");
            } else if is_arg && args < i {
                self.say_at(7, n, "an argument stands after other nodes");
            }
            args += usize::from(is_arg);
            self.interned(n);
            if self.node(r, n, values.start) {
                self.infer(n);
                if is_arg && ArgAttrs::of(&self.g.attrs(n)).index != i as i64 {
                    self.say_at(7, n, format!("this is argument {i}"));
                }
            }
        }
        let at = self.g.yields_at[r.at()] as usize..self.g.yields_at[r.at() + 1] as usize;
        let yields = &self.g.yields[at];
        for (i, y) in yields.iter().enumerate().filter(|(_, y)| !values.contains(&y.0)) {
            self.say(7, format!("yield {i} of region {r} is {y}, which is no value of it"));
        }
        let tys = |vs: &mut dyn Iterator<Item = Value>| vs.filter_map(|v| self.ty(v)).collect();
        let sig = Signature { args: tys(&mut self.g.region_args(r)), yields: tys(&mut yields.iter().copied()) };
        self.sigs.push(sig);
        if self.g.region_names[r.at()].is_some() && !self.has_str(self.g.region_names[r.at()]) {
            self.say(12, format!("the name of region {r} does not exist"));
        }
    }

    /// Checks V1, V2, V4, V5 and V7 to V10 for node `n` of region `r`, whose values start at `base`. True if `infer`
    /// can run.
    fn node(&mut self, r: Region, n: Node, base: u32) -> bool {
        let g = self.g;
        let errors = self.errors.len();
        let first = g.outs_at[n.at()];
        for v in first..g.outs_at[n.at() + 1] {
            if g.def[v as usize] != n {
                self.say_at(1, n, format!("result %{v} is said to be defined by {}", g.def[v as usize]));
            }
        }
        for (i, &a) in g.args_of(n).iter().enumerate() {
            if a.at() >= g.def.len() {
                self.say_at(1, n, format!("operand {i} is value {a}, and there are {}", g.def.len()));
            } else if !(base..first).contains(&a.0) {
                self.say_at(2, n, format!("operand {i} is value {a}, which does not stand before it in its region"));
            }
        }
        let Some(def) = self.def(n) else {
            self.say_at(1, n, format!("op {} is not in the table of {}", g.op[n.at()].0, g.ops.len()));
            return false;
        };
        if !def.arity.allows(g.args_of(n).len()) {
            let why = format!("{} takes {} operands, not {}", def.name, def.arity, g.args_of(n).len());
            self.fail_at(Kind::Arity, 4, n, why);
        }
        match self.words(n) {
            None => self.say_at(5, n, "its attributes lie outside the pool"),
            Some(words) => match self.schema(def, words) {
                Err(e) => self.say_at(5, n, e),
                Ok(()) => self.regions_used(r, n, Attrs { fields: def.attrs, words }),
            },
        }
        self.flags(r == g.entry(), n, def);
        self.errors.len() == errors && g.args_of(n).iter().all(|&a| self.ty(a).is_some())
    }

    /// Checks V7, V9 and V10: the flags of the op definition against the stage and the region.
    fn flags(&mut self, entry: bool, n: Node, def: &OpDef) {
        let (stage, name) = (self.stage, def.name);
        if def.flags.has(Flags::FUSED) && stage == Stage::Core {
            let why = format!("{name} is a fused op: it may stand in stages Block and Fused, and this is {stage:?}");
            self.fail_at(Kind::Stage, 9, n, why);
        }
        if def.flags.has(Flags::BLOCK) && stage != Stage::Block {
            let why = format!("{name} is a block op: it may stand in stage Block, and this is {stage:?}");
            self.fail_at(Kind::Stage, 9, n, why);
        }
        if def.flags.has(Flags::EFFECT) && (!entry || def.is_pure()) {
            self.say_at(10, n, "an effect must stand in the entry, and is not pure");
        }
        if !entry && self.g.op[n.at()].is_named_leaf() {
            self.say_at(7, n, "a leaf stands outside the entry");
        }
    }

    /// Checks V8 for the regions of one node, and counts their users.
    fn regions_used(&mut self, r: Region, n: Node, attrs: Attrs<'_>) {
        for i in (0..attrs.fields.len()).filter(|&i| attrs.fields[i].kind == FieldKind::Region && attrs.has(i)) {
            let used = attrs.region(i);
            if used >= r {
                self.say_at(8, n, format!("region {used} does not stand before its user, in region {r}"));
            }
            let count = &mut self.uses[used.at()];
            if self.g.def_of(n).flags.has(Flags::FUSED) { count.fused += 1 } else { count.shared += 1 }
        }
    }

    /// Checks V6 for node `n`.
    fn infer(&mut self, n: Node) {
        let g = self.g;
        let (Some(def), Some(words)) = (self.def(n), self.words(n)) else { return };
        let mut tys = std::mem::take(&mut self.tys);
        let mut out = std::mem::take(&mut self.out);
        tys.clear();
        out.clear();
        tys.extend(g.args_of(n).iter().map(|&a| g.ty(a)));
        let attrs = Attrs { fields: def.attrs, words };
        let cx = &mut Infer { args: &tys, attrs, shapes: &mut self.shapes, regions: &self.sigs, out: &mut out };
        match (def.infer)(cx) {
            Err(e) => self.say_at(6, n, e),
            Ok(()) if out.len() != g.outs_of(n).len() => {
                self.say_at(6, n, format!("it has {} results, and {} by inference", g.outs_of(n).len(), out.len()));
            }
            Ok(()) => {
                for (i, (v, &ty)) in g.outs_of(n).zip(&out).enumerate() {
                    // A missing shape has been reported as V12.
                    if self.ty(v).is_some_and(|is| is != ty) {
                        let want = format!("{}{}", ty.dtype, self.shapes.dims(ty.shape));
                        self.say_at(6, n, format!("result {i} is {}, and {want} by inference", g.ty_text(v)));
                    }
                }
            }
        }
        (self.tys, self.out) = (tys, out);
    }

    /// Checks V12 for node `n` and its results.
    fn interned(&mut self, n: Node) {
        let g = self.g;
        for v in g.outs_of(n) {
            if !self.has_shape(g.shape[v.at()]) {
                self.say_at(12, n, format!("shape {} of result {v} does not exist", g.shape[v.at()]));
            }
            if g.names[v.at()].is_some() && !self.has_str(g.names[v.at()]) {
                self.say_at(12, n, format!("name {} of result {v} does not exist", g.names[v.at()]));
            }
        }
        let loc = g.loc[n.at()];
        match g.locs.get(loc as usize) {
            None if loc != u32::MAX => self.say_at(12, n, format!("place {loc} does not exist")),
            Some(&(Location::Source(s, _) | Location::Node(s))) if !self.has_str(s) => {
                self.say_at(12, n, format!("the file of place {loc} does not exist"));
            }
            _ => {}
        }
    }

    // Checks of the whole graph.

    /// Checks V8 for the number of users of each region.
    fn uses(&mut self) {
        let entry = self.g.entry();
        for r in (0..entry.at()).map(Region::new) {
            let Uses { shared, fused } = self.uses[r.at()];
            let users = shared + fused;
            if users == 0 && self.stage != Stage::Block {
                self.say(8, format!("region {r} has no user"));
            } else if fused > 0 && users > 1 {
                self.say(8, format!("region {r} has {users} users; only calls and loops share a region"));
            }
        }
    }

    /// Checks V7 and V12 for the names of the graph, its outputs and its leaves.
    fn entry(&mut self) {
        let g = self.g;
        if !self.has_str(g.name) {
            self.say(12, "the name of the graph does not exist");
        }
        let at = &g.yields_at[g.entry().at()..];
        let outputs = at[1] - at[0];
        if g.output_names.len() != outputs as usize {
            self.say(7, format!("{outputs} outputs have {} names", g.output_names.len()));
        }
        let mut seen = vec![false; g.strings.len()];
        for &s in g.output_names {
            match seen.get_mut(s.at()) {
                None => self.say(12, format!("output name {s} does not exist")),
                Some(true) => self.say(7, format!("two outputs are called {:?}", g.str(s))),
                Some(seen) => *seen = true,
            }
        }
        seen.fill(false);
        for n in g.region_nodes(g.entry()) {
            if !g.op[n.at()].is_named_leaf() {
                continue;
            }
            // The first word of a named leaf is its name. V5 has checked that it exists.
            let name = self.words(n).and_then(|w| w.first()).map_or(Sym::NONE, |&w| Sym(w));
            match seen.get_mut(name.at()) {
                Some(true) => self.say_at(7, n, format!("two leaves are called {:?}", g.str(name))),
                Some(seen) => *seen = true,
                None => {}
            }
        }
    }

    /// Checks V11.
    fn updates(&mut self) {
        let g = self.g;
        let values = self.values_of(g.entry());
        let mut seen = vec![false; g.values()];
        for (i, &(leaf, next)) in g.updates.iter().enumerate() {
            if !values.contains(&leaf.0) || !values.contains(&next.0) {
                self.say(1, format!("update {i}, {leaf} <- {next}, names what is no value of the entry"));
                continue;
            }
            let op = g.op.get(g.def[leaf.at()].at());
            if !matches!(op, Some(&(Op::PARAM | Op::STATE))) {
                self.say(11, format!("update {i} is of {leaf}, which is neither a param nor a state"));
            }
            if g.ty(leaf) != g.ty(next) {
                self.say(11, format!("update {i}: {leaf} and {next} are of different types"));
            }
            if std::mem::replace(&mut seen[leaf.at()], true) {
                self.say(11, format!("update {i}: {leaf} has an update already"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
