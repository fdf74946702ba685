//! Packing of B from the windows of an image: a row of B is a channel and a place in the window, a column is a position
//! of the window.
//!
//! Invariant: padding counts as the zero point of the codes, so it contributes 0.

use super::int_codes::{IntCodes, pack_i16_pair};
use super::int_columns::IntColumnPanels;
use super::int_gemm_desc::UNIT_COLS;
use crate::window::WindowGeometry;
use std::ops::Range;

/// The windows of some channels of an image.
#[derive(Clone, Copy)]
pub struct IntWindows<'a> {
    /// The channels of an image.
    pub image: &'a [u8],
    /// How they are read.
    pub codes: IntCodes,
    /// The windows over a plane.
    pub windows: WindowGeometry<2>,
    /// Columns of the result.
    pub ow: usize,
    /// Terms of a sum: channels times places.
    pub k: usize,
}

impl IntWindows<'_> {
    /// Term `k` of some adjacent positions.
    fn line(&self, k: usize, at: Range<usize>, to: &mut [i16]) {
        let (WindowGeometry { size: [h, w], kernel: [kh, kw], .. }, ow) = (self.windows, self.ow);
        let (place, kx) = (k / kw, k % kw);
        let (channel, ky) = (place / kh, place % kh);
        let image = &self.image[channel * h * w..][..h * w];
        let mut from = at.start;
        while from < at.end {
            let (oy, ox) = (from / ow, from % ow);
            let count = (ow - ox).min(at.end - from);
            let to = &mut to[from - at.start..][..count];
            match self.windows.element(0, oy, ky) {
                None => to.fill(0),
                Some(y) => self.places(&image[y * w..][..w], kx, ox, to),
            }
            from += count;
        }
    }

    /// Place `kx` of adjacent positions of one row of the image, from `ox` on.
    fn places(&self, row: &[u8], kx: usize, ox: usize, to: &mut [i16]) {
        let WindowGeometry { stride: [_, step], pad: [_, [left, _]], dilation: [_, apart], .. } = self.windows;
        if step == 1 {
            // Positions with an element are adjacent.
            let shift = kx * apart + ox;
            let skip = left.saturating_sub(shift).min(to.len());
            let (edge, to) = to.split_at_mut(skip);
            edge.fill(0);
            let from = row.get((shift + skip).saturating_sub(left)..).unwrap_or_default();
            let (to, edge) = to.split_at_mut(from.len().min(to.len()));
            to.iter_mut().zip(from).for_each(|(to, byte)| *to = self.codes.value(*byte));
            edge.fill(0);
            return;
        }
        for (i, to) in to.iter_mut().enumerate() {
            *to = self.windows.element(1, ox + i, kx).map_or(0, |x| self.codes.value(row[x]));
        }
    }
}

impl IntColumnPanels for IntWindows<'_> {
    fn pack(&self, pairs: Range<usize>, cols: Range<usize>, width: usize, to: &mut [i32]) {
        let (mut first, mut second) = ([0i16; UNIT_COLS], [0i16; UNIT_COLS]);
        for (pair, to) in pairs.zip(to.chunks_exact_mut(width)) {
            self.line(2 * pair, cols.clone(), &mut first);
            match 2 * pair + 1 < self.k {
                true => self.line(2 * pair + 1, cols.clone(), &mut second),
                false => second.fill(0),
            }
            let (to, beyond) = to.split_at_mut(cols.len());
            for ((to, first), second) in to.iter_mut().zip(first).zip(second) {
                *to = pack_i16_pair(first, second);
            }
            beyond.fill(0);
        }
    }
}
