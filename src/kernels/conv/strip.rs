//! Copies between images, strips and columns: rows of pixels, moved in fixed-size pieces.
//!
//! Invariant: a strip's zeros are written once ([`clear`]) and [`load`] writes each place that can hold a pixel, so a
//! strip may be loaded again for the next image without clearing it. Used by the sibling files only.

use super::plan::{Corr, SLACK};
use crate::kernels::float::Float;

/// Elements of a strip for `images` images, with room for tiles that read past its end.
pub(super) fn strip_len(c: &Corr, images: usize) -> usize {
    images * c.planes_len() + c.lead[1] + SLACK
}

/// Zeros a strip.
pub(super) fn clear<T: Float>(strip: &mut [T]) {
    strip.fill(T::ZERO);
}

/// Copies rows `from..` of one image's channels (of one group) into a cleared strip.
pub(super) fn load<T: Float>(c: &Corr, src: &[T], from: usize, strip: &mut [T]) {
    let ([h, w], [ph, pw], plane) = (c.src, c.phase, c.plane());
    for q in (0..pw).filter(|q| c.reads_phase(1, *q)) {
        // Columns before the image, columns of the image before the first of this phase, and columns copied.
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
fn load_plane<T: Float>(c: &Corr, image: &[T], at: usize, cols: [usize; 3], plane: &mut [T]) {
    let ([h, w], [ph, pw], [lead, skip, width]) = (c.src, c.phase, cols);
    for (i, row) in plane.chunks_exact_mut(c.pitch).enumerate() {
        let dst = &mut row[lead..][..width];
        match (at + i * ph).checked_sub(c.lead[0]).filter(|r| *r < h) {
            None => dst.fill(T::ZERO),
            Some(r) if pw == 1 => copy_row(dst, &image[r * w + skip..][..width]),
            Some(r) => {
                for (d, s) in dst.iter_mut().zip(image[r * w..][..w][skip..].iter().step_by(pw)) {
                    *d = *s;
                }
            }
        }
    }
}

/// Copies one row.
fn copy_row<T: Float>(dst: &mut [T], src: &[T]) {
    let width = dst.len();
    copy_rows(src, width, dst, width, width, 1);
}

/// Copies `rows` rows of `width` elements between two pitches.
pub(super) fn copy_rows<T: Float>(src: &[T], from: usize, dst: &mut [T], to: usize, width: usize, rows: usize) {
    match width {
        0 => {}
        1..4 => rows_of::<T, 1>(src, from, dst, to, width, rows),
        4..8 => rows_of::<T, 4>(src, from, dst, to, width, rows),
        8..16 => rows_of::<T, 8>(src, from, dst, to, width, rows),
        _ => rows_of::<T, 16>(src, from, dst, to, width, rows),
    }
}

/// [`copy_rows`] for a width of at least `L`: pieces of `L`, the last one overlapping its neighbour. A call of `memcpy`
/// for each of these short rows would cost more than the products on small images.
#[inline(always)]
fn rows_of<T: Float, const L: usize>(src: &[T], from: usize, dst: &mut [T], to: usize, width: usize, rows: usize) {
    for i in 0..rows {
        let (s, d) = (&src[i * from..][..width], &mut dst[i * to..][..width]);
        for (d, s) in d.chunks_exact_mut(L).zip(s.chunks_exact(L)) {
            d.copy_from_slice(s);
        }
        if !width.is_multiple_of(L) {
            d[width - L..][..L].copy_from_slice(&s[width - L..][..L]);
        }
    }
}

/// Writes a sub-grid's rows into every `step`-th row and column of a plane.
pub(super) fn spread<T: Float>(src: &[T], pitch: usize, dst: &mut [T], width: usize, step: [usize; 2], cols: usize) {
    for (s, d) in src.chunks(pitch).zip(dst.chunks_mut(step[0] * width)) {
        for (d, s) in d.iter_mut().step_by(step[1]).zip(&s[..cols]) {
            *d = *s;
        }
    }
}
