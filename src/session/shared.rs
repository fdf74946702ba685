//! Several graphs in one arena: params and states are matched by name and live once; activations share bytes.
//!
//! Invariant: equal names mean equal leaves: kind, dtype, dims and start values. What differs is an error that names
//! both places. Each plan is proved in the arena that all of them share, and proved not to touch what is the others'
//! own. Only [`Session::compile_all`](super::Session::compile_all) uses this.

use super::compiled_graph::CompiledGraph;
use super::{Session, budget};
use crate::arena::dims::Dims;
use crate::arena::tensor::LINE;
use crate::arena::{Value, ids::Id};
use crate::error::{Error, Kind, Location, Result};
use crate::nodes::ir::leaf::{ParamAttrs, StateAttrs};
use crate::nodes::{DType, Graph, Init, Leaf, LeafKind};
use crate::sched::areas::{Areas, Frame};
use hashbrown::HashMap;

/// A param or a state of the arena.
#[derive(PartialEq)]
struct Kept {
    kind: LeafKind,
    dtype: DType,
    dims: Dims,
    init: Option<Init>,
    averages: Option<String>,
}

/// Where a leaf comes from.
struct Origin<'a> {
    method: &'a str,
    location: Location,
}

impl Kept {
    fn of(g: &Graph<'_>, leaf: &Leaf<'_>) -> Kept {
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
        Kept { kind: leaf.kind, dtype: g.dtype[v.at()], dims: g.dims(v), init, averages }
    }

    /// What it is, for an error: `param f32[3,4], zeros`.
    fn text(&self) -> String {
        let kind = match self.kind {
            LeafKind::Input => "an input",
            LeafKind::Param => "a param",
            LeafKind::State => "a state",
        };
        let init = self.init.map_or(String::new(), |init| format!(" with start values {init:?}"));
        let averages = self.averages.as_ref().map_or(String::new(), |p| format!(", the moving average of {p:?}"));
        format!("{kind} {}{}{init}{averages}", self.dtype, self.dims)
    }
}

impl Origin<'_> {
    fn text(&self) -> String {
        let at = self.location.origin().map_or(String::new(), |at| format!(" ({at})"));
        format!("method {:?}{at}", self.method)
    }
}

/// The params and states of all graphs, each with its first line in the arena.
struct Leaves<'a> {
    known: HashMap<String, (Kept, Origin<'a>, u64)>,
    lines: u64,
}

impl<'a> Leaves<'a> {
    /// Matches the leaves of `ready`, and places params, then states.
    fn new(graphs: &[(&'a str, Graph<'_>)], ready: &[CompiledGraph]) -> Result<Leaves<'a>> {
        let mut all = Leaves { known: HashMap::new(), lines: 0 };
        for kind in [LeafKind::Param, LeafKind::State, LeafKind::Input] {
            for (&(method, _), r) in graphs.iter().zip(ready) {
                let g = r.graph.view();
                for leaf in g.leaves().filter(|l| l.kind == kind) {
                    let origin = Origin { method, location: g.location(g.def[leaf.value.at()]) };
                    all.add(leaf.name, Kept::of(&g, &leaf), origin, g.bytes(leaf.value))?;
                }
            }
        }
        Ok(all)
    }

    fn add(&mut self, name: &str, leaf: Kept, origin: Origin<'a>, bytes: usize) -> Result<()> {
        match self.known.get(name) {
            Some((known, first, _)) if *known != leaf => {
                let (a, b) = (known.text(), leaf.text());
                let text = format!("{name:?} is {a} in {}, and {b} in {}", first.text(), origin.text());
                return Err(Error::new(Kind::Shape, text));
            }
            // Inputs are each method's own.
            None if leaf.kind != LeafKind::Input => {
                self.known.insert(name.to_string(), (leaf, origin, self.lines));
                self.lines += bytes.div_ceil(LINE) as u64;
            }
            _ => {}
        }
        Ok(())
    }

    /// Buffer and first line of each param and state of `r`.
    fn of(&self, r: &CompiledGraph) -> Vec<(u32, u64)> {
        let g = r.graph.view();
        let buffer = |v: Value| r.scheduled.slices[v.at()].buf;
        let kept = g.leaves().filter(|l| l.kind != LeafKind::Input);
        kept.filter_map(|l| Some((buffer(l.value), self.known.get(l.name)?.2))).collect()
    }
}

/// Readies `graphs` for one arena.
pub fn compile_shared(session: &Session, graphs: &[(&str, Graph<'_>)]) -> Result<Vec<CompiledGraph>> {
    let free = Session { budget: None, ..session.clone() };
    let of = |&(name, g): &(&str, Graph<'_>)| free.compile_graph(g).map_err(|e| e.context(format!("method {name:?}")));
    let mut ready = graphs.iter().map(of).collect::<Result<Vec<_>>>()?;
    let leaves = Leaves::new(graphs, &ready)?;
    let areas = |r: &CompiledGraph| Areas::new(&r.scheduled, session.poison);
    let mut divided = ready.iter().map(areas).collect::<Result<Vec<_>>>()?;
    if let Some(bytes) = session.budget {
        for i in 0..graphs.len() {
            let other = |j: usize| if j == i { 0 } else { divided[j].own };
            let others = leaves.lines + (0..graphs.len()).map(other).sum::<u64>();
            let size = |a: &Areas| (others + a.own + a.workspace) as usize * LINE;
            if size(&divided[i]) > bytes {
                ready[i] = budget::fit_budget(graphs[i].1, session, bytes, &|r| Ok(size(&areas(r)?)))
                    .map_err(|e| e.context(format!("method {:?}", graphs[i].0)))?;
                session.with_red_zones(&mut ready[i])?;
                divided[i] = areas(&ready[i])?;
            }
        }
    }
    let workspace = leaves.lines + divided.iter().map(|a| a.own).sum::<u64>();
    let lines = workspace + divided.iter().map(|a| a.workspace).max().unwrap_or(0);
    let mut own = leaves.lines;
    let mut placed = Vec::new();
    for (r, a) in ready.into_iter().zip(&divided) {
        let frame = Frame { leaves: &leaves.of(&r), own, workspace, lines };
        let scheduled = a.place(r.scheduled, &frame)?;
        own += a.own;
        placed.push(CompiledGraph { tapes: session.tapes(&scheduled.plan), scheduled, ..r });
    }
    let bytes = lines as usize * LINE;
    match session.budget.filter(|&most| bytes > most) {
        Some(most) => Err(Error::new(Kind::Plan, format!("the memory budget of {most} bytes is too small: {bytes}"))),
        None => Ok(placed),
    }
}
