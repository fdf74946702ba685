//! The commands on graphs in text form.
//!
//! Invariant: a message about a text names its file, line and column.

pub mod check_command;
pub mod derive_commands;
pub mod fusion;
pub mod plan_command;
pub mod print_opt_grad;
pub mod run_command;

use crate::fail::{Fail, Run, fail_in_text};
use crate::sys;
use arenagrad::error::Error;
use arenagrad::graph::GraphBuf;
use arenagrad::tools::ir::text;
use arenagrad::tools::ir::verify::{Stage, verify};
use std::path::Path;

/// Largest text, in bytes. The parser refuses a longer one anyway.
const LIMIT: u64 = 64 << 20;

/// Reads and verifies a graph.
pub fn load_ir(path: &Path) -> Run<GraphBuf> {
    let text = sys::sys_read_text(path, LIMIT)?;
    let graph = text::parse(&text).map_err(|e| fail_in_text(path, &e))?;
    match verify(graph.view(), Stage::Block).first() {
        Some(e) => Err(fail_in_text(path, e)),
        None => Ok(graph),
    }
}

/// Turns an error on the graph in `path` into a failure that names the file.
pub fn ir_failure(path: &Path) -> impl Fn(Error) -> Fail {
    move |e| fail_in_text(path, &e)
}
