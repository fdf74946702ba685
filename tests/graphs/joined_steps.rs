//! Which steps of an optimiser become one.

#![allow(clippy::unwrap_used)]

use arenagrad::op::Op;
use arenagrad::tools::arena::{Node, ids::Id};
use arenagrad::tools::ir::text::parse;
use arenagrad::tools::passes::pipeline::run_pipeline;
use std::fmt::Write;

/// The number of params of each step that patterns leave, in order, for params of these shapes and weight decays.
fn steps(params: &[(&str, f64)]) -> Vec<usize> {
    let (mut leaves, mut steps) = (String::new(), String::new());
    for (i, (dims, decay)) in params.iter().enumerate() {
        let _ = writeln!(leaves, "  %p{i} = param init=ones scale=0 frozen=false : f32{dims}");
        let _ = writeln!(leaves, "  %g{i} = input : f32{dims}");
        let _ = writeln!(steps, "  %n{i} = sgd %p{i}, %g{i}, %lr weight_decay={decay:?}");
    }
    let updates: String = (0..params.len()).map(|i| format!("  update %p{i} <- %n{i}\n")).collect();
    let text = format!("graph @steps {{\n  %lr = input : f32[]\n{leaves}{steps}{updates}  return lr=%lr\n}}\n");
    let done = run_pipeline(&parse(&text).unwrap(), &["patterns"], true).unwrap().0;
    let v = done.view();
    (0..v.nodes()).map(Node::new).filter(|&n| v.op[n.at()] == Op::SGD).map(|n| v.outs_of(n).len()).collect()
}

#[test]
fn a_step_is_of_at_most_16_small_params() {
    let of = |n: usize| steps(&vec![("[5]", 0.1); n]);
    assert_eq!(of(1), [1]);
    assert_eq!(of(2), [2]);
    assert_eq!(of(16), [16]);
    assert_eq!(of(17), [16, 1]);
    assert_eq!(of(33), [16, 16, 1]);
    assert_eq!(of(70), [16, 16, 16, 16, 6]);
}

/// A vector of up to 1024 elements is small. Matrices stay apart, and so do steps with other attributes.
#[test]
fn large_params_and_other_steps_stay_apart() {
    assert_eq!(steps(&[("[1024]", 0.1), ("[]", 0.1)]), [2]);
    assert_eq!(steps(&[("[1025]", 0.1), ("[1025]", 0.1)]), [1, 1]);
    assert_eq!(steps(&[("[2,3]", 0.1), ("[2,3]", 0.1)]), [1, 1]);
    assert_eq!(steps(&[("[5]", 0.1), ("[5]", 0.2), ("[7]", 0.1)]), [2, 1]);
}
