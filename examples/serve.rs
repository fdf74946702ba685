//! Many threads answer from one set of weights. Prints the times of answers and the memory of the process, with one
//! thread and with several: the weights count once.
//!
//! Run it with `cargo run --release --example serve`, or with the width of its network, the number of threads and the
//! seconds of each measurement: `-- 4096 8 5`.

use arenagrad::prelude::*;
use std::time::{Duration, Instant};

/// A network `width`-`width`-`width`-`width`-10 for one row.
pub fn network(width: usize) -> Result<GraphBuf> {
    let g = Builder::new("serve");
    let mut h = g.input("x", [1, width], DType::F32);
    for i in 0..3 {
        h = nn::linear(&g, &format!("fc{i}"), h, width).relu();
    }
    g.finish([nn::linear(&g, "out", h, 10).named("y")])
}

/// Answers for `time`; the times of the answers.
fn answer(mut net: Program, time: Duration) -> Result<Vec<Duration>> {
    let (x, y) = (net.input::<f32>("x")?, net.output::<f32>("y")?);
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let asked = Instant::now();
        net[x].fill((times.len() % 7) as f32);
        net.step()?;
        assert!(net[y][0].is_finite());
        times.push(asked.elapsed());
    }
    Ok(times)
}

/// The memory of this process in MiB, if the system tells: its resident set, and its share of it, where each page
/// counts for the part that is this process's.
fn memory() -> Option<[usize; 2]> {
    let sums = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let mib = |name: &str| {
        let line = sums.lines().find(|l| l.starts_with(name))?;
        Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? / 1024)
    };
    Some([mib("Rss:")?, mib("Pss:")?])
}

/// Answers on `threads` threads for `time` each. All answers' times, by rising time.
pub fn serve(net: &mut Program, threads: usize, time: Duration) -> Result<Vec<Duration>> {
    let nets = (0..threads).map(|_| net.share()).collect::<Result<Vec<_>>>()?;
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = nets.into_iter().map(|net| scope.spawn(move || answer(net, time))).collect();
        let joined = workers
            .into_iter()
            .map(|w| w.join().map_err(|_| Error::new(arenagrad::error::Kind::Io, "a thread died"))?);
        joined.collect::<Result<Vec<Vec<Duration>>>>()
    })?
    .concat();
    all.sort_unstable();
    Ok(all)
}

fn main() -> Result<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let given = |i: usize, default| numbers.get(i).copied().unwrap_or(default);
    let (width, threads, seconds) = (given(0, 2048), given(1, 8), given(2, 2));
    let mut net = Session::new().compile(&network(width)?)?;
    net.init(0)?;
    let weights: usize = net.persistent().map(|(_, bytes)| bytes.len()).sum();
    println!("{} MiB of weights", weights >> 20);
    for threads in [1, threads] {
        let times = serve(&mut net, threads, Duration::from_secs(seconds as u64))?;
        let quantile = |q: f64| times[((times.len() - 1) as f64 * q) as usize];
        let (p50, p99, p999) = (quantile(0.5), quantile(0.99), quantile(0.999));
        let memory = memory().map_or(String::new(), |m| format!(", RSS {} MiB, PSS {} MiB", m[0], m[1]));
        println!("{threads} threads: {} answers, p50 {p50:.1?}, p99 {p99:.1?}, p99.9 {p999:.1?}{memory}", times.len());
    }
    Ok(())
}
