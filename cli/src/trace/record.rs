//! Writes a recorded step to a file and prints its table.
//!
//! Invariant: the file is replaced as a whole; file and table come from the same events.

use super::{chrome, table};
use crate::fail::{Run, fail_bad_input};
use arenagrad::session::Trace;
use arenagrad::train::write_atomically;
use std::path::Path;

/// Steps before the recorded one, in which caches, pages and clock rates settle.
pub const WARMUP: usize = 5;

/// Writes the step `t` to `path` for a trace viewer, and returns the table of its times by op.
pub fn write_trace_record(path: &Path, title: &str, t: &Trace) -> Run<String> {
    write_atomically(path, &chrome::encode_chrome_trace(title, t).map_err(fail_bad_input)?)?;
    Ok(table::trace_table(t))
}
