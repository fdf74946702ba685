//! Notices that the process exits: a rank that merely exits would leave the others waiting for ever.

#![allow(
    unsafe_code,
    reason = "the C library calls a function at exit only if it is told to through its own interface"
)]

use std::sync::Once;

// SAFETY: the declaration is that of the C standard, `int atexit(void (*func)(void))`.
unsafe extern "C" {
    fn atexit(call: extern "C" fn()) -> i32;
}

extern "C" fn ends() {
    super::abort_if_running("it exited before the run was finished");
}

/// Makes an exit of the process end all ranks, unless the run is finished.
pub fn guard_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `ends` takes and returns nothing, as `atexit` asks, and does not unwind: it prints and calls
        // MPI_Abort.
        let _ = unsafe { atexit(ends) };
    });
}
