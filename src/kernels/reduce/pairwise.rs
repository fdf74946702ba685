//! Pairwise reductions in a fixed order: the core of every sum, product, maximum and minimum.
//!
//! A *join* is the operation: an addition, a product, a maximum or a minimum.
//!
//! Invariant: the order of the joins depends on the shape alone. A long row is halved again and again, down to blocks,
//! and the two halves are joined. Columns are reduced in blocks of [`ROWS`] rows. The result of a block is a row, and
//! these rows are reduced in the same way. So the error of a sum grows with the logarithm of its length. Used by the
//! reductions, and by kernels that reduce columns while they compute them.

use crate::float::Float;
use crate::num::Num;
use crate::simd;
use crate::vmath;

/// Accumulators of a contiguous row.
const LANES: usize = 32;
/// Elements of a row that one set of accumulators reduces.
pub const BLOCK: usize = 1024;
/// Columns that are reduced together.
pub const TILE: usize = 256;
/// Rows of a block. Its result is one row, which is reduced with the results of the other blocks.
pub const ROWS: usize = 32;
/// Rows that each accumulator of a narrow view takes before the pairwise tree splits.
pub const ACCUMULATIONS: usize = 128;
/// Rows that are joined with one another before they are joined to the result.
pub const GROUP: usize = 4;
/// Views with an inner size up to this reduce several rows in one register.
pub const NARROW: usize = 64;

/// A reduction: a map of each element, then an associative join with an identity.
pub trait PairwiseReducer<T>: Copy {
    /// The map is expensive enough that short rows compute whole vectors of it.
    const COSTLY: bool = false;
    /// Rows of few elements have loops of fixed lengths.
    const FIXED: bool = false;
    /// The identity of the join.
    fn start(self) -> T;
    /// Applied to each element before the join.
    fn map(self, x: T) -> T;
    /// Joins two partial results.
    fn join(self, a: T, b: T) -> T;
}

macro_rules! fold {
    ($(#[$doc:meta])* $name:ident, $bound:ident, $start:ident, $join:ident, |$x:ident| $map:expr $(, $fixed:ident)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name;

        impl<T: $bound> PairwiseReducer<T> for $name {
            $(const $fixed: bool = !cfg!(target_arch = "wasm32");)?
            #[inline(always)]
            fn start(self) -> T {
                T::$start
            }
            #[inline(always)]
            fn map(self, $x: T) -> T {
                $map
            }
            #[inline(always)]
            fn join(self, a: T, b: T) -> T {
                a.$join(b)
            }
        }
    };
}

fold!(/** Σ x. */ Sum, Num, EMPTY_SUM, plus, |x| x, FIXED);
fold!(/** Π x. */ Prod, Num, EMPTY_PROD, times, |x| x);
fold!(/** The greatest x; NaN wins. */ Max, Num, EMPTY_MAX, greater, |x| x);
fold!(/** The least x; NaN wins. */ Min, Num, EMPTY_MIN, lesser, |x| x);
fold!(/** Σ x². */ Squares, Float, EMPTY_SUM, plus, |x| x * x);

/// Σ (x − c)².
#[derive(Clone, Copy)]
pub struct SquaresFrom<T>(pub T);

/// Σ (x − c).
#[derive(Clone, Copy)]
pub struct DeviationsFrom<T>(pub T);

/// Σ exp(x − c).
#[derive(Clone, Copy)]
pub struct ExpFrom<T>(pub T);

/// The same join without the map, for partial results.
#[derive(Clone, Copy)]
struct PairwiseParts<F>(F);

impl<T, F: PairwiseReducer<T>> PairwiseReducer<T> for PairwiseParts<F> {
    #[inline(always)]
    fn start(self) -> T {
        self.0.start()
    }
    #[inline(always)]
    fn map(self, x: T) -> T {
        x
    }
    #[inline(always)]
    fn join(self, a: T, b: T) -> T {
        self.0.join(a, b)
    }
}

macro_rules! fold_from {
    ($name:ident, $costly:literal, |$x:ident, $c:ident| $map:expr) => {
        impl<T: Float> PairwiseReducer<T> for $name<T> {
            const COSTLY: bool = $costly;
            #[inline(always)]
            fn start(self) -> T {
                T::EMPTY_SUM
            }
            #[inline(always)]
            fn map(self, $x: T) -> T {
                let $c = self.0;
                $map
            }
            #[inline(always)]
            fn join(self, a: T, b: T) -> T {
                a + b
            }
        }
    };
}

fold_from!(DeviationsFrom, false, |x, c| x - c);
fold_from!(SquaresFrom, false, |x, c| (x - c) * (x - c));
fold_from!(ExpFrom, true, |x, c| vmath::exp(x - c));

/// Where a row of `n > block` elements is split: at a power of two of blocks.
pub fn split_point(n: usize, block: usize) -> usize {
    n.div_ceil(block).next_power_of_two() / 2 * block
}

/// The same values, passed through memory. Without this, the compiler sees the tree that joins the lanes and splits the
/// accumulators of the preceding loop into short vectors.
#[inline(always)]
pub fn keep_lanes_apart<T, const N: usize>(lanes: [T; N]) -> [T; N] {
    std::hint::black_box(lanes)
}

/// Joins lane i with lane i + HALF. The halves are separate arrays, which stay in registers.
#[inline(always)]
fn join_halves<T: Num, F: PairwiseReducer<T>, const N: usize, const HALF: usize>(f: F, lanes: [T; N]) -> [T; HALF] {
    let mut half = [f.start(); HALF];
    for i in 0..HALF {
        half[i] = f.join(lanes[i], lanes[HALF + i]);
    }
    half
}

/// Joins sixteen lanes in a tree. For use inside `simd!` loops.
#[inline(always)]
pub fn join_lanes<T: Num, F: PairwiseReducer<T>>(f: F, lanes: [T; 16]) -> T {
    let eight: [T; 8] = join_halves(f, lanes);
    let four: [T; 4] = join_halves(f, eight);
    let two: [T; 2] = join_halves(f, four);
    f.join(two[0], two[1])
}

/// Joins all accumulators in a tree.
#[inline(always)]
fn join_accumulators<T: Num, F: PairwiseReducer<T>>(f: F, lanes: &mut [T; LANES]) -> T {
    join_lanes(f, join_halves(f, keep_lanes_apart(*lanes)))
}

/// Reduces at most [`BLOCK`] elements. For use inside `simd!` loops.
#[inline(always)]
pub fn reduce_block<T: Num, F: PairwiseReducer<T>>(f: F, x: &[T]) -> T {
    if x.len() < LANES && F::COSTLY {
        let mut all = [T::EMPTY_SUM; LANES];
        all.iter_mut().zip(x).for_each(|(to, x)| *to = *x);
        all.iter_mut().for_each(|x| *x = f.map(*x));
        return all[..x.len()].iter().fold(f.start(), |a, v| f.join(a, *v));
    }
    if x.len() < LANES {
        return x.iter().fold(f.start(), |a, v| f.join(a, f.map(*v)));
    }
    let mut lanes = [f.start(); LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (a, v) in lanes.iter_mut().zip(chunk) {
            *a = f.join(*a, f.map(*v));
        }
    }
    for (a, v) in lanes.iter_mut().zip(rest) {
        *a = f.join(*a, f.map(*v));
    }
    join_accumulators(f, &mut lanes)
}

simd! {
    fn pairwise_one_block[T: Num, F: PairwiseReducer<T>](f: F, x: &[T]) -> T {
        reduce_block(f, x)
    }
}

/// Reduces each row of `N` elements, in order. For use inside `simd!` loops, which then hold elements of several rows.
#[inline(always)]
fn reduce_rows_of<T: Num, F: PairwiseReducer<T>, const N: usize>(f: F, x: &[T], out: &mut [T]) {
    for (o, row) in out.iter_mut().zip(x.as_chunks::<N>().0) {
        *o = row.iter().fold(f.start(), |a, v| f.join(a, f.map(*v)));
    }
}

simd! {
    fn pairwise_fixed_rows[T: Num, F: PairwiseReducer<T>](f: F, x: &[T], n: usize, out: &mut [T]) {
        match n {
            2 => reduce_rows_of::<T, F, 2>(f, x, out),
            3 => reduce_rows_of::<T, F, 3>(f, x, out),
            4 => reduce_rows_of::<T, F, 4>(f, x, out),
            5 => reduce_rows_of::<T, F, 5>(f, x, out),
            6 => reduce_rows_of::<T, F, 6>(f, x, out),
            7 => reduce_rows_of::<T, F, 7>(f, x, out),
            _ => reduce_rows_of::<T, F, 8>(f, x, out),
        }
    }
}

simd! {
    fn pairwise_short_rows[T: Num, F: PairwiseReducer<T>](f: F, x: &[T], n: usize, out: &mut [T]) {
        for (o, row) in out.iter_mut().zip(x.chunks_exact(n)) {
            *o = reduce_block(f, row);
        }
    }
}

/// Reduces a contiguous row of any length.
pub fn reduce_row<T: Num, F: PairwiseReducer<T>>(f: F, x: &[T]) -> T {
    if x.len() <= BLOCK {
        return pairwise_one_block(f, x);
    }
    let (left, right) = x.split_at(split_point(x.len(), BLOCK));
    f.join(reduce_row(f, left), reduce_row(f, right))
}

/// Reduces each row of `n` elements into one element of `out`.
pub fn reduce_rows<T: Num, F: PairwiseReducer<T>>(f: F, x: &[T], n: usize, out: &mut [T]) {
    if n == 0 {
        out.fill(f.start());
    } else if F::FIXED && (2..=8).contains(&n) {
        pairwise_fixed_rows(f, x, n, out);
    } else if n <= BLOCK {
        pairwise_short_rows(f, x, n, out);
    } else {
        for (o, x) in out.iter_mut().zip(x.chunks_exact(n)) {
            *o = reduce_row(f, x);
        }
    }
}

simd! {
    fn pairwise_dot_block[T: Float](x: &[T], y: &[T], c: T) -> T {
        let mut lanes = [T::EMPTY_SUM; LANES];
        let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
        for (x, y) in xs.iter().zip(ys) {
            for ((a, x), y) in lanes.iter_mut().zip(x).zip(y) {
                *a += *x * (*y - c);
            }
        }
        for ((a, x), y) in lanes.iter_mut().zip(x_rest).zip(y_rest) {
            *a += *x * (*y - c);
        }
        join_accumulators(Sum, &mut lanes)
    }
}

/// Σ x·(y − c) of two slices of equal length.
pub fn dot_shifted<T: Float>(x: &[T], y: &[T], c: T) -> T {
    if x.len() <= BLOCK {
        return pairwise_dot_block(x, y, c);
    }
    let at = split_point(x.len(), BLOCK);
    dot_shifted(&x[..at], &y[..at], c) + dot_shifted(&x[at..], &y[at..], c)
}

simd! {
    fn pairwise_moments_block[T: Float](x: &[T], c: T) -> [T; 2] {
        let (mut sums, mut squares) = ([T::EMPTY_SUM; LANES], [T::EMPTY_SUM; LANES]);
        let (chunks, rest) = x.as_chunks::<LANES>();
        for chunk in chunks {
            for ((sum, square), x) in sums.iter_mut().zip(&mut squares).zip(chunk) {
                let d = *x - c;
                *sum += d;
                *square += d * d;
            }
        }
        for ((sum, square), x) in sums.iter_mut().zip(&mut squares).zip(rest) {
            let d = *x - c;
            *sum += d;
            *square += d * d;
        }
        [join_accumulators(Sum, &mut sums), join_accumulators(Sum, &mut squares)]
    }
}

/// Σ (x − c) and Σ (x − c)², in one sweep.
pub fn shifted_moments<T: Float>(x: &[T], c: T) -> [T; 2] {
    if x.len() <= BLOCK {
        return pairwise_moments_block(x, c);
    }
    let (left, right) = x.split_at(split_point(x.len(), BLOCK));
    let ([a, b], [sum, square]) = (shifted_moments(left, c), shifted_moments(right, c));
    [a + sum, b + square]
}

/// Σ x·y of two slices of equal length.
pub fn dot_slices<T: Float>(x: &[T], y: &[T]) -> T {
    dot_shifted(x, y, T::ZERO)
}

/// Joins a row to `out`. For use inside `simd!` loops.
#[inline(always)]
pub fn join_row<T: Num, F: PairwiseReducer<T>>(f: F, x: &[T], out: &mut [T]) {
    for (o, x) in out.iter_mut().zip(x) {
        *o = f.join(*o, f.map(*x));
    }
}

/// Joins a group of rows to `out`, with a quarter of the memory traffic of [`join_row`]. For use inside `simd!`
/// loops.
#[inline(always)]
pub fn join_group<T: Num, F: PairwiseReducer<T>>(f: F, [a, b, c, d]: [&[T]; GROUP], out: &mut [T]) {
    for ((((o, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        let (ab, cd) = (f.join(f.map(*a), f.map(*b)), f.join(f.map(*c), f.map(*d)));
        *o = f.join(*o, f.join(ab, cd));
    }
}

simd! {
    fn pairwise_column_block[T: Num, F: PairwiseReducer<T>](f: F, x: &[T], stride: usize, out: &mut [T]) {
        let w = out.len();
        out.fill(f.start());
        for group in x.chunks(GROUP * stride) {
            if group.len() < (GROUP - 1) * stride + w {
                group.chunks(stride).filter(|x| x.len() >= w).for_each(|x| join_row(f, x, out));
            } else {
                join_group(f, std::array::from_fn(|i| &group[i * stride..][..w]), out);
            }
        }
    }
}

/// Reduces `n` rows, `stride` elements apart, column by column: `out[c] = ⊕ x[r * stride + c]`. `out` has at most
/// [`TILE`] columns; `x` starts at the first of them.
pub fn fold_columns<T: Num, F: PairwiseReducer<T>>(f: F, x: &[T], n: usize, stride: usize, out: &mut [T]) {
    if n <= ROWS {
        // The last row ends with its last column: the slice may end there.
        let end = if n == 0 { 0 } else { (n - 1) * stride + out.len() };
        return pairwise_column_block(f, &x[..end], stride, out);
    }
    let (mut each, w) = (ROWS, out.len());
    while each < n.div_ceil(ROWS) {
        each *= ROWS;
    }
    out.fill(f.start());
    let mut parts = [[f.start(); TILE]; GROUP];
    for group in (0..n).step_by(GROUP * each) {
        let count = (n - group).div_ceil(each).min(GROUP);
        for (part, from) in parts[..count].iter_mut().zip((group..n).step_by(each)) {
            fold_columns(f, &x[from * stride..], each.min(n - from), stride, &mut part[..w]);
        }
        pairwise_join_columns(f, &parts[..count], out);
    }
}

simd! {
    /// Joins the results of blocks as if they were rows of a block.
    fn pairwise_join_columns[T: Num, F: PairwiseReducer<T>](f: F, parts: &[[T; TILE]], out: &mut [T]) {
        let (f, w) = (PairwiseParts(f), out.len());
        match parts {
            [a, b, c, d] => join_group(f, [&a[..w], &b[..w], &c[..w], &d[..w]], out),
            few => few.iter().for_each(|x| join_row(f, &x[..w], out)),
        }
    }
}

simd! {
    fn pairwise_narrow_block[T: Num, F: PairwiseReducer<T>](f: F, x: &[T], out: &mut [T]) {
        if x.len() < 4 * NARROW {
            // Too short for accumulators to pay off.
            out.fill(f.start());
            for part in x.chunks_exact(out.len()) {
                for (o, v) in out.iter_mut().zip(part) {
                    *o = f.join(*o, f.map(*v));
                }
            }
            return;
        }
        let mut acc = [f.start(); NARROW];
        let width = NARROW / out.len() * out.len();
        let mut rest = x;
        // A whole register is added, although only `width` elements of it count: a fixed length vectorises.
        while let Some(window) = rest.first_chunk::<NARROW>() {
            for (a, v) in acc.iter_mut().zip(window) {
                *a = f.join(*a, f.map(*v));
            }
            rest = &rest[width..];
        }
        for part in rest.chunks(width) {
            for (a, v) in acc.iter_mut().zip(part) {
                *a = f.join(*a, f.map(*v));
            }
        }
        out.fill(f.start());
        for part in acc[..width].chunks_exact(out.len()) {
            for (o, v) in out.iter_mut().zip(part) {
                *o = f.join(*o, *v);
            }
        }
    }
}

/// Reduces contiguous rows of `out.len()` elements, at most [`NARROW`], column by column.
pub fn reduce_narrow_rows<T: Num, F: PairwiseReducer<T>>(f: F, x: &[T], out: &mut [T]) {
    let inner = out.len();
    let most = ACCUMULATIONS * (NARROW / inner);
    if x.len() <= most * inner {
        return pairwise_narrow_block(f, x, out);
    }
    let (left, right) = x.split_at(split_point(x.len() / inner, most) * inner);
    let mut other = [f.start(); NARROW];
    reduce_narrow_rows(f, left, out);
    reduce_narrow_rows(f, right, &mut other[..inner]);
    for (o, r) in out.iter_mut().zip(&other) {
        *o = f.join(*o, *r);
    }
}
