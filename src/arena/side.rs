//! Side tables: dense columns keyed by an id, stored outside the graph.

use super::ids::Id;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A dense table from `K` to `T`.
#[derive(Clone, Debug, PartialEq)]
pub struct Side<K, T> {
    items: Vec<T>,
    key: PhantomData<K>,
}

impl<K: Id, T: Clone> Side<K, T> {
    /// A table of `n` entries, each `fill`.
    pub fn filled(n: usize, fill: T) -> Self {
        Side { items: vec![fill; n], key: PhantomData }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All entries, by id.
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }

    /// Ids with their entries.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.items.iter().enumerate().map(|(i, t)| (K::new(i), t))
    }
}

impl<K: Id, T> From<Vec<T>> for Side<K, T> {
    fn from(items: Vec<T>) -> Self {
        Side { items, key: PhantomData }
    }
}

impl<K: Id, T> Index<K> for Side<K, T> {
    type Output = T;
    #[inline]
    fn index(&self, k: K) -> &T {
        &self.items[k.at()]
    }
}

impl<K: Id, T> IndexMut<K> for Side<K, T> {
    #[inline]
    fn index_mut(&mut self, k: K) -> &mut T {
        &mut self.items[k.at()]
    }
}

/// A side table over a contiguous range of ids, such as the values of one region.
#[derive(Clone, Debug)]
pub struct Window<K, T> {
    first: usize,
    items: Vec<T>,
    key: PhantomData<K>,
}

impl<K: Id, T: Clone> Window<K, T> {
    /// A table over `ids`, each entry `fill`.
    pub fn filled(ids: std::ops::Range<u32>, fill: T) -> Self {
        Window { first: ids.start as usize, items: vec![fill; ids.len()], key: PhantomData }
    }
}

impl<K: Id, T> Index<K> for Window<K, T> {
    type Output = T;
    #[inline]
    fn index(&self, k: K) -> &T {
        &self.items[k.at() - self.first]
    }
}

impl<K: Id, T> IndexMut<K> for Window<K, T> {
    #[inline]
    fn index_mut(&mut self, k: K) -> &mut T {
        &mut self.items[k.at() - self.first]
    }
}
