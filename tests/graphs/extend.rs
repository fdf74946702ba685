//! Nodes added to a graph: names, random draws, updates, and wrong use.

use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GradOptions, Init, Missing};
use arenagrad::session::Session;
use arenagrad::train::Sampling;

const F64: DType = DType::F64;

/// The gradient of |∇f|² for f = Σ w·x³ is computed from a graph that was differentiated and extended.
#[test]
fn a_loss_of_gradients_is_differentiated_again() {
    let g = Builder::new("cubes");
    let (x, w) = (g.input("x", [3], F64), g.param("w", [], F64, Init::Constant(0.5)));
    let graph = g.finish([(w * x * x * x).sum(..).named("f")]).unwrap();
    let graph = graph.grad("f", &GradOptions::wrt(&["x"])).unwrap();
    let graph = graph.extend(|_, value| vec![value("grad.x").square().sum(..).named("loss")]).unwrap();
    // A second gradient by x does not go by a number while the name means the first.
    let e = graph.grad("loss", &GradOptions::wrt(&["w", "x"])).unwrap_err();
    assert!(e.kind == Kind::Name && e.message.starts_with("grad: \"grad.x\" is in the graph already"), "{e}");
    let e = graph.vjp(&["loss"], &["x"], Missing::Zero).unwrap_err();
    assert!(e.kind == Kind::Name && e.message.contains("give that one another name with rename(\"grad.x\", …)"), "{e}");
    assert!(graph.rename("slope", "y").is_err() && graph.rename("grad.x", "loss").is_err());
    assert!(graph.rename("grad.x", "w").is_err());
    let graph = graph.rename("grad.x", "slope").unwrap();
    let graph = graph.grad("loss", &GradOptions::wrt(&["x", "w"])).unwrap();
    for threads in [1, 3] {
        let mut p = Session::new().threads(threads).compile(&graph).unwrap();
        p.init(0).unwrap();
        let at = [0.5, -1.0, 2.0];
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&at);
        p.step().unwrap();
        // ∇f = 3w·x², so the loss is 9w²·Σx⁴.
        let near = |name: &str, want: &[f64]| {
            let have = p.values::<f64>(name).unwrap();
            assert!(have.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12 * b.abs().max(1.0)), "{name}: {have:?}");
        };
        let fourth: f64 = at.iter().map(|x| x.powi(4)).sum();
        near("loss", &[2.25 * fourth]);
        near("grad.w", &[9.0 * fourth]);
        near("grad.x", &at.map(|x| 9.0 * x.powi(3)));
        near("slope", &at.map(|x| 1.5 * x * x));
    }
}

#[test]
fn leaves_outputs_and_updates_are_added_to_those_there() {
    let g = Builder::new("count");
    let n = g.state("n", [], DType::I64, Init::Zeros);
    g.update(n, n + 1.0);
    let graph = g.finish([n.named("before")]).unwrap();
    let graph = graph
        .extend(|g, value| {
            let (more, seen) = (g.input("more", [], DType::I64), g.state("seen", [], DType::I64, Init::Zeros));
            g.update(seen, seen + more);
            vec![(value("before") + value("n") + seen).named("sum")]
        })
        .unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(0).unwrap();
    p.values_mut::<i64>("more").unwrap()[0] = 10;
    for (n, sum) in [(1, 0), (2, 12), (3, 24)] {
        p.step().unwrap();
        assert_eq!(p.values::<i64>("sum").unwrap(), [sum]);
        assert_eq!(p.values::<i64>("n").unwrap(), [n]);
    }
}

/// Random draws of the added part have streams of their own, whatever was left out of the graph before.
#[test]
fn added_draws_differ_from_those_there() {
    let g = Builder::new("noise");
    // Values that nothing reads are left out of the extended graph.
    for i in 0..20 {
        g.full(f64::from(i), [3], F64);
    }
    let graph = g.finish([g.uniform([8], F64).named("first")]).unwrap();
    let graph = graph.extend(|g, _| vec![g.uniform([8], F64).named("second")]).unwrap();
    let graph = graph.extend(|g, _| vec![g.uniform([8], F64).named("third")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(5).unwrap();
    p.step().unwrap();
    let drawn = ["first", "second", "third"].map(|name| p.values::<f64>(name).unwrap().to_vec());
    for (a, b) in [(0, 1), (1, 2), (0, 2)] {
        assert!(drawn[a].iter().all(|x| !drawn[b].contains(x)), "{drawn:?}");
    }
}

#[test]
fn wrong_extensions_are_refused() {
    let g = Builder::new("net");
    let x = g.input("x", [2], F64);
    let graph = g.finish([(x * 2.0).named("twice")]).unwrap();
    let e = graph.extend(|_, value| vec![value("twixe").named("y")]).unwrap_err().to_string();
    assert!(e.contains("no output is called \"twixe\"") && e.contains("twice"), "{e}");
    let e = graph.extend(|_, value| vec![(value("x") + 1.0).named("twice")]).unwrap_err().to_string();
    assert!(e.contains("twice"), "{e}");
    let e = graph.extend(|g, value| vec![value("twice").matmul(g.input("z", [3], F64))]).unwrap_err().to_string();
    assert!(e.contains("matmul") && e.contains("extend.rs"), "{e}");
}

#[test]
fn a_graph_whose_streams_are_used_up_is_not_extended() {
    let g = Builder::new("last");
    let (x, key) = (g.input("x", [4], DType::F32), g.input("key", [4], DType::U32));
    let graph = g.finish([x.sample_with_key(Sampling::default(), key, i64::MAX).named("token")]).unwrap();
    let e = graph.extend(|g, _| vec![g.full(0.0, [], F64).named("more")]).unwrap_err().to_string();
    assert!(e.contains("sample has stream 9223372036854775807") && e.contains("extend.rs"), "{e}");
}
