//! The adjoint of batch normalisation of x `[samples, channels, area]` by the statistics of the batch, in one sweep.
//!
//! Each channel has a mean, an rstd and a γ over its n = samples·area elements. With x̂ = (x − mean)·rstd:
//! dx = γ·rstd·(dy − mean(dy) − x̂·mean(dy·x̂)), dγ = Σ dy·x̂, dβ = Σ dy.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`batch_norm_backward_kernel`] | dy, x: `T[samples, channels, area]`, mean, rstd, γ: `T[channels]` | dx: `T[samples, channels, area]`, dγ, dβ: `T[channels]` | [`BatchNormGrad`] |
//!
//! Invariant: a unit is some channels, as columns of the matrix `[samples, channels · area]`. It reads them twice: for
//! the sums, then, from the last sample to the first, for dx. Samples are added pairwise. If the area of a channel is
//! small, each column is summed over the samples first, with one column in each lane; then the columns of a channel are
//! added. Nothing is kept between units.

use super::channel_grad::{ChannelGrad, ChannelSums, sum_channel_terms, write_channel_dx};
use super::moments::Moments;
use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::reduce::pairwise::{self, ROWS, TILE};
use crate::simd;
use std::ops::Range;

/// Approximate number of elements in a unit.
const UNIT: usize = 4096;
/// Channels of a smaller area are added column by column.
const AREA: usize = 64;

params! {
    /// Params of [`batch_norm_backward_kernel`]: the view of x, which is not empty.
    pub struct BatchNormGrad {
        /// Size of the batch.
        pub samples: usize,
        /// Number of channels.
        pub channels: usize,
        /// Elements of a channel of a sample.
        pub area: usize,
    }
}

impl BatchNormGrad {
    /// Channels in a unit: elements of dγ and of dβ.
    pub fn per_unit(&self) -> usize {
        let full = (UNIT / self.samples / self.area).clamp(1, self.channels);
        if self.area >= AREA {
            return full;
        }
        // At least a few vectors of columns, at most a tile.
        full.clamp(AREA.div_ceil(self.area), TILE / self.area).min(self.channels)
    }

    /// Columns of dx in a unit.
    pub fn columns(&self) -> usize {
        self.per_unit() * self.area
    }

    /// Elements of a row of dx.
    pub fn row(&self) -> usize {
        self.channels * self.area
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.channels.div_ceil(self.per_unit())
    }

    /// The columns of some channels.
    fn columns_of(&self, channels: Range<usize>) -> Range<usize> {
        channels.start * self.area..channels.end * self.area
    }
}

/// Columns of dy, x and dx: those of one channel, or of a unit.
struct BatchNormColumns<'a, T> {
    /// If absent, dx holds it.
    dy: Option<&'a [T]>,
    x: &'a [T],
    /// Elements of a row of dy and of x.
    row: usize,
    /// The columns in dy and x.
    of: Range<usize>,
    dx: MatrixMut<'a, T>,
}

impl<T: Float> BatchNormColumns<'_, T> {
    fn dy(&self, sample: usize) -> &[T] {
        match self.dy {
            Some(dy) => &dy[sample * self.row..][self.of.clone()],
            None => self.dx.get(sample),
        }
    }

    fn x(&self, sample: usize) -> &[T] {
        &self.x[sample * self.row..][self.of.clone()]
    }

    /// dy if it is apart, x, and dx.
    fn sample(&mut self, sample: usize) -> (Option<&[T]>, &[T], &mut [T]) {
        let dy = self.dy.map(|dy| &dy[sample * self.row..][self.of.clone()]);
        (dy, &self.x[sample * self.row..][self.of.clone()], self.dx.row(sample))
    }
}

/// Where a range of samples is halved: at a power of two of blocks.
fn split_samples(samples: &Range<usize>, block: usize) -> usize {
    samples.start + samples.len().div_ceil(block).next_power_of_two() / 2 * block
}

/// Σ (x − mean) of one channel over some samples.
fn sum_deviations<T: Float>(c: &BatchNormColumns<'_, T>, mean: T, samples: Range<usize>) -> T {
    if samples.len() == 1 {
        return pairwise::reduce_row(pairwise::DeviationsFrom(mean), c.x(samples.start));
    }
    let at = split_samples(&samples, 1);
    sum_deviations(c, mean, samples.start..at) + sum_deviations(c, mean, at..samples.end)
}

/// The sums of one channel over some samples.
fn sum_channel<T: Float>(c: &BatchNormColumns<'_, T>, m: Moments<T>, samples: Range<usize>) -> ChannelSums<T> {
    if samples.len() == 1 {
        return sum_channel_terms(c.dy(samples.start), c.x(samples.start), m);
    }
    let at = split_samples(&samples, 1);
    sum_channel(c, m, samples.start..at).join(sum_channel(c, m, at..samples.end))
}

/// A number for each column of a unit.
type Tile<T> = [T; TILE];

/// The sums of each column.
#[derive(Clone, Copy)]
struct ColumnSums<T> {
    dy: Tile<T>,
    dot: Tile<T>,
    rest: Tile<T>,
}

simd! {
    /// Adds the terms of one sample.
    fn add_batch_norm_columns[T: Float](dy: &[T], x: &[T], mean: &[T], sums: &mut ColumnSums<T>) {
        let columns = sums.dy.iter_mut().zip(&mut sums.dot).zip(&mut sums.rest).zip(mean);
        for ((((sum, dot), rest), mean), (dy, x)) in columns.zip(dy.iter().zip(x)) {
            let d = *x - *mean;
            *sum += *dy;
            *dot += *dy * d;
            *rest += d;
        }
    }
}

/// The sums of the columns over some samples.
fn sum_columns<T: Float>(c: &BatchNormColumns<'_, T>, mean: &[T], samples: Range<usize>, sums: &mut ColumnSums<T>) {
    if samples.len() <= ROWS {
        (sums.dy, sums.dot, sums.rest) = ([T::ZERO; TILE], [T::ZERO; TILE], [T::ZERO; TILE]);
        samples.for_each(|n| add_batch_norm_columns(c.dy(n), c.x(n), mean, sums));
        return;
    }
    let (at, mut rest) = (split_samples(&samples, ROWS), *sums);
    sum_columns(c, mean, samples.start..at, sums);
    sum_columns(c, mean, at..samples.end, &mut rest);
    sums.dy.iter_mut().zip(rest.dy).for_each(|(a, b)| *a += b);
    sums.dot.iter_mut().zip(rest.dot).for_each(|(a, b)| *a += b);
    sums.rest.iter_mut().zip(rest.rest).for_each(|(a, b)| *a += b);
}

/// [`ChannelGrad`] for each column, with γ in the scale.
struct ColumnGrad<'a, T> {
    mean: &'a [T],
    shift: &'a [T],
    slope: &'a [T],
    scale: &'a [T],
}

simd! {
    /// Replaces dy in `dx` by the gradient.
    fn project_batch_norm_columns[T: Float](x: &[T], p: &ColumnGrad<'_, T>, dx: &mut [T]) {
        let columns = p.mean.iter().zip(p.shift).zip(p.slope).zip(p.scale);
        for ((dx, x), (((mean, shift), slope), scale)) in dx.iter_mut().zip(x).zip(columns) {
            *dx = *scale * (*dx - *shift - (*x - *mean) * *slope);
        }
    }
}

/// The params of a unit's channels, and their gradients.
struct BatchNormChannels<'a, T> {
    mean: &'a [T],
    rstd: &'a [T],
    gamma: &'a [T],
    dgamma: &'a mut [T],
    dbeta: &'a mut [T],
}

impl<T: Float> BatchNormChannels<'_, T> {
    /// The moments of channel `i`, of which `rest` is the mean of x − mean.
    fn moments(&self, i: usize, rest: T) -> Moments<T> {
        Moments { mean: self.mean[i], rest, rstd: self.rstd[i] }
    }

    /// Stores dγ and dβ of channel `i` with `n` elements; the numbers that dx needs, with γ in the scale.
    fn finish(&mut self, i: usize, sums: ChannelSums<T>, moments: Moments<T>, n: T) -> ChannelGrad<T> {
        let rstd = moments.rstd;
        let dgamma = sums.dot * rstd;
        (self.dgamma[i], self.dbeta[i]) = (dgamma, sums.dy);
        ChannelGrad {
            moments,
            gamma: T::ONE,
            shift: sums.dy / n,
            slope: dgamma / n * rstd,
            scale: self.gamma[i] * rstd,
        }
    }
}

/// Channels of a small area, all at once.
fn fill_narrow_grad<T: Float>(
    p: &BatchNormGrad,
    mut c: BatchNormColumns<'_, T>,
    mut channels: BatchNormChannels<'_, T>,
) {
    let (width, n) = (c.of.len(), T::from_f64((p.samples * p.area) as f64));
    let [mut mean, mut shift, mut slope, mut scale] = [[T::ZERO; TILE]; 4];
    for (to, m) in mean.chunks_exact_mut(p.area).zip(channels.mean) {
        to.fill(*m);
    }
    let mut sums = ColumnSums { dy: [T::ZERO; TILE], dot: [T::ZERO; TILE], rest: [T::ZERO; TILE] };
    sum_columns(&c, &mean[..width], 0..p.samples, &mut sums);
    for i in 0..channels.mean.len() {
        let run = i * p.area..(i + 1) * p.area;
        let add = |x: &[T]| x.iter().fold(T::ZERO, |a, b| a + *b);
        let [dy, dot, rest] = [&sums.dy, &sums.dot, &sums.rest].map(|all| add(&all[run.clone()]));
        let moments = channels.moments(i, rest / n);
        let grad = channels.finish(i, ChannelSums { dy, dot: dot - moments.rest * dy }, moments, n);
        shift[run.clone()].fill(grad.shift - moments.rest * grad.slope);
        slope[run.clone()].fill(grad.slope);
        scale[run].fill(grad.scale);
    }
    let grad =
        ColumnGrad { mean: &mean[..width], shift: &shift[..width], slope: &slope[..width], scale: &scale[..width] };
    for sample in (0..p.samples).rev() {
        let (dy, x, dx) = c.sample(sample);
        if let Some(dy) = dy {
            dx.copy_from_slice(dy);
        }
        project_batch_norm_columns(x, &grad, dx);
    }
}

/// One channel of a large area.
fn fill_wide_grad<T: Float>(
    p: &BatchNormGrad,
    mut c: BatchNormColumns<'_, T>,
    channels: &mut BatchNormChannels<'_, T>,
    i: usize,
) {
    let n = T::from_f64((p.samples * p.area) as f64);
    let moments = channels.moments(i, sum_deviations(&c, channels.mean[i], 0..p.samples) / n);
    let sums = sum_channel(&c, moments, 0..p.samples);
    let grad = channels.finish(i, sums, moments, n);
    for sample in (0..p.samples).rev() {
        let (dy, x, dx) = c.sample(sample);
        write_channel_dx(dy, x, grad, dx);
    }
}

/// dx, dγ and dβ of batch normalisation.
///
/// Reads dy, x: `T[samples, channels, area]`, mean, rstd, γ: `T[channels]`; writes dx: like x, in place of dy or not,
/// by columns ([`BatchNormGrad::row`], [`BatchNormGrad::columns`]), and dγ, dβ: `T[channels]`,
/// [`BatchNormGrad::per_unit`], in [`BatchNormGrad::units`] units; params [`BatchNormGrad`].
pub fn batch_norm_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let p = BatchNormGrad::from_words(args.params());
    let dy = args.inplace(0).is_none().then(|| args.read::<T>(0));
    let (x, mean, rstd, gamma) = (args.read::<T>(1), args.read::<T>(2), args.read::<T>(3), args.read::<T>(4));
    let first = args.units().start * p.per_unit();
    let (mut dx, dgamma, dbeta) = (args.panel::<T>(0), args.write::<T>(1), args.write::<T>(2));
    let (all, units) = (0..p.samples, dgamma.chunks_mut(p.per_unit()).zip(dbeta.chunks_mut(p.per_unit())));
    for (from, (dgamma, dbeta)) in (first..).step_by(p.per_unit()).zip(units) {
        let count = dgamma.len();
        let own = from..from + count;
        let (mean, rstd, gamma) = (&mean[own.clone()], &rstd[own.clone()], &gamma[own]);
        let mut channels = BatchNormChannels { mean, rstd, gamma, dgamma, dbeta };
        if p.area < AREA {
            let own = p.columns_of(from - first..from - first + count);
            let columns = BatchNormColumns {
                dy,
                x,
                row: p.row(),
                of: p.columns_of(from..from + count),
                dx: dx.part(all.clone(), own),
            };
            fill_narrow_grad(&p, columns, channels);
            continue;
        }
        for i in 0..count {
            let own = p.columns_of(from - first + i..from - first + i + 1);
            let of = p.columns_of(from + i..from + i + 1);
            let columns = BatchNormColumns { dy, x, row: p.row(), of, dx: dx.part(all.clone(), own) };
            fill_wide_grad(&p, columns, &mut channels, i);
        }
    }
}

by_dtype!(batch_norm_backward_kernel_for = batch_norm_backward_kernel::<floats>);

#[cfg(test)]
mod tests;
