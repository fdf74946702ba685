//! Group normalisation of x `[samples, groups, channels, area]`, and its adjoint, each in one sweep.
//!
//! A *row* is a group of one sample: `channels · area` adjacent elements with one mean and one rstd. With
//! x̂ = (x − mean)·rstd: y = γ·x̂ + β, dx = rstd·(γ·dy − mean(γ·dy) − x̂·mean(γ·dy·x̂)), dγ = Σ dy·x̂, dβ = Σ dy, where
//! γ and β belong to a channel.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`group_norm_kernel`] | x: `T[rows, channels, area]`, γ, β: `T[groups, channels]` | y: like x, mean, rstd: `T[rows]` | [`GroupNorm`] |
//! | [`group_norm_backward_kernel`] | dy, x: `T[rows, channels, area]`, mean, rstd: `T[rows]`, γ: `T[groups, channels]` | dx: `T[rows, channels, area]`, partial dγ, dβ: `T[partials, groups, channels]` | [`GroupNormGrad`] |
//!
//! Two [`reduce::sum`](crate::reduce::sum) with params [`GroupNormGrad::combine`] turn the partial dγ and dβ
//! into dγ and dβ.
//!
//! Invariant: a unit is some rows, which it reads twice: for the sums over each channel, then for dx. If there are many
//! samples, a unit is whole samples and adds up their dγ and dβ; so the partials are smaller than x. The shape decides
//! between the two, and fixes the order of all sums.

use super::channel_grad::{ChannelGrad, LANES, sum_channel_terms, write_channel_dx};
use super::layer_norm;
use super::moments::Moments;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::reduce::Reduce;
use crate::reduce::pairwise;
use crate::simd;

/// Approximate number of elements in a unit.
const UNIT: usize = 4096;
/// Number of units from which on a unit takes whole samples.
const UNITS: usize = 32;
/// The partial dγ and dβ have at most an eighth of the elements of x each, if there are as many samples.
const SHARE: usize = 8;
/// Most samples of a unit: their dγ are added one after the other.
const MOST: usize = 256;

params! {
    /// Params of [`group_norm_kernel`]: the view of x, whose rows are not empty.
    pub struct GroupNorm {
        /// Groups of all samples.
        pub rows: usize,
        /// Runs of channels.
        pub groups: usize,
        /// Channels in a group.
        pub channels: usize,
        /// Elements of a channel of a sample.
        pub area: usize,
        /// Added to the variance.
        pub eps: f64,
    }
}

impl GroupNorm {
    /// Rows in a unit: elements of mean and of rstd.
    pub fn rows_per_unit(&self) -> usize {
        (UNIT / (self.channels * self.area)).max(1)
    }

    /// Elements of y in a unit.
    pub fn per_unit(&self) -> usize {
        self.rows_per_unit() * self.channels * self.area
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.rows.div_ceil(self.rows_per_unit())
    }
}

simd! {
    /// One channel of a row.
    fn group_norm_channel[T: Float](x: &[T], m: Moments<T>, gamma: T, beta: T, y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = m.centred(*x) * m.rstd * gamma + beta;
        }
    }
}

/// y = γ·(x − mean)/√(variance + ε) + β, with the biased variance of each row.
///
/// Reads x: `T[rows, channels, area]`, γ, β: `T[groups, channels]`; writes y: like x,
/// [`GroupNorm::per_unit`], and mean, rstd: `T[rows]`, [`GroupNorm::rows_per_unit`]; params [`GroupNorm`].
pub fn group_norm_kernel<T: Float>(args: &mut Args<'_>) {
    let p = GroupNorm::from_words(args.params());
    let (first, size) = (args.units().start * p.rows_per_unit(), p.channels * p.area);
    let (x, gamma, beta) = (args.read::<T>(0), args.read::<T>(1), args.read::<T>(2));
    let (y, means, rstds) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2));
    let statistics = means.iter_mut().zip(rstds);
    for (r, (y, (mean, rstd))) in (first..).zip(y.chunks_exact_mut(size).zip(statistics)) {
        let x = &x[r * size..][..size];
        let m = Moments::of_row(x, T::from_f64(p.eps));
        (*mean, *rstd) = (m.mean, m.rstd);
        let own = r % p.groups * p.channels..(r % p.groups + 1) * p.channels;
        let (gamma, beta) = (&gamma[own.clone()], &beta[own]);
        if p.area == 1 {
            layer_norm::layer_norm_affine_row(x, m, (gamma, beta), y);
            continue;
        }
        let channels = y.chunks_exact_mut(p.area).zip(x.chunks_exact(p.area));
        for ((y, x), (gamma, beta)) in channels.zip(gamma.iter().zip(beta)) {
            group_norm_channel(x, m, *gamma, *beta, y);
        }
    }
}

by_dtype!(group_norm_kernel_for = group_norm_kernel::<floats>);

params! {
    /// Params of [`group_norm_backward_kernel`]: the view of x, which is not empty.
    pub struct GroupNormGrad {
        /// Size of the batch.
        pub samples: usize,
        /// Runs of channels.
        pub groups: usize,
        /// Channels in a group.
        pub channels: usize,
        /// Elements of a channel of a sample.
        pub area: usize,
    }
}

impl GroupNormGrad {
    /// Elements of a row.
    fn row(&self) -> usize {
        self.channels * self.area
    }

    /// Samples whose dγ and dβ are added in one unit.
    fn samples_per_unit(&self) -> usize {
        let sample = self.groups * self.row();
        let few = (UNIT / sample).max(SHARE.div_ceil(self.area));
        self.samples.div_ceil(UNITS).max(few).clamp(1, MOST).min(self.samples)
    }

    /// Rows in a unit.
    fn rows_per_unit(&self) -> usize {
        match self.samples_per_unit() {
            1 => (UNIT / self.row()).clamp(1, self.samples * self.groups),
            many => many * self.groups,
        }
    }

    /// Elements of dx in a unit.
    pub fn per_unit(&self) -> usize {
        self.rows_per_unit() * self.row()
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.samples * self.groups).div_ceil(self.rows_per_unit())
    }

    /// Rows of `groups · channels` elements of the partial dγ, and of the partial dβ.
    pub fn partials(&self) -> usize {
        self.samples.div_ceil(self.samples_per_unit())
    }

    /// Elements of the partial dγ in a unit, and of the partial dβ.
    pub fn partials_per_unit(&self) -> usize {
        match self.samples_per_unit() {
            1 => self.rows_per_unit() * self.channels,
            _ => self.groups * self.channels,
        }
    }

    /// The reduction of the partial dγ to dγ, and of the partial dβ to dβ.
    pub fn combine(&self) -> Reduce {
        Reduce::new(1, self.partials(), self.groups * self.channels)
    }
}

/// A row: what is read, and what its terms of dγ and dβ are added to.
struct GroupRow<'a, T> {
    /// If absent, dx holds it.
    dy: Option<&'a [T]>,
    x: &'a [T],
    mean: T,
    rstd: T,
    /// Of the channels of the group, as are dγ and dβ.
    gamma: &'a [T],
    dgamma: &'a mut [T],
    dbeta: &'a mut [T],
}

/// The gradient of one row.
fn fill_row_grad<T: Float>(row: GroupRow<'_, T>, area: usize, dx: &mut [T]) {
    let GroupRow { dy, x, rstd, .. } = row;
    let moments = Moments::known(row.mean, rstd, x);
    let (mut sums, mut dots) = ([T::ZERO; LANES], [T::ZERO; LANES]);
    let channels = row.gamma.iter().zip(row.dgamma).zip(row.dbeta).enumerate();
    for (c, ((gamma, dgamma), dbeta)) in channels {
        let run = c * area..(c + 1) * area;
        let sum = sum_channel_terms(&dy.unwrap_or(&*dx)[run.clone()], &x[run], moments);
        *dgamma += sum.dot * rstd;
        *dbeta += sum.dy;
        sums[c % LANES] += *gamma * sum.dy;
        dots[c % LANES] += *gamma * sum.dot;
    }
    let n = T::from_f64(x.len() as f64);
    let shift = pairwise::join_lanes(pairwise::Sum, sums) / n;
    let slope = pairwise::join_lanes(pairwise::Sum, dots) * rstd / n * rstd;
    for ((c, gamma), dx) in row.gamma.iter().enumerate().zip(dx.chunks_exact_mut(area)) {
        let run = c * area..(c + 1) * area;
        let p = ChannelGrad { moments, gamma: *gamma, shift, slope, scale: rstd };
        write_channel_dx(dy.map(|dy| &dy[run.clone()]), &x[run.clone()], p, dx);
    }
}

/// The gradient of one row whose channels have one element each, out of place: that of a layer norm.
fn fill_flat_row_grad<T: Float>(dy: &[T], row: GroupRow<'_, T>, dx: &mut [T]) {
    layer_norm::add_row_grad(dy, row.x, (row.mean, row.rstd), row.gamma, dx, (row.dgamma, row.dbeta));
}

/// dx of group normalisation, and for each unit the partial dγ and dβ.
///
/// Reads dy, x: `T[rows, channels, area]`, mean, rstd: `T[rows]`, γ: `T[groups, channels]`; writes dx: like x, in place
/// of dy or not (if `area` is 1, not), [`GroupNormGrad::per_unit`], and partial dγ, dβ:
/// `T[partials, groups, channels]`, [`GroupNormGrad::partials_per_unit`], in [`GroupNormGrad::units`] units; params
/// [`GroupNormGrad`].
pub fn group_norm_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let p = GroupNormGrad::from_words(args.params());
    let dy = args.inplace(0).is_none().then(|| args.read::<T>(0));
    let (x, mean, rstd, gamma) = (args.read::<T>(1), args.read::<T>(2), args.read::<T>(3), args.read::<T>(4));
    let (start, size) = (args.units().start, p.row());
    let (dx, dgamma, dbeta) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2));
    let partials = dgamma.chunks_mut(p.partials_per_unit()).zip(dbeta.chunks_mut(p.partials_per_unit()));
    for (unit, (dx, (dgamma, dbeta))) in (start..).zip(dx.chunks_mut(p.per_unit()).zip(partials)) {
        dgamma.fill(T::ZERO);
        dbeta.fill(T::ZERO);
        let first = unit * p.rows_per_unit();
        for (i, dx) in dx.chunks_exact_mut(size).enumerate() {
            let r = first + i;
            // Samples of one unit share their partials.
            let at = i * p.channels % dgamma.len();
            let row = GroupRow {
                dy: dy.map(|dy| &dy[r * size..][..size]),
                x: &x[r * size..][..size],
                mean: mean[r],
                rstd: rstd[r],
                gamma: &gamma[r % p.groups * p.channels..][..p.channels],
                dgamma: &mut dgamma[at..][..p.channels],
                dbeta: &mut dbeta[at..][..p.channels],
            };
            match (p.area, row.dy) {
                (1, Some(dy)) => fill_flat_row_grad(dy, row, dx),
                (area, _) => fill_row_grad(row, area, dx),
            }
        }
    }
}

by_dtype!(group_norm_backward_kernel_for = group_norm_backward_kernel::<floats>);

#[cfg(test)]
mod tests;
