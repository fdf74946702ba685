//! Functions that make the times of steps shorter and more alike.

#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]

use crate::border::{self, call};
use crate::handles;
use crate::kinds::ag_status;
use crate::structs::ag_program;
use std::time::Duration;

/// Puts each thread of a program on a core of its own: the thread that runs steps on the first of `cores`, the others
/// on the next ones. Cores have the numbers of the system, from 0. There may be more of them than threads. The thread
/// that runs steps moves when it runs its next step, and stays there. Linux alone can do this.
///
/// Errors: AG_PLAN if there are fewer cores than threads, or a core is there twice; AG_IO if there is no such core, if
/// the process may not use it, or if the system refuses. The threads then stay where they were.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_pin(program: ag_program, cores: *const usize, n_cores: usize) -> ag_status {
    call("ag_pin", || {
        let cores = border::slice("cores", cores, n_cores)?;
        handles::program(program.id)?.with(|p| Ok(p.pin(cores.iter().copied())?))
    })
}

/// How long the threads of a program, the caller's excepted, look for the next step before they sleep: a thread that
/// looks keeps its core busy, one that sleeps takes some tens of microseconds to wake. 0 sleeps at once, UINT64_MAX
/// never. A program on one thread has no thread that waits.
#[unsafe(no_mangle)]
pub extern "C" fn ag_spin(program: ag_program, nanoseconds: u64) -> ag_status {
    call("ag_spin", || {
        let time = if nanoseconds == u64::MAX { Duration::MAX } else { Duration::from_nanos(nanoseconds) };
        handles::program(program.id)?.with(|p| {
            p.spin(time);
            Ok(())
        })
    })
}

/// Touches each page of a program's memory, so that no later step waits for one: the system gives memory, and reads the
/// values of an exported program, page by page when they are first used.
#[unsafe(no_mangle)]
pub extern "C" fn ag_prefault(program: ag_program) -> ag_status {
    call("ag_prefault", || {
        handles::program(program.id)?.with(|p| {
            p.prefault();
            Ok(())
        })
    })
}

/// Keeps a program's memory in memory: the system may not write it to a swap area. Brings in all pages, as
/// `ag_prefault` does. Call it before `ag_binding`: small arenas move to pages of their own.
///
/// Errors: AG_USAGE after `ag_binding`; AG_MEMORY if the system refuses: most systems limit the memory that a process
/// may lock (`ulimit -l`).
#[unsafe(no_mangle)]
pub extern "C" fn ag_lock_memory(program: ag_program) -> ag_status {
    call("ag_lock_memory", || handles::program(program.id)?.lock_memory())
}
