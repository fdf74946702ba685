//! The transforms of rows of tiles, with channels in the lanes.

use super::super::conv_micro::load_array;
use super::points::{
    POINTS, TAPS, TILE, along_both, pixels_at_points, points_to_positions, points_to_taps, positions_at_points,
    taps_at_points,
};
use crate::float::Float;
use crate::simd;
use crate::simd::Token;

/// Vectors of `L` channels.
struct Lanes<const L: usize>;

/// A row of tiles beside its values at the points.
#[derive(Clone, Copy)]
pub(super) struct TileRow {
    /// Tiles.
    pub tiles: usize,
    /// Channels of a pixel, whole vectors.
    pub channels: usize,
    /// Elements of a row of pixels.
    pub line: usize,
    /// Elements from point to point.
    pub step: usize,
}

macro_rules! by_lanes {
    ($name:ident, $wide:ident, $narrow:ident, $doc:literal, ($($arg:ident: $ty:ty),*), $body:ident) => {
        simd! { wide fn $wide[T: Float, const L: usize](_l: Lanes<L>, $($arg: $ty),*) { $body::<T, L>($($arg),*); } }
        simd! { narrow fn $narrow[T: Float, const L: usize](_l: Lanes<L>, $($arg: $ty),*) { $body::<T, L>($($arg),*); } }

        #[doc = $doc]
        pub(super) fn $name<T: Float>($($arg: $ty),*) {
            match (size_of::<T>(), Token::current().shape::<T>().lanes) {
                (4, 16) => $wide(Lanes::<16>, $($arg),*),
                (4, _) => $narrow(Lanes::<8>, $($arg),*),
                (_, 8) => $wide(Lanes::<8>, $($arg),*),
                _ => $narrow(Lanes::<4>, $($arg),*),
            }
        }
    };
}

by_lanes! {
    pixels_of_row, pixels_wide, pixels_narrow,
    "The pixels of a row of tiles, `[row][column][channel]`, at the points: `[point][tile][channel]`.",
    (r: TileRow, pixels: &[T], to: &mut [T]), pixels_of
}

/// Adjacent tiles share two columns of pixels, which are brought to the points along columns once.
#[inline(always)]
fn pixels_of<T: Float, const L: usize>(r: TileRow, pixels: &[T], to: &mut [T]) {
    let (pixels, to) = (pixels.as_chunks::<L>().0, to.as_chunks_mut::<L>().0);
    let [pixel, line, step] = [r.channels, r.line, r.step].map(|len| len / L);
    for c in 0..pixel {
        let mut half = [[[T::ZERO; L]; POINTS]; POINTS];
        for tile in 0..r.tiles {
            let from = tile * TILE * pixel + c;
            for j in 0..POINTS {
                if j < POINTS - TILE && tile > 0 {
                    half.iter_mut().for_each(|row| row[j] = row[j + TILE]);
                } else {
                    let column = pixels_at_points(std::array::from_fn(|i| pixels[from + i * line + j * pixel]));
                    (0..POINTS).for_each(|i| half[i][j] = column[i]);
                }
            }
            for (i, row) in half.into_iter().enumerate() {
                for (j, value) in pixels_at_points(row).into_iter().enumerate() {
                    to[(i * POINTS + j) * step + tile * pixel + c] = value;
                }
            }
        }
    }
}

by_lanes! {
    positions_of_row, positions_wide, positions_narrow,
    "A row of tiles of dy, `[row][column][channel]`, at the points: `[point][tile][channel]`.",
    (r: TileRow, dy: &[T], to: &mut [T]), positions_of
}

#[inline(always)]
fn positions_of<T: Float, const L: usize>(r: TileRow, dy: &[T], to: &mut [T]) {
    for tile in 0..r.tiles {
        for c in (0..r.channels).step_by(L) {
            let (from, at) = (tile * TILE * r.channels + c, tile * r.channels + c);
            along_both::<T, TILE, POINTS, L>(
                |i, j| load_array(&dy[from + i * r.line + j * r.channels..]),
                |i, j, v| to[at + (i * POINTS + j) * r.step..][..L].copy_from_slice(&v),
                positions_at_points,
            );
        }
    }
}

by_lanes! {
    row_of_positions, row_wide, row_narrow,
    "Interpolates the products of a row of tiles, `[point][tile][channel]`: `[row][column][channel]`.",
    (r: TileRow, products: &[T], to: &mut [T]), row_of
}

#[inline(always)]
fn row_of<T: Float, const L: usize>(r: TileRow, products: &[T], to: &mut [T]) {
    for tile in 0..r.tiles {
        for c in (0..r.channels).step_by(L) {
            let (at, from) = (tile * TILE * r.channels + c, tile * r.channels + c);
            along_both::<T, POINTS, TILE, L>(
                |i, j| load_array(&products[from + (i * POINTS + j) * r.step..]),
                |i, j, v| to[at + i * r.line + j * r.channels..][..L].copy_from_slice(&v),
                points_to_positions,
            );
        }
    }
}

by_lanes! {
    taps_of_channel, taps_wide, taps_narrow,
    "The taps of a source channel, `[tap][output channel]`, at the points: `[point][output channel]`, `step` apart.",
    (channels: usize, step: usize, taps: &[T], to: &mut [T]), taps_of
}

#[inline(always)]
fn taps_of<T: Float, const L: usize>(channels: usize, step: usize, taps: &[T], to: &mut [T]) {
    for c in (0..channels).step_by(L) {
        along_both::<T, TAPS, POINTS, L>(
            |i, j| load_array(&taps[(i * TAPS + j) * channels + c..]),
            |i, j, v| to[(i * POINTS + j) * step + c..][..L].copy_from_slice(&v),
            taps_at_points,
        );
    }
}

by_lanes! {
    channel_of_taps, channel_wide, channel_narrow,
    "The adjoint of [`taps_of_channel`].",
    (channels: usize, step: usize, sums: &[T], taps: &mut [T]), channel_of
}

#[inline(always)]
fn channel_of<T: Float, const L: usize>(channels: usize, step: usize, sums: &[T], taps: &mut [T]) {
    for c in (0..channels).step_by(L) {
        along_both::<T, POINTS, TAPS, L>(
            |i, j| load_array(&sums[(i * POINTS + j) * step + c..]),
            |i, j, v| taps[(i * TAPS + j) * channels + c..][..L].copy_from_slice(&v),
            points_to_taps,
        );
    }
}
