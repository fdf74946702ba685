//! The examples of fuzzing find what is planted in them, reduce it, and find nothing else.

#[path = "../../examples/fuzz_a_pass.rs"]
mod fuzz_a_pass;
#[path = "../../examples/fuzz_an_op.rs"]
mod fuzz_an_op;

use arenagrad::tools::ir::text::print;

#[test]
fn a_wrong_pass_is_found_and_its_graph_is_small() {
    let found = fuzz_a_pass::fuzz(fuzz_a_pass::exp_of_log, 400).unwrap().expect("no graph shows it");
    let (v, text) = (found.view(), print(found.view()));
    assert!(v.nodes() <= 5 && text.contains("= exp ") && text.contains("= log "), "{text}");
    assert!(fuzz_a_pass::fuzz(fuzz_a_pass::neg_of_neg, 40).unwrap().is_none());
}

#[test]
fn a_wrong_kernel_is_found_and_its_graph_is_small() {
    let found = fuzz_an_op::fuzz(&fuzz_an_op::FORGETFUL, 200).unwrap().expect("no graph shows it");
    let (v, text) = (found.view(), print(found.view()));
    assert!(v.nodes() == 2 && text.contains("= forgetful_softsign "), "{text}");
    assert!(fuzz_an_op::fuzz(&fuzz_an_op::SOFTSIGN, 20).unwrap().is_none());
}
