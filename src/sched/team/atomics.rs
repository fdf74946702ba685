//! The atomics, parking and yields of the [gate](super::waiting) of a team.
//!
//! They come from the standard library and crossbeam. In tests that are compiled with `--cfg loom` they come from the
//! model checker (`src/sched/tests/team_model`), which runs the gate's code in many orders.

#[cfg(not(all(loom, test)))]
pub(super) use crossbeam_utils::sync::{Parker, Unparker};
#[cfg(not(all(loom, test)))]
pub(super) use std::hint::spin_loop;
#[cfg(not(all(loom, test)))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, fence};
#[cfg(not(all(loom, test)))]
pub(super) use std::thread::yield_now;

#[cfg(all(loom, test))]
pub(super) use crate::sched::tests::team_model::sync::{
    AtomicBool, AtomicUsize, Parker, Unparker, fence, spin_loop, yield_now,
};

/// Yields before a thread that waits for a step parks. Few under Miri, where each takes long.
pub(super) const YIELDS: u32 = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 0,
    (_, true) => 2,
    _ => 500,
};
