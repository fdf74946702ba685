//! The operating system: memory of this process, cores, standard error, reading files.
//!
//! Invariant: a value that the system does not report is `None`, never a guess; for the number of cores it is 1.

use crate::fail::{Run, fail_bad_input, fail_io};
use arenagrad::train::open_regular;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The peak of the resident set, in bytes.
pub fn sys_peak_rss() -> Option<u64> {
    sys_memory_status("VmHWM:")
}

/// The resident set, in bytes.
pub fn sys_rss() -> Option<u64> {
    sys_memory_status("VmRSS:")
}

/// The part of the resident set that no file backs, in bytes: arena, heap and stacks, not code.
pub fn sys_anon_rss() -> Option<u64> {
    sys_memory_status("RssAnon:")
}

/// Resets [`sys_peak_rss`] to the present resident set, if the system can.
pub fn sys_reset_peak_rss() {
    // Without the reset, the peak since the start is shown, which is no smaller.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The bytes that `/proc/self/status` gives for `name`.
fn sys_memory_status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Cores that this process may use; 1 if unknown.
pub fn sys_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// The number in the first of these environment variables that has one.
fn number_of_variable(names: &[&str]) -> Option<usize> {
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// The number of ranks that a launcher of MPI (Open MPI's, MPICH's, Slurm's) has started, of which this process is one.
pub fn sys_launched_ranks() -> Option<usize> {
    number_of_variable(&["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"])
}

/// Cores for each of the ranks that were started on this machine; all cores without ranks.
pub fn sys_cores_of_rank() -> usize {
    let ranks = number_of_variable(&["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"]);
    (sys_cores() / ranks.unwrap_or(1).max(1)).max(1)
}

/// The processor's name.
pub fn sys_cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string()).filter(|name| !name.is_empty())
}

/// Standard error without the lock of [`std::io::stderr`]. Allocates nothing.
pub fn sys_unlocked_stderr() -> Option<File> {
    #[cfg(unix)]
    let own = std::os::fd::AsFd::as_fd(&std::io::stderr()).try_clone_to_owned();
    #[cfg(windows)]
    let own = std::os::windows::io::AsHandle::as_handle(&std::io::stderr()).try_clone_to_owned();
    own.ok().map(File::from)
}

/// Reads a regular file. Fails if it is longer than `limit` bytes.
pub fn sys_read_file(path: &Path, limit: u64) -> Run<Vec<u8>> {
    let file = open_regular(path).map_err(|e| e.context(path.display()))?.0;
    let mut bytes = Vec::new();
    // Counted while reading: a file may grow, and those of the system have bytes, but no length.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(fail_io(path))?;
    if bytes.len() as u64 > limit {
        return Err(fail_bad_input(format!("{}: more than {limit} bytes", path.display())));
    }
    Ok(bytes)
}

/// Reads a text. Fails if it is longer than `limit` bytes or not UTF-8.
pub fn sys_read_text(path: &Path, limit: u64) -> Run<String> {
    String::from_utf8(sys_read_file(path, limit)?).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        fail_bad_input(format!("{}: not UTF-8 at byte {at}", path.display()))
    })
}
