//! Reductions, running sums, products of matrices, softmax.

use super::{Entry, moved, own, same};
use crate::import::{Cx, Out, one};
use crate::tensor::count;
use arenagrad::graph::{DType, Var};
use arenagrad::op::Op;

pub const OPS: &[Entry] = &[
    same("ReduceSum", |c| reduce(c, 0.0, |x, axes, keep| sum(x, axes, keep))),
    same("ReduceMean", |c| reduce(c, f64::NAN, mean)),
    same("ReduceMax", |c| reduce(c, f64::NEG_INFINITY, |x, axes, keep| x.reduce(Op::REDUCE_MAX, axes, keep))),
    same("ReduceMin", |c| reduce(c, f64::INFINITY, |x, axes, keep| x.reduce(Op::REDUCE_MIN, axes, keep))),
    same("ReduceProd", |c| reduce(c, 1.0, |x, axes, keep| x.reduce(Op::REDUCE_PROD, axes, keep))),
    same("ReduceL1", |c| reduce(c, 0.0, |x, axes, keep| sum(x.abs(), axes, keep))),
    same("ReduceL2", |c| reduce(c, 0.0, l2)),
    same("ReduceSumSquare", |c| reduce(c, 0.0, |x, axes, keep| sum(x * x, axes, keep))),
    same("ReduceLogSum", |c| reduce(c, f64::NEG_INFINITY, |x, axes, keep| sum(x, axes, keep).log())),
    same("ReduceLogSumExp", |c| reduce(c, f64::NEG_INFINITY, |x, axes, keep| x.reduce(Op::LOGSUMEXP, axes, keep))),
    own("ArgMax", |c| arg_extreme(c, true)),
    own("ArgMin", |c| arg_extreme(c, false)),
    same("CumSum", |c| {
        let (x, axis) = (c.x(0)?, c.integer(1)?);
        one(x.cumsum(axis, c.flag("exclusive", false), c.flag("reverse", false)))
    }),
    same("CumProd", |c| {
        let (x, axis) = (c.x(0)?, c.integer(1)?);
        one(x.cumprod(axis, c.flag("exclusive", false), c.flag("reverse", false)))
    }),
    same("Softmax", |c| {
        let half = c.dtype(0)? == DType::F16;
        along_rows(c, |x, axis| if half { half_softmax(x, axis) } else { x.softmax(axis) })
    }),
    same("LogSoftmax", |c| along_rows(c, |x, axis| x.log_softmax(axis))),
    same("Hardmax", |c| {
        along_rows(c, |x, axis| {
            let n = x.dims()[axis.max(0) as usize];
            x.arg_max(axis, DType::I64).one_hot(n, x.dtype()).movedim(&[-1], &[axis])
        })
    }),
    own("TopK", top_k),
    same("Einsum", |c| {
        let xs = c.xs()?;
        let equation = c.text("equation", "").replace(' ', "");
        one(c.g.einsum(&equation, &xs))
    }),
    same("MatMul", |c| one(product(c.x(0)?, c.x(1)?))),
    same("Gemm", gemm),
    same("Det", |c| one(c.x(0)?.det())),
    moved("Trilu", |c| {
        let (x, k) = (c.x(0)?, if c.has(1) { c.integer(1)? } else { 0 });
        let d = x.dims();
        let [.., rows, cols] = d[..] else { return c.wrong("it needs a matrix") };
        let (i, j) = (c.g.iota(0, [rows, cols], DType::I64), c.g.iota(1, [rows, cols], DType::I64));
        let upper = c.flag("upper", true);
        let kept = if upper { (j - i).greater_equal(k as f64) } else { (j - i).less_equal(k as f64) };
        one(kept.broadcast(d).select(x, x.full_like(0.0)))
    }),
];

/// The sum of any numbers, in their own dtype.
fn sum<'g>(x: Var<'g>, axes: &[i64], keep: bool) -> Var<'g> {
    let own = x.dtype();
    let wide = if matches!(own, DType::I8 | DType::U8 | DType::U32) { DType::I64 } else { own };
    x.cast(wide).reduce(Op::REDUCE_SUM, axes, keep).cast(own)
}

/// The square root of the sum of squares; of integers it is rounded toward 0.
fn l2<'g>(x: Var<'g>, axes: &[i64], keep: bool) -> Var<'g> {
    let own = x.dtype();
    let x = if own.is_float() { x } else { x.cast(DType::F64) };
    let norm = if keep { x.norm_keep(2.0, axes) } else { x.norm(2.0, axes) };
    norm.cast(own)
}

/// The mean; of integers it is rounded toward 0.
fn mean<'g>(x: Var<'g>, axes: &[i64], keep: bool) -> Var<'g> {
    let own = x.dtype();
    let x = if own.is_float() { x } else { x.cast(DType::F64) };
    x.reduce(Op::REDUCE_MEAN, axes, keep).cast(own)
}

/// The reduction `f` over the axes of the node; `empty` is that of no element.
fn reduce<'g>(c: &Cx<'_, 'g>, empty: f64, f: impl Fn(Var<'g>, &[i64], bool) -> Var<'g>) -> Out<'g> {
    let x = c.x(0)?;
    let given = c.list_or("axes", 1)?.filter(|axes| !axes.is_empty());
    let (keep, rank) = (c.flag("keepdims", true), x.rank());
    let mut axes = match given {
        Some(axes) => c.axes(&axes, rank)?,
        None if c.flag("noop_with_empty_axes", false) => {
            // No axis is reduced, and each element is a group of its own.
            let y = f(x.unsqueeze(0), &[0], false);
            return one(y);
        }
        None => (0..rank).collect(),
    };
    axes.sort_unstable();
    axes.dedup();
    let d = x.dims();
    if axes.iter().any(|&a| d[a] == 0) {
        let left = (0..rank).filter(|a| keep || !axes.contains(a));
        let dims: Vec<usize> = left.map(|a| if axes.contains(&a) { 1 } else { d[a] }).collect();
        let least = match x.dtype() {
            float if float.is_float() => empty,
            DType::Bool => f64::from(empty > 0.0),
            _ if empty.is_finite() => empty,
            _ => return c.refuse(format!("of no {}", x.dtype())),
        };
        return one(c.g.full(least, dims, x.dtype()));
    }
    let axes: Vec<i64> = axes.into_iter().map(|a| a as i64).collect();
    one(if axes.is_empty() { f(x.unsqueeze(0), &[0], false) } else { f(x, &axes, keep) })
}

fn arg_extreme<'g>(c: &Cx<'_, 'g>, largest: bool) -> Out<'g> {
    let x = c.x(0)?;
    let axis = c.axis(c.int("axis", 0), x.rank().max(1))?;
    let x = if x.rank() == 0 { x.reshape([1]) } else { x };
    let (at, last, n) = (axis as i64, c.flag("select_last_index", false), x.dims()[axis]);
    let from = if last { x.flip(at) } else { x };
    let found = if largest { from.arg_max(at, DType::I64) } else { from.arg_min(at, DType::I64) };
    let found = if last { (n as f64 - 1.0) - found } else { found };
    one(if c.flag("keepdims", true) { found.unsqueeze(at) } else { found })
}

/// The softmax of `f16`: the format defines it in single steps, each of which is rounded.
fn half_softmax<'g>(x: Var<'g>, axis: i64) -> Var<'g> {
    let rounded = |v: Var<'g>| v.cast(DType::F16).cast(DType::F32);
    let top = x.reduce(Op::REDUCE_MAX, axis, true);
    let each = rounded(rounded(x - top).exp());
    each / rounded(each.reduce(Op::REDUCE_SUM, axis, true))
}

/// A function of each row along an axis. Before version 13, a row is everything from the axis on.
fn along_rows<'g>(c: &Cx<'_, 'g>, f: impl Fn(Var<'g>, i64) -> Var<'g>) -> Out<'g> {
    let x = c.x(0)?;
    let (d, rank) = (x.dims(), x.rank());
    if rank == 0 {
        return one(f(x.reshape([1]), 0).reshape([]));
    }
    let axis = c.int("axis", if c.opset < 13 { 1 } else { -1 });
    // Of a vector, the old default is the axis after it.
    let axis = c.axis(axis, if axis == 1 && c.opset < 13 { rank.max(2) } else { rank })?;
    if c.opset >= 13 {
        return one(f(x, axis as i64));
    }
    one(f(x.reshape([count(&d[..axis]), count(&d[axis..])]), 1).reshape(d))
}

/// The largest or smallest elements; of equal ones, the first.
fn top_k<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, stored) = (c.x(0)?, c.dtype(0)?);
    let k = if c.has(1) { c.integer(1)? } else { c.int("k", 0) };
    let axis = c.int("axis", -1);
    let n = x.dims()[c.axis(axis, x.rank())?];
    if k < 0 || k as usize > n {
        return c.wrong(format!("k is {k}, and the axis has {n} elements"));
    }
    let (values, at) = match c.flag("largest", true) && x.dtype().is_float() {
        true => x.top_k(k as usize, axis),
        false => {
            let (values, at) = x.sort(axis, c.flag("largest", true));
            (values.narrow(axis, 0, k as usize), at.narrow(axis, 0, k as usize))
        }
    };
    Ok(vec![values.cast(stored), at.cast(DType::I64)])
}

/// The product of NumPy's `matmul`: a vector is a row on the left, and a column on the right.
pub fn product<'g>(a: Var<'g>, b: Var<'g>) -> Var<'g> {
    let (left, right) = (a.rank() == 1, b.rank() == 1);
    let a = if left { a.unsqueeze(0) } else { a };
    let b = if right { b.unsqueeze(1) } else { b };
    let y = match a.dtype().is_float() {
        true => a.matmul(b),
        false => integer_product(a, b),
    };
    let y = if right { y.squeeze(-1) } else { y };
    if left { y.squeeze(if right { -1 } else { -2 }) } else { y }
}

/// A product of integers. Sums wrap.
fn integer_product<'g>(a: Var<'g>, b: Var<'g>) -> Var<'g> {
    let own = a.dtype();
    let wide = if own == DType::I32 { own } else { DType::I64 };
    let (a, b) = (a.cast(wide), b.cast(wide));
    let y = match (a.rank(), b.rank()) {
        (2, 2) => a.dot_general(b, [&[], &[]], [&[1], &[0]]),
        _ => (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2),
    };
    y.cast(own)
}

fn gemm<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (a, b) = (c.x(0)?, c.x(1)?);
    let (ta, tb) = (c.flag("transA", false), c.flag("transB", false));
    let turned = |x: Var<'g>, t: bool| if t { x.t() } else { x };
    let y = match a.dtype().is_float() {
        true => a.matmul_t(b, ta, tb),
        false => integer_product(turned(a, ta), turned(b, tb)),
    };
    let (alpha, beta) = (c.float("alpha", 1.0), c.float("beta", 1.0));
    let scaled = |x: Var<'g>, k: f64| if k == 1.0 { x } else { x * k };
    let y = scaled(y, alpha);
    one(match c.opt(2)? {
        Some(bias) => y + scaled(bias, beta),
        None => y,
    })
}
