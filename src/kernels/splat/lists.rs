//! The splats that may touch a tile, nearest first.
//!
//! Invariant: a list holds every splat whose bounds meet the tile, or the first ones if a limit cuts it. An entry of
//! the order that is not the number of a splat is a fault.

use super::splat_params::{Splat, TileListScratch};
use crate::abi::Args;
use crate::fault::Cause;

/// A tile of an image with more splats than its list holds: the value is their number, with the most there may be.
pub static LIST_TOO_LONG: Cause = Cause {
    name: "splat list",
    text: |bad, f| {
        let (count, most) = bad.value.unwrap_or_default();
        write!(f, "tile {} has {count} splats, and max_list is {most}", bad.element)
    },
};

/// Splats by the tiles that they may touch.
pub(super) struct TileLists<'a> {
    /// Four positions for each splat: see [`PixelBounds`](super::bounds::PixelBounds).
    bounds: &'a [i32],
    order: &'a [i32],
    /// Splats of the current row of tiles.
    row: &'a mut [i32],
    row_len: usize,
    /// The row of tiles whose splats `row` holds.
    row_of: Option<usize>,
    /// Splats of the current tile.
    list: &'a mut [i32],
}

impl<'a> TileLists<'a> {
    /// Lists in `scratch`, which has [`Splat::list_scratch`] positions.
    pub(super) fn new(p: &Splat, bounds: &'a [i32], order: &'a [i32], scratch: &'a mut [i32]) -> TileLists<'a> {
        let TileListScratch { row, list } = TileListScratch::cut(p, scratch);
        TileLists { bounds, order, row, row_len: 0, row_of: None, list }
    }

    /// The list of `tile`, counted along rows of tiles. A list that is too long is a fault, unless it may be cut.
    pub(super) fn fill(&mut self, p: &Splat, tile: usize, args: &Args<'_>) -> &[i32] {
        let across = p.tiles_across().max(1);
        let (down, left) = (tile / across, tile % across);
        if self.row_of != Some(down) {
            self.fill_row(p, down, args);
        }
        let (from, to) = ((left * p.tile) as i32, ((left + 1) * p.tile) as i32);
        let (mut kept, mut count) = (0, 0);
        for &i in &self.row[..self.row_len] {
            let b = &self.bounds[4 * i as usize..][..4];
            if b[0] < to && b[1] > from {
                count += 1;
                if let Some(slot) = self.list.get_mut(kept) {
                    *slot = i;
                    kept += 1;
                }
            }
        }
        if count > kept && !p.truncate {
            args.report(&LIST_TOO_LONG, tile, Some((count as i64, kept)));
        }
        &self.list[..kept]
    }

    fn fill_row(&mut self, p: &Splat, down: usize, args: &Args<'_>) {
        let (from, to) = ((down * p.tile) as i32, ((down + 1) * p.tile) as i32);
        (self.row_len, self.row_of) = (0, Some(down));
        let (rows, _) = self.bounds.as_chunks::<4>();
        for (place, &i) in self.order[..p.count].iter().enumerate() {
            let Some(b) = usize::try_from(i).ok().and_then(|i| rows.get(i)) else {
                args.fault_index(place, i64::from(i), p.count);
                continue;
            };
            if b[2] < to && b[3] > from && b[0] < b[1] {
                self.row[self.row_len] = i;
                self.row_len += 1;
            }
        }
    }
}
