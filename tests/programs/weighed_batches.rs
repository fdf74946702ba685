//! Micro-batches with weights equal the whole batch, and ascents equal descents of the negated loss.

use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, Init};
use arenagrad::nn;
use arenagrad::optim::{self, AdamW, Optimiser, Sgd, train};
use arenagrad::session::{Program, Session};

/// A classifier of `rows` rows whose loss is the mean over the labels that are not −100.
fn net(rows: usize) -> GraphBuf {
    let g = Builder::new("net");
    let (x, labels) = (g.input("x", [rows, 2], DType::F64), g.input("labels", [rows], DType::I64));
    let loss = nn::linear(&g, "fc", x, 3).cross_entropy(labels).named("loss");
    let counted = labels.not_equal(-100.0).cast(DType::F32).sum(..).named("counted");
    g.finish([loss, counted]).unwrap()
}

/// Loss and weights after a step on these labels.
fn step(rows: usize, opt: impl Into<Optimiser>, labels: &[i64; 8]) -> (f64, Vec<f64>) {
    let mut p: Program = Session::new().compile(&train(&net(rows), "loss", opt).unwrap()).unwrap();
    p.init(3).unwrap();
    p.values_mut::<f64>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i * 7 % 11) as f64 * 0.3 - 1.0);
    p.values_mut::<i64>("labels").unwrap().copy_from_slice(labels);
    p.step().unwrap();
    (p.values::<f64>("loss").unwrap()[0], p.values::<f64>("fc.weight").unwrap().to_vec())
}

fn far(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn micro_batches_are_weighed_by_the_labels_that_they_count() {
    // Three of the first four rows are ignored; then all four, so that the mean of the first micro-batch is NaN.
    for labels in [[-100, -100, -100, 1, 0, 2, 1, 0], [-100, -100, -100, -100, 0, 2, 1, 0]] {
        let (loss, whole) = step(8, Sgd::new(0.5), &labels);
        let (parts_loss, parts) = step(4, Sgd::new(0.5).accumulate_by(2, "counted"), &labels);
        assert!((loss - parts_loss).abs() < 1e-14 && far(&whole, &parts) < 1e-14, "{whole:?} {parts:?}");
        // The mean of means is another number, or none.
        let (plain, _) = step(4, Sgd::new(0.5).accumulate(2), &labels);
        assert!(plain.is_nan() || (loss - plain).abs() > 1e-3, "{loss} {plain}");
    }
    let warned = |opt: Optimiser| {
        let graph = train(&net(4), "loss", opt).unwrap();
        let text = graph.to_string();
        let told = graph.warnings();
        assert_eq!(text.contains("; warning: div"), !told.is_empty(), "{text}");
        told.iter().any(|w| w.message.contains("`accumulate_by(k, output)`"))
    };
    assert!(warned(Sgd::new(0.5).accumulate(2).into()) && warned(AdamW::new(0.5).accumulate(2).ema(0.5).into()));
    assert!(!warned(Sgd::new(0.5).accumulate_by(2, "counted").into()) && !warned(Sgd::new(0.5).into()));
    let refused = |weight| train(&net(4), "loss", Sgd::new(0.5).accumulate_by(2, weight)).unwrap_err().to_string();
    assert!(refused("count").contains("accumulation: the weight \"count\" is no output"), "{}", refused("count"));
    let g = Builder::new("net");
    let x = g.param("x", [2], DType::F64, Init::Ones) * g.input("y", [2], DType::F64);
    let graph = g.finish([x.sum(..).named("loss"), x.named("rows")]).unwrap();
    let e = train(&graph, "loss", Sgd::new(0.5).accumulate_by(2, "rows")).unwrap_err().to_string();
    assert!(e.contains("\"rows\" is f64[2]; a scalar of a float type is needed"), "{e}");
}

/// A mean over all rows is that of the whole batch, and a loop over time that divides is no accumulation.
#[test]
fn even_means_and_loops_over_time_have_no_warning() {
    let g = Builder::new("rows");
    let (x, labels) = (g.input("x", [4, 2], DType::F64), g.input("labels", [4], DType::I64));
    let rows = nn::linear(&g, "fc", x, 3).cross_entropy_with(labels, CrossEntropy::per_row());
    let graph = g.finish([rows.mean(..).named("loss")]).unwrap();
    assert_eq!(train(&graph, "loss", Sgd::new(0.5).accumulate(2)).unwrap().warnings(), []);
    let g = Builder::new("time");
    let (x, w) = (g.input("x", [5, 2], DType::F64), g.param("w", [2], DType::F64, Init::Ones));
    let start = g.full(0.0, [2], DType::F64);
    let (_, ys) = g.scan(&[start], &[x], |h, x| (vec![h[0] + x[0] * w], vec![(h[0] * w).sum(..) / x[0].sum(..)]));
    let step = train(&g.finish([ys[0].sum(..).named("loss")]).unwrap(), "loss", Sgd::new(0.5)).unwrap();
    assert_eq!(step.warnings(), []);
}

#[test]
fn an_ascent_is_a_descent_of_the_negated_loss() {
    let run = |sign: f64, opt: Optimiser| {
        let g = Builder::new("net");
        let w = g.param("w", [3], DType::F64, Init::Ones);
        let loss = ((w * g.input("x", [3], DType::F64)).tanh().sum(..) * sign).named("loss");
        let step = train(&g.finish([loss]).unwrap(), "loss", opt).unwrap();
        let mut p = Session::new().compile(&step).unwrap();
        p.init(0).unwrap();
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&[0.3, -1.0, 2.0]);
        (0..5).for_each(|_| p.step().unwrap());
        p.values::<f64>("w").unwrap().to_vec()
    };
    let all: [Optimiser; 4] = [
        Sgd::new(0.1).momentum(0.9).weight_decay(0.1).into(),
        AdamW::new(0.1).clip_norm(0.5).into(),
        optim::Adam::new(0.1).weight_decay(0.2).loss_scale(optim::LossScale::dynamic()).into(),
        optim::RmsProp::new(0.1).into(),
    ];
    for opt in all {
        assert_eq!(run(1.0, opt.clone().maximize(true)), run(-1.0, opt.clone()), "{opt:?}");
        assert_ne!(run(1.0, opt.clone()), run(-1.0, opt));
    }
}
