//! The command `export --c`: the planned step of a graph as C99.
//!
//! Invariant: nothing is written before the whole text exists, and each file is replaced as a whole.

use super::exported::{compile_graph, is_exported, load_chosen};
use super::ir_failure;
use crate::args::ExportArgs;
use crate::fail::{Fail, Run, fail_bad_input};
use crate::stdout_stderr::emit_stdout;
use arenagrad::session::Session;
use arenagrad::train::write_atomically;
use arenagrad_export_c::{CFiles, ExportError, export_c, identifier};
use std::path::Path;

/// Runs the command; `source` is the file of C.
pub fn export_c_command(a: &ExportArgs, source: &Path) -> Run {
    let stem = source.file_stem().and_then(|s| s.to_str()).filter(|_| source.extension().is_some_and(|e| e == "c"));
    let stem = stem.ok_or_else(|| fail_bad_input(format!("--c {}: the name must end in .c", source.display())))?;
    if is_exported(&a.graph.file) {
        let text = "an exported program; --c takes a graph's text or an ONNX model";
        return Err(fail_bad_input(format!("{}: {text}", a.graph.file.display())));
    }
    let name = identifier(a.name.as_deref().unwrap_or(stem));
    let (graph, mut start) = compile_graph(a, &Session::new().threads(1))?;
    load_chosen(&mut start, a.weights.as_deref(), &a.read)?;
    let files = export_c(&graph, &start, &name).map_err(export_failure(&a.graph.file))?;
    let header = source.with_file_name(format!("{name}.h"));
    write_atomically(&header, files.header.as_bytes())?;
    write_atomically(source, files.source.as_bytes())?;
    emit_stdout(export_summary(&files, source, &header))
}

/// What was written, for people.
fn export_summary(files: &CFiles, source: &Path, header: &Path) -> String {
    let CFiles { arena_bytes, param_bytes, table_bytes, instructions, .. } = files;
    format!(
        "wrote {} and {}: {instructions} instructions\n\
         arena {arena_bytes} bytes, of them params {param_bytes}\n\
         start values {table_bytes} bytes",
        source.display(),
        header.display()
    )
}

/// Turns an error into a failure that names the file.
fn export_failure(file: &Path) -> impl Fn(ExportError) -> Fail {
    move |e| match e {
        ExportError::Engine(e) => ir_failure(file)(e),
        other => fail_bad_input(format!("{}: {other}", file.display())),
    }
}
