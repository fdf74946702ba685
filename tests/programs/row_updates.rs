//! Rows of tables: SGD, Adagrad and SparseAdam update the rows that a step reads, and no others.

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Vmap};
use arenagrad::nn;
use arenagrad::optim::{self, Group, Optimiser, train};
use arenagrad::session::{Program, Session};
use std::collections::BTreeMap;

const ROWS: usize = 40;
const WIDTH: usize = 3;

/// The loss Σ c · table[ids]: the gradient of a read row is its row of c.
fn gathered(dtype: DType) -> GraphBuf {
    let g = Builder::new("gathered");
    let table = g.param("table", [ROWS, WIDTH], dtype, Init::Normal(1.0));
    let term = |ids: &str, c: &str, k: &[usize]| {
        let dims = [k, &[WIDTH]].concat();
        (table.gather(g.input(ids, k, DType::I32), 0) * g.input(c, dims, dtype)).sum(..)
    };
    let loss = term("ids", "c", &[6]) + term("more_ids", "more_c", &[2, 2]);
    g.finish([loss.named("loss")]).unwrap()
}

fn compile(g: &GraphBuf, threads: usize) -> Program {
    let mut p = Session::new().threads(threads).compile(g).unwrap();
    p.init(7).unwrap();
    p
}

fn text(g: &GraphBuf) -> String {
    format!("{}", g.view())
}

/// The indices of step `t`: some are equal, within an input and between the two.
fn ids(t: i32) -> ([i32; 6], [i32; 4]) {
    ([3, 39, 3, t, 7, 3], [7, 20 + t, 3, 0])
}

/// Gradient rows of step `t`.
fn rows(t: i32, k: usize) -> Vec<f64> {
    (0..k * WIDTH).map(|i| f64::from((i as i32 * 37 + t * 11) % 17 - 8) / 7.0).collect()
}

/// Sums of the gradients of step `t` by row, in the order of the indices.
fn sums(t: i32) -> BTreeMap<usize, Vec<f32>> {
    let (a, b) = ids(t);
    let mut all = BTreeMap::new();
    // The gather that the loss reads last has its gradient first.
    for (ids, c) in [(&b[..], rows(t + 50, 4)), (&a[..], rows(t, 6))] {
        for (&i, c) in ids.iter().zip(c.chunks(WIDTH)) {
            let sum = all.entry(i as usize).or_insert(vec![0f32; WIDTH]);
            sum.iter_mut().zip(c).for_each(|(s, &c)| *s += c as f32);
        }
    }
    all
}

/// Runs steps 1 to `last` of `gathered` in f32. Returns the named leaves after each.
fn run(step: &GraphBuf, threads: usize, last: i32, names: &[&str]) -> Vec<Vec<Vec<f32>>> {
    let mut p = compile(step, threads);
    let one = |t: i32| {
        let f32s = |x: Vec<f64>| x.into_iter().map(|x| x as f32).collect::<Vec<_>>();
        p.values_mut::<i32>("ids").unwrap().copy_from_slice(&ids(t).0);
        p.values_mut::<i32>("more_ids").unwrap().copy_from_slice(&ids(t).1);
        p.values_mut::<f32>("c").unwrap().copy_from_slice(&f32s(rows(t, 6)));
        p.values_mut::<f32>("more_c").unwrap().copy_from_slice(&f32s(rows(t + 50, 4)));
        p.step().unwrap();
        names.iter().map(|n| p.values::<f32>(n).unwrap().to_vec()).collect()
    };
    (1..=last).map(one).collect()
}

fn start() -> Vec<f32> {
    compile(&gathered(DType::F32), 1).values::<f32>("table").unwrap().to_vec()
}

#[test]
fn sgd_on_rows_has_the_bits_of_sgd_on_the_sum_of_all_rows() {
    let step = train(&gathered(DType::F32), "loss", optim::Sgd::new(0.3)).unwrap();
    assert!(text(&step).contains("sgd_rows ") && !text(&step).contains("scatter_add "), "{step}");
    let got = run(&step, 1, 4, &["table"]);
    assert_eq!(run(&step, 2, 4, &["table"]), got);
    let mut want = start();
    for (t, got) in (1..).zip(&got) {
        for (row, g) in sums(t) {
            want[row * WIDTH..].iter_mut().zip(g).for_each(|(p, g)| *p -= 0.3 * g);
        }
        assert_eq!(got[0], want, "step {t}");
    }
}

#[test]
fn adagrad_on_rows_has_the_bits_of_adagrad() {
    for decay in [0.0, 0.5] {
        let step = train(&gathered(DType::F32), "loss", optim::Adagrad::new(0.3).lr_decay(decay).eps(1e-4)).unwrap();
        assert!(text(&step).contains("adagrad_rows ") && !text(&step).contains("scatter_add "));
        let got = run(&step, 2, 4, &["table", "opt.sum.table"]);
        let (mut p, mut s) = (start(), vec![0f32; ROWS * WIDTH]);
        for (t, got) in (1..).zip(&got) {
            let lr = (f64::from(0.3f32) / (f64::from(t - 1) * decay + 1.0)) as f32;
            for (row, g) in sums(t) {
                for (i, g) in (row * WIDTH..).zip(g) {
                    s[i] += g * g;
                    p[i] -= lr * g / (s[i].sqrt() + 1e-4);
                }
            }
            assert_eq!(got[..], [p.clone(), s.clone()], "step {t}, decay {decay}");
        }
    }
}

/// The step of `torch.optim.SparseAdam` on the rows of step `t`, with a weight decay.
fn sparse_adam([p, m, v]: [&mut [f64]; 3], t: i32, lr: f64, decay: f64) {
    let (b1, b2, eps) = (0.8f64, 0.9f64, 1e-3);
    for (row, g) in sums(t) {
        for (i, g) in (row * WIDTH..).zip(g) {
            let g = f64::from(g);
            m[i] += (1.0 - b1) * (g - m[i]);
            v[i] += (1.0 - b2) * (g * g - v[i]);
            let size = lr * (1.0 - b2.powi(t)).sqrt() / (1.0 - b1.powi(t));
            p[i] = p[i] * (1.0 - lr * decay) - size * m[i] / (v[i].sqrt() + eps);
        }
    }
}

#[test]
fn sparse_adam_leaves_rows_and_moments_that_no_index_names() {
    for decay in [0.0, 0.1] {
        let rule = optim::SparseAdam::new(0.05).betas((0.8, 0.9)).eps(1e-3).weight_decay(decay);
        let step = train(&gathered(DType::F32), "loss", rule).unwrap();
        assert!(text(&step).contains("adam_rows ") && step.warnings().is_empty());
        let got = run(&step, 1, 5, &["table", "opt.exp_avg.table", "opt.exp_avg_sq.table"]);
        let wide = |x: Vec<f32>| x.into_iter().map(f64::from).collect::<Vec<f64>>();
        let (mut p, mut m, mut v) = (wide(start()), vec![0f64; ROWS * WIDTH], vec![0f64; ROWS * WIDTH]);
        for (t, got) in (1..).zip(&got) {
            sparse_adam([&mut p, &mut m, &mut v], t, 0.05, decay);
            for (got, want) in got.iter().zip([&p, &m, &v]) {
                assert!(got.iter().zip(want).all(|(x, y)| (f64::from(*x) - y).abs() < 1e-5), "step {t}");
            }
        }
        // No index names row 30.
        assert_eq!(got[4][0][90..93], start()[90..93]);
        assert!(got[4][1][90..93].iter().all(|m| *m == 0.0));
    }
}

#[test]
fn what_moves_every_row_takes_a_dense_gradient() {
    let dense = |opt: Optimiser| {
        let step = train(&gathered(DType::F32), "loss", opt).unwrap();
        assert!(!text(&step).contains("_rows "), "{step}");
    };
    dense(optim::Sgd::new(0.1).weight_decay(0.1).into());
    dense(optim::Sgd::new(0.1).momentum(0.9).into());
    dense(optim::Adagrad::new(0.1).weight_decay(0.1).into());
    dense(optim::Adagrad::new(0.1).initial_accumulator_value(0.1).into());
    dense(optim::Adagrad::new(0.1).eps(0.0).into());
    dense(optim::Adam::new(0.1).into());
    // Where most rows are read, a sweep over all of them is faster.
    let g = Builder::new("many");
    let table = g.param("table", [7, WIDTH], DType::F32, Init::Ones);
    let y = table.gather(g.input("ids", [4], DType::I32), 0);
    let step = train(&g.finish([y.sum(..).named("loss")]).unwrap(), "loss", optim::Sgd::new(0.1)).unwrap();
    assert!(!text(&step).contains("sgd_rows "));
}

#[test]
fn a_table_that_is_read_otherwise_too_is_updated_whole_and_says_so() {
    let g = Builder::new("tied");
    let table = g.param("emb.weight", [ROWS, WIDTH], DType::F32, Init::Normal(1.0));
    let h = table.gather(g.input("ids", [2], DType::I32), 0);
    let loss = h.matmul_t(table, false, true).cross_entropy(g.input("label", [2], DType::I32));
    let graph = g.finish([loss.named("loss")]).unwrap();
    let step = train(&graph, "loss", optim::SparseAdam::new(0.1)).unwrap();
    let warnings = step.warnings();
    assert!(warnings.len() == 1 && warnings[0].name == "emb.weight", "{warnings:?}");
    let mut p = compile(&step, 1);
    assert!(p.plan().warnings.len() == 1);
    let before = p.values::<f32>("emb.weight").unwrap().to_vec();
    p.values_mut::<i32>("ids").unwrap().copy_from_slice(&[3, 9]);
    p.values_mut::<i32>("label").unwrap().copy_from_slice(&[1, 2]);
    p.step().unwrap();
    assert!(p.values::<f32>("emb.weight").unwrap().iter().zip(&before).all(|(a, b)| a != b));
    assert!(!text(&train(&graph, "loss", optim::Sgd::new(0.1)).unwrap()).contains("sgd_rows "));
}

#[test]
fn clipping_and_its_norm_are_those_of_the_summed_rows() {
    let norm = sums(1).values().flatten().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    let opt = optim::Sgd::new(0.3).clip_norm(1.0).grad_norm(true);
    let step = train(&gathered(DType::F32), "loss", opt).unwrap();
    assert!(text(&step).contains("coalesce ") && !text(&step).contains("scatter_add "));
    let got = run(&step, 2, 1, &["table", "grad_norm"]);
    assert!((f64::from(got[0][1][0]) - norm).abs() < 1e-5 * norm && norm > 1.0);
    let clipped = train(&gathered(DType::F32), "loss", optim::Sgd::new(0.3).clip_value(0.5)).unwrap();
    let limited = run(&clipped, 1, 1, &["table"]);
    let (mut by_norm, mut by_value) = (start(), start());
    for (row, g) in sums(1) {
        for (i, g) in (row * WIDTH..).zip(g) {
            by_norm[i] -= 0.3 * g / norm as f32;
            by_value[i] -= 0.3 * g.clamp(-0.5, 0.5);
        }
    }
    for (got, want) in [(&got[0][0], by_norm), (&limited[0][0], by_value)] {
        assert!(got.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-5));
    }
}

#[test]
fn a_step_with_an_overflow_leaves_the_table_alone() {
    let opt = optim::SparseAdam::new(0.3).loss_scale(optim::LossScale::dynamic());
    let mut p = compile(&train(&gathered(DType::F32), "loss", opt).unwrap(), 1);
    p.values_mut::<i32>("ids").unwrap().fill(5);
    p.values_mut::<i32>("more_ids").unwrap().fill(5);
    p.values_mut::<f32>("more_c").unwrap().fill(0.0);
    // Rows that are finite, with the scale of the loss too, and whose sum is not.
    p.values_mut::<f32>("c").unwrap().fill(f32::MAX / 65536.0 * 0.9);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("table").unwrap(), start());
    p.values_mut::<f32>("c").unwrap().fill(1.0);
    p.step().unwrap();
    assert_ne!(p.values::<f32>("table").unwrap(), start());
}

#[test]
fn micro_batches_update_the_rows_of_all_of_them_once() {
    let graph = |k: usize| {
        let g = Builder::new("batch");
        let (ids, c) = (g.input("ids", [k], DType::I64), g.input("c", [k, WIDTH], DType::F64));
        let y = nn::embedding(&g, "emb", ids, 100, WIDTH, DType::F64);
        g.finish([(y.square() * c).sum(..).named("loss")]).unwrap()
    };
    let ids = [4i64, 9, 4, 77, 9, 4];
    let c: Vec<f64> = (0..18).map(|i| f64::from(i % 5) - 1.5).collect();
    let run = |g: &GraphBuf, opt: Optimiser| {
        let step = train(g, "loss", opt).unwrap();
        assert!(text(&step).contains("_rows ") && step.view().outputs().len() == 1, "{step}");
        let mut p = compile(&step, 1);
        p.values_mut::<i64>("ids").unwrap().copy_from_slice(&ids);
        p.values_mut::<f64>("c").unwrap().copy_from_slice(&c);
        for _ in 0..3 {
            p.step().unwrap();
        }
        p.values::<f64>("emb.weight").unwrap().to_vec()
    };
    // The mean over three micro-batches is a third of the gradient of the whole batch.
    let parts = run(&graph(2), optim::Sgd::new(0.3).accumulate(3).into());
    let whole = run(&graph(6), optim::Sgd::new(0.1).into());
    assert!(parts.iter().zip(&whole).all(|(a, b)| (a - b).abs() < 1e-12));
    // Adam's steps do not depend on the scale of a gradient, but for ε.
    let adam = || optim::SparseAdam::new(0.1).eps(1e-30);
    let (parts, whole) = (run(&graph(2), adam().accumulate(3).into()), run(&graph(6), adam().into()));
    assert!(parts.iter().zip(&whole).all(|(a, b)| (a - b).abs() < 1e-9));
}

#[test]
fn members_of_a_batch_have_tables_of_their_own() {
    let rule = || optim::SparseAdam::new(0.1).group("table", Group::default().weight_decay(0.1));
    let step = train(&gathered(DType::F64), "loss", rule()).unwrap();
    let names = ["table", "opt.exp_avg.table", "opt.exp_avg_sq.table", "ids", "c", "more_ids", "more_c"];
    let map = names.iter().fold(Vmap::new(2).leaf("opt.step", 0), |map, n| map.leaf(n, 0));
    let mut both = compile(&step.vmap(&map).unwrap(), 1);
    let mut one = compile(&step, 1);
    let tables = both.values::<f64>("table").unwrap().to_vec();
    let write = |p: &mut Program, at: i32, offset: usize| {
        p.values_mut::<i32>("ids").unwrap()[offset * 6..][..6].copy_from_slice(&ids(at).0);
        p.values_mut::<i32>("more_ids").unwrap()[offset * 4..][..4].copy_from_slice(&ids(at).1);
        p.values_mut::<f64>("c").unwrap()[offset * 18..][..18].copy_from_slice(&rows(at, 6));
        p.values_mut::<f64>("more_c").unwrap()[offset * 12..][..12].copy_from_slice(&rows(at + 50, 4));
    };
    write(&mut both, 1, 0);
    write(&mut both, 2, 1);
    both.step().unwrap();
    for (i, table) in tables.chunks(ROWS * WIDTH).enumerate() {
        one.init(7).unwrap();
        one.values_mut::<f64>("table").unwrap().copy_from_slice(table);
        write(&mut one, 1 + i as i32, 0);
        one.step().unwrap();
        let got = &both.values::<f64>("table").unwrap()[i * ROWS * WIDTH..][..ROWS * WIDTH];
        assert!(got.iter().zip(one.values::<f64>("table").unwrap()).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}

#[test]
fn a_padding_row_stays_and_a_bad_index_changes_nothing() {
    let graph = |padded: bool| {
        let g = Builder::new("padded");
        let ids = g.input("ids", [3], DType::I32);
        let y = match padded {
            true => nn::padded_embedding(&g, "emb", ids, [50, 8], DType::F32, 2),
            false => nn::embedding(&g, "emb", ids, 50, 8, DType::F32),
        };
        g.finish([y.square().sum(..).named("loss")]).unwrap()
    };
    let rules: [Optimiser; 2] = [optim::Sgd::new(0.1).into(), optim::SparseAdam::new(0.1).into()];
    for opt in rules {
        for padded in [false, true] {
            let step = train(&graph(padded), "loss", opt.clone()).unwrap();
            assert!(text(&step).contains("_rows "));
            let mut p = compile(&step, 2);
            let before = p.values::<f32>("emb.weight").unwrap().to_vec();
            p.values_mut::<i32>("ids").unwrap().copy_from_slice(&[2, 50, 5]);
            let error = p.step().unwrap_err().to_string();
            assert!(error.contains("50"), "{error}");
            assert_eq!(p.values::<f32>("emb.weight").unwrap(), before);
            p.values_mut::<i32>("ids").unwrap().copy_from_slice(&[2, 49, 5]);
            p.step().unwrap();
            let after = p.values::<f32>("emb.weight").unwrap();
            let moved: Vec<usize> = (0..50).filter(|r| after[r * 8..][..8] != before[r * 8..][..8]).collect();
            assert_eq!(moved, if padded { vec![5, 49] } else { vec![2, 5, 49] });
        }
    }
}

#[test]
fn a_plan_has_the_table_and_its_states_and_no_gradient_of_that_size() {
    let table = 100_000 * 16 * 4;
    let g = Builder::new("large");
    let y = nn::embedding(&g, "emb", g.input("ids", [256], DType::I32), 100_000, 16, DType::F32);
    let graph = g.finish([y.square().mean(..).named("loss")]).unwrap();
    let cases: [(Optimiser, usize); 4] = [
        (optim::Sgd::new(0.1).into(), 1),
        (optim::Sgd::new(0.1).clip_norm(1.0).into(), 1),
        (optim::Adagrad::new(0.1).into(), 2),
        (optim::SparseAdam::new(0.1).accumulate(4).into(), 3),
    ];
    for (opt, tensors) in cases {
        let bytes = compile(&train(&graph, "loss", opt).unwrap(), 2).plan().arena_bytes;
        assert!(bytes < tensors * table + table / 10, "{tensors}: {bytes}");
    }
    // Differentiated alone, the gradient is an output, and dense.
    let grad = graph.grad("loss", &GradOptions::wrt(&["emb.weight"])).unwrap();
    assert!(compile(&grad, 1).plan().arena_bytes >= 2 * table);
}
