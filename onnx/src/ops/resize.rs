//! Tensors of another size. Each axis is resized alone: by a gather, or by a product with a matrix of weights.

use super::{Entry, moved, same};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use crate::tensor::{Tensor, dims_of};
use arenagrad::graph::window::Interpolation;
use arenagrad::graph::{DType, Var};

pub const OPS: &[Entry] = &[same("Resize", resize), moved("Upsample", resize)];

/// How one axis is resized.
struct Axis {
    /// Its number.
    at: usize,
    from: usize,
    to: usize,
    /// New elements for each old one, as the coordinates take it.
    scale: f64,
    /// The part of the axis that is read.
    roi: [f64; 2],
}

fn resize<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let x = c.x(0)?;
    let old = c.node.op_type() == "Upsample" || c.opset < 11;
    let axes = axes(c, &x.dims(), old)?;
    let mode = c.text("mode", "nearest");
    let place = if old { "asymmetric" } else { c.text("coordinate_transformation_mode", "half_pixel") };
    let changed: Vec<&Axis> = axes.iter().filter(|a| a.from != a.to || place == "tf_crop_and_resize").collect();
    if let Some(y) = by_library(c, x, &axes, mode, place) {
        return one(y);
    }
    let (mut y, outside) = (x, c.float("extrapolation_value", 0.0));
    for a in &changed {
        y = match mode {
            "nearest" => nearest(c, y, a, place, old)?,
            "linear" | "cubic" | "bilinear" | "bicubic" => weighted(c, y, a, place, mode)?,
            other => return c.refuse(format!("the mode {other:?} is not supported")),
        };
    }
    if place == "tf_crop_and_resize" {
        for a in &changed {
            let inside = (0..a.to).map(|i| (0.0..=a.from as f64 - 1.0).contains(&a.origin(place, i)));
            let inside: Vec<u8> = inside.map(u8::from).collect();
            let mut dims = vec![1; y.rank()];
            dims[a.at] = a.to;
            let inside = c.g.constant_bytes(&inside, &dims, DType::Bool).broadcast(y.dims());
            y = inside.select(y, y.full_like(outside));
        }
    }
    one(y)
}

/// The method of the library, where it computes the same.
fn by_library<'g>(c: &Cx<'_, 'g>, x: Var<'g>, axes: &[Axis], mode: &str, place: &str) -> Option<Var<'g>> {
    let d = x.dims();
    let exact = axes.iter().all(|a| a.scale == a.to as f64 / a.from as f64 && (a.at >= 2 || a.from == a.to));
    let plain = !c.flag("exclude_outside", false) && !c.flag("antialias", false);
    if !exact || !plain || !(3..=5).contains(&d.len()) || !x.dtype().is_float() || x.numel() == 0 {
        return None;
    }
    let how = match (mode, place) {
        ("linear", "half_pixel") => Interpolation::Linear,
        ("linear", "align_corners") => Interpolation::LinearAligned,
        ("cubic", "half_pixel") if c.float("cubic_coeff_a", -0.75) == -0.75 => Interpolation::Cubic,
        ("cubic", "align_corners") if c.float("cubic_coeff_a", -0.75) == -0.75 => Interpolation::CubicAligned,
        _ => return None,
    };
    let mut size = d[2..].to_vec();
    axes.iter().filter(|a| a.at >= 2).for_each(|a| size[a.at - 2] = a.to);
    (size.iter().all(|&n| n > 0)).then(|| x.interpolate(&size, how))
}

/// The axes and their sizes, from scales or sizes.
fn axes(c: &Cx<'_, '_>, d: &[usize], old: bool) -> Result<Vec<Axis>> {
    let rank = d.len();
    let which = match c.list("axes") {
        Some(axes) => c.axes(&axes, rank)?,
        None => (0..rank).collect(),
    };
    let (scales, sizes) = if old { (1, 3) } else { (2, 3) };
    let roi = if !old && c.has(1) && c.text("coordinate_transformation_mode", "") == "tf_crop_and_resize" {
        c.numbers(1)?
    } else {
        [vec![0.0; which.len()], vec![1.0; which.len()]].concat()
    };
    let given = match c.attr("scales") {
        Some(a) => a.floats.iter().map(|&x| x.into()).collect(),
        None if c.has(scales) => c.numbers(scales)?,
        None => Vec::new(),
    };
    let asked = if given.is_empty() { dims_of(&c.ints(sizes)?).or_else(|why| c.wrong(why))? } else { Vec::new() };
    if given.len().max(asked.len()) != which.len() || roi.len() != 2 * which.len() {
        return c.wrong(format!("{} scales or sizes for {} axes", given.len().max(asked.len()), which.len()));
    }
    let ratio = |i: usize| asked[i] as f64 / d[which[i]] as f64;
    let common = match c.text("keep_aspect_ratio_policy", "stretch") {
        _ if asked.is_empty() => None,
        "not_larger" => (0..which.len()).map(ratio).reduce(f64::min),
        "not_smaller" => (0..which.len()).map(ratio).reduce(f64::max),
        _ => None,
    };
    let one = |i: usize| {
        let from = d[which[i]];
        let (to, scale) = match (given.get(i), common) {
            (Some(&s), _) => ((from as f64 * s).floor(), s),
            (None, Some(s)) => ((from as f64 * s + 0.5).floor(), s),
            (None, None) => (asked[i] as f64, ratio(i)),
        };
        let sound = scale > 0.0 && to < 2f64.powi(31);
        if !sound {
            return c.wrong(format!("axis {} of {from} cannot be scaled by {scale}", which[i]));
        }
        Ok(Axis { at: which[i], from, to: to as usize, scale, roi: [roi[i], roi[which.len() + i]] })
    };
    (0..which.len()).map(one).collect()
}

impl Axis {
    /// The place among the old elements that new element `i` reads.
    fn origin(&self, place: &str, i: usize) -> f64 {
        let (x, n) = (i as f64, self.from as f64);
        let out = self.scale * n;
        let half_pixel = (x + 0.5) / self.scale - 0.5;
        let [start, end] = self.roi;
        match place {
            "align_corners" if out == 1.0 => 0.0,
            "align_corners" => x * (n - 1.0) / (out - 1.0),
            "asymmetric" => x / self.scale,
            "tf_crop_and_resize" if out == 1.0 => (start + end) * (n - 1.0) / 2.0,
            "tf_crop_and_resize" => start * (n - 1.0) + x * (end - start) * (n - 1.0) / (out - 1.0),
            "pytorch_half_pixel" if out == 1.0 => -0.5,
            "half_pixel_symmetric" => n / 2.0 * (1.0 - self.to as f64 / out) + half_pixel,
            _ => half_pixel,
        }
    }
}

fn nearest<'g>(c: &Cx<'_, 'g>, x: Var<'g>, a: &Axis, place: &str, old: bool) -> Result<Var<'g>> {
    if a.to > 1 << 24 {
        return c.refuse(format!("an axis of {} elements is not supported", a.to));
    }
    let mode = if old { "floor" } else { c.text("nearest_mode", "round_prefer_floor") };
    let last = a.from as f64 - 1.0;
    let from = (0..a.to).map(|i| {
        let x = a.origin(place, i);
        let near = match mode {
            "floor" => x.floor(),
            "ceil" => x.ceil(),
            "round_prefer_ceil" => (x + 0.5).floor(),
            _ => (x - 0.5).ceil(),
        };
        near.clamp(0.0, last) as i64
    });
    let from: Vec<i64> = from.collect();
    Ok(x.gather(c.constant(&Tensor::of_ints(&from, vec![a.to])), a.at as i64))
}

/// A product with the weights of all neighbours.
fn weighted<'g>(c: &Cx<'_, 'g>, x: Var<'g>, a: &Axis, place: &str, mode: &str) -> Result<Var<'g>> {
    if a.from.saturating_mul(a.to) > 1 << 24 {
        return c.refuse(format!("axis {} of {} to {} has too many weights", a.at, a.from, a.to));
    }
    let (own, cubic) = (x.dtype(), mode.ends_with("cubic"));
    let (shape, squeeze) =
        (c.float("cubic_coeff_a", -0.75), if c.flag("antialias", false) { a.scale.min(1.0) } else { 1.0 });
    let reach = (if cubic { 2.0 } else { 1.0 }) / squeeze;
    let mut weights = vec![0.0; a.from * a.to];
    for i in 0..a.to {
        let at = a.origin(place, i);
        let mut row: Vec<(i64, f64)> = Vec::new();
        for k in (at - reach).floor() as i64..=(at + reach).ceil() as i64 {
            let far = ((k as f64 - at) * squeeze).abs();
            row.push((k, if cubic { cubic_weight(far, shape) } else { (1.0 - far).max(0.0) }));
        }
        if c.flag("exclude_outside", false) {
            row.retain(|(k, _)| (0..a.from as i64).contains(k));
        }
        let all: f64 = row.iter().map(|(_, w)| w).sum();
        for (k, w) in row {
            let k = k.clamp(0, a.from as i64 - 1) as usize;
            weights[k * a.to + i] += if all == 0.0 { 0.0 } else { w / all };
        }
    }
    let x = if own.is_float() { x } else { x.cast(DType::F32) };
    let w = c.g.constant_f64(&weights, [a.from, a.to]).cast(x.dtype());
    let last = x.movedim(&[a.at as i64], &[-1]);
    let y = last.matmul(w).movedim(&[-1], &[a.at as i64]);
    Ok(if own.is_float() { y } else { y.round().cast(own) })
}

/// The cubic convolution at a distance.
fn cubic_weight(far: f64, a: f64) -> f64 {
    match far {
        x if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}
