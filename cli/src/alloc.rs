//! The program's allocator: the system's, with a count of calls, and with an end where there is no memory left.
//!
//! Invariant: every call that could hand out memory is counted, on whatever thread. `train` and `bench` report the
//! count over their steps. A call that the system refuses ends the program with one line and exit code 1; arenas, which
//! may be of any size, are mapped and not allocated, so that their refusal is an error like others.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
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

/// `p`, which is `size` bytes of memory.
#[inline]
fn given(p: *mut u8, size: usize) -> *mut u8 {
    if p.is_null() {
        refused(size);
    }
    p
}

/// Says that there is no memory, without taking any, and ends the program.
#[cold]
fn refused(size: usize) -> ! {
    let mut line = [0; 128];
    let mut rest = &mut line[..];
    // The line is long enough for any number.
    let _ = writeln!(rest, "arenagrad: there is no memory for {size} bytes more");
    let left = rest.len();
    // Not through the lock of standard error, which this thread may hold; where it is closed there is nothing to say.
    if let Ok(fd) = std::io::stderr().as_fd().try_clone_to_owned() {
        let _ = File::from(fd).write_all(&line[..line.len() - left]);
    }
    std::process::exit(1)
}

// SAFETY: each method passes its arguments on to the system's allocator, whose contract is the same.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises; `ptr` came from the system's allocator.
        given(unsafe { System.realloc(ptr, layout, size) }, size)
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises; `ptr` came from the system's allocator.
        unsafe { System.dealloc(ptr, layout) }
    }
}
