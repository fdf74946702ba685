//! Images of another size, as in torch's `interpolate`. Each axis is resized alone, by copying the nearest element or
//! by weighing neighbours. The op is linear in the image.

use crate::ensure;
use crate::kernels::window::axis_name;
use crate::nodes::arguments::size_attrs::check_size_attrs;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::positions::{numbers_by_position, take_elements_at};
use Domain::Real;
use Interpolation::{
    Cubic, CubicAligned, CubicAntialias, Linear, LinearAligned, LinearAntialias, Nearest, NearestExact,
};

/// The longest axis: positions are i32.
const LONGEST: usize = 1 << 28;

/// The most weights of an axis that is resized by a product.
pub(super) const MOST_WEIGHTS: usize = 1 << 28;

choice! {
    /// How the elements of a resized axis of n follow from the old ones; torch's `mode` and `align_corners`.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Interpolation {
        /// Element ⌊i·n/out⌋.
        #[default]
        Nearest = "nearest",
        /// Element ⌊(i + ½)·n/out⌋.
        NearestExact = "nearest_exact",
        /// Both neighbours of (i + ½)·n/out − ½, clamped to the axis (bilinear on two axes, trilinear on three).
        Linear = "linear",
        /// Both neighbours of i·(n − 1)/(out − 1): corners stay where they are.
        LinearAligned = "linear_aligned",
        /// Four neighbours of (i + ½)·n/out − ½, each clamped to the axis, by the cubic convolution with a = −¾
        /// (bicubic on two axes).
        Cubic = "cubic",
        /// As [`Interpolation::Cubic`], around i·(n − 1)/(out − 1): corners stay where they are.
        CubicAligned = "cubic_aligned",
        /// The mean of the elements around (i + ½)·n/out by a triangle as wide as two new elements: torch's bilinear
        /// mode with `antialias`.
        LinearAntialias = "linear_antialias",
        /// As [`Interpolation::LinearAntialias`], by the cubic convolution with a = −½, as wide as four new elements.
        CubicAntialias = "cubic_antialias",
    }
}

attrs! {
    /// Attributes of `interpolate`.
    pub struct InterpolateAttrs {
        /// Elements of each axis after the second of the result.
        size: Vec<i64>,
        /// How they follow from those of x.
        mode: Interpolation,
    }
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let InterpolateAttrs { size, mode } = InterpolateAttrs::of(&cx.attrs);
    let (d, size) = (cx.dims(0), check_size_attrs("size", &size)?);
    let n = size.len();
    ensure!((1..=3).contains(&n), "size has {n} entries; 1 to 3 are needed");
    ensure!(d.len() == n + 2, "x has shape {d}; rank {} is needed for size {size:?}", n + 2);
    for (a, (&from, &to)) in d[2..].iter().zip(&size).enumerate() {
        let name = axis_name(n, a);
        ensure!(to > 0, "size has {name} 0 for an input of {from}; 1 is the least");
        ensure!(from > 0, "the {name} of x is 0; size {to} needs elements");
        ensure!(from <= LONGEST && to <= LONGEST, "{name} {from} to {to} is above {LONGEST}");
        let dense = matches!(mode, LinearAntialias | CubicAntialias) && from != to;
        ensure!(!dense || from * to <= MOST_WEIGHTS, "{name} {from} to {to} has more than {MOST_WEIGHTS} weights");
    }
    cx.result(dtype, &[&d[..2], &size[..]].concat())
}

/// The position of each new element among n old ones.
fn old_positions(n: usize, out: usize, align: bool) -> impl Iterator<Item = f64> {
    let scale = match (align, out) {
        (true, 1) => 0.0,
        (true, _) => (n - 1) as f64 / (out - 1) as f64,
        _ => n as f64 / out as f64,
    };
    (0..out).map(move |i| if align { i as f64 * scale } else { scale * (i as f64 + 0.5) - 0.5 })
}

/// For each new element, an old one and its weight; several such lists make an axis.
type Tap = (Vec<usize>, Vec<f64>);

/// The left and the right neighbour.
fn linear_taps(n: usize, out: usize, align: bool) -> Vec<Tap> {
    let at: Vec<f64> = old_positions(n, out, align).map(|at| at.max(0.0)).collect();
    let left: Vec<usize> = at.iter().map(|&at| (at as usize).min(n - 1)).collect();
    let right = left.iter().map(|&i| (i + 1).min(n - 1)).collect();
    let weight: Vec<f64> = at.iter().zip(&left).map(|(at, &left)| (at - left as f64).clamp(0.0, 1.0)).collect();
    vec![(left, weight.iter().map(|w| 1.0 - w).collect()), (right, weight)]
}

/// The cubic convolution with parameter `a`. Source: Keys, "Cubic convolution interpolation for digital image
/// processing".
pub(super) fn cubic_weight(x: f64, a: f64) -> f64 {
    let x = x.abs();
    match x {
        _ if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        _ if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

/// Four neighbours, clamped to the axis.
fn cubic_taps(n: usize, out: usize, align: bool) -> Vec<Tap> {
    let at: Vec<f64> = old_positions(n, out, align).collect();
    let tap = |k: f64| {
        let place = |at: &f64| (at.floor() + k).clamp(0.0, (n - 1) as f64) as usize;
        (at.iter().map(place).collect(), at.iter().map(|at| cubic_weight(at - at.floor() - k, -0.75)).collect())
    };
    [-1.0, 0.0, 1.0, 2.0].into_iter().map(tap).collect()
}

/// The weights of all old elements for each new one, `[out, n]`: those of a filter, which is 0 from some distance on,
/// stretched where the axis shrinks, with the sum 1.
fn antialias_weights(n: usize, out: usize, filter: impl Fn(f64) -> f64) -> Vec<f64> {
    let scale = n as f64 / out as f64;
    let stretch = scale.max(1.0);
    let row = |i: usize| {
        let center = scale * (i as f64 + 0.5);
        let all: Vec<f64> = (0..n).map(|j| filter((j as f64 - center + 0.5) / stretch)).collect();
        let sum: f64 = all.iter().sum();
        all.into_iter().map(move |w| w / sum)
    };
    (0..out).flat_map(row).collect()
}

/// The sum of the elements of each tap times their weights.
fn sum_taps<'g>(x: Var<'g>, axis: usize, taps: &[Tap]) -> Var<'g> {
    let rank = x.rank() - axis;
    let part =
        |(from, weights): &Tap| take_elements_at(x, from, axis) * numbers_by_position(x.g, weights, rank, x.dtype());
    taps.iter().map(part).reduce(|a, b| a + b).unwrap_or(x)
}

/// The product of `weights` `[out, n]` with an axis.
fn multiply_by_weights<'g>(x: Var<'g>, axis: usize, out: usize, weights: &[f64]) -> Var<'g> {
    let mut d = x.dims().to_vec();
    let (outer, n, inner) = (d[..axis].iter().product(), d[axis], d[axis + 1..].iter().product::<usize>());
    d[axis] = out;
    let matrix = numbers_by_position(x.g, weights, 1, x.dtype()).reshape([out, n]);
    match inner {
        1 => x.reshape([outer, n]).matmul_t(matrix, false, true).reshape(d),
        _ => matrix.matmul(x.reshape([outer, n, inner])).reshape(d),
    }
}

/// An axis with `out` elements.
fn resize_axis<'g>(x: Var<'g>, axis: usize, out: usize, mode: Interpolation) -> Var<'g> {
    let n = x.dims()[axis];
    match mode {
        Nearest => take_elements_at(x, &(0..out).map(|i| i * n / out).collect::<Vec<_>>(), axis),
        NearestExact => take_elements_at(x, &(0..out).map(|i| (2 * i + 1) * n / (2 * out)).collect::<Vec<_>>(), axis),
        Linear | LinearAligned => sum_taps(x, axis, &linear_taps(n, out, mode == LinearAligned)),
        Cubic | CubicAligned => sum_taps(x, axis, &cubic_taps(n, out, mode == CubicAligned)),
        LinearAntialias => {
            let weights = antialias_weights(n, out, |x| (1.0 - x.abs()).max(0.0));
            multiply_by_weights(x, axis, out, &weights)
        }
        CubicAntialias => {
            let weights = antialias_weights(n, out, |x| cubic_weight(x, -0.5));
            multiply_by_weights(x, axis, out, &weights)
        }
    }
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let InterpolateAttrs { size, mode } = InterpolateAttrs::of(&s.attrs);
    let (x, size) = (s.args[0], to_size_attrs(&size));
    let d = x.dims();
    // A result without elements: nothing to compute.
    if x.numel() == 0 {
        return vec![x.reshape([&d[..2], &size[..]].concat())];
    }
    let mut y = x;
    // The last axis first: rows that are taken twice are longer, and fewer.
    for (axis, &out) in size.iter().enumerate().map(|(a, out)| (a + 2, out)).rev() {
        let n = d[axis];
        if n == out {
            continue;
        }
        y = resize_axis(y, axis, out, mode);
    }
    vec![y]
}

/// Images resized: torch's `interpolate`.
pub const INTERPOLATE: OpDef = OpDef {
    name: "interpolate",
    doc: "x with the axes after the second resized to `size`: y[i] = x[⌊i·n/out⌋] (`nearest`), x[⌊(i + ½)·n/out⌋] \
        (`nearest_exact`), or the weighted mean of two (`linear`), four (`cubic`) or more (`antialias`) neighbours",
    arity: Arity::Exactly(1),
    attrs: InterpolateAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_types,
    deriv: Deriv::ViaDecompose,
    batch: Batch::Rule(|s| s.merged()),
    decompose: Some(decompose_node),
    lower: Lower::Expand,
    cost: |cx| 6 * cx.out(),
    cases: &[
        Case { args: "f[2,3,2,3]", attrs: "size=[4,9] mode=nearest", domains: &[Real] },
        Case { args: "f[2,3,5,4]", attrs: "size=[3,7] mode=nearest", domains: &[Real] },
        Case { args: "f[2,2,7]", attrs: "size=[5] mode=nearest_exact", domains: &[Real] },
        Case { args: "f[2,2,4]", attrs: "size=[7] mode=linear", domains: &[Real] },
        Case { args: "f[1,2,3,5]", attrs: "size=[7,4] mode=linear_aligned", domains: &[Real] },
        Case { args: "f[1,2,5,4]", attrs: "size=[2,8] mode=linear", domains: &[Real] },
        Case { args: "f[1,1,2,3,2]", attrs: "size=[3,2,4] mode=linear", domains: &[Real] },
        Case { args: "f[1,2,3,5]", attrs: "size=[7,4] mode=cubic", domains: &[Real] },
        Case { args: "f[1,2,5,4]", attrs: "size=[2,7] mode=cubic_aligned", domains: &[Real] },
        Case { args: "f[1,2,9,4]", attrs: "size=[4,6] mode=linear_antialias", domains: &[Real] },
        Case { args: "f[2,2,11]", attrs: "size=[4] mode=cubic_antialias", domains: &[Real] },
    ],
    ..OpDef::BLANK
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cubic_convolution_is_one_at_zero_and_zero_at_other_whole_numbers() {
        for (x, want) in [
            (0.0, 1.0),
            (0.5, 0.5625),
            (1.0, 0.0),
            (1.5, -0.0625),
            (-1.5, -0.0625),
            (2.0, 0.0),
            (2.5, 0.0),
            (-3.0, 0.0),
        ] {
            assert_eq!(cubic_weight(x, -0.5), want, "{x}");
        }
        assert_eq!(cubic_weight(0.5, -0.75), 0.59375);
        assert_eq!(cubic_weight(1.5, -0.75), -0.09375);
    }

    #[test]
    fn an_element_beyond_the_filter_has_no_weight() {
        let triangle = |x: f64| (1.0 - x.abs()).max(0.0);
        // Centres at 1 and 3 of elements at ½, 1½, 2½ and 3½: distances of ¼ and ¾ in new elements.
        let want = [0.75, 0.75, 0.25, 0.0, 0.0, 0.25, 0.75, 0.75].map(|w| w / 1.75);
        assert_eq!(antialias_weights(4, 2, triangle), want);
        // An axis that grows has the filter of its own elements.
        assert_eq!(antialias_weights(2, 4, triangle), [1.0, 0.0, 0.75, 0.25, 0.25, 0.75, 0.0, 1.0]);
    }
}
