//! Writes a recorded step to a file and prints its table.
//!
//! Invariant: the file is replaced as a whole; file and table come from the same events.

use crate::fail::Run;
use arenagrad::session::Trace;
use arenagrad::train::write_atomically;
use std::path::Path;

/// Steps before the recorded one, in which caches, pages and clock rates settle.
pub const WARMUP: usize = 5;

/// Writes the step `t` to `path` for a trace viewer, and returns the table of its times by op.
pub fn write_trace_record(path: &Path, title: &str, t: &Trace) -> Run<String> {
    let mut file = Vec::new();
    t.write_chrome(&mut file, title)?;
    write_atomically(path, &file)?;
    Ok(t.to_string())
}
