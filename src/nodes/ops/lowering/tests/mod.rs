//! Each row on each of its cases: kernels against decompositions, against naive loops, against the other float type,
//! and derivatives against differences.

mod cases;
mod derivs;
mod machine;
mod naive;

use crate::nodes::builder::Builder;
use crate::nodes::dtype::DType;
use crate::nodes::opdef::{Case, Lower, Op, OpDef};
use crate::nodes::table::OPS;
use crate::nodes::{Graph, GraphBuf};
use machine::{expanded, numbers, outputs};

/// Rows with cases that can run alone.
fn rows() -> impl Iterator<Item = (Op, &'static OpDef, &'static Case)> {
    let runs = |d: &&'static OpDef| !matches!(d.lower, Lower::Leaf | Lower::Control);
    let all = OPS.iter().enumerate().filter(move |(_, d)| runs(d));
    all.flat_map(|(i, d)| d.cases.iter().map(move |c| (Op(i as u16), *d, c)))
}

fn graph(op: Op, def: &OpDef, case: &Case, float: DType) -> GraphBuf {
    let g = Builder::new("case");
    let args = cases::inputs(&g, case, float);
    for (i, o) in cases::node(&g, op, def, case, &args).into_iter().enumerate() {
        g.output(&format!("out{i}"), o);
    }
    g.finish([]).unwrap()
}

/// The outputs of a case as numbers, with their types.
fn results(g: Graph<'_>, case: &Case, float: DType) -> Vec<(DType, Vec<f64>)> {
    let outs = outputs(g, &cases::leaves(case, float)).unwrap();
    g.outputs().iter().zip(outs).map(|(v, o)| (g.dtype[v.0 as usize], numbers(&o, g.dtype[v.0 as usize]))).collect()
}

fn close(what: &str, a: &[f64], b: &[f64], tol: f64) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tol * b.abs().max(1.0);
        assert!(same, "{what}, element {i}: {a} against {b}");
    }
}

/// Tolerance of one sum or one elementary function more or less.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 3e-5,
        DType::F64 => 1e-11,
        _ => 0.0,
    }
}

#[test]
fn kernels_are_their_decompositions() {
    for (op, def, case) in rows().filter(|r| r.1.decompose.is_some()) {
        for &float in cases::floats(case) {
            let what = format!("{} {float} {} {}", def.name, case.args, case.attrs);
            let plain = results(expanded(graph(op, def, case, float), None).view(), case, float);
            let simple = results(expanded(graph(op, def, case, float), Some(op)).view(), case, float);
            for (a, b) in plain.iter().zip(&simple) {
                close(&what, &a.1, &b.1, tolerance(a.0));
            }
        }
    }
}

#[test]
fn float_types_agree() {
    for (op, def, case) in rows().filter(|r| cases::floats(r.2).len() == 2) {
        let what = format!("{} {} {}", def.name, case.args, case.attrs);
        let [a, b] = [DType::F32, DType::F64].map(|f| results(expanded(graph(op, def, case, f), None).view(), case, f));
        for (a, b) in a.iter().zip(&b) {
            close(&what, &a.1, &b.1, tolerance(DType::F32) * 3.0);
        }
    }
}

#[test]
fn kernels_are_the_naive_loops() {
    let mut seen = 0;
    for (op, def, case) in rows() {
        for &float in cases::floats(case) {
            let g = graph(op, def, case, float);
            let n = g.view().def[g.view().outputs()[0].0 as usize];
            let args: Vec<Vec<f64>> = cases::types(case, float)
                .iter()
                .enumerate()
                .map(|(i, (dtype, d))| {
                    let x = cases::data(case, i, d.iter().product());
                    numbers(&machine::bytes(&x, *dtype), *dtype)
                })
                .collect();
            let Some(want) = naive::result(g.view(), n, &args) else { continue };
            let what = format!("{} {float} {} {}", def.name, case.args, case.attrs);
            let got = results(g.view(), case, float).remove(0);
            close(&what, &got.1, &want, tolerance(got.0));
            seen += 1;
        }
    }
    assert!(seen > 100, "only {seen} naive checks ran");
}

/// Type and number of elements of result 0 of a case, with `f` as `f64`.
fn graph_result_type(op: Op, def: &OpDef, case: &Case) -> Option<(DType, usize)> {
    let g = graph(op, def, case, DType::F64);
    let v = *g.view().outputs().first()?;
    Some((g.view().dtype[v.0 as usize], g.view().numel(v)))
}
