//! Fuzzing an op of your own: random graphs with the op, each run by its kernel and by the oracle, which runs the op's
//! decomposition. The wrong kernel here forgets the elements after the last full group of eight. The fuzzer finds a
//! graph that shows it, and reduces it to the op alone.
//!
//! Run it with `cargo run --release --example fuzz_an_op`; it prints the graph.

use arenagrad::op::{Batch, Case, Deriv, Domain, Lower, OpDef};
use arenagrad::prelude::*;
use arenagrad::tools::fuzz::{GraphOptions, ReduceOptions, RunOptions, check_run, draw_graph, reduce, seeded_draws};
use arenagrad::tools::ir::call::{Buf, Call};
use arenagrad::tools::ir::lower_cx::LowerCx;
use arenagrad::tools::ir::text::print;
use arenagrad::tools::kernels::abi::Args;

/// y = x / (1 + |x|).
const DEFINITION: OpDef = OpDef::new("softsign", "y = x / (1 + |x|)")
    .infer(|cx| match cx.dtype(0) {
        DType::F32 => cx.same_as(0),
        other => Err(format!("x is {other}; f32 is needed")),
    })
    .deriv(Deriv::ViaDecompose)
    .batch(Batch::Members)
    .decompose(|s| vec![s.args[0] / (s.args[0].abs() + 1.0)])
    .lower(Lower::Kernel(|cx| lower(cx, softsign)))
    .cost(|cx| 3 * cx.out())
    .cases(&[Case::new("f32[3,5]", "", &[Domain::Real])]);

/// The op with its kernel.
pub static SOFTSIGN: OpDef = DEFINITION;

/// The op with a wrong kernel.
pub static FORGETFUL: OpDef = DEFINITION.named("forgetful_softsign").lower(Lower::Kernel(|cx| lower(cx, forgetful)));

/// Elements of a unit.
const UNIT: usize = 4096;

fn lower(cx: &mut LowerCx<'_>, kernel: fn(&mut Args<'_>)) -> std::result::Result<(), String> {
    let n = cx.arg_dims(0).numel();
    let call = Call::new(kernel, [], n.div_ceil(UNIT)).flops(cx.flops());
    cx.call(call.reads_args(1).writes(Buf::Out(0), UNIT));
    Ok(())
}

/// The elements of the units that the call computes, of x and of y.
fn unit<'a>(args: &'a mut Args<'_>) -> (&'a [f32], &'a mut [f32]) {
    let first = args.units().start * UNIT;
    let x = args.read::<f32>(0);
    let y = args.write::<f32>(0);
    (&x[first..][..y.len()], y)
}

fn softsign(args: &mut Args<'_>) {
    let (x, y) = unit(args);
    y.iter_mut().zip(x).for_each(|(y, x)| *y = x / (1.0 + x.abs()));
}

fn forgetful(args: &mut Args<'_>) {
    let (x, y) = unit(args);
    for (y, x) in y.chunks_exact_mut(8).zip(x.chunks_exact(8)) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x / (1.0 + x.abs()));
    }
}

/// The smallest graph that was found in which the op's kernel and its decomposition differ, if there is one.
pub fn fuzz(op: &'static OpDef, seeds: u64) -> Result<Option<GraphBuf>> {
    let ops = format!("{}=8,add,mul,tanh,matmul,reduce_mean,transpose,broadcast,reshape,slice", op.name);
    let options = GraphOptions::default().nodes(12).extra_ops(&[op]).dtypes(&[DType::F32]).ops(&ops)?;
    for seed in 0..seeds {
        let graph = draw_graph(&options, &mut seeded_draws(seed))?;
        for how in RunOptions::all() {
            if check_run(&graph, seed, &how).is_err() {
                let mut still_fails = |g: &GraphBuf| check_run(g, seed, &how).is_err();
                return Ok(Some(reduce(&graph, &mut still_fails, &ReduceOptions::default())));
            }
        }
    }
    Ok(None)
}

#[allow(dead_code)] // Tests use this file as a module.
fn main() -> Result<()> {
    match fuzz(&FORGETFUL, 1000)? {
        Some(graph) => println!("the kernel and the decomposition differ:\n{}", print(graph.view())),
        None => println!("no graph shows the wrong kernel"),
    }
    println!("the right kernel is right: {}", fuzz(&SOFTSIGN, 100)?.is_none());
    Ok(())
}
