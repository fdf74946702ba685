//! The command `bench`: whole training steps of small networks, timed one by one, and acts of a policy (`act`).
//!
//! Invariant: a timed step is all that a user waits for: the batch is copied in, the step runs, the loss is read.

mod act;
mod batches;
mod limits;
mod networks;
mod ranks;
mod workloads;

use crate::args::BenchArgs;
use crate::fail::{Run, fail_bad_input};
use crate::stdout_stderr::{self, emit_stdout};
use crate::trace::record;
use crate::train::ranks::Ranks;
use crate::{alloc, sys};
use arenagrad::Precision;
use arenagrad::error::Result;
use arenagrad::session::{Convolutions, Handle, Keep, Program, Session, Trace};
use arenagrad::train::{Loaded, Times};
use batches::Batches;
use ranks::RankSteps;
use serde::Serialize;
use std::cell::LazyCell;
use std::time::{Duration, Instant};
pub use workloads::{Workload, find_workload};

/// Steps before the timed ones.
const WARMUP: usize = 20;
/// Time after which no more of them are begun, once the losses are there.
const WARMUP_LIMIT: Duration = Duration::from_secs(2);
/// Losses of the first steps that are reported.
const LOSSES: usize = 5;
/// Step times that are kept. Beyond these the oldest are dropped.
const TIMES: usize = 1 << 20;

/// Runs the command.
pub fn bench_command(a: &BenchArgs) -> Run {
    let ranks = Ranks::join()?;
    let done = bench_on_rank(a, &ranks);
    ranks.end(done)
}

fn bench_on_rank(a: &BenchArgs, ranks: &Ranks) -> Run {
    ranks::check_choices(ranks, a.data.is_some(), a.trace.is_some())?;
    if !(a.seconds >= 0.0 && a.seconds <= 3600.0) {
        return Err(fail_bad_input(format!("--seconds is {}; it goes from 0 to 3600", a.seconds)));
    }
    if let (Some(file), n) = (&a.trace, a.workloads.len())
        && n != 1
    {
        return Err(fail_bad_input(format!("--trace {} records one workload; --workloads names {n}", file.display())));
    }
    if ranks.size() > 1 && a.workloads.iter().any(|name| name == act::ACT) {
        return Err(fail_bad_input("the workload act is of one process, not of ranks under mpirun"));
    }
    let mut all = Vec::new();
    for name in &a.workloads {
        all.push(if name == act::ACT { None } else { Some(find_workload(name)?) });
    }
    if let (Some(file), [None]) = (&a.trace, &all[..]) {
        return Err(fail_bad_input(format!(
            "--trace {} records whole steps; the workload act has none",
            file.display()
        )));
    }
    if let (Some(dir), false) = (&a.data, all.iter().any(Option::is_some)) {
        return Err(fail_bad_input(format!("--data {}: the workload act reads no data", dir.display())));
    }
    // The limits are those of the cores: more threads than cores do not raise them. Acts are not compared with them.
    let cores = a.threads.min(sys::sys_cores());
    let peak = LazyCell::new(|| limits::flops_limit(cores));
    for w in all {
        let text = match w {
            Some(w) => {
                let metrics = time_bench(w, a, cores, *peak, ranks)?;
                if a.json { bench_json(&metrics)? } else { metrics.text() }
            }
            None => {
                let metrics = act::time_acts(a)?;
                if a.json { bench_json(&metrics)? } else { metrics.text() }
            }
        };
        if ranks.is_first() {
            emit_stdout(text)?;
        }
        if let (Some(file), Some(w)) = (&a.trace, w) {
            let table = record::write_trace_record(file, w.name, &Bench::new(w, a, ranks, true)?.record()?)?;
            // With --json, standard output holds nothing but JSON.
            if a.json { stdout_stderr::note_stderr(table) } else { emit_stdout(table)? }
        }
        if stdout_stderr::stdout_reader_is_gone() {
            break;
        }
    }
    Ok(())
}

/// The results of a workload as a line of JSON.
fn bench_json(metrics: &impl Serialize) -> Run<String> {
    serde_json::to_string(metrics).map_err(fail_bad_input)
}

/// The results of a workload. The names are the keys of `--json`.
#[derive(Serialize)]
struct BenchMetrics {
    workload: &'static str,
    precision: String,
    /// How convolutions are computed.
    convolutions: &'static str,
    /// Type of the values that are kept for the backward half.
    keep: &'static str,
    threads: usize,
    steps: usize,
    step_us_p50: f64,
    step_us_p99: f64,
    step_us_p999: f64,
    step_us_min: f64,
    /// Ranks that divide the batch.
    ranks: usize,
    /// Median and least time for which a step waits for the exchange of gradients, with the sums; 0 of one process.
    exposed_us_p50: f64,
    exposed_us_min: f64,
    /// What ranks exchange, and when, as text.
    #[serde(skip)]
    exchange: String,
    /// Threads that the program uses.
    #[serde(rename = "lanes")]
    used_threads: usize,
    /// Time of a step by the cost model.
    modelled_us: f64,
    /// Time of the first step, which touches the arena's pages for the first time.
    first_step_ms: f64,
    /// Floating-point operations of a step, as the op definitions count them.
    flops_per_step: u64,
    /// These operations over the median time.
    gflops: f64,
    /// Bytes of a step if each leaf is read once, and each next value and output written once.
    moved_bytes: u64,
    /// Bandwidth of memory of that size.
    stream_gbs: f64,
    /// Multiply-adds in registers, on as many threads.
    peak_gflops: f64,
    /// The least time that these limits allow, over the median. `None` where products are not computed in f32: the
    /// limit is that of f32.
    roofline_share: Option<f64>,
    allocs_per_step: f64,
    arena_bytes: usize,
    arena_lower_bound_bytes: usize,
    /// See [`Growth::peak`].
    rss_growth_bytes: Option<u64>,
    /// See [`Growth::anonymous`].
    anon_growth_bytes: Option<u64>,
    compile_ms: f64,
    first_losses: Vec<f64>,
}

impl BenchMetrics {
    /// The results as three lines.
    fn text(&self) -> String {
        let m = self;
        let bytes = |b: Option<u64>| b.map_or("unknown".into(), |b| b.to_string());
        let (growth, anon) = (bytes(m.rss_growth_bytes), bytes(m.anon_growth_bytes));
        let share = m.roofline_share.map_or("an unknown share".into(), |s| format!("{:.1} %", 100.0 * s));
        let kept = if m.keep == Keep::F32.name() { String::new() } else { format!("  kept in {}", m.keep) };
        let direct = m.convolutions == Convolutions::Direct.name();
        let by = if direct { String::new() } else { format!("  convolutions by {}", m.convolutions) };
        let setup = format!("{}  {}{by}{kept}  threads {} of {}", m.workload, m.precision, m.used_threads, m.threads);
        let times = format!(
            "steps {}  modelled {:.2} us  p50 {:.2} us  p99 {:.2} us  p99.9 {:.2} us  min {:.2} us",
            m.steps, m.modelled_us, m.step_us_p50, m.step_us_p99, m.step_us_p999, m.step_us_min
        );
        let memory = format!(
            "allocs/step {}  arena {} (bound {}, RSS grew by {growth}, {anon} without code)",
            m.allocs_per_step, m.arena_bytes, m.arena_lower_bound_bytes
        );
        let start = format!("compiled in {:.2} ms  first step {:.2} ms", m.compile_ms, m.first_step_ms);
        let ranks = match m.ranks {
            1 => String::new(),
            n => format!("  {n} ranks, exposed p50 {:.2} us, min {:.2} us", m.exposed_us_p50, m.exposed_us_min),
        };
        let rates = format!(
            "{:.2} GFLOP/s of {:.1}, {} operations and {} bytes at {:.1} GB/s a step: {share} of the roofline",
            m.gflops, m.peak_gflops, m.flops_per_step, m.moved_bytes, m.stream_gbs
        );
        format!(
            "{setup}  {times}{ranks}  {memory}  {start}\n{name}  {rates}\n{name}  first losses {:?}{}",
            m.first_losses,
            m.exchange,
            name = m.workload
        )
    }
}

/// The loss, by its type.
#[derive(Clone, Copy)]
enum Loss {
    Float(Handle<f32>),
    Double(Handle<f64>),
}

impl Loss {
    fn open(p: &Program) -> Result<Loss> {
        Ok(match p.output("loss") {
            Ok(slot) => Loss::Float(slot),
            Err(_) => Loss::Double(p.output("loss")?),
        })
    }

    fn read(self, p: &Program) -> Result<f64> {
        Ok(match self {
            Loss::Float(slot) => p.get(slot)?.first().map_or(f64::NAN, |&x| x.into()),
            Loss::Double(slot) => p.get(slot)?.first().copied().unwrap_or(f64::NAN),
        })
    }
}

/// A compiled workload with its batches.
pub struct Bench {
    program: Program,
    loss: Loss,
    batches: Batches,
    next: usize,
    /// The steps of this rank, if it is one of several.
    ranks: Option<RankSteps>,
    compile: Duration,
    /// Resident bytes before compiling, and those of them that no file backs.
    rss: Option<u64>,
    anon: Option<u64>,
    /// Kept alive: memory that it freed would hide growth.
    _file: Option<Loaded>,
}

/// What the process grew by since before compiling, without the batches, in bytes.
struct Growth {
    /// Growth of the resident set at its peak.
    peak: Option<u64>,
    /// Growth of the pages that no file backs, after the last step: without the code of compiling and stepping.
    anonymous: Option<u64>,
}

impl Bench {
    /// Compiles `w`, this rank's share of it, and loads its batches. Steps can be recorded if `traced`.
    pub fn new(w: &Workload, a: &BenchArgs, ranks: &Ranks, traced: bool) -> Run<Bench> {
        let split = if ranks.comm().is_some() { Some(w.step_of_rank(ranks.size())?) } else { None };
        let session =
            Session::new().threads(a.threads).precision(a.precision).convolutions(a.convolutions).keep(a.keep);
        let session = a.latency.pinned(session);
        let path = a.data.as_ref().map(|dir| dir.join(format!("{}.safetensors", w.name)));
        let file = path.as_ref().map(|p| batches::open_file(p)).transpose()?;
        sys::sys_reset_peak_rss();
        let (rss, anon) = (sys::sys_rss(), sys::sys_anon_rss());
        let start = Instant::now();
        let mut program = match &split {
            Some(split) => session.compile_all(&split.methods())?,
            None if traced => session.compile_traced(&w.step()?)?,
            None => session.compile(&w.step()?)?,
        };
        let compile = start.elapsed();
        a.latency.settle(&mut program, ranks.size())?;
        program.init(0)?;
        let batches = match (&path, &file) {
            (Some(path), Some(file)) => {
                batches::load_params(w, &mut program, file, path)?;
                Batches::load(&program, file, path)?
            }
            _ => Batches::synthetic(w, &program)?,
        };
        let loss = Loss::open(&program)?;
        let ranks = split.map_or(Ok(None), |split| RankSteps::open(ranks, &a.ranks, &program, &split))?;
        Ok(Bench { loss, program, batches, next: 0, ranks, compile, rss, anon, _file: file })
    }

    fn feed(&mut self) -> Result<()> {
        self.batches.feed(&mut self.program, self.next)?;
        self.next = (self.next + 1) % self.batches.count();
        Ok(())
    }

    /// Runs a step on the next batch and returns the loss.
    pub fn step(&mut self) -> Result<f64> {
        self.feed()?;
        if let Some(ranks) = &mut self.ranks {
            return ranks.step(&mut self.program);
        }
        self.program.step()?;
        self.loss.read(&self.program)
    }

    /// Nanoseconds for which the last step waited for its exchange.
    fn waited(&self) -> u64 {
        self.ranks.as_ref().map_or(0, RankSteps::waited)
    }

    /// Whether `own` holds; on ranks, whether it holds on rank 0.
    fn first_says(&self, own: bool) -> Result<bool> {
        self.ranks.as_ref().map_or(Ok(own), |ranks| ranks.first_says(own))
    }

    /// Runs the steps before the timed ones, adds the losses of the first [`LOSSES`] to `losses`, and returns the time
    /// of the first step.
    fn warm_up(&mut self, losses: &mut Vec<f64>) -> Result<Duration> {
        let (start, mut first) = (Instant::now(), Duration::ZERO);
        for i in 0..WARMUP {
            if self.first_says(i >= LOSSES && start.elapsed() > WARMUP_LIMIT)? {
                break;
            }
            let loss = self.step()?;
            if i == 0 {
                first = start.elapsed();
            }
            if i < LOSSES {
                losses.push(loss);
            }
        }
        Ok(first)
    }

    /// Warms up and records a step.
    pub fn record(&mut self) -> Result<Trace> {
        for _ in 0..record::WARMUP {
            self.step()?;
        }
        self.feed()?;
        self.program.step_traced()
    }

    fn growth(&self) -> Growth {
        let batches = self.batches.bytes();
        let grown = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?).saturating_sub(batches));
        Growth { peak: grown(sys::sys_peak_rss(), self.rss), anonymous: grown(sys::sys_anon_rss(), self.anon) }
    }
}

/// Times `w`. `peak` is the rate of `cores` cores in operations per second.
fn time_bench(w: &Workload, a: &BenchArgs, cores: usize, peak: f64, ranks: &Ranks) -> Run<BenchMetrics> {
    // These exist before memory is measured: they are the bench's, not the program's.
    let mut times = Times::new(TIMES);
    let mut first_losses = Vec::with_capacity(LOSSES);
    let mut comm = Times::new(if ranks.size() > 1 { TIMES } else { 1 });
    let mut b = Bench::new(w, a, ranks, false)?;
    let first_step = b.warm_up(&mut first_losses)?;
    let mut steps = 0;
    let limit = Duration::from_secs_f64(a.seconds);
    let (start, before) = (Instant::now(), alloc::alloc_calls());
    while !b.first_says(start.elapsed() >= limit && steps >= LOSSES)? {
        let begun = Instant::now();
        b.step()?;
        times.record(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        comm.record(b.waited());
        steps += 1;
    }
    let allocs = alloc::alloc_calls() - before;
    let (plan, growth) = (b.program.plan(), b.growth());
    let us = |q: f64| times.quantile(q) as f64 / 1e3;
    let stream = limits::bandwidth_limit(cores, plan.moved_bytes);
    let least = (plan.flops as f64 / peak).max(plan.moved_bytes as f64 / stream);
    let median = us(0.5) / 1e6;
    Ok(BenchMetrics {
        workload: w.name,
        precision: a.precision.report(),
        convolutions: a.convolutions.name(),
        keep: a.keep.name(),
        threads: a.threads,
        steps,
        step_us_p50: us(0.5),
        step_us_p99: us(0.99),
        step_us_p999: us(0.999),
        step_us_min: us(0.0),
        ranks: ranks.size(),
        exposed_us_p50: comm.quantile(0.5) as f64 / 1e3,
        exposed_us_min: comm.quantile(0.0) as f64 / 1e3,
        exchange: b.ranks.as_ref().map_or(String::new(), |ranks| format!("\n{}  {}", w.name, ranks.plan())),
        used_threads: b.program.threads(),
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
        rss_growth_bytes: growth.peak,
        anon_growth_bytes: growth.anonymous,
        compile_ms: b.compile.as_secs_f64() * 1e3,
        first_losses,
    })
}
