//! Steps that look for NaN and infinities: see [`Session::find_nan`](crate::session::Session::find_nan).
//!
//! Invariant: the labels are those of the graph that runs, in which every op that has a kernel stands alone. So an
//! error names the op that the user wrote, and its line.

use super::Program;
use crate::arena::{Node, Value, ids::Id};
use crate::error::{Error, Kind, Location, Result};
use crate::nodes::ir::attrs::Owned;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::{DType, Graph, LeafKind};
use crate::sched::checker::Checked;
use crate::sched::instructions::{Instructions, Operand};
use crate::sched::nonfinite::{self, Culprit, NonfiniteFindings, ScannedFloat, WatchedCall};
use crate::session::bindings::{Binding, Role};
use std::fmt::Write;

/// Most ops of a region that an error lists.
const LISTED: usize = 8;

/// What a program needs to find the op that makes a NaN.
pub struct NanFinder {
    calls: Vec<WatchedCall>,
    labels: Vec<Label>,
    /// The values, in words.
    values: Vec<String>,
    found: NonfiniteFindings,
    /// Params and states before the step, one after another.
    before: Vec<u8>,
}

/// What an error says of an instruction.
struct Label {
    op: String,
    /// The value of each write, in words.
    writes: Vec<String>,
    location: Location,
}

fn scanned_float(d: DType) -> Option<ScannedFloat> {
    match d {
        DType::F16 => Some(ScannedFloat::F16),
        DType::BF16 => Some(ScannedFloat::BF16),
        DType::F32 => Some(ScannedFloat::F32),
        DType::F64 => Some(ScannedFloat::F64),
        DType::C64 => Some(ScannedFloat::C64),
        DType::C128 => Some(ScannedFloat::C128),
        _ => None,
    }
}

impl NanFinder {
    /// For the program of `plan`, whose graph is `g`.
    pub fn new(g: &Graph<'_>, plan: &Checked) -> NanFinder {
        let mut f = NanFinder {
            calls: Vec::new(),
            labels: Vec::new(),
            values: (0..g.values()).map(|v| operand_label(g, Value::new(v))).collect(),
            found: NonfiniteFindings::default(),
            before: Vec::new(),
        };
        f.list(g, &plan.code);
        f
    }

    /// Adds the instructions of `code`, then those of its loops, in the order in which linking numbers them.
    fn list(&mut self, g: &Graph<'_>, code: &Instructions) {
        for i in 0..code.len() {
            let n = code.node[i];
            let alone = |j: Option<usize>| j.and_then(|j| code.node.get(j)) != Some(&n);
            self.calls.push(match n.is_some() && !matches!(g.def_of(n).lower, Lower::Loop | Lower::Choice) {
                true => {
                    WatchedCall { first: alone(i.checked_sub(1)), last: alone(Some(i + 1)), ..watched_call(g, code, i) }
                }
                false => WatchedCall::default(),
            });
            self.labels.push(Label {
                op: if n.is_some() { op_label(g, n) } else { "update".to_string() },
                writes: code
                    .writes_of(i)
                    .iter()
                    .map(|o| code.value[o.buf as usize])
                    .map(|v| result_label(g, v))
                    .collect(),
                location: if n.is_some() { g.location(n) } else { Location::Nowhere },
            });
        }
        for l in (0..code.len()).flat_map(|i| code.bodies_of(i)) {
            self.list(g, &l.plan.code);
        }
    }
}

/// What to scan of instruction `i`, apart from its position in its node.
fn watched_call(g: &Graph<'_>, code: &Instructions, i: usize) -> WatchedCall {
    let n = code.node[i];
    let known = |o: &Operand| {
        let v = code.value[o.buf as usize];
        let float = v.is_some().then(|| scanned_float(g.dtype[v.at()])).flatten();
        float.map(|f| (f, v))
    };
    let mine = |v: Value| g.def[v.at()] == n;
    WatchedCall {
        reads: code.reads_of(i).iter().map(|o| known(o).filter(|k| !mine(k.1)).map(|(f, v)| (f, v.0))).collect(),
        writes: code.writes_of(i).iter().map(|o| known(o).filter(|k| mine(k.1)).map(|k| k.0)).collect(),
        infinite: asks_for_infinity(g, n),
        ..WatchedCall::default()
    }
}

/// True if an attribute of `n`, or of a node in its region, is infinite.
fn asks_for_infinity(g: &Graph<'_>, n: Node) -> bool {
    g.attrs(n).iter().any(|(_, a)| match a {
        Owned::F64(x) => x.is_infinite(),
        Owned::Region(r) => g.region_nodes(r).any(|n| asks_for_infinity(g, n)),
        _ => false,
    })
}

/// The op of `n`; for a region of ops, with the first of these.
fn op_label(g: &Graph<'_>, n: Node) -> String {
    let name = g.def_of(n).name;
    let region = g.attrs(n).iter().find_map(|(_, a)| if let Owned::Region(r) = a { Some(r) } else { None });
    let Some(r) = region else { return name.to_string() };
    let inside = g.region_nodes(r).map(|n| g.def_of(n).name).filter(|op| !["arg", "full"].contains(op));
    let mut ops: Vec<&str> = inside.collect();
    if ops.len() > LISTED {
        ops.truncate(LISTED);
        ops.push("…");
    }
    format!("{name} ({})", ops.join(", "))
}

/// A result in words: `"h" f32[4]` or `f32[4]`; empty for scratch.
fn result_label(g: &Graph<'_>, v: Value) -> String {
    match v.is_some() {
        true if g.names[v.at()].is_some() => format!("{:?} {}", g.str(g.names[v.at()]), g.ty_text(v)),
        true => g.ty_text(v),
        false => String::new(),
    }
}

/// An operand in words: `param "w" f32[4]`, `"h" f32[4]`, or `f32[4] of tanh at src/main.rs:3`.
fn operand_label(g: &Graph<'_>, v: Value) -> String {
    let (ty, n) = (g.ty_text(v), g.def[v.at()]);
    if let Some((kind, name)) = g.leaf(v) {
        let kind = match kind {
            LeafKind::Input => "input",
            LeafKind::Param => "param",
            LeafKind::State => "state",
        };
        return format!("{kind} {name:?} {ty}");
    }
    if g.names[v.at()].is_some() {
        return result_label(g, v);
    }
    match g.location(n).origin() {
        Some(at) => format!("{ty} of {} at {at}", g.def_of(n).name),
        None => format!("{ty} of {}", g.def_of(n).name),
    }
}

/// What an operand held.
fn describe_contents(n: &nonfinite::Counts) -> String {
    let range = match (n.count, n.bad() == n.count) {
        (0, _) => return "without elements".to_string(),
        (_, true) => "without a finite element".to_string(),
        _ => format!("in [{:?}, {:?}]", n.low, n.high),
    };
    match n.bad() {
        0 => range,
        _ => format!("{range} ({} NaN, {} infinite)", n.nan, n.infinite),
    }
}

impl Program {
    /// A step of `method` that looks for NaN, with `f`.
    #[cold]
    pub(super) fn find_nan_step(&mut self, method: usize, f: &mut NanFinder) -> Result<()> {
        self.find_nan_in_leaves(method)?;
        f.before.clear();
        for b in self.bindings.iter().filter(|b| b.is_persistent()) {
            f.before.extend_from_slice(self.arena.slice(b.range()));
        }
        let done = self.runner.step_watched(method, &mut self.arena, &f.calls, &mut f.found);
        let e = match (&f.found.culprit, done) {
            (Some(c), done) => self.find_nan_culprit(method, f, c, done.is_ok()),
            (None, Ok(())) => return Ok(()),
            (None, Err(stop)) => self.stopped(method, crate::sched::exec::Stop { changed: false, ..stop }),
        };
        let mut at = 0;
        for b in self.bindings.iter().filter(|b| b.is_persistent()) {
            self.arena.slice_mut(b.range()).copy_from_slice(&f.before[at..at + b.bytes]);
            at += b.bytes;
        }
        Err(e)
    }

    /// An error if a leaf that a step reads holds a NaN, or a param an infinity.
    fn find_nan_in_leaves(&self, method: usize) -> Result<()> {
        let read = |(i, _): &(usize, &Binding)| self.fresh.is_read(method, *i);
        for (_, b) in self.bindings.iter().enumerate().filter(read) {
            let Some(float) = scanned_float(b.dtype) else { continue };
            let n = nonfinite::Counts::of(self.arena.slice(b.range()), float);
            if n.nan > 0 || (n.infinite > 0 && b.role == Role::Param) {
                let first = n.first.unwrap_or_default();
                let text = format!(
                    "{} {:?} {}{}: {} of {} elements are not finite before the step ({} NaN, {} infinite), the first \
                     is element {first}",
                    b.role.name(),
                    b.name,
                    b.dtype,
                    b.dims,
                    n.bad(),
                    n.count,
                    n.nan,
                    n.infinite
                );
                return Err(Error::new(Kind::Diverged, text));
            }
        }
        Ok(())
    }

    /// The error of a step of `method` that names `c`. `ran` is true if the step went on to its end.
    fn find_nan_culprit(&self, method: usize, f: &NanFinder, c: &Culprit, ran: bool) -> Error {
        let (label, n) = (&f.labels[c.write.0], &c.result);
        let result = &label.writes[c.write.1];
        let mut text = format!(
            "{}: {} of {} elements of its result {result} are not finite ({} NaN, {} infinite), the first is element \
            {}",
            label.op,
            n.bad(),
            n.count,
            n.nan,
            n.infinite,
            n.first.unwrap_or_default()
        );
        if let Some(i) = self.runner.iteration(method, c.time) {
            let _ = write!(text, ", in iteration {i} of its loop");
        }
        let operands: Vec<String> =
            c.operands.iter().map(|(v, n)| format!("{} {}", f.values[*v as usize], describe_contents(n))).collect();
        match operands.is_empty() {
            true => text.push_str("; it has no float operand"),
            false => _ = write!(text, "; its operands: {}", operands.join(", ")),
        }
        let own = self.methods[method].named.iter().map(|&i| &self.bindings[i as usize]);
        let reached: Vec<String> =
            own.filter(|b| ran && self.find_nan_in_output(b)).map(|b| format!("{:?}", b.name)).collect();
        let _ = match f.found.carriers {
            0 => write!(text, "; no later op carries them on"),
            1 => text.write_str("; 1 later op carries them on"),
            n => write!(text, "; {n} later ops carry them on"),
        };
        if !reached.is_empty() {
            let _ = write!(text, "; outputs with such elements: {}", reached.join(", "));
        }
        text.push_str("; params and states are as before the step");
        Error::new(Kind::Diverged, text).at(label.location.clone())
    }

    fn find_nan_in_output(&self, b: &Binding) -> bool {
        let bad = |float| nonfinite::Counts::of(self.arena.slice(b.range()), float).bad() > 0;
        b.role == Role::Output && scanned_float(b.dtype).is_some_and(bad)
    }
}
