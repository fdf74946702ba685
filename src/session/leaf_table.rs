//! The params and states that several graphs share, matched by name, and their places in the arena.
//!
//! Invariant: equal names mean equal leaves: kind, dtype, dims and start values. A difference is an error that names
//! both places. A leaf keeps its place; new leaves are added at the end.

use super::compiled_graph::CompiledGraph;
use crate::arena::dims::Dims;
use crate::arena::tensor::LINE;
use crate::arena::{Value, ids::Id};
use crate::error::{Error, Kind, Location, Result};
use crate::nodes::ir::leaf::{LeafInit, ParamAttrs, StateAttrs};
use crate::nodes::{DType, Graph, Leaf, LeafKind};
use hashbrown::HashMap;

/// What a leaf is, apart from its name.
#[derive(Clone, PartialEq)]
struct LeafTableEntry {
    kind: LeafKind,
    dtype: DType,
    dims: Dims,
    init: Option<LeafInit>,
    averages: Option<String>,
}

impl LeafTableEntry {
    fn of(g: &Graph<'_>, leaf: &Leaf<'_>) -> LeafTableEntry {
        let v = leaf.value;
        let attrs = g.attrs(g.def[v.at()]);
        let (init, averages) = match leaf.kind {
            LeafKind::Input => (None, None),
            LeafKind::Param => (Some(ParamAttrs::of(&attrs).leaf_init()), None),
            LeafKind::State => {
                let state = StateAttrs::of(&attrs);
                (Some(state.leaf_init()), state.averages.map(|param| g.str(param).to_string()))
            }
        };
        LeafTableEntry { kind: leaf.kind, dtype: g.dtype[v.at()], dims: g.dims(v), init, averages }
    }

    /// True if both can be one leaf. Inputs are each graph's own, so they need not be equal.
    fn matches(&self, other: &LeafTableEntry) -> bool {
        self == other || (self.kind, other.kind) == (LeafKind::Input, LeafKind::Input)
    }

    /// What it is, for an error: `a param f32[3,4] starting with zeros`.
    fn text(&self) -> String {
        let kind = match self.kind {
            LeafKind::Input => "an input",
            LeafKind::Param => "a param",
            LeafKind::State => "a state",
        };
        let init = self.init.as_ref().map_or(String::new(), |init| format!(" starting with {init}"));
        let averages = self.averages.as_ref().map_or(String::new(), |p| format!(", the moving average of {p:?}"));
        format!("{kind} {}{}{init}{averages}", self.dtype, self.dims)
    }
}

/// A leaf of the table.
#[derive(Clone)]
struct KnownLeaf {
    facts: LeafTableEntry,
    /// The graph that it comes from first, in words.
    graph: String,
    location: Location,
    /// Its first line.
    line: u64,
    /// Its number among params and states.
    number: u32,
}

/// A graph and a line, for an error: `method "act" (src/main.rs:3)`.
fn leaf_table_origin(graph: &str, location: &Location) -> String {
    match location.origin() {
        Some(at) => format!("{graph} ({at})"),
        None => graph.to_string(),
    }
}

/// The leaves of all graphs. Params and states have places; of inputs only the kind is kept.
#[derive(Clone, Default)]
pub struct LeafTable {
    known: HashMap<String, KnownLeaf>,
    lines: u64,
    count: u32,
}

impl LeafTable {
    /// Lines of all params and states.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Number of params and states.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Matches the leaves of `graphs`, each with what errors call it, and places new ones: params, then states.
    ///
    /// Errors (kind `Shape`): a leaf differs from the one of its name.
    pub fn add(&mut self, graphs: &[(&str, Graph<'_>)]) -> Result<()> {
        for kind in [LeafKind::Param, LeafKind::State, LeafKind::Input] {
            for (graph, g) in graphs {
                for leaf in g.leaves().filter(|l| l.kind == kind) {
                    self.add_leaf(graph, g, &leaf)?;
                }
            }
        }
        Ok(())
    }

    fn add_leaf(&mut self, graph: &str, g: &Graph<'_>, leaf: &Leaf<'_>) -> Result<()> {
        let (name, facts) = (leaf.name, LeafTableEntry::of(g, leaf));
        let location = g.location(g.def[leaf.value.at()]);
        match self.known.get(name) {
            Some(known) if !known.facts.matches(&facts) => {
                let (first, second) =
                    (leaf_table_origin(&known.graph, &known.location), leaf_table_origin(graph, &location));
                let (a, b) = (known.facts.text(), facts.text());
                Err(Error::new(Kind::Shape, format!("{name:?} is {a} in {first}, and {b} in {second}")))
            }
            Some(_) => Ok(()),
            None => {
                let (line, number, persists) = (self.lines, self.count, facts.kind != LeafKind::Input);
                let known = KnownLeaf { facts, graph: graph.to_string(), location, line, number };
                self.known.insert(name.to_string(), known);
                if persists {
                    self.lines += g.bytes(leaf.value).div_ceil(LINE) as u64;
                    self.count += 1;
                }
                Ok(())
            }
        }
    }

    /// True if [`LeafTable::add`] of `g` would change nothing.
    pub fn has_all(&self, g: &Graph<'_>) -> bool {
        g.leaves().all(|l| self.known.get(l.name).is_some_and(|known| known.facts.matches(&LeafTableEntry::of(g, &l))))
    }

    /// Buffer and first line of each param and state of `r`.
    pub fn places(&self, r: &CompiledGraph) -> Vec<(u32, u64)> {
        let g = r.graph.view();
        let buffer = |v: Value| r.scheduled.slices[v.at()].buf;
        let kept = g.leaves().filter(|l| l.kind != LeafKind::Input);
        kept.filter_map(|l| Some((buffer(l.value), self.known.get(l.name)?.line))).collect()
    }

    /// The number of the param or state called `name`, below [`LeafTable::count`].
    pub fn number(&self, name: &str) -> Option<u32> {
        self.known.get(name).filter(|known| known.facts.kind != LeafKind::Input).map(|known| known.number)
    }
}
