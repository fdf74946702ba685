//! The gated delta rule and the scan of Mamba2: known values, the same loops as scans, memory, derivatives, wrong use.

use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run, same_conform_bits};
use arenagrad::graph::recurrent::Ssd;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Missing, Var, grad, vjp};
use arenagrad::session::Session;
use arenagrad::tools::ir::opdef::Domain;

const F64: DType = DType::F64;

/// Names, shapes and domains of operands.
type Operands = Vec<(&'static str, Vec<usize>, Domain)>;

fn draw(operands: &Operands, dtype: DType) -> Vec<Tensor> {
    let mut draw = TensorDraws(5);
    operands.iter().map(|(_, dims, domain)| draw.tensor(dtype, dims, *domain)).collect()
}

/// The operands of a rule: q, k, v, g, β and the state.
fn delta_operands([batch, steps, heads, keys, values]: [usize; 5]) -> Operands {
    vec![
        ("q", vec![batch, steps, heads, keys], Domain::Unit),
        ("k", vec![batch, steps, heads, keys], Domain::Unit),
        ("v", vec![batch, steps, heads, values], Domain::Unit),
        ("g", vec![batch, steps, heads], Domain::Unit),
        ("beta", vec![batch, steps, heads], Domain::Chance),
        ("state", vec![batch, heads, keys, values], Domain::Unit),
    ]
}

fn fused_delta<'g>(x: &[Var<'g>]) -> [Var<'g>; 2] {
    x[0].gated_delta_net(x[1], x[2], x[3], x[4], Some(x[5]))
}

/// The operands of a Mamba2 scan: x, Δ, A, B, C, D and the state.
fn ssd_operands([batch, steps, heads, width, groups, states]: [usize; 6]) -> Operands {
    vec![
        ("x", vec![batch, steps, heads, width], Domain::Unit),
        ("delta", vec![batch, steps, heads], Domain::Chance),
        ("a", vec![heads], Domain::Unit),
        ("b", vec![batch, steps, groups, states], Domain::Unit),
        ("c", vec![batch, steps, groups, states], Domain::Unit),
        ("d", vec![heads], Domain::Unit),
        ("h0", vec![batch, heads, width, states], Domain::Unit),
    ]
}

/// In chunks of four steps.
fn chunked_ssd<'g>(x: &[Var<'g>]) -> [Var<'g>; 2] {
    x[0].ssd(x[1], x[2], x[3], x[4], Ssd::default().chunk(4).d(x[5]).h0(x[6]))
}

/// The same loop, one step after another.
fn looped_ssd<'g>(x: &[Var<'g>]) -> [Var<'g>; 2] {
    let each = x[0].dims()[2] / x[3].dims()[2].max(1);
    let of_heads = |x: Var<'g>| x.repeat_interleave(each, 2);
    let rows = [x[0], x[1], of_heads(x[3]), of_heads(x[4])].map(|x| x.movedim(&[1], &[0]));
    let (h, y) = x[0].builder().scan(&[x[6]], &rows, |h, row| {
        let decay = (row[1] * x[2]).exp().unsqueeze(2).unsqueeze(3);
        let inflow = (row[0] * row[1].unsqueeze(2)).unsqueeze(3) * row[2].unsqueeze(2);
        let next = decay * h[0] + inflow;
        (vec![next], vec![(next * row[3].unsqueeze(2)).sum(3)])
    });
    [y[0].movedim(&[0], &[1]) + x[0] * x[5].unsqueeze(1), h[0]]
}

type Form = for<'g> fn(&[Var<'g>]) -> [Var<'g>; 2];

fn graph(operands: &Operands, dtype: DType, f: Form) -> GraphBuf {
    let g = Builder::new("recurrent");
    let x: Vec<Var> = operands.iter().map(|(name, dims, _)| g.input(name, dims, dtype)).collect();
    let [y, last] = f(&x);
    let loss = (y * y * 0.5 + y).sum(..) + (last * last * last).sum(..);
    g.finish([loss.named("loss"), y.named("y"), last.named("last")]).unwrap()
}

fn gradient(operands: &Operands, dtype: DType, f: Form) -> GraphBuf {
    let names: Vec<&str> = operands.iter().map(|o| o.0).collect();
    grad(&graph(operands, dtype, f), "loss", &GradOptions::wrt(&names)).unwrap()
}

/// Results and gradients of both forms agree.
fn forms_agree(operands: &Operands, forms: [Form; 2], tolerances: [f64; 2]) {
    for (dtype, tolerance) in [F64, DType::F32].into_iter().zip(tolerances) {
        let [ours, theirs] = forms.map(|f| run(&gradient(operands, dtype, f), &draw(operands, dtype), PLAIN));
        assert_eq!(ours.len(), 3 + operands.len());
        for (i, (a, b)) in ours.iter().zip(&theirs).enumerate() {
            let far = conform_distance(&a.data, &b.data);
            assert!(a.dims == b.dims && far <= tolerance, "{:?} {dtype}, output {i}: {far:e}", operands[0].1);
        }
    }
}

fn near(what: &str, ours: &[f64], theirs: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (a, b) in ours.iter().zip(theirs) {
        // Written so that a NaN fails.
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}: {ours:?}, not {theirs:?}");
    }
}

/// One head, two steps, computed by hand and by differences.
#[test]
fn known_values_and_gradients_of_the_delta_rule() {
    let g = Builder::new("known");
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [1, 2, 1, 2], F64));
    let [gate, beta] = ["g", "beta"].map(|name| g.input(name, [1, 2, 1], F64));
    let [o, last] = q.gated_delta_net(k, v, gate, beta, None);
    let graph = g.finish([o.named("o"), last.named("last")]).unwrap();
    let names = ["q", "k", "v", "g", "beta"];
    let mut p = Session::new().compile(&vjp(&graph, &["o"], &names, Missing::Zero).unwrap()).unwrap();
    let given: [(&str, &[f64]); 6] = [
        ("q", &[1.0, 0.0, 0.5, 0.5]),
        ("k", &[0.6, 0.8, 1.0, 0.0]),
        ("v", &[1.0, 2.0, -1.0, 0.5]),
        ("g", &[0.0, -0.5]),
        ("beta", &[0.5, 1.0]),
        ("cotangent.o", &[1.0, -1.0, 0.5, 2.0]),
    ];
    given.iter().for_each(|(name, x)| p.values_mut::<f64>(name).unwrap().copy_from_slice(x));
    p.step().unwrap();
    let want: [(&str, &[f64]); 7] = [
        ("o", &[0.212132, 0.4242641, -0.267777, 0.3483295]),
        ("last", &[-1.0, 0.5, 0.2426123, 0.4852245]),
        ("grad.q", &[-0.212132, -0.2828427, 0.3535534, 0.7719875]),
        ("grad.k", &[-0.3535534, 0.4824922, -0.4022139, -0.4987124]),
        ("grad.v", &[0.2550202, -0.0405793, 0.1767767, std::f64::consts::FRAC_1_SQRT_2]),
        ("grad.g", &[0.0, 0.3859937]),
        ("grad.beta", &[0.3477234, -0.1127186]),
    ];
    want.iter().for_each(|(name, want)| near(name, p.values(name).unwrap(), want, 1e-6));
}

/// Units of members and of heads, states that are not square, no step, one step, stretches of unequal length.
const SHAPES: [[usize; 5]; 5] =
    [[1, 0, 2, 2, 3], [2, 1, 1, 3, 2], [3, 17, 2, 4, 3], [1, 40, 5, 3, 20], [1, 1024, 1, 2, 2]];

#[test]
fn bits_of_the_delta_rule_are_the_same_for_any_number_of_threads() {
    for shape in &SHAPES[2..4] {
        let (operands, dtype) = (delta_operands(*shape), DType::F32);
        let (step, x) = (gradient(&operands, dtype, fused_delta), draw(&operands, dtype));
        let one = run(&step, &x, PLAIN);
        for threads in [2, 3, 7] {
            let many = run(&step, &x, How { threads, share: true, ..PLAIN });
            assert!(one.iter().zip(&many).all(|(a, b)| same_conform_bits(a, b)), "{shape:?}, {threads} threads");
        }
    }
}

#[test]
fn memory_of_the_delta_rule_grows_with_the_root_of_the_steps() {
    let bytes = |steps: usize| {
        let step = gradient(&delta_operands([1, steps, 1, 8, 8]), F64, fused_delta);
        // q, k, v, o and their gradients, g and β and theirs.
        Session::new().compile(&step).unwrap().plan().arena_bytes - steps * 8 * (8 * 8 + 4)
    };
    let [short, long] = [1024, 4096].map(bytes);
    assert!(long < short * 5 / 2, "{short} and {long} bytes");
}

/// A run in two parts, the second from the last state of the first, is the whole run, gradients too.
#[test]
fn two_halves_are_one_run() {
    fn part<'g>(x: &[Var<'g>], from: usize, len: usize, state: Var<'g>) -> [Var<'g>; 2] {
        let x = [0, 1, 2, 3, 4].map(|i| x[i].narrow(1, from, len));
        x[0].gated_delta_net(x[1], x[2], x[3], x[4], Some(state))
    }
    let halves: Form = |x| {
        let [first, state] = part(x, 0, 4, x[5]);
        let [second, last] = part(x, 4, 5, state);
        [first.concat(&[second], 1), last]
    };
    forms_agree(&delta_operands([2, 9, 2, 3, 2]), [halves, fused_delta], [1e-13, 1e-5]);
}

#[test]
fn a_gate_of_minus_infinity_forgets_and_a_beta_of_zero_leaves_the_state() {
    let operands = delta_operands([1, 3, 1, 2, 2]);
    let (step, mut x) = (gradient(&operands, F64, fused_delta), draw(&operands, F64));
    x[3].data = vec![0.0; 3];
    x[4].data = vec![0.0; 3];
    let outs = run(&step, &x, PLAIN);
    assert_eq!(outs[2].data, x[5].data);
    x[3].data[2] = f64::NEG_INFINITY;
    let outs = run(&step, &x, PLAIN);
    assert_eq!(outs[2].data, [0.0; 4]);
    assert!(outs.iter().all(|t| t.data.iter().all(|x| x.is_finite())), "{outs:?}");
    // Nothing before the last step has a part in the last state.
    x[4].data[2] = 1.0;
    let outs = run(&step, &x, PLAIN);
    let want: Vec<f64> = (0..4).map(|e| x[1].data[4 + e / 2] * x[2].data[4 + e % 2]).collect();
    near("last", &outs[2].data, &want, 1e-15);
}

/// Chunks that divide the steps and that do not, one chunk, one step, no step, groups of several heads.
#[test]
fn chunks_of_mamba2_are_a_scan() {
    for shape in [[2, 8, 2, 3, 1, 2], [1, 11, 4, 2, 2, 3], [2, 3, 1, 1, 1, 1], [1, 1, 2, 2, 2, 2], [1, 0, 2, 2, 1, 2]] {
        forms_agree(&ssd_operands(shape), [chunked_ssd, looped_ssd], [1e-12, 1e-4]);
    }
    let plain: [Form; 2] = [
        |x| x[0].ssd(x[1], -x[2].abs(), x[3], x[4], Ssd::default()),
        |x| looped_ssd(&[x[0], x[1], -x[2].abs(), x[3], x[4], x[5] * 0.0, x[6] * 0.0]),
    ];
    let operands = ssd_operands([1, 130, 2, 2, 1, 2]);
    let [ours, theirs] = plain.map(|f| run(&graph(&operands, F64, f), &draw(&operands, F64), PLAIN));
    assert!(ours.iter().zip(&theirs).all(|(a, b)| conform_distance(&a.data, &b.data) < 1e-12));
}

/// e^(10⁴·Δ) would overflow: a step is not weighed by later ones.
#[test]
fn a_decay_that_forgets_all_leaves_no_nan() {
    fn steep<'g>(x: &[Var<'g>]) -> [Var<'g>; 7] {
        [x[0], x[1] * 0.5 + 0.25, x[2] - 1e4, x[3], x[4], x[5], x[6]]
    }
    let operands = ssd_operands([1, 6, 2, 2, 1, 2]);
    forms_agree(&operands, [|x| chunked_ssd(&steep(x)), |x| looped_ssd(&steep(x))], [1e-12, 1e-4]);
    let outs = run(&gradient(&operands, F64, |x| chunked_ssd(&steep(x))), &draw(&operands, F64), PLAIN);
    assert!(outs.iter().all(|t| t.data.iter().all(|x| x.is_finite())), "{outs:?}");
}

#[test]
fn wrong_use_names_the_op_and_the_shapes() {
    let refused = |operands: Operands, f: Form, change: (usize, &[usize]), parts: &[&str]| {
        let g = Builder::new("wrong");
        let mut all = operands;
        all[change.0].1 = change.1.to_vec();
        let x: Vec<Var> = all.iter().map(|(name, dims, _)| g.input(name, dims, F64)).collect();
        let [y, last] = f(&x);
        let text = g.finish([y, last]).unwrap_err().to_string();
        assert!(parts.iter().all(|p| text.contains(p)) && text.contains(file!()), "{parts:?}: {text}");
    };
    let delta = |change: (usize, &[usize]), parts: &[&str]| {
        refused(delta_operands([2, 4, 2, 3, 5]), fused_delta, change, &[&["gated_delta_net("], parts].concat());
    };
    delta((0, &[2, 4, 3]), &["q has shape [2,4,3]", "rank 4"]);
    delta((1, &[2, 4, 2, 5]), &["k has shape [2,4,2,5], not [2,4,2,3]"]);
    delta((2, &[2, 3, 2, 5]), &["v has shape [2,3,2,5], not [2,4,2,5]"]);
    delta((3, &[2, 4, 3]), &["g has shape [2,4,3], not [2,4,2]"]);
    delta((4, &[2, 4]), &["beta has shape [2,4], not [2,4,2]"]);
    delta((5, &[2, 2, 5, 3]), &["state has shape [2,2,5,3], not [2,2,3,5]"]);
    delta((2, &[2, 4, 2, 0]), &["must not be empty"]);
    let ssd = |change: (usize, &[usize]), parts: &[&str]| {
        refused(ssd_operands([1, 4, 4, 2, 2, 3]), chunked_ssd, change, &[&["ssd("], parts].concat());
    };
    ssd((0, &[4, 4, 2]), &["x has shape [4,4,2]", "rank 4"]);
    ssd((1, &[1, 4, 2]), &["delta has shape [1,4,2]; [1, 4, 4] is needed"]);
    ssd((3, &[1, 4, 3, 3]), &["c has shape"]);
    ssd((6, &[1, 4, 3, 2]), &["h0 has shape [1,4,3,2]"]);
    refused(ssd_operands([1, 4, 4, 2, 3, 3]), chunked_ssd, (5, &[4]), &["3 groups of b and c do not divide 4 heads"]);
    let no_chunk: Form = |x| x[0].ssd(x[1], x[2], x[3], x[4], Ssd::default().chunk(0));
    refused(ssd_operands([1, 4, 4, 2, 2, 3]), no_chunk, (5, &[4]), &["chunk is 0"]);
}
