//! The interner: equal slices of items get equal ids, so two slices are compared by their ids.

use super::pool::RunPool;
use bumpalo::Bump;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// A growing pool of distinct runs of items. The id of a run is its position.
pub(super) struct InternedRuns<T> {
    at: Vec<u32>,
    items: Vec<T>,
    table: HashTable<u32>,
    hasher: hashbrown::DefaultHashBuilder,
}

impl<T: Copy + Eq + std::hash::Hash> InternedRuns<T> {
    /// No run.
    pub fn new() -> Self {
        InternedRuns { at: vec![0], items: Vec::new(), table: HashTable::new(), hasher: Default::default() }
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.at.len() - 1
    }

    /// Run `i`.
    pub fn run(&self, i: usize) -> &[T] {
        &self.items[self.at[i] as usize..self.at[i + 1] as usize]
    }

    /// The id of `run`, which is added if it is new.
    pub fn intern(&mut self, run: &[T]) -> usize {
        let hash = self.hasher.hash_one(run);
        let (at, items) = (&self.at, &self.items);
        let of = |i: u32| &items[at[i as usize] as usize..at[i as usize + 1] as usize];
        if let Some(&i) = self.table.find(hash, |&i| of(i) == run) {
            return i as usize;
        }
        let i = (self.at.len() - 1) as u32;
        let hasher = &self.hasher;
        self.table.insert_unique(hash, i, |&i| hasher.hash_one(of(i)));
        self.items.extend_from_slice(run);
        self.at.push(self.items.len() as u32);
        i as usize
    }

    /// Copies the runs into `bump`.
    pub fn freeze<'b>(&self, bump: &'b Bump) -> RunPool<'b, T> {
        RunPool { at: bump.alloc_slice_copy(&self.at), items: bump.alloc_slice_copy(&self.items) }
    }

    /// Starts from a frozen pool, with the same ids.
    pub fn seeded(pool: RunPool<'_, T>) -> Self {
        let (at, items, hasher) = (pool.at.to_vec(), pool.items.to_vec(), hashbrown::DefaultHashBuilder::default());
        let mut table = HashTable::with_capacity(pool.len());
        // The runs of a pool are distinct, so no lookup is needed.
        for i in 0..pool.len() {
            table.insert_unique(hasher.hash_one(pool.run(i)), i as u32, |&i| hasher.hash_one(pool.run(i as usize)));
        }
        InternedRuns { at, items, table, hasher }
    }
}
