//! Bias and activation after a product become part of the product.
//!
//! A product that only a bias addition reads takes the bias; a biased product that only an activation reads takes the
//! activation. The value must not be needed on its own: it would not exist any more.

use super::rebuild::{Visit, rebuild};
use super::simplify::Hits;
use crate::arena::{Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::attrs::Attr;
use crate::nodes::ops::epilogue::ACTS;
use crate::nodes::{Graph, Op, Var};
use bumpalo::Bump;

/// How often each value is read, outputs and updates included.
fn reads(g: Graph<'_>) -> Side<Value, u32> {
    let mut count = Side::filled(g.values(), 0);
    for &v in g.args.iter().chain(g.yields).chain(g.updates.iter().map(|u| &u.1)) {
        count[v] += 1;
    }
    count
}

/// Fuses epilogues of `g`, counting into `hits`.
pub fn epilogue<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    let count = reads(g);
    rebuild(g, bump, &mut |v| {
        let (name, new) = match v.op() {
            Op::ADD => ("matmul-bias", bias(v, &count)?),
            _ => ("matmul-activation", activation(v, &count)?),
        };
        *hits.entry(name).or_default() += 1;
        Some(vec![new])
    })
}

/// `a·b + broadcast(bias)`, either way round.
fn bias<'g>(v: &Visit<'_, 'g>, count: &Side<Value, u32>) -> Option<Var<'g>> {
    let old = v.src.args_of(v.node);
    [(0, 1), (1, 0)].into_iter().find_map(|(p, q)| {
        let (product, repeated) = (v.src.def[old[p].at()], v.src.def[old[q].at()]);
        let fits = v.src.op[product.at()] == Op::MATMUL
            && v.src.op[repeated.at()] == Op::BROADCAST
            && count[old[p]] == 1
            && v.src.dims(old[p]) == v.src.dims(old[q]);
        let b = v.src.args_of(repeated).first().copied().filter(|_| fits)?;
        let n = v.src.dims(old[p]).last().copied()?;
        if *v.src.dims(b) != [n] {
            return None;
        }
        let a = v.src.attrs(product);
        let args = v.src.args_of(product);
        let operands = [v.map[args[0]], v.map[args[1]], v.map[b]];
        let attrs = [Attr::Bool(a.bool(0)), Attr::Bool(a.bool(1)), Attr::Choice(0)];
        Some(v.g.emit1(Op::MATMUL_BIAS_ACT, &operands, &attrs))
    })
}

/// An activation of a biased product.
fn activation<'g>(v: &Visit<'_, 'g>, count: &Side<Value, u32>) -> Option<Var<'g>> {
    let act = ACTS.iter().position(|a| a.0 == Some(v.op()))?;
    if count[v.src.args_of(v.node)[0]] != 1 {
        return None;
    }
    let x = v.args[0];
    let (args, ta, tb) = x.g.with(|e| match e.def(x.v)? {
        (Op::MATMUL_BIAS_ACT, args, a) if a.choice(2) == 0 => Some((args.to_vec(), a.bool(0), a.bool(1))),
        _ => None,
    })?;
    let operands: Vec<Var<'g>> = args.into_iter().map(|a| x.g.var(a)).collect();
    let attrs = [Attr::Bool(ta), Attr::Bool(tb), Attr::Choice(act as u32)];
    Some(v.g.emit1(Op::MATMUL_BIAS_ACT, &operands, &attrs))
}
