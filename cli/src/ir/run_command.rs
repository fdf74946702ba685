//! The command `run`: evaluates a graph on `.npy` files.
//!
//! Invariant: before the graph runs, every input without a default has a value from a file, of exactly its type and
//! shape. Outputs are written after all of them are computed.

use super::exported::{init_exported, is_exported, load_chosen, open_exported};
use super::onnx_file::{is_onnx, onnx_failure, read_onnx};
use super::{ir_failure, ir_warnings, load_graph};
use crate::args::RunArgs;
use crate::fail::{Run, fail_bad_input};
use crate::run_dir::RunDir;
use crate::stdout_stderr::emit_stdout;
use arenagrad::session::{Program, Role, Session};
use arenagrad::train::data::{encode_npy, read_npy_within};
use std::path::Path;

/// Runs the command.
pub fn run_command(a: &RunArgs) -> Run {
    let files = run_value_files(a)?;
    if is_exported(&a.graph.file) {
        if a.threads != 1 {
            let text = "an exported program has its threads: export it again with --threads";
            return Err(fail_bad_input(format!("{}: {text}", a.graph.file.display())));
        }
        let mut p = open_exported(&a.graph.file, &a.graph.sizes)?;
        init_exported(&mut p, a.seed, &a.graph.file)?;
        load_chosen(&mut p, a.weights.as_deref(), &a.read)?;
        return run_program(a, p, &files);
    }
    let model = is_onnx(&a.graph.file).then(|| read_onnx(&a.graph.file, &a.graph.sizes, &files)).transpose()?;
    let graph = match &model {
        Some(model) => model.graph.clone(),
        None => load_graph(&a.graph)?,
    };
    let mut p = Session::new().threads(a.threads).compile(&graph).map_err(ir_failure(&a.graph.file))?;
    let (known, mut warnings) = (graph.warnings(), p.plan().warnings.clone());
    warnings.retain(|w| !known.contains(w));
    ir_warnings(&a.graph.file, &warnings);
    p.init(a.seed.unwrap_or(0)).map_err(ir_failure(&a.graph.file))?;
    if let Some(model) = &model {
        model.load(&mut p).map_err(onnx_failure(&a.graph.file))?;
    }
    load_chosen(&mut p, a.weights.as_deref(), &a.read)?;
    // What shapes depend on was read with the model, and is no input of the graph.
    let shaping = |name: &str| model.as_ref().is_some_and(|m| m.values.iter().any(|v| v == name));
    let files: Vec<_> = files.into_iter().filter(|(name, _)| !shaping(name)).collect();
    run_program(a, p, &files)
}

/// Runs a step of `p` on the values in `files`, and writes its outputs.
fn run_program(a: &RunArgs, mut p: Program, files: &[(&str, &Path)]) -> Run {
    for (name, file) in files {
        fill_run_leaf(&mut p, name, file)?;
    }
    let given: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let inputs = p.bindings().iter().filter(|b| b.role == Role::Input && b.default.is_none());
    let missing: Vec<&str> = inputs.map(|b| b.name.as_str()).filter(|n| !given.contains(n)).collect();
    if !missing.is_empty() {
        return Err(fail_bad_input(format!("no value for {}; give --in {}=FILE.npy", missing.join(", "), missing[0])));
    }
    p.step().map_err(ir_failure(&a.graph.file))?;
    let dir = RunDir::new(&a.out);
    dir.create()?;
    let _lock = dir.lock()?;
    for b in p.bindings().iter().filter(|b| b.role == Role::Output) {
        let file = encode_npy(b.dtype, &b.dims, p.bytes_of(b));
        let file = file.map_err(|e| fail_bad_input(format!("output {:?}: {e}", b.name)))?;
        let name = format!("{}.npy", run_output_file(&b.name));
        dir.replace(&name, &file)?;
        emit_stdout(format!("{} {}{} {}", b.name, b.dtype, b.dims, dir.file(&name).display()))?;
    }
    Ok(())
}

/// The names and files of `--in`.
fn run_value_files(a: &RunArgs) -> Run<Vec<(&str, &Path)>> {
    let mut given: Vec<(&str, &Path)> = Vec::new();
    for pair in &a.inputs {
        let Some((name, file)) = pair.split_once('=') else {
            return Err(fail_bad_input(format!("--in {pair:?} is not NAME=FILE.npy")));
        };
        if given.iter().any(|(other, _)| *other == name) {
            return Err(fail_bad_input(format!("--in gives {name:?} twice")));
        }
        given.push((name, Path::new(file)));
    }
    Ok(given)
}

/// The file name of an output. No name leaves the folder, and different outputs have different names. Characters that a
/// file name should not have become their bytes: `%2F` for `/`.
fn run_output_file(name: &str) -> String {
    if name.is_empty() {
        return "%".into();
    }
    let mut plain = String::with_capacity(name.len());
    for (i, c) in name.chars().enumerate() {
        let safe = c.is_alphanumeric() || "_-".contains(c) || (c == '.' && i > 0);
        match safe {
            true => plain.push(c),
            false => c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| plain.push_str(&format!("%{b:02X}"))),
        }
    }
    plain
}

/// Reads the leaf `name` from a `.npy` file of exactly its type and shape.
fn fill_run_leaf(p: &mut Program, name: &str, path: &Path) -> Run {
    let leaf = p.bindings().iter().find(|b| b.role != Role::Output && b.name == name).cloned();
    let Some(b) = leaf else {
        let known = p.bindings().iter().filter(|b| b.role != Role::Output).map(|b| b.name.as_str());
        return Err(fail_bad_input(format!(
            "no leaf is called {name:?}; there are {}",
            known.collect::<Vec<_>>().join(", ")
        )));
    };
    // A file that is a little too long gets the error that names both shapes.
    let array = read_npy_within(path, b.bytes as u64 + (1 << 16))?;
    if array.dtype != b.dtype || *array.dims != *b.dims {
        let text = format!(
            "{}: {}{:?}, but {name:?} is {}{:?}",
            path.display(),
            array.dtype,
            array.dims,
            b.dtype,
            &b.dims[..]
        );
        return Err(fail_bad_input(text));
    }
    Ok(p.write_bytes(&b.name, &array.bytes)?)
}

#[cfg(test)]
mod tests {
    use super::run_output_file;

    #[test]
    fn names_stay_in_their_folder() {
        assert_eq!(
            ["../x", ".hidden", "a/b", "a_b", "a%2Fb", "é\n", "", "grad.fc1.weight"].map(run_output_file),
            ["%2E.%2Fx", "%2Ehidden", "a%2Fb", "a_b", "a%252Fb", "é%0A", "%", "grad.fc1.weight"]
        );
    }
}
