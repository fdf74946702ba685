//! A controller that answers at fixed times: how late it wakes and how long its steps take, which are what a busy core
//! disturbs. Prints the median, p99, p99.9 and the longest, and tells whether memory was locked.
//!
//! `cargo run --release --example control_loop -- threads=2 period_us=1000 seconds=5 pin=0,1 spin_us=2000`, where each
//! may be left out. Without `pin` and `spin_us`, threads are left to the system and sleep between steps.

use arenagrad::error::Kind;
use arenagrad::prelude::*;
use std::time::{Duration, Instant};

/// What is asked for on the command line.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Most threads of a step.
    pub threads: usize,
    /// The time from one step to the next.
    pub period: Duration,
    /// Steps that are timed.
    pub steps: usize,
    /// The core of each thread, the caller's first.
    pub pin: Option<Vec<usize>>,
    /// How long threads look for the next step before they sleep.
    pub spin: Option<Duration>,
}

/// The choices that `words` make, each `NAME=VALUE`.
pub fn choices(words: impl Iterator<Item = String>) -> Result<Choices> {
    let (mut threads, mut period_us, mut seconds, mut pin, mut spin) = (1, 1000, 5, None, None);
    for word in words {
        let wrong = || Error::new(Kind::Name, format!("{word:?} is no choice: see the head of the example"));
        let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        match word.split_once('=').ok_or_else(wrong)? {
            ("threads", n) => threads = number(n)?,
            ("period_us", n) => period_us = number(n)?.max(1),
            ("seconds", n) => seconds = number(n)?,
            ("pin", cores) => pin = Some(cores.split(',').map(number).collect::<Result<Vec<_>>>()?),
            ("spin_us", n) => spin = Some(Duration::from_micros(number(n)? as u64)),
            _ => return Err(wrong()),
        }
    }
    let steps = seconds.saturating_mul(1_000_000) / period_us;
    Ok(Choices { threads, period: Duration::from_micros(period_us as u64), steps: steps.max(1), pin, spin })
}

/// A policy 64-1024-1024-8 that answers four observations.
fn policy(c: &Choices) -> Result<Program> {
    let g = Builder::new("policy");
    let mut h = g.input("x", [4, 64], DType::F32);
    for i in 0..2 {
        h = nn::linear(&g, &format!("fc{i}"), h, 1024).tanh();
    }
    let graph = g.finish([nn::linear(&g, "out", h, 8).named("y")])?;
    let mut session = Session::new().threads(c.threads);
    if let Some(cores) = &c.pin {
        session = session.pin(cores.iter().copied());
    }
    if let Some(time) = c.spin {
        session = session.spin(time);
    }
    let mut policy = session.compile(&graph)?;
    policy.init(0)?;
    Ok(policy)
}

/// How late the thread woke for each step, and how long each step took; both by rising time.
pub fn run(c: &Choices) -> Result<(Program, [Vec<Duration>; 2])> {
    let mut p = policy(c)?;
    p.prefault();
    if let Err(e) = p.lock_memory() {
        println!("{e}");
    }
    let (x, y) = (p.input::<f32>("x")?, p.output::<f32>("y")?);
    let (mut late, mut took) = (Vec::with_capacity(c.steps), Vec::with_capacity(c.steps));
    let (warm_up, mut due) = (100.min(c.steps), Instant::now());
    for i in 0..warm_up + c.steps {
        due += c.period;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let woke = Instant::now();
        p[x].fill((i % 7) as f32);
        p.step()?;
        assert!(p[y][0].is_finite());
        if i >= warm_up {
            late.push(woke - due);
            took.push(woke.elapsed());
        }
        // A step that was missed is left out, so one delay counts once.
        while due + c.period < Instant::now() {
            due += c.period;
        }
    }
    late.sort_unstable();
    took.sort_unstable();
    Ok((p, [late, took]))
}

fn main() -> Result<()> {
    let c = choices(std::env::args().skip(1))?;
    let (p, times) = run(&c)?;
    println!("{} of {} threads, {} steps, cores {:?}, spin {:?}", p.threads(), c.threads, c.steps, c.pin, c.spin);
    for (what, times) in ["woke late by", "a step took"].iter().zip(times) {
        let us = |q: f64| times[((times.len() - 1) as f64 * q) as usize].as_secs_f64() * 1e6;
        println!(
            "{what}: p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, most {:.1} us",
            us(0.5),
            us(0.99),
            us(0.999),
            us(1.0)
        );
    }
    Ok(())
}
