//! Ops of the other domains: the few of classical learning that are tensors, and steps of optimisers.

use super::{Entry, moved, own, same};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use arenagrad::graph::{DType, Var};

pub const OPS: &[Entry] = &[
    same("Binarizer", |c| {
        let x = c.x(0)?;
        one(x.greater(c.float("threshold", 0.0)).cast(x.dtype()))
    }),
    moved("ArrayFeatureExtractor", |c| {
        let (x, at) = (c.x(0)?, c.x(1)?);
        one(x.gather(at.reshape([at.numel()]), -1))
    }),
    own("FeatureVectorizer", |c| {
        let xs: Vec<Var<'_>> = c.xs()?.iter().map(|x| x.cast(DType::F32)).collect();
        match xs[..] {
            [first, ref others @ ..] => one(first.concat(others, -1)),
            [] => c.wrong("it has no operands"),
        }
    }),
    own("Imputer", |c| {
        let (x, from) = (c.x(0)?.cast(DType::F32), c.attr("replaced_value_float").map_or(0.0, |a| a.f()));
        if c.attr("imputed_value_int64s").is_some() {
            return c.refuse("integers are imputed");
        }
        let lost = if from.is_nan() { x.isnan() } else { x.equal(f64::from(from)) };
        one(lost.select(row(c, "imputed_value_floats", x)?.broadcast(x.dims()), x))
    }),
    own("LinearClassifier", |c| {
        let (scores, Some(labels)) = (linear(c)?, c.list("classlabels_ints")) else {
            return c.refuse("labels are strings");
        };
        // Scores without a shape are an error of the builder already.
        let Some(&classes) = scores.dims().get(1) else { return Ok(vec![scores; 2]) };
        if classes < 2 {
            return c.refuse("one row of coefficients");
        }
        if labels.len() != classes {
            return c.wrong(format!("{} labels of {classes} classes", labels.len()));
        }
        let labels = integers(c, &labels).gather(scores.arg_max(-1, DType::I64), 0);
        Ok(vec![labels, transformed(c, scores)?])
    }),
    own("LinearRegressor", |c| one(transformed(c, linear(c)?)?)),
    own("Normalizer", |c| {
        let x = c.x(0)?.cast(DType::F32);
        let norm = match c.text("norm", "MAX") {
            "L1" => x.abs().sum(-1),
            "L2" => x.norm(2.0, -1),
            other => return c.refuse(format!("norm={other}, on which runtimes differ for negative numbers")),
        };
        one(x / norm.maximum(1e-30).unsqueeze(-1))
    }),
    own("OneHotEncoder", |c| {
        let Some(cats) = c.list("cats_int64s") else { return c.refuse("categories are strings") };
        if !c.flag("zeros", true) {
            return c.refuse("zeros=0: a category that is not listed is to be an error");
        }
        one(c.x(0)?.cast(DType::I64).unsqueeze(-1).equal(integers(c, &cats)).cast(DType::F32))
    }),
    own("Scaler", |c| {
        let x = c.x(0)?.cast(DType::F32);
        one((x - row(c, "offset", x)?) * row(c, "scale", x)?)
    }),
];

/// A list of numbers, one for all columns of `x` or one for each.
fn row<'g>(c: &Cx<'_, 'g>, name: &str, x: Var<'g>) -> Result<Var<'g>> {
    let all = floats(c, name);
    let columns = x.dims().last().copied().unwrap_or(1);
    if all.len() != 1 && all.len() != columns {
        return c.wrong(format!("{name} has {} numbers for {columns} columns", all.len()));
    }
    Ok(c.g.constant(&all, [all.len()]))
}

pub(super) fn floats(c: &Cx<'_, '_>, name: &str) -> Vec<f32> {
    c.attr(name).map_or_else(Vec::new, |a| a.floats.clone())
}

pub(super) fn integers<'g>(c: &Cx<'_, 'g>, all: &[i64]) -> Var<'g> {
    let bytes: Vec<u8> = all.iter().flat_map(|n| n.to_le_bytes()).collect();
    c.g.constant_bytes(&bytes, [all.len()], DType::I64)
}

/// `x·Cᵀ + b` by the numbers that the node holds, `C` of a row for each result.
fn linear<'g>(c: &Cx<'_, 'g>) -> Result<Var<'g>> {
    let x = c.x(0)?.cast(DType::F32);
    let (rows, b) = (floats(c, "coefficients"), floats(c, "intercepts"));
    let &[_, columns] = &x.dims()[..] else { return c.refuse(format!("operand 0 has rank {}", x.dims().len())) };
    if columns == 0 || rows.is_empty() || !rows.len().is_multiple_of(columns) {
        return c.wrong(format!("{} coefficients for {columns} columns", rows.len()));
    }
    let n = rows.len() / columns;
    let y = x.matmul_t(c.g.constant(&rows, [n, columns]), false, true);
    match b.len() {
        0 => Ok(y),
        m if m == n => Ok(y + c.g.constant(&b, [n])),
        m => c.wrong(format!("{m} intercepts for {n} results")),
    }
}

/// Scores as `post_transform` has them.
pub(super) fn transformed<'g>(c: &Cx<'_, 'g>, scores: Var<'g>) -> Result<Var<'g>> {
    match c.text("post_transform", "NONE") {
        "NONE" => Ok(scores),
        "LOGISTIC" => Ok(scores.sigmoid()),
        "SOFTMAX" => Ok(scores.softmax(-1)),
        other => c.refuse(format!("post_transform={other}")),
    }
}

pub const TRAINING: &[Entry] = &[
    same("Adagrad", |c| {
        steps(c, 2, |p, r| {
            let [x, g, h] = [p[0], p[1], p[2]];
            let rate = r / (1.0 + c.x(1)?.cast(x.dtype()) * c.float("decay_factor", 0.0));
            let g = g + x * c.float("norm_coefficient", 0.0);
            let h = h + g * g;
            Ok(vec![x - rate * g / (h.sqrt() + c.float("epsilon", 0.0)), h])
        })
    }),
    same("Momentum", |c| {
        steps(c, 2, |p, r| {
            let [x, g, v] = [p[0], p[1], p[2]];
            let (alpha, beta) = (c.float("alpha", 0.9), c.float("beta", 1.0));
            let g = g + x * c.float("norm_coefficient", 0.0);
            let first = c.x(1)?.equal(0.0);
            let factor = first.select(x.builder().full(1.0, [], x.dtype()), x.builder().full(beta, [], x.dtype()));
            let v = v * alpha + g * factor;
            let way = if c.text("mode", "standard") == "nesterov" { g + v * alpha } else { v };
            Ok(vec![x - r * way, v])
        })
    }),
    same("Adam", |c| {
        steps(c, 3, |p, r| {
            let [x, g, v, h] = [p[0], p[1], p[2], p[3]];
            let (a, b) = (c.float("alpha", 0.9), c.float("beta", 0.999));
            let g = g + x * c.float("norm_coefficient", 0.0);
            let (v, h) = (v * a + g * (1.0 - a), h * b + g * g * (1.0 - b));
            let t = c.x(1)?.cast(DType::F64);
            let power = |k: f64| 1.0 - x.builder().full(k, [], DType::F64).pow(t);
            let ratio = (power(b).sqrt() / power(a)).cast(x.dtype());
            let rate = c.x(1)?.greater(0.0).select(r * ratio, r);
            let x =
                (x - rate * v / (h.sqrt() + c.float("epsilon", 0.0))) * (1.0 - c.float("norm_coefficient_post", 0.0));
            Ok(vec![x, v, h])
        })
    }),
];

/// Steps of all tensors: operands are the rate, the number of steps, and then `x`, gradients and `states − 1` more for
/// each tensor, kind by kind.
fn steps<'g>(c: &Cx<'_, 'g>, states: usize, f: impl Fn(&[Var<'g>], Var<'g>) -> Result<Vec<Var<'g>>>) -> Out<'g> {
    let kinds = states + 1;
    let all = c.args.len().saturating_sub(2);
    if all == 0 || !all.is_multiple_of(kinds) {
        return c.wrong(format!("{all} tensors are no multiple of {kinds}"));
    }
    let (n, rate) = (all / kinds, c.x(0)?.reshape([]));
    let mut outs: Vec<Vec<Var<'g>>> = vec![Vec::new(); states];
    for i in 0..n {
        let of_one = (0..kinds).map(|k| c.x(2 + k * n + i)).collect::<Result<Vec<_>>>()?;
        outs.iter_mut().zip(f(&of_one, rate)?).for_each(|(list, v)| list.push(v));
    }
    Ok(outs.concat())
}
