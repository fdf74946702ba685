//! Products times the derivative of an activation (act-grad epilogues), and the bias gradients that are sums of them.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::matmul::activation::ActGrad;
use crate::nodes::ops::matmul::attrs::{MatmulAttrs, MatmulDactAttrs};
use crate::nodes::ops::reduce::attrs::ReduceAttrs;
use crate::nodes::{Op, Var};
use crate::passes::fuse::is_free_in_region;

/// A value times the derivative of an activation.
struct ActGradProduct {
    /// The value.
    value: Value,
    /// The operand that the derivative is computed from, or the factor itself for [`ActGrad::Mul`].
    operand: Value,
    kind: ActGrad,
}

/// An [`ActGradProduct`] whose value is a product, perhaps reshaped.
struct DactCandidate {
    grad: ActGradProduct,
    matmul: Node,
    reshape: Option<Node>,
}

impl DactCandidate {
    /// The value or the product, if it has another reader.
    fn read_elsewhere(&self, f: &PatternFacts<'_>) -> Option<Value> {
        [self.grad.value, f.g.out(self.matmul)].into_iter().find(|&v| !f.alone(v))
    }
}

/// A product times the derivative of an activation in terms of the activation's result, or times any stored value. The
/// epilogue multiplies each block while it is in cache. There may be a reshape after the product.
pub fn match_dact_product(f: &PatternFacts<'_>, root: Node) -> Found {
    let candidate = |grad: ActGradProduct| {
        let reshape = f.is(grad.value, Op::RESHAPE);
        let p = reshape.map_or(grad.value, |n| f.args(n)[0]);
        f.is(p, Op::MATMUL).map(|matmul| DactCandidate { grad, matmul, reshape })
    };
    let grads = if f.g.op[root.at()] == Op::SELECT { match_dact_relu(f, root) } else { match_dact_factor(f, root) };
    let found: Vec<DactCandidate> =
        grads.into_iter().filter_map(candidate).filter(|c| is_dact_materialised(f, c.grad.operand)).collect();
    let Some(DactCandidate { grad, matmul, reshape }) = found.iter().find(|c| c.read_elsewhere(f).is_none()) else {
        // A plain multiplication of a product that has other readers is not a near miss.
        let near = found.iter().find(|c| c.grad.kind != ActGrad::Mul).and_then(|c| c.read_elsewhere(f));
        return near.map_or(Found::No, |v| Found::Missed(f.reads_of("the product", v)));
    };
    let (a, p, dims) = (f.args(*matmul), f.dims(f.g.out(*matmul)), f.dims(grad.value));
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&f.attrs(*matmul));
    let attrs = MatmulDactAttrs { ta, tb, by: grad.kind };
    let (inner, reshaped) = ([Some(*matmul), *reshape].into_iter().flatten().collect(), reshape.is_some());
    let m = Match::one(f.g.out(root), vec![a[0], a[1], grad.operand], inner, move |g, a: &[Var<'_>]| match reshaped {
        false => g.emit1(Op::MATMUL_DACT, a, &attrs.list()),
        true => g.emit1(Op::MATMUL_DACT, &[a[0], a[1], a[2].reshape(p)], &attrs.list()).reshape(dims),
    });
    Found::Fired(Match { makes: 1 + 2 * usize::from(reshaped), ..m })
}

/// True if the value is materialised regardless of fusion: not free inside a region, and not a pointwise value that
/// only pointwise ops read.
fn is_dact_materialised(f: &PatternFacts<'_>, v: Value) -> bool {
    let pointwise = |n: Node| f.g.def_of(n).is_pointwise();
    let only_pointwise_readers =
        || f.readers(v).len() == f.reads[v] as usize && f.readers(v).iter().all(|&n| pointwise(n));
    let may_vanish = is_free_in_region(f.g, f.node(v)) || (pointwise(f.node(v)) && only_pointwise_readers());
    !may_vanish
}

/// `select(y > 0, value, +0)`, if the comparison has no other reader. A mask that is stored anyway is smaller than y.
fn match_dact_relu(f: &PatternFacts<'_>, root: Node) -> Vec<ActGradProduct> {
    let grad = || {
        let &[mask, value, other] = f.args(root) else { return None };
        let compare = f.args(f.is(mask, Op::GT)?);
        let zeros = f.fill(compare[1])? == 0.0 && f.fill(other)?.to_bits() == 0;
        let same = f.g.dtype[compare[0].at()] == f.g.dtype[value.at()];
        (zeros && same && f.alone(mask)).then_some(ActGradProduct { value, operand: compare[0], kind: ActGrad::Relu })
    };
    grad().into_iter().collect()
}

/// `value·(1 − y²)`, `value·y·(1 − y)`, or `value·y`, with either operand of the multiplication as the value.
fn match_dact_factor(f: &PatternFacts<'_>, root: Node) -> Vec<ActGradProduct> {
    let &[a, b] = f.args(root) else { return Vec::new() };
    let one_less = |v: Value| {
        let x = f.args(f.is(v, Op::SUB)?);
        (f.fill(x[0])? == 1.0).then_some(x[1])
    };
    let factors = |v: Value| Some(f.args(f.is(v, Op::MUL)?)).map(|x| (x[0], x[1]));
    let grad = |value: Value, factor: Value| {
        let tanh = || factors(one_less(factor)?).filter(|x| x.0 == x.1).map(|x| (x.0, ActGrad::Tanh));
        let sigmoid = || {
            let (p, q) = factors(factor)?;
            [(p, q), (q, p)]
                .into_iter()
                .find(|&(y, rest)| one_less(rest) == Some(y))
                .map(|(y, _)| (y, ActGrad::Sigmoid))
        };
        let (operand, kind) = tanh().or_else(sigmoid).unwrap_or((factor, ActGrad::Mul));
        ActGradProduct { value, operand, kind }
    };
    vec![grad(a, b), grad(b, a)]
}

/// The sum of a `matmul_dact` along all axes but the last: the gradient of a bias. The epilogue sums the columns. There
/// may be reshapes in between that keep the last axis.
pub fn match_dact_column_sums(f: &PatternFacts<'_>, root: Node) -> Found {
    let (x, sum) = (f.args(root)[0], f.g.out(root));
    let mut y = x;
    while let Some(n) = f.is(y, Op::RESHAPE) {
        y = f.args(n)[0];
    }
    let Some(product) = f.is(y, Op::MATMUL_DACT) else { return Found::No };
    let (from, dims, last) = (f.dims(x), f.dims(sum), |v: Value| f.dims(v).last().copied());
    let rank = from.len() as i64;
    // The axes of a reduction are in order.
    let axes = ReduceAttrs::of(&f.attrs(root)).axes.into_iter().map(|a| if a < 0 { a + rank } else { a });
    let taken = f.g.outs_of(product).nth(1).is_none_or(|sums| f.reads[sums] > 0);
    // A single row needs no reduction.
    let one_row = from.len() < 2 || from[..from.len() - 1].iter().all(|d| *d == 1);
    if taken || one_row || !axes.eq(0..rank - 1) || last(x) != last(y) {
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
