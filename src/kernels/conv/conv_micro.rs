//! The inner loops of convolutions: a product whose right operand is read from a strip ([`multiply_panel`]), and dot
//! products along a strip ([`add_tap_dots`]). A strip is a zero-padded copy of images (see `conv_plan`).
//!
//! Invariant: an output element is one chain of `mul_add` in the order of the taps ([`multiply_panel`]), or a fixed
//! number of lane chains that are added in a fixed tree ([`add_tap_dots`]). Tile sizes differ between instruction
//! sets and do not affect the bits. Used by the files of the folder only.

use crate::float::Float;
use crate::simd;
use crate::simd::Token;

/// The epilogue of a product, applied while results are in cache: bias, then activation.
#[derive(Clone, Copy)]
pub(super) struct ConvMicroEpilogue<'a, T> {
    /// Bias of each channel; empty without bias.
    pub bias: &'a [T],
    /// Whether the activation is relu.
    pub relu: bool,
    /// Another activation.
    pub act: Option<fn(&mut [T])>,
}

/// The read operands of a product.
#[derive(Clone, Copy)]
pub(super) struct Product<'a, T> {
    pub src: &'a [T],
    pub weight: &'a [T],
    pub epilogue: ConvMicroEpilogue<'a, T>,
}

impl<'a, T: Float> ConvMicroEpilogue<'a, T> {
    /// The epilogue of some channels.
    pub fn of(self, channels: std::ops::Range<usize>) -> ConvMicroEpilogue<'a, T> {
        ConvMicroEpilogue { bias: if self.bias.is_empty() { self.bias } else { &self.bias[channels] }, ..self }
    }

    /// Whether there is a bias or an activation.
    pub fn some(self) -> bool {
        self.relu || self.act.is_some() || !self.bias.is_empty()
    }

    /// Applies the epilogue to results of one channel.
    pub fn apply(self, channel: usize, row: &mut [T]) {
        match (self.bias.get(channel), self.relu) {
            (Some(bias), true) => conv_micro_add_relu(row, *bias),
            // As in the pointwise op: −0 becomes +0, NaN stays.
            (None, true) => conv_micro_relu(row),
            (Some(bias), false) => conv_micro_add(row, *bias),
            (None, false) => {}
        }
        if let Some(act) = self.act {
            act(row);
        }
    }
}

simd! {
    fn conv_micro_add[T: Float](row: &mut [T], bias: T) {
        row.iter_mut().for_each(|v| *v += bias);
    }
}

simd! {
    fn conv_micro_relu[T: Float](row: &mut [T]) {
        row.iter_mut().for_each(|v| *v = v.positive());
    }
}

simd! {
    fn conv_micro_add_relu[T: Float](row: &mut [T], bias: T) {
        for v in row {
            *v = (*v + bias).positive();
        }
    }
}

/// The output of [`multiply_panel`]: `rows` rows of `lines` lines of `width` positions, one line behind another.
#[derive(Clone, Copy)]
pub(super) struct Span<'a, T> {
    /// Rows of the output. Packed rows after them are padding.
    pub rows: usize,
    /// Lines of a row.
    pub lines: usize,
    /// Positions of a line.
    pub width: usize,
    /// Elements from line to line of the strip.
    pub pitch: usize,
    /// Row stride of the output.
    pub ld: usize,
    /// The epilogue; its bias has one number for each row.
    pub epilogue: ConvMicroEpilogue<'a, T>,
}

/// A tile of `M` rows by up to `4 * L` positions, where `L` is one vector.
#[derive(Clone, Copy)]
struct Tile<const M: usize, const L: usize>;

/// Rows of the next block of a product with `left` rows left: 1, 2, 4 or 6. With eight rows LLVM vectorises over the
/// weights instead of the positions.
pub(super) fn next_block_rows(left: usize) -> usize {
    match left {
        0 | 1 => 1,
        2 => 2,
        3 => 4,
        4 | 8 => 4,
        _ => 6,
    }
}

/// Positions that a tile computes at least, if it does not wait for its own sums.
pub(super) fn tile_positions<T: Float>() -> usize {
    2 * Token::current().shape::<T>().lanes
}

/// Rows of the next block of dot products.
pub(super) fn next_dots_rows(left: usize) -> usize {
    if dot_lanes::<f32>() == Token::current().shape::<f32>().lanes {
        [1, 2, 4, 6].into_iter().find(|b| *b >= left).unwrap_or(8)
    } else {
        left.min(2)
    }
}

/// `a * b + c` on whole arrays: arrays by value stay in registers, slices do not.
#[inline(always)]
pub(super) fn fma_arrays<T: Float, const L: usize>(a: [T; L], b: [T; L], c: [T; L]) -> [T; L] {
    let mut r = c;
    for i in 0..L {
        r[i] = a[i].mul_add(b[i], c[i]);
    }
    r
}

/// `a` where the mask is not 0, else 0. (A comparison of lane numbers does not vectorise.)
#[inline(always)]
pub(super) fn mask_lanes<T: Float, const L: usize>(mut a: [T; L], mask: [T; L]) -> [T; L] {
    for i in 0..L {
        a[i] = if mask[i] > T::ZERO { a[i] } else { T::ZERO };
    }
    a
}

#[inline(always)]
pub(super) fn load_array<T: Float, const L: usize>(s: &[T]) -> [T; L] {
    let mut v = [T::ZERO; L];
    v.copy_from_slice(&s[..L]);
    v
}

/// `acc[r][v] + a[r] * b[v]`. The loop order keeps reused operands in registers: all of `a` and one of `b` if there are
/// enough registers, else one of `a` and the one or two of `b`.
#[inline(always)]
pub(super) fn add_terms<T: Float, const M: usize, const V: usize, const L: usize>(
    a: &[T; M],
    b: [[T; L]; V],
    mut acc: [[[T; L]; V]; M],
) -> [[[T; L]; V]; M] {
    if V > 2 {
        for v in 0..V {
            for r in 0..M {
                acc[r][v] = fma_arrays([a[r]; L], b[v], acc[r][v]);
            }
        }
    } else {
        for r in 0..M {
            for v in 0..V {
                acc[r][v] = fma_arrays([a[r]; L], b[v], acc[r][v]);
            }
        }
    }
    acc
}

/// The sums stay in registers only if all indices are constants: hence the copy to `out` at the end, which is then read
/// row by row.
#[inline(always)]
fn compute_tile<T: Float, const M: usize, const V: usize, const L: usize>(
    a: &[T],
    offs: &[u32],
    strip: &[T],
    out: &mut [[[T; L]; V]; M],
) {
    let mut acc = [[[T::ZERO; L]; V]; M];
    for (a, &off) in a.as_chunks::<M>().0.iter().zip(offs) {
        let strip = &strip[off as usize..][..V * L];
        acc = add_terms(a, std::array::from_fn(|v| load_array(&strip[v * L..])), acc);
    }
    *out = acc;
}

/// Computes one tile and writes `left` positions, or as many as it has.
#[inline(always)]
fn write_tile<T: Float, const M: usize, const V: usize, const L: usize>(
    a: &[T],
    offs: &[u32],
    strip: &[T],
    s: Span<'_, T>,
    dst: &mut [T],
    left: usize,
) {
    let mut out = [[[T::ZERO; L]; V]; M];
    compute_tile::<T, M, V, L>(a, offs, strip, &mut out);
    for (out, row) in out.iter().zip(dst.chunks_mut(s.ld)).take(s.rows) {
        let out = out.as_flattened();
        if left >= V * L {
            row[..V * L].copy_from_slice(out);
        } else {
            row[..left].copy_from_slice(&out[..left]);
        }
    }
}

simd! { wide
    fn conv_micro_walk[T: Float, const M: usize, const L: usize](
        _t: Tile<M, L>, a: &[T], offs: &[u32], strip: &[T], s: Span<'_, T>, dst: &mut [T],
    ) {
        for line in 0..s.lines {
            let mut q = 0;
            while q < s.width {
                let left = s.width - q;
                let (strip, dst) = (&strip[line * s.pitch + q..], &mut dst[line * s.width + q..]);
                // As few tiles as possible, of about equal size: a tile of a single vector would wait for its own sums.
                let vectors = left.div_ceil(L);
                let v = vectors.div_ceil(vectors.div_ceil(4));
                match v {
                    4 => write_tile::<T, M, 4, L>(a, offs, strip, s, dst, left),
                    3 => write_tile::<T, M, 3, L>(a, offs, strip, s, dst, left),
                    2 => write_tile::<T, M, 2, L>(a, offs, strip, s, dst, left),
                    _ => write_tile::<T, M, 1, L>(a, offs, strip, s, dst, left),
                }
                q += v * L;
            }
        }
    }
}

simd! { narrow
    /// [`conv_micro_walk`] for sixteen registers: tiles of two vectors, or of more where few rows would leave sums that
    /// wait for one another.
    fn conv_micro_walk_narrow[T: Float, const M: usize, const L: usize](
        _t: Tile<M, L>, a: &[T], offs: &[u32], strip: &[T], s: Span<'_, T>, dst: &mut [T],
    ) {
        for line in 0..s.lines {
            let (strip, dst) = (&strip[line * s.pitch..], &mut dst[line * s.width..]);
            let mut q = 0;
            while q < s.width {
                let left = s.width - q;
                let (strip, dst) = (&strip[q..], &mut dst[q..]);
                // Of eight or nine vectors, six would leave too few, whose sums wait for one another.
                let six = left > 5 * L && !(7 * L + 1..=9 * L).contains(&left);
                // The first test of each is of a constant.
                q += if M == 1 && left > 7 * L {
                    write_tile::<T, M, 8, L>(a, offs, strip, s, dst, left);
                    8 * L
                } else if M == 2 && six {
                    write_tile::<T, M, 6, L>(a, offs, strip, s, dst, left);
                    6 * L
                } else if M <= 2 && left > 3 * L {
                    write_tile::<T, M, 4, L>(a, offs, strip, s, dst, left);
                    4 * L
                } else {
                    write_tile::<T, M, 2, L>(a, offs, strip, s, dst, left);
                    2 * L
                };
            }
        }
    }
}

/// `dst[r][l · width + q] = Σ_k a[k][r] * strip[offs[k] + l · pitch + q]`, then [`ConvMicroEpilogue`], for a block of
/// `m` packed rows: one of 1, 2, 4, 6.
///
/// Reads up to [`SLACK`](super::conv_plan::SLACK) elements past the last position and discards the results.
pub(super) fn multiply_panel<T: Float>(m: usize, a: &[T], offs: &[u32], strip: &[T], s: Span<'_, T>, dst: &mut [T]) {
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
        (4, 16) => by_rows!(conv_micro_walk, 16),
        (4, _) => by_rows!(conv_micro_walk_narrow, 8),
        (_, 8) => by_rows!(conv_micro_walk, 8),
        _ => by_rows!(conv_micro_walk_narrow, 4),
    }
    if s.epilogue.some() {
        dst.chunks_mut(s.ld)
            .take(s.rows)
            .enumerate()
            .for_each(|(r, row)| s.epilogue.apply(r, &mut row[..s.lines * s.width]));
    }
}

/// The operands of [`add_tap_dots`]: `images` pairs of strips, `rows` rows of `width` positions each.
///
/// dy is stored in the order of reading: for each image and row, for each vector of positions, the vectors of the
/// channels.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub images: usize,
    pub rows: usize,
    pub width: usize,
    /// Strides of x: from row to row, from image to image.
    pub x: [usize; 2],
    /// Whether x is finite wherever the last vector of a row may read.
    pub finite: bool,
}

/// Lanes of a vector of [`add_tap_dots`].
pub(super) const fn dot_lanes<T>() -> usize {
    64 / size_of::<T>()
}

/// Taps of a [`add_tap_dots`] tile: three, because 3 × 3 kernels are the most common.
pub(super) const TAPS: usize = 3;

#[derive(Clone, Copy)]
struct Dots<const M: usize, const L: usize, const FINITE: bool>;

/// The sum of a vector's lanes, half onto half.
#[inline(always)]
pub(super) fn sum_lanes<T: Float, const L: usize>(mut v: [T; L]) -> T {
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
    pub(super) fn conv_micro_all_finite[T: Float](x: &[T]) -> bool {
        let (most, rest) = x.as_chunks::<32>();
        let mut sums = [T::ZERO; 32];
        for x in most {
            for i in 0..32 {
                // 0 if finite, else NaN.
                sums[i] += x[i] * T::ZERO;
            }
        }
        // One comparison at the end: rustc 1.95 fails to compile those of `f64` vectors for WebAssembly.
        for half in [16, 8, 4, 2, 1] {
            for i in 0..half {
                sums[i] += sums[i + half];
            }
        }
        rest.iter().fold(sums[0], |sum, x| sum + *x * T::ZERO) == T::ZERO
    }
}

/// Adds one vector of positions to the lane sums.
#[inline(always)]
fn add_vector<T: Float, const M: usize, const L: usize>(
    x: [[T; L]; TAPS],
    dy: &[[T; L]],
    mut acc: [[[T; L]; TAPS]; M],
) -> [[[T; L]; TAPS]; M] {
    for m in 0..M {
        for k in 0..TAPS {
            acc[m][k] = fma_arrays(x[k], dy[m], acc[m][k]);
        }
    }
    acc
}

/// Adds all rows to the lane sums. As in [`compute_tile`], indices are constants and the sums are copied out at the
/// end.
#[inline(always)]
fn add_lane_sums<T: Float, const M: usize, const L: usize, const FINITE: bool>(
    x: &[T],
    offs: [usize; TAPS],
    dy: &[T],
    mask: &[T],
    s: Rows,
    out: &mut [[[T; L]; TAPS]; M],
) {
    let mut acc = *out;
    let (steps, tail) = (s.width.div_ceil(L), s.width % L);
    let mask = load_array(mask);
    let mut dy = dy.as_chunks::<L>().0.chunks_exact(M);
    for image in 0..s.images {
        for row in 0..s.rows {
            let x = &x[image * s.x[1] + row * s.x[0]..];
            let x0 = x[offs[0]..][..steps * L].as_chunks::<L>().0;
            let x1 = x[offs[1]..][..steps * L].as_chunks::<L>().0;
            let x2 = x[offs[2]..][..steps * L].as_chunks::<L>().0;
            for (((q, x0), (x1, x2)), dy) in x0.iter().enumerate().zip(x1.iter().zip(x2)).zip(&mut dy) {
                if !FINITE && tail > 0 && q + 1 == steps {
                    // dy has zeros past the end of a row. x has other pixels there, which may be infinite.
                    acc = add_vector([mask_lanes(*x0, mask), mask_lanes(*x1, mask), mask_lanes(*x2, mask)], dy, acc);
                } else {
                    acc = add_vector([*x0, *x1, *x2], dy, acc);
                }
            }
        }
    }
    *out = acc;
}

/// [`add_lane_sums`] on sums in a slice.
#[inline(always)]
fn add_to_slice<T: Float, const M: usize, const L: usize, const FINITE: bool>(
    x: &[T],
    offs: [usize; TAPS],
    dy: &[T],
    mask: &[T],
    s: Rows,
    sums: &mut [T],
) {
    let sums = &mut sums[..M * TAPS * L];
    let mut own = [[[T::ZERO; L]; TAPS]; M];
    own.as_flattened_mut().as_flattened_mut().copy_from_slice(sums);
    add_lane_sums::<T, M, L, FINITE>(x, offs, dy, mask, s, &mut own);
    sums.copy_from_slice(own.as_flattened().as_flattened());
}

simd! { wide
    fn conv_micro_dots_wide[T: Float, const M: usize, const L: usize, const FINITE: bool](
        _d: Dots<M, L, FINITE>, x: &[T], offs: [usize; TAPS], dy: &[T], mask: &[T], s: Rows, sums: &mut [T],
    ) {
        add_to_slice::<T, M, L, FINITE>(x, offs, dy, mask, s, sums);
    }
}

simd! { narrow
    fn conv_micro_dots_narrow[T: Float, const M: usize, const L: usize, const FINITE: bool](
        _d: Dots<M, L, FINITE>, x: &[T], offs: [usize; TAPS], dy: &[T], mask: &[T], s: Rows, sums: &mut [T],
    ) {
        add_to_slice::<T, M, L, FINITE>(x, offs, dy, mask, s, sums);
    }
}

/// Sums over lanes: [`dot_lanes`] elements of `sums` for each element of `out`.
pub(super) fn fold_lanes<T: Float>(sums: &[T], out: &mut [T]) {
    if size_of::<T>() == 4 {
        sums.as_chunks::<16>().0.iter().zip(out).for_each(|(s, o)| *o = sum_lanes(*s));
    } else {
        sums.as_chunks::<8>().0.iter().zip(out).for_each(|(s, o)| *o = sum_lanes(*s));
    }
}

/// `sums[m][j] += Σ x[offs[j] + position] * dy[m][position]` over all images, rows and positions, for `m` channels of
/// dy (a number that [`next_dots_rows`] gave). Each sum has [`dot_lanes`] lanes, which [`fold_lanes`]
/// adds in the end.
pub(super) fn add_tap_dots<T: Float>(m: usize, x: &[T], offs: [usize; TAPS], dy: &[T], s: Rows, sums: &mut [T]) {
    // Lanes of the last vector of a row that lie inside the row.
    let mut mask = [T::ZERO; 16];
    mask[..s.width % dot_lanes::<T>()].fill(T::ONE);
    macro_rules! by_rows {
        ($dots:ident, $l:literal, $f:literal, $($rows:literal)+) => {
            match m {
                $($rows => $dots(Dots::<$rows, $l, $f>, x, offs, dy, &mask, s, sums),)+
                rows => unreachable!("no tile of {rows} rows"),
            }
        };
    }
    let wide = Token::current().shape::<T>().lanes == dot_lanes::<T>();
    match (wide, size_of::<T>(), s.finite) {
        (true, 4, true) => by_rows!(conv_micro_dots_wide, 16, true, 1 2 4 6 8),
        (true, 4, false) => by_rows!(conv_micro_dots_wide, 16, false, 1 2 4 6 8),
        (true, _, true) => by_rows!(conv_micro_dots_wide, 8, true, 1 2 4 6 8),
        (true, _, false) => by_rows!(conv_micro_dots_wide, 8, false, 1 2 4 6 8),
        (false, 4, true) => by_rows!(conv_micro_dots_narrow, 16, true, 1 2),
        (false, 4, false) => by_rows!(conv_micro_dots_narrow, 16, false, 1 2),
        (false, _, true) => by_rows!(conv_micro_dots_narrow, 8, true, 1 2),
        (false, _, false) => by_rows!(conv_micro_dots_narrow, 8, false, 1 2),
    }
}
