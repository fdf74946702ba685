//! Patterns: named rules that replace a group of ops by one op.
//!
//! All matches of a round are found first, in node order, and no two share a node. Rounds go on until there is no
//! match: a bias is fused into a product in one round, its activation in the next.
//! [`pattern`](crate::nodes::ir::pattern) tells what a rule is. The engine's rules are here, those of packs with their
//! ops.
//!
//! Runs on whole graphs, after derivatives and simplification. So rules may rely on two facts: no operand of a
//! broadcast is a broadcast, and a broadcast or reshape of a `full` is a `full`.

mod act_with_grad;
mod attention;
mod conv;
mod facts;
mod lora;
mod losses;
mod matmul_dact;
mod norm;
mod packed;
mod product;
mod sums;
mod swiglu;
mod unpool;
mod updates;

use super::copier::Copier;
use super::fuse::fused_regions;
use super::fusion_notes::{Fusion, Notes, Outcome};
use super::rebuild::{finish_rebuild, rebuild_buf};
use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::pack::packs_of;
use crate::nodes::ir::pattern::{Found, Match, Pattern, PatternFacts, Roots};
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op, Var};

/// The most rounds. A product with its bias and activation needs two or three.
const ROUNDS: usize = 8;

/// The rules. Of several rules for one root, the first that fires wins.
const RULES: &[Pattern] = &[
    Pattern { name: "lora", roots: Roots::Picked(|op| op == Op::ADD), find: lora::match_corrected_product },
    // Before the norms: a bias is free in a product.
    Pattern { name: "matmul-bias", roots: Roots::Picked(|op| op == Op::ADD), find: product::match_bias },
    Pattern { name: "matmul-sum", roots: Roots::Picked(|op| op == Op::ADD), find: product::match_carried_sum },
    Pattern {
        name: "matmul-activation",
        roots: Roots::Picked(product::is_possible_activation),
        find: product::match_activation,
    },
    Pattern { name: "conv-bias", roots: Roots::Picked(|op| op == Op::ADD), find: conv::match_bias },
    Pattern {
        name: "conv-activation",
        roots: Roots::Picked(product::is_possible_activation),
        find: conv::match_activation,
    },
    Pattern {
        name: "gate-before-unpool",
        roots: Roots::Picked(|op| op == Op::SELECT),
        find: unpool::match_mask_before_scatter,
    },
    Pattern {
        name: "matmul-dact",
        roots: Roots::Picked(|op| op == Op::SELECT || op == Op::MUL),
        find: matmul_dact::match_dact_product,
    },
    Pattern {
        name: "matmul-dact-sums",
        roots: Roots::Picked(|op| op == Op::REDUCE_SUM),
        find: matmul_dact::match_dact_column_sums,
    },
    Pattern {
        name: "matmul-shared-input",
        roots: Roots::Picked(|op| op == Op::MATMUL),
        find: product::match_shared_products,
    },
    Pattern {
        name: "matmul-step",
        roots: Roots::Picked(updates::can_match_update),
        find: updates::match_update_behind_product,
    },
    Pattern { name: "step-scale", roots: Roots::Picked(updates::can_match_update), find: updates::match_update_scale },
    Pattern {
        name: "steps-together",
        roots: Roots::Picked(updates::can_match_update),
        find: updates::match_small_steps,
    },
    Pattern {
        name: "activation-slope",
        roots: Roots::Picked(act_with_grad::is_activation_derivative),
        find: act_with_grad::match_activation_pair,
    },
    Pattern { name: "sum-squares", roots: Roots::Picked(sums::can_match_sum), find: sums::match_sum_of_squares },
    Pattern {
        name: "squared-error-gradient",
        roots: Roots::Picked(|op| op == Op::ADD),
        find: losses::match_squared_error_loss,
    },
    Pattern {
        name: "cross-entropy-gradient",
        roots: Roots::Picked(|op| op == Op::SOFTMAX_CROSS_ENTROPY_BACKWARD),
        find: losses::match_cross_entropy_loss,
    },
    Pattern { name: "attention", roots: Roots::Picked(|op| op == Op::MATMUL), find: attention::match_softmax_product },
    Pattern { name: "attention-packed", roots: Roots::Picked(|op| op == Op::ATTENTION), find: packed::match_forward },
    Pattern {
        name: "attention-packed-backward",
        roots: Roots::Picked(|op| op == Op::CONCAT),
        find: packed::match_backward,
    },
    Pattern {
        name: "residual-layer-norm",
        roots: Roots::Picked(|op| op == Op::LAYER_NORM),
        find: norm::match_residual,
    },
    Pattern { name: "residual-rms-norm", roots: Roots::Picked(|op| op == Op::RMS_NORM), find: norm::match_residual },
    Pattern { name: "swiglu", roots: Roots::Picked(|op| op == Op::MUL), find: swiglu::match_gated_halves },
    Pattern { name: "swiglu-cast", roots: Roots::Picked(|op| op == Op::CAST), find: swiglu::match_cast },
];

/// The nodes that patterns look at, each with its region. Regions of fused ops are left out: they are one sweep
/// already.
fn pattern_nodes<'x>(g: Graph<'x>) -> impl Iterator<Item = (Node, Region)> + 'x {
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

/// Runs `rules` on all nodes.
fn find_matches(f: &PatternFacts<'_>, rules: &[&Pattern]) -> Round {
    let g = f.g;
    let mut claimed = Side::<Node, bool>::filled(g.nodes(), false);
    let mut round = Round::default();
    for (n, r) in pattern_nodes(g) {
        for rule in rules.iter().filter(|rule| rule.roots.has(g.op[n.at()], g.def_of(n))) {
            let note = |outcome| Fusion { rule: rule.name, op: g.def_of(n).name, location: g.location(n), outcome };
            match pattern_in_order(f, (rule.find)(f, n), r) {
                Found::No => {}
                Found::Missed(reason) => round.missed.push(note(Outcome::Missed { reason })),
                Found::Fired(m) => {
                    let mut taken = m.inner.clone();
                    taken.extend(m.gives.iter().map(|g| f.node(g.0)));
                    taken.sort_unstable();
                    taken.dedup();
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

/// What a rule found; a miss if the match has an operand that is computed too late.
fn pattern_in_order(f: &PatternFacts<'_>, found: Found, r: Region) -> Found {
    let Found::Fired(m) = found else { return found };
    match late_pattern_operand(f, &m, r) {
        None => Found::Fired(m),
        Some(late) => {
            let name = pattern_value_name(f.g, late);
            Found::Missed(format!("{name} is computed after the value that the pattern begins with"))
        }
    }
}

/// The first node that a match replaces.
fn first_matched_node(f: &PatternFacts<'_>, m: &Match) -> Node {
    m.gives.iter().map(|g| f.node(g.0)).min().unwrap_or(Node::NONE)
}

/// An operand that is computed after the first replaced node and cannot move up. A node of the entry without operands
/// can.
fn late_pattern_operand(f: &PatternFacts<'_>, m: &Match, r: Region) -> Option<Value> {
    let first = first_matched_node(f, m);
    let movable = |n: Node| r == f.g.entry() && f.args(n).is_empty();
    m.args.iter().copied().find(|&a| f.node(a) >= first && !movable(f.node(a)))
}

fn pattern_value_name(g: Graph<'_>, v: Value) -> String {
    let name = g.names[v.at()];
    if name.is_some() { format!("%{}", g.str(name)) } else { format!("%{v}") }
}

/// Writes the operands that matches need before their position in the source: leaves, all of them so that they keep
/// their order, and fills.
fn write_late_pattern_operands(f: &PatternFacts<'_>, found: &[Match], c: &mut Copier<'_, '_>) {
    let missing = |m: &Match| {
        let begin = first_matched_node(f, m);
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

/// Writes the graph with each match of a round replaced. Errors (kind `Verify`): a rule gives values of other types
/// than those that it replaces.
fn replace_matches(f: &PatternFacts<'_>, round: &Round) -> Result<GraphBuf> {
    let (g, found) = (f.g, &round.found);
    let mut of = Side::<Node, Option<usize>>::filled(g.nodes(), None);
    for (i, m) in found.iter().enumerate() {
        m.gives.iter().for_each(|v| of[f.node(v.0)] = Some(i));
    }
    let mut made: Vec<Vec<Value>> = vec![Vec::new(); found.len()];
    let buf = GraphBuf::make(|bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        write_late_pattern_operands(f, found, &mut c);
        c.run(&mut |v| {
            let i = of[v.node]?;
            if made[i].is_empty() {
                let args: Vec<Var<'_>> = found[i].args.iter().map(|&a| v.map[a]).collect();
                made[i] = (found[i].make)(v.g, &args).iter().map(|x| x.v).collect();
            }
            let at = |o: Value| found[i].gives.iter().find(|g| g.0 == o).and_then(|g| made[i].get(g.1));
            let outs: Vec<Var<'_>> =
                v.src.outs_of(v.node).map(|o| v.g.var(at(o).copied().unwrap_or(Value::NONE))).collect();
            let fits = v
                .src
                .outs_of(v.node)
                .zip(&outs)
                .all(|(o, y)| (v.src.dtype[o.at()], v.src.dims(o)) == (y.dtype(), y.dims()));
            if !fits {
                let (rule, op) = (round.fired[i].rule, v.def.name);
                v.g.with(|e| e.fail(Error::new(Kind::Verify, format!("pattern {rule:?} gives other types than {op}"))));
            }
            Some(outs)
        });
        c.signature();
        drop(c);
        finish_rebuild(b, bump)
    })?;
    // Drops the replaced nodes, which nothing reads any more.
    rebuild_buf(buf.view(), &mut |_| None)
}

/// Replaces all patterns of `g` and notes the outcomes in `notes`.
pub fn patterns(g: Graph<'_>, notes: &mut Notes) -> Result<GraphBuf> {
    let packs = packs_of(g.ops);
    let rules: Vec<&Pattern> = RULES.iter().chain(packs.iter().flat_map(|p| p.patterns)).collect();
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    for _ in 0..ROUNDS {
        let facts = PatternFacts::new(buf.view());
        let round = find_matches(&facts, &rules);
        if round.found.is_empty() {
            notes.fusions.extend(round.missed);
            break;
        }
        let next = replace_matches(&facts, &round)?;
        for f in &round.fired {
            *notes.hits.entry(f.rule).or_default() += 1;
        }
        notes.fusions.extend(round.fired);
        buf = next;
    }
    Ok(buf)
}

/// The rules of packs that run before derivatives are taken, if `g` has roots of them.
pub(super) fn rules_before_ad(g: Graph<'_>) -> Vec<&'static Pattern> {
    let rules = packs_of(g.ops).into_iter().flat_map(|p| p.before_ad);
    let at_root = |rule: &Pattern| (0..g.nodes()).map(Node::new).any(|n| rule.roots.has(g.op[n.at()], g.def_of(n)));
    rules.filter(|rule| at_root(rule)).collect()
}

/// Puts nodes into ops that have derivatives, by `rules`.
pub(super) fn write_before_ad(g: Graph<'_>, rules: &[&Pattern]) -> Result<GraphBuf> {
    let facts = PatternFacts::new(g);
    let round = find_matches(&facts, rules);
    replace_matches(&facts, &round)
}
