//! The command `plan`: the memory plan of a graph's program.
//!
//! Invariant: the plan is that of the program which `run` and `train` would compile.

use super::exported::{is_exported, open_exported};
use super::{ir_failure, load_graph};
use crate::args::PlanArgs;
use crate::config::byte_size::byte_size_as_usize;
use crate::fail::{Run, fail_bad_input};
use crate::stdout_stderr::emit_stdout;
use arenagrad::Precision;
use arenagrad::session::{Budget, BufferReport, Convolutions, Keep, PlanReport, Recomputed, Session};
use arenagrad::train::write_atomically;
use serde_json::{Value, json};
use std::fmt::Write;

/// Runs the command: prints the plan or the budgets, and draws the plan if `--svg` or `--html` is given.
pub fn plan_command(a: &PlanArgs) -> Run {
    let file = a.graph.file.display().to_string();
    if is_exported(&a.graph.file) {
        let other = a.threads != 1 || a.precision != Precision::F32 || a.keep != Keep::F32;
        let other = other || a.convolutions != Convolutions::Direct;
        if other || a.max_memory.is_some() || a.budgets {
            let text = "an exported program has its plan: export it again with other options";
            return Err(fail_bad_input(format!("{file}: {text}")));
        }
        let p = open_exported(&a.graph.file, &a.graph.sizes)?;
        plan_command_drawings(a, &file, p.plan())?;
        return print_plan(a, p.plan());
    }
    let graph = load_graph(&a.graph)?;
    let free = Session::new().threads(a.threads).precision(a.precision).convolutions(a.convolutions).keep(a.keep);
    let session = a.max_memory.map_or_else(|| free.clone(), |m| free.clone().memory_budget(byte_size_as_usize(m)));
    let drawn = a.svg.is_some() || a.html.is_some();
    let plan = match !a.budgets || drawn {
        true => Some(session.plan(&graph).map_err(ir_failure(&a.graph.file))?.in_file(&file)),
        false => None,
    };
    if let Some(plan) = &plan {
        plan_command_drawings(a, &file, plan)?;
    }
    match plan {
        _ if a.budgets => print_plan_command_budgets(&free.budgets(&graph).map_err(ir_failure(&a.graph.file))?, a.json),
        Some(plan) => print_plan(a, &plan),
        None => Ok(()),
    }
}

fn print_plan(a: &PlanArgs, plan: &PlanReport) -> Run {
    match a.json {
        true => emit_stdout(serde_json::to_string(&plan_json(plan)).map_err(fail_bad_input)?),
        false => emit_stdout(plan),
    }
}

/// Writes the memory map and the page.
fn plan_command_drawings(a: &PlanArgs, file: &str, plan: &PlanReport) -> Run {
    if let Some(path) = &a.svg {
        write_atomically(path, plan.svg().as_bytes())?;
    }
    if let Some(path) = &a.html {
        write_atomically(path, plan.html(&format!("Memory plan of {file}")).as_bytes())?;
    }
    Ok(())
}

/// Prints the arena sizes that recomputation can reach, and the operations that each repeats.
fn print_plan_command_budgets(list: &[Budget], json: bool) -> Run {
    if json {
        let row =
            |b: &Budget| json!({ "arena_bytes": b.arena_bytes, "recomputed": plan_recomputed_json(&b.recomputed) });
        return emit_stdout(Value::from(list.iter().map(row).collect::<Vec<_>>()));
    }
    let mut s = format!("{:>15} {:>9} {:>15}  computed twice\n", "arena bytes", "nodes", "operations");
    for b in list {
        let r = &b.recomputed;
        let _ = writeln!(s, "{:>15} {:>9} {:>15}  {}", b.arena_bytes, r.nodes, r.flops, r.what);
    }
    emit_stdout(s)
}

/// A recomputation as JSON.
fn plan_recomputed_json(r: &Recomputed) -> Value {
    json!({ "what": r.what, "nodes": r.nodes, "flops": r.flops })
}

/// The plan with all its buffers as JSON.
fn plan_json(plan: &PlanReport) -> Value {
    let (peak, live) = plan.peak();
    let buffer = |b: &BufferReport| {
        json!({
            "name": b.name, "value": b.value.to_string(), "op": b.op, "kind": b.what(), "offset": b.offset, "size": b.size,
            "first": b.first, "last": plan.last(b), "root": b.root, "place": b.origin(),
        })
    };
    let phases: serde_json::Map<String, Value> =
        plan.phases.iter().map(|(name, time)| (name.to_string(), json!(time.as_secs_f64() * 1e6))).collect();
    json!({
        "arena_bytes": plan.arena_bytes,
        "max_live_bytes": plan.lower_bound_bytes,
        "order_lower_bound_bytes": plan.order_bound_bytes,
        "fragmentation": plan.fragmentation(),
        "pinned_bytes": plan.pinned_bytes,
        "instructions": plan.instructions,
        "order": plan.order,
        "flops": plan.flops,
        "moved_bytes": plan.moved_bytes,
        "threads": plan.threads,
        "modelled_us": plan.modelled.as_secs_f64() * 1e6,
        "recomputed": plan_recomputed_json(&plan.recomputed),
        "winograd": plan.winograd,
        "kept": json!({ "type": plan.kept.keep.name(), "values": plan.kept.values, "bytes": plan.kept.bytes }),
        "products": Precision::ALL.iter().map(|&(p, name)| (name.to_string(), json!(plan.products[p as usize]))).collect::<serde_json::Map<_, _>>(),
        "peak": { "instruction": peak, "bytes": live },
        "phases_us": phases,
        "warnings": plan.warnings.iter().map(|w| w.to_string()).collect::<Vec<_>>(),
        "buffers": plan.buffers.iter().map(buffer).collect::<Vec<_>>(),
    })
}
