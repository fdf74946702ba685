//! Images read at places that are computed, as a method of [`Var`]: gathers of the pixels around each place.

use super::interpolate::MOST_WEIGHTS;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;

/// How [`Var::grid_sample`] makes a value of the pixels around a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GridSampling {
    /// The nearest pixel; halves go to the even one.
    Nearest,
    /// The weighted mean of four pixels.
    #[default]
    Linear,
    /// Sixteen pixels, by the cubic convolution with a = −¾.
    Cubic,
}

/// What [`Var::grid_sample`] finds outside of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outside {
    /// Zeros.
    #[default]
    Zeros,
    /// The pixel at the edge.
    Border,
    /// The image, mirrored at its edge as often as needed.
    Reflection,
}

/// Options of [`Var::grid_sample`]; the defaults are torch's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GridSample {
    /// How a value is made of pixels.
    pub mode: GridSampling,
    /// What is outside of the image.
    pub padding: Outside,
    /// Whether −1 and 1 are the centres of the pixels at the edge, instead of the edge itself.
    pub align_corners: bool,
}

setters! {
    [] GridSample { mode: GridSampling, padding: Outside, align_corners: bool }
}

/// One axis of the image.
#[derive(Clone, Copy)]
struct GridAxis {
    size: usize,
    opt: GridSample,
}

impl GridAxis {
    /// Places in pixels, of places in −1..=1.
    fn pixels<'g>(&self, at: Var<'g>) -> Var<'g> {
        let n = self.size as f64;
        if self.opt.align_corners { (at + 1.0) * ((n - 1.0) / 2.0) } else { ((at + 1.0) * n - 1.0) * 0.5 }
    }

    /// Places moved into the image, if what is outside is made of it.
    fn moved<'g>(&self, at: Var<'g>) -> Var<'g> {
        let most = self.size as f64 - 1.0;
        match self.opt.padding {
            Outside::Zeros => at,
            Outside::Border => at.clamp(0.0, most),
            Outside::Reflection if self.opt.align_corners && self.size == 1 => at * 0.0,
            Outside::Reflection => {
                let (low, span) = if self.opt.align_corners { (0.0, most) } else { (-0.5, most + 1.0) };
                let from_edge = (at - low).abs();
                let times = (from_edge / span).floor();
                let rest = from_edge - times * span;
                let even = (times * 0.5).floor().equal(times * 0.5);
                even.select(rest + low, (span + low) - rest).clamp(0.0, most)
            }
        }
    }

    /// The pixels around each place, as whole numbers, with their weights.
    fn taps<'g>(&self, at: Var<'g>) -> Vec<(Var<'g>, Var<'g>)> {
        match self.opt.mode {
            GridSampling::Nearest => vec![(self.moved(at).round(), at.full_like(1.0))],
            GridSampling::Linear => {
                let at = self.moved(at);
                let left = at.floor();
                let right = at - left;
                vec![(left, 1.0 - right), (left + 1.0, right)]
            }
            GridSampling::Cubic => {
                let left = at.floor();
                let t = at - left;
                let weights = [
                    far_cubic_weight(t + 1.0),
                    near_cubic_weight(t),
                    near_cubic_weight(1.0 - t),
                    far_cubic_weight(2.0 - t),
                ];
                let tap = |(k, w): (usize, Var<'g>)| (self.moved(left + (k as f64 - 1.0)).round(), w);
                weights.into_iter().enumerate().map(tap).collect()
            }
        }
    }
}

/// Places beyond are outside of any image; what is added to them is lost in rounding.
const FAR: f64 = 1e9;

/// The parameter of the cubic convolution.
const A: f64 = -0.75;

/// The cubic convolution within one pixel.
fn near_cubic_weight(x: Var<'_>) -> Var<'_> {
    (x * (A + 2.0) - (A + 3.0)) * x * x + 1.0
}

/// The cubic convolution from one to two pixels away.
fn far_cubic_weight(x: Var<'_>) -> Var<'_> {
    ((x * A - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
}

impl<'g> Var<'g> {
    /// Images `[N, C, H, W]` read at places `[N, H', W', 2]`: `[N, C, H', W']`, as in
    /// `torch.nn.functional.grid_sample`. A place is (x, y), in units in which the image reaches from −1 to 1. Both are
    /// `f32` or both `f64`; both get gradients. A place that is NaN gives 0. Planes have 1 to 2²⁸ pixels.
    #[track_caller]
    pub fn grid_sample(self, grid: Var<'g>, opt: GridSample) -> Var<'g> {
        if !self.g.owns("grid_sample", &[grid]) || !self.is_some() || !grid.is_some() {
            return self.none();
        }
        let (d, to) = (self.dims(), grid.dims());
        let (&[n, c, h, w], &[m, rows, cols, 2]) = (&d[..], &to[..]) else {
            return self
                .refuse("grid_sample", format!("places have shape {to}; [N, C, H, W] and [N, H', W', 2] are needed"));
        };
        if n != m || self.dtype() != grid.dtype() || !self.dtype().is_float() {
            let why = format!("places are {}{to}; floats of one type and one N are needed", grid.dtype());
            return self.refuse("grid_sample", why);
        }
        if h == 0 || w == 0 || h.checked_mul(w).is_none_or(|area| area > MOST_WEIGHTS) {
            return self
                .refuse("grid_sample", format!("a plane has {h} × {w} pixels; 1 to {MOST_WEIGHTS} are allowed"));
        }
        self.g.with_caller(|| {
            let places = n * rows * cols;
            let [x, y] = [0, 1].map(|i| grid.narrow(3, i, 1).reshape([places]));
            // NaN and ∞ would turn the gradient 0 of a pixel that does not count into NaN.
            let real = x.equal(x).logical_and(y.equal(y));
            let [x, y] = [x, y].map(|v| v.equal(v).select(v, 0.0).clamp(-FAR, FAR));
            let [across, down] = [(w, x), (h, y)].map(|(size, at)| {
                let side = GridAxis { size, opt };
                side.taps(side.pixels(at))
            });
            // Pixels of all planes in rows of channels.
            let pixels = self.permute(&[0, 2, 3, 1]).reshape([n * h * w, c]);
            let plane = self.g.iota(0, [n, rows * cols], DType::I64).reshape([places]) * (h * w) as f64;
            let mut sum = None;
            for &(row, row_weight) in &down {
                for &(col, col_weight) in &across {
                    let within =
                        |at: Var<'g>, n: usize| at.greater_equal(0.0).logical_and(at.less_equal(n as f64 - 1.0));
                    let there = within(row, h).logical_and(within(col, w)).logical_and(real);
                    let whole = |at: Var<'g>| there.select(at, 0.0).stop_gradient().cast(DType::I64);
                    let picked = pixels.gather(plane + whole(row) * w as f64 + whole(col), 0);
                    let part = picked * there.select(row_weight * col_weight, 0.0).reshape([places, 1]);
                    sum = Some(sum.map_or(part, |sum: Var<'g>| sum + part));
                }
            }
            sum.unwrap_or(pixels).reshape([n, rows, cols, c]).permute(&[0, 3, 1, 2])
        })
    }
}
