//! The packers of other compilers, for comparison. [`super::pack`] uses none of them.
//!
//! Each places one buffer after another, in an order of its own, in a gap between the placed buffers whose lifetimes
//! overlap. O(N²): for thousands of buffers, not for millions.

use super::buffers::Buffers;

/// Offsets and height.
pub type Placed = (Vec<u64>, u64);

/// Every buffer has bytes of its own.
pub fn place_apart(v: &Buffers) -> Placed {
    let (mut at, mut top) = (Vec::with_capacity(v.len()), 0);
    for size in &v.size {
        at.push(top);
        top += size;
    }
    (at, top)
}

/// Larger buffers first, each in the lowest gap that holds it (TVM's and TFLite's greedy by size).
pub fn first_fit(v: &Buffers) -> Placed {
    greedy(v, &largest_first(v, |i| [v.size[i], v.end[i] - v.first[i]]), false)
}

/// Larger buffers first, each in the smallest gap that holds it, of equal ones in the lowest (XLA's spatial best fit).
pub fn best_fit(v: &Buffers) -> Placed {
    greedy(v, &largest_first(v, |i| [v.size[i], v.end[i] - v.first[i]]), true)
}

/// Longer lifetimes first, each in the gap that [`best_fit`] takes (XLA's temporal best fit).
pub fn best_fit_by_life(v: &Buffers) -> Placed {
    greedy(v, &largest_first(v, |i| [v.end[i] - v.first[i], v.size[i]]), true)
}

/// The better of [`best_fit`] and [`best_fit_by_life`], as XLA chooses.
pub fn choose_as_xla(v: &Buffers) -> Placed {
    let (a, b) = (best_fit(v), best_fit_by_life(v));
    if b.1 < a.1 { b } else { a }
}

/// The buffers that are not empty, largest key first, ties by index.
fn largest_first(v: &Buffers, key: impl Fn(usize) -> [u64; 2]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..v.len()).filter(|&i| v.takes(i)).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(key(i)), i));
    order
}

fn greedy(v: &Buffers, order: &[usize], smallest: bool) -> Placed {
    let (mut at, mut height) = (vec![0u64; v.len()], 0u64);
    // Placed buffers by offset, so that a scan visits gaps from low to high.
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    for &i in order {
        let (mut low, mut best) = (0u64, None);
        for &p in &placed {
            if v.first[i].max(v.first[p]) >= v.end[i].min(v.end[p]) {
                continue;
            }
            let gap = at[p].saturating_sub(low);
            if gap >= v.size[i] && best.is_none_or(|(_, b)| smallest && gap < b) {
                best = Some((low, gap));
            }
            low = low.max(at[p] + v.size[p]);
        }
        at[i] = best.map_or(low, |b| b.0);
        height = height.max(at[i] + v.size[i]);
        let slot = placed.partition_point(|&p| at[p] <= at[i]);
        placed.insert(slot, i);
    }
    (at, height)
}
