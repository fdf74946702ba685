//! The program's allocator: the system's, with a count of calls and an orderly end where memory runs out.
//!
//! Invariants: every call that could return memory is counted, on any thread; `train` and `bench` report the count over
//! their steps. An allocation that the system refuses ends the program with one line and exit code 1. Arenas may be of
//! any size; they are mapped, not allocated, so their refusal is an ordinary error.

use crate::sys::sys_unlocked_stderr;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts calls and passes them on to the system's allocator. The program's `main.rs` names it.
pub struct CountingAllocator;

static CALLS: AtomicU64 = AtomicU64::new(0);

/// The number of allocations and reallocations so far.
pub fn alloc_calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

fn count_alloc() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// Returns `p`. Ends the program if it is null, the system's refusal of `size` bytes.
#[inline]
fn checked_alloc(p: *mut u8, size: usize) -> *mut u8 {
    if p.is_null() {
        refused_alloc(size);
    }
    p
}

/// Ends the program with a message, without allocating.
#[cold]
fn refused_alloc(size: usize) -> ! {
    let mut line = [0; 128];
    let mut rest = &mut line[..];
    // The buffer is long enough for any number.
    let _ = writeln!(rest, "arenagrad: there is no memory for {size} bytes more");
    let left = rest.len();
    // This thread may hold the lock of standard error. If standard error is closed, the message is lost.
    if let Some(mut unlocked) = sys_unlocked_stderr() {
        let _ = unlocked.write_all(&line[..line.len() - left]);
    }
    std::process::exit(1)
}

// SAFETY: each method passes its arguments on to the system's allocator, whose contract is the same.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_alloc();
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        checked_alloc(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_alloc();
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        checked_alloc(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_alloc();
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; `ptr` came from the system's allocator.
        checked_alloc(unsafe { System.realloc(ptr, layout, size) }, size)
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; `ptr` came from the system's allocator.
        unsafe { System.dealloc(ptr, layout) }
    }
}
