//! The regions that conformance cases name in their attributes: `@case_body` and its derivative rules, `@case_step`,
//! `@case_count`, `@case_counted`, `@case_flag`. The conformance suite, the op reference and the generator of random
//! graphs write them.

use crate::arena::Value;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::emit::Emit;
use crate::nodes::ir::opdef::{Case, Op};
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::layout::attrs::ToShapeAttrs;
use crate::nodes::ops::pointwise::attrs::CastAttrs;

/// Opens and closes the region that a case names in its attributes, for operands of types `tys`.
pub fn add_case_region(e: &mut Emit, case: &Case, tys: &[Ty]) {
    let mut tys = tys.to_vec();
    add_case_region_rules(e, case, &tys);
    add_case_region_branches(e, case, &tys);
    let name = ["case_body", "case_step", "case_counted", "case_count", "case_flag"]
        .into_iter()
        .find(|n| case.attrs.contains(&format!("@{n}")));
    let Some(name) = name else { return };
    if let (true, Some(last)) = (!matches!(name, "case_body" | "case_flag"), tys.last_mut()) {
        // A slice of the stacked input.
        let dims = e.shapes.dims(last.shape);
        last.shape = e.shapes.intern(dims.get(1..).unwrap_or(&[])).unwrap_or(last.shape);
    }
    e.open_region(name);
    let a: Vec<Value> = tys.iter().map(|&ty| e.region_arg(ty)).collect();
    let mut op = |op: Op, args: &[Value], attrs: &[Attr<'_>]| e.emit(op, args, attrs).at(0);
    let at = |i: usize| a.get(i).copied().unwrap_or(Value::NONE);
    let yields = match name {
        "case_body" => {
            let product = op(Op::MUL, &[at(0), at(1)], &[]);
            let bent = op(Op::TANH, &[product], &[]);
            vec![op(Op::ADD, &[bent, at(0)], &[])]
        }
        "case_step" => {
            let product = op(Op::MUL, &[at(0), at(1)], &[]);
            let sum = op(Op::ADD, &[product, at(2)], &[]);
            let next = op(Op::TANH, &[sum], &[]);
            vec![next, op(Op::MUL, &[next, at(2)], &[])]
        }
        "case_counted" => {
            let product = op(Op::MUL, &[at(0), at(2)], &[]);
            let sum = op(Op::ADD, &[product, at(3)], &[]);
            let next = op(Op::TANH, &[sum], &[]);
            vec![next, op(Op::MUL, &[next, at(3)], &[])]
        }
        "case_flag" => {
            let shape = tys.get(1).map_or(crate::arena::Shape(0), |t| t.shape);
            let full = |value| FullAttrs { value, dtype: DType::I32, shape };
            let (one, three) = (op(Op::FULL, &[], &full(1.0).list()), op(Op::FULL, &[], &full(3.0).list()));
            let count = op(Op::ADD, &[at(1), one], &[]);
            let product = op(Op::MUL, &[at(2), at(3)], &[]);
            let bent = op(Op::SIN, &[product], &[]);
            let next = op(Op::ADD, &[bent, at(2)], &[]);
            vec![op(Op::LT, &[count, three], &[]), count, next, product]
        }
        _ => {
            let (dtype, shape) = tys.first().map_or((DType::F32, crate::arena::Shape(0)), |t| (t.dtype, t.shape));
            let count = tys.get(1).map_or(shape, |t| t.shape);
            let one = op(Op::FULL, &[], &FullAttrs { value: 1.0, dtype: DType::I32, shape: count }.list());
            let count = op(Op::CAST, &[at(1)], &CastAttrs { to: dtype }.list());
            let wide = op(Op::BROADCAST, &[count], &ToShapeAttrs { shape }.list());
            let bent = op(Op::SIN, &[at(0)], &[]);
            let product = op(Op::MUL, &[bent, at(3)], &[]);
            let next = op(Op::ADD, &[product, wide], &[]);
            vec![next, op(Op::ADD, &[at(1), one], &[]), at(1), op(Op::MUL, &[at(2), at(2)], &[])]
        }
    };
    e.close_region(&yields);
}

/// Opens and closes the branches that a case names: ab + sin(a), and a².
fn add_case_region_branches(e: &mut Emit, case: &Case, tys: &[Ty]) {
    let &[_, a, b] = tys else { return };
    for name in ["case_then", "case_else"] {
        if !case.attrs.contains(&format!("@{name}")) {
            continue;
        }
        e.open_region(name);
        let x: Vec<Value> = [a, b].map(|ty| e.region_arg(ty)).to_vec();
        let mut op = |op: Op, args: &[Value]| e.emit(op, args, &[]).at(0);
        let y = if name == "case_then" {
            let (product, bent) = (op(Op::MUL, &[x[0], x[1]]), op(Op::SIN, &[x[0]]));
            op(Op::ADD, &[product, bent])
        } else {
            op(Op::MUL, &[x[0], x[0]])
        };
        e.close_region(&[y]);
    }
}

/// Opens and closes the derivative rules of `@case_body` that a case names: for y = tanh(ab) + a.
fn add_case_region_rules(e: &mut Emit, case: &Case, tys: &[Ty]) {
    let &[ty, _] = tys else { return };
    for (name, seeds) in [("case_vjp", 1), ("case_jvp", 2)] {
        if !case.attrs.contains(&format!("@{name}")) {
            continue;
        }
        e.open_region(name);
        let x: Vec<Value> = (0..3 + seeds).map(|_| e.region_arg(ty)).collect();
        let mut op = |op: Op, args: &[Value]| e.emit(op, args, &[]).at(0);
        let bent = op(Op::SUB, &[x[2], x[0]]);
        let square = op(Op::MUL, &[bent, bent]);
        let yields = if seeds == 1 {
            let part = op(Op::MUL, &[x[3], square]);
            let ct = op(Op::SUB, &[x[3], part]);
            let by_a = op(Op::MUL, &[ct, x[1]]);
            vec![op(Op::ADD, &[by_a, x[3]]), op(Op::MUL, &[ct, x[0]])]
        } else {
            let (by_a, by_b) = (op(Op::MUL, &[x[3], x[1]]), op(Op::MUL, &[x[0], x[4]]));
            let t = op(Op::ADD, &[by_a, by_b]);
            let part = op(Op::MUL, &[t, square]);
            let t = op(Op::SUB, &[t, part]);
            vec![op(Op::ADD, &[t, x[3]])]
        };
        e.close_region(&yields);
    }
}
