//! The update of one param of a million elements, by rule. SGD and Adam have kernels; the other element-wise rules run
//! in the tile interpreter; LAMB, Adafactor and Muon are reductions and products; L-BFGS is loops.

use arenagrad::graph::{Builder, DType, Init};
use arenagrad::optim::{Lbfgs, Optimiser, Rule, train};
use arenagrad::session::{Program, Session};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SIDE: usize = 1000;

/// A step that is little more than the update of `p`.
fn program(rule: Rule) -> Program {
    let g = Builder::new("update");
    let p = g.param("p", [SIDE, SIDE], DType::F32, Init::Normal(0.1));
    // The gradient of `p` is the input `g`, so the update must read it.
    let loss = (p * g.input("g", [SIDE, SIDE], DType::F32)).sum(..);
    let graph = g.finish([loss.named("loss")]).expect("a valid graph");
    let step = train(&graph, "loss", Optimiser::new(rule, 1e-3)).expect("a step program");
    let mut p = Session::new().compile(&step).expect("a valid program");
    p.init(0).expect("start values");
    p.values_mut::<f32>("lr").expect("an input")[0] = 1e-3;
    let x = p.values_mut::<f32>("g").expect("an input");
    x.iter_mut().enumerate().for_each(|(i, x)| *x = (i * 7919 % 1009) as f32 / 1009.0 - 0.5);
    p
}

/// Times a step for each rule.
fn updates(c: &mut Criterion) {
    let rules = [
        Rule::SGD,
        Rule::ADAMW,
        Rule::LION,
        Rule::ADAGRAD,
        Rule::RMSPROP,
        Rule::ADADELTA,
        Rule::NADAM,
        Rule::ADAMAX,
        Rule::RADAM,
        Rule::LAMB,
        Rule::ADAFACTOR,
        Rule::MUON,
        Lbfgs::new(0.1).history_size(10).rule(),
    ];
    let mut group = c.benchmark_group("update of 1000x1000");
    group.throughput(Throughput::Elements((SIDE * SIDE) as u64));
    for rule in rules {
        let mut p = program(rule);
        println!("{}: {} instructions", rule.name(), p.plan().instructions);
        group.bench_function(rule.name(), |b| b.iter(|| p.step()));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = updates
}
criterion_main!(benches);
