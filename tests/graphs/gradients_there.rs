//! Training a graph that holds its gradients already: they are computed once.

use arenagrad::graph::window::Conv2d;
use arenagrad::graph::{Attention, Builder, DType, GradOptions, GraphBuf, Init, LeafKind, Var};
use arenagrad::nn;
use arenagrad::optim::{Sgd, train};
use arenagrad::session::Session;

const F32: DType = DType::F32;

fn net(name: &str, body: impl for<'g> Fn(&'g Builder) -> Var<'g>) -> (String, GraphBuf) {
    let g = Builder::new(name);
    let logits = nn::linear(&g, "fc", body(&g), 10);
    let y = g.input("y", [8], DType::I32);
    (name.to_string(), g.finish([logits.cross_entropy(y).named("loss")]).unwrap())
}

fn nets() -> [(String, GraphBuf); 7] {
    [
        net("mlp", |g| nn::linear(g, "fc1", g.input("x", [8, 16], F32), 12).relu()),
        net("convolution", |g| {
            let x = g.input("x", [8, 1, 12, 12], F32);
            nn::conv2d(g, "c", x, 4, 3, Conv2d::default()).relu().flatten(1, -1)
        }),
        net("norms", |g| {
            let h = nn::linear(g, "a", g.input("x", [8, 16], F32), 16);
            let h = nn::batch_norm(g, "bn", h, nn::BatchNorm::default()).relu();
            nn::layer_norm(g, "ln", nn::linear(g, "b", h, 16), 1e-5).gelu().dropout(0.1)
        }),
        net("attention", |g| {
            let x = g.input("x", [8, 6, 16], F32);
            let head = |name| nn::linear(g, name, x, 16).reshape([8, 6, 4, 4]).transpose(&[0, 2, 1, 3]);
            head("q").attention(head("k"), head("v"), Attention::default()).sum(1).mean(1)
        }),
        net("loop", |g| {
            let (w, u) =
                (g.param("w", [16, 12], F32, Init::Uniform(0.3)), g.param("u", [12, 12], F32, Init::Uniform(0.3)));
            let (start, x) = (g.full(0.0, [8, 12], F32), g.input("x", [6, 8, 16], F32));
            g.scan(&[start], &[x], |c, x| (vec![(x[0].matmul(w) + c[0].matmul(u)).tanh()], vec![])).0[0]
        }),
        net("lstm", |g| {
            let zeros = || g.full(0.0, [8, 12], F32);
            nn::lstm(g, "l", g.input("x", [6, 8, 16], F32), zeros(), zeros()).0.mean(0)
        }),
        net("branch", |g| {
            let x = g.input("x", [8, 16], F32);
            let w = g.param("w", [16], F32, Init::Ones);
            g.cond(x.sum(..).greater(0.0), || vec![(x * w).tanh()], || vec![(x * w).exp()])[0]
        }),
    ]
}

/// Operations of a step, and the params after three steps on fixed numbers.
fn trained(g: &GraphBuf) -> (u64, Vec<Vec<f32>>) {
    let mut p = Session::new().compile(g).unwrap();
    p.init(1).unwrap();
    for (i, x) in p.values_mut::<f32>("x").unwrap().iter_mut().enumerate() {
        *x = ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0;
    }
    p.values_mut::<i32>("y").unwrap().iter_mut().enumerate().for_each(|(i, y)| *y = (i * 3 % 10) as i32);
    for _ in 0..3 {
        p.step().unwrap();
    }
    let names: Vec<&str> = g.view().leaves().filter(|l| l.kind == LeafKind::Param).map(|l| l.name).collect();
    (p.plan().flops, names.iter().map(|name| p.values::<f32>(name).unwrap().to_vec()).collect())
}

#[test]
fn gradients_that_are_there_are_not_computed_again() {
    for (name, graph) in nets() {
        let once = train(&graph, "loss", Sgd::new(0.1)).unwrap();
        let with_grads = graph.grad("loss", &GradOptions::default()).unwrap();
        let twice = train(&with_grads, "loss", Sgd::new(0.1)).unwrap();
        let ((flops, params), (again, same)) = (trained(&once), trained(&twice));
        assert_eq!(again, flops, "{name}: operations");
        assert_eq!(same, params, "{name}: params");
    }
}
