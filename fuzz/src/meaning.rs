//! Whether two graphs mean the same, by the oracle: no kernel and no plan takes part.

use arenagrad::graph::GraphBuf;
use arenagrad::tools::fuzz::{LeafValues, Named, Reference, Stop, compare_arrays, interpret};

/// The first that two lists of tensors differ in, by name.
fn differs(a: &[Named], b: &[Named]) -> Option<String> {
    if a.len() != b.len() {
        return Some(format!("{} tensors and {}", a.len(), b.len()));
    }
    a.iter().zip(b).find_map(|(a, b)| {
        if a.name != b.name || a.array.dtype() != b.array.dtype() || a.array.dims() != b.array.dims() {
            return Some(format!("{:?} is {:?} or {:?}", a.name, a.array.dims(), b.array.dims()));
        }
        compare_arrays(&a.name, &a.array, &b.array).err().map(|d| d.to_string())
    })
}

/// What is computed where both graphs have a reference.
fn compared(a: &Reference, b: &Reference) -> Option<String> {
    let updates = |r: &Reference| {
        let mut updates = r.updates.clone();
        updates.sort_by(|a, b| a.name.cmp(&b.name));
        updates
    };
    differs(&a.outputs, &b.outputs).or_else(|| differs(&updates(a), &updates(b)))
}

/// `what` made `after` of `before`: both have the same outputs and next values on leaves drawn from `seed`.
pub fn assert_same_meaning(what: &str, before: &GraphBuf, after: &GraphBuf, seed: u64) {
    let Ok(leaves) = LeafValues::draw_for(&[before.view(), after.view()], seed) else { return };
    let found = match (interpret(before.view(), &leaves), interpret(after.view(), &leaves)) {
        (Ok(a), Ok(b)) => compared(&a, &b),
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
