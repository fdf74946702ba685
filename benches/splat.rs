//! A training step of 10,000 Gaussian splats at 256×256: arena bytes, and time on one thread and on all.

use arenagrad::graph::splat::{SplatImage, Splats};
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Session};
use criterion::{Criterion, criterion_group, criterion_main};

const SIZE: usize = 256;
const COUNT: usize = 10_000;

/// The image as an output if `trained` is false; else a step of Adam on the squared difference to a grey image.
fn program(session: Session, trained: bool) -> Program {
    let g = Builder::new("splats");
    let param = |name: &str, dims: &[usize], init: Init| g.param(name, dims, DType::F32, init);
    let splats = Splats {
        positions: param("positions", &[COUNT, 3], Init::Uniform(1.5)),
        log_scales: param("log_scales", &[COUNT, 3], Init::Between { low: -5.0, high: -3.5 }),
        rotations: param("rotations", &[COUNT, 4], Init::Normal(1.0)),
        opacities: param("opacities", &[COUNT], Init::Between { low: 0.1, high: 0.9 }),
        colours: param("colours", &[COUNT, 4, 3], Init::Normal(0.5)),
    };
    let view = g.input("camera", [10], DType::F32).splat_view(SIZE);
    let [image, _] = splats.render(view, SplatImage::new(SIZE, SIZE));
    let graph = if trained {
        let error = image - 0.5;
        let loss = g.finish([(error * error).mean(..).named("loss")]).expect("a valid graph");
        train(&loss, "loss", optim::Adam::new(1e-4)).expect("a step")
    } else {
        g.finish([image.named("image")]).expect("a valid graph")
    };
    let mut p = session.compile(&graph).expect("a program");
    p.init(1).expect("params");
    let camera = [0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 60.0];
    p.values_mut::<f32>("camera").expect("an input").copy_from_slice(&camera);
    p
}

fn splat(c: &mut Criterion) {
    let mut group = c.benchmark_group("splat 10000 at 256x256");
    group.sample_size(20);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for (name, trained) in [("image", false), ("training step", true)] {
        for threads in [1, threads] {
            let mut p = program(Session::new().threads(threads), trained);
            println!("{name}, {threads} threads: {} arena bytes", p.plan().arena_bytes);
            group.bench_function(format!("{name}, {threads} threads"), |b| b.iter(|| p.step()));
        }
    }
    group.finish();
}

criterion_group!(benches, splat);
criterion_main!(benches);
