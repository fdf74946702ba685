//! The image: the splats of each tile, blended front to back at each pixel.
//!
//! T is the transmittance of a pixel: the part of the light that passes the splats blended so far, 1 at first. With α =
//! opacity·exp(−½·|c|²), where [`closest_on_ray`] gives c, a splat adds T·α·(its colour) to the colour of the pixel,
//! and multiplies T by 1 − α. A splat with α below the cutoff is skipped. Blending ends when T is below the threshold.
//! The pixel is (max(0, colour + T·background)^γ, 1 − T).
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`splat_blend_kernel`] | records, bounds, order, view | image: `T[height, width, 4]`, T: `T[height, width]`, scratch | [`Splat`] |

use super::lists::TileLists;
use super::rays::{Lanes, RaySpan, Rays, closest_on_ray, splat_record};
use super::splat_params::{LANES, Splat};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::fault::Cause;
use crate::float::Float;
use crate::simd;
use crate::vmath;

/// A tile with a pixel that more splats cover than are blended: the value is their number, with the most there may be.
pub static TOO_MANY_STEPS: Cause = Cause {
    name: "splat steps",
    text: |bad, f| {
        let (count, most) = bad.value.unwrap_or_default();
        write!(f, "{count} splats cover a pixel of tile {}, and max_steps is {most}", bad.element)
    },
};

/// When a splat is blended.
#[derive(Clone, Copy)]
pub(super) struct BlendLimits<T> {
    cutoff: T,
    /// Blending stops below it.
    threshold: T,
    /// The most splats of a pixel.
    steps: T,
}

impl<T: Float> BlendLimits<T> {
    pub(super) fn of(p: &Splat) -> BlendLimits<T> {
        let steps = if p.max_steps == 0 { T::INFINITY } else { T::from_f64(p.max_steps as f64) };
        BlendLimits { cutoff: T::from_f64(p.alpha_cutoff), threshold: T::from_f64(p.transmittance), steps }
    }
}

/// What has been blended at each pixel of a span.
pub(super) struct Blend<T> {
    pub(super) colour: [Lanes<T>; 3],
    /// How much of the light from behind passes.
    pub(super) passes: Lanes<T>,
    /// Splats that cover the pixel.
    steps: Lanes<T>,
}

impl<T: Float> Blend<T> {
    /// Nothing, for a span of `pixels`. To the lanes behind them nothing is added.
    pub(super) fn new(pixels: usize) -> Blend<T> {
        let passes = std::array::from_fn(|l| if l < pixels { T::ONE } else { -T::ONE });
        Blend { colour: [[T::ZERO; LANES]; 3], passes, steps: [T::ZERO; LANES] }
    }

    /// The most splats that cover a pixel.
    fn most_steps(&self) -> usize {
        self.steps.iter().map(|s| s.to_f64() as usize).max().unwrap_or(0)
    }
}

/// What is told of each splat that is blended.
pub(super) trait BlendObserver<T> {
    /// Splat `i` is blended with these α (0 where it is not), each after `passes` of the light has passed the splats
    /// before it.
    fn blended(&mut self, i: usize, alpha: &Lanes<T>, passes: &Lanes<T>);
}

/// For who wants the image alone.
pub(super) struct Unobserved;

impl<T> BlendObserver<T> for Unobserved {
    #[inline(always)]
    fn blended(&mut self, _: usize, _: &Lanes<T>, _: &Lanes<T>) {}
}

/// Whether `a` < `b`; a NaN is not.
#[inline(always)]
fn is_below<T: Float>(a: T, b: T) -> bool {
    a < b
}

simd! {
    /// Blends one splat into a span. The lanes of the result are its α, 0 where it is not blended.
    fn blend_splat[T: Float](
        i: usize, records: &[T], rays: &Rays<T>, limits: BlendLimits<T>, to: &mut Blend<T>,
    ) -> Lanes<T> {
        let s = splat_record(records, i);
        let mut alpha = [T::ZERO; LANES];
        for (l, alpha) in alpha.iter_mut().enumerate() {
            let c = closest_on_ray(s, [rays.directions[0][l], rays.directions[1][l], rays.directions[2][l]]).point;
            let square = c[2].mul_add(c[2], c[1].mul_add(c[1], c[0] * c[0]));
            let a = s[12] * vmath::exp_below(-T::HALF * square);
            let passes = to.passes[l];
            let covers = !is_below(a, limits.cutoff) & !is_below(passes, limits.threshold) & !is_below(passes, T::ZERO);
            let steps = to.steps[l] + if covers { T::ONE } else { T::ZERO };
            let blends = covers & !is_below(limits.steps, steps);
            let a = if blends { a } else { T::ZERO };
            let weight = passes * a;
            for k in 0..3 {
                let with = weight.mul_add(s[13 + k], to.colour[k][l]);
                to.colour[k][l] = if blends { with } else { to.colour[k][l] };
            }
            to.steps[l] = steps;
            to.passes[l] = passes * (T::ONE - a);
            *alpha = a;
        }
        alpha
    }
}

/// Blends the splats of a list, whose bounds are given, into a span.
pub(super) fn compose_span<T: Float>(
    (list, bounds): (&[i32], &[i32]),
    span: &RaySpan,
    records: &[T],
    rays: &Rays<T>,
    limits: BlendLimits<T>,
    observer: &mut impl BlendObserver<T>,
) -> Blend<T> {
    let mut to = Blend::new(span.columns.len());
    for i in list.iter().map(|&i| i as usize).filter(|&i| span.meets(&bounds[4 * i..][..4])) {
        let before = to.passes;
        let alpha = blend_splat(i, records, rays, limits, &mut to);
        if alpha.iter().any(|a| *a != T::ZERO) {
            observer.blended(i, &alpha, &before);
            if to.passes.iter().all(|&t| is_below(t, limits.threshold) || is_below(t, T::ZERO)) {
                break;
            }
        }
    }
    to
}

/// Reports a pixel that more splats cover than may.
pub(super) fn fault_if_too_many_blended<T: Float>(p: &Splat, blend: &Blend<T>, tile: usize, args: &Args<'_>) {
    let most = if p.max_steps == 0 || p.truncate { usize::MAX } else { p.max_steps };
    let count = blend.most_steps();
    if count > most {
        args.report(&TOO_MANY_STEPS, tile, Some((count as i64, most)));
    }
}

/// max(0, x)^γ.
pub(super) fn gamma_encode<T: Float>(x: T, gamma: T) -> T {
    let x = x.positive();
    if gamma == T::ONE { x } else { vmath::pow(x, gamma) }
}

/// The derivative of [`gamma_encode`]: 0 below 0, and at 0 unless γ ≥ 1.
pub(super) fn gamma_encode_slope<T: Float>(x: T, gamma: T) -> T {
    if x < T::ZERO || (x == T::ZERO && gamma < T::ONE) {
        return T::ZERO;
    }
    if gamma == T::ONE { T::ONE } else { gamma * vmath::pow(x, gamma - T::ONE) }
}

/// The image of the splats, and how much of the light from behind passes them.
///
/// Reads records `T[count, RECORD]`, bounds `i32[count, 4]`, order `i32[count]` and the view `T[4, 3]`. Writes the
/// image `T[height, width, 4]`, T: `T[height, width]` and scratch (positions, [`Splat::list_scratch`]). A unit is a row
/// of tiles, [`Splat::pixels_per_unit`].
pub fn splat_blend_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Splat::from_words(args.params());
    let units = args.units();
    let (records, bounds, order, view) =
        (args.read::<T>(0), args.read::<i32>(1), args.read::<i32>(2), args.read::<T>(3));
    let (image, passes, scratch) = (args.write::<T>(0), args.write::<T>(1), args.write::<i32>(2));
    let mut lists = TileLists::new(&p, bounds, order, &mut scratch[..p.list_scratch()]);
    let (limits, gamma, background) = (BlendLimits::of(&p), T::from_f64(p.gamma), p.background::<T>());
    let across = p.tiles_across();
    for tile in units.start * across..units.end * across {
        let list = lists.fill(&p, tile, args);
        for span in RaySpan::of_tile(&p, tile) {
            let rays = Rays::of(&p, &span, view);
            let blend = compose_span((list, bounds), &span, records, &rays, limits, &mut Unobserved);
            fault_if_too_many_blended(&p, &blend, tile, args);
            let at = span.pixels(&p, units.start * p.tile);
            let pixels = image[4 * at.start..4 * at.end].chunks_exact_mut(4).zip(&mut passes[at]);
            for (l, (pixel, passes)) in pixels.enumerate() {
                for k in 0..3 {
                    pixel[k] = gamma_encode(blend.passes[l].mul_add(background[k], blend.colour[k][l]), gamma);
                }
                pixel[3] = T::ONE - blend.passes[l];
                *passes = blend.passes[l];
            }
        }
    }
}

by_dtype!(splat_blend_kernel_for = splat_blend_kernel::<floats>);
