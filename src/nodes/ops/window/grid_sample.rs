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
    /// `torch.nn.functional.grid_sample`; volumes `[N, C, D, H, W]` at places `[N, D', H', W', 3]` too, but for
    /// [`GridSampling::Cubic`]. A place is (x, y) or (x, y, z), in units in which the image reaches from −1 to 1. Both
    /// are `f32` or both `f64`; both get gradients. A place that is NaN gives 0. Images have 1 to 2²⁸ pixels.
    #[track_caller]
    pub fn grid_sample(self, grid: Var<'g>, opt: GridSample) -> Var<'g> {
        if !self.g.owns("grid_sample", &[grid]) || !self.is_some() || !grid.is_some() {
            return self.none();
        }
        let (d, to) = (self.dims(), grid.dims());
        let (&[n, c, ref sizes @ ..], &[m, ref out @ .., axes]) = (&d[..], &to[..]) else {
            let why = format!("the image has shape {d} and places {to}; an image has four axes, a volume five");
            return self.refuse("grid_sample", why);
        };
        if !(2..=3).contains(&axes) || sizes.len() != axes || out.len() != axes {
            let why = format!(
                "places have shape {to}; [N, C, H, W] and [N, H', W', 2], or [N, C, D, H, W] and [N, D', H', W', 3] are \
                 needed"
            );
            return self.refuse("grid_sample", why);
        }
        if n != m || self.dtype() != grid.dtype() || !self.dtype().is_float() {
            let why = format!("places are {}{to}; floats of one type and one N are needed", grid.dtype());
            return self.refuse("grid_sample", why);
        }
        if axes == 3 && opt.mode == GridSampling::Cubic {
            return self.refuse("grid_sample", "the mode is cubic; volumes are read in the modes linear and nearest");
        }
        let area = sizes.iter().try_fold(1, |area: usize, &n| area.checked_mul(n)).unwrap_or(usize::MAX);
        if area == 0 || area > MOST_WEIGHTS {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            let why = format!("an image has {} pixels; 1 to {MOST_WEIGHTS} are allowed", sizes.join(" × "));
            return self.refuse("grid_sample", why);
        }
        self.g.with_caller(|| {
            let per_image: usize = out.iter().product();
            let places = n * per_image;
            // The coordinate of the first axis is the last one of a place.
            let at: Vec<Var<'g>> = (0..axes).rev().map(|i| grid.narrow(-1, i, 1).reshape([places])).collect();
            // NaN and ∞ would turn the gradient 0 of a pixel that does not count into NaN.
            let real = at.iter().map(|v| v.equal(*v)).reduce(|a, b| a.logical_and(b));
            let sides = sizes.iter().zip(at).map(|(&size, v)| {
                let side = GridAxis { size, opt };
                side.taps(side.pixels(v.equal(v).select(v, 0.0).clamp(-FAR, FAR)))
            });
            let around = sides.fold(vec![Vec::new()], |cells, side| {
                let cell = |cell: &Vec<_>| side.iter().map(|&tap| [&cell[..], &[tap]].concat()).collect::<Vec<_>>();
                cells.iter().flat_map(cell).collect()
            });
            // Pixels of all images in rows of channels.
            let last: Vec<usize> = [0].into_iter().chain(2..axes + 2).chain([1]).collect();
            let pixels = self.permute(&last).reshape([n * area, c]);
            let image = self.g.iota(0, [n, per_image], DType::I64).reshape([places]) * area as f64;
            let mut sum = None;
            for taps in around {
                let within = |(&(at, _), &n): (&(Var<'g>, _), &usize)| {
                    at.greater_equal(0.0).logical_and(at.less_equal(n as f64 - 1.0))
                };
                let inside = taps.iter().zip(sizes).map(within).chain(real).reduce(|a, b| a.logical_and(b));
                let (Some(there), Some(weight)) = (inside, taps.iter().map(|t| t.1).reduce(|a, b| a * b)) else {
                    continue;
                };
                let pixel = taps.iter().zip(sizes).fold(None, |before: Option<Var<'g>>, (&(at, _), &n)| {
                    let at = there.select(at, 0.0).stop_gradient().cast(DType::I64);
                    Some(before.map_or(at, |before| before * n as f64 + at))
                });
                let picked = pixels.gather(pixel.map_or(image, |pixel| image + pixel), 0);
                let part = picked * there.select(weight, 0.0).reshape([places, 1]);
                sum = Some(sum.map_or(part, |sum: Var<'g>| sum + part));
            }
            let first: Vec<usize> = [0, axes + 1].into_iter().chain(1..axes + 1).collect();
            sum.unwrap_or(pixels).reshape([&[n], out, &[c]].concat()).permute(&first)
        })
    }
}
