//! Fuzzing a pass of your own: random graphs, the check, and the reducer. The pass here believes that exp(log x) = x,
//! which does not hold below 0. The fuzzer finds a graph that shows it, and reduces it to three nodes.
//!
//! Run it with `cargo run --release --example fuzz_a_pass`; it prints the graph.

use arenagrad::prelude::*;
use arenagrad::tools::fuzz::{GraphOptions, ReduceOptions, check_pass, draw_graph, reduce, seeded_draws};
use arenagrad::tools::ir::opdef::Op;
use arenagrad::tools::ir::text::print;
use arenagrad::tools::passes::rebuild::rebuild_buf;

/// A pass: from graph to graph.
pub type Pass = fn(&GraphBuf) -> Result<GraphBuf>;

/// Replaces `outer(inner(x))` by x.
fn undone(graph: &GraphBuf, outer: Op, inner: Op) -> Result<GraphBuf> {
    rebuild_buf(graph.view(), &mut |v| {
        let operand = *v.src.args_of(v.node).first().filter(|_| v.op() == outer)?;
        let before = v.src.def[operand.0 as usize];
        let x = *v.src.args_of(before).first().filter(|_| v.src.op[before.0 as usize] == inner)?;
        Some(vec![v.map[x]])
    })
}

/// A wrong pass: exp(log(x)) → x.
pub fn exp_of_log(graph: &GraphBuf) -> Result<GraphBuf> {
    undone(graph, Op::EXP, Op::LOG)
}

/// A right pass: −(−x) → x.
pub fn neg_of_neg(graph: &GraphBuf) -> Result<GraphBuf> {
    undone(graph, Op::NEG, Op::NEG)
}

/// The smallest graph that was found whose numbers the pass changes, if there is one.
pub fn fuzz(pass: Pass, seeds: u64) -> Result<Option<GraphBuf>> {
    let ops = "exp=4,log=4,neg=4,tanh,add,mul,sub,reduce_sum,broadcast,reshape,slice";
    let options = GraphOptions::default().nodes(20).depth(3).dtypes(&[DType::F32, DType::F64]).ops(ops)?;
    for seed in 0..seeds {
        let graph = draw_graph(&options, &mut seeded_draws(seed))?;
        if check_pass(&pass, &graph, seed).is_err() {
            let mut still_fails = |g: &GraphBuf| check_pass(&pass, g, seed).is_err();
            return Ok(Some(reduce(&graph, &mut still_fails, &ReduceOptions::default())));
        }
    }
    Ok(None)
}

#[allow(dead_code)] // Tests use this file as a module.
fn main() -> Result<()> {
    match fuzz(exp_of_log, 1000)? {
        Some(graph) => println!("exp(log x) is not x here:\n{}", print(graph.view())),
        None => println!("no graph shows that exp(log x) is not x"),
    }
    println!("-(-x) is x: {}", fuzz(neg_of_neg, 200)?.is_none());
    Ok(())
}
