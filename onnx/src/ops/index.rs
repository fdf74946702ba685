//! Reads and writes at indices.

use super::{Entry, moved, own};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use crate::tensor::Tensor;
use arenagrad::graph::{DType, Scatter, Var};

pub const OPS: &[Entry] = &[
    moved("Gather", |c| {
        let (x, axis) = (c.x(0)?, c.int("axis", 0));
        let n = x.dims()[c.axis(axis, x.rank())?];
        one(x.gather(indices(c, 1, n)?, axis))
    }),
    moved("GatherElements", |c| {
        let (x, axis) = (c.x(0)?, c.int("axis", 0));
        let at = c.axis(axis, x.rank())?;
        let index = indices(c, 1, x.dims()[at])?;
        // An index reads at its own place along the other axes.
        let (starts, d) = (vec![0; x.rank()], index.dims());
        let mut limits = x.dims().to_vec();
        (0..limits.len().min(d.len())).filter(|&a| a != at).for_each(|a| limits[a] = limits[a].min(d[a]));
        let near = x.slice(&starts, &limits, &vec![1; limits.len()]);
        one(near.take_along_axis(index, at as i64))
    }),
    moved("GatherND", |c| {
        let x = c.x(0)?;
        let batch = c.int("batch_dims", 0).max(0) as usize;
        one(x.gather_nd(coordinates(c, x, 1, batch)?))
    }),
    moved("Scatter", scatter_elements),
    moved("ScatterElements", scatter_elements),
    moved("ScatterND", |c| {
        let (x, updates) = (c.x(0)?, c.x(2)?);
        let at = coordinates(c, x, 1, 0)?;
        let mode = mode(c)?;
        summed(c, [x, updates], mode, |[x, updates]| x.scatter_nd(at, updates, mode))
    }),
    own("OneHot", |c| {
        let (depth, dtype) = (c.number(1)?.max(0.0) as usize, c.dtype(2)?);
        let at = c.x(0)?.cast(DType::I64);
        let at = at.less(0.0).select(at + depth as f64, at);
        let values = c.stored(2)?;
        let value = |i: usize| values.narrow(0, i, 1).reshape([]);
        let hot = at.one_hot(depth, DType::I32).equal(1.0);
        let y = hot.select(value(1), value(0)).cast(dtype);
        one(y.movedim(&[-1], &[c.int("axis", -1)]))
    }),
    moved("Compress", |c| {
        let (x, keep) = (c.x(0)?, c.ints(1)?);
        let (x, axis) = match c.attr("axis") {
            Some(a) => (x, a.i()),
            None => (x.reshape([x.numel()]), 0),
        };
        let n = x.dims()[c.axis(axis, x.rank())?];
        let kept: Vec<i64> = (0..n.min(keep.len())).filter(|&i| keep[i] != 0).map(|i| i as i64).collect();
        let at = c.constant(&Tensor::of_ints(&kept, vec![kept.len()]));
        one(x.gather(at, axis))
    }),
    own("NonZero", |c| {
        let (t, all) = (c.known(0)?, c.numbers(0)?);
        let found: Vec<usize> = (0..all.len()).filter(|&i| all[i] != 0.0).collect();
        let mut rows = Vec::new();
        let mut inner = t.numel();
        for &d in &t.dims {
            inner /= d.max(1);
            rows.extend(found.iter().map(|&i| (i / inner.max(1) % d.max(1)) as i64));
        }
        one(c.constant(&Tensor::of_ints(&rows, vec![t.dims.len(), found.len()])))
    }),
    moved("TensorScatter", tensor_scatter),
];

/// Operand `i` as indices of an axis of `n`; negative ones count from the end.
pub fn indices<'g>(c: &Cx<'_, 'g>, i: usize, n: usize) -> Result<Var<'g>> {
    if c.val(i)?.is_known() {
        let t = c.known(i)?;
        let from_start = c.ints(i)?.into_iter().map(|k| if k < 0 { k + n as i64 } else { k });
        return Ok(c.constant(&Tensor::of_ints(&from_start.collect::<Vec<_>>(), t.dims.clone())));
    }
    let at = c.stored(i)?;
    Ok(at.less(0.0).select(at + n as f64, at))
}

/// Operand `i` as coordinates of `x`, with those of `batch` leading axes in front.
fn coordinates<'g>(c: &Cx<'_, 'g>, x: Var<'g>, i: usize, batch: usize) -> Result<Var<'g>> {
    let at = c.stored(i)?.cast(DType::I64);
    let (d, idx) = (x.dims(), at.dims());
    let Some(&m) = idx.last() else { return c.wrong("indices have no axis of coordinates") };
    if batch + m > d.len() || batch >= idx.len() {
        return c.wrong(format!("{} coordinates for rank {}", batch + m, d.len()));
    }
    let sizes: Vec<i64> = d[batch..batch + m].iter().map(|&n| n as i64).collect();
    let sizes = c.constant(&Tensor::of_ints(&sizes, vec![m]));
    let at = at.less(0.0).select(at + sizes, at);
    let mut one_column = idx.to_vec();
    one_column[idx.len() - 1] = 1;
    let columns = (0..batch).map(|b| c.g.iota(b as i64, &one_column, DType::I64));
    let all: Vec<Var<'g>> = columns.chain([at]).collect();
    Ok(all[0].concat(&all[1..], -1))
}

fn mode(c: &Cx<'_, '_>) -> Result<Scatter> {
    Ok(match c.text("reduction", "none") {
        "none" => Scatter::Set,
        "add" => Scatter::Add,
        "mul" => Scatter::Mul,
        "max" => Scatter::Max,
        "min" => Scatter::Min,
        other => return c.refuse(format!("the reduction {other:?} is not supported")),
    })
}

/// `f` of base and updates, in a dtype in which updates combine.
fn summed<'g>(c: &Cx<'_, 'g>, pair: [Var<'g>; 2], mode: Scatter, f: impl Fn([Var<'g>; 2]) -> Var<'g>) -> Out<'g> {
    let own = c.dtype(0)?;
    let wide = match own {
        _ if mode == Scatter::Set => own,
        DType::F16 | DType::BF16 => DType::F32,
        DType::F32 | DType::F64 | DType::I32 | DType::I64 => own,
        _ => DType::I64,
    };
    one(f(pair.map(|x| x.cast(wide))).cast(own))
}

fn scatter_elements<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, updates) = (c.x(0)?, c.x(2)?);
    let axis = c.axis(c.int("axis", 0), x.rank())?;
    let at = indices(c, 1, x.dims()[axis])?;
    let (d, idx, mode) = (x.dims(), at.dims(), mode(c)?);
    if (0..d.len()).all(|a| a == axis || idx.get(a) == Some(&d[a])) {
        return summed(c, [x, updates], mode, |[x, u]| x.scatter(at, u, axis as i64, mode));
    }
    // Updates along a part of the other axes: as coordinates.
    let at = at.cast(DType::I64);
    let column = |a: usize| if a == axis { at } else { c.g.iota(a as i64, idx, DType::I64) };
    let columns: Vec<Var<'g>> = (0..d.len()).map(|a| column(a).unsqueeze(-1)).collect();
    let all = columns[0].concat(&columns[1..], -1);
    summed(c, [x, updates], mode, |[x, u]| x.scatter_nd(all, u, mode))
}

/// Rows of a cache, from a place of each member of the batch on.
fn tensor_scatter<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (cache, update) = (c.x(0)?, c.x(1)?);
    let axis = c.axis(c.int("axis", -2), cache.rank())?;
    let (d, u) = (cache.dims(), update.dims());
    let (batch, most, steps) = (d[0], d[axis], u[axis]);
    let first = match c.has(2) {
        true => c.stored(2)?.cast(DType::I64),
        false => c.g.full(0.0, [batch], DType::I64),
    };
    let t = c.g.iota(1, [batch, steps], DType::I64) + first.reshape([batch, 1]);
    let t = if c.text("mode", "linear") == "circular" { t.remainder(most as f64) } else { t };
    let mut dims = vec![1; d.len()];
    (dims[0], dims[axis]) = (batch, steps);
    one(cache.scatter(t.reshape(dims).broadcast(u), update, axis as i64, Scatter::Set))
}
