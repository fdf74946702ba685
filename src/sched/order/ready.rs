//! The ready list: a tournament tree of keys, with its leaves in the order of what each group takes, so that "the least
//! key among those that take at most so much" is one walk. Every call is O(log n).

/// No key: the group is not ready.
const NONE: (i64, u32) = (i64::MAX, u32::MAX);

/// Groups that are ready, by key; ties go to the smaller group.
pub struct Ready {
    /// Leaf of each group; empty for "its own number".
    leaf: Vec<u32>,
    /// What the group of each leaf takes, ascending; empty if nobody asks.
    takes: Vec<i64>,
    /// The least key below each inner node, then the leaves.
    tree: Vec<(i64, u32)>,
    half: usize,
}

impl Ready {
    /// Nothing of `n` groups is ready. [`Ready::below`] asks for `takes`, which may be empty otherwise.
    pub fn new(n: usize, takes: &[i64]) -> Ready {
        let half = n.max(1).next_power_of_two();
        let mut groups: Vec<u32> = (0..takes.len() as u32).collect();
        groups.sort_by_key(|&g| (takes[g as usize], g));
        let mut leaf = vec![0; takes.len()];
        groups.iter().enumerate().for_each(|(at, &g)| leaf[g as usize] = at as u32);
        let takes = groups.iter().map(|&g| takes[g as usize]).collect();
        Ready { leaf, takes, tree: vec![NONE; 2 * half], half }
    }

    fn at(&self, g: usize) -> usize {
        self.half + self.leaf.get(g).map_or(g, |&l| l as usize)
    }

    fn set(&mut self, g: usize, entry: (i64, u32)) {
        let mut i = self.at(g);
        self.tree[i] = entry;
        while i > 1 {
            i /= 2;
            let least = self.tree[2 * i].min(self.tree[2 * i + 1]);
            // Above a node that did not change nothing changes.
            if self.tree[i] == least {
                break;
            }
            self.tree[i] = least;
        }
    }

    /// Makes `g` ready, or changes its key.
    pub fn put(&mut self, g: usize, key: i64) {
        self.set(g, (key, g as u32));
    }

    /// Makes `g` not ready.
    pub fn take(&mut self, g: usize) {
        if self.holds(g) {
            self.set(g, NONE);
        }
    }

    /// Whether `g` is ready.
    pub fn holds(&self, g: usize) -> bool {
        self.tree[self.at(g)] != NONE
    }

    /// The group with the least key.
    pub fn least(&self) -> Option<usize> {
        let (_, g) = self.tree[1];
        (g != NONE.1).then_some(g as usize)
    }

    /// The group with the least key among those that take at most `room`; if there is none, the one that takes least.
    pub fn below(&self, room: i64) -> Option<usize> {
        let end = self.takes.partition_point(|&t| t <= room);
        let (mut lo, mut hi, mut best) = (self.half, self.half + end, NONE);
        while lo < hi {
            if lo % 2 == 1 {
                best = best.min(self.tree[lo]);
                lo += 1;
            }
            if hi % 2 == 1 {
                hi -= 1;
                best = best.min(self.tree[hi]);
            }
            (lo, hi) = (lo / 2, hi / 2);
        }
        if best != NONE {
            return Some(best.1 as usize);
        }
        let mut i = 1;
        while i < self.half {
            i = if self.tree[2 * i] == NONE { 2 * i + 1 } else { 2 * i };
        }
        (self.tree[i] != NONE).then_some(self.tree[i].1 as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_key_that_fits_is_found() {
        let takes: Vec<i64> = (0..37).map(|g| (g * 7) % 11).collect();
        let mut r = Ready::new(37, &takes);
        assert_eq!((r.least(), r.below(100)), (None, None));
        let mut keys = vec![None; 37];
        for round in 0..400usize {
            let g = (round * 17 + round / 37) % 37;
            keys[g] = if round % 3 == 0 { None } else { Some((round as i64 * 29) % 13 - 6) };
            match keys[g] {
                Some(key) => r.put(g, key),
                None => r.take(g),
            }
            let ready = || (0..37).filter(|&g| keys[g].is_some());
            assert_eq!(r.least(), ready().min_by_key(|&g| (keys[g], g)));
            let room = round as i64 % 12;
            let fits = ready().filter(|&g| takes[g] <= room).min_by_key(|&g| (keys[g], g));
            assert_eq!(r.below(room), fits.or(ready().min_by_key(|&g| (takes[g], g))));
        }
    }
}
