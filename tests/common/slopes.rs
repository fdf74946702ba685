//! Derivatives of any graph against differences: what the conformance suite asks of ops, for methods that are none.

use super::{PLAIN, Tensor, TensorDraws, run};
use arenagrad::graph::{DType, GraphBuf, Missing, jvp, vjp};
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::differences::slope;
use arenagrad::tools::ir::opdef::Domain;

/// Names of the f64 inputs and of the f64 outputs.
fn floats(g: &GraphBuf) -> (Vec<String>, Vec<String>) {
    let v = g.view();
    let is = |dtype: DType| dtype == DType::F64;
    let wrt = v.leaves().filter(|l| is(v.dtype[l.value.at()])).map(|l| l.name.to_string()).collect();
    let names = v.outputs().iter().zip(v.output_names).filter(|(o, _)| is(v.dtype[o.at()]));
    (wrt, names.map(|(_, &n)| v.str(n).to_string()).collect())
}

/// The operands, and numbers for what a transform added.
fn extended(g: &GraphBuf, operands: &[Tensor], draw: &mut TensorDraws) -> Vec<Tensor> {
    let v = g.view();
    let added = v.leaves().skip(operands.len());
    let more: Vec<Tensor> = added.map(|l| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Real)).collect();
    [operands, &more].concat()
}

fn strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn outputs(g: &GraphBuf, inputs: &[Tensor], names: &[String]) -> Vec<Tensor> {
    let (v, all) = (g.view(), run(g, inputs, PLAIN));
    let at = |n: &String| v.output_names.iter().position(|&s| v.str(s) == n).unwrap_or_else(|| panic!("no output {n}"));
    names.iter().map(|n| all[at(n)].clone()).collect()
}

/// `operands` with `h` times the next of `directions` added to each f64 tensor.
fn moved(operands: &[Tensor], directions: &[Tensor], h: f64) -> Vec<Tensor> {
    let mut next = directions.iter();
    let step = |t: &Tensor| match t.dtype {
        DType::F64 => {
            let d = next.next().map_or(&[][..], |d| &d.data);
            Tensor { data: t.data.iter().zip(d).map(|(x, d)| x + h * d).collect(), ..t.clone() }
        }
        _ => t.clone(),
    };
    operands.iter().map(step).collect()
}

fn dot(a: &[Tensor], b: &[Tensor]) -> f64 {
    a.iter().flat_map(|t| &t.data).zip(b.iter().flat_map(|t| &t.data)).map(|(x, y)| x * y).sum()
}

fn near(what: &str, got: f64, want: f64, tolerance: f64, g: &GraphBuf) {
    let far = (got - want).abs() / want.abs().max(1.0);
    // Written so that a NaN fails.
    assert!(far <= tolerance, "{what}: {got}, but {want} is expected\n{g:?}");
}

/// Checks the reverse mode, the forward mode and the second derivatives of all f64 outputs in all f64 inputs against
/// differences, along random directions. The operands must not lie near a kink.
pub fn derivatives_agree(g: &GraphBuf, operands: &[Tensor]) {
    let (wrt, outs) = floats(g);
    assert!(!wrt.is_empty() && !outs.is_empty(), "nothing to differentiate\n{g:?}");
    let grads: Vec<String> = wrt.iter().map(|w| format!("grad.{w}")).collect();
    let back = vjp(g, &strs(&outs), &strs(&wrt), Missing::Zero).unwrap_or_else(|e| panic!("{e}\n{g:?}"));
    let second = jvp(&back, &strs(&grads), &strs(&wrt)).unwrap_or_else(|e| panic!("{e}\n{g:?}"));
    let tangents: Vec<String> = grads.iter().map(|w| format!("tangent.{w}")).collect();
    for seed in 1..=2 {
        let inputs = extended(&second, operands, &mut TensorDraws(seed));
        let (first, directions) = inputs.split_at(inputs.len() - wrt.len());
        let seeds = &first[operands.len()..];
        let value = |at: &[Tensor]| dot(&outputs(g, at, &outs), seeds);
        let gradient = outputs(&back, first, &grads);
        near("gradient", dot(&gradient, directions), slope(1e-4, |h| value(&moved(operands, directions, h))), 1e-7, g);
        let forward = jvp(g, &strs(&outs), &strs(&wrt)).unwrap_or_else(|e| panic!("{e}\n{g:?}"));
        let names: Vec<String> = outs.iter().map(|o| format!("tangent.{o}")).collect();
        let pushed = outputs(&forward, &[operands, directions].concat(), &names);
        near("forward mode", dot(&pushed, seeds), dot(&gradient, directions), 1e-9, g);
        let bent = outputs(&second, &inputs, &tangents);
        let weights = extended(&second, operands, &mut TensorDraws(seed + 50)).split_off(inputs.len() - wrt.len());
        let slanted = |at: &[Tensor]| dot(&outputs(&back, &[at, seeds].concat(), &grads), &weights);
        near(
            "second derivative",
            dot(&bent, &weights),
            slope(1e-4, |h| slanted(&moved(operands, directions, h))),
            1e-6,
            g,
        );
    }
}
