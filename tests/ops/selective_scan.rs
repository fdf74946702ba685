//! The selective scan: known values, the same loop as a scan, memory, derivatives of all orders, threads, wrong use.

use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run, same_conform_bits};
use arenagrad::graph::recurrent::SelectiveScan;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Missing, Var, grad, hvp, vjp};
use arenagrad::session::Session;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::passes::pipeline;

const F64: DType = DType::F64;

/// The sizes of a scan: sequences, steps, channels, numbers of a state.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    steps: usize,
    channels: usize,
    states: usize,
}

impl Sizes {
    const fn new(batch: usize, steps: usize, channels: usize, states: usize) -> Sizes {
        Sizes { batch, steps, channels, states }
    }

    /// Names and shapes of the operands.
    fn operands(self) -> [(&'static str, Vec<usize>); 7] {
        let Sizes { batch, steps, channels, states } = self;
        [
            ("x", vec![batch, steps, channels]),
            ("delta", vec![batch, steps, channels]),
            ("a", vec![channels, states]),
            ("b", vec![batch, steps, states]),
            ("c", vec![batch, steps, states]),
            ("d", vec![channels]),
            ("h0", vec![batch, channels, states]),
        ]
    }

    /// Numbers of the operands, with a positive Δ and a negative A.
    fn draw(self, dtype: DType) -> Vec<Tensor> {
        let mut draw = TensorDraws(7);
        let of = |(name, dims): (&str, Vec<usize>)| {
            let domain = if matches!(name, "delta" | "a") { Domain::Chance } else { Domain::Unit };
            let mut t = draw.tensor(dtype, &dims, domain);
            if name == "a" {
                t.data.iter_mut().for_each(|a| *a = -*a);
            }
            t
        };
        self.operands().map(of).into()
    }
}

/// The op.
fn fused<'g>(x: &[Var<'g>]) -> [Var<'g>; 2] {
    x[0].selective_scan(x[1], x[2], x[3], x[4], SelectiveScan::default().d(x[5]).h0(x[6]))
}

/// The same loop, written with a scan.
fn looped<'g>(x: &[Var<'g>]) -> [Var<'g>; 2] {
    let rows = [0, 1, 3, 4].map(|i| x[i].transpose(&[1, 0, 2]));
    let (h, y) = x[0].builder().scan(&[x[6]], &rows, |h, row| {
        let decay = (row[1].unsqueeze(2) * x[2]).exp();
        let h = decay * h[0] + (row[1] * row[0]).unsqueeze(2) * row[2].unsqueeze(1);
        (vec![h], vec![h.matmul(row[3].unsqueeze(2)).squeeze(-1)])
    });
    [y[0].transpose(&[1, 0, 2]) + x[0] * x[5], h[0]]
}

type Form = for<'g> fn(&[Var<'g>]) -> [Var<'g>; 2];

/// The graph of both results and a loss of both.
fn graph(sizes: Sizes, dtype: DType, f: Form) -> GraphBuf {
    let g = Builder::new("scan");
    let x: Vec<Var> = sizes.operands().iter().map(|(name, dims)| g.input(name, dims, dtype)).collect();
    let [y, last] = f(&x);
    let loss = (y * y).sum(..) + (last * last * last).sum(..);
    g.finish([loss.named("loss"), y.named("y"), last.named("last")]).unwrap()
}

const NAMES: [&str; 7] = ["x", "delta", "a", "b", "c", "d", "h0"];

fn gradient(sizes: Sizes, dtype: DType, f: Form) -> GraphBuf {
    grad(&graph(sizes, dtype, f), "loss", &GradOptions::wrt(&NAMES)).unwrap()
}

fn near(what: &str, ours: &[f64], theirs: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (a, b) in ours.iter().zip(theirs) {
        // Written so that a NaN fails.
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}: {ours:?}, not {theirs:?}");
    }
}

/// One channel, two numbers, two steps, computed by hand and by differences.
#[test]
fn known_values_and_gradients() {
    let g = Builder::new("known");
    let input = |name: &str, dims: &[usize]| g.input(name, dims, F64);
    let [x, delta] = ["x", "delta"].map(|n| input(n, &[1, 2, 1]));
    let (a, [b, c]) = (input("a", &[1, 2]), ["b", "c"].map(|n| input(n, &[1, 2, 2])));
    let [y, last] = x.selective_scan(delta, a, b, c, SelectiveScan::default());
    let graph = g.finish([y.named("y"), last.named("last")]).unwrap();
    let names = ["x", "delta", "a", "b", "c"];
    let mut p = Session::new().compile(&vjp(&graph, &["y"], &names, Missing::Zero).unwrap()).unwrap();
    let given: [(&str, &[f64]); 6] = [
        ("x", &[1.0, -1.0]),
        ("delta", &[0.5, 0.25]),
        ("a", &[-1.0, -2.0]),
        ("b", &[1.0, 0.5, -0.5, 2.0]),
        ("c", &[1.0, 1.0, 0.5, -1.0]),
        ("cotangent.y", &[1.0, -2.0]),
    ];
    given.iter().for_each(|(name, x)| p.values_mut::<f64>(name).unwrap().copy_from_slice(x));
    p.step().unwrap();
    let want: [(&str, &[f64]); 6] = [
        ("y", &[0.75, 0.6055675]),
        ("grad.x", &[0.6638649, 1.125]),
        ("grad.delta", &[1.3277299, -4.7171303]),
        ("grad.a", &[-0.0973501, 0.0758163]),
        ("grad.b", &[0.1105996, 1.1065307, 0.25, -0.5]),
        ("grad.c", &[0.5, 0.25, -1.0288008, 0.6967347]),
    ];
    want.iter().for_each(|(name, want)| near(name, p.values(name).unwrap(), want, 5e-8));
}

/// Shapes whose units are members and runs of channels, with no step, one step, and stretches of unequal length.
const SIZES: [Sizes; 6] = [
    Sizes::new(2, 0, 3, 2),
    Sizes::new(1, 1, 1, 1),
    Sizes::new(2, 17, 35, 3),
    Sizes::new(3, 17, 4, 5),
    Sizes::new(1, 1024, 2, 2),
    LONG,
];

/// Steps enough to keep states; the last stretch and the last vector are short.
const LONG: Sizes = Sizes::new(2, 67, 18, 3);

/// The op in the body of a loop of one iteration.
fn in_loop<'g>(x: &[Var<'g>]) -> [Var<'g>; 2] {
    let (h, y) = x[0].builder().scan(&[x[6]], &[x[0].unsqueeze(0)], |h, row| {
        let [y, last] = fused(&[row[0], x[1], x[2], x[3], x[4], x[5], h[0]]);
        (vec![last], vec![y])
    });
    [y[0].squeeze(0), h[0]]
}

#[test]
fn a_training_step_keeps_states_for_its_gradient() {
    let counts = |g: &GraphBuf| {
        let text = pipeline::run_whole_pipeline(g).unwrap().to_string();
        let ops = ["selective_scan", "selective_scan_backward", "selective_scan_keep", "selective_scan_kept_backward"];
        ops.map(|op| text.matches(&format!("= {op} ")).count())
    };
    assert_eq!(counts(&graph(LONG, F64, fused)), [1, 0, 0, 0]);
    assert_eq!(counts(&gradient(LONG, F64, fused)), [0, 0, 1, 1]);
    // States of a short sequence would take more bytes than x.
    assert_eq!(counts(&gradient(SIZES[2], F64, fused)), [1, 1, 0, 0]);
    // The scan and its gradient are in the bodies of two loops.
    let [scans, gradients, kept, from_kept] = counts(&gradient(LONG, F64, in_loop));
    assert!(scans > 0 && gradients > 0 && [kept, from_kept] == [0, 0]);
}

#[test]
fn bits_are_the_same_for_any_number_of_threads() {
    for (sizes, dtype) in [(SIZES[2], DType::F32), (LONG, F64), (Sizes::new(2, 70, 130, 4), DType::F32)] {
        let (step, x) = (gradient(sizes, dtype, fused), sizes.draw(dtype));
        let one = run(&step, &x, PLAIN);
        for threads in [2, 3, 7] {
            let many = run(&step, &x, How { threads, share: true, ..PLAIN });
            assert!(one.iter().zip(&many).all(|(a, b)| same_conform_bits(a, b)), "{sizes:?}, {threads} threads");
        }
    }
}

/// The bytes of the plan of the gradient that are not operands, results, or partial sums of B and C.
#[test]
fn memory_grows_with_the_root_of_the_steps() {
    let bytes = |f: Form, steps: usize| {
        let sizes = Sizes::new(1, steps, 4, 64);
        let plan = Session::new().compile(&gradient(sizes, F64, f)).unwrap().plan().arena_bytes;
        // x, Δ, y, the gradients of these, and B and C with theirs: all that is as long as the sequence.
        plan - steps * 8 * (6 * sizes.channels + 4 * sizes.states)
    };
    let [short, long] = [1024, 4096].map(|steps| bytes(fused, steps));
    assert!(long < short * 5 / 2, "{short} and {long} bytes");
    // A scan keeps a state of every step.
    assert!(bytes(looped, 4096) > 8 * long, "{} and {long} bytes", bytes(looped, 4096));
}

/// One result alone has a gradient; D and h_0 are absent.
#[test]
fn the_last_state_alone_has_a_gradient() {
    let sizes = Sizes::new(2, 9, 3, 2);
    let last_of = |f: Form| {
        let g = Builder::new("last");
        let x: Vec<Var> = sizes.operands().iter().map(|(name, dims)| g.input(name, dims, F64)).collect();
        let [_, last] = f(&x);
        let graph = g.finish([(last * last).sum(..).named("loss")]).unwrap();
        grad(&graph, "loss", &GradOptions::wrt(&NAMES).missing(Missing::Zero)).unwrap()
    };
    let plain: Form = |x| x[0].selective_scan(x[1], x[2], x[3], x[4], SelectiveScan::default().h0(x[6]));
    let [ours, theirs] = [plain, looped].map(|f| run(&last_of(f), &sizes.draw(F64), PLAIN));
    assert!(ours.iter().zip(&theirs).all(|(a, b)| conform_distance(&a.data, &b.data) < 1e-12), "{ours:?}\n{theirs:?}");
}

#[test]
fn an_infinite_decay_forgets_and_leaves_no_nan() {
    let sizes = Sizes::new(1, 4, 2, 3);
    for dtype in [DType::F32, F64] {
        let mut x = sizes.draw(dtype);
        x[2].data.iter_mut().step_by(2).for_each(|a| *a = f64::NEG_INFINITY);
        // The last step lasts no time: the state stays.
        x[1].data[6..].fill(0.0);
        for g in [gradient(sizes, dtype, fused), hvp(&graph(sizes, dtype, fused), "loss", &["x", "h0"]).unwrap()] {
            let v = g.view();
            let zeros = v.leaves().skip(7).map(|l| Tensor {
                dtype,
                dims: v.dims(l.value).to_vec(),
                data: vec![0.5; v.numel(l.value)],
            });
            let outs = run(&g, &x.iter().cloned().chain(zeros).collect::<Vec<_>>(), PLAIN);
            assert!(outs.iter().all(|t| t.data.iter().all(|x| x.is_finite())), "{outs:?}");
            // What remains of number 0 of channel 0 is the inflow of step 2.
            let want = x[1].data[4] * x[0].data[4] * x[3].data[6];
            near("last", &outs[2].data[..1], &[want], 1e-6);
        }
    }
}

#[test]
fn wrong_use_names_the_op_and_the_shapes() {
    let refused = |change: &dyn Fn(&mut Vec<(DType, Vec<usize>)>), parts: &[&str]| {
        let g = Builder::new("wrong");
        let mut dims: Vec<(DType, Vec<usize>)> = Sizes::new(2, 5, 3, 4).operands().map(|(_, d)| (F64, d)).into();
        change(&mut dims);
        let x: Vec<Var> = dims.iter().zip(NAMES).map(|((dtype, d), name)| g.input(name, d, *dtype)).collect();
        let [y, _] = fused(&x);
        let text = g.finish([y]).unwrap_err().to_string();
        let all = ["selective_scan("].iter().chain(parts);
        assert!(all.clone().all(|p| text.contains(p)) && text.contains(file!()), "{parts:?}: {text}");
    };
    refused(&|d| d[0].1 = vec![2, 5], &["x has shape [2,5]", "rank 3"]);
    refused(&|d| d[1].1 = vec![2, 5, 1], &["delta has shape [2,5,1], not [2,5,3]"]);
    refused(&|d| d[2].1 = vec![4, 3], &["a has shape [4,3], not [3,3]"]);
    refused(&|d| d[3].1 = vec![2, 4, 4], &["b has shape [2,4,4], not [2,5,4]"]);
    refused(&|d| d[4].1 = vec![2, 5, 3], &["c has shape [2,5,3], not [2,5,4]"]);
    refused(&|d| d[5].1 = vec![1], &["d has shape [1], not [3]"]);
    refused(&|d| d[6].1 = vec![2, 4, 3], &["h0 has shape [2,4,3], not [2,3,4]"]);
    refused(&|d| d[2].1 = vec![3, 0], &["a has shape [3,0]", "a state are needed"]);
    refused(&|d| d[3].0 = DType::F32, &["differ; cast one"]);
    refused(&|d| d.iter_mut().for_each(|d| d.0 = DType::C64), &["real numbers"]);
    let (other, g) = (Builder::new("other"), Builder::new("here"));
    let x = g.input("x", [1, 1, 1], F64);
    let a = other.input("a", [1, 1], F64);
    let [y, last] = x.selective_scan(x, a, x, x, SelectiveScan::default());
    let text = g.finish([y, last]).unwrap_err().to_string();
    assert!(text.contains("selective_scan") && text.contains("another builder"), "{text}");
}
