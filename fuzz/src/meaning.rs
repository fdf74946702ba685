//! Compares the meaning of two graphs by the oracle: no kernel and no plan takes part.

use arenagrad::graph::GraphBuf;
use arenagrad::tools::fuzz::{LeafValues, Stop, compare_graph_signatures, compare_references, interpret};

/// `what` made `after` of `before`: both have the same outputs and next values on leaves drawn from `seed`.
pub fn assert_same_meaning(what: &str, before: &GraphBuf, after: &GraphBuf, seed: u64) {
    let Ok(leaves) = LeafValues::draw_for(&[before.view(), after.view()], seed) else { return };
    let changed = compare_graph_signatures(before.view(), after.view());
    let found = match (interpret(before.view(), &leaves), interpret(after.view(), &leaves)) {
        _ if !changed.is_empty() => Some(changed[0].describe(["the graph", "what the pass wrote"])),
        (Ok(a), Ok(b)) => compare_references(&a, &b).err().map(|d| d.to_string()),
        // What nothing reads may fault before, and be gone after.
        (Err(Stop::Fault(_)), _) | (Err(Stop::TooLarge | Stop::Unsupported(_)), _) => None,
        (Ok(a), Err(Stop::Fault(e))) => (!a.may_fault).then(|| format!("faults afterwards: {e}")),
        (Ok(_), Err(Stop::TooLarge | Stop::Unsupported(_))) => None,
        (Err(Stop::Broken(e)), _) | (_, Err(Stop::Broken(e))) => Some(format!("a broken graph: {e}")),
    };
    if let Some(found) = found {
        panic!("{what}, seed {seed}: {found}\n{before:?}\n{after:?}");
    }
}
