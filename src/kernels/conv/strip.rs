//! Copies between images, strips and columns: rows of pixels, in pieces of fixed size.
//!
//! Invariant: [`clear_planes`] writes a strip's zeros once, and [`load_planes`] writes every element that can be a
//! pixel. So a strip is reloaded for the next image without clearing. Used by the files of the folder only.

use super::conv_plan::{ConvPlan, SLACK};
use crate::float::Float;
use crate::simd;

/// Elements of a strip for `images` images, with slack for tiles that read past its end.
pub(super) fn len_for_images(c: &ConvPlan, images: usize) -> usize {
    images * c.planes_len() + c.lead[1] + SLACK
}

/// Zeros a strip.
pub(super) fn clear_planes<T: Float>(strip: &mut [T]) {
    strip.fill(T::ZERO);
}

/// Copies rows `from..` of one image's channels (of one group) into a cleared strip.
pub(super) fn load_planes<T: Float>(c: &ConvPlan, src: &[T], from: usize, strip: &mut [T]) {
    let ([h, w], [ph, pw], plane) = (c.src, c.phase, c.plane());
    for q in (0..pw).filter(|q| c.reads_phase(1, *q)) {
        // Columns before the image, columns of the image before the first of this phase, columns copied.
        let lead = c.lead[1].saturating_sub(q).div_ceil(pw);
        let skip = lead * pw + q - c.lead[1];
        let room = c.grid[1] + c.reach[1];
        let width = w.saturating_sub(skip).div_ceil(pw).min(room.saturating_sub(lead));
        if width == 0 {
            continue;
        }
        for p in (0..ph).filter(|p| c.reads_phase(0, *p)) {
            let planes = strip.chunks_exact_mut(plane).skip(p * pw + q).step_by(ph * pw);
            for (image, plane) in src.chunks_exact(h * w).zip(planes) {
                load_plane(c, image, from * ph + p, [lead, skip, width], plane);
            }
        }
    }
}

/// Copies the rows `at + i * phase` of the padded image into a plane.
fn load_plane<T: Float>(c: &ConvPlan, image: &[T], at: usize, cols: [usize; 3], plane: &mut [T]) {
    let ([h, w], [ph, pw], [lead, skip, width]) = (c.src, c.phase, cols);
    let rows = plane.len() / c.pitch;
    // Rows of the plane inside the image.
    let lo = c.lead[0].saturating_sub(at).div_ceil(ph).min(rows);
    let hi = (h + c.lead[0]).saturating_sub(at).div_ceil(ph).clamp(lo, rows);
    if c.band < c.grid[0] {
        // Another band may have written here.
        for row in plane.chunks_exact_mut(c.pitch).enumerate().filter(|(i, _)| *i < lo || *i >= hi) {
            row.1[lead..][..width].fill(T::ZERO);
        }
    }
    if lo == hi {
        return;
    }
    let (image, plane) = (&image[(at + lo * ph - c.lead[0]) * w + skip..], &mut plane[lo * c.pitch + lead..]);
    if pw == 1 {
        copy_rows(image, ph * w, plane, c.pitch, width, hi - lo);
    } else {
        pick_strip_rows(image, [ph * w, pw], plane, c.pitch, width, hi - lo);
    }
}

simd! {
    /// Copies every `step[1]`-th element of rows.
    fn pick_strip_rows[T: Float](src: &[T], step: [usize; 2], dst: &mut [T], to: usize, width: usize, rows: usize) {
        for (s, d) in src.chunks(step[0]).zip(dst.chunks_mut(to)).take(rows) {
            let d = &mut d[..width];
            if step[1] == 2 {
                // The last pair may be half outside the row.
                let (most, last) = d.split_at_mut(width - 1);
                most.iter_mut().zip(s.as_chunks::<2>().0).for_each(|(d, [s, _])| *d = *s);
                last[0] = s[2 * (width - 1)];
            } else {
                d.iter_mut().zip(s.iter().step_by(step[1])).for_each(|(d, s)| *d = *s);
            }
        }
    }
}

/// Copies `rows` rows of `width` elements; `from` and `to` are the row strides.
pub(super) fn copy_rows<T: Float>(src: &[T], from: usize, dst: &mut [T], to: usize, width: usize, rows: usize) {
    match width {
        0 => {}
        1..4 => copy_strip_rows_by(By::<1>, src, from, dst, to, width, rows),
        4..8 => copy_strip_rows_by(By::<4>, src, from, dst, to, width, rows),
        8..16 => copy_strip_rows_by(By::<8>, src, from, dst, to, width, rows),
        _ => copy_strip_rows_by(By::<16>, src, from, dst, to, width, rows),
    }
}

/// Pieces of `L` elements.
struct By<const L: usize>;

simd! {
    /// [`copy_rows`] for a width of at least `L`: pieces of `L`, the last one overlapping the one before. Calling
    /// `memcpy` for each of these short rows would cost more than the products of small images.
    fn copy_strip_rows_by[T: Float, const L: usize](
        _by: By<L>, src: &[T], from: usize, dst: &mut [T], to: usize, width: usize, rows: usize,
    ) {
        let tail = width - L;
        for i in 0..rows {
            let (s, d) = (&src[i * from..][..width], &mut dst[i * to..][..width]);
            for (d, s) in d.as_chunks_mut::<L>().0.iter_mut().zip(s.as_chunks::<L>().0) {
                *d = *s;
            }
            if !width.is_multiple_of(L) {
                d[tail..][..L].copy_from_slice(&s[tail..][..L]);
            }
        }
    }
}

/// Writes the rows of a sub-grid into every `step`-th row and column of a plane.
pub(super) fn spread_rows<T: Float>(
    src: &[T],
    pitch: usize,
    dst: &mut [T],
    width: usize,
    step: [usize; 2],
    cols: usize,
) {
    for (s, d) in src.chunks(pitch).zip(dst.chunks_mut(step[0] * width)) {
        for (d, s) in d.iter_mut().step_by(step[1]).zip(&s[..cols]) {
            *d = *s;
        }
    }
}
