//! How much memory an input takes: an allocator that counts the bytes that are in use, and the most so far.
//!
//! Invariant: an input that asks for more than the hard limit at once ends the process, as a machine without memory
//! would; the runner keeps the input that did it.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes beyond which an allocation fails.
pub const HARD_LIMIT: usize = 2 << 30;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of bytes.
struct Metered;

#[global_allocator]
static GLOBAL: Metered = Metered;

/// Adds `bytes`; false if that is beyond the hard limit.
fn add(bytes: usize) -> bool {
    let used = USED.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    MOST.fetch_max(used, Ordering::Relaxed);
    let fits = used <= HARD_LIMIT;
    if !fits {
        USED.fetch_sub(bytes, Ordering::Relaxed);
    }
    fits
}

/// Begins to measure.
pub fn begin_memory() -> usize {
    let used = USED.load(Ordering::Relaxed);
    MOST.store(used, Ordering::Relaxed);
    used
}

/// The most bytes in use at once since [`begin_memory`] gave `start`, beyond those.
pub fn memory_since(start: usize) -> usize {
    MOST.load(Ordering::Relaxed).saturating_sub(start)
}

// SAFETY: each method passes its arguments on to the system's allocator, whose contract is the same, or returns null,
// which the contract allows. The bookkeeping touches no memory but the two counters.
unsafe impl GlobalAlloc for Metered {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !add(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !add(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !add(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; `ptr` came from the system's allocator.
        let new = unsafe { System.realloc(ptr, layout, size) };
        USED.fetch_sub(if new.is_null() { size } else { layout.size() }, Ordering::Relaxed);
        new
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; `ptr` came from the system's allocator.
        unsafe { System.dealloc(ptr, layout) }
    }
}
