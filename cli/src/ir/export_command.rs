//! The command `export`: the planned step of a graph as C99.
//!
//! Invariant: nothing is written before the whole text exists, and each file is replaced as a whole.

use super::{ir_failure, load_graph};
use crate::args::ExportArgs;
use crate::fail::{Fail, Run, fail_bad_input};
use crate::stdout_stderr::emit_stdout;
use crate::weights_file;
use arenagrad::session::Session;
use arenagrad::train::write_atomically;
use arenagrad_export_c::{CFiles, ExportError, export_c, identifier};
use std::path::Path;

/// Runs the command.
pub fn export_command(a: &ExportArgs) -> Run {
    let stem = a.c.file_stem().and_then(|s| s.to_str()).filter(|_| a.c.extension().is_some_and(|e| e == "c"));
    let stem = stem.ok_or_else(|| fail_bad_input(format!("--c {}: the name must end in .c", a.c.display())))?;
    let name = identifier(a.name.as_deref().unwrap_or(stem));
    let graph = load_graph(&a.graph)?;
    let mut start = Session::new().threads(1).compile(&graph).map_err(ir_failure(&a.graph.file))?;
    start.init(a.seed).map_err(ir_failure(&a.graph.file))?;
    match &a.weights {
        Some(path) => weights_file::load_params(&mut start, path, &a.read)?,
        None if !a.read.prefix.is_empty() || !a.read.transpose.is_empty() => {
            return Err(fail_bad_input("--prefix and --transpose need --weights"));
        }
        None => {}
    }
    let files = export_c(&graph, &start, &name).map_err(export_failure(&a.graph.file))?;
    let header = a.c.with_file_name(format!("{name}.h"));
    write_atomically(&header, files.header.as_bytes())?;
    write_atomically(&a.c, files.source.as_bytes())?;
    emit_stdout(export_summary(&files, &a.c, &header))
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
