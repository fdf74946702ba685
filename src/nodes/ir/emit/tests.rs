//! The first error is kept, and later nodes on its results are skipped. The number of values has a limit.

use super::*;
use crate::nodes::DType;

/// A graph with an open region, and the region's argument.
fn open() -> (Emit, Value, Ty) {
    let mut e = Emit::new("g");
    let ty = Ty { dtype: DType::F32, shape: e.shapes.intern(&[2]).unwrap() };
    e.open_region("r");
    let x = e.region_arg(ty);
    (e, x, ty)
}

#[test]
fn a_node_on_the_result_of_a_failed_node_is_skipped() {
    let (mut e, x, _) = open();
    assert_eq!(e.emit(Op::ADD, &[x, x], &[]).len(), 1);
    let (nodes, failed) = (e.nodes(), e.emit(Op::ADD, &[x], &[]));
    assert!(failed.is_empty() && failed.at(0) == Value::NONE);
    let skipped = e.emit(Op::ADD, &[x, failed.at(0)], &[]);
    assert!(skipped.is_empty() && skipped.at(0) == Value::NONE && e.nodes() == nodes);
}

#[test]
fn values_of_a_region_that_is_set_aside_are_counted_once() {
    let (mut e, x, ty) = open();
    e.emit(Op::EXP, &[x], &[]);
    e.open_capturing("inner");
    let y = e.region_arg(ty);
    e.emit(Op::EXP, &[y], &[]);
    for _ in 0..3 {
        assert_eq!(e.all_values(), 4);
        let aside = e.set_region_aside().unwrap();
        assert_eq!((e.all_values(), e.values()), (4, 2));
        e.resume_region(aside);
        assert_eq!((e.all_values(), e.values()), (4, 2));
    }
}
