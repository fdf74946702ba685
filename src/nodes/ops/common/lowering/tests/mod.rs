//! Lowered calls without a scheduler: each op on each of its cases, and on more sizes, against its decomposition and
//! against naive loops, over several divisions of the units and every in-place pair.

mod calls;
mod cases;
mod machine;
mod naive;
mod tile_calls;

use crate::nodes::ir::builder::Builder;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{Case, Lower, Op, OpDef};
use crate::nodes::ops::table::OPS;
use crate::nodes::{CrossEntropy, Graph, GraphBuf};
use machine::{expanded, numbers, outputs};

/// Ops with cases that can run alone.
fn op_cases() -> impl Iterator<Item = (Op, &'static OpDef, &'static Case)> {
    let runs = |d: &&'static OpDef| !matches!(d.lower, Lower::Leaf | Lower::Control);
    let all = OPS.iter().enumerate().filter(move |(_, d)| runs(d));
    all.flat_map(|(i, d)| {
        let more = cases::MORE.iter().filter(|m| m.0 == d.name).map(|m| &m.1);
        d.cases.iter().chain(more).filter(|c| !c.attrs.contains('@')).map(move |c| (Op(i as u16), *d, c))
    })
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
    match dtype.part() {
        DType::F32 => 3e-5,
        DType::F64 => 1e-11,
        _ => 0.0,
    }
}

/// Ops whose decompositions are loops, which have no calls of their own; the conformance suite unrolls them.
const LOOPS: [&str; 6] = [
    "selective_scan",
    "selective_scan_backward",
    "selective_scan_keep",
    "selective_scan_kept_backward",
    "gated_delta_net",
    "gated_delta_net_backward",
];

#[test]
fn kernels_are_their_decompositions() {
    for (op, def, case) in op_cases().filter(|r| r.1.decompose.is_some() && !LOOPS.contains(&r.1.name)) {
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
fn kernels_are_the_naive_loops() {
    let mut seen = 0;
    for (op, def, case) in op_cases() {
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

#[test]
fn more_cases_name_ops() {
    assert!(cases::MORE.iter().all(|m| OPS.iter().any(|d| d.name == m.0)));
}

#[test]
fn a_bad_index_is_a_fault_and_an_ignored_label_is_none() {
    let run = |labels: [f64; 3], also: Option<Op>| {
        let g = Builder::new("labels");
        let x = g.input("x", [3, 2], DType::F32);
        let l = g.input("l", [3], DType::I32);
        let graph = expanded(g.finish([x.cross_entropy_with(l, CrossEntropy::per_row())]).unwrap(), also);
        let x = machine::bytes(&[0.0, 1.0, f64::NAN, 2.0, 3.0, 1.0], DType::F32);
        let leaves = [("x".to_string(), x), ("l".to_string(), machine::bytes(&labels, DType::I32))].into();
        outputs(graph.view(), &leaves).map(|o| numbers(&o[0], DType::F32))
    };
    for also in [None, Some(Op::SOFTMAX_CROSS_ENTROPY)] {
        let loss = run([0.0, -100.0, 1.0], also).unwrap();
        close("losses", &loss, &[1f64.exp().ln_1p(), 0.0, 2f64.exp().ln_1p()], 1e-6);
        assert_eq!(run([0.0, -100.0, 2.0], also), Err(2));
        assert_eq!(run([0.0, -1.0, 1.0], also), Err(1));
    }
}

#[test]
fn the_key_counts_in_64_bits() {
    let g = Builder::new("key");
    let key = g.input("key", [4], DType::U32);
    let next = g.emit1(Op::RNG_NEXT, &[key], &[]);
    let graph = g.finish([next]).unwrap();
    let step = |key: [f64; 4]| {
        let leaves = [("key".to_string(), machine::bytes(&key, DType::U32))].into();
        numbers(&outputs(graph.view(), &leaves).unwrap()[0], DType::U32)
    };
    assert_eq!(step([7.0, 8.0, 1.0, 2.0]), [7.0, 8.0, 2.0, 2.0]);
    assert_eq!(step([7.0, 8.0, 4294967295.0, 2.0]), [7.0, 8.0, 0.0, 3.0]);
}

#[test]
fn losses_are_those_of_torch() {
    use crate::nodes::ops::loss::attrs::Reduction;
    let run = |labels: [f64; 3], opt: CrossEntropy| {
        let g = Builder::new("loss");
        let x = g.input("x", [3, 1, 3], DType::F64);
        let l = g.input("l", [3, 1], DType::I64);
        let graph = expanded(g.finish([x.cross_entropy_with(l, opt)]).unwrap(), None);
        let x = machine::bytes(&[1.0, 2.0, 3.0, 0.5, -0.5, 0.0, 1.0, 1.0, 1.0], DType::F64);
        let leaves = [("x".to_string(), x), ("l".to_string(), machine::bytes(&labels, DType::I64))].into();
        numbers(&outputs(graph.view(), &leaves).unwrap()[0], DType::F64)
    };
    // −ln softmax of the labels' classes, by hand: 0.40760596…, 1.68026…, ln 3.
    let nll = [0.407_605_964_444_380_1, 1.680_269_670_641_734_6, 3f64.ln()];
    let uniform = [1.407_605_964_444_380_1, 1.180_269_670_641_734_6, 3f64.ln()];
    let plain = CrossEntropy::default();
    close("mean", &run([2.0, 1.0, 0.0], plain), &[nll.iter().sum::<f64>() / 3.0], 1e-12);
    // The mean is over the labels that count.
    close("ignored", &run([2.0, -100.0, 0.0], plain), &[(nll[0] + nll[2]) / 2.0], 1e-12);
    assert!(run([-100.0; 3], plain)[0].is_nan());
    let smooth = CrossEntropy { label_smoothing: 0.1, reduction: Reduction::None, ..plain };
    let want: Vec<f64> = nll.iter().zip(uniform).map(|(a, b)| 0.9 * a + 0.1 * b).collect();
    close("smoothed", &run([2.0, 1.0, 0.0], smooth), &want, 1e-12);
    let zero = CrossEntropy { ignore_index: 0, reduction: Reduction::Sum, ..plain };
    close("sum", &run([2.0, 1.0, 0.0], zero), &[nll[0] + nll[1]], 1e-12);
}

#[test]
fn windows_that_do_not_fit_are_refused() {
    use crate::nodes::{Conv2d, Pool2d};
    let why = |f: &dyn Fn(crate::nodes::Var<'_>, crate::nodes::Var<'_>) -> crate::arena::Value| {
        let g = Builder::new("bad");
        let x = g.input("x", [1, 4, 5, 5], DType::F32);
        let w = g.input("w", [6, 2, 3, 3], DType::F32);
        let v = f(x, w);
        assert_eq!(v, crate::arena::Value::NONE);
        g.error().unwrap().message
    };
    let conv = |opt: Conv2d| why(&move |x, w| x.conv2d(w, opt).v);
    let two = Conv2d { groups: 2, ..Conv2d::default() };
    assert!(conv(Conv2d { groups: 3, ..two }).contains("3 groups do not divide 4 and 6 channels"));
    assert!(conv(Conv2d { groups: 0, ..two }).contains("groups is 0"));
    assert!(conv(Conv2d { groups: 1, ..two }).contains("w takes 2 channels a group, x has 4 in 1 groups"));
    assert!(conv(Conv2d { stride: [0, 1], ..two }).contains("stride 0"));
    assert!(conv(Conv2d { dilation: [1, 0], ..two }).contains("dilation 0"));
    assert!(conv(Conv2d { dilation: [3, 1], ..two }).contains("height 7 is above the padded input's 5"));
    let pool = |opt: Pool2d| why(&move |x, _| x.max_pool2d(opt).v);
    assert!(pool(Pool2d::new([6, 1])).contains("height 6 is above"));
    assert!(pool(Pool2d { pad: [2, 0, 0, 0], ..Pool2d::new([2, 2]) }).contains("padding 2 is above half"));
}

/// The code of NaN is that of 0.
#[test]
fn codes_of_a_learned_scale_are_cut_off_before_they_are_moved() {
    use crate::nodes::ops::quant::attrs::{LsqAttrs, LsqFactor};
    use crate::nodes::ops::quant::lsq::quantize_to_codes;
    let g = Builder::new("codes");
    let (x, s) = (g.input("x", [5], DType::F32), g.input("s", [], DType::F32));
    let a = LsqAttrs { axis: None, lo: -4, hi: 7, factor: LsqFactor::One };
    let codes = quantize_to_codes(x, s, &a, 2);
    assert_eq!(codes.dtype(), DType::I8);
    let graph = expanded(g.finish([codes.cast(DType::I32)]).unwrap(), None);
    let x = machine::bytes(&[f64::NAN, 0.6, 9.0, -9.0, 1.25], DType::F32);
    let leaves = [("x".to_string(), x), ("s".to_string(), machine::bytes(&[0.5], DType::F32))].into();
    // Codes 0, 1, 7, −4 and, of 2½ steps, 2; less 2.
    assert_eq!(numbers(&outputs(graph.view(), &leaves).unwrap()[0], DType::I32), [-2.0, -1.0, 5.0, -6.0, 0.0]);
}
