//! Decides which values of a training step are kept in half precision, and how the backward half gets each of them.
//!
//! The forward half ends with the last output that is no gradient. The nodes after it on which a gradient or a param's
//! next value depends are *gradient nodes*; they alone read rounded values. So all other outputs stay the same, and so
//! do all states that do not follow from gradients. A value stays in full precision if rounding it saves nothing, if a
//! node compares or factors it ([`HalfFacts::exact`]), or if its error would scale whole rows of gradients
//! ([`HalfFacts::summary`]).

use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::nodes::ir::opdef::{Flags, Lower, planned_regions};
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{DType, Graph, Op};
use crate::passes::optimiser::GRAD_NORM;
use hashbrown::HashSet;

/// The fewest bytes of a value worth keeping in half precision.
const MIN_BYTES: usize = 1024;
/// How many times smaller than a value the operands are that are read again as they are, to compute the value again.
const SMALL: usize = 8;

/// How the backward half gets a value of the forward half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In full precision, as without this pass.
    Full,
    /// From its copy in half precision.
    Half,
    /// By running its node again on operands of which one is kept in half precision.
    Again,
}

/// The facts of one graph.
pub struct HalfFacts {
    /// The last node of the forward half.
    pub boundary: Node,
    /// Nodes behind the boundary on which gradients depend.
    pub gradient: Side<Node, bool>,
    /// How the backward half gets each value.
    pub kept: Side<Value, Kept>,
    /// The last node of the forward half that makes or reads the value.
    pub last_forward: Side<Value, Node>,
    /// True for values that a node of the forward half reads.
    pub read_forward: Side<Value, bool>,
    /// Leaves, outputs, next values, and what depends on no leaf: these are there anyway.
    free: Side<Value, bool>,
    /// Values that must not be rounded: a node compares them with other values or factors them, or a node that is no
    /// gradient node reads them behind the boundary.
    exact: Side<Value, bool>,
    /// Statistics, sums and final carries: rounding one would change whole rows of gradients by the same factor.
    summary: Side<Value, bool>,
    /// The first gradient node that reads the value.
    first_backward: Side<Value, Option<Node>>,
    /// Bytes that the nodes before each node make.
    made_before: Side<Node, u64>,
}

/// The names of what a gradient can be of: leaves, outputs and named values.
fn gradient_target_names(g: Graph<'_>) -> HashSet<&str> {
    let outputs = g.output_names.iter().map(|&name| g.str(name));
    let inner =
        g.region_values(g.entry()).filter(|&v| g.names[v as usize].is_some()).map(|v| g.str(g.names[v as usize]));
    g.leaves().map(|l| l.name).chain(outputs).chain(inner).collect()
}

/// True if the output called `name` is the gradient of one of `values`, the first or a later one, or that of a value
/// without a name (`grad.%5`), or the norm of gradients.
fn is_half_gradient_output(values: &HashSet<&str>, name: &str) -> bool {
    let of_value = |of: &str| {
        let later = of.rsplit_once('.').filter(|(_, number)| number.parse::<u32>().is_ok());
        values.contains(of) || later.is_some_and(|(first, _)| values.contains(first)) || of.starts_with('%')
    };
    name.strip_prefix("grad.").is_some_and(of_value) || name == GRAD_NORM
}

/// The loop that node `n` is.
pub fn loop_of_node(g: Graph<'_>, n: Node) -> Option<Scan> {
    matches!(g.def_of(n).lower, Lower::Loop).then(|| Scan::of(&g.attrs(n)))
}

/// True if the node has the elements of its only operand, perhaps in another order, some of them or repeated.
fn half_moves_elements(g: Graph<'_>, n: Node) -> bool {
    let flags = g.def_of(n).flags;
    flags.has(Flags::SAME_BYTES) || (flags.has(Flags::MOVE) && g.op[n.at()] != Op::CAST && g.args_of(n).len() == 1)
}

/// True if a rounding of operand `a` could change what node `n` decides.
fn half_decides_by(g: Graph<'_>, n: Node, a: Value) -> bool {
    let (def, op) = (g.def_of(n), g.op[n.at()]);
    if !g.dtype[a.at()].is_float() || op == Op::SIGN {
        return false;
    }
    let whole = |v: Value| !g.dtype[v.at()].is_differentiable();
    // Positions beside values are decisions too. Bodies of loops and branches say themselves what they decide.
    let discrete = match def.lower {
        Lower::Loop | Lower::Choice => g.outs_of(n).all(whole),
        _ => g.outs_of(n).any(whole),
    };
    // To compare with a number is harmless: rounding keeps the order, and keeps zero and signs.
    let other = || g.args_of(n).iter().filter(|&&b| b != a);
    let number = |b: &Value| g.op[g.def[b.at()].at()] == Op::FULL;
    if discrete && def.is_pointwise() && other().count() == 1 && other().all(number) {
        return false;
    }
    discrete || def.flags.has(Flags::EXACT) || def.flags.has(Flags::STEP)
}

impl HalfFacts {
    /// The facts of `g`, which has no dead nodes; `None` if it has no backward half.
    pub fn of(g: Graph<'_>) -> Option<HalfFacts> {
        let values = gradient_target_names(g);
        let is_gradient = |name| is_half_gradient_output(&values, g.str(name));
        let outputs = || g.outputs().iter().zip(g.output_names).map(|(&v, &name)| (v, is_gradient(name)));
        let boundary = outputs().filter(|o| !o.1).map(|o| g.def[o.0.at()]).max()?;
        let mut f = HalfFacts {
            boundary,
            gradient: Side::filled(g.nodes(), false),
            kept: Side::filled(g.values(), Kept::Full),
            last_forward: Side::filled(g.values(), Node::new(0)),
            read_forward: Side::filled(g.values(), false),
            free: Side::filled(g.values(), false),
            exact: Side::filled(g.values(), false),
            summary: Side::filled(g.values(), false),
            first_backward: Side::filled(g.values(), None),
            made_before: Side::filled(g.nodes(), 0),
        };
        f.find_gradient_nodes(g, outputs().filter(|o| o.1).map(|o| o.0).collect());
        f.walk_forwards(g);
        f.walk_backwards(g);
        f.decide(g);
        Some(f)
    }

    fn find_gradient_nodes(&mut self, g: Graph<'_>, mut wanted: Vec<Value>) {
        wanted.extend(g.updates.iter().filter(|u| g.op[g.def[u.0.at()].at()] == Op::PARAM).map(|u| u.1));
        wanted.into_iter().for_each(|v| self.gradient[g.def[v.at()]] = true);
        for n in g.region_nodes(g.entry()).rev() {
            if n <= self.boundary {
                self.gradient[n] = false;
            } else if self.gradient[n] {
                g.args_of(n).iter().for_each(|a| self.gradient[g.def[a.at()]] = true);
            }
        }
    }

    /// What operands say of results, and who reads what.
    fn walk_forwards(&mut self, g: Graph<'_>) {
        // Bodies of loops before the loops.
        for n in (0..g.nodes()).map(Node::new) {
            self.follow_operands(g, n);
        }
        let mut bytes = 0u64;
        for n in g.region_nodes(g.entry()) {
            self.made_before[n] = bytes;
            for v in g.outs_of(n) {
                self.last_forward[v] = n;
                bytes += if half_moves_elements(g, n) { 0 } else { g.bytes(v) as u64 };
            }
            for &a in g.args_of(n) {
                if n <= self.boundary {
                    self.last_forward[a] = n;
                    self.read_forward[a] = true;
                } else if self.gradient[n] && self.first_backward[a].is_none() {
                    self.first_backward[a] = Some(n);
                }
            }
        }
        g.outputs().iter().chain(g.updates.iter().map(|u| &u.1)).for_each(|&v| self.free[v] = true);
    }

    /// Whether the results of `n` are free, and whether they are summaries.
    fn follow_operands(&mut self, g: Graph<'_>, n: Node) {
        let (def, args) = (g.def_of(n), g.args_of(n));
        let fixed = |&a: &Value| self.free[a] && !g.def_of(g.def[a.at()]).is_leaf();
        let constant = !def.is_leaf() && args.iter().all(fixed);
        let of_summaries = (def.is_pointwise() || half_moves_elements(g, n))
            && args.iter().any(|&a| self.summary[a])
            && args.iter().all(|&a| self.summary[a] || self.free[a]);
        let whole = matches!(def.lower, Lower::Loop | Lower::Choice);
        let largest = g.outs_of(n).map(|v| g.numel(v)).max().unwrap_or(0);
        let body = loop_of_node(g, n).map(|scan| (scan.carries, g.region_yields(scan.body)));
        for (i, v) in g.outs_of(n).enumerate() {
            self.free[v] = constant || (def.is_leaf() && g.op[n.at()] != Op::ARG);
            self.summary[v] = match body {
                // Of a loop over micro-batches, the final carries are sums of gradients.
                Some((carries, yields)) => i < carries || self.summary[yields[i]],
                None => {
                    of_summaries
                        || (i > 0 && def.flags.has(Flags::STATS))
                        || (g.numel(v) < largest && !whole)
                        || (def.flags.has(Flags::EXACT) && !def.is_pointwise())
                }
            };
        }
    }

    /// What readers say of operands.
    fn walk_backwards(&mut self, g: Graph<'_>) {
        // Bodies of loops before the loops, and in each region readers before operands.
        for r in (0..g.regions()).map(Region::new) {
            for n in g.region_nodes(r).rev() {
                self.follow_readers(g, n, r == g.entry());
            }
        }
    }

    /// Whether node `n` makes its operands exact.
    fn follow_readers(&mut self, g: Graph<'_>, n: Node, entry: bool) {
        let backward = !entry || n > self.boundary;
        let moved = half_moves_elements(g, n) && g.outs_of(n).any(|v| self.exact[v]);
        let of_branches = matches!(g.def_of(n).lower, Lower::Choice) && self.branches_decide(g, n);
        let body: Option<Vec<Value>> = loop_of_node(g, n).map(|scan| g.region_args(scan.body).collect());
        for (i, &a) in g.args_of(n).iter().enumerate() {
            let inside = body.as_ref().is_some_and(|args| self.exact[args[i]]);
            let own = backward && (inside || of_branches || half_decides_by(g, n, a) || (entry && !self.gradient[n]));
            self.exact[a] |= moved || own;
        }
    }

    /// True if a region of choice `n` must not get rounded operands.
    fn branches_decide(&self, g: Graph<'_>, n: Node) -> bool {
        planned_regions(g, n).any(|r| g.region_args(r).any(|a| self.exact[a]))
    }

    /// True if the value crosses the boundary and may be rounded.
    fn may_round(&self, g: Graph<'_>, v: Value) -> bool {
        g.def[v.at()] <= self.boundary
            && g.dtype[v.at()] == DType::F32
            && g.bytes(v) >= MIN_BYTES
            && !self.free[v]
            && !self.exact[v]
            && !self.summary[v]
    }

    /// True if the bytes that `v` takes in full precision are needed all the time from its last reader in the forward
    /// half to its first reader in the backward half, and are more than all that is made in between.
    fn saves_nothing(&self, g: Graph<'_>, v: Value, first: Node) -> bool {
        let last = self.last_forward[v];
        let after: u64 = g.outs_of(last).map(|o| g.bytes(o) as u64).sum();
        self.made_before[first].saturating_sub(self.made_before[last] + after) < g.bytes(v) as u64 / 2
    }

    fn decide(&mut self, g: Graph<'_>) {
        let forward: Vec<Node> = g.region_nodes(g.entry()).filter(|&n| n <= self.boundary).collect();
        for n in forward {
            for v in g.outs_of(n) {
                let Some(first) = self.first_backward[v] else { continue };
                if self.may_round(g, v) && !self.saves_nothing(g, v, first) {
                    self.kept[v] = self.decide_one(g, n, v);
                }
            }
        }
    }

    /// How the backward half gets `v`, made by `n`.
    fn decide_one(&mut self, g: Graph<'_>, n: Node, v: Value) -> Kept {
        if half_moves_elements(g, n) {
            let from = g.args_of(n)[0];
            if self.free[from] || (self.kept[from] == Kept::Full && self.first_backward[from].is_some()) {
                return Kept::Full;
            }
            if self.kept[from] != Kept::Full {
                return Kept::Again;
            }
            if g.bytes(from) <= g.bytes(v) && self.may_round(g, from) {
                self.kept[from] = self.decide_one(g, g.def[from.at()], from);
                return if self.kept[from] == Kept::Full { Kept::Full } else { Kept::Again };
            }
            if g.op[n.at()] == Op::BROADCAST {
                return Kept::Full;
            }
        }
        if matches!(g.op[n.at()], Op::ADD | Op::SUB | Op::MUL) {
            let small = |&&a: &&Value| {
                let d = g.def[a.at()];
                let from = if g.op[d.at()] == Op::BROADCAST { g.args_of(d)[0] } else { a };
                g.op[d.at()] == Op::FULL || g.bytes(from) * SMALL <= g.bytes(v)
            };
            let large: Vec<Value> = g.args_of(n).iter().filter(|a| !small(a)).copied().collect();
            if large.len() == 1 && self.kept[large[0]] != Kept::Full {
                return Kept::Again;
            }
        }
        Kept::Half
    }
}
