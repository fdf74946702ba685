//! The loop that most passes share: it reads a graph in order and writes another.
//!
//! Nodes without a reader are left out (one reverse scan), equal nodes merge (the builder hash-conses), and a rule may
//! replace the results of each node. Invariant: leaves of the entry always stay; they are the program's signature.

use crate::arena::{Node, Region, Side, Sym, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::ir::site::Site;
use crate::nodes::ir::verify;
use crate::nodes::ir::verify::Stage;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op, OpDef, Var};
use bumpalo::Bump;
use hashbrown::{HashMap, HashSet};

/// A node of the source graph, as a rule sees it.
pub struct Visit<'x, 'g> {
    /// The source graph.
    pub src: Graph<'x>,
    /// The node.
    pub node: Node,
    /// Its op definition.
    pub def: &'static OpDef,
    /// Its operands in the new graph.
    pub args: &'x [Var<'g>],
    /// The builder of the new graph.
    pub g: &'g Builder,
    /// Region of the source → region of the new graph.
    pub regions: &'x [Region],
    /// Value of the source → value of the new graph, for the values before this node.
    pub map: &'x Side<Value, Var<'g>>,
}

impl<'x, 'g> Visit<'x, 'g> {
    /// The node in the form that derivative rules and decompositions take. `outs` are its results in the new graph.
    pub fn site<'s>(&'s self, outs: &'s [Var<'g>]) -> Site<'s, 'g> {
        Site { g: self.g, op: self.src.op[self.node.at()], attrs: self.src.attrs(self.node), args: self.args, outs }
    }

    /// The node's op.
    pub fn op(&self) -> Op {
        self.src.op[self.node.at()]
    }
}

/// A rewrite rule. `None` copies the node; `Some` replaces its results, one value of the same type for each.
pub type Rule<'r> = dyn for<'x, 'g> FnMut(&Visit<'x, 'g>) -> Option<Vec<Var<'g>>> + 'r;

/// The nodes that must stay: those of outputs and updates, leaves, nodes with effects, and the nodes that these read.
pub fn live_nodes(g: Graph<'_>) -> Side<Node, bool> {
    let mut live = Side::filled(g.nodes(), false);
    let mut used = Side::<Region, bool>::filled(g.regions(), false);
    used[g.entry()] = true;
    for &v in g.outputs() {
        live[g.def[v.at()]] = true;
    }
    for &(leaf, next) in g.updates {
        live[g.def[leaf.at()]] = true;
        live[g.def[next.at()]] = true;
    }
    for r in (0..g.regions()).rev().map(Region::new) {
        if !used[r] {
            continue;
        }
        for &v in g.region_yields(r) {
            live[g.def[v.at()]] = true;
        }
        for n in g.region_nodes(r).rev() {
            let def = g.def_of(n);
            if !(live[n] || def.is_leaf() || !def.is_pure()) {
                continue;
            }
            live[n] = true;
            for &a in g.args_of(n) {
                live[g.def[a.at()]] = true;
            }
            for (i, f) in def.attrs.iter().enumerate() {
                if f.kind == crate::nodes::ir::attrs::Kind::Region {
                    used[g.attrs(n).region(i)] = true;
                }
            }
        }
    }
    live
}

/// Writes `g` into `bump`, with `rule` applied to each node.
pub fn rebuild<'b>(g: Graph<'_>, bump: &'b Bump, rule: &mut Rule<'_>) -> Result<Graph<'b>> {
    let b = Builder::rewriting(Emit::like(&g));
    let mut copier = Copier::new(g, &b);
    copier.run(rule);
    copier.signature();
    finish(b, bump)
}

/// As [`rebuild`], into a new bump.
pub fn rebuild_buf(g: Graph<'_>, rule: &mut Rule<'_>) -> Result<GraphBuf> {
    GraphBuf::make(|bump| rebuild(g, bump, rule))
}

/// The graph that pass `name` writes, in a new bump. Debug builds verify it, so that an error names the pass that made
/// it and not the next pass.
pub fn written(name: &str, f: impl for<'b> FnOnce(&'b Bump) -> Result<Graph<'b>>) -> Result<GraphBuf> {
    let buf = GraphBuf::make(f)?;
    if cfg!(debug_assertions) {
        verify::check(buf.view(), Stage::Block).map_err(|e| e.context(format!("after pass {name}")))?;
    }
    Ok(buf)
}

/// Freezes the graph of `b` in `bump`.
pub fn finish<'b>(b: Builder, bump: &'b Bump) -> Result<Graph<'b>> {
    b.into_emit().finish(bump)
}

/// Copies a graph into a builder: the common first half of rebuilding and of differentiating.
pub struct Copier<'x, 'g> {
    src: Graph<'x>,
    g: &'g Builder,
    live: Side<Node, bool>,
    /// Value of the source → value of the builder.
    pub map: Side<Value, Var<'g>>,
    /// Region of the source → region of the builder.
    pub regions: Vec<Region>,
    /// Further values that regions yield, after their yields.
    more: Option<Side<Region, Vec<Value>>>,
    // Buffers for the operands of the current node, so that a node costs no allocation.
    args: Vec<Var<'g>>,
    ids: Vec<Value>,
}

impl<'x, 'g> Copier<'x, 'g> {
    /// Copies `src` into `g`, a builder of [`Emit::like`]`(src)`.
    pub fn new(src: Graph<'x>, g: &'g Builder) -> Self {
        let map = Side::filled(src.values(), g.var(Value::NONE));
        let (live, regions) = (live_nodes(src), vec![Region::NONE; src.regions()]);
        Copier { src, g, live, map, regions, more: None, args: Vec::new(), ids: Vec::new() }
    }

    /// The same copier; region `r` also yields those values of `more[r]` that are copied. They become the last results
    /// of the loops that run `r`.
    pub fn yielding(self, more: Side<Region, Vec<Value>>) -> Self {
        Copier { more: Some(more), ..self }
    }

    /// Copies all live nodes, through `rule`.
    pub fn run(&mut self, rule: &mut Rule<'_>) {
        let entry = self.src.entry();
        for r in (0..self.src.regions()).map(Region::new) {
            // A live node marks the regions it uses; an unused region has no live node but its arguments.
            let used = r == entry || self.src.region_yields(r).iter().any(|v| self.live[self.src.def[v.at()]]);
            if !used {
                continue;
            }
            if r != entry {
                let name = self.src.str(self.src.region_names[r.at()]);
                self.g.with(|e| e.open_region(name));
            }
            for n in self.src.region_nodes(r) {
                if self.live[n] || self.src.op[n.at()] == Op::ARG {
                    self.node(n, rule);
                }
            }
            if r != entry {
                let yields: Vec<Value> = self.src.region_yields(r).iter().map(|&v| self.map[v].v).collect();
                let more = self.more.iter().flat_map(|m| &m[r]).map(|&v| self.map[v]);
                let yields: Vec<Value> = yields.into_iter().chain(more.filter(|v| v.is_some()).map(|v| v.v)).collect();
                self.regions[r.at()] = self.g.with(|e| e.close_region(&yields));
            }
        }
        self.g.with(|e| e.set_loc(u32::MAX));
    }

    /// Copies the leaf `v` alone. [`Copier::run`] does not copy a leaf again that `map` already has.
    pub fn leaf(&mut self, v: Value) -> Var<'g> {
        let n = self.src.def[v.at()];
        self.g.with(|e| e.set_loc(self.src.loc[n.at()]));
        self.copy(n, &[]);
        self.g.with(|e| e.set_loc(u32::MAX));
        self.map[v]
    }

    /// Applies `rule` to `n`, or copies it.
    fn node(&mut self, n: Node, rule: &mut Rule<'_>) {
        let (src, g) = (self.src, self.g);
        if src.def_of(n).is_leaf() && self.map[src.out(n)].is_some() {
            return;
        }
        let mut args = std::mem::take(&mut self.args);
        args.clear();
        args.extend(src.args_of(n).iter().map(|&a| self.map[a]));
        g.with(|e| e.set_loc(src.loc[n.at()]));
        let def = src.def_of(n);
        let new = if def.is_leaf() {
            None
        } else {
            rule(&Visit { src, node: n, def, args: &args, g, regions: &self.regions, map: &self.map })
        };
        match new {
            Some(new) => {
                let count = src.outs_of(n).len();
                if new.len() != count && g.error().is_none() {
                    g.fail(Kind::Verify, format!("a rule for {} gave {} results of {count}", def.name, new.len()));
                }
                for (v, new) in src.outs_of(n).zip(new) {
                    self.bind(v, new);
                }
            }
            None => self.copy(n, &args),
        }
        self.args = args;
    }

    /// Maps `v` to `new`, which must have the same type and takes over the name.
    fn bind(&mut self, v: Value, new: Var<'g>) {
        let (name, want, have) = (self.src.names[v.at()], self.src.ty(v), new.ty());
        if new.is_some() && want != have {
            let def = self.src.def_of(self.src.def[v.at()]).name;
            let text = format!("{}{}", new.dtype(), new.dims());
            self.g.fail(Kind::Verify, format!("a rule for {def} gave {text}, not {}", self.src.ty_text(v)));
        }
        if name != Sym::NONE && self.src.leaf(v).is_none() {
            self.g.with(|e| {
                let leaf = e.def(new.v).is_some_and(|d| d.op.is_named_leaf());
                if !leaf {
                    e.set_name(new.v, name);
                }
            });
        }
        self.map[v] = new;
    }

    /// Copies `n` with operands `args`.
    fn copy(&mut self, n: Node, args: &[Var<'g>]) {
        let src = self.src;
        if let Some((_, name)) = src.leaf(src.out(n)) {
            // `Emit::leaf` keeps names unique.
            let owned: Vec<_> = src.attrs(n).iter().skip(1).map(|(_, a)| a).collect();
            let attrs: Vec<_> = owned.iter().map(|a| a.borrow()).collect();
            let new = self.g.with(|e| e.leaf(src.op[n.at()], name, &attrs));
            self.map[src.out(n)] = self.g.var(new);
            return;
        }
        self.ids.clear();
        self.ids.extend(args.iter().map(|a| a.v));
        let outs = self.g.with(|e| e.copy(&src, n, &self.ids, &self.regions));
        for (v, new) in src.outs_of(n).zip(outs.iter()) {
            self.map[v] = self.g.var(new);
        }
    }

    /// Copies the outputs and updates.
    pub fn signature(&self) {
        for (&v, &name) in self.src.outputs().iter().zip(self.src.output_names) {
            self.g.output(self.src.str(name), self.map[v]);
        }
        self.updates();
    }

    /// Copies the updates.
    pub fn updates(&self) {
        for &(leaf, next) in self.src.updates {
            self.g.update(self.map[leaf], self.map[next]);
        }
    }
}

/// The leaf called `name`, or an error that lists the names. For many names use [`Signature`].
pub fn leaf_named(g: Graph<'_>, name: &str) -> Result<Value> {
    g.find_leaf(name).map(|l| l.0).ok_or_else(|| no_leaf(g, name))
}

/// The output called `name`, or an error that lists the names. For many names use [`Signature`].
pub fn output_named(g: Graph<'_>, name: &str) -> Result<Value> {
    g.find_output(name).ok_or_else(|| no_output(g, name))
}

fn no_leaf(g: Graph<'_>, name: &str) -> Error {
    let known: Vec<&str> = g.leaves().map(|l| l.name).collect();
    Error::new(Kind::Name, format!("no leaf is called {name:?}{}", names::instead(name, known.iter().copied())))
}

fn no_output(g: Graph<'_>, name: &str) -> Error {
    let known = g.output_names.iter().map(|&s| g.str(s));
    Error::new(Kind::Name, format!("no output is called {name:?}{}", names::instead(name, known)))
}

/// The leaves and outputs of a graph by name, found in one scan.
pub struct Signature<'x> {
    g: Graph<'x>,
    leaves: HashMap<&'x str, Value>,
    outputs: HashMap<&'x str, Value>,
    /// Names that [`Signature::unused`] returned.
    given: HashSet<String>,
}

impl<'x> Signature<'x> {
    /// The signature of `g`.
    pub fn new(g: Graph<'x>) -> Self {
        let outputs = g.output_names.iter().map(|&s| g.str(s)).zip(g.outputs().iter().copied());
        let leaves = g.leaves().map(|l| (l.name, l.value));
        Signature { g, leaves: leaves.collect(), outputs: outputs.collect(), given: HashSet::new() }
    }

    /// As [`leaf_named`].
    pub fn leaf(&self, name: &str) -> Result<Value> {
        self.leaves.get(name).copied().ok_or_else(|| no_leaf(self.g, name))
    }

    /// As [`output_named`].
    pub fn output(&self, name: &str) -> Result<Value> {
        self.outputs.get(name).copied().ok_or_else(|| no_output(self.g, name))
    }

    /// A new name that no leaf and no output has: `name`, or `name.2`, `name.3` ….
    pub fn unused(&mut self, name: &str) -> String {
        let taken = |n: &str| self.leaves.contains_key(n) || self.outputs.contains_key(n) || self.given.contains(n);
        let numbered = (2..).map(|i| format!("{name}.{i}"));
        let free = std::iter::once(name.to_string()).chain(numbered).find(|n| !taken(n));
        let free = free.unwrap_or_else(|| name.to_string());
        self.given.insert(free.clone());
        free
    }
}

/// The output called `name` as a loss: a scalar of a dtype that carries a derivative. Else an error with its op and
/// location.
pub fn loss_named(g: Graph<'_>, name: &str) -> Result<Value> {
    let v = output_named(g, name)?;
    if g.dims(v).is_empty() && g.dtype[v.at()].is_differentiable() {
        return Ok(v);
    }
    let (op, ty) = (g.def_of(g.def[v.at()]).name, g.ty_text(v));
    let hint = if g.dims(v).is_empty() { "cast what it is made of" } else { "reduce it, as by its mean, or see vjp" };
    Err(underivable(g, v, format!("the loss {name:?}, made by {op}, is {ty}, not a scalar f32[] or f64[]; {hint}")))
}

/// An error of kind `Derivative` at the location of `v`.
pub fn underivable(g: Graph<'_>, v: Value, text: String) -> Error {
    Error::new(Kind::Derivative, text).at(g.location(g.def[v.at()]))
}
