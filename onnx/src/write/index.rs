//! What ops of positions and of order become.

use super::nodes::{Given, Nodes, code};
use super::rules::{Op, signed};
use super::without;
use crate::error::Result;
use arenagrad::graph::DType;
use arenagrad::tools::ir::attrs::Owned;

/// 0, 1, 2 … along an axis: a row that is repeated.
pub fn iota(w: &mut Nodes<'_>, n: &Op<'_>) -> Result<()> {
    let (dims, dtype, axis) = (n.dims(w.g), n.dtype(w.g), n.int("axis") as usize);
    let len = dims.get(axis).copied().unwrap_or(0);
    let limits = [0, len as i64, 1].map(|x| w.constant(DType::I64, &[], x.to_le_bytes().to_vec()));
    let row = w.node("Range", &[&limits[0], &limits[1], &limits[2]], Vec::new());
    let row = w.node("Cast", &[&row], vec![("to", Given::Int(code(dtype)))]);
    let mut column = vec![1; dims.len()];
    column[axis] = len as i64;
    let (column, shape) = (w.ints(&column), w.ints(&signed(&dims)));
    let row = w.node("Reshape", &[&row, &column], vec![("allowzero", Given::Int(1))]);
    n.done(w, "Expand", &[&row, &shape], Vec::new())
}

/// Rows with a single 1. `OneHot` of the format counts −1 from the end, where the library gives a row of zeros.
pub fn one_hot(w: &mut Nodes<'_>, n: &Op<'_>) -> Result<()> {
    let (from, depth) = (w.g.dtype[w.g.args_of(n.node)[0].0 as usize], n.int("depth"));
    let numbers: Vec<i64> = (0..depth).collect();
    let (axis, numbers) = (w.ints(&[-1]), w.ints(&numbers));
    let column = w.node("Unsqueeze", &[&n.args[0], &axis], Vec::new());
    let row = w.node("Cast", &[&numbers], vec![("to", Given::Int(code(from)))]);
    let same = w.node("Equal", &[&column, &row], Vec::new());
    n.done(w, "Cast", &[&same], vec![("to", Given::Int(code(n.dtype(w.g))))])
}

pub fn arg_extreme(w: &mut Nodes<'_>, n: &Op<'_>, op: &str) -> Result<()> {
    let attrs = vec![("axis", Given::Int(n.int("axis"))), ("keepdims", Given::Int(0))];
    let found = w.node(op, &[&n.args[0]], attrs);
    n.done(w, "Cast", &[&found], vec![("to", Given::Int(code(n.dtype(w.g))))])
}

/// All of the last axis as the largest or smallest of it.
pub fn arg_sort(w: &mut Nodes<'_>, n: &Op<'_>) -> Result<()> {
    let last = w.g.dims(w.g.args_of(n.node)[0]).last().map_or(1, |&k| k as i64);
    let (k, values, at) = (w.ints(&[last]), w.fresh(), w.fresh());
    let attrs = vec![("axis", Given::Int(-1)), ("largest", Given::Int(n.int("descending")))];
    w.node_to("TopK", &[&n.args[0], &k], vec![values, at.clone()], attrs);
    n.done(w, "Cast", &[&at], vec![("to", Given::Int(code(n.dtype(w.g))))])
}

/// Positions in row-major order: coordinates times strides.
pub fn ravel(w: &mut Nodes<'_>, n: &Op<'_>) -> Result<()> {
    let mut strides = vec![1];
    for size in n.ints("sizes").iter().skip(1).rev() {
        strides.insert(0, strides[0] * size);
    }
    let (strides, axis) = (w.ints(&strides), w.ints(&[-1]));
    let wide = w.node("Cast", &[&n.args[0]], vec![("to", Given::Int(code(DType::I64)))]);
    let parts = w.node("Mul", &[&wide, &strides], Vec::new());
    n.done(w, "ReduceSum", &[&parts, &axis], vec![("keepdims", Given::Int(0))])
}

pub fn scatter(w: &mut Nodes<'_>, n: &Op<'_>) -> Result<()> {
    let how = match n.get("mode") {
        Some(Owned::Choice(i)) => ["none", "add", "mul", "max", "min"].get(*i as usize).copied(),
        _ => None,
    };
    let how = how.ok_or_else(|| without(w.g, n.node, "its updates are joined in another way"))?;
    if n.int("own") != 0 {
        let attrs = vec![("axis", Given::Int(n.int("axis"))), ("reduction", Given::Text(how))];
        return n.done(w, "ScatterElements", &[&n.args[0], &n.args[2], &n.args[1]], attrs);
    }
    if n.int("axis") != 0 {
        return Err(without(w.g, n.node, "slices are joined in along an axis after the first"));
    }
    let axis = w.ints(&[-1]);
    let rows = w.node("Cast", &[&n.args[2]], vec![("to", Given::Int(code(DType::I64)))]);
    let rows = w.node("Unsqueeze", &[&rows, &axis], Vec::new());
    n.done(w, "ScatterND", &[&n.args[0], &rows, &n.args[1]], vec![("reduction", Given::Text(how))])
}
