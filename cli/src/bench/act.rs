//! The workload `act`: acting in a program that also learns, against a program that only acts.
//!
//! Invariant: both act on the same observations with the same network, in turn, in rounds. A step of learning begins
//! each round. So the weights of the shared program change from round to round, and both start with the CPU caches as
//! learning leaves them.

use crate::args::BenchArgs;
use crate::fail::Run;
use arenagrad::error::Result;
use arenagrad::graph::{Builder, DType, GraphBuf, Var};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use arenagrad::session::{BufferReport, Handle, Method, Program, Session};
use arenagrad::tools::sched::instructions::BufKind;
use arenagrad::train::{Times, copy_params};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The name on the command line.
pub const ACT: &str = "act";
/// The network, in a line.
pub const ACT_DOC: &str = "act of an MLP 4-64-64-2, tanh, alone and beside learning with Adam, batch 64";

/// Examples of a step of learning.
const BATCH: usize = 64;
/// Numbers of an observation.
const SEEN: usize = 4;
/// Acts of each program in a round.
const ROUND: usize = 100;
/// Rounds before the timed ones.
const WARMUP: usize = 5;
/// The fewest timed rounds: 20,000 acts of each program.
const ROUNDS: usize = 200;
/// Act times that are kept.
const TIMES: usize = 1 << 20;

/// The policy, for `rows` observations.
fn bench_act_policy(g: &Builder, rows: usize) -> Var<'_> {
    let x = g.input("x", [rows, SEEN], DType::F32);
    let h = nn::linear(g, "fc1", x, 64).tanh();
    nn::linear(g, "fc2", nn::linear(g, "hidden", h, 64).tanh(), 2)
}

fn bench_act_graph() -> Result<GraphBuf> {
    let g = Builder::new(ACT);
    g.finish([bench_act_policy(&g, 1).named("out")])
}

fn bench_act_learn_graph() -> Result<GraphBuf> {
    let g = Builder::new("learn");
    let loss = bench_act_policy(&g, BATCH).mse(g.input("y", [BATCH, 2], DType::F32));
    train(&g.finish([loss.named("loss")])?, "loss", optim::Adam::new(1e-3))
}

/// A program that acts.
struct BenchActor {
    program: Program,
    method: Method,
    x: Handle<f32>,
    out: Handle<f32>,
    times: Times,
    /// The sum of all that came out, so that reading it is not left out.
    sum: f32,
}

impl BenchActor {
    fn new(program: Program, method: &str) -> Result<BenchActor> {
        let method = program.method(method)?;
        let (x, out) = (program.input_of(method, "x")?, program.output_of(method, "out")?);
        Ok(BenchActor { program, method, x, out, times: Times::new(TIMES), sum: 0.0 })
    }

    /// Acts [`ROUND`] times. An act is all that a user waits for: an observation is written, the method runs, the
    /// result is read.
    fn round(&mut self, observations: &[f32]) -> Result<()> {
        let p = &mut self.program;
        for seen in observations.chunks_exact(SEEN).cycle().take(ROUND) {
            let start = Instant::now();
            p.get_mut(self.x)?.copy_from_slice(seen);
            p.run(self.method)?;
            self.sum += p.get(self.out)?.iter().sum::<f32>();
            self.times.record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    fn quantile_us(&self, q: f64) -> f64 {
        self.times.quantile(q) as f64 / 1e3
    }
}

/// The results. The names are the keys of `--json`.
#[derive(Serialize)]
pub struct ActMetrics {
    workload: &'static str,
    threads: usize,
    /// Acts of each program.
    acts: usize,
    alone_us_p50: f64,
    alone_us_p99: f64,
    alone_us_p999: f64,
    shared_us_p50: f64,
    shared_us_p99: f64,
    shared_us_p999: f64,
    /// `shared_us_p50` over `alone_us_p50`.
    ratio_p50: f64,
    ratio_p99: f64,
    /// Bytes of params that acting reads elsewhere than where learning writes them: bytes that would be copied.
    copied_bytes: usize,
    /// Bytes of all params that acting reads.
    param_bytes: usize,
    arena_alone_bytes: usize,
    arena_shared_bytes: usize,
    allocs_per_act: f64,
}

impl ActMetrics {
    /// The results as a line.
    pub fn text(&self) -> String {
        let m = self;
        format!(
            "{ACT}  threads {}  acts {} of each  alone p50 {:.2} us  p99 {:.2} us  p99.9 {:.2} us  \
             beside learning p50 {:.2} us  p99 {:.2} us  p99.9 {:.2} us  ratio {:.3} (p99 {:.3})  \
             copied {} of {} bytes of params  allocs/act {}  arena alone {}, shared {}",
            m.threads,
            m.acts,
            m.alone_us_p50,
            m.alone_us_p99,
            m.alone_us_p999,
            m.shared_us_p50,
            m.shared_us_p99,
            m.shared_us_p999,
            m.ratio_p50,
            m.ratio_p99,
            m.copied_bytes,
            m.param_bytes,
            m.allocs_per_act,
            m.arena_alone_bytes,
            m.arena_shared_bytes
        )
    }
}

/// Bytes of the params that acting reads.
struct ReadBytes {
    all: usize,
    /// Of those that acting, by its plan, reads elsewhere than where learning, by its own, writes them.
    copied: usize,
}

fn bench_act_read_bytes(p: &Program) -> Result<ReadBytes> {
    let (learn, act) = (p.plan_of(p.method("learn")?)?, p.plan_of(p.method(ACT)?)?);
    let params = || act.buffers.iter().filter(|b| b.kind == BufKind::Param);
    let shared = |b: &&BufferReport| {
        learn.buffers.iter().any(|l| l.kind == BufKind::Param && l.name == b.name && l.offset == b.offset)
    };
    let copied = params().filter(|b| !shared(b)).map(|b| b.size).sum();
    Ok(ReadBytes { all: params().map(|b| b.size).sum(), copied })
}

/// Times acts for `a.seconds`, and at least 20,000 acts of each program.
pub fn time_acts(a: &BenchArgs) -> Run<ActMetrics> {
    let session = Session::new().threads(a.threads).precision(a.precision).convolutions(a.convolutions).keep(a.keep);
    let session = a.latency.pinned(session);
    let (learn, act) = (bench_act_learn_graph()?, bench_act_graph()?);
    let mut shared = session.compile_all(&[("learn", &learn), (ACT, &act)])?;
    let mut alone = session.compile_all(&[(ACT, &act)])?;
    for p in [&mut shared, &mut alone] {
        a.latency.settle(p, 1)?;
        p.init(0)?;
    }
    copy_params(&shared, &mut alone)?;
    let (arena_shared_bytes, arena_alone_bytes) = (shared.plan().arena_bytes, alone.plan().arena_bytes);
    let number = |i: usize| (i as f32 * 0.7).sin();
    shared.values_mut::<f32>("x")?.iter_mut().enumerate().for_each(|(i, x)| *x = number(i));
    shared.values_mut::<f32>("y")?.iter_mut().enumerate().for_each(|(i, y)| *y = number(i + 9));
    let observations: Vec<f32> = (0..SEEN * ROUND).map(number).collect();
    let read = bench_act_read_bytes(&shared)?;

    let (mut shared, mut alone) = (BenchActor::new(shared, ACT)?, BenchActor::new(alone, ACT)?);
    let (limit, mut start, mut before, mut rounds) = (Duration::from_secs_f64(a.seconds), Instant::now(), 0, 0);
    while rounds < WARMUP + ROUNDS || start.elapsed() < limit {
        if rounds == WARMUP {
            (shared.times, alone.times) = (Times::new(TIMES), Times::new(TIMES));
            (start, before) = (Instant::now(), crate::alloc::alloc_calls());
        }
        shared.program.step()?;
        let (first, second) = if rounds % 2 == 0 { (&mut shared, &mut alone) } else { (&mut alone, &mut shared) };
        first.round(&observations)?;
        second.round(&observations)?;
        rounds += 1;
    }
    let acts = ROUND * (rounds - WARMUP);
    let allocs = crate::alloc::alloc_calls() - before;
    std::hint::black_box((shared.sum, alone.sum));
    Ok(ActMetrics {
        workload: ACT,
        threads: a.threads,
        acts,
        alone_us_p50: alone.quantile_us(0.5),
        alone_us_p99: alone.quantile_us(0.99),
        alone_us_p999: alone.quantile_us(0.999),
        shared_us_p50: shared.quantile_us(0.5),
        shared_us_p99: shared.quantile_us(0.99),
        shared_us_p999: shared.quantile_us(0.999),
        ratio_p50: shared.quantile_us(0.5) / alone.quantile_us(0.5),
        ratio_p99: shared.quantile_us(0.99) / alone.quantile_us(0.99),
        copied_bytes: read.copied,
        param_bytes: read.all,
        arena_alone_bytes,
        arena_shared_bytes,
        allocs_per_act: allocs as f64 / (2 * acts) as f64,
    })
}
