//! Packing: an offset for each lifetime, in lines.
//!
//! A strategy is a plain function from [`Intervals`] to [`Offsets`]; the best of a few is kept. Nothing here is
//! trusted: the checker proves each plan.

use super::live::Intervals;
use crate::error::{Error, Kind, Result};
use std::cmp::Reverse;

/// First line of each buffer, and the height of the whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offsets {
    /// First line of each buffer.
    pub at: Vec<u32>,
    /// Lines in all.
    pub height: u64,
}

/// A way to pack.
pub type Strategy = fn(&Intervals) -> Offsets;

/// The strategies tried, in order.
pub const STRATEGIES: &[(&str, Strategy)] = &[("first fit by size", first_fit), ("best fit by size", best_fit)];

/// The lowest of the plans of all strategies; the first of equals.
pub fn pack(v: &Intervals) -> Result<Offsets> {
    let sum: u64 = v.lines.iter().map(|&l| u64::from(l)).sum();
    if sum > u64::from(u32::MAX) {
        // Every offset is below the sum, so that no strategy needs to check.
        return Err(Error::new(Kind::Plan, format!("{sum} lines of memory do not fit the arena's offsets")));
    }
    let bound = v.max_live();
    let mut best: Option<Offsets> = None;
    for (_, strategy) in STRATEGIES {
        let o = strategy(v);
        if best.as_ref().is_none_or(|b| o.height < b.height) {
            best = Some(o);
        }
        if best.as_ref().is_some_and(|b| b.height <= bound) {
            break;
        }
    }
    Ok(best.unwrap_or_default())
}

/// No two buffers share a line: the plan that others are compared with.
pub fn no_reuse(v: &Intervals) -> Offsets {
    let mut o = Offsets { at: vec![0; v.len()], height: 0 };
    for i in 0..v.len() {
        o.at[i] = o.height as u32;
        o.height += u64::from(v.lines[i]);
    }
    o
}

/// Larger buffers first, each in the lowest gap that holds it.
pub fn first_fit(v: &Intervals) -> Offsets {
    greedy(v, |gap, best| best.is_none_or(|b| gap.0 < b.0))
}

/// Larger buffers first, each in the smallest gap that holds it.
pub fn best_fit(v: &Intervals) -> Offsets {
    greedy(v, |gap, best| best.is_none_or(|b| gap.1 < b.1))
}

/// Whether the gap (start, size) is better than the best so far.
type Better = fn((u32, u32), Option<(u32, u32)>) -> bool;

fn greedy(v: &Intervals, better: Better) -> Offsets {
    let mut order: Vec<u32> = (0..v.len() as u32).filter(|&i| v.lines[i as usize] > 0).collect();
    order.sort_by_key(|&i| {
        let i = i as usize;
        (Reverse(v.lines[i]), Reverse(v.end[i].saturating_sub(v.first[i])), i)
    });
    let mut o = Offsets { at: vec![0; v.len()], height: 0 };
    // Placed buffers by offset; a scan meets those that are alive together with the next one from low to high.
    let mut placed: Vec<u32> = Vec::with_capacity(order.len());
    for &i in &order {
        let i = i as usize;
        let (mut low, mut best) = (0u32, None);
        for &p in &placed {
            let p = p as usize;
            if !v.overlap(i, p) {
                continue;
            }
            let gap = o.at[p].saturating_sub(low);
            if gap >= v.lines[i] && better((low, gap), best) {
                best = Some((low, gap));
            }
            low = low.max(o.at[p] + v.lines[p]);
        }
        o.at[i] = best.map_or(low, |b| b.0);
        o.height = o.height.max(u64::from(o.at[i]) + u64::from(v.lines[i]));
        let slot = placed.partition_point(|&p| o.at[p as usize] <= o.at[i]);
        placed.insert(slot, i as u32);
    }
    o
}
