//! Steps behind the products that are their gradients: the bits of a product and a step, less memory, and where a
//! gradient is wanted for more than its step, no change.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::optim::{Adam, AdamW, Group, LR, Optimiser, Rule, Sgd, train};
use arenagrad::session::{Elem, Session};
use arenagrad::tools::passes::pipeline;

/// An MLP of params `w0`, `w1`, …: a batch, then widths.
fn mlp(dtype: DType, [batch, sizes @ ..]: [usize; 4]) -> GraphBuf {
    let g = Builder::new("mlp");
    let mut x = g.input("x", [batch, sizes[0]], dtype);
    for (i, s) in sizes.windows(2).enumerate() {
        // One weight as it is multiplied, the next one turned: gradients of both kinds.
        let turned = i % 2 == 1;
        let dims = if turned { [s[1], s[0]] } else { [s[0], s[1]] };
        x = x.matmul_t(g.param(&format!("w{i}"), dims, dtype, Init::Normal(0.1)), false, turned).tanh();
    }
    let y = g.input("y", x.dims(), dtype);
    g.finish([((x - y) * x).mean(..).named("loss")]).unwrap()
}

/// All rules that have a kernel, with the op that each becomes.
fn rules() -> [(Rule, &'static str); 8] {
    let sgd = |momentum, dampening, nesterov, weight_decay| {
        Sgd::new(0.1).momentum(momentum).dampening(dampening).nesterov(nesterov).weight_decay(weight_decay).rule()
    };
    let adam = |betas, eps, weight_decay| Adam::new(0.1).betas(betas).eps(eps).weight_decay(weight_decay).rule();
    [
        (sgd(0.0, 0.0, false, 0.0), "matmul_sgd"),
        (sgd(0.0, 0.0, false, 0.1), "matmul_sgd"),
        (sgd(0.9, 0.0, false, 0.0), "matmul_sgd_momentum"),
        (sgd(0.9, 0.0, true, 0.1), "matmul_sgd_momentum"),
        (sgd(0.8, 0.3, false, 0.1), "matmul_sgd_momentum"),
        (adam((0.9, 0.999), 1e-8, 0.0), "matmul_adam"),
        (adam((0.3, 0.99), 1e-3, 0.1), "matmul_adam"),
        (AdamW::new(0.1).weight_decay(0.1).rule(), "matmul_adam"),
    ]
}

fn count(g: &GraphBuf, op: &str) -> usize {
    let g = g.view();
    g.region_nodes(g.entry()).filter(|&n| g.def_of(n).name == op).count()
}

/// How many nodes of op `op` a step by `opt` has.
fn behind(graph: &GraphBuf, opt: impl Into<Optimiser>, op: &str) -> usize {
    count(&pipeline::run_whole_pipeline(train(graph, "loss", opt).unwrap().view()).unwrap(), op)
}

/// Bytes of all params and states after some steps of a graph that is ready to be lowered.
fn trained<T: Elem + Copy>(ready: &GraphBuf, threads: usize, number: fn(f64) -> T) -> Vec<u8> {
    let mut p =
        Session::new().optimise(false).poison(threads == 1).threads(threads).share(true).compile(ready).unwrap();
    p.init(3).unwrap();
    p.values_mut::<T>(LR).unwrap()[0] = number(0.01);
    for name in ["x", "y"] {
        let x = p.values_mut::<T>(name).unwrap();
        let noise = |i: usize| f64::from((i as u32).wrapping_mul(2_654_435_761) >> 8) / 8_388_608.0 - 1.0;
        x.iter_mut().enumerate().for_each(|(i, x)| *x = number(noise(i)));
    }
    (0..4).for_each(|_| p.step().unwrap());
    p.persistent().flat_map(|(_, bytes)| bytes.to_vec()).collect()
}

fn same_bits<T: Elem + Copy>(dtype: DType, sizes: [usize; 4], threads: &[usize], number: fn(f64) -> T) {
    for (rule, op) in rules() {
        let step = train(mlp(dtype, sizes).view(), "loss", Optimiser::new(rule, 0.01)).unwrap();
        let fused = pipeline::run_whole_pipeline(&step).unwrap();
        assert_eq!(count(&fused, op), 2, "{rule:?}");
        let names: Vec<&str> = pipeline::pipeline_passes().into_iter().filter(|p| *p != "patterns").collect();
        let apart = pipeline::run_pipeline(&step, &names, true).unwrap().0;
        assert_eq!(count(&apart, op), 0);
        let want = trained(&apart, 1, number);
        for &threads in threads {
            assert!(trained(&fused, threads, number) == want, "{rule:?} {dtype} {sizes:?} on {threads} threads");
        }
    }
}

/// One block, several with odd ends, sums that are cut, vectors.
#[test]
fn a_step_behind_a_product_has_the_bits_of_both() {
    for sizes in [[3, 4, 5, 6], [67, 131, 259, 70], [1, 40, 30, 20], [1, 1, 9, 1]] {
        same_bits(DType::F32, sizes, &[1, 2, 3, 7], |x| x as f32);
        same_bits(DType::F64, sizes, &[1, 2, 3, 7], |x| x);
    }
    same_bits(DType::F32, [600, 620, 610, 640], &[1, 7], |x| x as f32);
}

/// Blocks of rows of A, and blocks of B, in place and packed.
#[test]
fn blocks_of_all_kinds_have_the_bits_of_the_product() {
    same_bits(DType::F32, [64, 1030, 1100, 300], &[1, 2], |x| x as f32);
}

#[test]
fn gradients_of_a_large_network_need_no_memory() {
    let graph = mlp(DType::F32, [8, 512, 1024, 1024]);
    let weights = 4 * (512 * 1024 + 1024 * 1024);
    for (rule, states) in [(rules()[2].0, 1), (rules()[5].0, 2)] {
        let step = train(&graph, "loss", Optimiser::new(rule, 0.01)).unwrap();
        let bytes = Session::new().plan(&step).unwrap().arena_bytes;
        // Operands and scratch are some tens of KiB a layer; the smaller gradient alone would be 2 MiB.
        let most = (1 + states) * weights + (1 << 20);
        assert!(bytes < most, "{rule:?}: {bytes} bytes where params and states take {}", (1 + states) * weights);
    }
}

/// Where sums are long, blocks for each thread would need more than the gradient.
#[test]
fn long_batches_need_no_more_memory() {
    for rule in [rules()[0].0, rules()[2].0, rules()[5].0] {
        let step = train(mlp(DType::F32, [6000, 64, 48, 10]).view(), "loss", Optimiser::new(rule, 0.01)).unwrap();
        let names: Vec<&str> = pipeline::pipeline_passes().into_iter().filter(|p| *p != "patterns").collect();
        let apart = pipeline::run_pipeline(&step, &names, true).unwrap().0;
        let fused = pipeline::run_whole_pipeline(&step).unwrap();
        let [apart, fused] =
            [apart, fused].map(|g| Session::new().optimise(false).threads(7).plan(&g).unwrap().arena_bytes);
        assert!(fused <= apart, "{rule:?}: {fused} bytes, {apart} without patterns");
    }
}

#[test]
fn a_gradient_that_is_wanted_for_more_stays() {
    let (graph, adam) = (mlp(DType::F32, [4, 5, 6, 7]), Adam::new(0.01));
    assert_eq!(behind(&graph, &adam, "matmul_adam"), 2);
    assert_eq!(behind(&graph, adam.clone().clip_norm(1.0), "matmul_adam"), 0);
    let lion = Group::default().rule(Rule::LION);
    assert_eq!(behind(&graph, adam.clone().group("w0", lion), "matmul_adam"), 1);
    assert_eq!(behind(&graph, adam.clone().accumulate(2), "matmul_adam"), 0);
    // A param that is read twice has a sum of products for a gradient.
    let g = Builder::new("tied");
    let (x, w) = (g.input("x", [3, 5], DType::F32), g.param("w", [5, 5], DType::F32, Init::Ones));
    let tied = g.finish([x.matmul(w).tanh().matmul(w).sum(..).named("loss")]).unwrap();
    // A gradient that is smaller than what it is made of.
    let wide = mlp(DType::F32, [40, 5, 6, 7]);
    assert_eq!((behind(&wide, &adam, "matmul_adam"), behind(&wide, Sgd::new(0.01), "matmul_sgd")), (0, 2));
    assert_eq!(behind(&tied, &adam, "matmul_adam"), 0);
}
