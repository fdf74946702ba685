//! The ready groups in a tournament tree. It finds the group of least key among those that allocate at most a given
//! number of bytes. Its leaves are in the order of allocated bytes. Every call is O(log n).

/// The entry of a group that is not ready.
const NONE: (i64, u32) = (i64::MAX, u32::MAX);

/// Ready groups by key and by the bytes that they allocate.
pub struct FittingGroups {
    /// Leaf of each group.
    leaf: Vec<u32>,
    /// Bytes that the group of each leaf allocates, ascending.
    allocated: Vec<i64>,
    /// The least key below each inner node, then the leaves.
    tree: Vec<(i64, u32)>,
    half: usize,
}

impl FittingGroups {
    /// Groups that allocate `allocated` bytes, none ready.
    pub fn new(allocated: &[i64]) -> FittingGroups {
        // A leaf more than groups: no query asks for all leaves.
        let half = (allocated.len() + 1).next_power_of_two();
        let mut groups: Vec<u32> = (0..allocated.len() as u32).collect();
        groups.sort_by_key(|&g| (allocated[g as usize], g));
        let mut leaf = vec![0; allocated.len()];
        groups.iter().enumerate().for_each(|(at, &g)| leaf[g as usize] = at as u32);
        let allocated = groups.iter().map(|&g| allocated[g as usize]).collect();
        FittingGroups { leaf, allocated, tree: vec![NONE; 2 * half], half }
    }

    fn set(&mut self, g: usize, entry: (i64, u32)) {
        let mut i = self.half + self.leaf[g] as usize;
        self.tree[i] = entry;
        while i > 1 {
            i /= 2;
            let least = self.tree[2 * i].min(self.tree[2 * i + 1]);
            // The nodes above depend on this one only through its value.
            if self.tree[i] == least {
                break;
            }
            self.tree[i] = least;
        }
    }

    /// Makes `g` ready, or changes its key.
    pub fn insert(&mut self, g: usize, key: i64) {
        self.set(g, (key, g as u32));
    }

    /// Makes `g` not ready.
    pub fn remove(&mut self, g: usize) {
        self.set(g, NONE);
    }

    /// The group with the least key among those that allocate at most `free` bytes; if there is none, the one that
    /// allocates least.
    pub fn below(&self, free: i64) -> Option<usize> {
        let end = self.allocated.partition_point(|&t| t <= free);
        let (mut i, mut best) = (self.half + end, NONE);
        while i > 1 {
            // The leaves before a right child are those before its parent and those of its sibling.
            if i % 2 == 1 {
                best = best.min(self.tree[i - 1]);
            }
            i /= 2;
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
