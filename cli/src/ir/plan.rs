//! `plan`: where the bytes of a graph's program lie, and what decides how many there are.
//!
//! Invariant: the figures are those of the program that `run` and `train` would use.

use super::{load, of, show::emit};
use crate::args::PlanArgs;
use crate::fail::{Run, bad};
use crate::measure::Measure;
use crate::report::memory;
use crate::report::page::{Page, html, largest};
use crate::sys::{bytes, human};
use arenagrad::kernels::gemm::{Precision, bf16_engine};
use arenagrad::session::{Budget, BufferReport, PlanReport, Recomputed, Session};
use arenagrad::train::write_atomically;
use serde_json::{Value, json};
use std::fmt::Write;

/// Prints the plan, and draws it if asked.
pub fn plan(a: &PlanArgs) -> Run {
    let graph = load(&a.file)?;
    let session = Session::new().threads(a.threads).precision(a.precision);
    if a.budgets {
        return budgets(&session.budgets(&graph).map_err(of(&a.file))?, a.json);
    }
    let session = a.max_memory.map_or_else(|| session.clone(), |m| session.clone().memory_budget(bytes(m)));
    let plan = &session.plan(&graph).map_err(of(&a.file))?;
    if let Some(path) = &a.svg {
        write_atomically(path, memory::svg(plan).as_bytes())?;
    }
    let facts = facts(plan);
    if let Some(path) = &a.html {
        let title = format!("Memory plan of {}", a.file.display());
        let page = Page { title: &title, facts: &facts, losses: (0, &[]), judged: (Measure::Loss, &[]), plan };
        write_atomically(path, html(&page).as_bytes())?;
    }
    if a.json {
        return emit(&serde_json::to_string(&all(plan)).map_err(bad)?);
    }
    emit(&table(plan, &facts))
}

/// Prints what an arena can be brought down to, and what that costs.
fn budgets(list: &[Budget], json: bool) -> Run {
    if json {
        let row = |b: &Budget| json!({ "arena_bytes": b.arena_bytes, "recomputed": twice(&b.recomputed) });
        return emit(&Value::from(list.iter().map(row).collect::<Vec<_>>()).to_string());
    }
    let mut s = format!("{:>15} {:>9} {:>15}  computed twice\n", "arena bytes", "nodes", "operations");
    for b in list {
        let r = &b.recomputed;
        let _ = writeln!(s, "{:>15} {:>9} {:>15}  {}", b.arena_bytes, r.nodes, r.flops, r.what);
    }
    emit(&s)
}

fn twice(r: &Recomputed) -> Value {
    json!({ "what": r.what, "nodes": r.nodes, "flops": r.flops })
}

/// How many products are computed how, and by which units.
fn products(plan: &PlanReport) -> String {
    let of = |&(p, name): &(Precision, &str)| match plan.products[p as usize] {
        0 => None,
        n => Some(format!("{n} in {name}")),
    };
    let list: Vec<String> = Precision::ALL.iter().filter_map(of).collect();
    let units = if plan.products[1..].iter().all(|&n| n == 0) {
        String::new()
    } else {
        bf16_engine().map_or_else(|e| e, |e| format!(" ({e})"))
    };
    if list.is_empty() { "none of f32 matrices".into() } else { list.join(", ") + &units }
}

/// Arena over bound.
fn fragmentation(plan: &PlanReport) -> f64 {
    if plan.lower_bound_bytes > 0 { plan.arena_bytes as f64 / plan.lower_bound_bytes as f64 } else { 1.0 }
}

/// The figures, by name.
fn facts(plan: &PlanReport) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("arena", format!("{} bytes ({})", plan.arena_bytes, human(plan.arena_bytes as u64))),
        ("max live", format!("{} bytes: the lower bound for this order", plan.lower_bound_bytes)),
        ("any order", format!("{} bytes at least", plan.order_bound_bytes)),
        ("fragmentation", format!("{:.4}", fragmentation(plan))),
        ("pinned", format!("{} bytes of params, states, inputs and constants", plan.pinned_bytes)),
        ("instructions", format!("{} (order: {})", plan.instructions, plan.order)),
        ("operations", format!("{} a step", plan.flops)),
        ("moved", format!("{} bytes a step at least: leaves, next values and outputs", plan.moved_bytes)),
    ];
    let modelled = plan.modelled.as_secs_f64() * 1e6;
    facts.push(("modelled", format!("{modelled:.1} us a step, on {} threads", plan.threads)));
    facts.push(("products", products(plan)));
    let again = &plan.recomputed;
    if !again.what.is_empty() {
        let share = 100.0 * again.flops as f64 / plan.flops.saturating_sub(again.flops).max(1) as f64;
        let text = format!("{}: {} nodes, {} operations (+{share:.2} %)", again.what, again.nodes, again.flops);
        facts.push(("computed twice", text));
    }
    let phases: Vec<String> =
        plan.phases.iter().map(|(name, time)| format!("{name} {:.2} ms", time.as_secs_f64() * 1e3)).collect();
    facts.push(("phases", phases.join(", ")));
    facts
}

fn table(plan: &PlanReport, facts: &[(&str, String)]) -> String {
    let mut s = String::new();
    for (name, value) in facts {
        let _ = writeln!(s, "{name:<15}{value}");
    }
    let (peak, live) = plan.peak();
    let _ = writeln!(s, "{:<15}{live} bytes live at instruction {peak}, the largest of them:", "peak");
    for b in at_peak(plan, peak).into_iter().take(10) {
        let _ = writeln!(s, "  {:>12}  {}", b.size, memory::line(b));
    }
    let _ = writeln!(s, "largest buffers");
    let _ = writeln!(s, "  {:>12} {:>12} {:>6} {:>6}  value", "bytes", "offset", "from", "to");
    for b in largest(plan, 10) {
        let _ =
            writeln!(s, "  {:>12} {:>12} {:>6} {:>6}  {}", b.size, b.offset, b.first, last(plan, b), memory::line(b));
    }
    s
}

/// What is live at instruction `peak`, largest first.
fn at_peak(plan: &PlanReport, peak: usize) -> Vec<&BufferReport> {
    let there = |b: &&BufferReport| b.first as usize <= peak && peak <= b.last as usize;
    largest(plan, usize::MAX).into_iter().filter(there).collect()
}

/// The last instruction of the program that needs `b`.
fn last(plan: &PlanReport, b: &BufferReport) -> u32 {
    b.last.min(plan.instructions.saturating_sub(1) as u32)
}

fn all(plan: &PlanReport) -> Value {
    let (peak, live) = plan.peak();
    let buffer = |b: &BufferReport| {
        json!({
            "name": b.name, "value": b.value.to_string(), "kind": memory::kind(b), "offset": b.offset, "size": b.size,
            "first": b.first, "last": last(plan, b), "root": b.root, "place": memory::place(b),
        })
    };
    let phases: serde_json::Map<String, Value> =
        plan.phases.iter().map(|(name, time)| (name.to_string(), json!(time.as_secs_f64() * 1e6))).collect();
    json!({
        "arena_bytes": plan.arena_bytes,
        "max_live_bytes": plan.lower_bound_bytes,
        "order_lower_bound_bytes": plan.order_bound_bytes,
        "fragmentation": fragmentation(plan),
        "pinned_bytes": plan.pinned_bytes,
        "instructions": plan.instructions,
        "order": plan.order,
        "flops": plan.flops,
        "moved_bytes": plan.moved_bytes,
        "threads": plan.threads,
        "modelled_us": plan.modelled.as_secs_f64() * 1e6,
        "recomputed": twice(&plan.recomputed),
        "products": Precision::ALL.iter().map(|&(p, name)| (name.to_string(), json!(plan.products[p as usize]))).collect::<serde_json::Map<_, _>>(),
        "peak": { "instruction": peak, "bytes": live },
        "phases_us": phases,
        "buffers": plan.buffers.iter().map(buffer).collect::<Vec<_>>(),
    })
}
