//! The ready groups in a heap, which gives the group of least key. Every call is O(log n).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ready groups by key; ties go to the smaller group.
pub struct ReadyGroups {
    /// The key of each ready group.
    key: Vec<Option<i64>>,
    heap: BinaryHeap<Reverse<(i64, u32)>>,
}

impl ReadyGroups {
    /// `n` groups, none ready.
    pub fn new(n: usize) -> ReadyGroups {
        ReadyGroups { key: vec![None; n], heap: BinaryHeap::new() }
    }

    /// Makes `g` ready, or changes its key.
    pub fn insert(&mut self, g: usize, key: i64) {
        self.key[g] = Some(key);
        self.heap.push(Reverse((key, g as u32)));
    }

    /// Makes `g` not ready.
    pub fn remove(&mut self, g: usize) {
        self.key[g] = None;
    }

    /// The group with the least key.
    pub fn least(&mut self) -> Option<usize> {
        while let Some(&Reverse((key, g))) = self.heap.peek() {
            if self.key[g as usize] == Some(key) {
                return Some(g as usize);
            }
            // Outdated: the key has changed, or the group is not ready any more.
            self.heap.pop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::fitting_groups::FittingGroups;
    use super::*;

    #[test]
    fn the_least_key_that_fits_is_found() {
        // In trees with one leaf to spare, and in others.
        for n in [1, 31, 32, 37] {
            least_keys_are_found(n);
        }
    }

    fn least_keys_are_found(n: usize) {
        let takes: Vec<i64> = (0..n as i64).map(|g| (g * 7) % 11).collect();
        let (mut r, mut f) = (ReadyGroups::new(n), FittingGroups::new(&takes));
        assert_eq!((r.least(), f.below(100)), (None, None));
        let mut keys = vec![None; n];
        for round in 0..400usize {
            let g = (round * 17 + round / n) % n;
            keys[g] = if round % 3 == 0 { None } else { Some((round as i64 * 29) % 13 - 6) };
            match keys[g] {
                Some(key) => {
                    r.insert(g, key);
                    f.insert(g, key);
                }
                None => {
                    r.remove(g);
                    f.remove(g);
                }
            }
            let ready = || (0..n).filter(|&g| keys[g].is_some());
            assert_eq!(r.least(), ready().min_by_key(|&g| (keys[g], g)));
            let room = round as i64 % 12;
            let fits = ready().filter(|&g| takes[g] <= room).min_by_key(|&g| (keys[g], g));
            assert_eq!(f.below(room), fits.or(ready().min_by_key(|&g| (takes[g], g))));
        }
    }
}
