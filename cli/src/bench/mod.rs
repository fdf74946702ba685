//! `bench`: whole training steps of small networks, timed one by one.
//!
//! Invariant: a step is all that a user waits for: batch in, step, loss out.

mod limits;
mod workloads;

use crate::args::BenchArgs;
use crate::fail::{Run, bad};
use crate::out::{self, emit};
use crate::{alloc, sys, trace};
use arenagrad::Precision;
use arenagrad::error::Result;
use arenagrad::optim::LR;
use arenagrad::session::{Elem, Handle, Program, Session, Trace};
use arenagrad::train::{Loaded, Times};
use serde::Serialize;
use std::time::{Duration, Instant};
pub use workloads::Workload;
use workloads::{Pool, WORKLOADS};

const WARMUP: usize = 20;
const LOSSES: usize = 5;
/// Step times that are kept: the last ones.
const TIMES: usize = 1 << 20;

/// Times the workloads.
pub fn bench(a: &BenchArgs) -> Run {
    if !(a.seconds >= 0.0 && a.seconds <= 3600.0) {
        return Err(bad(format!("--seconds is {}; it goes from 0 to 3600", a.seconds)));
    }
    if let (Some(file), n) = (&a.trace, a.workloads.len())
        && n != 1
    {
        return Err(bad(format!("--trace {} is of one workload; --workloads has {n}", file.display())));
    }
    let mut all = Vec::new();
    for name in &a.workloads {
        all.push(workload(name)?);
    }
    // More threads than cores have no more than those.
    let cores = a.threads.min(sys::cores());
    let peak = limits::flops(cores);
    for w in all {
        let figures = time(w, a, cores, peak)?;
        emit(if a.json { serde_json::to_string(&figures).map_err(bad)? } else { figures.text() })?;
        if let Some(file) = &a.trace {
            let table = trace::write(file, w.name, &trace::of_workload(&mut Bench::new(w, a, true)?)?)?;
            // What reads JSON finds nothing else on standard output.
            if a.json { out::note(table) } else { emit(table)? }
        }
        if out::reader_is_gone() {
            break;
        }
    }
    Ok(())
}

/// The workload called `name`.
pub fn workload(name: &str) -> Run<&'static Workload> {
    let known = || WORKLOADS.iter().map(|w| format!("{} ({})", w.name, w.doc)).collect::<Vec<_>>().join(", ");
    let found = WORKLOADS.iter().find(|w| w.name == name);
    found.ok_or_else(|| bad(format!("no workload is called {name:?}; there are {}", known())))
}

#[derive(Serialize)]
struct Metrics {
    workload: &'static str,
    precision: String,
    threads: usize,
    steps: usize,
    step_us_p50: f64,
    step_us_p99: f64,
    step_us_p999: f64,
    step_us_min: f64,
    /// Threads that the program uses, and how long its model takes a step to be.
    lanes: usize,
    modelled_us: f64,
    /// The first step, which touches the arena for the first time.
    first_step_ms: f64,
    /// Floating-point operations of a step, as the ops count them, and how many that is a second at the median.
    flops_per_step: u64,
    gflops: f64,
    /// Leaves read once, next values and outputs written once, and how fast as much memory streams.
    moved_bytes: u64,
    stream_gbs: f64,
    /// Multiply-adds in registers on as many threads.
    peak_gflops: f64,
    /// The least time that these limits allow, over the median; none where products are not computed in f32, whose
    /// limit this is.
    roofline_share: Option<f64>,
    allocs_per_step: f64,
    arena_bytes: usize,
    arena_lower_bound_bytes: usize,
    /// What the process grew by from before compiling until after the last step.
    rss_growth_bytes: Option<u64>,
    /// The same after the last step, without pages of files: without the code that compiling and stepping run.
    anon_growth_bytes: Option<u64>,
    compile_ms: f64,
    first_losses: Vec<f32>,
}

impl Metrics {
    fn text(&self) -> String {
        let bytes = |b: Option<u64>| b.map_or("unknown".into(), |b| b.to_string());
        let (growth, anon) = (bytes(self.rss_growth_bytes), bytes(self.anon_growth_bytes));
        let share = self.roofline_share.map_or("an unknown share".into(), |s| format!("{:.1} %", 100.0 * s));
        format!(
            "{}  {}  threads {} of {}  steps {}  modelled {:.2} us  p50 {:.2} us  p99 {:.2} us  p99.9 {:.2} us  min {:.2} us  allocs/step {}  arena {} \
             (bound {}, RSS grew by {growth}, {anon} without code)  compiled in {:.2} ms  first step {:.2} ms\n{}  {:.2} GFLOP/s of \
             {:.1}, {} operations and {} bytes at {:.1} GB/s a step: {share} of the roofline\n{}  first losses {:?}",
            self.workload,
            self.precision,
            self.lanes,
            self.threads,
            self.steps,
            self.modelled_us,
            self.step_us_p50,
            self.step_us_p99,
            self.step_us_p999,
            self.step_us_min,
            self.allocs_per_step,
            self.arena_bytes,
            self.arena_lower_bound_bytes,
            self.compile_ms,
            self.first_step_ms,
            self.workload,
            self.gflops,
            self.peak_gflops,
            self.flops_per_step,
            self.moved_bytes,
            self.stream_gbs,
            self.workload,
            self.first_losses
        )
    }
}

/// Where a batch goes.
#[derive(Clone, Copy)]
enum Port {
    Whole(Handle<i32>),
    Real(Handle<f32>),
}

impl Port {
    fn open(p: &Program, name: &str) -> Result<Port> {
        Ok(match p.input(name) {
            Ok(slot) => Port::Whole(slot),
            Err(_) => Port::Real(p.input(name)?),
        })
    }

    /// Copies batch `i` of `batches`.
    fn feed(self, p: &mut Program, all: &[u8], i: usize, batches: usize) -> Result<()> {
        match self {
            Port::Whole(slot) => feed(p, slot, all, i, batches),
            Port::Real(slot) => feed(p, slot, all, i, batches),
        }
    }
}

/// A workload that is ready to step.
pub struct Bench {
    program: Program,
    ports: [Port; 2],
    loss: Handle<f32>,
    pool: Pool,
    next: usize,
    compile: Duration,
    /// Resident bytes before compiling, and those among them that no file backs.
    rss: Option<u64>,
    anon: Option<u64>,
    /// Kept: that it goes must not make up for what came.
    _file: Option<Loaded>,
}

/// Copies batch `i` of `batches` into `slot`.
fn feed<T: Elem>(p: &mut Program, slot: Handle<T>, all: &[u8], i: usize, batches: usize) -> Result<()> {
    let bytes = all.len() / batches;
    bytemuck::cast_slice_mut(p.get_mut(slot)?).copy_from_slice(&all[bytes * i..bytes * (i + 1)]);
    Ok(())
}

impl Bench {
    /// Compiles `w` and loads its batches; `traced` if steps are to be recorded.
    pub fn new(w: &Workload, a: &BenchArgs, traced: bool) -> Run<Bench> {
        let graph = w.step()?;
        let session = Session::new().threads(a.threads).precision(a.precision);
        let path = a.data.as_ref().map(|dir| dir.join(format!("{}.safetensors", w.name)));
        let file = path.as_ref().map(|p| workloads::open(p)).transpose()?;
        sys::reset_peak_rss();
        let (rss, anon) = (sys::rss(), sys::anon_rss());
        let start = Instant::now();
        let mut program = if traced { session.compile_traced(&graph)? } else { session.compile(&graph)? };
        let compile = start.elapsed();
        program.init(0)?;
        program.values_mut::<f32>(LR)?.fill(w.lr() as f32);
        let pool = match (&path, &file) {
            (Some(path), Some(file)) => {
                workloads::load_params(w, &mut program, file, path)?;
                Pool::load(program.bindings(), file, path)?
            }
            _ => Pool::synthetic(program.bindings())?,
        };
        Ok(Bench {
            ports: [Port::open(&program, "x")?, Port::open(&program, "y")?],
            loss: program.output("loss")?,
            program,
            pool,
            next: 0,
            compile,
            rss,
            anon,
            _file: file,
        })
    }

    fn feed(&mut self) -> Result<()> {
        let (p, pool, i) = (&mut self.program, &self.pool, self.next);
        for (port, all) in self.ports.into_iter().zip([&pool.x, &pool.y]) {
            port.feed(p, all, i, pool.batches)?;
        }
        self.next = (i + 1) % pool.batches;
        Ok(())
    }

    /// A step on the next batch: the loss.
    pub fn step(&mut self) -> Result<f32> {
        self.feed()?;
        self.program.step()?;
        Ok(self.program.get(self.loss)?.first().copied().unwrap_or(f32::NAN))
    }

    /// A step on the next batch, recorded.
    pub fn step_traced(&mut self) -> Result<Trace> {
        self.feed()?;
        self.program.step_traced()
    }

    /// What the process grew by, less the batches: at most, and what no file backs now.
    fn growth(&self) -> (Option<u64>, Option<u64>) {
        let batches = (self.pool.x.len() + self.pool.y.len()) as u64;
        let grown = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?).saturating_sub(batches));
        (grown(sys::peak_rss(), self.rss), grown(sys::anon_rss(), self.anon))
    }
}

/// Times `w` on a machine of which `cores` cores compute `peak` operations a second.
fn time(w: &Workload, a: &BenchArgs, cores: usize, peak: f64) -> Run<Metrics> {
    // What the bench itself keeps is there before memory is counted.
    let mut times = Times::new(TIMES);
    let mut first_losses = Vec::with_capacity(LOSSES);
    let mut b = Bench::new(w, a, false)?;
    let mut first_step = Duration::ZERO;
    for i in 0..WARMUP {
        let start = Instant::now();
        let loss = b.step()?;
        if i == 0 {
            first_step = start.elapsed();
        }
        if i < LOSSES {
            first_losses.push(loss);
        }
    }
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
    let (plan, (growth, anon)) = (b.program.plan(), b.growth());
    let us = |q: f64| times.quantile(q) as f64 / 1e3;
    let stream = limits::bandwidth(cores, plan.moved_bytes);
    let least = (plan.flops as f64 / peak).max(plan.moved_bytes as f64 / stream);
    let median = us(0.5) / 1e6;
    Ok(Metrics {
        workload: w.name,
        precision: a.precision.report(),
        threads: a.threads,
        steps,
        step_us_p50: us(0.5),
        step_us_p99: us(0.99),
        step_us_p999: us(0.999),
        step_us_min: us(0.0),
        lanes: b.program.threads(),
        modelled_us: plan.modelled.as_secs_f64() * 1e6,
        first_step_ms: first_step.as_secs_f64() * 1e3,
        flops_per_step: plan.flops,
        gflops: plan.flops as f64 / median / 1e9,
        moved_bytes: plan.moved_bytes,
        stream_gbs: stream / 1e9,
        peak_gflops: peak / 1e9,
        roofline_share: (a.precision.here() == Precision::F32).then_some(least / median),
        allocs_per_step: allocs as f64 / steps as f64,
        arena_bytes: plan.arena_bytes,
        arena_lower_bound_bytes: plan.lower_bound_bytes,
        rss_growth_bytes: growth,
        anon_growth_bytes: anon,
        compile_ms: b.compile.as_secs_f64() * 1e3,
        first_losses,
    })
}
