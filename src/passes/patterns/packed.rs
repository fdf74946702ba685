//! Attention whose q, k and v are slices of one value, in rows `[q | k | v]`.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::Op;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::attention::attrs::{AttentionAttrs, AttentionBackwardAttrs, Layout};
use crate::nodes::ops::attention::packed_parts::packed_part_widths;
use crate::nodes::ops::layout::attrs::{ConcatAttrs, SliceAttrs};

/// The packed value that q, k and v (`qkv`) are slices of, in the layout that the attributes of node `n` give.
fn find_common_source(f: &PatternFacts<'_>, n: Node, qkv: &[Value]) -> Option<Value> {
    let attrs = AttentionAttrs::of(&f.attrs(n));
    if attrs.layout != Layout::Bsd {
        return None;
    }
    let x = f.args(f.is(qkv[0], Op::SLICE)?)[0];
    let (d, mut at) = (f.dims(x), 0);
    let widths = packed_part_widths(&d, &attrs).ok()?;
    for (&part, width) in qkv.iter().zip(widths) {
        let cut = f.is(part, Op::SLICE).filter(|&n| f.args(n)[0] == x)?;
        let a = SliceAttrs::of(&f.attrs(cut));
        let fits = to_size_attrs(&a.starts) == [0, 0, at] && to_size_attrs(&a.limits) == [d[0], d[1], at + width];
        if !fits || a.steps.iter().any(|&s| s != 1) {
            return None;
        }
        at += width;
    }
    Some(x)
}

/// The concatenation that is the only reader of the gradients of backward node `n`, and the packed value.
fn find_joined_gradients(f: &PatternFacts<'_>, n: Node) -> Option<(Node, Value)> {
    let x = find_common_source(f, n, &f.args(n)[1..4])?;
    if AttentionAttrs::of(&f.attrs(n)).bias {
        return None;
    }
    let grads: Vec<Value> = f.g.outs_of(n).collect();
    let join = f.reader(grads[0]).filter(|&j| f.g.op[j.at()] == Op::CONCAT)?;
    let fits = f.args(join) == grads && grads.iter().all(|&g| f.alone(g)) && ConcatAttrs::of(&f.attrs(join)).axis == 2;
    fits.then_some((join, x))
}

/// Attention on three slices that only it and its backward op read, if the backward op can read the packed value too.
pub fn match_forward(f: &PatternFacts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let Some(x) = find_common_source(f, root, &args[..3]) else { return Found::No };
    for &part in &args[..3] {
        let other = f.readers(part).iter().find(|&&n| {
            n != root
                && (f.g.op[n.at()] != Op::ATTENTION_BACKWARD
                    || f.args(n)[1..4] != args[..3]
                    || find_joined_gradients(f, n).is_none())
        });
        if let Some(&n) = other {
            return Found::Missed(format!("{} reads a part of what is packed", f.g.def_of(n).name));
        }
        if f.g.yields.contains(&part) {
            return Found::Missed(f.reads_of("a part of what is packed", part));
        }
    }
    let (attrs, mut operands) = (AttentionAttrs::of(&f.attrs(root)), vec![x]);
    operands.extend(&args[3..]);
    let gives = f.g.outs_of(root).zip(0..).collect();
    Found::Fired(Match::new(operands, gives, Vec::new(), move |g, a| {
        g.emit(Op::ATTENTION_PACKED, a, &attrs.list()).into()
    }))
}

/// The backward op of such attention, and the concatenation of its gradients.
pub fn match_backward(f: &PatternFacts<'_>, root: Node) -> Found {
    let first = f.node(f.args(root)[0]);
    if f.g.op[first.at()] != Op::ATTENTION_BACKWARD {
        return Found::No;
    }
    let Some((_, x)) = find_joined_gradients(f, first).filter(|j| j.0 == root) else { return Found::No };
    let (args, attrs) = (f.args(first), AttentionBackwardAttrs::of(&f.attrs(first)));
    let operands = [&[args[0], x], &args[4..]].concat();
    Found::Fired(Match::one(f.g.out(root), operands, vec![first], move |g, a| {
        g.emit1(Op::ATTENTION_PACKED_BACKWARD, a, &attrs.list())
    }))
}
