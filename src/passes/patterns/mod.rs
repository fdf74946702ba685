//! Patterns: named rules that replace a group of ops by one op.
//!
//! A rule looks at a root node and at the definitions of its operands. It returns a [`Match`]: the values that it
//! replaces, the operands of the new op, and how to write it. Invariant: a value that has another reader (an output, an
//! update, a later node) is never dropped. Either it is a result of the match, or the rule misses with a reason. All
//! matches of a round are found first, in node order, and no two share a node. Rounds go on until there is no match: a
//! bias is fused into a product in one round, its activation in the next.
//!
//! Runs on whole graphs, after derivatives and simplification: there is one broadcast in a row, and a constant value is
//! a `full`.

mod act_with_grad;
mod attention;
mod conv;
mod lora;
mod matmul_dact;
mod norm;
mod packed;
mod product;
mod sums;
mod swiglu;
mod updates;

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

/// The most rounds. A product with its bias and activation needs two or three.
const ROUNDS: usize = 8;

/// Writes the replacement on the match's operands. Its results.
type Make = dyn for<'g> Fn(&'g Builder, &[Var<'g>]) -> Vec<Var<'g>>;

/// A group of nodes that a rule found, and its replacement.
pub struct Match {
    /// Operands of the replacement.
    args: Vec<Value>,
    /// Replaced values, each with its position among the results of `make`. All results of a node are here, or none.
    gives: Vec<(Value, usize)>,
    /// Further nodes that disappear, because only the group reads them.
    inner: Vec<Node>,
    /// Number of nodes that `make` writes.
    makes: usize,
    make: Box<Make>,
}

impl Match {
    /// A match whose replacement is one node.
    fn new(
        args: Vec<Value>,
        gives: Vec<(Value, usize)>,
        inner: Vec<Node>,
        make: impl for<'g> Fn(&'g Builder, &[Var<'g>]) -> Vec<Var<'g>> + 'static,
    ) -> Match {
        Match { args, gives, inner, makes: 1, make: Box::new(make) }
    }

    /// A match whose replacement is one node on `args`, the first result of which replaces `root`.
    fn one(
        root: Value,
        args: Vec<Value>,
        inner: Vec<Node>,
        make: impl for<'g> Fn(&'g Builder, &[Var<'g>]) -> Var<'g> + 'static,
    ) -> Match {
        Match::new(args, vec![(root, 0)], inner, move |g, a| vec![make(g, a)])
    }
}

/// The answer of a rule for a root.
enum Found {
    /// The pattern is not here.
    No,
    /// One condition of the pattern failed: the reason.
    Missed(String),
    /// The pattern is here.
    Fired(Match),
}

/// A named rule.
struct Rule {
    name: &'static str,
    /// The ops of roots that the rule looks at.
    roots: fn(Op) -> bool,
    find: fn(&Facts<'_>, Node) -> Found,
}

/// The rules. Of several rules for one root, the first that fires wins.
const RULES: &[Rule] = &[
    Rule { name: "lora", roots: |op| op == Op::ADD, find: lora::lora },
    // Before the norms: a bias is free in a product.
    Rule { name: "matmul-bias", roots: |op| op == Op::ADD, find: product::bias },
    Rule { name: "matmul-activation", roots: product::is_activation, find: product::activation },
    Rule { name: "conv-bias", roots: |op| op == Op::ADD, find: conv::bias },
    Rule { name: "conv-activation", roots: product::is_activation, find: conv::activation },
    Rule { name: "gate-before-unpool", roots: |op| op == Op::SELECT, find: conv::mask_before_unpool },
    Rule { name: "matmul-dact", roots: |op| op == Op::SELECT || op == Op::MUL, find: matmul_dact::product },
    Rule { name: "matmul-dact-sums", roots: |op| op == Op::REDUCE_SUM, find: matmul_dact::column_sums },
    Rule { name: "matmul-shared-input", roots: |op| op == Op::MATMUL, find: product::shared },
    Rule { name: "matmul-step", roots: updates::is_step, find: updates::behind_product },
    Rule { name: "step-scale", roots: updates::is_step, find: updates::scale },
    Rule { name: "steps-together", roots: updates::is_step, find: updates::together },
    Rule { name: "activation-slope", roots: act_with_grad::is_act_grad, find: act_with_grad::act_with_grad },
    Rule { name: "sum-squares", roots: sums::is_sum, find: sums::squares },
    Rule { name: "squared-error-gradient", roots: |op| op == Op::ADD, find: sums::error },
    Rule { name: "cross-entropy-gradient", roots: |op| op == Op::SOFTMAX_CROSS_ENTROPY_BACKWARD, find: sums::entropy },
    Rule { name: "attention", roots: |op| op == Op::MATMUL, find: attention::attention },
    Rule { name: "attention-packed", roots: |op| op == Op::ATTENTION, find: packed::forward },
    Rule { name: "attention-packed-backward", roots: |op| op == Op::CONCAT, find: packed::backward },
    Rule { name: "residual-layer-norm", roots: |op| op == Op::LAYER_NORM, find: norm::residual },
    Rule { name: "residual-rms-norm", roots: |op| op == Op::RMS_NORM, find: norm::residual },
    Rule { name: "swiglu", roots: |op| op == Op::MUL, find: swiglu::swiglu },
    Rule { name: "swiglu-cast", roots: |op| op == Op::CAST, find: swiglu::cast },
];

/// A value times a number.
struct Scaled {
    /// The multiplication.
    node: Node,
    value: Value,
    factor: f64,
}

/// The operands of `x·weight`, and whether each is transposed.
struct Linear {
    x: Value,
    weight: Value,
    transposed: [bool; 2],
}

/// The facts of a graph that rules ask for.
pub struct Facts<'x> {
    g: Graph<'x>,
    /// Number of reads of each value by nodes, outputs and updates.
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

    /// The only reader of `v`, a node.
    fn reader(&self, v: Value) -> Option<Node> {
        self.readers(v).first().copied().filter(|_| self.alone(v))
    }

    /// The node that makes `v`.
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

    /// True if one node reads `v`, once, and there is no other reader.
    fn alone(&self, v: Value) -> bool {
        self.reads[v] == 1
    }

    /// The number that fills `v`.
    fn fill(&self, v: Value) -> Option<f64> {
        self.is(v, Op::FULL).map(|n| FullAttrs::of(&self.attrs(n)).value)
    }

    /// The operand of `v`, if `v` is a broadcast.
    fn repeated(&self, v: Value) -> Option<Value> {
        self.is(v, Op::BROADCAST).map(|n| self.args(n)[0])
    }

    /// The parts of `v`, if `v` is a multiplication by a fill.
    fn scaled(&self, v: Value) -> Option<Scaled> {
        let n = self.is(v, Op::MUL)?;
        let a = self.args(n);
        [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| Some(Scaled { node: n, value: a[i], factor: self.fill(a[j])? }))
    }

    /// The operand of `v`, if `v` is a reshape with one reader; its node is pushed to `nodes`. Else `v`.
    fn through(&self, v: Value, nodes: &mut Vec<Node>) -> Value {
        match self.is(v, Op::RESHAPE).filter(|_| self.alone(v)) {
            Some(n) => {
                nodes.push(n);
                self.args(n)[0]
            }
            None => v,
        }
    }

    /// The operands of `n`, if `n` is a product by a matrix, biased or not, without an activation.
    fn linear(&self, n: Node) -> Option<Linear> {
        let (a, attrs) = (self.args(n), self.attrs(n));
        let plain = match self.g.op[n.at()] {
            Op::MATMUL => true,
            Op::MATMUL_BIAS_ACT => MatmulBiasActAttrs::of(&attrs).act == Activation::None,
            _ => false,
        };
        (plain && self.dims(a[1]).len() == 2).then(|| {
            let MatmulAttrs { ta, tb } = MatmulAttrs::of(&attrs);
            Linear { x: a[0], weight: a[1], transposed: [ta, tb] }
        })
    }

    /// The reason of a miss: `v`, called `what`, has other readers.
    fn reads_of(&self, what: &str, v: Value) -> String {
        let n = self.reads[v];
        if self.g.yields.contains(&v) {
            format!("{what} is an output too")
        } else {
            format!("{what} is read {n} times")
        }
    }
}

/// The nodes that patterns look at, each with its region. Regions of fused ops are left out: they are one sweep
/// already.
fn nodes<'x>(g: Graph<'x>) -> impl Iterator<Item = (Node, Region)> + 'x {
    let fused = fused_regions(g);
    let regions = (0..g.regions()).map(Region::new).filter(move |r| !fused[*r]);
    regions.flat_map(move |r| g.region_nodes(r).map(move |n| (n, r)))
}

/// The matches and outcomes of one round.
#[derive(Default)]
struct Round {
    found: Vec<Match>,
    fired: Vec<Fusion>,
    missed: Vec<Fusion>,
}

/// Runs all rules on all nodes.
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
                    if let Some(late) = late_operand(f, &m, r) {
                        let reason =
                            format!("{} is computed after the value that the pattern begins with", name(g, late));
                        round.missed.push(note(Outcome::Missed { reason }));
                        continue;
                    }
                    // A match that overlaps an earlier one waits for the next round.
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

/// An operand that is computed after the first replaced node and cannot move up. A node of the entry without operands
/// can.
fn late_operand(f: &Facts<'_>, m: &Match, r: Region) -> Option<Value> {
    let first = first(f, m);
    let movable = |n: Node| r == f.g.entry() && f.args(n).is_empty();
    m.args.iter().copied().find(|&a| f.node(a) >= first && !movable(f.node(a)))
}

/// Writes the operands that matches need before their position in the source: leaves, all of them so that they keep
/// their order, and fills.
fn hoist_operands(f: &Facts<'_>, found: &[Match], c: &mut Copier<'_, '_>) {
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

/// Writes the graph with each match replaced.
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
        hoist_operands(f, found, &mut c);
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
    // Drops the replaced nodes, which nothing reads any more.
    rebuild_buf(buf.view(), &mut |_| None)
}

/// Replaces all patterns of `g` and notes the outcomes in `notes`.
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
