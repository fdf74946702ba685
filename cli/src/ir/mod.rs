//! Commands on graphs in text form.
//!
//! Invariant: a message about a text names its file, line and column. For `main`.

pub mod check;
pub mod eval;
pub mod finite;
pub mod fusion;
pub mod plan;
pub mod show;

use crate::fail::{Fail, Run, in_text};
use crate::sys;
use arenagrad::error::Error;
use arenagrad::graph::GraphBuf;
use arenagrad::tools::ir::text;
use arenagrad::tools::ir::verify::{Stage, verify};
use std::path::Path;

/// A text that is longer is refused by the parser anyway.
const LIMIT: u64 = 64 << 20;

/// Reads a graph.
pub fn load(path: &Path) -> Run<GraphBuf> {
    let text = sys::read_text(path, LIMIT)?;
    let graph = text::parse(&text).map_err(|e| in_text(path, &e))?;
    match verify(graph.view(), Stage::Block).first() {
        Some(e) => Err(in_text(path, e)),
        None => Ok(graph),
    }
}

/// Names the file in what a command on its graph reports.
pub fn of(path: &Path) -> impl Fn(Error) -> Fail {
    move |e| in_text(path, &e)
}
