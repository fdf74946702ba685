//! The two inner loops of every convolution: a product whose right operand is read from a strip, and dot products
//! along a strip.
//!
//! Invariant: an output element is one chain of `mul_add` in the order of the taps ([`panel`]), or a fixed number of
//! lane chains added up in a fixed tree ([`dots`]). The tile sizes differ between instruction sets and never show in
//! the bits. Used by the sibling files only.

use crate::kernels::float::Float;
use crate::kernels::simd::Token;
use crate::simd;

/// What happens to results while they are near: bias, then activation.
#[derive(Clone, Copy)]
pub(super) struct End<'a, T> {
    /// One number for each channel, or empty.
    pub bias: &'a [T],
    /// Whether the activation is relu.
    pub relu: bool,
    /// Any other activation.
    pub act: Option<fn(&mut [T])>,
}

impl<'a, T: Float> End<'a, T> {
    /// Of some channels.
    pub fn of(self, channels: std::ops::Range<usize>) -> End<'a, T> {
        End { bias: if self.bias.is_empty() { self.bias } else { &self.bias[channels] }, ..self }
    }

    /// Whether anything happens.
    pub fn some(self) -> bool {
        self.relu || self.act.is_some() || !self.bias.is_empty()
    }

    /// A run of results of one channel.
    pub fn apply(self, channel: usize, row: &mut [T]) {
        match (self.bias.get(channel), self.relu) {
            (Some(bias), true) => add_relu(row, *bias),
            // As the point-wise op: −0 becomes +0, NaN stays.
            (None, true) => relu(row),
            (Some(bias), false) => add(row, *bias),
            (None, false) => {}
        }
        if let Some(act) = self.act {
            act(row);
        }
    }
}

simd! {
    fn add[T: Float](row: &mut [T], bias: T) {
        row.iter_mut().for_each(|v| *v += bias);
    }
}

simd! {
    fn relu[T: Float](row: &mut [T]) {
        row.iter_mut().for_each(|v| *v = v.positive());
    }
}

simd! {
    fn add_relu[T: Float](row: &mut [T], bias: T) {
        for v in row {
            *v = (*v + bias).positive();
        }
    }
}

/// What [`panel`] computes: `rows` output rows of `width` positions.
#[derive(Clone, Copy)]
pub(super) struct Span<'a, T> {
    /// Rows of the output that exist; the packed rows after them are padding.
    pub rows: usize,
    /// Positions.
    pub width: usize,
    /// Elements from one output row to the next.
    pub ld: usize,
    /// What happens to the results in the end; its bias has one number for each row.
    pub end: End<'a, T>,
}

/// A tile of `M` rows by up to `4 * L` positions, where `L` is one vector.
#[derive(Clone, Copy)]
struct Tile<const M: usize, const L: usize>;

/// Rows of the next block of a product when `left` rows are left: one of 1, 2, 4, 6. Where LLVM gets eight rows at a
/// time, it takes the weights for the vectors.
pub(super) fn block_rows(left: usize) -> usize {
    match left {
        0 | 1 => 1,
        2 => 2,
        3 => 4,
        4 | 8 => 4,
        _ => 6,
    }
}

/// Rows of the next block of dot products.
pub(super) fn dots_rows(left: usize) -> usize {
    if lanes::<f32>() == Token::current().shape::<f32>().lanes {
        [1, 2, 4, 6].into_iter().find(|b| *b >= left).unwrap_or(8)
    } else {
        left.min(2)
    }
}

/// `a * b + c`, a whole array at a time: arrays by value stay in registers, slices would not.
#[inline(always)]
pub(super) fn fma<T: Float, const L: usize>(a: [T; L], b: [T; L], c: [T; L]) -> [T; L] {
    let mut r = c;
    for i in 0..L {
        r[i] = a[i].mul_add(b[i], c[i]);
    }
    r
}

/// The lanes whose mask is not 0; 0 in the others. (Comparing lane numbers instead is not made into vector code.)
#[inline(always)]
fn masked<T: Float, const L: usize>(mut a: [T; L], mask: [T; L]) -> [T; L] {
    for i in 0..L {
        a[i] = if mask[i] > T::ZERO { a[i] } else { T::ZERO };
    }
    a
}

#[inline(always)]
pub(super) fn vector<T: Float, const L: usize>(s: &[T]) -> [T; L] {
    let mut v = [T::ZERO; L];
    v.copy_from_slice(&s[..L]);
    v
}

/// `acc[r][v] + a[r] * b[v]`. What is needed again first stays in a register: all of `a` beside one of `b` where there
/// are registers for that, else one of `a` beside the one or two of `b`.
#[inline(always)]
pub(super) fn terms<T: Float, const M: usize, const V: usize, const L: usize>(
    a: &[T; M],
    b: [[T; L]; V],
    mut acc: [[[T; L]; V]; M],
) -> [[[T; L]; V]; M] {
    if V > 2 {
        for v in 0..V {
            for r in 0..M {
                acc[r][v] = fma([a[r]; L], b[v], acc[r][v]);
            }
        }
    } else {
        for r in 0..M {
            for v in 0..V {
                acc[r][v] = fma([a[r]; L], b[v], acc[r][v]);
            }
        }
    }
    acc
}

/// The sums live in registers as long as they are indexed by constants only: hence the copy to `out` at the end, which
/// is then read row by row.
#[inline(always)]
fn tile<T: Float, const M: usize, const V: usize, const L: usize>(
    a: &[T],
    offs: &[u32],
    strip: &[T],
    out: &mut [[[T; L]; V]; M],
) {
    let mut acc = [[[T::ZERO; L]; V]; M];
    for (a, &off) in a.as_chunks::<M>().0.iter().zip(offs) {
        let strip = &strip[off as usize..][..V * L];
        acc = terms(a, std::array::from_fn(|v| vector(&strip[v * L..])), acc);
    }
    *out = acc;
}

/// One tile, written: `left` positions or as many as it has.
#[inline(always)]
fn step<T: Float, const M: usize, const V: usize, const L: usize>(
    a: &[T],
    offs: &[u32],
    strip: &[T],
    s: Span<'_, T>,
    dst: &mut [T],
    left: usize,
) {
    let mut out = [[[T::ZERO; L]; V]; M];
    tile::<T, M, V, L>(a, offs, strip, &mut out);
    for (out, row) in out.iter().zip(dst.chunks_mut(s.ld)).take(s.rows) {
        let out = out.as_flattened();
        if left >= V * L {
            row[..V * L].copy_from_slice(out);
        } else {
            row[..left].copy_from_slice(&out[..left]);
        }
    }
}

simd! {
    fn walk[T: Float, const M: usize, const L: usize](
        _t: Tile<M, L>, a: &[T], offs: &[u32], strip: &[T], s: Span<'_, T>, dst: &mut [T],
    ) {
        let mut q = 0;
        while q < s.width {
            let left = s.width - q;
            let (strip, dst) = (&strip[q..], &mut dst[q..]);
            // As few tiles as can be, and none much smaller than the others: one vector alone waits for its own sums.
            let vectors = left.div_ceil(L);
            let v = vectors.div_ceil(vectors.div_ceil(4));
            match v {
                4 => step::<T, M, 4, L>(a, offs, strip, s, dst, left),
                3 => step::<T, M, 3, L>(a, offs, strip, s, dst, left),
                2 => step::<T, M, 2, L>(a, offs, strip, s, dst, left),
                _ => step::<T, M, 1, L>(a, offs, strip, s, dst, left),
            }
            q += v * L;
        }
    }
}

simd! {
    /// [`walk`] for sixteen registers: tiles of two vectors.
    fn walk_narrow[T: Float, const M: usize, const L: usize](
        _t: Tile<M, L>, a: &[T], offs: &[u32], strip: &[T], s: Span<'_, T>, dst: &mut [T],
    ) {
        let mut q = 0;
        while q < s.width {
            step::<T, M, 2, L>(a, offs, &strip[q..], s, &mut dst[q..], s.width - q);
            q += 2 * L;
        }
    }
}

/// `dst[r][q] = Σ_k a[k][r] * strip[offs[k] + q]`, then [`End`], for a block of `m` packed rows: one of 1, 2, 4, 6.
///
/// Reads up to [`SLACK`](super::plan::SLACK) elements past the last position and drops what comes of them.
pub(super) fn panel<T: Float>(m: usize, a: &[T], offs: &[u32], strip: &[T], s: Span<'_, T>, dst: &mut [T]) {
    macro_rules! by_rows {
        ($walk:ident, $l:literal) => {
            match m {
                1 => $walk(Tile::<1, $l>, a, offs, strip, s, dst),
                2 => $walk(Tile::<2, $l>, a, offs, strip, s, dst),
                4 => $walk(Tile::<4, $l>, a, offs, strip, s, dst),
                _ => $walk(Tile::<6, $l>, a, offs, strip, s, dst),
            }
        };
    }
    match (size_of::<T>(), Token::current().shape::<T>().lanes) {
        (4, 16) => by_rows!(walk, 16),
        (4, _) => by_rows!(walk_narrow, 8),
        (_, 8) => by_rows!(walk, 8),
        _ => by_rows!(walk_narrow, 4),
    }
    if s.end.some() {
        dst.chunks_mut(s.ld).take(s.rows).enumerate().for_each(|(r, row)| s.end.apply(r, &mut row[..s.width]));
    }
}

/// The operands of [`dots`]: `images` pairs of strips, `rows` rows of `width` positions each.
///
/// dy is laid out as it is read: for each image and row, for each vector of positions, the vectors of the channels.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub images: usize,
    pub rows: usize,
    pub width: usize,
    /// Elements of x from one row to the next, and from one image to the next.
    pub x: [usize; 2],
    /// Whether x is finite wherever a row's last vector may reach.
    pub finite: bool,
}

/// Lanes of a vector of [`dots`].
pub(super) const fn lanes<T>() -> usize {
    64 / size_of::<T>()
}

/// Taps of a [`dots`] tile: three, because kernels of 3 × 3 are the common ones.
pub(super) const TAPS: usize = 3;

#[derive(Clone, Copy)]
struct Dots<const M: usize, const L: usize, const FINITE: bool>;

/// The sum of a vector's lanes: halves onto halves.
#[inline(always)]
fn tree<T: Float, const L: usize>(mut v: [T; L]) -> T {
    for half in [8, 4, 2, 1] {
        if half < L {
            for i in 0..half {
                v[i] += v[i + half];
            }
        }
    }
    v[0]
}

simd! {
    /// Whether no element is NaN or infinite.
    pub(super) fn all_finite[T: Float](x: &[T]) -> bool {
        let (most, rest) = x.as_chunks::<32>();
        let mut sums = [T::ZERO; 32];
        for x in most {
            for i in 0..32 {
                // 0 for what is finite, NaN for what is not.
                sums[i] += x[i] * T::ZERO;
            }
        }
        sums.iter().all(|s| *s == T::ZERO) && rest.iter().all(|v| *v * T::ZERO == T::ZERO)
    }
}

/// One vector of positions, added to the lane sums.
#[inline(always)]
fn plus<T: Float, const M: usize, const L: usize>(
    x: [[T; L]; TAPS],
    dy: &[[T; L]],
    mut acc: [[[T; L]; TAPS]; M],
) -> [[[T; L]; TAPS]; M] {
    for m in 0..M {
        for k in 0..TAPS {
            acc[m][k] = fma(x[k], dy[m], acc[m][k]);
        }
    }
    acc
}

/// Adds all rows to lane sums; as in [`tile`], they are indexed by constants only, and copied out at the end.
#[inline(always)]
fn lane_sums<T: Float, const M: usize, const L: usize, const FINITE: bool>(
    x: &[T],
    offs: [usize; TAPS],
    dy: &[T],
    mask: &[T],
    s: Rows,
    out: &mut [[[T; L]; TAPS]; M],
) {
    let mut acc = *out;
    let (steps, tail) = (s.width.div_ceil(L), s.width % L);
    let mask = vector(mask);
    let mut dy = dy.as_chunks::<L>().0.chunks_exact(M);
    for image in 0..s.images {
        for row in 0..s.rows {
            let x = &x[image * s.x[1] + row * s.x[0]..];
            let x0 = x[offs[0]..][..steps * L].as_chunks::<L>().0;
            let x1 = x[offs[1]..][..steps * L].as_chunks::<L>().0;
            let x2 = x[offs[2]..][..steps * L].as_chunks::<L>().0;
            for (((q, x0), (x1, x2)), dy) in x0.iter().enumerate().zip(x1.iter().zip(x2)).zip(&mut dy) {
                if !FINITE && tail > 0 && q + 1 == steps {
                    // dy has zeros past the row's end; x has pixels that do not belong to it and may be infinite.
                    acc = plus([masked(*x0, mask), masked(*x1, mask), masked(*x2, mask)], dy, acc);
                } else {
                    acc = plus([*x0, *x1, *x2], dy, acc);
                }
            }
        }
    }
    *out = acc;
}

simd! {
    fn dots_of[T: Float, const M: usize, const L: usize, const FINITE: bool](
        _d: Dots<M, L, FINITE>, x: &[T], offs: [usize; TAPS], dy: &[T], mask: &[T], s: Rows, sums: &mut [T],
    ) {
        let sums = &mut sums[..M * TAPS * L];
        let mut own = [[[T::ZERO; L]; TAPS]; M];
        own.as_flattened_mut().as_flattened_mut().copy_from_slice(sums);
        lane_sums::<T, M, L, FINITE>(x, offs, dy, mask, s, &mut own);
        sums.copy_from_slice(own.as_flattened().as_flattened());
    }
}

/// The lanes' sums of each of `out`'s elements, [`lanes`] elements of `sums` for each.
pub(super) fn fold<T: Float>(sums: &[T], out: &mut [T]) {
    if size_of::<T>() == 4 {
        sums.as_chunks::<16>().0.iter().zip(out).for_each(|(s, o)| *o = tree(*s));
    } else {
        sums.as_chunks::<8>().0.iter().zip(out).for_each(|(s, o)| *o = tree(*s));
    }
}

/// `sums[m][j] += Σ x[offs[j] + position] * dy[m][position]` over all images, rows and positions, for `m` channels of
/// dy: one of 1, 2, 4, 6, 8. Each sum is one of [`lanes`] lanes, which [`fold`] adds up in the end.
pub(super) fn dots<T: Float>(m: usize, x: &[T], offs: [usize; TAPS], dy: &[T], s: Rows, sums: &mut [T]) {
    // Lanes of the last vector of a row that are inside the row.
    let mut mask = [T::ZERO; 16];
    mask[..s.width % lanes::<T>()].fill(T::ONE);
    macro_rules! by_rows {
        ($l:literal, $f:literal) => {
            match m {
                1 => dots_of(Dots::<1, $l, $f>, x, offs, dy, &mask, s, sums),
                2 => dots_of(Dots::<2, $l, $f>, x, offs, dy, &mask, s, sums),
                4 => dots_of(Dots::<4, $l, $f>, x, offs, dy, &mask, s, sums),
                6 => dots_of(Dots::<6, $l, $f>, x, offs, dy, &mask, s, sums),
                _ => dots_of(Dots::<8, $l, $f>, x, offs, dy, &mask, s, sums),
            }
        };
    }
    match (size_of::<T>(), s.finite) {
        (4, true) => by_rows!(16, true),
        (4, false) => by_rows!(16, false),
        (_, true) => by_rows!(8, true),
        (_, false) => by_rows!(8, false),
    }
}
