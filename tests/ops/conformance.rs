//! Conformance of every op: the suite of `tools::testing` on all definitions. A new op is covered without a line here.
//! With `-- --nocapture` the answers are printed as a table.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType};
use arenagrad::op::OpDef;
use arenagrad::tools::ir::attrs::{Field, Kind};
use arenagrad::tools::ir::opdef::{Batch, Case, Deriv, Domain, Flags};
use arenagrad::tools::ops::pointwise::arith::FLOOR;
use arenagrad::tools::ops::pointwise::math::SIN;
use arenagrad::tools::ops::table::OPS;
use arenagrad::tools::testing::{conform, conformance};

/// `OPS="matmul einsum"` asks for these alone.
#[test]
fn every_op_passes_every_facet() {
    let asked = std::env::var("OPS").unwrap_or_default();
    if !asked.trim().is_empty() {
        let some: Vec<_> = OPS.iter().copied().filter(|def| asked.split_whitespace().any(|n| n == def.name)).collect();
        assert!(!some.is_empty(), "no op is called {asked}");
        let report = conformance(&some);
        return assert!(report.failed().is_empty(), "{:#?}", report.failed());
    }
    let report = conformance(OPS);
    println!("{report}");
    assert!(report.failed().is_empty(), "{:#?}", report.failed());
    // A cell without an answer has a reason.
    assert!(!report.has_gaps(), "{report}");
    // These take and give any tensor. All others refuse some types of operands or some values of attributes.
    let mut takers = report.refuse_nothing();
    takers.sort_unstable();
    assert_eq!(takers, ["checkpoint", "optimization_barrier", "stop_gradient"]);
}

/// Shape rules and attributes that are too lax, or not what the derivative reads.
#[test]
fn lax_rules_are_refused() {
    // A sum over an axis and the next: the last axis has no next one, and the decomposition says so.
    static LAX: OpDef = OpDef::new("pair_sum", "yᵢ = xᵢ + xᵢ₊₁ along the axis")
        .attrs(&[Field::new("axis", Kind::Int)])
        .infer(|cx| {
            let (mut dims, axis) = (cx.dims(0).to_vec(), cx.attrs.size(0));
            if let Some(n) = dims.get_mut(axis) {
                *n = n.saturating_sub(1);
            }
            cx.result(cx.dtype(0), &dims)
        })
        .deriv(Deriv::ViaDecompose)
        .batch(Batch::ViaDecompose)
        .decompose(|s| {
            let (x, axis) = (s.args[0], s.attrs.int(0));
            let n = x.dims().get(s.attrs.size(0)).map_or(0, |n| n.saturating_sub(1));
            vec![x.narrow(axis, 0, n) + x.narrow(axis, 1, n)]
        })
        .cost(|cx| cx.out())
        .cases(&[Case::new("f[3,4]", "axis=1", &[Domain::Real])]);
    // A derivative that is right for the attribute of the case alone.
    static BENT: OpDef = OpDef::new("bent", "y = slope·x²")
        .attrs(&[Field::new("slope", Kind::F64)])
        .infer(|cx| {
            cx.float(0)?;
            cx.same_as(0)
        })
        .deriv(Deriv::Pointwise(|s, _| Some(s.args[0] * 2.6)))
        .batch(Batch::Leading)
        .decompose(|s| vec![s.args[0] * s.args[0] * s.attrs.f64(0)])
        .cost(|cx| 2 * cx.out())
        .cases(&[Case::new("f[3]", "slope=1.3", &[Domain::Real])]);
    let e = conform(&[&LAX]).unwrap_err().message;
    assert!(e.contains("pair_sum#0 f64 variants: "), "{e}");
    let e = conform(&[&BENT]).unwrap_err().message;
    assert!(e.contains("conformance: 1 answers") && e.contains("bent#0 f64 variants: (f[3]) slope="), "{e}");
}

#[test]
fn a_wrong_zero_is_refused() {
    static SIN_WITHOUT: OpDef = SIN.named("sin_without").deriv(Deriv::Zero).flags(Flags::PURE);
    static SIN_AS_STEP: OpDef = SIN.named("sin_as_step").deriv(Deriv::Zero).flags(Flags::STEP);
    static FLOOR_WITHOUT: OpDef = FLOOR.named("floor_without").flags(Flags::PURE);
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
    assert_eq!(g.iota(-1, [2, 3], DType::I32).value(), g.iota(1, [2, 3], DType::I32).value());
    assert_eq!(x.cumprod(-2, false, true).value(), x.cumprod(1, false, true).value());
    assert_eq!(x.transpose(&[-1, 0, -2]).value(), x.transpose(&[2, 0, 1]).value());
    // The axis is one of the result, which has as many axes fewer as the indices have more than one.
    assert_eq!(x.scatter_add(one, -2, 5).value(), x.scatter_add(one, 1, 5).value());
    assert_eq!(x.scatter_add(two, -2, 5).value(), x.scatter_add(two, 0, 5).value());
    let front = x.dot_general(y, [&[], &[]], [&[1, 2], &[2, 1]]);
    assert_eq!(x.dot_general(y, [&[], &[]], [&[-2, -1], &[-1, -2]]).value(), front.value());
    assert!(front.is_some() && g.error().is_none());
    g.iota(-3, [2, 3], DType::I32);
    assert!(g.error().is_some_and(|e| e.message.contains("axis -3 is outside rank 2")));
}
