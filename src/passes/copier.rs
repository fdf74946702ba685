//! Copies a graph into a builder: the common first half of rebuilding and of differentiating.

use super::rebuild::{RebuildVisit, Rule, nodes_that_stay};
use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::error::Kind;
use crate::nodes::{Builder, Graph, Op, Var};

/// What a region yields beside its yields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Yield {
    /// A value of the region.
    Value(Value),
    /// Zeros of the type of a value of any region.
    ZerosLike(Value),
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
    /// A leaf that gets another name.
    renamed: Option<(Value, &'x str)>,
    /// Further values that regions yield, after their yields.
    more: Option<Side<Region, Vec<Yield>>>,
    // Buffers for the operands of the current node, so that a node costs no allocation.
    args: Vec<Var<'g>>,
    ids: Vec<Value>,
}

impl<'x, 'g> Copier<'x, 'g> {
    /// Copies `src` into `g`, a builder of `Emit::like``(src)`.
    pub fn new(src: Graph<'x>, g: &'g Builder) -> Self {
        let map = Side::filled(src.values(), g.var(Value::NONE));
        let (live, regions) = (nodes_that_stay(src), vec![Region::NONE; src.regions()]);
        Copier { src, g, live, map, regions, renamed: None, more: None, args: Vec::new(), ids: Vec::new() }
    }

    /// The same copier, which calls the leaf `v` `name`.
    pub fn renaming(self, v: Value, name: &'x str) -> Self {
        Copier { renamed: Some((v, name)), ..self }
    }

    /// The same copier; region `r` also yields `more[r]`, without values that are not copied. They become the last
    /// results of the loops and choices that run `r`.
    pub fn yielding(self, more: Side<Region, Vec<Yield>>) -> Self {
        Copier { more: Some(more), ..self }
    }

    /// The same copier without the nodes that `out` picks, leaves included. The caller maps what others read of them.
    pub fn without(mut self, out: impl Fn(Node) -> bool) -> Self {
        for n in (0..self.src.nodes()).map(Node::new).filter(|&n| out(n)) {
            self.live[n] = false;
        }
        self
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
                // Zeros have no place.
                self.g.with(|e| e.set_loc(u32::MAX));
                let more = self.more.iter().flat_map(|m| &m[r]).map(|&y| match y {
                    Yield::Value(v) => self.map[v],
                    Yield::ZerosLike(v) => self.g.full(0.0, self.src.dims(v), self.src.dtype[v.at()]),
                });
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
            let (regions, map, live) = (&self.regions[..], &self.map, &self.live);
            rule(&RebuildVisit { src, node: n, def, args: &args, g, regions, map, live })
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

    /// Maps `v`, which is no leaf, to `new`, which must have the same type and takes over the name.
    fn bind(&mut self, v: Value, new: Var<'g>) {
        let (name, want, have) = (self.src.names[v.at()], self.src.ty(v), new.ty());
        if new.is_some() && want != have {
            let def = self.src.def_of(self.src.def[v.at()]).name;
            let text = format!("{}{}", new.dtype(), new.dims());
            self.g.fail(Kind::Verify, format!("a rule for {def} gave {text}, not {}", self.src.ty_text(v)));
        }
        self.g.with(|e| {
            let leaf = e.def(new.v).is_some_and(|d| d.op.is_named_leaf());
            if !leaf {
                e.set_name(new.v, name);
            }
        });
        self.map[v] = new;
    }

    /// Copies `n` with operands `args`.
    fn copy(&mut self, n: Node, args: &[Var<'g>]) {
        let src = self.src;
        if let Some((_, name)) = src.leaf(src.out(n)) {
            let name = self.renamed.filter(|r| r.0 == src.out(n)).map_or(name, |r| r.1);
            // `Emit::leaf` keeps names unique.
            let owned: Vec<_> = src.attrs(n).iter().skip(1).map(|(_, a)| a).collect();
            let attrs: Vec<_> = owned.iter().map(|a| a.as_attr()).collect();
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

#[cfg(test)]
mod tests {
    use crate::error::{Kind, Result};
    use crate::nodes::ir::text;
    use crate::passes::rebuild::{Rule, rebuild_buf};

    const SOURCE: &str = "graph @g {
  %x = input : f64[2]
  %z = input : f64[3]
  %y = exp %x : f64[2]
  %w = sin %z : f64[3]
  return y=%y, w=%w
}
";

    fn rebuilt(rule: &mut Rule<'_>) -> Result<String> {
        let graph = text::parse(SOURCE).unwrap();
        Ok(text::print(rebuild_buf(graph.view(), rule)?.view()))
    }

    #[test]
    fn what_replaces_a_result_takes_its_name_and_a_leaf_keeps_its_own() {
        assert_eq!(rebuilt(&mut |_| None).unwrap(), SOURCE);
        let negated = rebuilt(&mut |v| (v.def.name == "exp").then(|| vec![-v.args[0]])).unwrap();
        assert_eq!(negated, SOURCE.replace("exp", "neg"));
        let dropped = rebuilt(&mut |v| (v.def.name == "exp").then(|| v.args.to_vec())).unwrap();
        assert_eq!(dropped, SOURCE.replace("  %y = exp %x : f64[2]\n", "").replace("y=%y", "y=%x"));
    }

    #[test]
    fn a_rule_gives_each_result_with_its_type() {
        let none = rebuilt(&mut |v| (v.def.name == "exp").then(Vec::new)).unwrap_err();
        assert!(none.kind == Kind::Verify && none.message == "a rule for exp gave 0 results of 1", "{none}");
        let other = rebuilt(&mut |v| {
            let z = v.src.leaves().find(|l| l.name == "z").unwrap().value;
            (v.def.name == "exp").then(|| vec![v.map[z]])
        });
        let other = other.unwrap_err();
        assert!(other.kind == Kind::Verify && other.message == "a rule for exp gave f64[3], not f64[2]", "{other}");
    }

    #[test]
    fn a_region_that_nothing_uses_is_left_out() {
        let unused = "region @unused(%a: f64[2]) {\n  %b = exp %a : f64[2]\n  yield %b\n}\n";
        let used = "region @body(%h: f64[2]) {
  %s = sin %h : f64[2]
  yield %s
}
graph @g {
  %x = input : f64[2]
  %y = scan %x body=@body carries=1 consts=0 length=3 reverse=false : f64[2]
  %z = call %y body=@body : f64[2]
  return z=%z
}
";
        let graph = text::parse(&format!("{unused}{used}")).unwrap();
        // The loop and the call run the other one, which has another number now.
        assert_eq!(rebuild_buf(graph.view(), &mut |_| None).unwrap(), text::parse(used).unwrap());
    }

    #[test]
    fn the_first_error_of_a_rule_stays() {
        let failed = rebuilt(&mut |v| {
            (v.def.name == "exp").then(|| {
                v.g.fail(Kind::Shape, "first");
                Vec::new()
            })
        });
        assert_eq!(failed.unwrap_err().message, "first");
    }
}
