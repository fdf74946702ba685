//! Naive loops over indices: the reference for ops that move, index and sum elements.

use crate::arena::Node;
use crate::arena::dims::Dims;
use crate::nodes::Graph;
use crate::nodes::arguments::axes::{AxisSplit, split_at_axis};
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ops::constant::attrs::{FullAttrs, IotaAttrs};
use crate::nodes::ops::index::attrs::GatherAttrs;
use crate::nodes::ops::index::attrs::ScatterAddAttrs;
use crate::nodes::ops::layout::attrs::ConcatAttrs;
use crate::nodes::ops::layout::attrs::FlipAttrs;
use crate::nodes::ops::layout::attrs::PadAttrs;
use crate::nodes::ops::layout::attrs::SliceAttrs;
use crate::nodes::ops::layout::attrs::TransposeAttrs;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::ops::reduce::attrs::ArgExtremeAttrs;
use crate::nodes::ops::reduce::attrs::ReduceAttrs;
use crate::nodes::ops::reduce::attrs::RunningAttrs;

/// The index of element `e`.
fn index(mut e: usize, d: &Dims) -> Vec<usize> {
    let mut at = vec![0; d.len()];
    for k in (0..d.len()).rev() {
        at[k] = e % d[k];
        e /= d[k];
    }
    at
}

/// The element at an index.
fn element(at: &[usize], d: &Dims) -> usize {
    at.iter().zip(d.iter()).fold(0, |e, (i, d)| e * d + i)
}

/// Result 0 of node `n` on operands `x`; `None` where this file does not know the op.
pub fn result(g: Graph<'_>, n: Node, x: &[Vec<f64>]) -> Option<Vec<f64>> {
    let (op, a) = (g.def_of(n).name, g.attrs(n));
    let d: Vec<Dims> = g.args_of(n).iter().map(|&v| g.dims(v)).collect();
    let to = g.dims(g.out(n));
    // y[i] = x₀[f(i)].
    let take = |f: &dyn Fn(Vec<usize>) -> Vec<usize>| {
        Some((0..to.numel()).map(|e| x[0][element(&f(index(e, &to)), &d[0])]).collect::<Vec<f64>>())
    };
    match op {
        "full" => Some(vec![FullAttrs::of(&a).value; to.numel()]),
        "iota" => {
            let axis = to_size_attr(IotaAttrs::of(&a).axis);
            Some((0..to.numel()).map(|e| index(e, &to)[axis] as f64).collect())
        }
        "reshape" => Some(x[0].clone()),
        "transpose" => take(&|at| {
            let mut from = vec![0; at.len()];
            to_size_attrs(&TransposeAttrs::of(&a).perm).into_iter().zip(at).for_each(|(p, i)| from[p] = i);
            from
        }),
        "broadcast" => take(&|at| {
            let lead = to.len() - d[0].len();
            at[lead..].iter().zip(d[0].iter()).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect()
        }),
        "slice" => {
            let cut = SliceAttrs::of(&a);
            let (starts, steps) = (to_size_attrs(&cut.starts), to_size_attrs(&cut.steps));
            take(&|at| (0..at.len()).map(|k| starts[k] + at[k] * steps[k]).collect())
        }
        "flip" => {
            let axes = to_size_attrs(&FlipAttrs::of(&a).axes);
            take(&|mut at| {
                axes.iter().for_each(|&k| at[k] = to[k] - 1 - at[k]);
                at
            })
        }
        "concat" => Some(concat(&d, &to, to_size_attr(ConcatAttrs::of(&a).axis), x)),
        "pad" => {
            let edges = PadAttrs::of(&a);
            Some(pad(&d[0], &to, &to_size_attrs(&edges.low), edges.value, &x[0]))
        }
        "gather" | "take_along_axis" => Some(indexed(op, to_size_attr(GatherAttrs::of(&a).axis), (&d, &to), x)),
        "scatter_add" | "scatter_along_axis" => {
            Some(indexed(op, to_size_attr(ScatterAddAttrs::of(&a).axis), (&d, &to), x))
        }
        "matmul" => {
            let MatmulAttrs { ta, tb } = MatmulAttrs::of(&a);
            Some(matmul(&d, &to, [ta, tb], x))
        }
        "cumsum" => {
            let RunningAttrs { axis, exclusive, reverse } = RunningAttrs::of(&a);
            let AxisSplit { n, inner, .. } = split_at_axis(&d[0], to_size_attr(axis));
            let counts = |i: usize, j: usize| (i == j && !exclusive) || if reverse { j > i } else { j < i };
            let one = |e: usize| {
                let (i, base) = (e / inner % n, e - e / inner % n * inner);
                (0..n).filter(|&j| counts(i, j)).map(|j| x[0][base + j * inner]).sum()
            };
            Some((0..to.numel()).map(one).collect())
        }
        "arg_max" | "arg_min" => {
            let sign = if op == "arg_max" { 1.0 } else { -1.0 };
            let AxisSplit { n, inner, .. } = split_at_axis(&d[0], to_size_attr(ArgExtremeAttrs::of(&a).axis));
            let one = |e: usize| {
                let at = |j: usize| sign * x[0][(e / inner * n + j) * inner + e % inner];
                (0..n).fold(0, |best, j| if at(j) > at(best) { j } else { best }) as f64
            };
            Some((0..to.numel()).map(one).collect())
        }
        _ => reduction(op, &d, &to, g, n, x),
    }
}

fn pad(d: &Dims, to: &Dims, low: &[usize], value: f64, x: &[f64]) -> Vec<f64> {
    let one = |e: usize| {
        let at = index(e, to).into_iter().enumerate();
        let from: Option<Vec<usize>> = at.map(|(k, i)| i.checked_sub(low[k]).filter(|i| *i < d[k])).collect();
        from.map_or(value, |from| x[element(&from, d)])
    };
    (0..to.numel()).map(one).collect()
}

fn concat(d: &[Dims], to: &Dims, axis: usize, x: &[Vec<f64>]) -> Vec<f64> {
    let one = |e: usize| {
        let mut at = index(e, to);
        for (d, x) in d.iter().zip(x) {
            if at[axis] < d[axis] {
                return x[element(&at, d)];
            }
            at[axis] -= d[axis];
        }
        f64::NAN
    };
    (0..to.numel()).map(one).collect()
}

fn indexed(op: &str, axis: usize, (d, to): (&[Dims], &Dims), x: &[Vec<f64>]) -> Vec<f64> {
    let along = op.ends_with("axis");
    // Each element of the values belongs to one element of the table.
    let (table, values) = if op.starts_with("scatter") { (to, &d[0]) } else { (&d[0], to) };
    let place = |e: usize| {
        let at = index(e, values);
        if along {
            let mut from = at.clone();
            from[axis] = x[1][e] as usize;
            return element(&from, table);
        }
        let rank = d[1].len();
        let i = x[1][element(&at[axis..axis + rank], &d[1])] as usize;
        element(&[&at[..axis], &[i], &at[axis + rank..]].concat(), table)
    };
    if op.starts_with("scatter") {
        let mut y = vec![0.0; to.numel()];
        (0..values.numel()).for_each(|e| y[place(e)] += x[0][e]);
        return y;
    }
    (0..to.numel()).map(|e| x[0][place(e)]).collect()
}

fn matmul(d: &[Dims], to: &Dims, t: [bool; 2], x: &[Vec<f64>]) -> Vec<f64> {
    let lead = to.len() - 2;
    let k = d[0][d[0].len() - if t[0] { 2 } else { 1 }];
    let at = |s: usize, batch: &[usize], i: usize, j: usize| {
        let own = d[s].len() - 2;
        let b = batch[lead - own..].iter().zip(d[s].iter()).map(|(&i, &n)| if n == 1 { 0 } else { i });
        let matrix = if t[s] { [j, i] } else { [i, j] };
        x[s][element(&b.chain(matrix).collect::<Vec<_>>(), &d[s])]
    };
    let one = |e: usize| {
        let ix = index(e, to);
        (0..k).map(|p| at(0, &ix[..lead], ix[lead], p) * at(1, &ix[..lead], p, ix[lead + 1])).sum()
    };
    (0..to.numel()).map(one).collect()
}

fn reduction(op: &str, d: &[Dims], to: &Dims, g: Graph<'_>, n: Node, x: &[Vec<f64>]) -> Option<Vec<f64>> {
    if !matches!(op, "reduce_sum" | "reduce_mean" | "reduce_max" | "reduce_min" | "reduce_prod" | "logsumexp") {
        return None;
    }
    let axes = to_size_attrs(&ReduceAttrs::of(&g.attrs(n)).axes);
    let kept: Vec<usize> = (0..d[0].len()).filter(|k| !axes.contains(k)).collect();
    let small = Dims::new(&kept.iter().map(|&k| d[0][k]).collect::<Vec<_>>()).unwrap();
    let mut groups = vec![Vec::new(); to.numel()];
    for (e, &v) in x[0].iter().enumerate() {
        let at = index(e, &d[0]);
        groups[element(&kept.iter().map(|&k| at[k]).collect::<Vec<_>>(), &small)].push(v);
    }
    let one = |v: &Vec<f64>| match op {
        "reduce_sum" => v.iter().sum(),
        "reduce_mean" => v.iter().sum::<f64>() / v.len() as f64,
        "reduce_max" => v.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "reduce_min" => v.iter().copied().fold(f64::INFINITY, f64::min),
        "reduce_prod" => v.iter().product(),
        _ => v.iter().map(|x| x.exp()).sum::<f64>().ln(),
    };
    Some(groups.iter().map(one).collect())
}
