//! The command `trace`, and the recordings that `--trace` of other commands makes.
//!
//! Invariant: a file holds the events that the program recorded, in the format of chrome://tracing and
//! ui.perfetto.dev, with one track for each thread.

pub mod record;

use crate::args::{BenchArgs, TraceArgs};
use crate::bench::{self, Bench};
use crate::fail::{Run, fail_bad_input};
use crate::ir::{ir_failure, load_ir};
use crate::stdout_stderr::emit_stdout;
use crate::train::ranks::Ranks;
use arenagrad::graph::{DType, GraphBuf};
use arenagrad::session::{Binding, Call, Program, Role, Session, Trace};
use std::path::Path;

/// Runs the command: records a step of a workload of `bench`, or of a graph in a file.
pub fn trace_command(a: &TraceArgs) -> Run {
    let recorded = match bench::find_workload(&a.target) {
        Ok(_) if !a.sizes.bound.is_empty() => {
            return Err(fail_bad_input(format!("--size is for graphs; {} is a workload", a.target)));
        }
        Ok(w) => {
            let b = BenchArgs {
                threads: a.threads,
                precision: a.precision,
                convolutions: a.convolutions,
                keep: a.keep,
                data: a.data.clone(),
                ..BenchArgs::default()
            };
            Bench::new(w, &b, &Ranks::one(), true)?.record()?
        }
        Err(unknown) => {
            let path = Path::new(&a.target);
            if !path.exists() && path.extension().is_none() {
                return Err(fail_bad_input(format!("{}; a file is not called so either", unknown.message)));
            }
            if let Some(data) = &a.data {
                return Err(fail_bad_input(format!(
                    "--data {} is for workloads; {} is a graph",
                    data.display(),
                    a.target
                )));
            }
            let session =
                Session::new().threads(a.threads).precision(a.precision).convolutions(a.convolutions).keep(a.keep);
            let mut t = trace_of_graph(&load_ir(path, &a.sizes)?, &session, path)?;
            let placed = |call: &Call| {
                let mut call = call.clone();
                call.location = call.location.in_file(&a.target);
                call
            };
            t.calls = t.calls.iter().map(placed).collect();
            t
        }
    };
    emit_stdout(record::write_trace_record(&a.out, &a.target, &recorded)?)
}

/// A recorded step of a graph on synthetic inputs.
fn trace_of_graph(graph: &GraphBuf, session: &Session, path: &Path) -> Run<Trace> {
    let mut p = session.compile_traced(graph).map_err(ir_failure(path))?;
    p.init(0).map_err(ir_failure(path))?;
    fill_trace_command_inputs(&mut p)?;
    for _ in 0..record::WARMUP {
        p.step().map_err(ir_failure(path))?;
    }
    p.step_traced().map_err(ir_failure(path))
}

/// Fills float inputs with numbers in [-1, 1], and all others with 0, a valid index of any axis. Inputs with a default
/// keep it.
fn fill_trace_command_inputs(p: &mut Program) -> Run {
    let without_default = |b: &&Binding| b.role == Role::Input && b.default.is_none();
    let inputs: Vec<_> = p.bindings().iter().filter(without_default).cloned().collect();
    for b in &inputs {
        let number = |i: usize| (i as f64 * 0.7).sin();
        match b.dtype {
            DType::F32 => p.values_mut::<f32>(&b.name)?.iter_mut().enumerate().for_each(|(i, x)| *x = number(i) as f32),
            DType::F64 => p.values_mut::<f64>(&b.name)?.iter_mut().enumerate().for_each(|(i, x)| *x = number(i)),
            _ => p.write_bytes(&b.name, &vec![0; b.bytes])?,
        }
    }
    Ok(())
}
