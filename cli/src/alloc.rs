//! The program's allocator: the system's, with a count of calls.
//!
//! Invariant: every call that could hand out memory is counted, on whatever thread. `train` and `bench` report the
//! count over their steps.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static GLOBAL: Counting = Counting;

/// Allocations and reallocations so far.
pub fn calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

fn count() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: each method passes its arguments on to the system's allocator, whose contract is the same.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises; `ptr` came from the system's allocator.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises; `ptr` came from the system's allocator.
        unsafe { System.dealloc(ptr, layout) }
    }
}
