//! Patterns: chains of ops that one op computes, found by named rules and replaced.
//!
//! A rule looks at one root node and at what defines its operands, and gives a [`Match`]: the values that it replaces,
//! what they are made of, and how. Values that others read (outputs, updates, later nodes) are never dropped: either
//! the match gives them as results, or the rule misses and says so. All matches of a round are found first, in node
//! order, and none shares a node with another; rounds go on until none is left, so that a bias goes into a product
//! before its activation does.
//!
//! Runs on whole graphs, derivatives and all, after simplification: broadcasts are single and fills are fills.

mod attention;
mod back;
mod conv;
mod gate;
mod lora;
mod norm;
mod packed;
mod product;
mod slope;
mod steps;
mod sums;

use super::fuse::fused_regions;
use super::rebuild::{Copier, finish, rebuild_buf};
use super::report::{Fusion, Notes, Outcome};
use crate::arena::intern::Dims;
use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ops::constant::FullAttrs;
use crate::nodes::ops::matmul::attrs::Activation;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::ops::matmul::attrs::MatmulBiasActAttrs;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op, Var};

/// Most rounds: a product with its bias, activation and what takes them is far below.
const ROUNDS: usize = 8;

/// Writes the results of a match from its operands.
type Make = dyn for<'g> Fn(&'g Builder, &[Var<'g>]) -> Vec<Var<'g>>;

/// A pattern that was found.
pub struct Match {
    /// Operands of what it becomes.
    args: Vec<Value>,
    /// Replaced values, with the place of each among what `make` gives. All results of a node stand here, or none.
    gives: Vec<(Value, usize)>,
    /// Nodes that nothing outside reads: they go.
    inner: Vec<Node>,
    /// Nodes that `make` writes.
    makes: usize,
    make: Box<Make>,
}

impl Match {
    /// A match of one new node.
    fn new(
        args: Vec<Value>,
        gives: Vec<(Value, usize)>,
        inner: Vec<Node>,
        make: impl for<'g> Fn(&'g Builder, &[Var<'g>]) -> Vec<Var<'g>> + 'static,
    ) -> Match {
        Match { args, gives, inner, makes: 1, make: Box::new(make) }
    }

    /// A match of one new op on `args`, whose first result replaces that of `root`.
    fn one(
        root: Value,
        args: Vec<Value>,
        inner: Vec<Node>,
        make: impl for<'g> Fn(&'g Builder, &[Var<'g>]) -> Var<'g> + 'static,
    ) -> Match {
        Match::new(args, vec![(root, 0)], inner, move |g, a| vec![make(g, a)])
    }
}

/// What a rule says of a root.
enum Found {
    /// Not its pattern.
    No,
    /// Its pattern, but for one thing.
    Missed(String),
    /// Its pattern.
    Fired(Match),
}

/// A named rule.
struct Rule {
    name: &'static str,
    /// Ops of the roots that it looks at.
    roots: fn(Op) -> bool,
    find: fn(&Facts<'_>, Node) -> Found,
}

/// The rules. Of several for one root, the first that finds its pattern wins.
const RULES: &[Rule] = &[
    Rule { name: "lora", roots: |op| op == Op::ADD, find: lora::lora },
    // Before the norms: a bias costs nothing in a product.
    Rule { name: "matmul-bias", roots: |op| op == Op::ADD, find: product::bias },
    Rule { name: "matmul-activation", roots: product::is_activation, find: product::activation },
    Rule { name: "conv-bias", roots: |op| op == Op::ADD, find: conv::bias },
    Rule { name: "conv-activation", roots: product::is_activation, find: conv::activation },
    Rule { name: "gate-before-unpool", roots: |op| op == Op::SELECT, find: conv::gate },
    Rule { name: "matmul-dact", roots: |op| op == Op::SELECT || op == Op::MUL, find: back::gate },
    Rule { name: "matmul-dact-sums", roots: |op| op == Op::REDUCE_SUM, find: back::sums },
    Rule { name: "matmul-shared-input", roots: |op| op == Op::MATMUL, find: product::shared },
    Rule { name: "matmul-step", roots: steps::is_step, find: steps::product },
    Rule { name: "step-scale", roots: steps::is_step, find: steps::scale },
    Rule { name: "steps-together", roots: steps::is_step, find: steps::together },
    Rule { name: "activation-slope", roots: slope::is_slope, find: slope::slope },
    Rule { name: "sum-squares", roots: sums::sums, find: sums::squares },
    Rule { name: "squared-error-gradient", roots: |op| op == Op::ADD, find: sums::error },
    Rule { name: "cross-entropy-gradient", roots: |op| op == Op::SOFTMAX_CROSS_ENTROPY_BACKWARD, find: sums::entropy },
    Rule { name: "attention", roots: |op| op == Op::MATMUL, find: attention::attention },
    Rule { name: "attention-packed", roots: |op| op == Op::ATTENTION, find: packed::forward },
    Rule { name: "attention-packed-backward", roots: |op| op == Op::CONCAT, find: packed::backward },
    Rule { name: "residual-layer-norm", roots: |op| op == Op::LAYER_NORM, find: norm::residual },
    Rule { name: "residual-rms-norm", roots: |op| op == Op::RMS_NORM, find: norm::residual },
    Rule { name: "swiglu", roots: |op| op == Op::MUL, find: gate::swiglu },
    Rule { name: "swiglu-cast", roots: |op| op == Op::CAST, find: gate::cast },
];

/// What rules ask of a graph.
pub struct Facts<'x> {
    g: Graph<'x>,
    /// How often each value is read, by nodes, outputs and updates.
    reads: Side<Value, u32>,
    /// The nodes that read value v: `readers[readers_at[v]..readers_at[v + 1]]`, in order.
    readers_at: Vec<u32>,
    readers: Vec<Node>,
}

impl<'x> Facts<'x> {
    fn new(g: Graph<'x>) -> Facts<'x> {
        let mut reads = Side::filled(g.values(), 0);
        g.args.iter().for_each(|&a| reads[a] += 1);
        let mut at = Vec::with_capacity(g.values() + 1);
        let mut end = 0;
        at.push(0);
        at.extend(reads.as_slice().iter().map(|n| {
            end += n;
            end
        }));
        let (mut readers, mut next) = (vec![Node::NONE; end as usize], at.clone());
        for n in (0..g.nodes()).map(Node::new) {
            for a in g.args_of(n) {
                readers[next[a.at()] as usize] = n;
                next[a.at()] += 1;
            }
        }
        for &v in g.yields.iter().chain(g.updates.iter().map(|u| &u.1)) {
            reads[v] += 1;
        }
        Facts { g, reads, readers_at: at, readers }
    }

    /// The nodes that read `v`, in order.
    fn readers(&self, v: Value) -> &[Node] {
        &self.readers[self.readers_at[v.at()] as usize..self.readers_at[v.at() + 1] as usize]
    }

    /// The one node that reads `v`, if nothing else does.
    fn reader(&self, v: Value) -> Option<Node> {
        self.readers(v).first().copied().filter(|_| self.alone(v))
    }

    fn node(&self, v: Value) -> Node {
        self.g.def[v.at()]
    }

    /// The node of `v`, if `v` is the first result of an `op`.
    fn is(&self, v: Value, op: Op) -> Option<Node> {
        let n = self.node(v);
        (self.g.op[n.at()] == op && self.g.out(n) == v).then_some(n)
    }

    fn args(&self, n: Node) -> &'x [Value] {
        self.g.args_of(n)
    }

    fn attrs(&self, n: Node) -> Attrs<'x> {
        self.g.attrs(n)
    }

    fn dims(&self, v: Value) -> Dims {
        self.g.dims(v)
    }

    /// Whether one node reads `v`, once, and nothing else.
    fn alone(&self, v: Value) -> bool {
        self.reads[v] == 1
    }

    /// What `v` is filled with.
    fn fill(&self, v: Value) -> Option<f64> {
        self.is(v, Op::FULL).map(|n| FullAttrs::of(&self.attrs(n)).value)
    }

    /// What `v` repeats.
    fn repeated(&self, v: Value) -> Option<Value> {
        self.is(v, Op::BROADCAST).map(|n| self.args(n)[0])
    }

    /// The factor and the other operand of a multiplication by a fill.
    fn scaled(&self, v: Value) -> Option<(Node, Value, f64)> {
        let n = self.is(v, Op::MUL)?;
        let a = self.args(n);
        [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| Some((n, a[i], self.fill(a[j])?)))
    }

    /// What `v` is a reshaped form of, if nothing else reads the reshape, which joins `nodes`; or `v`.
    fn through(&self, v: Value, nodes: &mut Vec<Node>) -> Value {
        match self.is(v, Op::RESHAPE).filter(|_| self.alone(v)) {
            Some(n) => {
                nodes.push(n);
                self.args(n)[0]
            }
            None => v,
        }
    }

    /// Of a product, biased or not, without batch axes in b: (x, weight, whether each is transposed).
    fn linear(&self, n: Node) -> Option<(Value, Value, [bool; 2])> {
        let (a, attrs) = (self.args(n), self.attrs(n));
        let plain = match self.g.op[n.at()] {
            Op::MATMUL => true,
            Op::MATMUL_BIAS_ACT => MatmulBiasActAttrs::of(&attrs).act == Activation::None,
            _ => false,
        };
        (plain && self.dims(a[1]).len() == 2).then(|| {
            let MatmulAttrs { ta, tb } = MatmulAttrs::of(&attrs);
            (a[0], a[1], [ta, tb])
        })
    }

    /// How others read the value that a rule would drop, in words.
    fn reads_of(&self, what: &str, v: Value) -> String {
        let n = self.reads[v];
        if self.g.yields.contains(&v) {
            format!("{what} is an output too")
        } else {
            format!("{what} is read {n} times")
        }
    }
}

/// The region of each node, for those that patterns look at: fused regions are one sweep already.
fn nodes<'x>(g: Graph<'x>) -> impl Iterator<Item = (Node, Region)> + 'x {
    let fused = fused_regions(g);
    let regions = (0..g.regions()).map(Region::new).filter(move |r| !fused[*r]);
    regions.flat_map(move |r| g.region_nodes(r).map(move |n| (n, r)))
}

/// What one round found.
#[derive(Default)]
struct Round {
    found: Vec<Match>,
    fired: Vec<Fusion>,
    missed: Vec<Fusion>,
}

fn find(f: &Facts<'_>) -> Round {
    let g = f.g;
    let mut claimed = Side::<Node, bool>::filled(g.nodes(), false);
    let mut round = Round::default();
    for (n, r) in nodes(g) {
        for rule in RULES.iter().filter(|rule| (rule.roots)(g.op[n.at()])) {
            let note = |outcome| Fusion { rule: rule.name, op: g.def_of(n).name, location: g.location(n), outcome };
            match (rule.find)(f, n) {
                Found::No => {}
                Found::Missed(reason) => round.missed.push(note(Outcome::Missed { reason })),
                Found::Fired(m) => {
                    let mut taken = m.inner.clone();
                    taken.extend(m.gives.iter().map(|g| f.node(g.0)));
                    taken.sort_unstable();
                    taken.dedup();
                    if let Some(late) = late(f, &m, r) {
                        let reason =
                            format!("{} is computed after the value that the pattern begins with", name(g, late));
                        round.missed.push(note(Outcome::Missed { reason }));
                        continue;
                    }
                    // The rest of an overlap waits for the next round.
                    if !taken.iter().any(|&n| claimed[n]) {
                        taken.iter().for_each(|&n| claimed[n] = true);
                        round.fired.push(note(Outcome::Fired { saved: taken.len().saturating_sub(m.makes) }));
                        round.found.push(m);
                    }
                    break;
                }
            }
        }
    }
    round
}

fn name(g: Graph<'_>, v: Value) -> String {
    let name = g.names[v.at()];
    if name.is_some() { format!("%{}", g.str(name)) } else { format!("%{v}") }
}

/// The first node that a match replaces.
fn first(f: &Facts<'_>, m: &Match) -> Node {
    m.gives.iter().map(|g| f.node(g.0)).min().unwrap_or(Node::NONE)
}

/// An operand that is not there yet when the match is written, unless it can be written earlier: a node of the entry
/// without operands.
fn late(f: &Facts<'_>, m: &Match, r: Region) -> Option<Value> {
    let first = first(f, m);
    let movable = |n: Node| r == f.g.entry() && f.args(n).is_empty();
    m.args.iter().copied().find(|&a| f.node(a) >= first && !movable(f.node(a)))
}

/// Writes first what matches need before it is there: leaves, all of them so that they keep their order, and fills.
fn early(f: &Facts<'_>, found: &[Match], c: &mut Copier<'_, '_>) {
    let missing = |m: &Match| {
        let begin = first(f, m);
        m.args.iter().copied().filter(move |&a| f.node(a) >= begin).collect::<Vec<_>>()
    };
    let wanted: Vec<Value> = found.iter().flat_map(missing).collect();
    let is_leaf = |n: Node| f.g.op[n.at()].is_named_leaf();
    if wanted.iter().any(|&v| is_leaf(f.node(v))) {
        for n in f.g.region_nodes(f.g.entry()).filter(|&n| is_leaf(n)) {
            c.leaf(f.g.out(n));
        }
    }
    for v in wanted {
        if !c.map[v].is_some() {
            c.leaf(v);
        }
    }
}

/// Writes `g` with the matches in place of what they match.
fn rewrite(f: &Facts<'_>, found: &[Match]) -> Result<GraphBuf> {
    let g = f.g;
    let mut of = Side::<Node, Option<usize>>::filled(g.nodes(), None);
    for (i, m) in found.iter().enumerate() {
        m.gives.iter().for_each(|v| of[f.node(v.0)] = Some(i));
    }
    let mut made: Vec<Vec<Value>> = vec![Vec::new(); found.len()];
    let buf = GraphBuf::make(|bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        early(f, found, &mut c);
        c.run(&mut |v| {
            let i = of[v.node]?;
            if made[i].is_empty() {
                let args: Vec<Var<'_>> = found[i].args.iter().map(|&a| v.map[a]).collect();
                made[i] = (found[i].make)(v.g, &args).iter().map(|x| x.v).collect();
            }
            let at = |o: Value| found[i].gives.iter().find(|g| g.0 == o).and_then(|g| made[i].get(g.1));
            Some(v.src.outs_of(v.node).map(|o| v.g.var(at(o).copied().unwrap_or(Value::NONE))).collect())
        });
        c.signature();
        drop(c);
        finish(b, bump)
    })?;
    // What the matches replaced is there still, and nothing reads it.
    rebuild_buf(buf.view(), &mut |_| None)
}

/// Replaces all patterns of `g`.
pub fn patterns(g: Graph<'_>, notes: &mut Notes) -> Result<GraphBuf> {
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    for _ in 0..ROUNDS {
        let g = buf.view();
        let facts = Facts::new(g);
        let round = find(&facts);
        for f in &round.fired {
            *notes.hits.entry(f.rule).or_default() += 1;
        }
        notes.fusions.extend(round.fired);
        if round.found.is_empty() {
            notes.fusions.extend(round.missed);
            break;
        }
        let next = rewrite(&facts, &round.found)?;
        buf = next;
    }
    Ok(buf)
}
