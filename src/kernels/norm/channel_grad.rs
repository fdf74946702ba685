//! Parts that the adjoints of group norm and batch norm share: the two sums over a channel, and the sweep that writes
//! dx.
//!
//! With x̂ = (x − mean)·rstd, both adjoints are dx = scale·(γ·dy − shift − (x − mean)·slope), where shift and slope
//! follow from Σ dy and Σ dy·(x − mean) of the channels. dβ is the first sum; dγ is the second one times rstd.
//!
//! Invariant: a sum has sixteen accumulators for each block of 1024 elements, joined in a tree; blocks are joined
//! pairwise. So its bits depend on the length alone.

use super::moments::Moments;
use crate::float::Float;
use crate::reduce::pairwise::{self, BLOCK};
use crate::simd;

/// Accumulators of each of the two sums.
pub const LANES: usize = 16;

/// Σ dy and Σ dy·(x − mean) of some elements of a channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelSums<T> {
    /// Σ dy.
    pub dy: T,
    /// Σ dy·(x − mean).
    pub dot: T,
}

impl<T: Float> ChannelSums<T> {
    /// The sums of the elements of both.
    pub fn join(self, other: ChannelSums<T>) -> ChannelSums<T> {
        ChannelSums { dy: self.dy + other.dy, dot: self.dot + other.dot }
    }
}

simd! {
    fn channel_grad_sums_block[T: Float](dy: &[T], x: &[T], m: Moments<T>) -> ChannelSums<T> {
        let (mut sums, mut dots) = ([T::ZERO; LANES], [T::ZERO; LANES]);
        let ((dys, dy_rest), (xs, x_rest)) = (dy.as_chunks::<LANES>(), x.as_chunks::<LANES>());
        for (dy, x) in dys.iter().zip(xs) {
            for (((sum, dot), dy), x) in sums.iter_mut().zip(&mut dots).zip(dy).zip(x) {
                *sum += *dy;
                *dot += *dy * m.centred(*x);
            }
        }
        if dys.is_empty() {
            // Few elements: adding the lanes would cost more than the elements.
            let (mut sum, mut dot) = (T::ZERO, T::ZERO);
            for (dy, x) in dy_rest.iter().zip(x_rest) {
                sum += *dy;
                dot += *dy * m.centred(*x);
            }
            return ChannelSums { dy: sum, dot };
        }
        for (((sum, dot), dy), x) in sums.iter_mut().zip(&mut dots).zip(dy_rest).zip(x_rest) {
            *sum += *dy;
            *dot += *dy * m.centred(*x);
        }
        let (sums, dots) = (pairwise::keep_lanes_apart(sums), pairwise::keep_lanes_apart(dots));
        let join = |lanes| pairwise::join_lanes(pairwise::Sum, lanes);
        ChannelSums { dy: join(sums), dot: join(dots) }
    }
}

/// The sums of two slices of equal length.
pub fn sum_channel_terms<T: Float>(dy: &[T], x: &[T], m: Moments<T>) -> ChannelSums<T> {
    if x.len() <= BLOCK {
        return channel_grad_sums_block(dy, x, m);
    }
    let at = pairwise::split_point(x.len(), BLOCK);
    sum_channel_terms(&dy[..at], &x[..at], m).join(sum_channel_terms(&dy[at..], &x[at..], m))
}

/// The numbers of the formula in the head of this file.
#[derive(Clone, Copy, Debug)]
pub struct ChannelGrad<T> {
    /// The moments of x.
    pub moments: Moments<T>,
    /// The factor of dy.
    pub gamma: T,
    /// Taken from each γ·dy.
    pub shift: T,
    /// The factor of x − mean.
    pub slope: T,
    /// The factor of all.
    pub scale: T,
}

simd! {
    /// Replaces dy in `dx` by the gradient.
    fn project_channel_grad[T: Float](x: &[T], p: ChannelGrad<T>, dx: &mut [T]) {
        for (dx, x) in dx.iter_mut().zip(x) {
            *dx = p.scale * (p.gamma * *dx - p.shift - p.moments.centred(*x) * p.slope);
        }
    }
}

/// Writes the gradient of a run of a channel. Without `dy`, `dx` holds it.
pub fn write_channel_dx<T: Float>(dy: Option<&[T]>, x: &[T], p: ChannelGrad<T>, dx: &mut [T]) {
    // A block stays in the first cache between the copy and the sweep.
    for (i, (dx, x)) in dx.chunks_mut(BLOCK).zip(x.chunks(BLOCK)).enumerate() {
        if let Some(dy) = dy {
            dx.copy_from_slice(&dy[i * BLOCK..][..dx.len()]);
        }
        project_channel_grad(x, p, dx);
    }
}
