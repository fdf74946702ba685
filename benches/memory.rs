//! The memory of training programs, as criterion's measurement: the arena, and the growth of the resident set at its
//! peak from graph to second step.
//!
//! `cargo bench -p arenagrad-benches --bench memory -- --save-baseline NAME` keeps the figures, and `--baseline NAME`
//! compares with them. The models are those of `tests/common/zoo.rs` that step in less than a second.
#![allow(missing_docs)]

#[path = "../tests/common/models.rs"]
#[allow(dead_code)]
mod models;
#[path = "../tests/common/zoo.rs"]
#[allow(dead_code)]
mod zoo;

use arenagrad::graph::{DType, GraphBuf};
use arenagrad::session::{Program, Role, Session};
use criterion::measurement::{Measurement, ValueFormatter};
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use std::time::Duration;

/// Models whose steps are short.
const MODELS: &[&str] = &["mlp10-b256", "lenet-b128", "scan512-b32"];

/// Bytes, as a benchmark itself counts them.
struct Bytes;

impl Measurement for Bytes {
    type Intermediate = ();
    type Value = u64;

    fn start(&self) {}

    fn end(&self, (): ()) -> u64 {
        0
    }

    fn add(&self, a: &u64, b: &u64) -> u64 {
        a + b
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, value: &u64) -> f64 {
        *value as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &Mebibytes
    }
}

/// Prints bytes as MiB.
struct Mebibytes;

impl ValueFormatter for Mebibytes {
    fn scale_values(&self, _: f64, values: &mut [f64]) -> &'static str {
        values.iter_mut().for_each(|x| *x /= f64::from(1 << 20));
        "MiB"
    }

    fn scale_throughputs(&self, typical: f64, _: &Throughput, values: &mut [f64]) -> &'static str {
        self.scale_values(typical, values)
    }

    fn scale_for_machines(&self, _: &mut [f64]) -> &'static str {
        "B"
    }
}

/// The bytes that `/proc/self/status` gives for `name`.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a system that tells its memory");
    let line = status.lines().find_map(|l| l.strip_prefix(name)).expect("a line of this name");
    1024 * line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number")
}

/// A program after two steps, on inputs of zeros.
fn stepped(graph: &GraphBuf) -> Program {
    let mut p = Session::new().compile(graph).expect("a valid program");
    p.init(0).expect("start values");
    let inputs: Vec<_> =
        p.bindings().iter().filter(|b| b.role == Role::Input && b.default.is_none()).cloned().collect();
    for b in &inputs {
        match b.dtype {
            DType::I32 => p.values_mut::<i32>(&b.name).expect("an input").fill(0),
            _ => p.values_mut::<f32>(&b.name).expect("an input").fill(0.0),
        }
    }
    for _ in 0..2 {
        p.step().expect("a step");
    }
    p
}

/// The growth of the resident set at its peak.
fn resident(graph: &GraphBuf) -> u64 {
    // Where the peak cannot be reset, it is that since the start, which is no smaller.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = status("VmRSS:");
    let program = stepped(graph);
    let grown = status("VmHWM:").saturating_sub(before);
    drop(program);
    grown
}

fn memory(c: &mut Criterion<Bytes>) {
    let mut group = c.benchmark_group("memory");
    group.sampling_mode(SamplingMode::Flat);
    for model in zoo::ZOO.iter().filter(|m| MODELS.contains(&m.name)) {
        let graph = (model.full)();
        let arena =
            |graph: &GraphBuf| Session::new().compile(graph).expect("a valid program").plan().arena_bytes as u64;
        group.bench_function(format!("{} arena", model.name), |b| {
            b.iter_custom(|times| (0..times).map(|_| arena(&graph)).sum());
        });
        group.bench_function(format!("{} resident", model.name), |b| {
            b.iter_custom(|times| (0..times).map(|_| resident(&graph)).sum());
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(Bytes).sample_size(10)
        .measurement_time(Duration::from_millis(200)).warm_up_time(Duration::from_millis(1));
    targets = memory
}
criterion_main!(benches);
