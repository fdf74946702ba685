//! The commands on graphs, in text form, as ONNX models, or in exported programs.
//!
//! Invariant: a message about a text names its file, line and column.

pub mod check_command;
pub mod compare_command;
pub mod derive_commands;
pub mod export_c_command;
pub mod exported;
pub mod fusion;
pub mod onnx_file;
pub mod plan_command;
pub mod print_opt_grad;
pub mod run_command;

use crate::args::{GraphArgs, SizeArgs};
use crate::fail::{Fail, Run, fail_bad_input, fail_in_text};
use crate::stdout_stderr::warn_stderr;
use crate::sys;
use arenagrad::error::Error;
use arenagrad::graph::{GraphBuf, Sizes, Warning};
use arenagrad::tools::ir::text;
use arenagrad::tools::ir::verify::{Stage, verify};
use std::path::Path;

/// Largest text, in bytes. The parser refuses a longer one anyway.
const LIMIT: u64 = 64 << 20;

/// Reads and verifies a command's graph. Its warnings go to standard error.
pub fn load_graph(graph: &GraphArgs) -> Run<GraphBuf> {
    load_ir(&graph.file, &graph.sizes)
}

/// As [`load_graph`], by its path and the sizes of its symbols.
pub fn load_ir(path: &Path, sizes: &SizeArgs) -> Run<GraphBuf> {
    if exported::is_exported(path) {
        let text = "an exported program; this command takes a graph: `plan`, `run` and `export` take the program";
        return Err(fail_bad_input(format!("{}: {text}", path.display())));
    }
    if onnx_file::is_onnx(path) {
        return Ok(onnx_file::read_onnx(path, sizes, &[])?.graph);
    }
    let text = sys::sys_read_text(path, LIMIT)?;
    let bound: Vec<(&str, usize)> = sizes.bound.iter().map(|b| (b.symbol.as_str(), b.size)).collect();
    let sizes = Sizes::new(&bound).map_err(|e| fail_bad_input(format!("--size: {e}")))?;
    let graph = text::parse_with_sizes(&text, &[], &sizes).map_err(|e| fail_in_text(path, &e))?;
    match verify(graph.view(), Stage::Block).first() {
        Some(e) => Err(fail_in_text(path, e)),
        None => {
            ir_warnings(path, &graph.warnings());
            Ok(graph)
        }
    }
}

/// Writes the warnings of the graph in `path` to standard error.
pub fn ir_warnings(path: &Path, warnings: &[Warning]) {
    let file = path.display().to_string();
    for w in warnings {
        let mut w = w.clone();
        w.location = w.location.in_file(&file);
        warn_stderr(w);
    }
}

/// Turns an error on the graph in `path` into a failure that names the file.
pub fn ir_failure(path: &Path) -> impl Fn(Error) -> Fail {
    move |e| fail_in_text(path, &e)
}
