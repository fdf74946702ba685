//! Packing: an offset for each lifetime, in lines.
//!
//! A strategy is a plain function from [`Intervals`] to [`Offsets`]; the best of a few is kept. Nothing here is
//! trusted: the checker proves each plan.

use super::live::Intervals;
use super::sky::skyline;
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

/// The strategies tried, in order: the skyline reaches the bound on nearly every training graph.
pub const STRATEGIES: &[(&str, Strategy)] =
    &[("skyline", skyline), ("first fit by size", first_fit), ("best fit by size", best_fit)];

/// Buffers above which the two greedy strategies, whose time is quadratic, are left out.
const GREEDY: usize = 4096;

/// The lowest of the plans of all strategies; the first of equals.
pub fn pack(v: &Intervals) -> Result<Offsets> {
    let sum: u64 = v.lines.iter().map(|&l| u64::from(l)).sum();
    if sum > u64::from(u32::MAX) {
        // Every offset is below the sum, so that no strategy needs to check.
        return Err(Error::new(Kind::Plan, format!("{sum} lines of memory do not fit the arena's offsets")));
    }
    let bound = v.max_live();
    let mut best: Option<Offsets> = None;
    let few = if v.len() > GREEDY { 1 } else { STRATEGIES.len() };
    for (_, strategy) in &STRATEGIES[..few] {
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
    let takes = |i: usize| v.lines[i] > 0 && v.first[i] < v.end[i];
    let mut order: Vec<u32> = (0..v.len() as u32).filter(|&i| takes(i as usize)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(rows: &[(u32, u32, u32)]) -> Intervals {
        Intervals {
            first: rows.iter().map(|r| r.0).collect(),
            end: rows.iter().map(|r| r.1).collect(),
            lines: rows.iter().map(|r| r.2).collect(),
        }
    }

    fn disjoint(v: &Intervals, o: &Offsets) -> bool {
        let apart = |a: usize, b: usize| o.at[a] + v.lines[a] <= o.at[b] || o.at[b] + v.lines[b] <= o.at[a];
        let pairs = (0..v.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.filter(|&(a, b)| v.overlap(a, b)).all(|(a, b)| apart(a, b))
    }

    #[test]
    fn plans_are_disjoint_and_close_to_the_bound() {
        let mut x = 1u32;
        let mut next = |n: u32| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 8) % n
        };
        for _ in 0..200 {
            let rows: Vec<_> = (0..30)
                .map(|_| {
                    let first = next(40);
                    (first, first + next(8), next(9))
                })
                .collect();
            let v = intervals(&rows);
            for (name, strategy) in STRATEGIES {
                let o = strategy(&v);
                assert!(disjoint(&v, &o), "{name}");
                assert!(o.height <= 2 * v.max_live() && o.height >= v.max_live(), "{name}");
            }
            assert!(disjoint(&v, &no_reuse(&v)));
        }
    }

    /// Perfect packings: a rectangle cut in two again and again, so that the best height is known.
    #[test]
    fn small_perfect_packings_are_found() {
        let mut x = 7u32;
        let mut next = |n: u32| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 8) % n
        };
        let (mut found, mut all) = (0, 0);
        for _ in 0..50 {
            let mut cuts = vec![(0, 64, 0, 64)];
            while cuts.len() < 16 {
                let (a, b, lo, hi) = cuts.swap_remove(next(cuts.len() as u32) as usize);
                match next(2) {
                    0 if b - a > 1 => {
                        let m = a + 1 + next(b - a - 1);
                        cuts.extend([(a, m, lo, hi), (m, b, lo, hi)]);
                    }
                    _ if hi - lo > 1 => {
                        let m = lo + 1 + next(hi - lo - 1);
                        cuts.extend([(a, b, lo, m), (a, b, m, hi)]);
                    }
                    _ => cuts.push((a, b, lo, hi)),
                }
            }
            let rows: Vec<_> = cuts.iter().map(|c| (c.0, c.1, c.3 - c.2)).collect();
            let v = intervals(&rows);
            let o = pack(&v).unwrap();
            assert!(disjoint(&v, &o) && v.max_live() == 64 && o.height <= 80, "{}", o.height);
            found += usize::from(o.height == 64);
            all += 1;
        }
        assert!(2 * found > all, "{found} of {all}");
    }

    #[test]
    fn nothing_takes_no_lines() {
        assert_eq!(pack(&Intervals::default()).unwrap().height, 0);
        assert_eq!(pack(&intervals(&[(0, 0, 5), (3, 4, 0)])).unwrap().height, 0);
    }

    #[test]
    fn sums_that_overflow_are_errors() {
        let e = pack(&intervals(&[(0, 1, u32::MAX), (2, 3, 1)])).unwrap_err();
        assert_eq!(e.kind, Kind::Plan);
    }
}
