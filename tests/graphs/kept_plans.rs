//! Passes and plans stay as they are: `tests/filetests/plans.txt` has digests of the texts after all passes and of the
//! plans, for small models and drawn graphs, and of the derivatives and batches of drawn graphs. A change that is meant
//! is written with `BLESS=1`; the figures beside the digests tell whether plans have become larger.

use crate::common::zoo::ZOO;
use arenagrad::graph::{GraphBuf, Missing, Randomness, Vmap, jvp, vjp, vmap};
use arenagrad::session::Session;
use arenagrad::tools::arena::{Value, ids::Id};
use arenagrad::tools::fuzz::{GraphOptions, draw_graph, seeded_draws};
use arenagrad::tools::ir::text::print;
use arenagrad::tools::kernels::simd::isa;
use arenagrad::tools::passes::pipeline::{pipeline_passes, run_pipeline};
use arenagrad::tools::testing::bless;
use std::path::Path;

/// Ops of drawn graphs. The list is fixed, so that a new op leaves the graphs as they are.
const OPS: &str = "add sub mul div max neg exp tanh relu sigmoid gelu select gt reduce_sum reduce_mean reduce_max \
                   reshape transpose broadcast slice pad concat gather softmax layer_norm rms_norm matmul dot_general \
                   conv2d max_pool2d scan if checkpoint stop_gradient";

/// FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3))
}

/// The texts of a graph after each pass, and after passes that only some programs need.
fn texts(graph: &GraphBuf) -> String {
    let simple: Vec<&str> = pipeline_passes().into_iter().take_while(|pass| *pass != "patterns").collect();
    let mut out = String::new();
    for names in [&["prepare"][..], &[&simple[..], &["keep_bf16"]].concat(), &[&simple[..], &["keep_f16"]].concat()] {
        out += &run_pipeline(graph, names, false).map_or_else(|e| e.message, |(g, _)| print(g.view()));
    }
    let mut graph = graph.clone();
    // The pass of a family that may be left out, and that has nothing to do here.
    for pass in pipeline_passes().into_iter().filter(|pass| *pass != "states") {
        graph = run_pipeline(&graph, &[pass], false).unwrap().0;
        out += &format!("{pass}\n{}\n", print(graph.view()));
    }
    out + &print(run_pipeline(&graph, &["unfuse"], false).unwrap().0.view())
}

/// The figures of a plan, and all its buffers.
fn plan(graph: &GraphBuf, session: &Session) -> [String; 2] {
    match session.plan(graph) {
        Ok(p) => {
            let figures = format!("{} instructions, {} bytes, order {}", p.instructions, p.arena_bytes, p.order);
            let buffers =
                p.buffers.iter().map(|b| format!("{:?}\n", (&b.name, b.offset, b.size, b.first, b.last, b.root)));
            let all = format!("{:?}{:?}{}", p.recomputed, p.order_bound_bytes, buffers.collect::<String>());
            [figures, format!("{:016x}", digest(&all))]
        }
        Err(e) => [format!("no plan: {}", e.message.lines().next().unwrap_or_default()), String::new()],
    }
}

/// The sizes that budgets can give, and what they repeat.
fn budgets(graph: &GraphBuf, session: &Session) -> String {
    let all = session.budgets(graph).unwrap();
    let least = all.last().map_or(0, |b| b.arena_bytes);
    format!("{}, least {least} bytes {:016x}", all.len(), digest(&format!("{all:?}")))
}

fn page(name: &str, graph: &GraphBuf) -> String {
    let one = Session::new().threads(1);
    let ([figures, plan_digest], budgets) = (plan(graph, &one), budgets(graph, &one));
    format!("{name}: texts {:016x}\n  plan: {figures} {plan_digest}\n  budgets: {budgets}\n", digest(&texts(graph)))
}

/// The derivatives of all outputs with respect to all leaves of floats, in both modes, and three members with leaves of
/// their own. With `plans`, how the reverse mode is planned, which keeps values of the forward half.
fn transforms(name: &str, graph: &GraphBuf, plans: bool) -> String {
    let g = graph.view();
    let float = |v: Value| g.dtype[v.at()].is_differentiable();
    let wrt: Vec<&str> = g.leaves().filter(|l| float(l.value)).map(|l| l.name).collect();
    let outputs = g.outputs().iter().zip(g.output_names).filter(|o| float(*o.0));
    let outputs: Vec<&str> = outputs.map(|o| g.str(*o.1)).collect();
    let of = |made: arenagrad::Result<GraphBuf>| match made {
        Ok(made) => format!("{} nodes {:016x}", made.view().nodes(), digest(&print(made.view()))),
        Err(e) => e.message,
    };
    let members = g.leaves().fold(Vmap::new(3).randomness(Randomness::Different), |v, l| v.leaf(l.name, 0));
    let reverse = vjp(graph, &outputs, &wrt, Missing::Zero);
    let planned = reverse.as_ref().ok().filter(|_| plans).map(|g| page(&format!("{name}, reverse"), g));
    format!(
        "{name}: vjp {}\n  jvp {}\n  vmap {}\n",
        of(reverse),
        of(jvp(graph, &outputs, &wrt)),
        of(vmap(graph, &members)),
    ) + &planned.unwrap_or_default()
}

#[test]
fn passes_and_plans_are_those_of_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests/plans.txt");
    let mut found: Vec<String> = ZOO.iter().map(|m| page(m.name, &(m.small)())).collect();
    let options = GraphOptions::default().nodes(40).ops(OPS).unwrap();
    for seed in 0..40 {
        let graph = draw_graph(&options, &mut seeded_draws(seed)).unwrap();
        found.push(page(&format!("drawn {seed}"), &graph));
        found.push(transforms(&format!("drawn {seed}"), &graph, seed < 12));
    }
    let head = format!("plans for {}\n", isa().name());
    if bless(&path, format!("{head}{}", found.concat())).unwrap() {
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap();
    // Workspaces of kernels, and so plans, depend on the instruction set; texts do not.
    let own = expected.starts_with(&head);
    let text = |page: &str| page.lines().next().unwrap_or_default().to_string();
    let known = |page: &&String| if own { expected.contains(*page) } else { expected.contains(&text(page)) };
    let differs: Vec<&str> = found.iter().filter(|page| !known(page)).map(String::as_str).collect();
    assert!(differs.is_empty(), "other plans (BLESS=1 writes them):\n{}", differs.concat());
}
