//! The cost of memory budgets: for each model, the arena sizes that recomputation can reach, the operations that each
//! repeats, and the time of a step for three of them and without a budget.
//!
//! `cargo bench -p arenagrad-benches --bench remat -- [--plan] MODEL…`. With `--plan`, nothing is run. The models are
//! those of `tests/common/zoo.rs` whose name contains MODEL.

#[path = "../tests/common/models.rs"]
#[allow(dead_code)]
mod models;
#[path = "../tests/common/zoo.rs"]
#[allow(dead_code)]
mod zoo;

use arenagrad::graph::{DType, GraphBuf};
use arenagrad::session::{Budget, Program, Role, Session};
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let (flags, names): (Vec<String>, Vec<String>) = args.into_iter().partition(|a| a.starts_with("--"));
    let run = !flags.iter().any(|f| f == "--plan");
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| name.contains(n.as_str()));
    for model in zoo::ZOO.iter().filter(|m| wanted(m.name)) {
        if let Err(e) = show(model.name, &(model.full)(), run) {
            println!("{}: {e}", model.name);
        }
    }
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// Prints the budgets of a model, and times some of them if `run`.
fn show(name: &str, graph: &GraphBuf, run: bool) -> arenagrad::error::Result<()> {
    let start = Instant::now();
    let list = Session::new().budgets(graph)?;
    println!("{name}: {} budgets found in {:.2} s", list.len(), start.elapsed().as_secs_f64());
    // The step is timed without a budget, at two budgets in between, and at the smallest.
    let last = list.len() - 1;
    let timed = [0, last / 3, 2 * last / 3, last];
    let mut free = 0.0;
    for (i, b) in list.iter().enumerate() {
        let time = if run && timed.contains(&i) { Some(step_seconds(graph, b)?) } else { None };
        if i == 0 {
            free = time.unwrap_or(0.0);
        }
        let all = Session::new().memory_budget(b.arena_bytes).plan(graph)?.flops as f64;
        let share = 100.0 * b.recomputed.flops as f64 / (all - b.recomputed.flops as f64);
        let time = time.map_or(String::new(), |t| format!("{:>9.1} ms  x {:.3}", t * 1e3, t / free));
        println!("  {:>9.2} MiB  +{share:>6.2} % operations {time}  {}", mib(b.arena_bytes), b.recomputed.what);
    }
    Ok(())
}

/// The median time of a step, in seconds.
fn step_seconds(graph: &GraphBuf, b: &Budget) -> arenagrad::error::Result<f64> {
    let mut p: Program = Session::new().memory_budget(b.arena_bytes).compile(graph)?;
    p.init(0)?;
    let inputs: Vec<_> =
        p.bindings().iter().filter(|b| b.role == Role::Input && b.default.is_none()).cloned().collect();
    for b in &inputs {
        match b.dtype {
            DType::I32 => p.values_mut::<i32>(&b.name)?.fill(0),
            _ => p.values_mut::<f32>(&b.name)?.fill(0.0),
        }
    }
    let mut times = Vec::new();
    p.step()?;
    let start = Instant::now();
    while times.len() < 3 || (start.elapsed().as_secs_f64() < 3.0 && times.len() < 50) {
        let now = Instant::now();
        p.step()?;
        times.push(now.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
