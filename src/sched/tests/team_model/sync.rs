//! The atomics, parking and yields of the gate under the model checker.
//!
//! Each atomic operation notes its place and its ordering, so that the model can weaken one of them: a planted bug.

use loom::sync::atomic;
use loom::sync::{Arc, Condvar, Mutex};
use std::cell::RefCell;
use std::panic::Location;
use std::sync::atomic::Ordering;

pub use loom::hint::spin_loop;
pub use loom::thread::yield_now;

/// A place of the gate's code and the ordering that it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    pub line: u32,
    pub column: u32,
    pub ordering: Ordering,
}

/// A bug that is planted in the gate's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The site has another ordering; a fence with `Relaxed` is no fence.
    Weaker(Site, Ordering),
    /// No sleeping thread is woken.
    NoUnpark,
}

// The model checker runs all its threads on one thread of the system.
thread_local! {
    static SITES: RefCell<Vec<Site>> = const { RefCell::new(Vec::new()) };
    static BUG: RefCell<Option<Bug>> = const { RefCell::new(None) };
}

/// Plants `bug` in what this thread runs from now on.
pub fn plant(bug: Option<Bug>) {
    BUG.set(bug);
}

/// The sites with an ordering above `Relaxed` that ran on this thread.
pub fn sites() -> Vec<Site> {
    SITES.with_borrow(Vec::clone)
}

#[track_caller]
fn noted(ordering: Ordering) -> Ordering {
    let at = Location::caller();
    let site = Site { line: at.line(), column: at.column(), ordering };
    SITES.with_borrow_mut(|all| {
        if ordering != Ordering::Relaxed && !all.contains(&site) {
            all.push(site);
        }
    });
    match BUG.with_borrow(|bug| *bug) {
        Some(Bug::Weaker(weak, to)) if weak == site => to,
        _ => ordering,
    }
}

/// Relaxed operations and fences between them; see [`std::sync::atomic::fence`].
#[track_caller]
pub fn fence(ordering: Ordering) {
    match noted(ordering) {
        Ordering::Relaxed => {}
        ordering => atomic::fence(ordering),
    }
}

pub struct AtomicUsize(atomic::AtomicUsize);

impl AtomicUsize {
    pub fn new(x: usize) -> AtomicUsize {
        AtomicUsize(atomic::AtomicUsize::new(x))
    }

    #[track_caller]
    pub fn load(&self, ordering: Ordering) -> usize {
        self.0.load(noted(ordering))
    }

    #[track_caller]
    pub fn store(&self, x: usize, ordering: Ordering) {
        self.0.store(x, noted(ordering));
    }

    #[track_caller]
    pub fn fetch_add(&self, x: usize, ordering: Ordering) -> usize {
        self.0.fetch_add(x, noted(ordering))
    }

    #[track_caller]
    pub fn compare_exchange(&self, old: usize, new: usize, ok: Ordering, failed: Ordering) -> Result<usize, usize> {
        self.0.compare_exchange(old, new, noted(ok), failed)
    }

    #[track_caller]
    pub fn fetch_min(&self, x: usize, ordering: Ordering) -> usize {
        self.0.fetch_min(x, noted(ordering))
    }
}

pub struct AtomicBool(atomic::AtomicBool);

impl AtomicBool {
    pub fn new(x: bool) -> AtomicBool {
        AtomicBool(atomic::AtomicBool::new(x))
    }

    #[track_caller]
    pub fn load(&self, ordering: Ordering) -> bool {
        self.0.load(noted(ordering))
    }

    #[track_caller]
    pub fn store(&self, x: bool, ordering: Ordering) {
        self.0.store(x, noted(ordering));
    }
}

/// As crossbeam's: a wake-up that comes before the sleep is kept.
pub struct Parker(Unparker);

#[derive(Clone)]
pub struct Unparker(Arc<(Mutex<bool>, Condvar)>);

impl Parker {
    pub fn new() -> Parker {
        Parker(Unparker(Arc::new((Mutex::new(false), Condvar::new()))))
    }

    pub fn unparker(&self) -> &Unparker {
        &self.0
    }

    pub fn park(&self) {
        let (token, changed) = &*self.0.0;
        let mut token = token.lock().unwrap();
        while !*token {
            token = changed.wait(token).unwrap();
        }
        *token = false;
    }
}

impl Unparker {
    pub fn unpark(&self) {
        if BUG.with_borrow(|bug| *bug == Some(Bug::NoUnpark)) {
            return;
        }
        let (token, changed) = &*self.0;
        *token.lock().unwrap() = true;
        changed.notify_one();
    }
}
