//! Plans of whole training programs: bytes, bounds and instruction counts that may only get better.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::models;
use arenagrad::graph::GraphBuf;
use arenagrad::optim::{self, train};
use arenagrad::session::Session;
use arenagrad::tools::arena::tensor::LINE;
use arenagrad::tools::passes::pipeline::run_whole_pipeline;
use arenagrad::tools::sched::{lower, order, schedule};
use std::time::Instant;

/// Arena, lower bound and number of instructions of the training program of `g`.
fn plan(g: &GraphBuf) -> (usize, usize, usize) {
    let step = train(g, "loss", optim::AdamW::new(1e-3)).unwrap();
    let p = Session::new().compile(&step).unwrap();
    let r = p.plan();
    (r.arena_bytes, r.lower_bound_bytes, r.instructions)
}

/// The arena is the lower bound, and neither it nor the tape has grown beyond what was recorded.
fn holds(name: &str, g: &GraphBuf, arena: usize, instructions: usize) {
    let (bytes, bound, count) = plan(g);
    println!("{name}: arena {bytes}, bound {bound}, ratio {:.4}, {count} instructions", bytes as f64 / bound as f64);
    assert!(bytes as f64 <= 1.1 * bound as f64, "{name}: {bytes} bytes where {bound} would do");
    assert!(bytes <= arena, "{name}: {bytes} bytes, {arena} were recorded");
    assert!(count <= instructions, "{name}: {count} instructions, {instructions} were recorded");
}

#[test]
fn mlp() {
    holds("mlp", &models::mlp(32), 1_840_128, 17);
}

#[test]
fn convnet() {
    holds("convnet", &models::convnet(64), 3_834_944, 41);
}

#[test]
fn transformer() {
    holds("transformer", &models::transformer(4, 32, 64, 4, 2, 65), 2_604_736, 169);
}

/// What planning one model came to. Bytes but for counts.
struct Row {
    name: String,
    instructions: usize,
    buffers: usize,
    pinned: usize,
    arena: usize,
    max_live: usize,
    order_bound: usize,
    order: &'static str,
    order_ms: f64,
    plan_ms: f64,
    baseline: usize,
}

impl Row {
    /// Bytes that are shared by lifetime, over those of the baseline.
    fn ratio(&self) -> f64 {
        (self.arena - self.pinned) as f64 / (self.baseline - self.pinned) as f64
    }

    fn print(&self) {
        let mib = |b: usize| b as f64 / (1 << 20) as f64;
        let work = |b: usize| mib(b - self.pinned);
        println!(
            "{:<14} {:>6} {:>6} {:>8.2} {:>9.2} {:>8.2} {:>8.2} {:>7.4} {:>8.2} {:>6.4} {:<8} {:>8.2} {:>8.2} {:>9.2} {:>6.3} {:>6.3}",
            self.name,
            self.instructions,
            self.buffers,
            mib(self.pinned),
            mib(self.arena),
            work(self.arena),
            work(self.max_live),
            self.arena as f64 / self.max_live as f64,
            work(self.order_bound),
            work(self.arena) / work(self.order_bound),
            self.order,
            self.order_ms,
            self.plan_ms,
            work(self.baseline),
            self.ratio(),
            self.arena as f64 / self.baseline as f64,
        );
    }
}

fn row(name: &str, graph: &GraphBuf) -> Row {
    let prepared = run_whole_pipeline(graph).unwrap();
    let start = Instant::now();
    let s = schedule(prepared.view(), 1).unwrap();
    let plan_ms = start.elapsed().as_secs_f64() * 1e3;
    let lowered = lower::lower(prepared.view(), 1).unwrap().code;
    let start = Instant::now();
    let best = order::best_order(&lowered).unwrap();
    let order_ms = start.elapsed().as_secs_f64() * 1e3;
    assert_eq!((best.bound, best.name), (s.bound, s.order), "{name}: planning is deterministic");
    let code = &s.plan.code;
    let pinned = (0..code.bytes.len()).filter(|&b| code.kind[b].is_pinned());
    let (baseline, _) = crate::baseline::baseline(&lowered);
    Row {
        name: name.to_string(),
        instructions: code.len(),
        buffers: code.bytes.len(),
        pinned: pinned.map(|b| code.bytes[b].div_ceil(LINE) * LINE).sum(),
        arena: s.plan.bytes,
        max_live: s.bound as usize * LINE,
        order_bound: s.order_bound as usize * LINE,
        order: s.order,
        order_ms,
        plan_ms,
        baseline,
    }
}

fn table(rows: &[Row]) {
    println!(
        "MiB            instr  bufs   pinned     arena     work     live    frag  orderlb  ratio order    order_ms  plan_ms  baseline   work  arena"
    );
    rows.iter().for_each(Row::print);
}

/// Full-size models are planned only. In the dev profile the small ones stand in: planning is the same code.
#[test]
fn plans_of_the_zoo() {
    let full = !cfg!(debug_assertions);
    let rows: Vec<Row> =
        crate::common::zoo::ZOO.iter().map(|m| row(m.name, &if full { (m.full)() } else { (m.small)() })).collect();
    table(&rows);
    for r in &rows {
        assert!(r.order_bound <= r.max_live, "{}: the certificate is above the plan", r.name);
        assert!(r.arena <= r.baseline, "{}: {} bytes, the baseline needs {}", r.name, r.arena, r.baseline);
        // 1.0000 to the digits of the table: a line or two of millions are within it.
        assert!(r.arena as f64 <= 1.0001 * r.max_live as f64, "{}: packing loses bytes", r.name);
    }
    if full {
        let good = rows.iter().filter(|r| r.ratio() <= 0.75).count();
        assert!(good >= 3, "{good} models need three quarters of the baseline's bytes or less");
    }
}
