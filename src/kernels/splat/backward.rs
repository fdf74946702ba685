//! The gradients of projected splats.
//!
//! Each pixel is blended again (see `blend`), and then its splats are walked from back to front. Let g be the cotangent
//! of the colour before the exponent γ is applied, and D the cotangent of the transmittance T behind the current splat.
//! Then ᾱ = T·(g·colour − D), and D becomes (1 − α)·D + α·(g·colour). D starts as g·background minus the cotangent of
//! the alpha of the pixel. For each splat, −α·ᾱ·c·cᵀ and −α·ᾱ·c are summed, where [`closest_on_ray`] gives c. These
//! sums have no large terms that cancel. Sums of the cotangents of the splat's matrix would have such terms.
//!
//! Invariant: tiles t, t + groups, t + 2·groups … are a unit, and are walked in this order. The sums of a pixel row of
//! a tile are trees of [`LANES`] pixels.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`splat_backward_kernel`] | cotangent of the image, records, bounds, order, view | sums of each group, scratch | [`Splat`] |

use super::blend::{BlendLimits, BlendObserver, compose_span, fault_if_too_many_blended, gamma_encode_slope};
use super::lists::TileLists;
use super::rays::{Lanes, RaySpan, Rays, closest_on_ray, splat_record, sum_ray_lanes};
use super::splat_params::{BackwardPositions, LANES, MOMENTS, RECORD, Splat, VIEW_SUMS};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::simd;

/// The splats that were blended into a span, with α and T of each.
struct BackwardBlend<'a, T> {
    splats: &'a mut [i32],
    /// α, then T, of each.
    lanes: &'a mut [T],
    len: usize,
}

impl<T: Float> BlendObserver<T> for BackwardBlend<'_, T> {
    #[inline(always)]
    fn blended(&mut self, i: usize, alpha: &Lanes<T>, passes: &Lanes<T>) {
        self.splats[self.len] = i as i32;
        let to = &mut self.lanes[self.len * 2 * LANES..][..2 * LANES];
        to[..LANES].copy_from_slice(alpha);
        to[LANES..].copy_from_slice(passes);
        self.len += 1;
    }
}

/// The cotangents of a span.
struct SpanCotangents<T> {
    /// Of the colour before the exponent.
    colour: [Lanes<T>; 3],
    /// Of T behind the current splat.
    passes: Lanes<T>,
    /// Of the directions of rays.
    rays: [Lanes<T>; 3],
}

simd! {
    /// Adds what a span gives to the sums of one splat, and walks past it.
    fn splat_backward_walk[T: Float](s: &[T; RECORD], lanes: &[T], rays: &Rays<T>, to: &mut SpanCotangents<T>, sums: &mut [T]) {
        let mut terms = [[T::ZERO; LANES]; MOMENTS];
        for l in 0..LANES {
            let (alpha, passes) = (lanes[l], lanes[LANES + l]);
            let g = [to.colour[0][l], to.colour[1][l], to.colour[2][l]];
            let blends = alpha != T::ZERO;
            let lit = g[2].mul_add(s[15], g[1].mul_add(s[14], g[0] * s[13]));
            let d_alpha = passes * (lit - to.passes[l]);
            let behind = (T::ONE - alpha).mul_add(to.passes[l], alpha * lit);
            to.passes[l] = if blends { behind } else { to.passes[l] };
            let hit = closest_on_ray(s, [rays.directions[0][l], rays.directions[1][l], rays.directions[2][l]]);
            let (c, weight) = (hit.point, -alpha * d_alpha);
            let w = [weight * c[0], weight * c[1], weight * c[2]];
            let shade = passes * alpha;
            let all = [
                w[0] * c[0], w[1] * c[1], w[2] * c[2], w[0] * c[1], w[0] * c[2], w[1] * c[2], w[0], w[1], w[2],
                d_alpha * (alpha / s[12]), shade * g[0], shade * g[1], shade * g[2],
            ];
            for k in 0..MOMENTS {
                terms[k][l] = if blends { all[k] } else { T::ZERO };
            }
            for k in 0..3 {
                let by_ray = w[2].mul_add(s[6 + k], w[1].mul_add(s[3 + k], w[0] * s[k]));
                let by_ray = hit.along.mul_add(by_ray, to.rays[k][l]);
                to.rays[k][l] = if blends { by_ray } else { to.rays[k][l] };
            }
        }
        for k in 0..MOMENTS {
            sums[k] += sum_ray_lanes(terms[k]);
        }
    }
}

/// What all spans of a call share.
struct SplatBackward<'a, T> {
    p: Splat,
    cotangent: &'a [T],
    records: &'a [T],
    bounds: &'a [i32],
    view: &'a [T],
}

impl<T: Float> SplatBackward<'_, T> {
    /// Adds the gradients of a span.
    fn walk_span(
        &self,
        (list, tile): (&[i32], usize),
        span: &RaySpan,
        blended: &mut BackwardBlend<'_, T>,
        (moments, view_sums): (&mut [T], &mut [T]),
        args: &Args<'_>,
    ) {
        let (p, rays) = (&self.p, Rays::of(&self.p, span, self.view));
        blended.len = 0;
        let blend = compose_span((list, self.bounds), span, self.records, &rays, BlendLimits::of(p), blended);
        fault_if_too_many_blended(p, &blend, tile, args);
        let (gamma, background) = (T::from_f64(p.gamma), p.background::<T>());
        let mut to =
            SpanCotangents { colour: [[T::ZERO; LANES]; 3], passes: [T::ZERO; LANES], rays: [[T::ZERO; LANES]; 3] };
        for (l, pixel) in span.pixels(p, 0).enumerate() {
            let g = &self.cotangent[4 * pixel..][..4];
            to.passes[l] = -g[3];
            for k in 0..3 {
                let x = blend.passes[l].mul_add(background[k], blend.colour[k][l]);
                to.colour[k][l] = g[k] * gamma_encode_slope(x, gamma);
                to.passes[l] = to.colour[k][l].mul_add(background[k], to.passes[l]);
            }
        }
        for h in (0..blended.len).rev() {
            let i = blended.splats[h] as usize;
            let lanes = &blended.lanes[h * 2 * LANES..][..2 * LANES];
            let sums = &mut moments[i * MOMENTS..][..MOMENTS];
            splat_backward_walk(splat_record(self.records, i), lanes, &rays, &mut to, sums);
        }
        rays.project(&mut to.rays);
        let [x, y] = &rays.steps;
        for k in 0..3 {
            let by_step = |steps: &Lanes<T>| sum_ray_lanes(std::array::from_fn(|l| steps[l] * to.rays[k][l]));
            view_sums[k] += by_step(x);
            view_sums[3 + k] += by_step(y);
            view_sums[6 + k] += sum_ray_lanes(to.rays[k]);
        }
    }
}

/// The gradients of projected splats, and of right, up and forward of the view.
///
/// Reads the cotangent of the image `T[height, width, 4]` and what [`splat_blend_kernel`](super::splat_blend_kernel)
/// reads. Writes sums `T[groups, count, MOMENTS]`, sums `T[groups, VIEW_SUMS]`, scratch of numbers
/// ([`Splat::backward_scratch`]) and of positions ([`Splat::backward_positions`]).
pub fn splat_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Splat::from_words(args.params());
    let units = args.units();
    let (cotangent, records, order) = (args.read::<T>(0), args.read::<T>(1), args.read::<i32>(3));
    let (bounds, view) = (args.read::<i32>(2), args.read::<T>(4));
    let (moments, view_sums) = (args.write::<T>(0), args.write::<T>(1));
    let (lanes, positions) = (args.write::<T>(2), args.write::<i32>(3));
    moments.fill(T::ZERO);
    view_sums.fill(T::ZERO);
    let BackwardPositions { lists, splats } = BackwardPositions::cut(&p, positions);
    let mut lists = TileLists::new(&p, bounds, order, lists);
    let mut blended = BackwardBlend { splats, lanes: &mut lanes[..p.backward_scratch()], len: 0 };
    let backward = SplatBackward { p, cotangent, records, bounds, view };
    let tiles = p.tiles_across() * p.tile_rows();
    let sums = moments.chunks_exact_mut(p.count * MOMENTS).zip(view_sums.chunks_exact_mut(VIEW_SUMS));
    for (group, (moments, view_sums)) in units.zip(sums) {
        for tile in (group..tiles).step_by(p.groups()) {
            let list = lists.fill(&p, tile, args);
            for span in RaySpan::of_tile(&p, tile) {
                backward.walk_span((list, tile), &span, &mut blended, (moments, view_sums), args);
            }
        }
    }
}

by_dtype!(splat_backward_kernel_for = splat_backward_kernel::<floats>);
