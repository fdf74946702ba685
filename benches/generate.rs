//! Text from a GPT of 4 layers and 128 numbers a token: a window of 64 tokens by a loop with kept keys and values,
//! beside the same window with each token made from all before it.

use arenagrad::graph::{Builder, DType, GraphBuf};
use arenagrad::nn::{self, Gpt};
use arenagrad::session::{Program, Session};
use arenagrad::train::Sampling;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Tokens of a window.
const CONTEXT: usize = 64;

fn net() -> Gpt {
    Gpt::default().vocabulary(65).context(CONTEXT).layers(4).heads(4).width(128).bias(true).dropout(0.0).gelu_tanh(true)
}

/// A program of both methods on one thread.
fn program() -> Program {
    let graph = |write: &dyn Fn(&Builder) -> GraphBuf| write(&Builder::new("text"));
    let one = graph(&|g| {
        let token = nn::gpt_next_token(g, DType::F32, net(), Sampling::default());
        g.finish([token.named("token")]).expect("a valid graph")
    });
    let many = graph(&|g| {
        let tokens = nn::gpt_next_tokens(g, DType::F32, net(), CONTEXT, Sampling::default());
        g.finish([tokens.named("token")]).expect("a valid graph")
    });
    let session = Session::new().threads(1);
    let mut p = session.compile_all(&[("one", &one), ("many", &many)]).expect("a valid graph");
    p.init(1).expect("params");
    p
}

/// Starts a text of one token.
fn start(p: &mut Program) {
    p.values_mut::<i64>(nn::GENERATE_LENGTH).expect("a state")[0] = 1;
    p.values_mut::<i64>(nn::GENERATE_KEPT).expect("a state")[0] = 0;
    p.values_mut::<i64>(nn::GENERATE_DRAWN).expect("a state")[0] = 0;
}

fn generate(c: &mut Criterion) {
    let mut p = program();
    let (one, many) = (p.method("one").expect("a method"), p.method("many").expect("a method"));
    let count = p.input_of::<i64>(many, nn::GENERATE_COUNT).expect("an input");
    let mut group = c.benchmark_group("text of a window");
    group.throughput(Throughput::Elements(CONTEXT as u64));
    group.bench_function("kept keys and values", |b| {
        b.iter(|| {
            start(&mut p);
            p.run(one).expect("a step");
            p.get_mut(count).expect("an input")[0] = CONTEXT as i64 - 1;
            p.run(many).expect("a step");
        });
    });
    group.bench_function("whole windows", |b| {
        b.iter(|| {
            start(&mut p);
            (0..CONTEXT).for_each(|_| p.run(one).expect("a step"));
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = generate
}
criterion_main!(benches);
