//! Images of another size, as torch's `interpolate`. Each axis is resized alone, by copying the nearest element or by
//! weighing two neighbours. The op is linear in the image.

use crate::ensure;
use crate::nodes::build::sizes::check_sizes;
use crate::nodes::build::sizes::to_sizes;
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::positions::{numbers_by_position, take_positions};
use crate::nodes::ops::common::window_geometry::window_axis_name;
use Domain::Real;
use Interpolation::{Linear, LinearAligned, Nearest};

/// The longest axis: positions are i32.
const LONGEST: usize = 1 << 28;

choice! {
    /// How the elements of a resized axis of n follow from the old ones; torch's `mode` and `align_corners`.
    #[derive(Default)]
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

fn infer_interpolate(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let (d, size) = (cx.dims(0), check_sizes("size", &InterpolateAttrs::of(&cx.attrs).size)?);
    let n = size.len();
    ensure!((1..=3).contains(&n), "size has {n} entries; 1 to 3 are needed");
    ensure!(d.len() == n + 2, "x has shape {d}; rank {} is needed for size {size:?}", n + 2);
    for (a, (&from, &to)) in d[2..].iter().zip(&size).enumerate() {
        let name = window_axis_name(n, a);
        ensure!(to > 0, "size has {name} 0 for an input of {from}; 1 is the least");
        ensure!(from > 0, "the {name} of x is 0; size {to} needs elements");
        ensure!(from <= LONGEST && to <= LONGEST, "{name} {from} to {to} is above {LONGEST}");
    }
    cx.result(dtype, &[&d[..2], &size[..]].concat())
}

/// The left neighbours of each new element, and the weight of the right ones.
fn interpolate_neighbours(n: usize, out: usize, align: bool) -> (Vec<usize>, Vec<f64>) {
    let scale = match (align, out) {
        (true, 1) => 0.0,
        (true, _) => (n - 1) as f64 / (out - 1) as f64,
        _ => n as f64 / out as f64,
    };
    let position = |i: usize| if align { i as f64 * scale } else { (scale * (i as f64 + 0.5) - 0.5).max(0.0) };
    let left = |at: f64| (at as usize).min(n - 1);
    (0..out).map(position).map(|at| (left(at), (at - left(at) as f64).clamp(0.0, 1.0))).unzip()
}

fn interpolate_linear<'g>(x: Var<'g>, axis: usize, out: usize, align: bool) -> Var<'g> {
    let d = x.dims();
    let n = d[axis];
    let (left, right_weight) = interpolate_neighbours(n, out, align);
    let right: Vec<usize> = left.iter().map(|&i| (i + 1).min(n - 1)).collect();
    let left_weight: Vec<f64> = right_weight.iter().map(|w| 1.0 - w).collect();
    let weights = |w: &[f64]| numbers_by_position(x.g, w, d.len() - axis, x.dtype());
    take_positions(x, &left, axis) * weights(&left_weight) + take_positions(x, &right, axis) * weights(&right_weight)
}

fn expand_interpolate<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let InterpolateAttrs { size, mode } = InterpolateAttrs::of(&s.attrs);
    let (x, size) = (s.args[0], to_sizes(&size));
    let weighs = matches!(mode, Linear | LinearAligned);
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
        let from = |i: usize| if mode == Nearest { i * n / out } else { (2 * i + 1) * n / (2 * out) };
        y = match weighs {
            true => interpolate_linear(y, axis, out, mode == LinearAligned),
            false => take_positions(y, &(0..out).map(from).collect::<Vec<_>>(), axis),
        };
    }
    vec![y]
}

/// Images resized: torch's `interpolate`.
pub const INTERPOLATE: OpDef = OpDef {
    name: "interpolate",
    doc: "x with the axes after the second resized to `size`: y[i] = x[⌊i·n/out⌋] (`nearest`), x[⌊(i + ½)·n/out⌋] (`nearest_exact`), or the weighted mean of two neighbours",
    arity: Arity::Exactly(1),
    attrs: InterpolateAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_interpolate,
    deriv: Deriv::ViaDecompose,
    decompose: Some(expand_interpolate),
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
    ],
};
