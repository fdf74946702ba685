//! Graphs for a batch: gradients of single examples, ensembles, batches in batches, loops and choices in them, random
//! numbers, and wrong use. The conformance suite batches every op.

use arenagrad::graph::{Missing, Randomness, Vmap, one_by_one_ops, vmap};
use arenagrad::nn::CausalSelfAttention;
use arenagrad::optim::Rule;
use arenagrad::prelude::*;
use arenagrad::tools::ir::text;
use std::collections::BTreeMap;

const F64: DType = DType::F64;

/// Tensors by the names of leaves and outputs.
type Values = BTreeMap<String, Vec<f64>>;

/// Numbers between −1 and 1.
fn draws(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 37 + seed * 101 + 11) as f64 * 0.618).sin()).collect()
}

/// One step of `g` with these leaves; all outputs.
fn step(g: &GraphBuf, session: Session, leaves: &Values) -> Values {
    let mut p = session.compile(g).unwrap();
    p.init(5).unwrap();
    leaves.iter().for_each(|(name, x)| p.values_mut::<f64>(name).unwrap().copy_from_slice(x));
    p.step().unwrap();
    let v = g.view();
    let names =
        v.output_names.iter().map(|&n| v.str(n)).filter(|n| v.dtype[v.find_output(n).unwrap().0 as usize] == F64);
    names.map(|name| (name.to_string(), p.values::<f64>(name).unwrap().to_vec())).collect()
}

#[track_caller]
fn assert_near(have: &[f64], want: &[f64], what: &str) {
    assert_eq!(have.len(), want.len(), "{what}");
    let off = have.iter().zip(want).find(|(a, b)| (*a - *b).abs() > 1e-12 * b.abs().max(1.0));
    assert!(off.is_none(), "{what}: {have:?} and not {want:?}");
}

/// The params of `g`, drawn.
fn drawn_params(g: &GraphBuf) -> Values {
    let v = g.view();
    let params = v.leaves().filter(|l| l.kind == arenagrad::graph::LeafKind::Param).enumerate();
    params.map(|(i, l)| (l.name.to_string(), draws(v.numel(l.value), i + 3))).collect()
}

/// Examples of `x`, one by one and all at once, give `one` and its batch the same gradients.
fn check_examples(one: &GraphBuf, n: usize, x: &str, len: usize) {
    let shared = drawn_params(one);
    let all = one.vmap(&Vmap::new(n).leaf(x, 0)).unwrap();
    let with = |x_values: Vec<f64>| {
        let mut leaves = shared.clone();
        leaves.insert(x.to_string(), x_values);
        leaves
    };
    let have = step(&all, Session::new(), &with(draws(n * len, 1)));
    for (name, have) in &have {
        let mut want = Vec::new();
        for i in 0..n {
            let example = with(draws(n * len, 1)[i * len..(i + 1) * len].to_vec());
            want.extend(step(one, Session::new(), &example)[name].clone());
        }
        assert_near(have, &want, name);
    }
}

#[test]
fn gradients_of_single_examples_of_a_network() {
    let g = Builder::new("mlp");
    let x = g.input("x", [4], F64);
    let h = nn::linear(&g, "first", x.reshape([1, 4]), 6).tanh();
    let y = nn::linear(&g, "second", h, 3);
    let graph = g.finish([y.square().mean(..).named("loss")]).unwrap();
    check_examples(&graph.grad("loss", &GradOptions::default()).unwrap(), 5, "x", 4);
}

#[test]
fn gradients_of_single_examples_of_convolution_norm_and_attention() {
    let g = Builder::new("block");
    let x = g.input("x", [1, 2, 6, 6], F64);
    let h = nn::conv2d(&g, "conv", x, 4, 3, Conv2d::default().padding([1, 1])).relu();
    let h = h.max_pool2d(Pool2d::new(2)).reshape([1, 4, 9]).transpose(&[0, 2, 1]);
    let h = nn::layer_norm(&g, "norm", h, 1e-5);
    let h = nn::causal_self_attention(&g, "attention", h, CausalSelfAttention::new(2));
    let graph = g.finish([h.square().mean(..).named("loss")]).unwrap();
    check_examples(&graph.grad("loss", &GradOptions::default()).unwrap(), 5, "x", 72);
}

/// A member is itself a batch of two sequences, and one bias is for both.
#[test]
fn attention_of_members_whose_sequences_share_a_bias() {
    let g = Builder::new("biased");
    let x = g.input("x", [2, 2, 3, 4], F64);
    let bias = g.param("bias", [1, 1, 3, 3], F64, Init::Zeros);
    let y = x.attention(x.sin(), x, Attention::default().bias(bias));
    check_examples(&g.finish([y.named("y")]).unwrap(), 3, "x", 48);
}

#[test]
fn norms_of_members_are_one_norm() {
    for (norm, leaf) in [("layer_norm", "x"), ("layer_norm", "gamma"), ("rms_norm", "x"), ("rms_norm", "beta")] {
        let g = Builder::new("norm");
        let x = g.input("x", [2, 5], F64);
        let [gamma, beta] = ["gamma", "beta"].map(|name| g.param(name, [5], F64, Init::Ones));
        let y = if norm == "layer_norm" { x.layer_norm(gamma, beta, 1e-5) } else { x.rms_norm(gamma, beta, 1e-5) };
        let all = g.finish([y.named("y")]).unwrap().vmap(&Vmap::new(3).leaf(leaf, 0)).unwrap();
        assert!(one_by_one_ops(&all).is_empty(), "{norm}, {leaf}: {all}");
        assert_eq!(all.to_string().matches(&format!("= {norm} ")).count(), 1, "{norm}, {leaf}: {all}");
        // What members share is applied by the norm itself.
        assert_eq!(all.to_string().contains("= mul "), leaf != "x", "{norm}, {leaf}: {all}");
    }
}

/// A regression on a batch, with its optimiser.
fn training() -> GraphBuf {
    let g = Builder::new("net");
    let (x, y) = (g.input("x", [8, 3], F64), g.input("y", [8, 2], F64));
    let h = nn::linear(&g, "first", x, 5).tanh();
    let loss = (nn::linear(&g, "second", h, 2) - y).square().mean(..);
    let graph = g.finish([loss.named("loss")]).unwrap();
    train(&graph, "loss", Optimiser::new(Rule::ADAM, 0.05).clip_norm(0.1)).unwrap()
}

#[test]
fn an_ensemble_trains_as_its_members_alone() {
    const MEMBERS: usize = 4;
    let one = training();
    let v = one.view();
    let own: Vec<&str> = v.leaves().filter(|l| l.name != "x" && l.name != "y").map(|l| l.name).collect();
    let all = one.vmap(&Vmap::new(MEMBERS).leaves(&own)).unwrap();
    let mut ensemble = Session::new().compile(&all).unwrap();
    ensemble.init(3).unwrap();
    let (x, y) = (draws(24, 1), draws(16, 2));
    let first = ensemble.values::<f64>("first.weight").unwrap().to_vec();
    // The members start apart.
    assert_ne!(first[..15], first[15..30]);
    let starts: Values =
        own.iter().filter_map(|&n| Some((n.into(), ensemble.values::<f64>(n).ok()?.to_vec()))).collect();
    let mut losses = Vec::new();
    for _ in 0..4 {
        ensemble.values_mut::<f64>("x").unwrap().copy_from_slice(&x);
        ensemble.values_mut::<f64>("y").unwrap().copy_from_slice(&y);
        ensemble.step().unwrap();
        losses.push(ensemble.values::<f64>("loss").unwrap().to_vec());
    }
    assert!(losses[3].iter().zip(&losses[0]).all(|(late, early)| late < early), "{losses:?}");
    for m in 0..MEMBERS {
        let mut alone = Session::new().compile(&one).unwrap();
        alone.init(3).unwrap();
        for (name, start) in &starts {
            let len = start.len() / MEMBERS;
            alone.values_mut::<f64>(name).unwrap().copy_from_slice(&start[m * len..(m + 1) * len]);
        }
        for losses in &losses {
            alone.values_mut::<f64>("x").unwrap().copy_from_slice(&x);
            alone.values_mut::<f64>("y").unwrap().copy_from_slice(&y);
            alone.step().unwrap();
            assert_near(alone.values::<f64>("loss").unwrap(), &[losses[m]], "loss");
        }
        let have = ensemble.values::<f64>("second.weight").unwrap();
        assert_near(&have[m * 10..(m + 1) * 10], alone.values::<f64>("second.weight").unwrap(), "second.weight");
    }
}

#[test]
fn a_batch_of_batches_is_a_table_of_all_pairs() {
    let g = Builder::new("kernel");
    let (x, y) = (g.input("x", [3], F64), g.input("y", [3], F64));
    let graph = g.finish([(-(x - y).square().sum(..)).exp().named("k")]).unwrap();
    let rows = graph.vmap(&Vmap::new(4).leaf("y", -1)).unwrap();
    let table = rows.vmap(&Vmap::new(2).leaf("x", 0).output("k", 1)).unwrap();
    assert_eq!(table.view().dims(table.view().find_output("k").unwrap())[..], [4, 2]);
    let (x, y) = (draws(6, 1), draws(12, 2));
    let leaves = Values::from([("x".into(), x.clone()), ("y".into(), y.clone())]);
    let k = &step(&table, Session::new(), &leaves)["k"];
    for (i, j) in (0..4).flat_map(|i| (0..2).map(move |j| (i, j))) {
        let distance: f64 = (0..3).map(|d| (x[j * 3 + d] - y[d * 4 + i]).powi(2)).sum();
        assert_near(&[k[i * 2 + j]], &[(-distance).exp()], "k");
    }
}

#[test]
fn a_jacobian_is_one_sweep_of_a_batch() {
    let sizes = |rows: usize, columns: usize| {
        let g = Builder::new("map");
        let (a, x) = (g.input("a", [rows, columns], F64), g.input("x", [columns, 1], F64));
        let y = a.matmul(x).tanh().reshape([rows]);
        (g.finish([y.named("y")]).unwrap().jacobian("y", "x").unwrap(), rows, columns)
    };
    let mut nodes = Vec::new();
    // More results than arguments, and fewer.
    for (graph, rows, columns) in [sizes(1000, 200), sizes(20, 30), sizes(2, 3), sizes(1, 1), sizes(0, 3), sizes(3, 0)]
    {
        let (a, x) = (draws(rows * columns, 1), draws(columns, 2));
        let leaves = Values::from([("a".into(), a.clone()), ("x".into(), x.clone())]);
        let have = step(&graph, Session::new(), &leaves);
        let slope = |i: usize| 1.0 - have["y"][i] * have["y"][i];
        let want: Vec<f64> = (0..rows * columns).map(|k| a[k] * slope(k / columns)).collect();
        assert_near(&have["jacobian.x"], &want, "jacobian.x");
        nodes.push((rows > columns, graph.view().nodes()));
    }
    assert!(nodes[0].1 == nodes[5].1 && nodes[1].1 == nodes[2].1, "{nodes:?}");
    // The Hessian of a program that draws: the same draws in all sweeps.
    let g = Builder::new("drops");
    let x = g.input("x", [6], F64);
    let loss = (nn::dropout(x, 0.5) * x * x).sum(..);
    let graph = g.finish([loss.named("loss")]).unwrap().grad("loss", &GradOptions::wrt(&["x"])).unwrap();
    let hessian =
        step(&graph.jacobian("grad.x", "x").unwrap(), Session::new(), &Values::from([("x".into(), draws(6, 1))]));
    let (h, first) = (&hessian["jacobian.x"], &hessian["grad.x"]);
    for (i, j) in (0..6).flat_map(|i| (0..6).map(move |j| (i, j))) {
        // The loss is 2x³ or 0 in each element: the second derivative is twice the first over x.
        let want = if i == j { 2.0 * first[i] / draws(6, 1)[i] } else { 0.0 };
        assert_near(&[h[i * 6 + j]], &[want], "hessian");
    }
}

#[test]
fn members_draw_what_the_caller_says() {
    let g = Builder::new("noise");
    let x = g.input("x", [64], F64);
    let graph = g.finish([nn::dropout(x, 0.5).named("y")]).unwrap();
    let ones = Values::from([("x".to_string(), vec![1.0; 3 * 64])]);
    let rows = |randomness| {
        let all = graph.vmap(&Vmap::new(3).leaf("x", 0).randomness(randomness)).unwrap();
        step(&all, Session::new(), &ones)["y"].clone()
    };
    let one = step(&graph, Session::new(), &Values::from([("x".to_string(), vec![1.0; 64])]))["y"].clone();
    let same = rows(Randomness::Same);
    assert!(same.chunks(64).all(|row| row == one));
    let different = rows(Randomness::Different);
    assert!(different[..64] != different[64..128] && different[64..128] != different[128..]);
    let e = graph.vmap(&Vmap::new(3).leaf("x", 0)).unwrap_err().to_string();
    assert!(e.contains("rng_uniform draws random numbers; say whether members draw the same or different ones"), "{e}");
    assert!(e.contains("tests/graphs/vmap.rs"), "{e}");
    // A closure draws in each iteration anew.
    let g = Builder::new("noise");
    let x = g.input("x", [3, 64], F64);
    let graph = g.finish([g.vmap(&[x], |x| vec![nn::dropout(x[0], 0.5)])[0].named("y")]).unwrap();
    let y = &step(&graph, Session::new(), &ones)["y"];
    assert!(y[..64] != y[64..128] && y[64..128] != y[128..]);
    assert_eq!(*y, step(&graph, Session::new().optimise(false), &ones)["y"]);
}

/// A scan whose body is a choice, of which one branch batches a loop of a length known at run time, over a custom
/// function.
fn all_at_once() -> GraphBuf {
    let g = Builder::new("all at once");
    let (w, x) = (g.input("w", [], F64), g.input("x", [4, 3], F64));
    let start = g.full(0.5, [3], F64);
    let (last, _) = g.scan(&[start, g.full(0.0, [], DType::I32)], &[x], |c, x| {
        let (state, i) = (c[0], c[1]);
        let odd = i.bitwise_and(g.full(1.0, [], DType::I32)).equal(1.0);
        let batched = || {
            g.vmap(&[state, x[0]], |m| {
                let (s, x) = (m[0], m[1]);
                let zero = g.full(0.0, [], F64);
                // Each member goes on for a number of iterations of its own.
                let (carries, _) = g.while_loop(
                    &[s, zero],
                    3,
                    |c| (c[1] * 0.5).less(x.abs()),
                    |c| {
                        let bent = g.custom_fn("bend", &[c[0], w], |a| vec![(a[0] * a[1]).tanh()]);
                        let bent = bent.vjp(|_, a, y, ct| {
                            let slope = (1.0 - y[0] * y[0]) * ct[0];
                            vec![Some(slope * a[1]), Some(slope * a[0])]
                        });
                        vec![bent.call()[0] + x, c[1] + 1.0]
                    },
                );
                vec![carries[0]]
            })
        };
        let next = g.cond(odd, batched, || vec![state.sin() * w]);
        (vec![next[0], i + 1.0], vec![])
    });
    let graph = g.finish([last[0].square().sum(..).named("loss")]).unwrap();
    let first = graph.grad("loss", &GradOptions::wrt(&["w", "x"])).unwrap();
    let first = first.rename("grad.w", "slope.w").unwrap().rename("grad.x", "slope.x").unwrap();
    first.vjp(&["slope.w"], &["w", "x"], Missing::Zero).unwrap()
}

#[test]
fn every_kind_of_region_in_one_program() {
    let graph = all_at_once();
    let mut leaves = Values::from([("w".to_string(), vec![0.7]), ("x".to_string(), draws(12, 4))]);
    for l in
        graph.view().leaves().filter(|l| !leaves.contains_key(l.name)).map(|l| l.name.to_string()).collect::<Vec<_>>()
    {
        leaves.insert(l, vec![1.0]);
    }
    let plain = step(&graph, Session::new(), &leaves);
    assert!(plain.values().flatten().all(|x| x.is_finite()) && plain["loss"][0] > 0.0);
    for threads in [1, 2, 3, 7] {
        for poison in [false, true] {
            let session = Session::new().threads(threads).share(true).poison(poison);
            assert_eq!(step(&graph, session, &leaves), plain, "{threads} threads, poison {poison}");
        }
    }
    // The loops one iteration after another, and the graph without any.
    let slow = step(&graph, Session::new().optimise(false), &leaves);
    let unrolled = arenagrad::tools::passes::ad::prepare::flatten_regions(&graph).unwrap();
    let flat = step(&unrolled, Session::new(), &leaves);
    for (name, have) in &plain {
        assert_near(have, &slow[name], name);
        assert_near(have, &flat[name], name);
    }
    // The whole program for a batch of two, in which `w` differs.
    let both = graph.vmap(&Vmap::new(2).leaf("w", 0)).unwrap();
    let mut pair = leaves.clone();
    pair.insert("w".to_string(), vec![0.7, -0.3]);
    let have = step(&both, Session::new(), &pair);
    let mut other = leaves.clone();
    other.insert("w".to_string(), vec![-0.3]);
    let other = step(&graph, Session::new(), &other);
    for (name, have) in &have {
        assert_near(have, &[plain[name].clone(), other[name].clone()].concat(), name);
    }
}

#[test]
fn a_branch_that_a_member_does_not_take_gives_an_exact_zero() {
    let g = Builder::new("root");
    let x = g.input("x", [], F64);
    let y = g.cond(x.greater(0.0), || vec![x.sqrt()], || vec![x * 0.0]);
    let graph = g.finish([y[0].named("y")]).unwrap().grad("y", &GradOptions::wrt(&["x"])).unwrap();
    let graph = graph.rename("grad.x", "slope").unwrap();
    let twice = graph.grad("slope", &GradOptions::wrt(&["x"])).unwrap();
    let all = twice.vmap(&Vmap::new(3).leaf("x", 0)).unwrap();
    let have = step(&all, Session::new(), &Values::from([("x".to_string(), vec![-1.0, 4.0, 0.0])]));
    assert_eq!(have["slope"], [0.0, 0.25, 0.0]);
    assert_eq!(have["grad.x"], [0.0, -0.03125, 0.0]);
    // The other order: the gradient of the sum over a batch.
    let g = Builder::new("roots");
    let x = g.input("x", [3], F64);
    let roots = g.vmap(&[x], |x| g.cond(x[0].greater(0.0), || vec![x[0].sqrt()], || vec![x[0] * 0.0]));
    let graph = g.finish([roots[0].sum(..).named("y")]).unwrap();
    let graph = graph.grad("y", &GradOptions::wrt(&["x"])).unwrap();
    let have = step(&graph, Session::new(), &Values::from([("x".to_string(), vec![-1.0, 4.0, 0.0])]));
    assert_eq!(have["grad.x"], [0.0, 0.25, 0.0]);
}

#[test]
fn values_keep_their_names_in_a_batch() {
    let g = Builder::new("names");
    let h = g.input("x", [2], F64).sin().named("h");
    let graph = g.finish([(h * h).sum(..).named("y")]).unwrap();
    let all = graph.vmap(&Vmap::new(3).leaf("x", 0)).unwrap();
    let back = all.vjp(&["y"], &["h"], Missing::Error).unwrap();
    let x = draws(6, 1);
    let want: Vec<f64> = x.iter().map(|x| 2.0 * x.sin()).collect();
    let leaves = Values::from([("x".to_string(), x), ("cotangent.y".to_string(), vec![1.0; 3])]);
    assert_near(&step(&back, Session::new(), &leaves)["grad.h"], &want, "grad.h");
}

/// A function with a rule keeps it, and one without a rule is written out.
#[test]
fn rules_of_functions_in_a_closure_count() {
    let g = Builder::new("rules");
    let x = g.input("x", [3, 2], F64);
    let y = g.vmap(&[x], |m| {
        let plain = g.custom_fn("plain", &[m[0]], |a| vec![a[0].sin()]).call()[0];
        let steps = g.custom_fn("steps", &[m[0]], |a| vec![a[0].round()]);
        let steps = steps.vjp(|_, _, _, ct| vec![Some(ct[0] * 3.0)]).call()[0];
        vec![plain + steps]
    });
    let graph = g.finish([y[0].sum(..).named("loss")]).unwrap();
    let first = graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap();
    let x = draws(6, 1);
    let want: Vec<f64> = x.iter().map(|x| x.cos() + 3.0).collect();
    let leaves = Values::from([("x".to_string(), x)]);
    assert_near(&step(&first, Session::new(), &leaves)["grad.x"], &want, "grad.x");
}

#[test]
fn start_values_and_defaults_stay() {
    let g = Builder::new("starts");
    let list = g.start_values(&[1.0, 2.0, 3.0, 4.0]);
    let (w, x) = (g.param("w", [2, 2], F64, list), g.input_or("x", [], F64, 7.0));
    let graph = g.finish([(w * x).named("y")]).unwrap();
    let all = graph.vmap(&Vmap::new(2).leaf("w", 1).leaf("x", 0).output("y", -1)).unwrap();
    let mut p = Session::new().compile(&all).unwrap();
    p.init(0).unwrap();
    assert_eq!(p.values::<f64>("w").unwrap(), [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    p.step().unwrap();
    assert_eq!(p.values::<f64>("y").unwrap(), [7.0, 7.0, 14.0, 14.0, 21.0, 21.0, 28.0, 28.0]);
}

/// A state whose members lie along its second axis is updated along that axis.
#[test]
fn updates_follow_the_axis_of_their_state() {
    let g = Builder::new("sums");
    let (sum, x) = (g.state("sum", [3], F64, Init::Zeros), g.input("x", [3], F64));
    g.update(sum, sum + x);
    let graph = g.finish([(sum * 2.0).named("y")]).unwrap();
    let all = graph.vmap(&Vmap::new(2).leaf("sum", 1).leaf("x", 0)).unwrap();
    let mut p = Session::new().compile(&all).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
    p.step().unwrap();
    assert_eq!(p.values::<f64>("sum").unwrap(), [1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
}

#[test]
fn wrong_use_is_an_error() {
    let g = Builder::new("wrong");
    let (x, w) = (g.input("x", [3], F64), g.param("w", [3, 3], F64, Init::Eye));
    let count = g.state("count", [], F64, Init::Zeros);
    g.update(count, count + x.sum(..));
    let y = w.matmul(x.reshape([3, 1]));
    let graph = g.finish([y.named("y")]).unwrap();
    let refused = |map: Vmap<'_>, want: &str| {
        let e = vmap(&graph, &map).unwrap_err().to_string();
        assert!(e.contains(want), "{e}");
    };
    refused(Vmap::new(2).leaf("z", 0), "no leaf is called \"z\"");
    refused(Vmap::new(2).leaf("x", 0).leaf("x", 1), "vmap: leaf \"x\" is given twice");
    refused(Vmap::new(2).leaf("x", 2), "axis 2 of leaf \"x\" is outside its rank with the batch's axis, 2");
    refused(Vmap::new(2).leaf("x", -3), "axis -3 of leaf \"x\"");
    refused(Vmap::new(2).leaf("count", 0).output("y", 4), "axis 4 of output \"y\"");
    refused(Vmap::new(2).leaf("count", 0).output("z", 4), "no output is called \"z\"");
    refused(Vmap::new(2).leaf("x", 0), "all members share \"count\", and its update differs between them");
    refused(Vmap::new(2).leaf("w", 0), "the start values of \"w\", eye, are those of one matrix");
    refused(Vmap::new(usize::MAX / 2).leaf("x", 0).leaf("count", 0), "vmap of leaf \"x\": a tensor of shape");
    let built = |f: &dyn for<'g> Fn(&'g Builder) -> Vec<Var<'g>>, want: &str| {
        let g = Builder::new("wrong");
        f(&g);
        let e = g.finish([]).unwrap_err().to_string();
        assert!(e.contains(want) && e.contains("tests/graphs/vmap.rs"), "{e}");
    };
    built(&|g| g.vmap(&[], |x| x.to_vec()), "vmap: the number of members is that of the slices of the operands");
    built(&|g| g.vmap(&[g.input("x", [], F64)], |x| x.to_vec()), "vmap: operand 0 is a scalar");
    built(
        &|g| g.vmap(&[g.input("x", [2], F64), g.input("y", [3], F64)], |x| vec![x[0] + x[1]]),
        "stacked input 1 has 3 slices, and the loop 2 iterations",
    );
    let e = text::parse(
        "graph \"g\"\nregion @r(%0: f64[]) { yield %0 }\n%x = input \"x\" f64[]\n%y = scan(%x) body=@r carries=1 consts=0 length=2 reverse=false at_once=true\noutput y = %y\n",
    );
    assert!(e.is_err());
}
