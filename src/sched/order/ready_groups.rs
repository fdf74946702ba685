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
