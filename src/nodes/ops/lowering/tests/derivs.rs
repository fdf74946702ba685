//! First derivatives of rows in `f64`: the forward rule against central differences, the reverse rule against the
//! forward one, ⟨Jv, w⟩ = ⟨v, Jᵀw⟩.

use super::cases::{self, draw};
use super::machine::{Leaves, bytes, expanded, numbers, outputs};
use super::{close, rows};
use crate::nodes::builder::{Builder, Var};
use crate::nodes::dtype::DType;
use crate::nodes::opdef::{Case, Deriv, Domain, Op, OpDef, Site};

const STEP: f64 = 1e-5;

fn total<'g>(terms: impl Iterator<Item = Var<'g>>) -> Option<Var<'g>> {
    terms.reduce(|a, b| a + b)
}

/// The tangent of result 0 by the row's fact; `None` where it has no rule of its own or a zero tangent.
fn jvp<'g>(def: &OpDef, s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Option<Var<'g>> {
    let zeros = |i: usize| s.args[i].full_like(0.0);
    match def.deriv {
        Deriv::Pointwise(p) => total((0..t.len()).filter_map(|i| Some(p(s, i)? * t[i]?))),
        Deriv::Linear(_) => {
            let args: Vec<_> = (0..t.len())
                .map(|i| t[i].unwrap_or_else(|| if s.args[i].dtype().is_float() { zeros(i) } else { s.args[i] }))
                .collect();
            s.again(&args).first().copied()
        }
        Deriv::Multilinear(_) => total((0..t.len()).filter_map(|i| {
            let mut args = s.args.to_vec();
            args[i] = t[i]?;
            s.again(&args).first().copied()
        })),
        Deriv::Rules(jvp, _) => jvp(s, t)[0],
        _ => None,
    }
}

/// The cotangents of the operands, given that of result 0.
fn vjp<'g>(def: &OpDef, s: &Site<'_, 'g>, w: Var<'g>) -> Vec<Option<Var<'g>>> {
    let all = 0..s.args.len();
    match def.deriv {
        Deriv::Pointwise(p) => all.map(|i| Some(p(s, i)? * w)).collect(),
        Deriv::Linear(f) | Deriv::Multilinear(f) => all.map(|i| f(s, i, w)).collect(),
        Deriv::Rules(_, vjp) => {
            let mut ct = vec![None; s.outs.len()];
            ct[0] = Some(w);
            vjp(s, &ct, &vec![true; s.args.len()])
        }
        _ => vec![None; s.args.len()],
    }
}

/// Runs a case with tangents `t` and cotangent `w`: result 0, its tangent, and the operands' cotangents.
fn run(op: Op, def: &OpDef, case: &Case, leaves: &Leaves) -> Option<Vec<Vec<f64>>> {
    let g = Builder::new("deriv");
    let args = cases::inputs(&g, case, DType::F64);
    let outs = cases::node(&g, op, def, case, &args);
    let tangent = |(i, a): (usize, &Var<'_>)| a.dtype().is_float().then_some((i, a.dims(), a.dtype()));
    let t: Vec<_> = args.iter().enumerate().map(tangent).collect();
    let t: Vec<_> = t.into_iter().map(|t| t.map(|(i, d, ty)| g.input(&format!("t{i}"), d, ty))).collect();
    let owned = cases::attrs(&g, def, case);
    let mut words = Vec::new();
    owned.iter().zip(def.attrs).for_each(|(a, f)| a.borrow().encode(f.kind, &mut words).unwrap());
    let attrs = crate::nodes::Attrs { fields: def.attrs, words: &words };
    let site = Site { g: &g, op, attrs, args: &args, outs: &outs };
    let dy = jvp(def, &site, &t)?;
    let w = g.input("w", outs[0].dims(), outs[0].dtype());
    g.output("y", outs[0]);
    g.output("dy", dy);
    for (i, dx) in vjp(def, &site, w).into_iter().enumerate() {
        if let (Some(_), Some(dx)) = (t[i], dx) {
            assert_eq!((dx.dtype(), dx.dims()), (args[i].dtype(), args[i].dims()), "{} {i}", def.name);
            g.output(&format!("dx{i}"), dx);
        }
    }
    let graph = expanded(g.finish([]).unwrap_or_else(|e| panic!("{}: {e}", def.name)), None);
    let v = graph.view();
    let outs = outputs(v, leaves).unwrap();
    Some(v.outputs().iter().zip(outs).map(|(o, b)| numbers(&b, v.dtype[o.0 as usize])).collect())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn rules_agree_with_differences_and_each_other() {
    let mut seen = 0;
    for (op, def, case) in rows() {
        let types = cases::types(case, DType::F64);
        let Some(y) = super::graph_result_type(op, def, case) else { continue };
        if y.0 != DType::F64 || !types.iter().any(|t| t.0 == DType::F64) {
            continue;
        }
        let what = format!("{} {} {}", def.name, case.args, case.attrs);
        let x: Vec<Vec<f64>> = (0..types.len()).map(|i| cases::data(case, i, types[i].1.iter().product())).collect();
        let v: Vec<Vec<f64>> = x.iter().enumerate().map(|(i, x)| draw(Domain::Unit, x.len(), 90 + i as u64)).collect();
        let w = draw(Domain::Unit, y.1, 77);
        let at = |h: f64| -> Leaves {
            let mut all: Leaves = [("w".to_string(), bytes(&w, DType::F64))].into();
            for (i, (dtype, _)) in types.iter().enumerate() {
                let float = *dtype == DType::F64;
                let moved: Vec<f64> = x[i].iter().zip(&v[i]).map(|(x, v)| if float { x + h * v } else { *x }).collect();
                all.insert(format!("x{i}"), bytes(&moved, *dtype));
                all.insert(format!("t{i}"), bytes(&v[i], DType::F64));
            }
            all
        };
        let Some(here) = run(op, def, case, &at(0.0)) else { continue };
        let (Some(up), Some(down)) = (run(op, def, case, &at(STEP)), run(op, def, case, &at(-STEP))) else { continue };
        let slope: Vec<f64> = up[0].iter().zip(&down[0]).map(|(a, b)| (a - b) / (2.0 * STEP)).collect();
        close(&what, &here[1], &slope, 1e-6);
        let floats = (0..types.len()).filter(|&i| types[i].0 == DType::F64);
        let back: f64 = floats.zip(&here[2..]).map(|(i, dx)| dot(dx, &v[i])).sum();
        close(&what, &[back], &[dot(&here[1], &w)], 1e-9);
        seen += 1;
    }
    assert!(seen > 60, "only {seen} rules were checked");
}
