//! Threads that stay on one core, where the system can do that: on Linux.
//!
//! Invariant: a thread is where [`stay_on`] or [`pin_worker`] put it, or the caller has an error that names the core.

use crate::error::{Error, Kind, Result};
use std::cell::Cell;
use std::thread::JoinHandle;

/// Cores that a [`CoreMask`] knows: as many as Linux can have.
const MOST_CORES: usize = 8192;

thread_local! {
    /// The core on which this thread was put last.
    static STAYS_ON: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Puts the calling thread on `core` for good; one comparison if that was done last.
#[inline]
pub fn stay_on(core: usize) -> Result<()> {
    if STAYS_ON.get() == Some(core) { Ok(()) } else { move_to(core) }
}

#[cold]
fn move_to(core: usize) -> Result<()> {
    system::set(None, &CoreMask::of(core)?).map_err(|e| refused(core, &e))?;
    STAYS_ON.set(Some(core));
    Ok(())
}

/// Puts the thread of `worker`, which runs, on `core`.
pub fn pin_worker(worker: &JoinHandle<()>, core: usize) -> Result<()> {
    system::set(Some(worker), &CoreMask::of(core)?).map_err(|e| refused(core, &e))
}

/// Checks that `cores` are as many as `threads` at least, that none is there twice, and that the calling thread may run
/// on each. The thread stays where it was.
pub fn check_cores(cores: &[usize], threads: usize) -> Result<()> {
    if cores.len() < threads || cores.is_empty() {
        let text = format!("threads is {threads}, and there are fewer cores: {cores:?}");
        return Err(Error::new(Kind::Plan, text));
    }
    if let Some(twice) = (1..cores.len()).find(|&i| cores[..i].contains(&cores[i])) {
        let text = format!("core {} is given twice; each thread has a core of its own", cores[twice]);
        return Err(Error::new(Kind::Plan, text));
    }
    cores.iter().try_for_each(|&core| check_core(core))
}

fn check_core(core: usize) -> Result<()> {
    let wanted = CoreMask::of(core)?;
    let tried = system::get().and_then(|before| {
        system::set(None, &wanted)?;
        system::set(None, &before)
    });
    tried.map_err(|e| refused(core, &e))
}

fn refused(core: usize, e: &std::io::Error) -> Error {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
    let online = online.map_or(String::new(), |text| format!("; the machine has cores {}", text.trim()));
    let why = match e.kind() {
        std::io::ErrorKind::InvalidInput => "there is no such core, or this process may not use it".to_string(),
        _ => e.to_string(),
    };
    Error::new(Kind::Io, format!("no thread can be put on core {core}: {why}{online}"))
}

/// A set of cores, as the system reads it: a bit for each.
#[repr(transparent)]
struct CoreMask([usize; MOST_CORES / usize::BITS as usize]);

impl CoreMask {
    fn of(core: usize) -> Result<CoreMask> {
        let mut mask = CoreMask([0; _]);
        let word = mask.0.get_mut(core / usize::BITS as usize);
        *word.ok_or_else(|| refused(core, &std::io::ErrorKind::InvalidInput.into()))? |=
            1 << (core % usize::BITS as usize);
        Ok(mask)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::CoreMask;
    use std::io::{Error, Result};
    use std::os::unix::thread::JoinHandleExt;
    use std::thread::JoinHandle;

    /// The result of a function that returns an error's number.
    fn done(number: i32) -> Result<()> {
        if number == 0 { Ok(()) } else { Err(Error::from_raw_os_error(number)) }
    }

    /// Puts a worker or, without one, the calling thread on the cores of `mask`.
    #[allow(unsafe_code)]
    pub fn set(worker: Option<&JoinHandle<()>>, mask: &CoreMask) -> Result<()> {
        // SAFETY: the calling thread runs, and a worker is not joined while its handle is there. The mask has as many
        // bytes as are told.
        done(unsafe {
            let thread = worker.map_or_else(|| libc::pthread_self(), |worker| worker.as_pthread_t());
            libc::pthread_setaffinity_np(thread, size_of_val(mask), (&raw const *mask).cast())
        })
    }

    /// The cores that the calling thread may use.
    #[allow(unsafe_code)]
    pub fn get() -> Result<CoreMask> {
        let mut mask = CoreMask([0; _]);
        // SAFETY: the calling thread runs; the mask has as many bytes as are told, and any bits are a mask.
        done(unsafe {
            libc::pthread_getaffinity_np(libc::pthread_self(), size_of_val(&mask), (&raw mut mask).cast())
        })?;
        Ok(mask)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::CoreMask;
    use std::io::{Error, ErrorKind, Result};
    use std::thread::JoinHandle;

    fn cannot<T>() -> Result<T> {
        Err(Error::new(ErrorKind::Unsupported, "only Linux can do that here"))
    }

    pub fn set(_: Option<&JoinHandle<()>>, _: &CoreMask) -> Result<()> {
        cannot()
    }

    pub fn get() -> Result<CoreMask> {
        cannot()
    }
}
