//! `trace`, and `--trace` of other commands: one step as a picture, a row a thread.
//!
//! Invariant: the file is replaced as a whole; what it holds is what the program recorded, in the form that
//! chrome://tracing and ui.perfetto.dev read.

mod chrome;
mod table;

use crate::args::{BenchArgs, TraceArgs};
use crate::bench::{self, Bench};
use crate::fail::{Run, bad};
use crate::ir::eval::write_leaf;
use crate::ir::{load, of};
use crate::out::emit;
use arenagrad::graph::{DType, GraphBuf};
use arenagrad::session::{Binding, Call, Program, Role, Session, Trace};
use arenagrad::train::write_atomically;
use std::path::Path;

/// Steps before the one that is recorded: caches, pages and the clocks of processors settle.
const WARMUP: usize = 5;

/// Records a step of a workload of `bench`, or of a graph in a file.
pub fn trace(a: &TraceArgs) -> Run {
    let recorded = match bench::workload(&a.target) {
        Ok(w) => {
            let b =
                BenchArgs { threads: a.threads, precision: a.precision, data: a.data.clone(), ..BenchArgs::default() };
            of_workload(&mut Bench::new(w, &b, true)?)?
        }
        Err(unknown) => {
            let path = Path::new(&a.target);
            if !path.exists() && path.extension().is_none() {
                return Err(bad(format!("{}; a file is not called so either", unknown.message)));
            }
            if let Some(data) = &a.data {
                return Err(bad(format!("--data {} is for workloads; {} is a graph", data.display(), a.target)));
            }
            let session = Session::new().threads(a.threads).precision(a.precision);
            let mut t = of_graph(&load(path)?, &session, path)?;
            let placed = |c: &Call| Call { place: c.place.clone().in_file(&a.target), ..c.clone() };
            t.calls = t.calls.iter().map(placed).collect();
            t
        }
    };
    emit(write(&a.out, &a.target, &recorded)?)
}

/// A step of a workload that was compiled for it.
pub fn of_workload(b: &mut Bench) -> Run<Trace> {
    for _ in 0..WARMUP {
        b.step()?;
    }
    Ok(b.step_traced()?)
}

/// A step of a graph on made-up inputs.
fn of_graph(graph: &GraphBuf, session: &Session, path: &Path) -> Run<Trace> {
    let mut p = session.compile_traced(graph).map_err(of(path))?;
    p.init(0).map_err(of(path))?;
    invent(&mut p)?;
    for _ in 0..WARMUP {
        p.step().map_err(of(path))?;
    }
    p.step_traced().map_err(of(path))
}

/// Inputs of floats get numbers of a plausible size, others 0, which is an index wherever there is one; defaults stay.
fn invent(p: &mut Program) -> Run {
    let made = |b: &&Binding| b.role == Role::Input && b.default.is_none();
    let inputs: Vec<_> = p.bindings().iter().filter(made).cloned().collect();
    for b in &inputs {
        let number = |i: usize| (i as f64 * 0.7).sin();
        match b.dtype {
            DType::F32 => p.values_mut::<f32>(&b.name)?.iter_mut().enumerate().for_each(|(i, x)| *x = number(i) as f32),
            DType::F64 => p.values_mut::<f64>(&b.name)?.iter_mut().enumerate().for_each(|(i, x)| *x = number(i)),
            _ => write_leaf(p, b, &vec![0; b.bytes])?,
        }
    }
    Ok(())
}

/// Writes the file; where the step's time went.
pub fn write(path: &Path, title: &str, t: &Trace) -> Run<String> {
    write_atomically(path, &chrome::encode(title, t).map_err(bad)?)?;
    Ok(table::table(t))
}
