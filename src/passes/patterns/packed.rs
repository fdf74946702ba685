//! Attention whose q, k and v are cut out of one value.

use super::{Facts, Found, Match};
use crate::arena::{Node, Value, ids::Id};
use crate::nodes::Op;
use crate::nodes::ir::attrs::{Attr, Owned};
use crate::nodes::ops::attention::{BIAS, Layout, packed::widths};

/// The value that `q`, `k`, `v` are the parts of, as packed rows have them by the attributes of node `n`.
fn whole(f: &Facts<'_>, n: Node, qkv: &[Value]) -> Option<Value> {
    let attrs = f.attrs(n);
    if attrs.choice(0) != Layout::Bsd as u32 {
        return None;
    }
    let x = f.args(f.is(qkv[0], Op::SLICE)?)[0];
    let (d, mut at) = (f.dims(x), 0);
    let widths = widths(&d, &attrs).ok()?;
    for (&part, width) in qkv.iter().zip(widths) {
        let cut = f.is(part, Op::SLICE).filter(|&n| f.args(n)[0] == x)?;
        let a = f.attrs(cut);
        let fits = a.sizes(0) == [0, 0, at] && a.sizes(1) == [d[0], d[1], at + width];
        if !fits || a.sizes(2).iter().any(|&s| s != 1) {
            return None;
        }
        at += width;
    }
    Some(x)
}

/// The concatenation that is all that becomes of the gradients of backward node `n`, and the packed value.
fn joined(f: &Facts<'_>, n: Node) -> Option<(Node, Value)> {
    let x = whole(f, n, &f.args(n)[1..4])?;
    if f.attrs(n).bool(BIAS) {
        return None;
    }
    let grads: Vec<Value> = f.g.outs_of(n).collect();
    let join = f.reader(grads[0]).filter(|&j| f.g.op[j.at()] == Op::CONCAT)?;
    let fits = f.args(join) == grads && grads.iter().all(|&g| f.alone(g)) && f.attrs(join).size(0) == 2;
    fits.then_some((join, x))
}

fn attributes(f: &Facts<'_>, n: Node) -> Vec<Owned> {
    f.attrs(n).iter().map(|(_, a)| a).collect()
}

/// Attention of three parts that nobody else reads, but its own backward op if that can do without them too.
pub fn forward(f: &Facts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let Some(x) = whole(f, root, &args[..3]) else { return Found::No };
    for &part in &args[..3] {
        let other = f.readers(part).iter().find(|&&n| {
            n != root
                && (f.g.op[n.at()] != Op::ATTENTION_BACKWARD || f.args(n)[1..4] != args[..3] || joined(f, n).is_none())
        });
        if let Some(&n) = other {
            return Found::Missed(format!("{} reads a part of what is packed", f.g.def_of(n).name));
        }
        if f.g.yields.contains(&part) {
            return Found::Missed(f.reads_of("a part of what is packed", part));
        }
    }
    let (attrs, mut operands) = (attributes(f, root), vec![x]);
    operands.extend(&args[3..]);
    let gives = f.g.outs_of(root).zip(0..).collect();
    Found::Fired(Match::new(operands, gives, Vec::new(), move |g, a| {
        let attrs: Vec<Attr<'_>> = attrs.iter().map(Owned::borrow).collect();
        g.emit(Op::ATTENTION_PACKED, a, &attrs).into()
    }))
}

/// The backward op of such attention, and the concatenation of what it makes.
pub fn backward(f: &Facts<'_>, root: Node) -> Found {
    let first = f.node(f.args(root)[0]);
    if f.g.op[first.at()] != Op::ATTENTION_BACKWARD {
        return Found::No;
    }
    let Some((_, x)) = joined(f, first).filter(|j| j.0 == root) else { return Found::No };
    let (args, attrs) = (f.args(first), attributes(f, first));
    let operands = [&[args[0], x], &args[4..]].concat();
    Found::Fired(Match::one(f.g.out(root), operands, vec![first], move |g, a| {
        let attrs: Vec<Attr<'_>> = attrs.iter().map(Owned::borrow).collect();
        g.emit1(Op::ATTENTION_PACKED_BACKWARD, a, &attrs)
    }))
}
