//! Loops over rows. They are inlined into the algorithms, which `simd!` compiles for each instruction set.

use crate::float::Float;

/// Partial sums of a dot product.
const LANES: usize = 16;

/// y += a·x.
#[inline(always)]
pub fn add_scaled_matrix_row<T: Float>(a: T, x: &[T], y: &mut [T]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = a.mul_add(*x, *y);
    }
}

/// y −= Σ m[p]·x[p, from ..] with `p` ascending, where row `p` of x begins at `p · width`. Four rows at a time: the
/// elements of y stay in registers.
#[inline(always)]
pub fn subtract_scaled_rows<T: Float>(m: &[T], x: &[T], width: usize, from: usize, y: &mut [T]) {
    let len = y.len();
    let row = |p: usize| &x[p * width + from..][..len];
    let fours = m.len() / 4 * 4;
    for p in (0..fours).step_by(4) {
        let (a, b, c, d) = (-m[p], -m[p + 1], -m[p + 2], -m[p + 3]);
        let rows = row(p).iter().zip(row(p + 1)).zip(row(p + 2)).zip(row(p + 3));
        for (y, (((x0, x1), x2), x3)) in y.iter_mut().zip(rows) {
            *y = d.mul_add(*x3, c.mul_add(*x2, b.mul_add(*x1, a.mul_add(*x0, *y))));
        }
    }
    for (p, m) in m.iter().enumerate().skip(fours) {
        add_scaled_matrix_row(-*m, row(p), y);
    }
}

/// Σ x·y, in [`LANES`] partial sums.
#[inline(always)]
pub fn dot_rows<T: Float>(x: &[T], y: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let rest = xs.remainder().iter().zip(ys.remainder());
    for (x, y) in xs.zip(ys) {
        for l in 0..LANES {
            sums[l] = x[l].mul_add(y[l], sums[l]);
        }
    }
    for (l, (x, y)) in rest.enumerate() {
        sums[l] = x.mul_add(*y, sums[l]);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            sums[l] += sums[l + half];
        }
        half /= 2;
    }
    sums[0]
}

/// (x, y) becomes (c·x − s·y, s·x + c·y).
#[inline(always)]
pub fn rotate_rows<T: Float>(c: T, s: T, x: &mut [T], y: &mut [T]) {
    for (x, y) in x.iter_mut().zip(y) {
        let (a, b) = (*x, *y);
        *x = c.mul_add(a, -(s * b));
        *y = s.mul_add(a, c * b);
    }
}

/// x *= a.
#[inline(always)]
pub fn scale_matrix_row<T: Float>(a: T, x: &mut [T]) {
    for x in x {
        *x *= a;
    }
}

/// Rows `i` < `j` of a matrix of rows of `width` elements.
#[inline(always)]
pub fn two_rows_mut<T>(x: &mut [T], width: usize, i: usize, j: usize) -> (&mut [T], &mut [T]) {
    let (head, tail) = x.split_at_mut(j * width);
    (&mut head[i * width..][..width], &mut tail[..width])
}

/// max |x|; NaN or an infinity if x holds one.
#[inline(always)]
pub fn largest_of_matrix_row<T: Float>(x: &[T]) -> T {
    // A comparison with NaN is false.
    let larger = |most: T, x: T| if x.abs() <= most || most.is_nan() { most } else { x.abs() };
    let (lanes, rest) = x.as_chunks::<LANES>();
    let mut most = [T::ZERO; LANES];
    for x in lanes {
        for (most, x) in most.iter_mut().zip(x) {
            *most = larger(*most, *x);
        }
    }
    most.iter().chain(rest).fold(T::ZERO, |most, x| larger(most, *x))
}

/// The place of the first of the largest magnitudes; that of the first NaN if there is one. 0 if x is empty.
#[inline(always)]
pub fn place_of_largest_in_matrix_row<T: Float>(x: &[T]) -> usize {
    let most = largest_of_matrix_row(x);
    x.iter().position(|x| x.abs() == most || x.is_nan()).unwrap_or(0)
}

/// The distance from 1 to the next number.
#[inline(always)]
pub fn matrix_row_epsilon<T: Float>() -> T {
    T::from_f64(if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON })
}

/// The reflector H = 1 − τ·v·vᵀ, v₀ = 1, that maps x to (β, 0, …). Writes v over x; gives (τ, β). x must hold no
/// number whose square overflows. If all but x₀ is 0, H is the identity.
#[inline(always)]
pub fn matrix_row_reflector<T: Float>(x: &mut [T]) -> (T, T) {
    let Some((first, tail)) = x.split_first_mut() else { return (T::ZERO, T::ZERO) };
    let (head, rest) = (*first, dot_rows(tail, tail));
    *first = T::ONE;
    if rest == T::ZERO {
        return (T::ZERO, head);
    }
    let norm = head.mul_add(head, rest).sqrt();
    let beta = if head > T::ZERO { -norm } else { norm };
    scale_matrix_row(T::ONE / (head - beta), tail);
    ((beta - head) / beta, beta)
}
