//! The gradients of quantisation with trained scales (learned step sizes): the cotangents of x and of its scales in one
//! sweep over memory.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`lsq_backward`] | g, x: `T[outer, channels, inner]`, s: `T[channels]` | x̄ like x, partial sums `T[parts, channels]`, scratch | [`Backward`] |
//!
//! Invariant: a partial sum adds the terms of its unit in a fixed order, so its bits depend on shapes alone. Used by
//! the lowering of `lsq_backward`, which adds the partial sums.

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::reduce::pairwise;
use crate::scratch::scratch;
use crate::simd;

/// Elements in one unit, about.
const UNIT: usize = 4096;

/// A channel with fewer neighbouring elements shares a unit with the other channels.
const NARROW: usize = 64;

params! {
    /// Params of [`lsq_backward`].
    pub struct Backward {
        /// The product of the axes before that of the scales.
        pub outer: usize,
        /// Number of scales, at least 1.
        pub channels: usize,
        /// The product of the axes behind that of the scales.
        pub inner: usize,
        /// The lowest code.
        pub lo: f64,
        /// The highest code.
        pub hi: f64,
        /// The factor of the cotangent of a scale.
        pub factor: f64,
    }
}

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitKind {
    /// A part of all elements, which have one scale.
    Part,
    /// The neighbouring elements of one channel.
    Row,
    /// Some outer rows, with all channels.
    Rows,
}

scratch! {
    /// The scratch of a unit of `n` elements.
    struct LsqScratch(n: usize) {
        /// g, then the terms of the cotangents of scales.
        terms: n,
        /// x.
        copy: n,
    }
}

impl Backward {
    fn kind(&self) -> UnitKind {
        match (self.channels, self.inner) {
            (1, _) => UnitKind::Part,
            (_, NARROW..) => UnitKind::Row,
            _ => UnitKind::Rows,
        }
    }

    /// Elements of x̄ in each unit.
    pub fn per_unit(&self) -> usize {
        match self.kind() {
            UnitKind::Part => UNIT,
            UnitKind::Row => self.inner,
            UnitKind::Rows => {
                let row = (self.channels * self.inner).max(1);
                (UNIT / row).max(1) * row
            }
        }
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.outer * self.channels * self.inner).div_ceil(self.per_unit().max(1))
    }

    /// Elements of scratch of each thread.
    pub fn scratch(&self) -> usize {
        LsqScratch::len(self.per_unit())
    }

    /// Partial sums that a unit writes.
    pub fn sums_per_unit(&self) -> usize {
        if self.kind() == UnitKind::Rows { self.channels } else { 1 }
    }

    /// Partial sums of each channel.
    pub fn parts(&self) -> usize {
        self.units() * self.sums_per_unit() / self.channels.max(1)
    }
}

simd! {
    /// x̄ of elements with one scale, and the terms of the cotangent of that scale, in place of g.
    fn lsq_row[T: Float](g: &mut [T], x: &[T], scale: T, lo: T, hi: T, dx: &mut [T]) {
        for ((g, x), dx) in g.iter_mut().zip(x).zip(dx) {
            let z = *x / scale;
            let inside = z >= lo && z <= hi;
            *dx = if inside { *g } else { T::ZERO };
            let cut = if z < lo { lo } else if z > hi { hi } else { z };
            let step = z.round_even() - z;
            *g *= if inside { step } else { cut };
        }
    }
}

/// The cotangents of x, and partial sums of those of the scales.
///
/// Reads g, x: `T[outer, channels, inner]`, s: `T[channels]`; writes x̄: the same as x, in place of g or x or not,
/// [`Backward::per_unit`], the partial sums: `T[parts, channels]`, [`Backward::sums_per_unit`], and scratch
/// (`Split::PerThread`, [`Backward::scratch`]); params [`Backward`].
pub fn lsq_backward<T: Float>(args: &mut Args<'_>) {
    let p = Backward::from_words(args.params());
    let operand = |i: usize| args.inplace(i).is_none().then(|| args.read::<T>(i));
    let (g, x, scales) = (operand(0), operand(1), args.read::<T>(2));
    let (mut unit, per, count) = (args.units().start, p.per_unit(), p.sums_per_unit());
    let (dx, sums, scratch) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2));
    let LsqScratch { terms, copy } = LsqScratch::cut(per, scratch);
    let (lo, hi, factor) = (T::from_f64(p.lo), T::from_f64(p.hi), T::from_f64(p.factor));
    for (dx, sums) in dx.chunks_mut(per).zip(sums.chunks_exact_mut(count)) {
        let (first, n) = (unit * per, dx.len());
        let (terms, copy) = (&mut terms[..n], &mut copy[..n]);
        terms.copy_from_slice(g.map_or(&*dx, |g| &g[first..first + n]));
        copy.copy_from_slice(x.map_or(&*dx, |x| &x[first..first + n]));
        match p.kind() {
            UnitKind::Rows => {
                sums.fill(T::ZERO);
                let rows = terms.chunks_exact_mut(p.inner).zip(copy.chunks_exact(p.inner));
                for (i, ((g, x), dx)) in rows.zip(dx.chunks_exact_mut(p.inner)).enumerate() {
                    let c = i % p.channels;
                    lsq_row(g, x, scales[c], lo, hi, dx);
                    sums[c] += pairwise::reduce_row(pairwise::Sum, g) * factor;
                }
            }
            kind => {
                let c = if kind == UnitKind::Row { unit % p.channels } else { 0 };
                lsq_row(terms, copy, scales[c], lo, hi, dx);
                sums[0] = pairwise::reduce_row(pairwise::Sum, terms) * factor;
            }
        }
        unit += 1;
    }
}

by_dtype!(lsq_backward_for = lsq_backward::<floats>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Split;
    use crate::harness::{In, Out, close, noise, run_in_ranges, written_elements};

    /// The definition: x̄, and the cotangent of each scale.
    fn naive(p: &Backward, g: &[f64], x: &[f64], s: &[f64]) -> [Vec<f64>; 2] {
        let (mut dx, mut ds) = (vec![0.0; x.len()], vec![0.0; s.len()]);
        for (i, (g, x)) in g.iter().zip(x).enumerate() {
            let c = i / p.inner % p.channels;
            let z = x / s[c];
            let inside = z >= p.lo && z <= p.hi;
            dx[i] = if inside { *g } else { 0.0 };
            ds[c] += p.factor * g * if inside { z.round_ties_even() - z } else { z.clamp(p.lo, p.hi) };
        }
        [dx, ds]
    }

    #[test]
    fn cotangents_are_those_of_the_definition_in_place_or_not() {
        for (outer, channels, inner) in [(1, 1, 1), (1, 1, 9000), (3, 5, 70), (700, 6, 1), (2, 3, 5), (0, 3, 2)] {
            let p = Backward { outer, channels, inner, lo: -3.0, hi: 2.0, factor: 0.25 };
            assert_eq!(Backward::from_words(&p.to_words()), p);
            let n = outer * channels * inner;
            let (g, x) = (noise(n, 1), noise(n, 2));
            let s: Vec<f64> = (0..channels).map(|c| 0.2 + 0.1 * c as f64).collect();
            let [dx, ds] = naive(&p, &g, &x, &s);
            let scratch = Out(2 * p.per_unit(), size_of::<f64>(), Split::PerThread(2 * p.per_unit()));
            let sums = Out::of::<f64>(p.parts() * channels, p.sums_per_unit());
            let writes = [Out::of::<f64>(n, p.per_unit()), sums, scratch];
            let reads = [[In::of(&g), In::of(&x)], [In::of(&g).over(0), In::of(&x)], [In::of(&g), In::of(&x).over(0)]];
            for [g, x] in reads {
                let got = run_in_ranges(lsq_backward::<f64>, &p.to_words(), &[g, x, In::of(&s)], &writes, p.units());
                assert_eq!(written_elements::<f64>(&got, 0), dx);
                let mut sums = vec![0.0; channels];
                written_elements::<f64>(&got, 1).iter().enumerate().for_each(|(i, x)| sums[i % channels] += x);
                close(&sums, &ds, 1e-12);
            }
        }
    }
}
