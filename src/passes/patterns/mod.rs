//! Patterns: named rules that replace a group of ops by one op.
//!
//! A rule looks at a root node and at the definitions of its operands. It returns a [`Match`]: the values that it
//! replaces, the operands of the new op, and how to write it. Invariant: a value that has another reader (an output, an
//! update, a later node) is never dropped. Either it is a result of the match, or the rule misses with a reason. All
//! matches of a round are found first, in node order, and no two share a node. Rounds go on until there is no match: a
//! bias is fused into a product in one round, its activation in the next.
//!
//! Runs on whole graphs, after derivatives and simplification. So rules may rely on two facts: no operand of a
//! broadcast is a broadcast, and a broadcast or reshape of a `full` is a `full`.

mod act_with_grad;
mod attention;
mod conv;
mod facts;
mod lora;
mod losses;
mod matches;
mod matmul_dact;
mod norm;
mod packed;
mod product;
mod splats;
mod sums;
mod swiglu;
mod unpool;
mod updates;

use self::facts::PatternFacts;
use self::matches::{Found, Match, first_matched_node};
use super::copier::Copier;
use super::fuse::fused_regions;
use super::fusion_notes::{Fusion, Notes, Outcome};
use super::rebuild::{finish_rebuild, rebuild_buf};
use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op, Var};
use crate::passes::patterns::matches::late_pattern_operand;

/// The most rounds. A product with its bias and activation needs two or three.
const ROUNDS: usize = 8;

/// A named rule.
struct Rule {
    name: &'static str,
    /// The ops of roots that the rule looks at.
    roots: fn(Op) -> bool,
    find: fn(&PatternFacts<'_>, Node) -> Found,
}

/// The rules. Of several rules for one root, the first that fires wins.
const RULES: &[Rule] = &[
    Rule { name: "lora", roots: |op| op == Op::ADD, find: lora::match_lora_pattern },
    // Before the norms: a bias is free in a product.
    Rule { name: "matmul-bias", roots: |op| op == Op::ADD, find: product::match_product_bias },
    Rule { name: "matmul-sum", roots: |op| op == Op::ADD, find: product::match_product_sum },
    Rule {
        name: "matmul-activation",
        roots: product::can_match_product_activation,
        find: product::match_product_activation,
    },
    Rule { name: "conv-bias", roots: |op| op == Op::ADD, find: conv::match_conv_bias },
    Rule { name: "conv-activation", roots: product::can_match_product_activation, find: conv::match_conv_activation },
    Rule { name: "gate-before-unpool", roots: |op| op == Op::SELECT, find: unpool::match_mask_before_unpool },
    Rule { name: "matmul-dact", roots: |op| op == Op::SELECT || op == Op::MUL, find: matmul_dact::match_matmul_dact },
    Rule { name: "matmul-dact-sums", roots: |op| op == Op::REDUCE_SUM, find: matmul_dact::match_dact_column_sums },
    Rule { name: "matmul-shared-input", roots: |op| op == Op::MATMUL, find: product::match_shared_products },
    Rule { name: "matmul-step", roots: updates::can_match_update, find: updates::match_update_behind_product },
    Rule { name: "step-scale", roots: updates::can_match_update, find: updates::match_update_scale },
    Rule { name: "steps-together", roots: updates::can_match_update, find: updates::match_joined_updates },
    Rule {
        name: "activation-slope",
        roots: act_with_grad::is_act_with_grad_pattern,
        find: act_with_grad::match_act_with_grad_pattern,
    },
    Rule { name: "sum-squares", roots: sums::can_match_sum, find: sums::match_sum_of_squares },
    Rule { name: "squared-error-gradient", roots: |op| op == Op::ADD, find: losses::match_squared_error_loss },
    Rule {
        name: "cross-entropy-gradient",
        roots: |op| op == Op::SOFTMAX_CROSS_ENTROPY_BACKWARD,
        find: losses::match_cross_entropy_loss,
    },
    Rule { name: "attention", roots: |op| op == Op::MATMUL, find: attention::match_attention_pattern },
    Rule { name: "attention-packed", roots: |op| op == Op::ATTENTION, find: packed::match_packed_forward },
    Rule { name: "attention-packed-backward", roots: |op| op == Op::CONCAT, find: packed::match_packed_backward },
    Rule { name: "residual-layer-norm", roots: |op| op == Op::LAYER_NORM, find: norm::match_norm_residual },
    Rule { name: "residual-rms-norm", roots: |op| op == Op::RMS_NORM, find: norm::match_norm_residual },
    Rule { name: "splat-render", roots: |op| op == Op::SPLAT_RASTERIZE, find: splats::match_split_splat_render },
    Rule { name: "swiglu", roots: |op| op == Op::MUL, find: swiglu::match_swiglu_pattern },
    Rule { name: "swiglu-cast", roots: |op| op == Op::CAST, find: swiglu::match_swiglu_cast },
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

/// Runs all rules on all nodes.
fn find_patterns(f: &PatternFacts<'_>) -> Round {
    let g = f.g;
    let mut claimed = Side::<Node, bool>::filled(g.nodes(), false);
    let mut round = Round::default();
    for (n, r) in pattern_nodes(g) {
        for rule in RULES.iter().filter(|rule| (rule.roots)(g.op[n.at()])) {
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

/// Writes the graph with each match replaced.
fn rewrite_patterns(f: &PatternFacts<'_>, found: &[Match]) -> Result<GraphBuf> {
    let g = f.g;
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
            Some(v.src.outs_of(v.node).map(|o| v.g.var(at(o).copied().unwrap_or(Value::NONE))).collect())
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
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    for _ in 0..ROUNDS {
        let g = buf.view();
        let facts = PatternFacts::new(g);
        let round = find_patterns(&facts);
        for f in &round.fired {
            *notes.hits.entry(f.rule).or_default() += 1;
        }
        notes.fusions.extend(round.fired);
        if round.found.is_empty() {
            notes.fusions.extend(round.missed);
            break;
        }
        let next = rewrite_patterns(&facts, &round.found)?;
        buf = next;
    }
    Ok(buf)
}
