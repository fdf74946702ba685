//! Einstein sums: random equations against loops over all indices in f64, derivatives against differences, errors.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::slopes::derivatives_agree;
use crate::common::{PLAIN, Tensor, TensorDraws, conform_distance, run};
use arenagrad::graph::{Builder, DType, GraphBuf, Var};
use arenagrad::tools::arena::Value;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::opdef::{Domain, Op};

const F64: DType = DType::F64;

fn graph(equation: &str, operands: &[Tensor]) -> GraphBuf {
    let g = Builder::new("einsum");
    let xs: Vec<Var> = operands.iter().enumerate().map(|(i, t)| g.input(&format!("x{i}"), &t.dims, t.dtype)).collect();
    let y = g.einsum(equation, &xs);
    g.finish([y.named("y")]).unwrap_or_else(|e| panic!("{e}"))
}

/// The sum by its definition. A letter of `operands` and `out` names an axis of this size.
fn by_loops(operands: &[(Vec<char>, Tensor)], out: &[char], size: impl Fn(char) -> usize) -> Tensor {
    let mut letters: Vec<char> = out.to_vec();
    for (subscript, _) in operands {
        subscript.iter().for_each(|c| {
            if !letters.contains(c) {
                letters.push(*c)
            }
        });
    }
    let dims: Vec<usize> = out.iter().map(|&c| size(c)).collect();
    let mut y = vec![0.0; dims.iter().product()];
    let total: usize = letters.iter().map(|&c| size(c)).product();
    for mut n in 0..total {
        let mut at = std::collections::HashMap::new();
        for &c in letters.iter().rev() {
            at.insert(c, n % size(c));
            n /= size(c);
        }
        let place = |list: &[char], dims: &[usize]| list.iter().zip(dims).fold(0, |i, (c, d)| i * d + at[c].min(d - 1));
        let product: f64 = operands.iter().map(|(s, t)| t.data[place(s, &t.dims)]).product();
        y[place(out, &dims)] += product;
    }
    Tensor { dtype: F64, dims, data: y }
}

/// The length of a letter: an axis of `...` is as long as its longest.
fn longest(operands: &[(Vec<char>, Tensor)], letter: char) -> usize {
    let found = operands.iter().flat_map(|(all, t)| all.iter().zip(&t.dims)).filter(|(k, _)| **k == letter);
    found.map(|(_, &d)| d).max().unwrap_or(1)
}

/// One random equation: letters with sizes, operands with repeated letters and `...`, an output or none.
fn random_equation(draw: &mut TensorDraws) -> (String, Vec<(Vec<char>, Tensor)>, Vec<char>, Vec<usize>) {
    let mut below = |n: usize| (draw.bits() % n as u64) as usize;
    let sizes: Vec<usize> = (0..8).map(|_| 1 + below(4)).collect();
    // Letters a to e; f, g are the axes that `...` stands for.
    let size = |c: char| sizes[c as usize - 'a' as usize];
    let (count, dots) = (1 + below(4), below(3));
    let mut parts = Vec::new();
    let mut operands = Vec::new();
    for _ in 0..count {
        let letters: Vec<char> = (0..below(4)).map(|_| (b'a' + below(5) as u8) as char).collect();
        let cut = below(letters.len() + 1);
        let spread = if dots > 0 && below(2) == 0 { below(dots + 1) } else { 0 };
        let with_dots = spread > 0 || below(4) == 0;
        let axes: Vec<char> = ['f', 'g'][2 - spread..].to_vec();
        let all: Vec<char> = [&letters[..cut], &axes, &letters[cut..]].concat();
        let one = below(4) == 0;
        let dims: Vec<usize> = all.iter().map(|&c| if one && c >= 'f' { 1 } else { size(c) }).collect();
        let middle = if with_dots { "..." } else { "" };
        let text = |l: &[char]| l.iter().collect::<String>();
        parts.push(format!("{}{middle}{}", text(&letters[..cut]), text(&letters[cut..])));
        operands.push((all, dims));
    }
    let used = |c: char| operands.iter().any(|(all, _)| all.contains(&c));
    let lead: Vec<char> = ['f', 'g'].into_iter().filter(|&c| used(c)).collect();
    let mut out: Vec<char>;
    let mut equation = parts.join(if below(2) == 0 { "," } else { " , " });
    if below(3) == 0 {
        let times = |c: char| operands.iter().flat_map(|(all, _)| all).filter(|&&k| k == c).count();
        out = ('a'..='e').filter(|&c| times(c) == 1).collect();
        out.splice(0..0, lead);
    } else {
        let mut letters: Vec<char> = ('a'..='e').filter(|&c| used(c)).collect();
        for i in (1..letters.len()).rev() {
            letters.swap(i, below(i + 1));
        }
        letters.truncate(below(letters.len() + 1));
        let cut = below(letters.len() + 1);
        out = [&letters[..cut], &lead, &letters[cut..]].concat();
        let middle = if lead.is_empty() { "" } else { "..." };
        let text = |l: &[char]| l.iter().collect::<String>();
        equation += &format!("->{}{middle}{}", text(&letters[..cut]), text(&letters[cut..]));
    }
    let tensors = operands.into_iter().map(|(all, dims)| (all, draw.tensor(F64, &dims, Domain::Real)));
    let operands: Vec<(Vec<char>, Tensor)> = tensors.collect();
    let sizes = ('a'..='g').map(|c| longest(&operands, c)).collect();
    (equation, operands, out, sizes)
}

#[test]
fn random_equations_are_sums_over_all_indices() {
    let mut draw = TensorDraws(2026);
    for round in 0..400 {
        let (equation, operands, out, sizes) = random_equation(&mut draw);
        let want = by_loops(&operands, &out, |c| sizes[c as usize - 'a' as usize]);
        let inputs: Vec<Tensor> = operands.into_iter().map(|o| o.1).collect();
        let f = graph(&equation, &inputs);
        let got = run(&f, &inputs, PLAIN).remove(0);
        let shapes: Vec<&Vec<usize>> = inputs.iter().map(|t| &t.dims).collect();
        assert_eq!(got.dims, want.dims, "{equation} {shapes:?}");
        let far = conform_distance(&got.data, &want.data);
        assert!(far < 1e-12, "{equation} {shapes:?}: {far:e}");
        if round % 8 == 0 {
            derivatives_agree(&f, &inputs);
        }
    }
}

fn count(f: &GraphBuf, op: Op) -> usize {
    f.view().op.iter().filter(|o| **o == op).count()
}

#[test]
fn pairs_are_products_in_a_greedy_order() {
    let t = |dims: &[usize]| TensorDraws(1).tensor(F64, dims, Domain::Real);
    // ab·bc shrinks by 2020 elements, bc·cd by 1970.
    let f = graph("ab,bc,cd->ad", &[t(&[2, 50]), t(&[50, 40]), t(&[40, 3])]);
    assert_eq!(count(&f, Op::DOT_GENERAL), 2);
    let v = f.view();
    let products = v.def.iter().enumerate().filter(|(_, n)| v.op[n.at()] == Op::DOT_GENERAL);
    let shapes: Vec<_> = products.map(|(i, _)| v.dims(Value(i as u32)).to_vec()).collect();
    assert_eq!(shapes, [vec![2, 40], vec![2, 3]]);
    let plain = graph("ij,jk", &[t(&[2, 3]), t(&[3, 4])]);
    assert_eq!((count(&plain, Op::DOT_GENERAL), plain.view().nodes()), (1, 3));
    // No sum, no product of matrices.
    assert_eq!(count(&graph("ij,ij->ij", &[t(&[2, 3]), t(&[2, 3])]), Op::DOT_GENERAL), 0);
    assert_eq!(count(&graph("bij,bjk->bik", &[t(&[5, 2, 3]), t(&[5, 3, 4])]), Op::DOT_GENERAL), 1);
}

/// The products of an Einstein sum of operands of these shapes: those with a sum, and those without, in order.
fn products(equation: &str, dims: &[&[usize]]) -> Vec<(Op, Vec<usize>)> {
    let operands: Vec<Tensor> = dims.iter().map(|d| TensorDraws(1).tensor(F64, d, Domain::Real)).collect();
    let f = graph(equation, &operands);
    let v = f.view();
    let of_both = v.def.iter().enumerate().filter(|(_, n)| [Op::DOT_GENERAL, Op::MUL].contains(&v.op[n.at()]));
    of_both.map(|(i, n)| (v.op[n.at()], v.dims(Value(i as u32)).to_vec())).collect()
}

#[test]
fn the_pair_that_saves_most_is_multiplied_first() {
    let (dot, mul) = (Op::DOT_GENERAL, Op::MUL);
    // bc·cd leaves 2020 elements fewer, ab·bc 1970.
    let last = products("ab,bc,cd->ad", &[&[3, 40], &[40, 50], &[50, 2]]);
    assert_eq!(last, [(dot, vec![40, 2]), (dot, vec![3, 2])]);
    // ab·bc leaves 100 elements fewer, though it has 1000 products; d·e leaves 15 more.
    let first = products("ab,bc,d,e->acde", &[&[10, 10], &[10, 10], &[5], &[5]]);
    assert_eq!(first, [(dot, vec![10, 10]), (mul, vec![5, 5]), (mul, vec![10, 10, 5, 5])]);
    // Both pairs leave 25 elements fewer, and have 50 products.
    let tie = products("ab,bc,cd->ad", &[&[2, 5], &[5, 5], &[5, 2]]);
    assert_eq!(tie, [(dot, vec![2, 5]), (dot, vec![2, 2])]);
}

#[test]
fn integers_and_empty_axes() {
    let ints = |dims: &[usize], data: &[f64]| Tensor { dtype: DType::I64, dims: dims.to_vec(), data: data.to_vec() };
    let inputs = [ints(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), ints(&[2], &[5.0, -1.0])];
    assert_eq!(run(&graph("ij,j->i", &inputs), &inputs, PLAIN)[0].data, [3.0, 11.0]);
    // A product of matrices, not a tensor of 10⁹ elements that is summed.
    let large = Tensor { dtype: DType::I64, dims: vec![1000, 1000], data: vec![1.0; 1_000_000] };
    let f = graph("ij,jk->ik", &[large.clone(), large]);
    assert_eq!((count(&f, Op::DOT_GENERAL), count(&f, Op::REDUCE_SUM)), (1, 0), "{f:?}");
    let none = |dims: &[usize]| Tensor { dtype: F64, dims: dims.to_vec(), data: vec![] };
    let inputs = [none(&[2, 0]), none(&[0, 3])];
    assert_eq!(run(&graph("ij,jk", &inputs), &inputs, PLAIN)[0].data, [0.0; 6]);
}

#[test]
fn what_does_not_fit_is_named() {
    for (equation, dims, parts) in [
        ("ij,jk", &[&[2, 3][..], &[4, 5]][..], ["letter j", "3 in operand 0", "4 in operand 1"]),
        ("ii", &[&[2, 3]], ["letter i", "2 in operand 0", "3 in operand 0"]),
        ("ij,jk", &[&[2, 1], &[4, 5]], ["letter j", "1 in operand 0", "4 in operand 1"]),
        ("...i,...i", &[&[2, 3], &[4, 3]], ["axis -1 of `...`", "2 in operand 0", "4 in operand 1"]),
        ("ij", &[&[2, 3], &[2]], ["1 subscripts", "2 operands", "einsum(\"ij\")"]),
        ("ijk", &[&[2, 3]], ["operand 0", "rank 2", "3 letters"]),
        ("ijk...", &[&[2, 3]], ["operand 0", "rank 2", "3 letters"]),
        ("ij->ik", &[&[2, 3]], ["letter k", "of the output", "in no operand"]),
        ("ij->ii", &[&[2, 3]], ["letter i", "twice", "output"]),
        ("...j->j", &[&[2, 3]], ["`...`", "1 axes", "output has none"]),
        ("i1", &[&[2, 3]], ["'1'", "\"i1\"", "no letter"]),
        ("......i", &[&[2, 3]], ["'.'", "\"......i\"", "at most once"]),
        ("ij->i->j", &[&[2, 3]], ["'-'", "\"i->j\"", "no letter"]),
        ("", &[], ["1 subscripts", "0 operands", "einsum(\"\")"]),
    ] {
        let g = Builder::new("bad");
        let xs: Vec<Var> = dims.iter().enumerate().map(|(i, d)| g.input(&format!("x{i}"), d, F64)).collect();
        let y = g.einsum(equation, &xs);
        let e = g.finish([y]).unwrap_err().to_string();
        assert!(parts.iter().all(|p| e.contains(p)) && e.contains("tests/ops/einsum.rs"), "{e} {parts:?}");
    }
}

#[test]
fn operands_have_one_type() {
    let g = Builder::new("mixed");
    let y = g.einsum("ij,jk", &[g.input("a", [2, 3], F64), g.input("b", [3, 4], DType::F32)]);
    let e = g.finish([y]).unwrap_err().to_string();
    assert!(e.contains("einsum(\"ij,jk\"): operand 0 is f64 and operand 1 f32; cast one"), "{e}");
}

/// What failed is an error of the builder, wherever it stands in the equation.
#[test]
fn sums_of_truths_are_refused() {
    for equation in ["ij->i", "ij->ij", "ij,i->i", "i,ij->ij", "i,ij,k->ik"] {
        let g = Builder::new("truths");
        let truths = |subscript: &str| g.input(subscript, &[2, 3][..subscript.len()], DType::Bool);
        let inputs = equation.split_once("->").unwrap().0;
        let z = g.einsum(equation, &inputs.split(',').map(truths).collect::<Vec<_>>());
        let done = g.finish([z]);
        if equation == "ij->ij" {
            assert!(done.is_ok(), "{done:?}");
            continue;
        }
        let e = done.unwrap_err().to_string();
        assert!(e.contains("bool") && e.contains("tests/ops/einsum.rs"), "{equation}: {e}");
    }
}
