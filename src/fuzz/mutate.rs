//! Structured mutations: another valid graph, near a given one.
//!
//! Each mutation is a change of a draft's columns, and shape inference says whether the result is a graph; if not, a
//! mutation is drawn again. Invariant: draws decide everything, so equal draws give equal mutants.

use super::draft::{Draft, DraftResize, DraftStandIn};
use super::draws::Draw;
use crate::arena::{Node, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::attrs::{Kind, Owned};
use crate::nodes::ir::opdef::Flags;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, GraphBuf, Op};

/// The most elements of a value of a mutant, if no value of the graph has more.
const LARGEST: usize = 1 << 16;

/// How often a mutation is drawn again that gives no graph.
const TRIES: u32 = 40;

/// Sizes that replace another.
const SIZES: &[usize] = &[1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64];

/// Numbers that replace another.
const NUMBERS: &[f64] = &[0.0, 1.0, -1.0, 0.5, 2.0, -0.25, 1e-3, 3.0];

/// `graph` with one to three changes: an operand becomes another value of its type, an op another of its signature; an
/// attribute changes; a size changes everywhere; a node goes, or comes a second time; nodes move into a region that is
/// called; a value becomes an output. All keep the graph valid, and no value gets more than 2¹⁶ elements, unless one of
/// `graph` has as many. Where no change gives a graph, the result is `graph`.
pub fn change_randomly(graph: &GraphBuf, draw: &mut Draw<'_>) -> Result<GraphBuf> {
    let mut now = graph.clone();
    let most = largest_mutable_value(graph.view()).max(LARGEST);
    for _ in 0..=draw(3) {
        for _ in 0..TRIES {
            let mutant = mutated_once(now.view(), draw);
            if let Some(mutant) = mutant.filter(|m| *m != now && largest_mutable_value(m.view()) <= most) {
                now = mutant;
                break;
            }
        }
    }
    Ok(now)
}

/// Elements of the largest value.
fn largest_mutable_value(g: Graph<'_>) -> usize {
    (0..g.values()).map(|v| g.numel(Value(v as u32))).max().unwrap_or(0)
}

/// One change, if what is drawn is possible.
fn mutated_once(g: Graph<'_>, draw: &mut Draw<'_>) -> Option<GraphBuf> {
    let mut d = Draft::of(g, false);
    match draw(9) {
        0 => swap_operand(&mut d, draw)?,
        1 => swap_op(&mut d, draw)?,
        2 | 3 => change_attribute(&mut d, draw)?,
        4 => change_size(&mut d, draw)?,
        5 => copy_node(&mut d, draw)?,
        6 => drop_node(&mut d, draw)?,
        7 => outline_nodes(&mut d, draw)?,
        _ => d.outputs.push(mutated_entry_value(g, draw)?),
    }
    d.write().ok()
}

fn pick_mutation<T: Copy>(from: &[T], draw: &mut Draw<'_>) -> Option<T> {
    if from.is_empty() { None } else { Some(from[draw(from.len() as u32) as usize]) }
}

/// A node that is no leaf.
fn inner_mutable_node(g: Graph<'_>, draw: &mut Draw<'_>) -> Option<Node> {
    let nodes: Vec<Node> = (0..g.nodes()).map(Node::new).filter(|&n| !is_skipped_node(g, n)).collect();
    pick_mutation(&nodes, draw)
}

/// Whether `n` is an argument or a leaf.
fn is_skipped_node(g: Graph<'_>, n: Node) -> bool {
    g.op[n.at()] == Op::ARG || g.op[n.at()].is_named_leaf()
}

fn mutated_entry_value(g: Graph<'_>, draw: &mut Draw<'_>) -> Option<Value> {
    let range = g.region_values(g.entry());
    (!range.is_empty()).then(|| Value(range.start + draw(range.end - range.start)))
}

/// Another value of the type of `v` in its region, before value `end`.
fn other_value_of_type(g: Graph<'_>, v: Value, end: u32, draw: &mut Draw<'_>) -> Option<Value> {
    let range = g.region_values(g.region_of(g.def[v.at()]));
    let fit: Vec<Value> = (range.start..end).map(Value).filter(|&w| w != v && g.ty(w) == g.ty(v)).collect();
    pick_mutation(&fit, draw)
}

fn swap_operand(d: &mut Draft<'_>, draw: &mut Draw<'_>) -> Option<()> {
    let n = inner_mutable_node(d.src, draw)?;
    let at = d.src.args_at[n.at()] as usize;
    let i = at + pick_mutation_below(d.src.args_of(n).len(), draw)?;
    d.args[i] = other_value_of_type(d.src, d.args[i], d.src.outs_at[n.at()], draw)?;
    Some(())
}

fn pick_mutation_below(count: usize, draw: &mut Draw<'_>) -> Option<usize> {
    (count > 0).then(|| draw(count as u32) as usize)
}

fn swap_op(d: &mut Draft<'_>, draw: &mut Draw<'_>) -> Option<()> {
    let n = inner_mutable_node(d.src, draw)?;
    let (old, count) = (d.src.def_of(n), d.src.args_of(n).len());
    let plain = |f: Flags| !f.has(Flags::FUSED) && !f.has(Flags::EFFECT) && !f.has(Flags::LEAF);
    let ops = d.src.ops.iter().enumerate().filter(|(i, def)| {
        let same = def.attrs == old.attrs && def.arity.allows(count) && def.name != old.name;
        same && plain(def.flags) && *i > Op::ARG.0 as usize
    });
    let ops: Vec<Op> = ops.map(|(i, _)| Op(i as u16)).collect();
    d.op[n.at()] = pick_mutation(&ops, draw)?;
    Some(())
}

fn change_attribute(d: &mut Draft<'_>, draw: &mut Draw<'_>) -> Option<()> {
    let g = d.src;
    let with: Vec<Node> = (0..g.nodes()).map(Node::new).filter(|&n| !g.def_of(n).attrs.is_empty()).collect();
    let n = pick_mutation(&with, draw).filter(|&n| g.op[n.at()] != Op::ARG)?;
    let first = usize::from(g.op[n.at()].is_named_leaf());
    let i = first + pick_mutation_below(g.def_of(n).attrs.len().checked_sub(first)?, draw)?;
    let field = g.def_of(n).attrs[i];
    // A loop that ends early keeps its bound: without one it may run for ever.
    let bound = g.op[n.at()] == Op::SCAN && Scan::of(&g.attrs(n)).exit.is_some();
    let near = |x: i64, draw: &mut Draw<'_>| x + [1, -1, 2, -2, 0][draw(5) as usize];
    let new = match (g.attrs(n).owned(i), field.kind) {
        (Owned::Bool(b), _) => Owned::Bool(!b),
        (Owned::Int(x), _) => Owned::Int(near(x, draw).max(i64::from(bound))),
        (Owned::F64(x), _) => Owned::F64(pick_mutation(NUMBERS, draw).filter(|y| *y != x).unwrap_or(x * 2.0)),
        (Owned::Choice(c), Kind::Choice(names)) => {
            Owned::Choice((c + 1 + draw(names.len() as u32)) % names.len() as u32)
        }
        (Owned::Ints(mut list), _) => {
            let at = pick_mutation_below(list.len(), draw)?;
            match draw(2) {
                0 => list[at] = near(list[at], draw),
                _ => list.swap(0, at),
            }
            Owned::Ints(list)
        }
        (Owned::Floats(mut list), _) => {
            let at = pick_mutation_below(list.len(), draw)?;
            list[at] = pick_mutation(NUMBERS, draw)?;
            Owned::Floats(list)
        }
        (Owned::Bytes(mut bytes), _) => {
            let at = pick_mutation_below(bytes.len(), draw)?;
            bytes[at] ^= 1;
            Owned::Bytes(bytes)
        }
        (_, _) if field.optional && g.attrs(n).has(i) => Owned::Absent,
        _ => return None,
    };
    d.attrs.push((n, i, new));
    Some(())
}

fn change_size(d: &mut Draft<'_>, draw: &mut Draw<'_>) -> Option<()> {
    let v = Value(pick_mutation_below(d.src.values(), draw)? as u32);
    let from = pick_mutation(&d.src.dims(v), draw)?;
    let to = pick_mutation(SIZES, draw).filter(|&to| to != from)?;
    d.resize = Some(match draw(3) {
        1 if from > 1 => DraftResize::Multiples(from, to),
        2 => DraftResize::AxesOnly(from, to),
        _ => DraftResize::Exactly(from, to),
    });
    Some(())
}

/// A node comes a second time. Equal nodes are one node, so one operand is another value.
fn copy_node(d: &mut Draft<'_>, draw: &mut Draw<'_>) -> Option<()> {
    let g = d.src;
    let n = inner_mutable_node(g, draw).filter(|&n| g.region_of(n) == g.entry())?;
    let at = pick_mutation_below(g.args_of(n).len(), draw)?;
    let other = other_value_of_type(g, g.args_of(n)[at], g.outs_at[n.at()], draw)?;
    d.copies.push((n, at, other));
    Some(())
}

fn drop_node(d: &mut Draft<'_>, draw: &mut Draw<'_>) -> Option<()> {
    let n = inner_mutable_node(d.src, draw)?;
    let entry = d.src.region_of(n) == d.src.entry();
    for v in d.src.outs_of(n) {
        let other = other_value_of_type(d.src, v, d.src.outs_at[n.at()], draw);
        d.stand[v.at()] = match (other, draw(3)) {
            (Some(w), 0 | 1) => DraftStandIn::Other(w),
            (_, 2) | (None, 1) if entry => DraftStandIn::Input,
            _ => DraftStandIn::Full(1.0),
        };
    }
    Some(())
}

fn outline_nodes(d: &mut Draft<'_>, draw: &mut Draw<'_>) -> Option<()> {
    let g = d.src;
    let nodes = g.region_nodes(g.entry());
    let start = Node::new(g.nodes_at[g.entry().at()] as usize + pick_mutation_below(nodes.len(), draw)?);
    let most = 1 + draw(6) as usize;
    let inside = |n: &Node| !is_skipped_node(g, *n) && !g.def_of(*n).flags.has(Flags::EFFECT);
    let count = (start.at()..g.nodes()).map(Node::new).take(most).take_while(inside).count();
    d.outlined = (count > 0).then(|| start.at()..start.at() + count);
    d.outlined.as_ref().map(|_| ())
}
