//! Shapes: reshape, transpose, slices, pads, joins.

use super::{Entry, moved, own};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use crate::tensor::{count, dims_of, dtype_of};
use arenagrad::graph::window::PadMode;
use arenagrad::graph::{DType, Var};

pub const OPS: &[Entry] = &[
    moved("Reshape", reshape),
    moved("Flatten", |c| {
        let x = c.x(0)?;
        let (axis, d) = (c.int("axis", 1), x.dims());
        let at = if axis == d.len() as i64 { d.len() } else { c.axis(axis, d.len())? };
        one(x.reshape([count(&d[..at]), count(&d[at..])]))
    }),
    moved("Transpose", |c| {
        let x = c.x(0)?;
        let reversed = (0..x.rank() as i64).rev().collect();
        one(x.transpose(&c.list("perm").unwrap_or(reversed)))
    }),
    moved("Squeeze", |c| {
        let (x, given) = (c.x(0)?, c.list_or("axes", 1)?);
        let d = x.dims();
        let ones = || (0..d.len() as i64).filter(|&a| d[a as usize] == 1).collect();
        one(x.squeeze(given.unwrap_or_else(ones).as_slice()))
    }),
    moved("Unsqueeze", |c| {
        let (x, Some(axes)) = (c.x(0)?, c.list_or("axes", 1)?) else { return c.wrong("axes are missing") };
        let mut at = c.axes(&axes, x.rank() + axes.len())?;
        at.sort_unstable();
        one(at.into_iter().fold(x, |x, a| x.unsqueeze(a as i64)))
    }),
    moved("Concat", |c| {
        let xs = c.xs()?;
        let Some((first, rest)) = xs.split_first() else { return c.wrong("it has no operands") };
        one(first.concat(rest, c.int("axis", 1)))
    }),
    moved("Split", split),
    moved("Slice", slice),
    moved("Pad", pad),
    moved("Expand", |c| {
        let (x, shape) = (c.x(0)?, c.ints(1)?);
        let shape = dims_of(&shape).or_else(|why| c.wrong(why))?;
        one(x.broadcast(broadcast_dims(c, &x.dims(), &shape)?))
    }),
    moved("Tile", tile),
    moved("Where", |c| one(c.x(0)?.select(c.x(1)?, c.x(2)?))),
    moved("DepthToSpace", |c| {
        let (x, b) = (c.x(0)?, c.int("blocksize", 1).max(1) as usize);
        let d = x.dims();
        let [n, channels, h, w] = d[..] else { return c.wrong("it needs rank 4") };
        let each = channels / (b * b);
        let y = match c.text("mode", "DCR") {
            "DCR" => x.reshape([n, b, b, each, h, w]).transpose(&[0, 3, 4, 1, 5, 2]),
            _ => x.reshape([n, each, b, b, h, w]).transpose(&[0, 1, 4, 2, 5, 3]),
        };
        one(y.reshape([n, each, h * b, w * b]))
    }),
    moved("SpaceToDepth", |c| {
        let (x, b) = (c.x(0)?, c.int("blocksize", 1).max(1) as usize);
        let d = x.dims();
        let [n, channels, h, w] = d[..] else { return c.wrong("it needs rank 4") };
        let order = if c.text("mode", "DCR") == "DCR" { [0, 3, 5, 1, 2, 4] } else { [0, 1, 3, 5, 2, 4] };
        let y = x.reshape([n, channels, h / b, b, w / b, b]).transpose(&order);
        one(y.reshape([n, channels * b * b, h / b, w / b]))
    }),
    moved("EyeLike", |c| {
        let (d, dtype) = (c.dims(0)?, c.dtype_attr("dtype")?.unwrap_or(c.dtype(0)?));
        let [rows, cols] = d[..] else { return c.wrong("it needs rank 2") };
        let (i, j) = (c.g.iota(0, [rows, cols], DType::I64), c.g.iota(1, [rows, cols], DType::I64));
        one((j - i).equal(c.int("k", 0) as f64).cast(dtype))
    }),
    own("ConstantOfShape", |c| {
        let dims = dims_of(&c.ints(0)?).or_else(|why| c.wrong(why))?;
        let value = c.attr("value").and_then(|a| a.t.as_ref());
        let Some(t) = value else { return one(c.g.full(0.0, dims, DType::F32)) };
        let t = crate::Tensor::from_proto(t, None).or_else(|e| c.refuse(e.to_string()))?;
        one(c.constant(&t).reshape([]).broadcast(dims))
    }),
    own("Range", range),
    moved("CenterCropPad", center_crop_pad),
    moved("ReverseSequence", reverse_sequence),
];

/// The most elements of an axis whose indices become a constant.
const MOST_LISTED: i64 = 1 << 24;

/// The shape to which both broadcast.
pub fn broadcast_dims(c: &Cx<'_, '_>, a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |d: &[usize], i: usize| (i + d.len()).checked_sub(rank).map_or(1, |k| d[k]);
    let one = |i: usize| match (at(a, i), at(b, i)) {
        (x, y) if x == y || y == 1 => Ok(x),
        (1, y) => Ok(y),
        _ => c.wrong(format!("{a:?} and {b:?} do not broadcast")),
    };
    (0..rank).map(one).collect()
}

fn reshape<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let x = c.x(0)?;
    let Some(shape) = c.list_or("shape", 1)? else { return c.wrong("the shape is missing") };
    let (d, keeps_zero) = (x.dims(), c.flag("allowzero", false));
    let size = |(i, &n): (usize, &i64)| match n {
        -1 => Ok(usize::MAX),
        0 if !keeps_zero => d.get(i).copied().map_or_else(|| c.wrong("0 stands for an axis that is not there"), Ok),
        _ => dims_of(&[n]).map(|n| n[0]).or_else(|why| c.wrong(why)),
    };
    let mut dims = shape.iter().enumerate().map(size).collect::<Result<Vec<_>>>()?;
    // An empty tensor: a computed axis is empty unless another one is.
    let holes: Vec<usize> = (0..dims.len()).filter(|&i| dims[i] == usize::MAX).collect();
    if let ([hole], 0) = (&holes[..], x.numel()) {
        dims[*hole] = usize::from(dims.contains(&0));
    }
    one(x.reshape(dims))
}

fn split<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, axis) = (c.x(0)?, c.int("axis", 0));
    let n = x.dims()[c.axis(axis, x.rank())?];
    let sizes: Vec<usize> = match c.list_or("split", 1)? {
        Some(sizes) => dims_of(&sizes).or_else(|why| c.wrong(why))?,
        None => {
            let outputs = c.node.output.len();
            let parts = usize::try_from(c.int("num_outputs", outputs as i64)).unwrap_or(0);
            if parts != outputs || parts == 0 {
                return c.wrong(format!("num_outputs is {parts}, and there are {outputs} outputs"));
            }
            let size = n.div_ceil(parts);
            (0..parts).map(|i| size.min(n.saturating_sub(i * size))).collect()
        }
    };
    Ok(x.split(&sizes, axis))
}

/// The range of one axis.
struct Stretch {
    start: i64,
    end: i64,
    step: i64,
}

impl Stretch {
    /// The elements of an axis of `n`, in order, of which there may be none.
    fn of<'g>(&self, x: Var<'g>, axis: usize) -> Var<'g> {
        let (n, at) = (x.dims()[axis] as i64, axis as i64);
        let from_start = |i: i64| if i < 0 { i.saturating_add(n) } else { i };
        let (start, end) = (from_start(self.start), from_start(self.end));
        let back = self.step < 0;
        let (start, end) = match back {
            false => (start.clamp(0, n), end.clamp(0, n)),
            // Seen from the end.
            true => (n - 1 - start.clamp(-1, n - 1), n - 1 - end.clamp(-1, n - 1)),
        };
        let x = if back { x.flip(at) } else { x };
        let (mut starts, mut limits, mut steps) = (vec![0; x.rank()], x.dims().to_vec(), vec![1; x.rank()]);
        starts[axis] = start as usize;
        limits[axis] = end.max(start) as usize;
        steps[axis] = self.step.unsigned_abs() as usize;
        x.slice(&starts, &limits, &steps)
    }
}

fn slice<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let x = c.x(0)?;
    let (starts, ends) = (c.list_or("starts", 1)?, c.list_or("ends", 2)?);
    let (Some(starts), Some(ends)) = (starts, ends) else { return c.wrong("starts or ends are missing") };
    let axes = c.list_or("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = if c.has(4) { c.ints(4)? } else { vec![1; starts.len()] };
    if [ends.len(), axes.len(), steps.len()].iter().any(|&n| n != starts.len()) {
        return c.wrong("starts, ends, axes and steps differ in length");
    }
    let axes = c.axes(&axes, x.rank())?;
    let mut y = x;
    for (i, axis) in axes.into_iter().enumerate() {
        if steps[i] == 0 {
            return c.wrong("a step is 0");
        }
        y = Stretch { start: starts[i], end: ends[i], step: steps[i] }.of(y, axis);
    }
    one(y)
}

/// Pads may be negative: such an end is cut.
fn pad<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let x = c.x(0)?;
    let rank = x.rank();
    let given = c.list_or(if c.opset < 2 { "paddings" } else { "pads" }, 1)?;
    let Some(pads) = given else { return c.wrong("pads are missing") };
    let axes = match c.has(3) {
        true => c.axes(&c.ints(3)?, rank)?,
        false => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return c.wrong(format!("{} pads for {} axes", pads.len(), axes.len()));
    }
    let (mut low, mut high) = (vec![0i64; rank], vec![0i64; rank]);
    for (i, &a) in axes.iter().enumerate() {
        (low[a], high[a]) = (pads[i], pads[axes.len() + i]);
    }
    let mode = c.text("mode", "constant");
    let value = c.attr("value").map_or(0.0, |_| c.float("value", 0.0));
    let cut = |y: Var<'g>| -> Result<Var<'g>> {
        let d = y.dims();
        let starts: Vec<usize> = low.iter().map(|&p| (-p).max(0) as usize).collect();
        let limits: Vec<usize> = (0..rank).map(|a| d[a].saturating_sub((-high[a]).max(0) as usize)).collect();
        let fits = (0..rank).all(|a| starts[a] <= limits[a]);
        if fits { Ok(y.slice(&starts, &limits, &vec![1; rank])) } else { c.wrong("pads cut more than there is") }
    };
    let x = if low.iter().chain(&high).any(|&p| p < 0) { cut(x)? } else { x };
    if mode != "constant" && low.iter().chain(&high).any(|&p| p > MOST_LISTED) {
        return c.refuse(format!("pads of more than {MOST_LISTED} elements that follow the tensor are not supported"));
    }
    let more = |all: &[i64]| all.iter().map(|&p| p.max(0) as usize).collect::<Vec<_>>();
    let (low, high) = (more(&low), more(&high));
    one(match mode {
        "constant" if c.has(2) && !c.val(2)?.is_known() => framed(x, &low, &high, c.x(2)?.reshape([])),
        "constant" => x.pad(&low, &high, if c.has(2) { c.number(2)? } else { value }),
        "reflect" => x.pad_with(&low, &high, PadMode::Reflect),
        "edge" => x.pad_with(&low, &high, PadMode::Replicate),
        "wrap" => x.pad_with(&low, &high, PadMode::Circular),
        other => return c.refuse(format!("the mode {other:?} is not supported")),
    })
}

/// `x` with a value around it that is known only when a step runs.
fn framed<'g>(x: Var<'g>, low: &[usize], high: &[usize], value: Var<'g>) -> Var<'g> {
    let inside = x.builder().full(1.0, x.dims(), DType::Bool).pad(low, high, 0.0);
    inside.select(x.pad(low, high, 0.0), value.broadcast(inside.dims()))
}

fn tile<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let x = c.x(0)?;
    if c.opset < 6 {
        return c.refuse("this version is not supported");
    }
    let times = dims_of(&c.ints(1)?).or_else(|why| c.wrong(why))?;
    one(x.tile(&times))
}

/// `start`, `start + delta`, … before `limit`.
fn range<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let dtype = c.dtype(0)?;
    let (start, limit, delta) = (c.number(0)?, c.number(1)?, c.number(2)?);
    let n = ((limit - start) / delta).ceil().max(0.0);
    if delta == 0.0 || !n.is_finite() || n >= 2f64.powi(31) {
        return c.wrong(format!("no range from {start} to {limit} by {delta}"));
    }
    let wide = if dtype.is_real_float() { DType::F64 } else { DType::I64 };
    one((c.g.iota(0, [n as usize], wide) * delta + start).cast(dtype))
}

fn center_crop_pad<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (mut x, sizes) = (c.x(0)?, dims_of(&c.ints(1)?).or_else(|why| c.wrong(why))?);
    let axes = match c.list("axes") {
        Some(axes) => c.axes(&axes, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    if axes.len() != sizes.len() {
        return c.wrong(format!("{} sizes for {} axes", sizes.len(), axes.len()));
    }
    for (axis, to) in axes.into_iter().zip(sizes) {
        let n = x.dims()[axis];
        if n >= to {
            x = x.narrow(axis as i64, (n - to) / 2, to);
        } else {
            let (mut low, mut high) = (vec![0; x.rank()], vec![0; x.rank()]);
            low[axis] = (to - n) / 2;
            high[axis] = to - n - low[axis];
            x = x.pad(&low, &high, 0.0);
        }
    }
    one(x)
}

/// The first elements of each sequence in reverse order.
fn reverse_sequence<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, lengths) = (c.x(0)?, c.x(1)?.cast(DType::I64));
    let (batch, time) = (c.int("batch_axis", 1), c.int("time_axis", 0));
    let y = x.movedim(&[batch, time], &[0, 1]);
    let d = y.dims();
    let t = c.g.iota(1, [d[0], d[1]], DType::I64);
    let ends = lengths.reshape([d[0], 1]).broadcast([d[0], d[1]]);
    let from = t.less(ends).select(ends - t - 1.0, t);
    let mut rows = vec![1; d.len()];
    rows[..2].copy_from_slice(&d[..2]);
    let y = y.take_along_axis(from.reshape(rows).broadcast(d), 1);
    one(y.movedim(&[0, 1], &[batch, time]))
}

/// The dtype that attribute `name` asks for, or `default`.
pub fn dtype_or(c: &Cx<'_, '_>, name: &str, default: DType) -> Result<DType> {
    match c.attr(name) {
        Some(a) => dtype_of(a.i() as i32).or_else(|why| c.refuse(why)),
        None => Ok(default),
    }
}
