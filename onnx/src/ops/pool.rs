//! Pools.

use super::conv::{Windows, convolve, first};
use super::{Entry, own, same};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use crate::tensor::{Tensor, count};
use arenagrad::graph::window::Pool;
use arenagrad::graph::{DType, Scatter, Var};
use arenagrad::op::Op;

pub const OPS: &[Entry] = &[
    own("MaxPool", max_pool),
    same("AveragePool", average_pool),
    same("LpPool", |c| {
        let (x, p) = (c.x(0)?, c.int("p", 2) as f64);
        let win = windows(c, x)?;
        one(sums(c, x.abs().pow(p), &win)?.pow(1.0 / p))
    }),
    same("GlobalMaxPool", |c| one(c.x(0)?.reduce(Op::REDUCE_MAX, plane(c)?.as_slice(), true))),
    same("GlobalAveragePool", |c| one(c.x(0)?.reduce(Op::REDUCE_MEAN, plane(c)?.as_slice(), true))),
    same("GlobalLpPool", |c| one(c.x(0)?.norm_keep(c.int("p", 2) as f64, plane(c)?.as_slice()))),
    own("MaxUnpool", max_unpool),
];

/// The axes after the second.
fn plane(c: &Cx<'_, '_>) -> Result<Vec<i64>> {
    Ok((2..c.dims(0)?.len() as i64).collect())
}

/// The windows of a pool.
fn windows(c: &Cx<'_, '_>, x: Var<'_>) -> Result<Windows> {
    match c.sizes("kernel_shape")? {
        Some(kernel) => Windows::of(c, &x.dims(), &kernel),
        None => c.wrong("kernel_shape is missing"),
    }
}

fn options<const N: usize, const P: usize>(c: &Cx<'_, '_>, win: &Windows) -> Pool<N, P> {
    let mut pool = Pool::new(first::<N>(&win.kernel));
    (pool.stride, pool.dilation, pool.pad) = (first(&win.stride), first(&win.dilation), first(&win.pads()));
    pool.ceil_mode = c.flag("ceil_mode", false);
    pool.count_include_pad = c.flag("count_include_pad", false);
    pool
}

fn max_pool<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (stored, x) = (c.dtype(0)?, c.x(0)?);
    let x = if x.dtype().is_float() { x } else { x.cast(DType::F32) };
    let mut win = windows(c, x)?;
    let x = narrow_pads(x, &mut win);
    if !c.wants(1) {
        let y = match win.kernel.len() {
            1 => x.max_pool1d(options(c, &win)),
            2 => x.max_pool2d(options(c, &win)),
            _ => x.max_pool3d(options(c, &win)),
        };
        return one(y.cast(stored));
    }
    let [y, at] = match win.kernel.len() {
        1 => x.max_pool1d_with_indices(options(c, &win)),
        2 => x.max_pool2d_with_indices(options(c, &win)),
        _ => x.max_pool3d_with_indices(options(c, &win)),
    };
    let (d, at) = (x.dims(), at.cast(DType::I64));
    let area = count(&d[2..]);
    let at = match c.int("storage_order", 0) {
        0 => at,
        // Positions count along columns first.
        _ => {
            let mut rest = at;
            let (mut turned, mut step) = (at * 0.0, area);
            for &n in d[2..].iter().rev() {
                step /= n.max(1);
                turned = turned + rest.remainder(n as f64) * step as f64;
                rest = rest.floor_divide(n as f64);
            }
            turned
        }
    };
    if d[0].saturating_mul(d[1]).saturating_mul(area) > 1 << 31 || d[0].saturating_mul(d[1]) > 1 << 24 {
        return c.refuse(format!("positions in a tensor of shape {d} are not supported"));
    }
    let first: Vec<i64> = (0..(d[0] * d[1]) as i64).map(|i| i * area as i64).collect();
    let mut dims = vec![1; d.len()];
    dims[..2].copy_from_slice(&d[..2]);
    Ok(vec![y.cast(stored), at + c.constant(&Tensor::of_ints(&first, dims))])
}

/// `x` with −∞ around it where pads are more than half a window, which the library's pools do not take.
fn narrow_pads<'g>(x: Var<'g>, win: &mut Windows) -> Var<'g> {
    let n = win.kernel.len();
    if (0..n).all(|a| win.low[a].max(win.high[a]) <= win.kernel[a] / 2) {
        return x;
    }
    let low = [&[0, 0], &win.low[..]].concat();
    let high = [&[0, 0], &win.high[..]].concat();
    (win.low, win.high) = (vec![0; n], vec![0; n]);
    x.pad(&low, &high, f64::NEG_INFINITY)
}

fn average_pool<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let x = c.x(0)?;
    let win = windows(c, x)?;
    let n = win.kernel.len();
    let plain = win.dilation.iter().all(|&d| d == 1);
    if plain && (0..n).all(|a| win.low[a].max(win.high[a]) <= win.kernel[a] / 2) {
        return one(match n {
            1 => x.avg_pool1d(options(c, &win)),
            2 => x.avg_pool2d(options(c, &win)),
            _ => x.avg_pool3d(options(c, &win)),
        });
    }
    let ones = c.g.full(1.0, [&[1, 1], &x.dims()[2..]].concat(), x.dtype());
    let (low, high) = ([&[0, 0], &win.low[..]].concat(), [&[0, 0], &win.high[..]].concat());
    let counts = match c.flag("count_include_pad", false) {
        true => {
            let none = Windows { low: vec![0; n], high: vec![0; n], ..win.clone() };
            sums(c, ones.pad(&low, &high, 1.0), &none)?
        }
        false => sums(c, ones, &win)?,
    };
    one(sums(c, x, &win)? / counts)
}

/// The sums of windows, as convolutions of single channels with ones.
fn sums<'g>(c: &Cx<'_, 'g>, x: Var<'g>, win: &Windows) -> Result<Var<'g>> {
    let d = x.dims();
    let mut high = win.high.clone();
    for a in 0..win.kernel.len() {
        let (size, reach) = (d[a + 2] + win.low[a] + win.high[a], (win.kernel[a] - 1) * win.dilation[a] + 1);
        let over = size.saturating_sub(reach) % win.stride[a];
        let last = size.saturating_sub(reach) / win.stride[a] * win.stride[a] + win.stride[a];
        // A window that begins in the padding at the end is none.
        if c.flag("ceil_mode", false) && over > 0 && last < d[a + 2] + win.low[a] {
            high[a] += win.stride[a] - over;
        }
    }
    let wide = Windows { high, ..win.clone() };
    let ones = c.g.full(1.0, [&[1, 1], &win.kernel[..]].concat(), x.dtype());
    let y = convolve(x.reshape([&[d[0] * d[1], 1], &d[2..]].concat()), ones, &wide, 1)?;
    Ok(y.reshape([&d[..2], &y.dims()[2..]].concat()))
}

/// Elements put back where a pool took them from.
fn max_unpool<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, at) = (c.x(0)?, c.stored(1)?);
    let (d, win) = (x.dims(), windows(c, x)?);
    let mut dims = d[..2].to_vec();
    for a in 0..win.kernel.len() {
        dims.push(((d[a + 2].max(1) - 1) * win.stride[a] + win.kernel[a]).saturating_sub(win.low[a] + win.high[a]));
    }
    let base = c.g.full(0.0, [count(&dims)], x.dtype());
    let y = base.scatter_slices(at.reshape([x.numel()]), x.reshape([x.numel()]), 0, Scatter::Set).reshape(&dims);
    let y = y.cast(c.dtype(0)?);
    if !c.has(2) {
        return one(y);
    }
    let asked = crate::tensor::dims_of(&c.ints(2)?).or_else(|why| c.wrong(why))?;
    if asked.len() != dims.len() || asked.iter().zip(&dims).any(|(want, have)| want < have) {
        return c.wrong(format!("output_shape {asked:?} is smaller than {dims:?}"));
    }
    let high: Vec<usize> = asked.iter().zip(&dims).map(|(want, have)| want - have).collect();
    one(y.pad(&vec![0; dims.len()], &high, 0.0))
}
