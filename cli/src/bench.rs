//! `bench`: whole training steps of two small networks, timed one by one.
//!
//! Invariant: a step is all that a user waits for: batch in, step, loss out. Workloads, warm-up and figures are those of
//! the usual comparisons: w1 is an MLP 784-128-10 with ReLU and cross entropy, batch 32, SGD 0.1; w2 an MLP 4-32-32-2
//! with tanh and mean squared error, batch 1, SGD 0.01.

use crate::args::BenchArgs;
use crate::fail::{Fail, Run, bad};
use crate::ir::show::emit;
use crate::{alloc, sys};
use arenagrad::error::Result;
use arenagrad::nn;
use arenagrad::nodes::training::CrossEntropy;
use arenagrad::nodes::{Builder, DType, GraphBuf};
use arenagrad::passes::optimiser::{LR, Optimiser, train};
use arenagrad::session::{Program, Role, Session, Slot};
use arenagrad::train::{Loaded, Times};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

const WARMUP: usize = 20;
const LOSSES: usize = 5;
const FILE_LIMIT: u64 = 1 << 30;
/// Step times that are kept: the last ones.
const TIMES: usize = 1 << 20;

#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    widths: &'static [usize],
    batch: usize,
    classes: bool,
    lr: f64,
}

const WORKLOADS: [Workload; 2] = [
    Workload { name: "w1", widths: &[784, 128, 10], batch: 32, classes: true, lr: 0.1 },
    Workload { name: "w2", widths: &[4, 32, 32, 2], batch: 1, classes: false, lr: 0.01 },
];

/// Times the workloads.
pub fn bench(a: &BenchArgs) -> Run {
    if !(a.seconds >= 0.0 && a.seconds <= 3600.0) {
        return Err(bad(format!("--seconds is {}; it goes from 0 to 3600", a.seconds)));
    }
    for name in &a.workloads {
        let known = || WORKLOADS.map(|w| w.name).join(", ");
        let w = WORKLOADS.iter().find(|w| w.name == *name);
        let w = w.ok_or_else(|| bad(format!("no workload is called {name:?}; there are {}", known())))?;
        let figures = time(w, a)?;
        emit(&if a.json { serde_json::to_string(&figures).map_err(bad)? } else { figures.text() })?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Figures {
    workload: &'static str,
    threads: usize,
    steps: usize,
    step_us_p50: f64,
    step_us_p99: f64,
    step_us_min: f64,
    allocs_per_step: f64,
    arena_bytes: usize,
    arena_lower_bound_bytes: usize,
    peak_rss_bytes: Option<u64>,
    first_losses: Vec<f32>,
}

impl Figures {
    fn text(&self) -> String {
        format!(
            "{}  threads {}  steps {}  p50 {:.2} us  p99 {:.2} us  min {:.2} us  allocs/step {}  arena {} (bound {})\n\
             {}  first losses {:?}",
            self.workload,
            self.threads,
            self.steps,
            self.step_us_p50,
            self.step_us_p99,
            self.step_us_min,
            self.allocs_per_step,
            self.arena_bytes,
            self.arena_lower_bound_bytes,
            self.workload,
            self.first_losses
        )
    }
}

fn graph(w: &Workload) -> Result<GraphBuf> {
    let g = Builder::new(w.name);
    let mut h = g.input("x", [w.batch, w.widths[0]], DType::F32);
    for (i, &width) in w.widths.iter().enumerate().skip(1) {
        h = nn::linear(&g, &format!("fc{i}"), h, width);
        if i + 1 < w.widths.len() {
            h = if w.classes { h.relu() } else { h.tanh() };
        }
    }
    let loss = match w.classes {
        true => h.cross_entropy_with(g.input("y", [w.batch], DType::I32), CrossEntropy::default()),
        false => h.mse(g.input("y", [w.batch, w.widths[w.widths.len() - 1]], DType::F32)),
    };
    g.finish([loss.named("loss")])
}

/// Where the targets go.
#[derive(Clone, Copy)]
enum Target {
    Classes(Slot<i32>),
    Values(Slot<f32>),
}

/// A pool of batches.
struct Pool {
    batches: usize,
    x: Vec<f32>,
    classes: Vec<i32>,
    values: Vec<f32>,
}

struct Bench {
    program: Program,
    x: Slot<f32>,
    y: Target,
    loss: Slot<f32>,
    pool: Pool,
    next: usize,
}

impl Bench {
    fn step(&mut self) -> Result<f32> {
        let p = &mut self.program;
        let part = |len: usize, i: usize| len / self.pool.batches * i..len / self.pool.batches * (i + 1);
        p.write(self.x, &self.pool.x[part(self.pool.x.len(), self.next)])?;
        match self.y {
            Target::Classes(y) => p.write(y, &self.pool.classes[part(self.pool.classes.len(), self.next)])?,
            Target::Values(y) => p.write(y, &self.pool.values[part(self.pool.values.len(), self.next)])?,
        }
        self.next = (self.next + 1) % self.pool.batches;
        p.step()?;
        Ok(p.read(self.loss)?.first().copied().unwrap_or(f32::NAN))
    }
}

fn prepare(w: &Workload, a: &BenchArgs) -> Run<Bench> {
    let step = train(graph(w)?.view(), "loss", &Optimiser::sgd(w.lr))?;
    let mut program = Session::new().threads(a.threads).compile(&step)?;
    program.init(0)?;
    program.input_mut::<f32>(LR)?.fill(w.lr as f32);
    let pool = match &a.data {
        Some(dir) => load(w, &mut program, &dir.join(format!("{}.safetensors", w.name)))?,
        None => invented(w),
    };
    let y = if w.classes { Target::Classes(program.input("y")?) } else { Target::Values(program.input("y")?) };
    Ok(Bench { x: program.input("x")?, y, loss: program.output_slot("loss")?, program, pool, next: 0 })
}

/// Numbers of a plausible size.
fn invented(w: &Workload) -> Pool {
    let batches = 16;
    let wave = |n: usize| (0..n).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<f32>>();
    let outputs = w.widths[w.widths.len() - 1];
    Pool {
        batches,
        x: wave(batches * w.batch * w.widths[0]),
        classes: (0..batches * w.batch).map(|i| (i * 7 % outputs) as i32).collect(),
        values: wave(batches * w.batch * outputs),
    }
}

/// Params `p.<name>`, and `x` and `y` with a leading axis over batches.
fn load(w: &Workload, program: &mut Program, path: &Path) -> Run<Pool> {
    let file = Loaded::open(path, FILE_LIMIT)?;
    let named = |e: arenagrad::error::Error| Fail::from(e.context(path.display()));
    let params: Vec<_> = program.bindings().iter().filter(|b| b.role == Role::Param).cloned().collect();
    for b in &params {
        let e = file.expect(&format!("p.{}", b.name), b.dtype, &b.dims).map_err(named)?;
        finite(path, e.name, e.bytes)?;
        program.persistent_mut(&b.name)?.1.copy_from_slice(e.bytes);
    }
    let batches = file.find("x").and_then(|e| e.dims.first().copied()).unwrap_or(0);
    if batches == 0 {
        return Err(bad(format!("{}: x holds no batch", path.display())));
    }
    let x = file.expect("x", DType::F32, &[batches, w.batch, w.widths[0]]).map_err(named)?;
    finite(path, "x", x.bytes)?;
    let mut pool = Pool { batches, x: floats(x.bytes), classes: Vec::new(), values: Vec::new() };
    let outputs = w.widths[w.widths.len() - 1];
    if w.classes {
        let y = file.expect("y", DType::I32, &[batches, w.batch]).map_err(named)?;
        pool.classes = y.bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect();
    } else {
        let y = file.expect("y", DType::F32, &[batches, w.batch, outputs]).map_err(named)?;
        finite(path, "y", y.bytes)?;
        pool.values = floats(y.bytes);
    }
    Ok(pool)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn finite(path: &Path, name: &str, bytes: &[u8]) -> Run {
    match floats(bytes).iter().position(|x| !x.is_finite()) {
        Some(i) => Err(bad(format!("{}: element {i} of {name:?} is not finite", path.display()))),
        None => Ok(()),
    }
}

fn time(w: &Workload, a: &BenchArgs) -> Run<Figures> {
    let mut b = prepare(w, a)?;
    let mut first_losses = Vec::with_capacity(LOSSES);
    for i in 0..WARMUP {
        let loss = b.step()?;
        if i < LOSSES {
            first_losses.push(loss);
        }
    }
    let mut times = Times::new(TIMES);
    let mut steps = 0;
    let limit = Duration::from_secs_f64(a.seconds);
    let (start, before) = (Instant::now(), alloc::calls());
    let mut now = start;
    while now - start < limit || steps < LOSSES {
        b.step()?;
        let then = Instant::now();
        times.record(u64::try_from((then - now).as_nanos()).unwrap_or(u64::MAX));
        now = then;
        steps += 1;
    }
    let allocs = alloc::calls() - before;
    let plan = b.program.plan();
    let us = |q: f64| times.quantile(q) as f64 / 1e3;
    Ok(Figures {
        workload: w.name,
        threads: a.threads,
        steps,
        step_us_p50: us(0.5),
        step_us_p99: us(0.99),
        step_us_min: us(0.0),
        allocs_per_step: allocs as f64 / steps as f64,
        arena_bytes: plan.arena_bytes,
        arena_lower_bound_bytes: plan.lower_bound_bytes,
        peak_rss_bytes: sys::peak_rss(),
        first_losses,
    })
}
