//! Exported programs: the command `export`, and what other commands open.
//!
//! Invariant: an exported program has its plan. Options that would change it are refused, not passed over.

use super::onnx_file::{is_onnx, onnx_failure, read_onnx};
use super::{ir_failure, load_graph};
use crate::args::{ExportArgs, ReadArgs, SizeArgs};
use crate::config::byte_size::byte_size_as_usize;
use crate::fail::{Run, fail_bad_input};
use crate::stdout_stderr::emit_stdout;
use crate::weights_file;
use arenagrad::graph::GraphBuf;
use arenagrad::session::{Program, Session, human};
use std::path::Path;

/// Whether `path` names an exported program.
pub fn is_exported(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("agp"))
}

/// Opens the exported program `path`.
pub fn open_exported(path: &Path, sizes: &SizeArgs) -> Run<Program> {
    if !sizes.bound.is_empty() {
        return Err(fail_bad_input(format!("{}: an exported program has no symbols for --size", path.display())));
    }
    Ok(Program::open(path)?)
}

/// Gives start values to what the exported program `p`, of `path`, has no values of.
pub fn init_exported(p: &mut Program, seed: Option<u64>, path: &Path) -> Run {
    if seed.is_some() && p.persistent().all(|(b, _)| p.holds_value(&b.name)) {
        let text = "an exported program has its params and states: --seed belongs to the export of its graph";
        return Err(fail_bad_input(format!("{}: {text}", path.display())));
    }
    p.init_rest(seed.unwrap_or(0)).map_err(ir_failure(path))
}

/// Gives params the values of `weights`, if there are any.
pub fn load_chosen(p: &mut Program, weights: Option<&Path>, read: &ReadArgs) -> Run {
    match weights {
        Some(path) => weights_file::load_params(p, path, read),
        None if !read.prefix.is_empty() || !read.transpose.is_empty() => {
            Err(fail_bad_input("--prefix and --transpose need --weights"))
        }
        None => Ok(()),
    }
}

/// Runs the command: compiles the graph, gives its params values, and writes the program.
pub fn export_command(a: &ExportArgs) -> Run {
    let Some(out) = &a.out else { return Err(fail_bad_input("give --out or --c")) };
    let file = &a.graph.file;
    let session = Session::new().threads(a.threads).precision(a.precision).convolutions(a.convolutions).keep(a.keep);
    let session =
        a.max_memory.map_or_else(|| session.clone(), |m| session.clone().memory_budget(byte_size_as_usize(m)));
    let mut p = if is_exported(file) {
        // Only to refuse sizes: another engine's plan need not be one of this engine.
        if !a.graph.sizes.bound.is_empty() {
            open_exported(file, &a.graph.sizes)?;
        }
        let mut p = session.compile_exported(file)?;
        init_exported(&mut p, a.seed, file)?;
        p
    } else {
        compile_graph(a, &session)?.1
    };
    load_chosen(&mut p, a.weights.as_deref(), &a.read)?;
    p.export(out)?;
    let (bytes, plan) = (std::fs::metadata(out).map_err(arenagrad::Error::from)?.len(), p.plan());
    let (size, arena) = (human(bytes), human(plan.arena_bytes as u64));
    emit_stdout(format!("{}: {size}; arena {arena}, threads {}", out.display(), p.threads()))
}

/// The graph of the options, and its program with start values or those of its model.
pub fn compile_graph(a: &ExportArgs, session: &Session) -> Run<(GraphBuf, Program)> {
    let file = &a.graph.file;
    let model = is_onnx(file).then(|| read_onnx(file, &a.graph.sizes, &[])).transpose()?;
    let graph = match &model {
        Some(model) => model.graph.clone(),
        None => load_graph(&a.graph)?,
    };
    let mut p = session.compile(&graph).map_err(ir_failure(file))?;
    p.init(a.seed.unwrap_or(0)).map_err(ir_failure(file))?;
    if let Some(model) = &model {
        model.load(&mut p).map_err(onnx_failure(file))?;
    }
    Ok((graph, p))
}
