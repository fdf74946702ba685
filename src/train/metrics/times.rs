//! Step times and their quantiles. Invariant: recording a time allocates nothing.

/// The last step times, in nanoseconds, in a ring buffer of fixed size.
#[derive(Clone, Debug)]
pub struct Times {
    ns: Vec<u64>,
    next: usize,
    count: usize,
}

impl Times {
    /// A buffer for `capacity` times, at least one. Beyond that the oldest are overwritten.
    pub fn new(capacity: usize) -> Times {
        // Not zeros: the system would map their pages only when a step first touches them.
        Times { ns: vec![u64::MAX; capacity.max(1)], next: 0, count: 0 }
    }

    /// Adds a time.
    pub fn record(&mut self, ns: u64) {
        self.ns[self.next] = ns;
        self.next = (self.next + 1) % self.ns.len();
        self.count = (self.count + 1).min(self.ns.len());
    }

    /// Number of times kept.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if no time was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The times kept, in ascending order.
    pub fn sorted(&self) -> Vec<u64> {
        let mut all = self.ns[..self.count].to_vec();
        all.sort_unstable();
        all
    }

    /// The quantile `q` in [0, 1] by nearest rank: the smallest recorded time `t` such that at least `q` of all times
    /// are at most `t`. 0 if no time was recorded.
    pub fn quantile(&self, q: f64) -> u64 {
        let all = self.sorted();
        let rank = (q.clamp(0.0, 1.0) * all.len() as f64).ceil() as usize;
        all.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let mut t = Times::new(100);
        (1..=100).rev().for_each(|ns| t.record(ns));
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| t.quantile(q)), [1, 50, 99, 100]);
        t.record(1000);
        assert_eq!((t.len(), t.quantile(1.0)), (100, 1000));
        assert_eq!(Times::new(0).quantile(0.5), 0);
    }

    #[test]
    fn the_oldest_times_are_overwritten() {
        let mut t = Times::new(3);
        assert!(t.is_empty() && t.sorted().is_empty());
        t.record(9);
        assert!(!t.is_empty() && t.len() == 1 && t.quantile(0.5) == 9);
        t.record(5);
        assert_eq!((t.sorted(), [0.0, 0.5, 0.51, 2.0].map(|q| t.quantile(q))), (vec![5, 9], [5, 5, 9, 9]));
        [7, 1, 2].into_iter().for_each(|ns| t.record(ns));
        assert_eq!((t.len(), t.sorted()), (3, vec![1, 2, 7]));
        let mut one = Times::new(0);
        [3, 4].into_iter().for_each(|ns| one.record(ns));
        assert_eq!(one.sorted(), [4]);
    }
}
