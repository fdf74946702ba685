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
    buffer: bool,
}

impl LeafTableEntry {
    fn of(g: &Graph<'_>, leaf: &Leaf<'_>) -> LeafTableEntry {
        let v = leaf.value;
        let attrs = g.attrs(g.def[v.at()]);
        let (init, averages, buffer) = match leaf.kind {
            LeafKind::Input => (None, None, false),
            LeafKind::Param => (Some(ParamAttrs::of(&attrs).leaf_init()), None, false),
            LeafKind::State => {
                let state = StateAttrs::of(&attrs);
                let averages = state.averages.map(|param| g.str(param).to_string());
                (Some(state.leaf_init()), averages, state.owner.is_some())
            }
        };
        LeafTableEntry { kind: leaf.kind, dtype: g.dtype[v.at()], dims: g.dims(v), init, averages, buffer }
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
            LeafKind::State if self.buffer => "a buffer",
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
fn describe_origin(graph: &str, location: &Location) -> String {
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
                    (describe_origin(&known.graph, &known.location), describe_origin(graph, &location));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Builder, GraphBuf, Init};

    const F32: DType = DType::F32;

    /// A graph with a param `w` of 128 bytes, and more leaves.
    fn graph(more: impl for<'g> FnOnce(&'g Builder)) -> GraphBuf {
        let g = Builder::new("g");
        g.param("w", [4, 8], F32, Init::Zeros);
        more(&g);
        g.finish([]).unwrap()
    }

    #[test]
    fn params_come_before_states_and_each_begins_a_line() {
        let a = graph(|g| {
            g.state("s", [1], F32, Init::Zeros);
            g.input("x", [3], F32);
        });
        let b = graph(|g| {
            g.param("v", [40], F32, Init::Ones);
            g.input("x", [7], F32);
        });
        let mut all = LeafTable::default();
        all.add(&[("graph a", a.view()), ("graph b", b.view())]).unwrap();
        assert_eq!((all.lines(), all.count()), (2 + 3 + 1, 3));
        let place = |name: &str| (all.known[name].line, all.number(name));
        assert_eq!(["w", "v", "s"].map(place), [(0, Some(0)), (2, Some(1)), (5, Some(2))]);
        assert_eq!((all.number("x"), all.number("z")), (None, None));
        // The same leaves again, in another order of graphs, and new ones behind them.
        let mut more = all.clone();
        more.add(&[("graph b", b.view()), ("graph a", a.view())]).unwrap();
        assert_eq!((more.lines(), more.count()), (6, 3));
        let c = graph(|g| _ = g.state("t", [17], F32, Init::Zeros));
        assert!(all.has_all(&a.view()) && all.has_all(&b.view()) && !all.has_all(&c.view()));
        more.add(&[("graph c", c.view())]).unwrap();
        assert_eq!((more.known["t"].line, more.lines(), more.number("t")), (6, 8, Some(3)));
    }

    #[test]
    fn leaves_of_one_name_differ_in_nothing() {
        let first = graph(|_| ());
        let differs = |other: GraphBuf, text: &str| {
            let mut all = LeafTable::default();
            all.add(&[("graph a", first.view())]).unwrap();
            assert!(!all.has_all(&other.view()));
            let e = all.add(&[("graph b", other.view())]).unwrap_err();
            let (head, tail) = e.message.split_once(", and ").unwrap();
            assert!(head.starts_with("\"w\" is a param f32[4,8] starting with zeros in graph a ("), "{e}");
            assert!(tail.starts_with(&format!("{text} in graph b (")) && e.kind == Kind::Shape, "{e}");
            assert_eq!((all.count(), all.lines()), (1, 2));
        };
        let one = |of: &dyn Fn(&Builder)| {
            let g = Builder::new("g");
            of(&g);
            g.finish([]).unwrap()
        };
        differs(one(&|g| _ = g.param("w", [8, 4], F32, Init::Zeros)), "a param f32[8,4] starting with zeros");
        differs(one(&|g| _ = g.param("w", [4, 8], DType::F64, Init::Zeros)), "a param f64[4,8] starting with zeros");
        differs(
            one(&|g| _ = g.param("w", [4, 8], F32, Init::Normal(0.5))),
            "a param f32[4,8] starting with normal(0.5)",
        );
        differs(one(&|g| _ = g.state("w", [4, 8], F32, Init::Zeros)), "a state f32[4,8] starting with zeros");
        differs(one(&|g| _ = g.input("w", [4, 8], F32)), "an input f32[4,8]");
    }
}
