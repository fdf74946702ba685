//! Derivatives of activations, which gate the products that come back to them, and the gradients of biases before them.

use super::{Facts, Found, Match};
use crate::arena::{Node, Value, ids::Id};
use crate::nodes::ops::matmul::attrs::ActGrad;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::ops::matmul::attrs::MatmulDactAttrs;
use crate::nodes::ops::reduce::attrs::ReduceAttrs;
use crate::nodes::{Op, Var};
use crate::passes::fuse::is_free;

/// What gates a value.
struct Gate {
    value: Value,
    /// By what.
    by: Value,
    /// How.
    how: ActGrad,
}

/// A product times the derivative of an activation that is written by what that gave, or times what another node made:
/// each block is gated while it is in cache. The product may lie under a reshape.
pub fn gate(f: &Facts<'_>, root: Node) -> Found {
    let product = |g: Gate| {
        let reshape = f.is(g.value, Op::RESHAPE);
        let p = reshape.map_or(g.value, |n| f.args(n)[0]);
        f.is(p, Op::MATMUL).map(|n| (g, n, reshape))
    };
    let gates = if f.g.op[root.at()] == Op::SELECT { relu(f, root) } else { times(f, root) };
    let found: Vec<_> = gates.into_iter().filter_map(product).filter(|(g, ..)| lies(f, g.by)).collect();
    let read_again = |g: &Gate, n: Node| [g.value, f.g.out(n)].into_iter().find(|&v| !f.alone(v));
    let Some((gate, matmul, reshape)) = found.iter().find(|(g, n, _)| read_again(g, *n).is_none()) else {
        // Any product that is multiplied and read twice is no near miss.
        let near = found.iter().find(|(g, ..)| g.how != ActGrad::Mul).and_then(|(g, n, _)| read_again(g, *n));
        return near.map_or(Found::No, |v| Found::Missed(f.reads_of("the product", v)));
    };
    let (a, p, dims) = (f.args(*matmul), f.dims(f.g.out(*matmul)), f.dims(gate.value));
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&f.attrs(*matmul));
    let attrs = MatmulDactAttrs { ta, tb, by: gate.how };
    let (inner, reshaped) = ([Some(*matmul), *reshape].into_iter().flatten().collect(), reshape.is_some());
    let m = Match::one(f.g.out(root), vec![a[0], a[1], gate.by], inner, move |g, a: &[Var<'_>]| match reshaped {
        false => g.emit1(Op::MATMUL_DACT, a, &attrs.list()),
        true => g.emit1(Op::MATMUL_DACT, &[a[0], a[1], a[2].reshape(p)], &attrs.list()).reshape(dims),
    });
    Found::Fired(Match { makes: 1 + 2 * usize::from(reshaped), ..m })
}

/// True if the value is materialised regardless of fusion: not a view, and not a pointwise value that pointwise ops
/// alone read.
fn lies(f: &Facts<'_>, v: Value) -> bool {
    let sweeps = |n: Node| f.g.def_of(n).is_pointwise();
    let swept = || f.readers(v).len() == f.reads[v] as usize && f.readers(v).iter().all(|&n| sweeps(n));
    let fleeting = is_free(f.g, f.node(v)) || (sweeps(f.node(v)) && swept());
    !fleeting
}

/// A value where y > 0, else +0, by a comparison that nothing else reads: a mask that stays is smaller than y.
fn relu(f: &Facts<'_>, root: Node) -> Vec<Gate> {
    let gate = || {
        let &[mask, value, other] = f.args(root) else { return None };
        let compare = f.args(f.is(mask, Op::GT)?);
        let zeros = f.fill(compare[1])? == 0.0 && f.fill(other)?.to_bits() == 0;
        let same = f.g.dtype[compare[0].at()] == f.g.dtype[value.at()];
        (zeros && same && f.alone(mask)).then_some(Gate { value, by: compare[0], how: ActGrad::Relu })
    };
    gate().into_iter().collect()
}

/// A value times 1 − y², y·(1 − y), or anything.
fn times(f: &Facts<'_>, root: Node) -> Vec<Gate> {
    let &[a, b] = f.args(root) else { return Vec::new() };
    let one_less = |v: Value| {
        let x = f.args(f.is(v, Op::SUB)?);
        (f.fill(x[0])? == 1.0).then_some(x[1])
    };
    let factors = |v: Value| Some(f.args(f.is(v, Op::MUL)?)).map(|x| (x[0], x[1]));
    let by = |value: Value, slope: Value| {
        let tanh = || factors(one_less(slope)?).filter(|x| x.0 == x.1).map(|x| (x.0, ActGrad::Tanh));
        let sigmoid = || {
            let (p, q) = factors(slope)?;
            [(p, q), (q, p)]
                .into_iter()
                .find(|&(y, rest)| one_less(rest) == Some(y))
                .map(|(y, _)| (y, ActGrad::Sigmoid))
        };
        let (by, how) = tanh().or_else(sigmoid).unwrap_or((slope, ActGrad::Mul));
        Gate { value, by, how }
    };
    vec![by(a, b), by(b, a)]
}

/// The sum of a gated product along all axes but the last, as it is the gradient of a bias: columns are summed where
/// they are gated. The product may be reshaped in between, if its last axis stays.
pub fn sums(f: &Facts<'_>, root: Node) -> Found {
    let (x, sum) = (f.args(root)[0], f.g.out(root));
    let mut y = x;
    while let Some(n) = f.is(y, Op::RESHAPE) {
        y = f.args(n)[0];
    }
    let Some(product) = f.is(y, Op::MATMUL_DACT) else { return Found::No };
    let (from, dims, last) = (f.dims(x), f.dims(sum), |v: Value| f.dims(v).last().copied());
    let rank = from.len() as i64;
    let mut axes: Vec<i64> =
        ReduceAttrs::of(&f.attrs(root)).axes.iter().map(|a| if *a < 0 { a + rank } else { *a }).collect();
    axes.sort_unstable();
    let taken = f.g.outs_of(product).nth(1).is_none_or(|sums| f.reads[sums] > 0);
    // What is of one row is its own sum: nothing to compute.
    let one = from.len() < 2 || from[..from.len() - 1].iter().all(|d| *d == 1);
    if taken || one || !axes.into_iter().eq(0..rank - 1) || last(x) != last(y) {
        return Found::No;
    }
    let attrs = MatmulDactAttrs::of(&f.attrs(product));
    let gives = f.g.outs_of(product).zip(0..).chain([(sum, 2)]).collect();
    let reshaped = dims.len() != 1;
    let m = Match::new(f.args(product).to_vec(), gives, Vec::new(), move |g, a| {
        let [y, sums] = *g.emit(Op::MATMUL_DACT, a, &attrs.list()) else { return Vec::new() };
        vec![y, sums, if reshaped { sums.reshape(dims) } else { sums }]
    });
    Found::Fired(Match { makes: 1 + usize::from(reshaped), ..m })
}
