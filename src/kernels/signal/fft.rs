//! Fourier transforms of rows, of any length from 1 on. The crate `arenagrad-fft` has the algorithms; the
//! tables of a length are made once, when a program is compiled ([`Tables`]). Half spectra of rows of even length are
//! finished here (`half_spectrum`).
//!
//! Invariant: the rows of one unit are transformed by one call, so bits do not depend on the number of threads.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`fft_kernel`] | z: `[T; 2][rows, n]` | `[T; 2][rows, n]` | [`FftRows`] |
//! | [`rfft_kernel`] | x: `T[rows, n]` | `[T; 2][rows, n/2 + 1]` | [`FftRows`] |
//! | [`irfft_kernel`] | z: `[T; 2][rows, n/2 + 1]` | `T[rows, n]` | [`FftRows`] |
//!
//! Each writes scratch of [`Tables::scratch`] elements of `T` besides.

use super::half_spectrum::HalfTwiddles;
use crate::abi::{Args, Kernel, Prepared};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::vmath::Real;
use arenagrad_arena::dtype::DType;
use arenagrad_fft::{Complex, ComplexToReal, Fft, FftDirection, FftFloat, RealToComplex};
use bytemuck::Pod;
use std::sync::Arc;

/// Elements in a unit, about.
const UNIT: usize = 4096;

params! {
    /// Params of the kernels of this file.
    pub struct FftRows {
        /// Number of rows.
        pub rows: usize,
        /// Length of the transform: that of the real or complex row, not of the half spectrum.
        pub n: usize,
        /// What each result is multiplied by.
        pub scale: f64,
    }
}

impl FftRows {
    /// Rows in a unit.
    pub fn rows_per_unit(&self) -> usize {
        (UNIT / self.n.max(1)).max(1)
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.rows.div_ceil(self.rows_per_unit())
    }

    /// Length of the half spectrum of a real row.
    pub fn half(&self) -> usize {
        self.n / 2 + 1
    }
}

/// The kind of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Complex to complex, e^(−2πikn/N).
    Forward,
    /// Complex to complex, e^(+2πikn/N).
    Inverse,
    /// Real to the half spectrum.
    Real,
    /// The half spectrum to real.
    RealInverse,
}

/// The tables of one kind of transform.
enum FftTable<T> {
    Complex(Arc<dyn Fft<T>>),
    /// Real rows of even length: the transform of half the length.
    Half(Arc<dyn Fft<T>>, HalfTwiddles<T>),
    Real(Arc<dyn RealToComplex<T>>),
    RealInverse(Arc<dyn ComplexToReal<T>>),
}

/// The tables of transforms of one kind and length, for rows of `T`.
pub struct Tables<T> {
    table: FftTable<T>,
    scratch: usize,
}

impl<T: FftFloat + Float> Tables<T> {
    /// Makes the tables.
    fn new(kind: Kind, n: usize) -> Tables<T> {
        let (table, scratch) = match kind {
            Kind::Forward | Kind::Inverse => {
                let forward = kind == Kind::Forward;
                let t = T::plan_complex_fft(n, if forward { FftDirection::Forward } else { FftDirection::Inverse });
                let scratch = 2 * t.get_immutable_scratch_len();
                (FftTable::Complex(t), scratch)
            }
            Kind::Real if n.is_multiple_of(2) => {
                let t = T::plan_complex_fft(n / 2, FftDirection::Forward);
                let scratch = 2 * t.get_immutable_scratch_len();
                (FftTable::Half(t, HalfTwiddles::new(n)), scratch)
            }
            Kind::Real => {
                let t = T::plan_real_fft(n);
                // The transform overwrites the row that it reads, so it reads a copy.
                let scratch = n + 2 * t.get_scratch_len();
                (FftTable::Real(t), scratch)
            }
            Kind::RealInverse => {
                let t = T::plan_inverse_real_fft(n);
                let scratch = 2 * (n / 2 + 1) + 2 * t.get_scratch_len();
                (FftTable::RealInverse(t), scratch)
            }
        };
        Tables { table, scratch }
    }
}

/// The kernel of transforms of one kind, its tables, and the elements of scratch that a thread needs. `float` is the
/// type of the parts.
pub fn transform_kernel_for(kind: Kind, n: usize, float: DType) -> Result<(Kernel, Prepared, usize), String> {
    fn made<T: FftFloat + Float>(kind: Kind, n: usize) -> (Prepared, usize) {
        let tables = Tables::<T>::new(kind, n);
        let scratch = tables.scratch;
        (Arc::new(tables), scratch)
    }
    let kernel = match kind {
        Kind::Forward | Kind::Inverse => complex_rows_for(float)?,
        Kind::Real => rfft_rows_for(float)?,
        Kind::RealInverse => irfft_rows_for(float)?,
    };
    let (tables, scratch) = if float == DType::F64 { made::<f64>(kind, n) } else { made::<f32>(kind, n) };
    Ok((kernel, tables, scratch))
}

/// Complex transforms of rows, in the direction of the tables.
///
/// Reads z: `[T; 2][rows, n]`; writes `[T; 2][rows, n]`, [`FftRows::rows_per_unit`] rows; params [`FftRows`].
pub fn fft_kernel<T: FftFloat + Pod>(args: &mut Args<'_>) {
    let p = FftRows::from_words(args.params());
    let FftTable::Complex(table) = &args.prepared::<Tables<T>>().table else { return };
    let (part, from) = (p.rows_per_unit() * p.n, args.units().start * p.rows_per_unit() * p.n);
    let (z, out) = (args.read::<Complex<T>>(0), args.write::<Complex<T>>(0));
    let scratch: &mut [Complex<T>] = bytemuck::cast_slice_mut(args.write::<T>(1));
    let scale = T::from_f64(p.scale);
    for (z, out) in z[from..].chunks(part).zip(out.chunks_mut(part)) {
        table.process_immutable_with_scratch(z, out, scratch);
        if let Some(scale) = scale.filter(|s| *s != T::one()) {
            out.iter_mut().for_each(|z| *z = Complex::new(z.re * scale, z.im * scale));
        }
    }
}

/// Half spectra of real rows.
///
/// Reads x: `T[rows, n]`; writes `[T; 2][rows, n/2 + 1]`, [`FftRows::rows_per_unit`] rows; params [`FftRows`].
pub fn rfft_kernel<T: FftFloat + Float>(args: &mut Args<'_>) {
    let p = FftRows::from_words(args.params());
    let from = args.units().start * p.rows_per_unit() * p.n;
    let (x, out) = (&args.read::<T>(0)[from..], args.write::<Complex<T>>(0));
    match &args.prepared::<Tables<T>>().table {
        FftTable::Half(table, twiddles) => {
            let scratch: &mut [Complex<T>] = bytemuck::cast_slice_mut(args.write::<T>(1));
            for (x, out) in x.chunks_exact(p.n).zip(out.chunks_exact_mut(p.half())) {
                table.process_immutable_with_scratch(bytemuck::cast_slice(x), &mut out[..p.n / 2], scratch);
                twiddles.finish(bytemuck::cast_slice_mut(out), <T as Real>::from_f64(p.scale));
            }
        }
        FftTable::Real(table) => transform_odd_rows(&p, table.as_ref(), x, out, args.write::<T>(1)),
        _ => {}
    }
}

/// Half spectra of rows of odd length.
fn transform_odd_rows<T: FftFloat + Pod>(
    p: &FftRows,
    table: &dyn RealToComplex<T>,
    x: &[T],
    out: &mut [Complex<T>],
    scratch: &mut [T],
) {
    let (row, scratch) = scratch.split_at_mut(p.n);
    let scratch: &mut [Complex<T>] = bytemuck::cast_slice_mut(scratch);
    let scale = T::from_f64(p.scale).unwrap_or(T::one());
    for (x, out) in x.chunks_exact(p.n).zip(out.chunks_exact_mut(p.half())) {
        row.copy_from_slice(x);
        let done = table.process_with_scratch(row, out, scratch);
        assert!(done.is_ok(), "the lengths of a row are those of its tables");
        out.iter_mut().for_each(|z| *z = Complex::new(z.re * scale, z.im * scale));
    }
}

/// Real rows of half spectra. The imaginary part of the first element, and for an even n of the last, is ignored.
///
/// Reads z: `[T; 2][rows, n/2 + 1]`; writes `T[rows, n]`, [`FftRows::rows_per_unit`] rows; params [`FftRows`].
pub fn irfft_kernel<T: FftFloat + Pod>(args: &mut Args<'_>) {
    let p = FftRows::from_words(args.params());
    let FftTable::RealInverse(table) = &args.prepared::<Tables<T>>().table else { return };
    let from = args.units().start * p.rows_per_unit() * p.half();
    let (z, out) = (args.read::<Complex<T>>(0), args.write::<T>(0));
    let scratch: &mut [Complex<T>] = bytemuck::cast_slice_mut(args.write::<T>(1));
    let (row, scratch) = scratch.split_at_mut(p.half());
    let scale = T::from_f64(p.scale).unwrap_or(T::one());
    for (z, out) in z[from..].chunks_exact(p.half()).zip(out.chunks_exact_mut(p.n)) {
        row.copy_from_slice(z);
        row[0].im = T::zero();
        if p.n.is_multiple_of(2) {
            row[p.n / 2].im = T::zero();
        }
        let done = table.process_with_scratch(row, out, scratch);
        assert!(done.is_ok(), "the lengths of a row are those of its tables");
        out.iter_mut().for_each(|x| *x = *x * scale);
    }
}

by_dtype!(complex_rows_for = fft_kernel::<floats>);
by_dtype!(rfft_rows_for = rfft_kernel::<floats>);
by_dtype!(irfft_rows_for = irfft_kernel::<floats>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{In, Out, noise, run_prepared, written_elements};
    use std::f64::consts::TAU;

    /// Σ zₖ e^(sign·2πikj/n) by definition.
    fn definition(z: &[[f64; 2]], sign: f64) -> Vec<[f64; 2]> {
        let n = z.len();
        let term = |j: usize, k: usize| {
            let (s, c) = (sign * TAU * ((j * k) % n) as f64 / n as f64).sin_cos();
            [z[k][0] * c - z[k][1] * s, z[k][0] * s + z[k][1] * c]
        };
        let sum = |j| (0..n).map(|k| term(j, k)).fold([0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
        (0..n).map(sum).collect()
    }

    /// The lengths of the tests: all small ones, powers, primes, and products.
    fn lengths() -> impl Iterator<Item = usize> {
        (1..=64).chain([97, 128, 360, 1000, 1009])
    }

    /// Rows of `n`, whose results have `out` elements.
    fn run_kind<I: Pod, O: Pod>(kind: Kind, float: DType, p: FftRows, x: &[I], out: usize) -> Vec<O> {
        let FftRows { rows, n, .. } = p;
        let (kernel, tables, scratch) = transform_kernel_for(kind, n, float).unwrap();
        let writes = [
            Out::of::<O>(rows * out, p.rows_per_unit() * out),
            Out(scratch, float.size(), crate::abi::Split::PerThread(scratch)),
        ];
        written_elements(&run_prepared(kernel, (&p.to_words(), Some(&tables)), &[In::of(x)], &writes, p.units()), 0)
    }

    fn rms(got: impl Iterator<Item = [f64; 2]>, want: &[[f64; 2]]) -> f64 {
        let squares = |z: [f64; 2]| z[0] * z[0] + z[1] * z[1];
        let off: f64 = got.zip(want).map(|(a, b)| squares([a[0] - b[0], a[1] - b[1]])).sum();
        (off / want.iter().copied().map(squares).sum::<f64>()).sqrt()
    }

    #[test]
    fn transforms_are_their_definition() {
        for n in lengths() {
            let rows = 3;
            let z: Vec<[f64; 2]> = noise(2 * rows * n, 5).as_chunks::<2>().0.to_vec();
            let small: Vec<[f32; 2]> = z.iter().map(|z| z.map(|x| x as f32)).collect();
            for (kind, sign) in [(Kind::Forward, -1.0), (Kind::Inverse, 1.0)] {
                let want: Vec<[f64; 2]> = z.chunks(n).flat_map(|row| definition(row, sign)).collect();
                let got: Vec<[f64; 2]> = run_kind(kind, DType::F64, FftRows { rows, n, scale: 1.0 }, &z, n);
                assert!(rms(got.into_iter(), &want) <= 1e-12, "{kind:?} {n}");
                let got: Vec<[f32; 2]> = run_kind(kind, DType::F32, FftRows { rows, n, scale: 1.0 }, &small, n);
                let near = 3e-7 * (n as f64).log2().max(1.0);
                assert!(rms(got.into_iter().map(|z| z.map(f64::from)), &want) <= near, "{kind:?} {n} in f32");
            }
        }
    }

    #[test]
    fn real_transforms_are_halves_of_complex_ones() {
        for n in lengths() {
            let (rows, half) = (2, n / 2 + 1);
            let x = noise(rows * n, 9);
            let full = |row: &[f64]| definition(&row.iter().map(|x| [*x, 0.0]).collect::<Vec<_>>(), -1.0);
            let want: Vec<[f64; 2]> = x.chunks(n).flat_map(|row| full(row)[..half].to_vec()).collect();
            let got: Vec<[f64; 2]> = run_kind(Kind::Real, DType::F64, FftRows { rows, n, scale: 1.0 }, &x, half);
            assert!(rms(got.iter().copied(), &want) <= 1e-12, "{n}");
            // Imaginary parts that no real row has are ignored.
            let mut odd = got.clone();
            for row in odd.chunks_mut(half) {
                row[0][1] += 7.0;
                row[half - 1][1] += if n % 2 == 0 { 3.0 } else { 0.0 };
            }
            let p = FftRows { rows, n, scale: 1.0 / n as f64 };
            let back: Vec<f64> = run_kind(Kind::RealInverse, DType::F64, p, &odd, n);
            assert!(back.iter().zip(&x).all(|(a, b)| (a - b).abs() <= 1e-12), "{n}");
        }
    }

    #[test]
    fn units_of_many_rows_have_the_bits_of_the_same_units() {
        for n in [1, 2, 3, 4, 8, 16, 23, 4097] {
            let rows = 3 * UNIT.div_ceil(n) + 1;
            let z: Vec<[f32; 2]> =
                noise(2 * rows * n, 3).as_chunks::<2>().0.iter().map(|z| z.map(|x| x as f32)).collect();
            // `run_kind` asserts it for 1, 2, 3 and 7 ranges of units.
            let y: Vec<[f32; 2]> = run_kind(Kind::Forward, DType::F32, FftRows { rows, n, scale: 0.5 }, &z, n);
            assert_eq!(y.len(), z.len());
        }
    }
}
