//! Conformance of every op: the suite of `tools::testing` on all definitions. A new op is covered without a line here.
//! With `-- --nocapture` the answers are printed as a table.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, OpDef};
use arenagrad::tools::ir::opdef::{Deriv, Flags};
use arenagrad::tools::ops::pointwise::arith::FLOOR;
use arenagrad::tools::ops::pointwise::math::SIN;
use arenagrad::tools::ops::table::OPS;
use arenagrad::tools::testing::{conform, conformance};

#[test]
fn every_op_passes_every_facet() {
    let report = conformance(OPS);
    println!("{report}");
    assert!(report.failed().is_empty(), "{:#?}", report.failed());
    // A cell without an answer has a reason.
    assert!(!report.has_gaps(), "{report}");
}

#[test]
fn a_wrong_zero_is_refused() {
    static SIN_WITHOUT: OpDef = OpDef { name: "sin_without", deriv: Deriv::Zero, flags: Flags::PURE, ..SIN };
    static SIN_AS_STEP: OpDef = OpDef { name: "sin_as_step", deriv: Deriv::Zero, flags: Flags::STEP, ..SIN };
    static FLOOR_WITHOUT: OpDef = OpDef { name: "floor_without", flags: Flags::PURE, ..FLOOR };
    for (def, why) in [(&SIN_WITHOUT, "not marked as a step function"), (&SIN_AS_STEP, "the op is a step function")] {
        let report = conformance(&[def]);
        let failed = report.failed();
        assert!(!failed.is_empty());
        assert!(failed.iter().all(|e| e.contains(" zero: the derivative is Zero") && e.contains(why)), "{failed:?}");
    }
    conform(&[&FLOOR_WITHOUT]).unwrap();
}

/// A method gives the same node for an axis from the front and from the end.
#[test]
fn axes_count_from_either_end() {
    let g = Builder::new("axes");
    let [x, y] = [("x", [2, 3, 4]), ("y", [5, 4, 3])].map(|(name, dims)| g.input(name, dims, DType::F64));
    let [one, two] = [("one", vec![3]), ("two", vec![2, 3])].map(|(name, dims)| g.input(name, dims, DType::I32));
    assert_eq!(g.iota(-1, [2, 3], DType::I32).v, g.iota(1, [2, 3], DType::I32).v);
    assert_eq!(x.cumprod(-2, false, true).v, x.cumprod(1, false, true).v);
    assert_eq!(x.transpose(&[-1, 0, -2]).v, x.transpose(&[2, 0, 1]).v);
    // The axis is one of the result, which has as many axes fewer as the indices have more than one.
    assert_eq!(x.scatter_add(one, -2, 5).v, x.scatter_add(one, 1, 5).v);
    assert_eq!(x.scatter_add(two, -2, 5).v, x.scatter_add(two, 0, 5).v);
    let front = x.dot_general(y, [&[], &[]], [&[1, 2], &[2, 1]]);
    assert_eq!(x.dot_general(y, [&[], &[]], [&[-2, -1], &[-1, -2]]).v, front.v);
    assert!(front.is_some() && g.error().is_none());
    g.iota(-3, [2, 3], DType::I32);
    assert!(g.error().is_some_and(|e| e.message.contains("axis -3 is outside rank 2")));
}
