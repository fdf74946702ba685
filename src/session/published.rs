//! The params that a program publishes, and how those who read them follow.
//!
//! Invariant: a block of params that was published is never written while anyone reads it. Publishing puts another
//! block in its place, so a reader has the params of one step, whole, and keeps them until its next step begins.

use crate::arena::front::Front;
use crate::arena::tensor::TensorArena;
use crate::session::fresh::Fresh;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a program and those who read its params share.
pub struct Published {
    /// How often was published. Changes under the lock of `now`.
    version: AtomicU64,
    now: Mutex<Snapshot>,
    /// The bytes of the states that followers read and no follower writes.
    pub states: Vec<Range<usize>>,
}

/// Params, and the states that followers only read, as they are after one step.
#[derive(Default)]
struct Snapshot {
    params: Front,
    /// The bytes of `Published::states`, one behind the other.
    states: Vec<u8>,
    /// The bindings of params that hold a value.
    set: Vec<u32>,
    /// Blocks that were published before, for the next to be written into.
    before: Vec<Front>,
}

impl Published {
    /// Nothing is published yet. Followers read the states at `states`, which none of them writes.
    pub fn new(states: Vec<Range<usize>>) -> Published {
        Published { version: AtomicU64::new(0), now: Mutex::default(), states }
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of `len` bytes that no one reads, for the next params; `None` where the system refuses.
    pub fn spare(&self, len: usize) -> Option<Front> {
        let mut now = self.lock();
        let free = now.before.iter().position(|block| !block.is_shared() && block.len() == len);
        let spare = free.map(|i| now.before.swap_remove(i));
        // One more may be free; others were needed while readers were late.
        now.before.retain(Front::is_shared);
        drop(now);
        spare.or_else(|| Front::zeroed(len))
    }

    /// Publishes `params`, and the states of `arena`. `set` are the bindings of params that hold a value.
    /// With `again`, a later call may write its params into the block of an earlier one.
    pub fn put(&self, params: Front, arena: &TensorArena, set: Vec<u32>, again: bool) {
        let states = self.states.iter().flat_map(|r| arena.slice(r.clone())).copied().collect();
        let mut now = self.lock();
        let old = std::mem::replace(&mut now.params, params);
        (now.states, now.set) = (states, set);
        if again {
            now.before.push(old);
        }
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// A reader of published params.
pub struct Follower {
    of: Arc<Published>,
    /// The version that it reads.
    version: u64,
    /// Of each method, whether it trains no param.
    pub acts: Vec<bool>,
}

impl Follower {
    /// Reads nothing yet.
    pub fn new(of: &Arc<Published>, acts: Vec<bool>) -> Follower {
        Follower { of: Arc::clone(of), version: 0, acts }
    }

    /// The params that are published now.
    pub fn params(&self) -> Front {
        self.of.lock().params.clone()
    }

    /// Gives `arena` what was published last. Nothing to do, and no lock, if it has that.
    #[inline]
    pub fn catch_up(&mut self, arena: &mut TensorArena, fresh: &mut Fresh) {
        if self.of.version.load(Ordering::Acquire) != self.version {
            self.exchange(arena, fresh);
        }
    }

    #[cold]
    fn exchange(&mut self, arena: &mut TensorArena, fresh: &mut Fresh) {
        let now = self.of.lock();
        let fits = arena.replace_front(now.params.clone());
        debug_assert!(fits, "all blocks that are published have one size");
        let mut at = 0;
        for r in &self.of.states {
            arena.slice_mut(r.clone()).copy_from_slice(&now.states[at..at + r.len()]);
            at += r.len();
        }
        now.set.iter().for_each(|&i| fresh.put(i as usize));
        self.version = self.of.version.load(Ordering::Relaxed);
    }
}

/// What ties a program to others.
pub enum Sharing {
    /// Others read its params.
    Publishes(Arc<Published>),
    /// It reads the params of another.
    Follows(Follower),
}
