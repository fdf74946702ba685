//! Random numbers. They come from the program's seed: the seed of a node is not used.

use super::layout::dtype_or;
use super::{Entry, Types};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use crate::tensor::dims_of;
use arenagrad::graph::{DType, Var};

const fn draw(name: &'static str, rule: for<'c, 'g> fn(&Cx<'c, 'g>) -> Out<'g>) -> Entry {
    Entry { name, types: Types::Own, random: true, rule }
}

pub const OPS: &[Entry] = &[
    draw("RandomNormal", |c| one(normal(c, shape(c)?, dtype_or(c, "dtype", DType::F32)?))),
    draw("RandomUniform", |c| one(uniform(c, shape(c)?, dtype_or(c, "dtype", DType::F32)?))),
    draw("RandomNormalLike", |c| one(normal(c, c.dims(0)?, dtype_or(c, "dtype", c.dtype(0)?)?))),
    draw("RandomUniformLike", |c| one(uniform(c, c.dims(0)?, dtype_or(c, "dtype", c.dtype(0)?)?))),
    draw("Bernoulli", |c| one(c.x(0)?.bernoulli().cast(dtype_or(c, "dtype", c.dtype(0)?)?))),
];

fn shape(c: &Cx<'_, '_>) -> Result<Vec<usize>> {
    match c.list("shape") {
        Some(all) => dims_of(&all).or_else(|why| c.wrong(why)),
        None => c.wrong("the shape is missing"),
    }
}

/// The dtype in which numbers are drawn.
fn drawn(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

fn normal<'g>(c: &Cx<'_, 'g>, dims: Vec<usize>, dtype: DType) -> Var<'g> {
    (c.g.normal(dims, drawn(dtype)) * c.float("scale", 1.0) + c.float("mean", 0.0)).cast(dtype)
}

fn uniform<'g>(c: &Cx<'_, 'g>, dims: Vec<usize>, dtype: DType) -> Var<'g> {
    let (low, high) = (c.float("low", 0.0), c.float("high", 1.0));
    (c.g.uniform(dims, drawn(dtype)) * (high - low) + low).cast(dtype)
}
