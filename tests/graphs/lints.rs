//! Warnings of graphs: the mistakes that they name, and the graphs that have none.

use crate::common::{models, zoo};
use arenagrad::graph::{Attention, Builder, CrossEntropy, DType, GradOptions, GraphBuf, Init, Reduction, Var};
use arenagrad::nn::{self, BatchNorm};
use arenagrad::optim::{self, train};
use arenagrad::session::Session;
use arenagrad::tools::ir::text;

const F32: DType = DType::F32;

fn logits(g: &Builder) -> Var<'_> {
    nn::linear(g, "fc", g.input("x", [8, 4], F32), 3)
}

/// The graph of `loss` over the logits of a linear layer, with labels and targets for it.
fn of_loss(loss: impl for<'g> Fn(Var<'g>, Var<'g>, Var<'g>) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("net");
    let y = loss(logits(&g), g.input("label", [8], DType::I32), g.input("target", [8, 3], F32)).named("loss");
    g.finish([y]).unwrap()
}

/// The texts of the warnings of `g`, and of those of its training step.
fn texts(g: &GraphBuf) -> [Vec<String>; 2] {
    let of = |g: &GraphBuf| g.warnings().iter().map(|w| w.to_string()).collect::<Vec<_>>();
    [of(g), of(&train(g, "loss", optim::Sgd::new(0.1)).unwrap())]
}

#[test]
fn numbers_between_0_and_1_do_not_go_into_losses_of_logits() {
    let line = line!() + 1;
    let wrong = of_loss(|x, label, _| x.softmax(-1).reshape([4, 2, 3]).reshape([8, 3]).cross_entropy(label));
    let w = &wrong.warnings()[0];
    let text =
        format!("cross_entropy has the softmax inside and takes logits; it gets the softmax of {}:{line}", file!());
    assert_eq!((w.op, &w.message), ("softmax_cross_entropy", &format!("{text}: leave that out")));
    assert_eq!(w.location.origin(), Some(format!("{}:{line}", file!())));
    assert_eq!(wrong.to_string(), format!("{}; warning: {w}\n", text::print(wrong.view())));
    assert_eq!(text::parse(&wrong.to_string()).unwrap(), wrong);
    let smooth = CrossEntropy::default().label_smoothing(0.1);
    let all = [
        of_loss(|x, label, _| x.sigmoid().transpose(&[1, 0]).transpose(&[1, 0]).cross_entropy_with(label, smooth)),
        of_loss(|x, _, target| x.softmax(-1).cross_entropy(target)),
        of_loss(|x, _, target| x.sigmoid().reshape([24]).bce_with_logits(target.reshape([24]))),
        of_loss(|x, _, target| x.softmax(-1).bce_with_logits_with(target, Reduction::Sum)),
        of_loss(|x, label, _| x.cast(DType::F64).softmax(-1).cast(F32).cross_entropy(label)),
    ];
    for (i, graph) in all.iter().enumerate() {
        let [plain, trained] = texts(graph);
        assert!(plain.len() == 1 && trained.len() == 1, "{i}: {plain:?} {trained:?}");
    }
    // What is right, or changes nothing.
    let fine = [
        of_loss(|x, label, _| x.cross_entropy(label) + x.softmax(-1).square().mean(..)),
        of_loss(|x, label, _| x.log_softmax(-1).cross_entropy(label)),
        of_loss(|x, label, _| (x.sigmoid() * 20.0 - 10.0).cross_entropy(label)),
        of_loss(|x, label, _| nn::nll_loss(x.log_softmax(-1), label, Reduction::Mean)),
        of_loss(|x, _, target| x.sigmoid().bce(target, Reduction::Mean)),
        of_loss(|x, _, target| x.bce_with_logits(target.sigmoid())),
        of_loss(|x, _, target| x.cross_entropy(target.softmax(-1))),
        of_loss(|x, _, target| x.sigmoid().softplus().mse(target)),
    ];
    for (i, graph) in fine.iter().enumerate() {
        assert_eq!(texts(graph), [const { Vec::<String>::new() }; 2], "{i}");
    }
}

/// A net with dropout in two places and batch norm; with its loss, or its outputs alone.
fn net(training: bool, loss: bool) -> GraphBuf {
    let g = Builder::new("net");
    g.training(training);
    let h = nn::dropout(logits(&g), 0.5);
    let h = nn::batch_norm(&g, "bn", h, BatchNorm::default()).reshape([2, 1, 4, 3]);
    let dropout = if training { 0.1 } else { 0.0 };
    let y = h.attention(h, h, Attention::default().heads(1).dropout(dropout));
    g.finish([if loss { y.mean(..).named("loss") } else { y.named("y") }]).unwrap()
}

#[test]
fn what_is_of_training_does_not_run_where_nothing_is_trained() {
    let run = |g: &GraphBuf| Session::new().compile(g).unwrap().plan().warnings.clone();
    let ops = |all: &[arenagrad::graph::Warning]| all.iter().map(|w| w.op).collect::<Vec<_>>();
    let all = ["dropout", "batch_norm", "attention"];
    let wrong = net(true, false);
    assert_eq!((ops(&wrong.warnings()), ops(&run(&wrong))), (all.to_vec(), all.to_vec()));
    assert!(Session::new().plan(&wrong).unwrap().to_string().starts_with("warning        dropout: values are dropped"));
    // It has a loss, so it may be meant for `train`; compiled as it is, it is not.
    let may_be = net(true, true);
    assert_eq!((may_be.warnings(), ops(&run(&may_be))), (vec![], all.to_vec()));
    let step = train(&may_be, "loss", optim::AdamW::new(0.1)).unwrap();
    let gradient = may_be.grad("loss", &GradOptions::default()).unwrap();
    for fine in [&step, &gradient, &net(false, false), &net(false, true)] {
        assert_eq!((fine.warnings(), run(fine)), (vec![], vec![]));
    }
}

/// A running scale, and an average that the user writes, whose updates stay in a graph for evaluation.
#[test]
fn an_evaluation_graph_moves_no_statistics() {
    let graph = |training: bool| {
        let g = Builder::new("net");
        g.training(training);
        let x = logits(&g);
        let scale = g.running_scale("scale", x, 127, None, 0.9);
        let mean = g.state("mean", [3], F32, Init::Zeros);
        if training {
            g.update(mean, mean * 0.9 + x.mean(0) * 0.1);
        }
        g.finish([(x / scale).named("y")]).unwrap()
    };
    let names = graph(true).warnings().iter().map(|w| (w.op, w.name.clone())).collect::<Vec<_>>();
    assert_eq!(names, [("update", "scale.scale".to_string()), ("update", "mean".to_string())]);
    assert_eq!(graph(false).warnings(), []);
    // Counts, sums, caches and carries of a net that answers step by step.
    let g = Builder::new("stream");
    let x = logits(&g);
    let [count, sum] = ["count", "sum"].map(|name| g.state(name, [8, 3], F32, Init::Zeros));
    g.update(count, count + 1.0);
    g.update(sum, sum + x);
    let carry = g.state("carry", [8, 3], F32, Init::Zeros);
    g.update(carry, carry * 0.9 + x);
    let graph = g.finish([(carry + x).named("y")]).unwrap();
    assert_eq!(graph.warnings(), []);
}

/// No false warning: in models, their steps and their gradients.
#[test]
fn known_models_have_no_warnings() {
    for model in zoo::ZOO {
        let step = (model.small)();
        assert_eq!(step.warnings(), [], "{}", model.name);
        assert_eq!(Session::new().plan(&step).unwrap().warnings, [], "{}", model.name);
    }
    for g in [models::mlp(4), models::convnet(2), models::transformer(2, 4, 8, 2, 2, 11), zoo::gpt(1, 3, 8, 2, 1, 7)] {
        assert_eq!((g.warnings(), Session::new().plan(&g).unwrap().warnings), (vec![], vec![]));
    }
}
