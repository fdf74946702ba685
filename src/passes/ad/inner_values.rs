//! Derivatives with respect to inner values: `wrt` of [`grad`](super::grad::grad) and [`vjp`](super::grad::vjp) may
//! name a value of the entry that nodes compute.
//!
//! Before preparation, such a value passes through an `optimization_barrier` of its own number, so that no pass merges
//! it with an equal value. It also becomes an output under a reserved name, by which it is found after preparation.
//! Invariant: the graph of a derivative has neither these barriers nor these outputs.

use crate::arena::{Node, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::ops::layout::attrs::BarrierAttrs;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op, Var};
use crate::passes::copier::Copier;
use crate::passes::rebuild::{RebuildVisit, finish_rebuild, rebuilt_by_pass};
use crate::passes::signature::{Signature, underivable_error};

/// What the names of marking outputs begin with. No leaf may have a control character in its name.
const MARK: &str = "wrt\u{1}";

fn inner_value_mark(name: &str) -> String {
    format!("{MARK}{name}")
}

/// The leaf called `name`, or the inner value that [`mark_named_values`] marked for `name`.
pub(super) fn inner_value_or_leaf(signature: &Signature<'_>, name: &str) -> Result<Value> {
    signature.leaf(name).or_else(|e| signature.output(&inner_value_mark(name)).map_err(|_| e))
}

/// The inner value that `name`, which no leaf has, stands for: `%` and a number of the text form, or the printed name
/// of a value, or the name of an output. `None` for a name that nothing has.
fn find_inner_value(g: Graph<'_>, name: &str) -> Result<Option<Value>> {
    let (bare, entry) = (name.strip_prefix('%').unwrap_or(name), g.region_values(g.entry()));
    let bad = |text: String| Err(Error::new(Kind::Name, text));
    if bare != name && !bare.is_empty() && bare.bytes().all(|c| c.is_ascii_digit()) {
        let (number, count) = (bare.parse::<u32>().unwrap_or(u32::MAX), entry.len());
        return match entry.start.checked_add(number).filter(|v| entry.contains(v)) {
            Some(v) => inner_value_not_leaf(g, Value(v), name).map(Some),
            None => bad(format!("no value is {name}: the graph has values %0 to %{}", count.max(1) - 1)),
        };
    }
    let called = |v: &Value| g.names[v.at()].is_some() && g.str(g.names[v.at()]) == bare;
    let mut all: Vec<Value> = entry.clone().map(Value).filter(called).chain(g.find_output(bare)).collect();
    all.sort_unstable();
    all.dedup();
    match all[..] {
        [] if (0..entry.start).map(Value).any(|v| called(&v)) => {
            bad(format!("{name:?} is a value inside a loop or a call; differentiate with respect to a value outside"))
        }
        [] => Ok(None),
        [v] => inner_value_not_leaf(g, v, name).map(Some),
        _ => {
            let numbers: Vec<String> = all.iter().map(|v| format!("%{}", v.0 - entry.start)).collect();
            bad(format!("{name:?} is ambiguous: it is the name of {}; say which", numbers.join(" and ")))
        }
    }
}

fn no_inner_value(g: Graph<'_>, name: &str) -> Error {
    let named = g.region_values(g.entry()).map(|v| g.names[v as usize]).filter(|s| s.is_some());
    let mut known: Vec<&str> = named.chain(g.output_names.iter().copied()).map(|s| g.str(s)).collect();
    known.sort_unstable();
    known.dedup();
    let instead = names::list_names_instead(name, known.iter().copied());
    Error::new(Kind::Name, format!("no leaf or value is called {name:?}{instead}"))
}

/// `v`, unless it is a leaf, which has a name of its own.
fn inner_value_not_leaf(g: Graph<'_>, v: Value, name: &str) -> Result<Value> {
    match g.leaf(v) {
        Some((_, leaf)) => Err(Error::new(Kind::Name, format!("{name:?} is the leaf {leaf:?}; call it by that name"))),
        None => Ok(v),
    }
}

/// `g` with the inner values of `wrt` marked; `None` if `wrt` has only leaves.
///
/// # Errors
/// A name that nothing has, that several values have, or that only a value inside a loop has; a value that no output
/// depends on.
pub(super) fn mark_named_values(g: Graph<'_>, wrt: &[&str]) -> Result<Option<GraphBuf>> {
    if let Some(name) = g.output_names.iter().map(|&s| g.str(s)).find(|n| n.starts_with(MARK)) {
        return Err(Error::new(Kind::Name, format!("an output cannot be called {name:?}: the prefix is reserved")));
    }
    let mut found: Vec<(&str, Value)> = Vec::new();
    let signature = Signature::new(g);
    for &name in wrt.iter().filter(|name| !signature.has_leaf(name)) {
        match find_inner_value(g, name)? {
            Some(v) if found.iter().all(|f| f.0 != name) => found.push((name, v)),
            Some(_) => {}
            None => return Err(no_inner_value(g, name)),
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let marked = rebuilt_by_pass("wrt", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |v| {
            let inner = |out: &Value| found.iter().any(|f| f.1 == *out);
            v.src.outs_of(v.node).any(|out| inner(&out)).then(|| copy_behind_barriers(v, &inner))
        });
        c.signature();
        for &(name, v) in &found {
            if !c.map[v].is_some() && b.error().is_none() {
                return Err(underivable_error(g, v, format!("no output depends on {name:?}")));
            }
            b.output(&inner_value_mark(name), c.map[v]);
        }
        drop(c);
        finish_rebuild(b, bump)
    })?;
    Ok(Some(marked))
}

/// The results of a copy of the node, those that `inner` picks behind barriers.
fn copy_behind_barriers<'g>(v: &RebuildVisit<'_, 'g>, inner: &dyn Fn(&Value) -> bool) -> Vec<Var<'g>> {
    let args: Vec<Value> = v.args.iter().map(|a| a.v).collect();
    let outs = v.g.with(|e| e.copy(&v.src, v.node, &args, v.regions));
    let pairs = v.src.outs_of(v.node).zip(outs.iter());
    pairs
        .map(|(old, new)| match inner(&old) {
            true => {
                let apart = Some(i64::from(old.0));
                v.g.emit1(Op::OPTIMIZATION_BARRIER, &[v.g.var(new)], &BarrierAttrs { apart }.list())
            }
            false => v.g.var(new),
        })
        .collect()
}

/// The outputs that [`mark_named_values`] added.
fn marked_outputs(g: Graph<'_>) -> impl Iterator<Item = Value> {
    g.outputs().iter().zip(g.output_names).filter(move |(_, name)| g.str(**name).starts_with(MARK)).map(|(&v, _)| v)
}

/// Copies the nodes of `g`, its updates, and its outputs, all without what [`mark_named_values`] added.
pub(super) fn copy_without_inner_value_marks(g: Graph<'_>, c: &mut Copier<'_, '_>, b: &Builder) {
    let barriers: Vec<Node> = marked_outputs(g).map(|v| g.def[v.at()]).collect();
    c.run(&mut |v| {
        let added = barriers.contains(&v.node) && v.op() == Op::OPTIMIZATION_BARRIER;
        added.then(|| v.args.to_vec())
    });
    for (&v, &name) in g.outputs().iter().zip(g.output_names).filter(|(_, name)| !g.str(**name).starts_with(MARK)) {
        b.output(g.str(name), c.map[v]);
    }
    c.updates();
}
