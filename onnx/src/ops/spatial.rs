//! Images: sampling at places, grids, columns.

use super::{Entry, own, same};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use crate::tensor::{Tensor, count, dims_of};
use arenagrad::graph::window::{GridSample, GridSampling, Outside};
use arenagrad::graph::{Scatter, Var};

pub const OPS: &[Entry] = &[
    same("GridSample", grid_sample),
    same("AffineGrid", affine_grid),
    own("Col2Im", |c| one(col2im(c)?.cast(c.dtype(0)?))),
];

fn grid_sample<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, grid) = (c.x(0)?, c.x(1)?);
    let mode = match c.text("mode", "linear") {
        "nearest" => GridSampling::Nearest,
        "linear" | "bilinear" => GridSampling::Linear,
        "cubic" | "bicubic" => GridSampling::Cubic,
        other => return c.refuse(format!("the mode {other:?} is not supported")),
    };
    let padding = match c.text("padding_mode", "zeros") {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return c.refuse(format!("the padding {other:?} is not supported")),
    };
    let opt = GridSample::default().mode(mode).padding(padding).align_corners(c.flag("align_corners", false));
    if x.rank() == 5 && mode == GridSampling::Cubic {
        return c.refuse("a volume with mode Cubic is not supported");
    }
    one(x.grid_sample(grid, opt))
}

/// The places at which an image is read to transform it.
fn affine_grid<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (theta, size) = (c.x(0)?, dims_of(&c.ints(1)?).or_else(|why| c.wrong(why))?);
    let [batch, _, plane @ ..] = &size[..] else { return c.wrong("the size has no batch and channels") };
    let aligned = c.flag("align_corners", false);
    let rank = plane.len();
    let axis = |n: usize, i: usize| match aligned {
        true => {
            if n == 1 {
                0.0
            } else {
                -1.0 + 2.0 * i as f64 / (n as f64 - 1.0)
            }
        }
        false => (2.0 * i as f64 + 1.0) / n as f64 - 1.0,
    };
    let places = count(plane);
    if places > 1 << 24 || rank > 3 {
        return c.refuse("more than 3 axes or 2^24 places are not supported");
    }
    let mut points = Vec::with_capacity(places * (rank + 1));
    for p in 0..places {
        let (mut rest, mut point) = (p, vec![1.0; rank + 1]);
        for (k, &n) in plane.iter().enumerate().rev() {
            point[rank - 1 - k] = axis(n, rest % n);
            rest /= n;
        }
        points.extend(point);
    }
    let points = c.g.constant_f64(&points, [places, rank + 1]).cast(theta.dtype());
    one(points.matmul_t(theta, false, true).reshape([&[*batch], plane, &[rank]].concat()))
}

/// Columns added where an image has its windows, along any number of axes.
fn col2im<'g>(c: &Cx<'_, 'g>) -> Result<Var<'g>> {
    let x = c.x(0)?;
    let (image, block) = (dims_of(&c.ints(1)?), dims_of(&c.ints(2)?));
    let (image, block) = (image.or_else(|why| c.wrong(why))?, block.or_else(|why| c.wrong(why))?);
    let n = image.len();
    let (stride, dilation) = (c.sizes("strides")?.unwrap_or(vec![1; n]), c.sizes("dilations")?.unwrap_or(vec![1; n]));
    let pads = c.sizes("pads")?.unwrap_or(vec![0; 2 * n]);
    if [block.len(), stride.len(), dilation.len(), pads.len() / 2].iter().any(|&k| k != n) || stride.contains(&0) {
        return c.wrong("shapes, strides, dilations and pads do not fit one another");
    }
    let along = |a: usize| {
        let reach = block[a].max(1).saturating_sub(1) * dilation[a] + 1;
        (image[a] + pads[a] + pads[n + a]).checked_sub(reach).map_or(0, |left| left / stride[a] + 1)
    };
    let counts: Vec<usize> = (0..n).map(along).collect();
    let (taps, windows) = (count(&block), count(&counts));
    let (d, places) = (x.dims(), count(&image));
    if d.len() != 3
        || taps == 0
        || d[1] % taps != 0
        || d[2] != windows
        || taps.saturating_mul(windows) > 1 << 24
        || places > 1 << 31
    {
        return c.wrong(format!("columns of shape {d} do not fit {windows} windows of {taps}"));
    }
    // Behind the image is one more place, for what falls into the padding.
    let mut to = Vec::with_capacity(taps * windows);
    for tap in 0..taps {
        for window in 0..windows {
            let (mut tap, mut window, mut at, mut step, mut inside) = (tap, window, 0, 1, true);
            for a in (0..n).rev() {
                let i = window % counts[a] * stride[a] + tap % block[a] * dilation[a];
                (window, tap) = (window / counts[a], tap / block[a]);
                inside &= (pads[a]..pads[a] + image[a]).contains(&i);
                at += i.saturating_sub(pads[a]) * step;
                step *= image[a];
            }
            to.push(if inside { at as i64 } else { places as i64 });
        }
    }
    let to = c.constant(&Tensor::of_ints(&to, vec![taps * windows]));
    let channels = d[1] / taps;
    let base = c.g.full(0.0, [d[0], channels, places + 1], x.dtype());
    let y = base.scatter_slices(to, x.reshape([d[0], channels, taps * windows]), 2, Scatter::Add);
    Ok(y.narrow(2, 0, places).reshape([&[d[0], channels], &image[..]].concat()))
}
