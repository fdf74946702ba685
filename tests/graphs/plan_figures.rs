//! The figures that a user is told of a plan: bytes, instructions, threads, the time that the cost model expects, what
//! budgets repeat, what half precision keeps, and how many nodes derivatives and batches have. They are those of
//! `tests/filetests/plans.txt`, for small models, trained ones and drawn graphs. A change that is meant is written with
//! `BLESS=1`; the difference tells whether plans have become larger.

use crate::common::{models, zoo::ZOO};
use arenagrad::graph::{GraphBuf, Missing, Randomness, Vmap, jvp, vjp, vmap};
use arenagrad::optim::{AdamW, train};
use arenagrad::session::{Keep, Session};
use arenagrad::tools::arena::{Value, ids::Id};
use arenagrad::tools::fuzz::{GraphOptions, draw_graph, seeded_draws};
use arenagrad::tools::kernels::simd::isa;
use arenagrad::tools::testing::bless;
use std::path::Path;

/// Ops of drawn graphs. The list is fixed, so that a new op leaves the graphs as they are.
const OPS: &str = "add sub mul div max neg exp tanh relu sigmoid gelu select gt reduce_sum reduce_mean reduce_max \
                   reshape transpose broadcast slice pad concat gather softmax layer_norm rms_norm matmul dot_general \
                   conv2d max_pool2d scan if checkpoint stop_gradient";

/// The plans of a graph: on one thread, on eight, within budgets, and with half precision for what is kept.
fn plans(name: &str, graph: &GraphBuf) -> String {
    let one = Session::new().threads(1);
    let plan = match one.plan(graph) {
        Ok(plan) => plan,
        Err(e) => return format!("{name}: {}\n", e.message.lines().next().unwrap_or_default()),
    };
    let team = Session::new().threads(8).plan(graph).unwrap();
    let half = Session::new().threads(1).keep(Keep::Bf16).plan(graph).unwrap();
    let budgets: Vec<String> = one
        .budgets(graph)
        .unwrap()
        .iter()
        .map(|b| match b.recomputed.nodes {
            0 => b.arena_bytes.to_string(),
            n => format!("{} ({}, {n} nodes, {} flops)", b.arena_bytes, b.recomputed.what, b.recomputed.flops),
        })
        .collect();
    format!(
        "{name}: {} instructions, {} bytes moved, {} flops, {} values of {} bytes in bf16\n  1 thread: {} bytes, {} live, \
         {} in any order, {} in bf16, {} µs\n  8 threads: {} bytes, {} used, {} µs\n  budgets: {}\n",
        plan.instructions,
        plan.moved_bytes,
        plan.flops,
        half.kept.values,
        half.kept.bytes,
        plan.arena_bytes,
        plan.lower_bound_bytes,
        plan.order_bound_bytes,
        half.arena_bytes,
        plan.modelled.as_micros(),
        team.arena_bytes,
        team.threads,
        team.modelled.as_micros(),
        budgets.join(", "),
    )
}

/// Nodes of the derivatives of all outputs with respect to all leaves of floats, in both modes, and of three members
/// with leaves of their own; and the plans of the reverse mode, which keeps values of the forward half.
fn transforms(name: &str, graph: &GraphBuf) -> String {
    let g = graph.view();
    let float = |v: Value| g.dtype[v.at()].is_differentiable();
    let wrt: Vec<&str> = g.leaves().filter(|l| float(l.value)).map(|l| l.name).collect();
    let outputs = g.outputs().iter().zip(g.output_names).filter(|o| float(*o.0));
    let outputs: Vec<&str> = outputs.map(|o| g.str(*o.1)).collect();
    let members = g.leaves().fold(Vmap::new(3).randomness(Randomness::Different), |v, l| v.leaf(l.name, 0));
    let reverse = vjp(graph, &outputs, &wrt, Missing::Zero);
    let nodes = |made: &arenagrad::Result<GraphBuf>| match made {
        Ok(made) => made.view().nodes().to_string(),
        Err(e) => e.message.clone(),
    };
    let counts = [nodes(&reverse), nodes(&jvp(graph, &outputs, &wrt)), nodes(&vmap(graph, &members))];
    let planned = reverse.map(|g| plans(&format!("{name}, reverse"), &g)).unwrap_or_default();
    format!("{name}: vjp {}, jvp {}, vmap {} nodes\n{planned}", counts[0], counts[1], counts[2])
}

#[test]
fn figures_of_plans_are_those_of_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests/plans.txt");
    let mut found: Vec<String> = ZOO.iter().map(|m| plans(m.name, &(m.small)())).collect();
    let trained = [("mlp", models::mlp(32)), ("transformer", models::transformer(4, 32, 64, 4, 2, 65))];
    found.extend(trained.map(|(name, g)| plans(name, &train(&g, "loss", AdamW::new(1e-3)).unwrap())));
    let options = GraphOptions::default().nodes(40).ops(OPS).unwrap();
    for seed in 0..20 {
        let graph = draw_graph(&options, &mut seeded_draws(seed)).unwrap();
        found.push(plans(&format!("drawn {seed}"), &graph));
        found.push(transforms(&format!("drawn {seed}"), &graph));
    }
    let head = format!("plans for {}\n", isa().name());
    if bless(&path, format!("{head}{}", found.concat())).unwrap() {
        return;
    }
    // Workspaces of kernels and their times depend on the instruction set; what is computed does not.
    let expected = std::fs::read_to_string(path).unwrap();
    let own = expected.starts_with(&head);
    let first = |page: &str| page.lines().next().map(|line| format!("{line}\n")).unwrap_or_default();
    let known = |page: &&String| expected.contains(&if own { page.to_string() } else { first(page) });
    let differs: Vec<&str> = found.iter().filter(|page| !known(page)).map(String::as_str).collect();
    assert!(differs.is_empty(), "other plans (BLESS=1 writes them):\n{}", differs.concat());
}
