//! L-BFGS against a loop in f64 that keeps its history in vectors, and what surrounds it: groups, memory, resuming.

use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::optim::{Group, Lbfgs, Optimiser, Rule, Sgd, train};
use arenagrad::session::{Program, Session};

/// Elements of the params.
const DIMS: [&[usize]; 3] = [&[4], &[2, 3], &[]];
const N: usize = 11;

/// Rosenbrock's function of all elements of three params, in order: Σ 10·(xᵢ₊₁ − xᵢ²)² + (1 − xᵢ)².
fn rosenbrock(dtype: DType) -> GraphBuf {
    let g = Builder::new("rosenbrock");
    let p: Vec<_> = (0..3).map(|i| g.param(&format!("p{i}"), DIMS[i], dtype, Init::Zeros)).collect();
    let flat: Vec<_> = p.iter().map(|p| p.reshape([p.numel()])).collect();
    let x = flat[0].concat(&flat[1..], 0);
    let (now, next) = (x.narrow(0, 0, N - 1), x.narrow(0, 1, N - 1));
    let (far, near) = (next - now * now, 1.0 - now);
    g.finish([(far * far * 10.0 + near * near).sum(..).named("loss")]).unwrap()
}

fn start() -> Vec<f64> {
    (0..N).map(|i| 0.3 * ((i * 7 % 5) as f64 - 2.0) + 0.1).collect()
}

/// The gradient of Rosenbrock's function.
fn gradient(x: &[f64]) -> Vec<f64> {
    let mut g = vec![0.0; x.len()];
    for i in 0..x.len() - 1 {
        let far = x[i + 1] - x[i] * x[i];
        g[i] += -40.0 * far * x[i] - 2.0 * (1.0 - x[i]);
        g[i + 1] += 20.0 * far;
    }
    g
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The naive algorithm: the path of x, and how many pairs were refused and dropped.
struct Reference {
    path: Vec<Vec<f64>>,
    refused: usize,
    dropped: usize,
}

fn reference(steps: usize, history: usize, lr: f64, decay: f64) -> Reference {
    let mut x = start();
    let mut pairs: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    let (mut last, mut scale) = (None::<(Vec<f64>, Vec<f64>)>, 1.0);
    let mut all = Reference { path: Vec::new(), refused: 0, dropped: 0 };
    for _ in 0..steps {
        let g: Vec<f64> = gradient(&x).iter().zip(&x).map(|(g, x)| g + decay * x).collect();
        let mut size = lr;
        match &last {
            None => size *= (1.0 / g.iter().map(|g| g.abs()).sum::<f64>()).min(1.0),
            Some((g0, s)) => {
                let y: Vec<f64> = g.iter().zip(g0).map(|(g, g0)| g - g0).collect();
                if dot(&y, s) > 1e-10 {
                    if pairs.len() == history {
                        pairs.remove(0);
                        all.dropped += 1;
                    }
                    scale = dot(&y, s) / dot(&y, &y);
                    pairs.push((y, s.clone()));
                } else {
                    all.refused += 1;
                }
            }
        }
        let mut q: Vec<f64> = g.iter().map(|g| -g).collect();
        let mut alphas = Vec::new();
        for (y, s) in pairs.iter().rev() {
            let alpha = dot(s, &q) / dot(y, s);
            q.iter_mut().zip(y).for_each(|(q, y)| *q -= alpha * y);
            alphas.push(alpha);
        }
        q.iter_mut().for_each(|q| *q *= scale);
        for ((y, s), alpha) in pairs.iter().zip(alphas.iter().rev()) {
            let beta = dot(y, &q) / dot(y, s);
            q.iter_mut().zip(s).for_each(|(q, s)| *q += (alpha - beta) * s);
        }
        let moved: Vec<f64> = q.iter().map(|d| size * d).collect();
        x.iter_mut().zip(&moved).for_each(|(x, s)| *x += s);
        last = Some((g, moved));
        all.path.push(x.clone());
    }
    all
}

/// A program with the start values in its params.
fn program(opt: impl Into<Optimiser>, session: Session) -> Program {
    let mut p = session.compile(&train(&rosenbrock(DType::F64), "loss", opt).unwrap()).unwrap();
    p.init(0).unwrap();
    let mut at = 0;
    for i in 0..3 {
        let x = p.values_mut::<f64>(&format!("p{i}")).unwrap();
        x.copy_from_slice(&start()[at..at + x.len()]);
        at += x.len();
    }
    p
}

fn params(p: &Program) -> Vec<f64> {
    (0..3).flat_map(|i| p.values::<f64>(&format!("p{i}")).unwrap().to_vec()).collect()
}

#[test]
fn steps_are_those_of_a_naive_loop() {
    let (mut refused, mut dropped) = (0, 0);
    for (history, lr, decay) in [(1, 0.1, 0.0), (3, 0.2, 0.0), (5, 0.5, 0.0), (40, 0.1, 0.02), (2, 1.0, 0.0)] {
        let want = reference(30, history, lr, decay);
        let opt = Lbfgs::new(lr).history_size(history).weight_decay(decay);
        for session in [Session::new(), Session::new().optimise(false), Session::new().threads(2).share(true)] {
            let mut p = program(&opt, session);
            for (step, want) in want.path.iter().enumerate() {
                p.step().unwrap();
                for (i, (x, y)) in params(&p).iter().zip(want).enumerate() {
                    let what = format!("history {history}, lr {lr}, step {step}, element {i}");
                    assert!((x - y).abs() <= 1e-7 * y.abs().max(1.0), "{what}: {x}, not {y}");
                }
            }
        }
        (refused, dropped) = (refused + want.refused, dropped + want.dropped);
    }
    assert!(refused > 0 && dropped > 0, "{refused} pairs were refused, {dropped} dropped: both must occur");
}

#[test]
fn it_finds_the_minimum_where_gradient_descent_does_not() {
    let loss_after = |opt: Optimiser| {
        let mut p = program(opt, Session::new());
        (0..200).for_each(|_| p.step().unwrap());
        p.values::<f64>("loss").unwrap()[0]
    };
    let (ours, plain) = (loss_after(Lbfgs::new(0.5).into()), loss_after(Sgd::new(0.005).into()));
    assert!(ours < 1e-10 && plain > 1e-3, "L-BFGS {ours:e}, gradient descent {plain:e}");
}

#[test]
fn a_run_goes_on_from_its_states() {
    let opt = || Lbfgs::new(0.3).history_size(4).ema(0.9);
    let mut whole = program(opt(), Session::new());
    let mut first = program(opt(), Session::new());
    (0..20).for_each(|_| whole.step().unwrap());
    (0..9).for_each(|_| first.step().unwrap());
    let file = std::env::temp_dir().join(format!("arenagrad-lbfgs-{}.safetensors", std::process::id()));
    first.save(&file).unwrap();
    let mut second = program(opt(), Session::new());
    second.load(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    (0..11).for_each(|_| second.step().unwrap());
    let all = |p: &Program| p.persistent().flat_map(|(_, bytes)| bytes.to_vec()).collect::<Vec<u8>>();
    assert!(all(&whole) == all(&second));
}

#[test]
fn the_history_is_written_in_place() {
    const LEN: usize = 1 << 14;
    let bytes = |history: usize| {
        let g = Builder::new("long");
        let p = g.param("p", [LEN], DType::F32, Init::Ones);
        let graph = g.finish([(p * p).sum(..).named("loss")]).unwrap();
        let step = train(&graph, "loss", Lbfgs::new(0.1).history_size(history)).unwrap();
        let plan = Session::new().plan(&step).unwrap();
        (plan.arena_bytes, plan.pinned_bytes)
    };
    let ((short, leaves), (long, more)) = (bytes(2), bytes(20));
    // 18 rows more, two vectors each. All else is vectors of the params' size, whatever the history.
    let rows = 18 * 2 * LEN * 4;
    assert!((rows..rows + 4096).contains(&(more - leaves)), "{leaves} and {more} bytes of leaves");
    assert!((rows..rows + 4096).contains(&(long - short)), "{short} and {long} bytes");
    assert!(short - leaves < 8 * LEN * 4, "{} bytes beside the leaves", short - leaves);
}

/// A group of L-BFGS.
fn own_history(history_size: usize) -> Group {
    Group::default().rule(Lbfgs::new(0.1).history_size(history_size).rule())
}

#[test]
fn all_params_share_one_history_and_one_rate() {
    let g = rosenbrock(DType::F64);
    let fails = |o: Optimiser<Lbfgs>| train(&g, "loss", o).unwrap_err().to_string();
    let two = fails(Lbfgs::new(1.0).group("p1", own_history(7)));
    assert!(two.contains("history_size 100 and 7"), "{two}");
    let sgd = Group::default().rule(Rule::SGD);
    let behind = fails(Lbfgs::new(1.0).group("p0", sgd).group("p1", own_history(7)));
    assert!(behind.contains("history_size 7 and 100"), "{behind}");
    let fast = fails(Lbfgs::new(1.0).group("p1", Group::default().lr_scale(2.0)));
    assert!(fast.contains("lr_scale 2") && fast.contains("one rate"), "{fast}");
    let later = fails(Lbfgs::new(1.0).group("p1", Group::default().count(1)));
    assert!(later.contains("a count of its own"), "{later}");

    // Params of another rule do not enter the history, and a decay of some params enters their gradient only.
    let still = Group::default().weight_decay(0.1);
    let plain = Lbfgs::new(0.1).history_size(3).group("p0", sgd);
    let [mut p, mut other] = [plain.clone().group("p1", still), plain].map(|opt| program(opt, Session::new()));
    let rows: Vec<_> = p.persistent().filter(|(b, _)| b.name == "opt.old_dirs").map(|(b, _)| b.dims.to_vec()).collect();
    assert_eq!(rows, [[3, 7]]);
    let [decayed, g] = [&mut p, &mut other].map(|p| {
        p.step().unwrap();
        p.values::<f64>("opt.prev_flat_grad").unwrap().to_vec()
    });
    let (x, want) = (start(), gradient(&start()));
    for i in 0..7 {
        let decay = if i < 6 { 0.1 * x[4 + i] } else { 0.0 };
        assert!((g[i] - want[4 + i]).abs() < 1e-12, "element {i}: {} and {}", g[i], want[4 + i]);
        assert!((decayed[i] - g[i] - decay).abs() < 1e-12, "element {i}: {} and {}", decayed[i], g[i]);
    }
    assert_eq!(decayed[6], g[6]);
}

#[test]
fn a_projected_param_has_no_history() {
    let g = rosenbrock(DType::F64);
    let boxed = || Lbfgs::new(0.1).project("p1", |p| p.clamp(-1.0, 1.0));
    let e = train(&g, "loss", boxed()).unwrap_err();
    let want = "lbfgs: param \"p1\" has a projection, which its history would not see";
    assert!(e.kind == Kind::Data && e.message == want, "{e:?}");
    assert_eq!(train(&g, "loss", boxed().project("p2", |p| p)).unwrap_err().message, want);
    // A param of another rule may have one.
    let sgd = Group::default().rule(Rule::SGD);
    assert!(train(&g, "loss", boxed().group("p1", sgd)).is_ok());
    let e = train(&g, "loss", Sgd::new(0.1).project("p*", |p| p).group("p2", own_history(3))).unwrap_err();
    assert!(e.message.contains("param \"p2\" has a projection"), "{e}");
}

#[test]
fn params_of_two_types_share_a_vector() {
    let g = Builder::new("mixed");
    let a = g.param("a", [3], DType::F32, Init::Ones);
    let b = g.param("b", [2], DType::F64, Init::Ones);
    let loss = (a * a).sum(..).cast(DType::F64) + (b * b * 3.0).sum(..);
    let graph = g.finish([loss.named("loss")]).unwrap();
    let mut p = Session::new().compile(&train(&graph, "loss", Lbfgs::new(0.9)).unwrap()).unwrap();
    p.init(0).unwrap();
    (0..40).for_each(|_| p.step().unwrap());
    assert!(p.values::<f64>("loss").unwrap()[0] < 1e-9, "{:?}", p.values::<f64>("loss").unwrap());
}
