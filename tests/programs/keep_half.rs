//! Half precision for what is kept: errors of gradients, bits, bytes, and what stays as it is.

use super::common::zoo;
use arenagrad::error::Result;
use arenagrad::graph::quant::{FakeQuantize, Lsq};
use arenagrad::graph::{Builder, CrossEntropy, DType, GradOptions, GraphBuf, Init, Loop, Var, Vmap, grad};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use arenagrad::session::{Keep, PlanReport, Program, Role, Session};

const F32: DType = DType::F32;
const HALVES: [Keep; 2] = [Keep::Bf16, Keep::F16];

/// Gives params their start, and inputs numbers that follow from their position.
fn fill(p: &mut Program) {
    p.init(5).unwrap();
    let inputs: Vec<_> = p.bindings().iter().filter(|b| b.role == Role::Input).cloned().collect();
    for b in inputs {
        match b.dtype {
            DType::I32 => {
                p.values_mut::<i32>(&b.name).unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i * 7 % 10) as i32)
            }
            _ if b.name == "lr" => {}
            _ => p.values_mut::<f32>(&b.name).unwrap().iter_mut().enumerate().for_each(|(i, x)| {
                *x = f64::from((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0;
            }),
        }
    }
}

/// The outputs of one step, by name.
fn outputs(s: &Session, g: &GraphBuf) -> Vec<(String, Vec<f32>)> {
    let mut p = s.compile(g).unwrap();
    fill(&mut p);
    p.step().unwrap();
    let of = |b: &arenagrad::session::Binding| (b.name.clone(), p.values::<f32>(&b.name).unwrap().to_vec());
    p.bindings().iter().filter(|b| b.role == Role::Output).map(of).collect()
}

fn norm(x: impl Iterator<Item = f64>) -> f64 {
    x.map(|x| x * x).sum::<f64>().sqrt()
}

/// The largest error of a gradient, relative to its norm. The loss must keep its bits.
fn error_of(full: &[(String, Vec<f32>)], half: &[(String, Vec<f32>)]) -> f64 {
    let mut worst: f64 = 0.0;
    for ((name, a), (_, b)) in full.iter().zip(half) {
        if !name.starts_with("grad.") {
            assert_eq!(a, b, "{name} is computed in f32");
            continue;
        }
        let off = norm(a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b)));
        let size = norm(a.iter().map(|&a| f64::from(a)));
        // What is zero but for rounding has no relative error.
        if size > 1e-5 {
            worst = worst.max(off / size);
        }
    }
    worst
}

fn gradients(g: &GraphBuf) -> GraphBuf {
    grad(g, "loss", &GradOptions::default()).unwrap()
}

/// A transformer from the library's layers.
fn gpt(batch: usize, t: usize, width: usize, layers: usize) -> GraphBuf {
    let g = Builder::new("gpt");
    let config = nn::Gpt::default()
        .vocabulary(65)
        .context(t)
        .layers(layers)
        .heads(4)
        .width(width)
        .bias(true)
        .dropout(0.0)
        .gelu_tanh(true);
    let logits = nn::gpt(&g, g.input("x", [batch, t], DType::I32), F32, config).reshape([batch * t, 65]);
    let labels = g.input("y", [batch * t], DType::I32);
    let loss = logits.cross_entropy_with(labels, CrossEntropy::per_row()).mean(..).named("loss");
    g.finish([loss]).unwrap()
}

/// Two layers of long short-term memory, as loops.
fn recurrent(steps: usize, batch: usize, width: usize) -> GraphBuf {
    let g = Builder::new("recurrent");
    let mut y = g.input("x", [steps, batch, width], F32);
    for (i, reverse) in [false, true].into_iter().enumerate() {
        let start = g.full(0.0, [batch, width], F32);
        let (_, ys) = g.scan_with(Loop::default().reverse(reverse), &[start, start], &[y], |c, x| {
            let both = |name: &str| {
                let name = format!("{i}.{name}");
                nn::linear(&g, &format!("{name}.x"), x[0], width) + nn::linear(&g, &format!("{name}.h"), c[0], width)
            };
            let (input, forget, out) = (both("i").sigmoid(), both("f").sigmoid(), both("o").sigmoid());
            let cell = forget * c[1] + input * both("c").tanh();
            let h = out * cell.tanh();
            (vec![h, cell], vec![h])
        });
        y = ys[0];
    }
    g.finish([(y * y).mean(..).named("loss")]).unwrap()
}

/// Models with activations of a few kilobytes and more.
fn models() -> Vec<(&'static str, GraphBuf)> {
    vec![
        ("mlp", zoo::mlp(32, 24, 64, 4)),
        ("lenet", zoo::lenet(4)),
        ("gpt of plain ops", zoo::gpt(2, 12, 32, 2, 2, 40)),
        ("gpt", gpt(2, 16, 32, 3)),
        ("unet", zoo::unet(1, 16, 4, 2)),
        ("resnet", zoo::resnet(2, 64, 4)),
        ("rnn", zoo::rnn(8, 16, 12, 24)),
        ("looped", zoo::looped(8, 16, 12, 24)),
        ("recurrent", recurrent(9, 4, 16)),
    ]
}

#[test]
fn gradients_of_models_have_the_error_of_rounding() {
    for (name, g) in models() {
        let g = gradients(&g);
        let full = outputs(&Session::new(), &g);
        assert_eq!(full, outputs(&Session::new().keep(Keep::F32), &g));
        for (keep, bound) in [(Keep::Bf16, 0.03), (Keep::F16, 0.004)] {
            let session = Session::new().keep(keep);
            let kept = session.plan(&g).unwrap().kept;
            assert!(kept.keep == keep && kept.values > 0 && kept.bytes > 0, "{name}: {kept:?}");
            let half = outputs(&session, &g);
            let off = error_of(&full, &half);
            assert!(off > 0.0 && off < bound, "{name} in {}: off by {off}", keep.name());
            for threads in [2, 3, 16] {
                assert!(
                    outputs(&session.clone().threads(threads).share(true), &g) == half,
                    "{name}: {threads} threads"
                );
            }
            assert!(outputs(&session.clone().poison(true), &g) == half, "{name}: poisoned");
            // Without fusion more values are kept, so more are rounded.
            let off = error_of(&full_unfused(&g), &outputs(&session.optimise(false), &g));
            assert!(off < 2.0 * bound, "{name} in {}, not fused: off by {off}", keep.name());
        }
    }
}

fn full_unfused(g: &GraphBuf) -> Vec<(String, Vec<f32>)> {
    outputs(&Session::new().optimise(false), g)
}

/// Bytes of a plan beside leaves and constants.
fn activations(plan: &PlanReport) -> f64 {
    (plan.arena_bytes - plan.pinned_bytes) as f64
}

#[test]
fn the_arena_of_a_transformer_is_smaller() {
    for (layers, most) in [(4, 0.65), (12, 0.65)] {
        let step = train(&gpt(12, 64, 128, layers), "loss", optim::AdamW::new(1e-3).clip_norm(1.0)).unwrap();
        let full = Session::new().plan(&step).unwrap();
        for keep in HALVES {
            let half = Session::new().keep(keep).plan(&step).unwrap();
            let share = activations(&half) / activations(&full);
            assert!(share <= most, "{layers} layers in {}: {share:.3} of {}", keep.name(), activations(&full));
            assert!(half.arena_bytes < full.arena_bytes);
        }
    }
}

#[test]
fn stacks_of_loops_are_in_half_precision() {
    for steps in [16, 64] {
        let g = gradients(&recurrent(steps, 8, 32));
        let (full, half) = (Session::new().plan(&g).unwrap(), Session::new().keep(Keep::Bf16).plan(&g).unwrap());
        let share = activations(&half) / activations(&full);
        assert!(share < 0.7, "{steps} steps: {share:.3} of {}", activations(&full));
    }
    // In stretches too: the carries that the outer loop stacks.
    let g = Builder::new("stretches");
    let (x, w) = (g.input("x", [64, 8, 32], F32), g.param("w", [32, 32], F32, Init::Normal(0.1)));
    let how = Loop::default().keep_every(8);
    let (h, _) =
        g.scan_with(how, &[g.full(0.0, [8, 32], F32)], &[x], |h, x| (vec![(h[0].matmul(w) + x[0]).tanh()], vec![]));
    let g = gradients(&g.finish([(h[0] * h[0]).sum(..).named("loss")]).unwrap());
    let full = outputs(&Session::new(), &g);
    let off = error_of(&full, &outputs(&Session::new().keep(Keep::Bf16), &g));
    assert!(off > 0.0 && off < 0.03, "{off}");
}

/// The gradient reads the carry before each iteration and behind it. Both stacks are windows of one buffer, of one
/// slice more, also in half precision.
#[test]
fn a_carry_that_is_stacked_twice_takes_its_bytes_once() {
    let g = Builder::new("chain");
    let (x, w) = (g.input("x", [64, 8, 32], F32), g.param("w", [32, 32], F32, Init::Normal(0.1)));
    // What is kept of the first loop stays until the second one is done.
    let h = (0..2).fold(g.full(0.1, [8, 32], F32), |h, _| {
        g.scan(&[h], &[x], |h, x| (vec![(h[0].matmul(w) + x[0]).tanh()], Vec::new())).0[0]
    });
    let g = gradients(&g.finish([(h * h).sum(..).named("loss")]).unwrap());
    let sizes = |s: Session| s.plan(&g).unwrap().buffers.iter().map(|b| b.size).collect::<Vec<usize>>();
    let (full, half) = (sizes(Session::new()), sizes(Session::new().keep(Keep::Bf16)));
    let both = 65 * 8 * 32 * 4;
    assert_eq!(full.iter().filter(|&&b| b == both).count(), 2, "{full:?}");
    assert!(half.contains(&(both / 2)), "{half:?}");
    let outputs = |s: Session| outputs(&s, &g);
    let off = error_of(&outputs(Session::new()), &outputs(Session::new().keep(Keep::Bf16)));
    assert!(off > 0.0 && off < 0.03, "{off}");
}

#[test]
fn a_budget_and_half_precision_add_up() {
    let g = gradients(&gpt(8, 32, 64, 4));
    let sizes = |keep: Keep| -> Vec<usize> {
        Session::new().keep(keep).budgets(&g).unwrap().iter().map(|b| b.arena_bytes).collect()
    };
    let (full, half) = (sizes(Keep::F32), sizes(Keep::Bf16));
    assert!(half[0] < full[0] && half.last() <= full.last(), "{half:?}, {full:?}");
    let want = outputs(&Session::new(), &g);
    for bytes in [half[0], half[half.len() / 2], half[half.len() - 1]] {
        let session = Session::new().keep(Keep::Bf16).memory_budget(bytes);
        assert!(session.plan(&g).unwrap().arena_bytes <= bytes);
        let off = error_of(&want, &outputs(&session, &g));
        assert!(off > 0.0 && off < 0.05, "{bytes} bytes: off by {off}");
    }
    let e = Session::new().keep(Keep::Bf16).memory_budget(half[half.len() - 1] - 1).plan(&g).unwrap_err().to_string();
    assert!(e.contains(&format!("the smallest that would do is {} bytes", half[half.len() - 1])), "{e}");
}

/// What is computed again is computed from rounded values, so it must not depend on threads, whose scratch takes room.
#[test]
fn a_budget_gives_the_same_bits_for_any_number_of_threads() {
    let g = gradients(&gpt(8, 32, 64, 4));
    for keep in HALVES {
        let session = |threads: usize| Session::new().keep(keep).threads(threads).share(true);
        let widest = session(7).budgets(&g).unwrap();
        let all: Vec<usize> = widest.iter().map(|b| b.arena_bytes).collect();
        assert!(all.len() > 2 && all.windows(2).all(|w| w[0] > w[1]), "{all:?}");
        let full = outputs(&session(1), &g);
        let mut changed = 0;
        for bytes in [all[1], all[all.len() / 2], all[all.len() - 1]] {
            let want = outputs(&session(1).memory_budget(bytes), &g);
            changed += usize::from(want != full);
            for threads in [2, 3, 4, 7] {
                let tight = session(threads).memory_budget(bytes);
                let plan = tight.plan(&g).unwrap();
                assert!(plan.arena_bytes <= bytes, "{} of {bytes} bytes", plan.arena_bytes);
                assert!(outputs(&tight, &g) == want, "{} in {bytes} bytes: {threads} threads", keep.name());
            }
        }
        assert!(changed > 0, "no budget changes a bit, so the test asks nothing");
    }
}

/// A budget that one thread's choice just fits is refused for seven threads, with one that would do.
#[test]
fn a_budget_without_room_for_the_scratch_of_all_threads_is_refused() {
    let g = gradients(&gpt(8, 32, 64, 4));
    let session = |threads: usize| Session::new().keep(Keep::Bf16).threads(threads).share(true);
    let one: Vec<usize> = session(1).budgets(&g).unwrap().iter().map(|b| b.arena_bytes).collect();
    let wide = session(7).plan(&g).unwrap().arena_bytes;
    assert!(wide > one[0], "{wide} and {one:?}");
    let e = session(7).memory_budget(one[0]).plan(&g).unwrap_err().to_string();
    assert!(e.contains("holds this program on one thread, but not the scratch of 7"), "{e}");
    assert!(e.contains(&format!("{wide} bytes would do")), "{e}");
    assert_eq!(session(7).memory_budget(wide).plan(&g).unwrap().arena_bytes, wide);
    // Without rounding a smaller choice is taken instead.
    let full = |threads: usize| Session::new().threads(threads).share(true);
    let bytes = full(1).plan(&g).unwrap().arena_bytes;
    assert!(full(7).memory_budget(bytes).plan(&g).unwrap().arena_bytes <= bytes);
}

#[test]
fn graphs_without_a_backward_half_and_other_types_stay_as_they_are() {
    let forward = gpt(2, 16, 32, 2);
    let full = Session::new().plan(&forward).unwrap();
    let half = Session::new().keep(Keep::Bf16).plan(&forward).unwrap();
    assert_eq!((half.kept.values, half.arena_bytes), (0, full.arena_bytes));
    assert!(half.to_string().contains("kept in half   nothing in bf16"), "{half}");
    assert!(!full.to_string().contains("kept in half"), "{full}");
    assert_eq!(outputs(&Session::new(), &forward), outputs(&Session::new().keep(Keep::Bf16), &forward));
    let g = Builder::new("double");
    let mut h = g.input("x", [64, 32], DType::F64);
    for i in 0..4 {
        h = nn::linear(&g, &format!("fc{i}"), h, 32).tanh();
    }
    let g = gradients(&g.finish([h.mean(..).named("loss")]).unwrap());
    assert_eq!(Session::new().keep(Keep::Bf16).plan(&g).unwrap().kept.values, 0);
}

/// Gradients of a function of `x` of 64×32 elements and a param `w` of 32×32.
fn of_two(f: impl for<'g> Fn(&'g Builder, Var<'g>, Var<'g>) -> Var<'g>) -> Result<GraphBuf> {
    let g = Builder::new("of_two");
    let (x, w) = (g.input("x", [64, 32], F32), g.param("w", [32, 32], F32, Init::Normal(0.3)));
    grad(&g.finish([f(&g, x, w).named("loss")])?, "loss", &GradOptions::default())
}

/// A long way from the kept values to the loss.
fn far<'g>(g: &'g Builder, mut h: Var<'g>) -> Var<'g> {
    for i in 0..3 {
        h = nn::linear(g, &format!("far{i}"), h, 32).sigmoid();
    }
    h.mean(..)
}

#[test]
fn what_is_compared_or_has_a_period_is_not_rounded() {
    // The gradient goes where the largest element is; rounding would make equal elements of near ones.
    let exact = of_two(|g, x, w| {
        let (a, b) = (x.matmul(w), (x * 1.001).matmul(w));
        far(g, a.maximum(b).stop_gradient() * 1e-3 + a.maximum(b))
    });
    let near_ties = of_two(|g, x, w| {
        let h = x.matmul(w) * 1e-3 + 1.0;
        far(g, h.amax([1]).reshape([64, 1]).broadcast([64, 32]) + x)
    });
    for g in [exact.unwrap(), near_ties.unwrap()] {
        let (full, half) = (outputs(&Session::new(), &g), outputs(&Session::new().keep(Keep::Bf16), &g));
        let off = error_of(&full, &half);
        assert!(off < 0.03, "off by {off}");
    }
    // The sine of a large angle: bf16 knows 300 to the next integer or two.
    let waves = of_two(|g, x, w| far(g, (x.matmul(w) * 300.0).sin())).unwrap();
    let off = error_of(&outputs(&Session::new(), &waves), &outputs(&Session::new().keep(Keep::Bf16), &waves));
    assert!(off < 0.03, "sines are off by {off}");
    // The gradient of a learned scale has the period of one code.
    let learned = of_two(|g, x, w| {
        let s = g.param("s", [], F32, Init::Constant(0.025));
        far(g, (x.matmul(w) * 1e-3 + 0.9193).exp().lsq(s, Lsq::bits(8))) * 1e4
    })
    .unwrap();
    let off = error_of(&outputs(&Session::new(), &learned), &outputs(&Session::new().keep(Keep::Bf16), &learned));
    assert!(off < 0.05, "learned scales are off by {off}");
    let fixed = of_two(|g, x, w| {
        let h = x.matmul(w);
        far(g, h.fake_quantize(h.symmetric_scale(100, None), None, FakeQuantize::bits(4)))
    });
    let fixed = fixed.unwrap();
    let off = error_of(&outputs(&Session::new(), &fixed), &outputs(&Session::new().keep(Keep::Bf16), &fixed));
    assert!(off < 0.05, "fake quantisation is off by {off}");
}

/// A factorisation of an ill-conditioned matrix.
#[cfg(feature = "linalg")]
#[test]
fn what_is_solved_for_is_not_rounded() {
    let solved = of_two(|g, x, w| {
        let a = w.matmul(w.t()) + g.iota(0, [32, 32], F32).equal(g.iota(1, [32, 32], F32)).cast(F32) * 1e-2;
        let y = a.solve(x.t()).t();
        far(g, y * 1e-2)
    })
    .unwrap();
    let off = error_of(&outputs(&Session::new(), &solved), &outputs(&Session::new().keep(Keep::Bf16), &solved));
    assert!(off < 0.05, "solutions are off by {off}");
}

#[test]
fn outputs_and_states_that_follow_the_loss_keep_their_bits() {
    let g = Builder::new("after");
    let (x, y) = (g.input("x", [64, 32], F32), g.input("y", [64], DType::I32));
    let mut h = x;
    for i in 0..3 {
        h = nn::linear(&g, &format!("fc{i}"), h, 32).gelu();
    }
    let logits = nn::linear(&g, "head", h, 10);
    let loss = logits.cross_entropy_with(y, CrossEntropy::per_row()).mean(..).named("loss");
    let seen = g.state("seen", [64, 32], F32, Init::Zeros);
    g.update(seen, seen * 0.9 + h * 0.1);
    // An output may be called like a gradient.
    let named = (h * 3.0).named("grad.h");
    let graph = g.finish([loss, logits.softmax(-1).named("chances"), (h * 2.0).named("twice"), named]).unwrap();
    let step = train(&graph, "loss", optim::Sgd::new(1.0)).unwrap();
    let run = |keep: Keep| {
        let mut p = Session::new().keep(keep).compile(&step).unwrap();
        fill(&mut p);
        p.step().unwrap();
        let get = |name: &str| p.values::<f32>(name).unwrap().to_vec();
        ([get("loss"), get("chances"), get("twice"), get("grad.h"), get("seen")], get("fc0.weight"))
    };
    let (full, half) = (run(Keep::F32), run(Keep::Bf16));
    assert_eq!(full.0, half.0);
    assert_ne!(full.1, half.1);
}

#[test]
fn a_number_beyond_f16_is_kept_as_infinity() {
    let g = of_two(|g, x, w| far(g, x.matmul(w * 1e6).square() * 1e-14)).unwrap();
    let finite = |s: Session| outputs(&s, &g).iter().all(|o| o.1.iter().all(|x| x.is_finite()));
    assert!(finite(Session::new()) && finite(Session::new().keep(Keep::Bf16)));
    assert!(!finite(Session::new().keep(Keep::F16)));
    let mut p = Session::new().keep(Keep::F16).find_nan(true).compile(&g).unwrap();
    fill(&mut p);
    let e = p.step().unwrap_err().to_string();
    assert!(e.starts_with("cast: ") && e.contains("infinite"), "{e}");
}

#[test]
fn methods_and_batches_keep_in_half_precision() {
    let step = train(&gpt(2, 16, 32, 3), "loss", optim::Sgd::new(0.1)).unwrap();
    let act = gpt(1, 16, 32, 3);
    let mut p = Session::new().keep(Keep::Bf16).compile_all(&[("learn", &step), ("act", &act)]).unwrap();
    p.init(1).unwrap();
    fill(&mut p);
    p.step().unwrap();
    let act = p.method("act").unwrap();
    for name in ["x", "y"] {
        let input = p.input_of::<i32>(act, name).unwrap();
        p[input].fill(3);
    }
    p.run(act).unwrap();
    // Gradients of single examples.
    let g = Builder::new("one");
    let (x, mut h) = (g.input("x", [32, 16], F32), None);
    for i in 0..3 {
        h = Some(nn::linear(&g, &format!("fc{i}"), h.unwrap_or(x), 16).tanh());
    }
    let one = gradients(&g.finish([h.unwrap().square().mean(..).named("loss")]).unwrap());
    let many = one.vmap(&Vmap::new(5).leaf("x", 0)).unwrap();
    let plan = Session::new().keep(Keep::Bf16).plan(&many).unwrap();
    assert!(plan.kept.values > 0, "{plan}");
    let off = error_of(&outputs(&Session::new(), &many), &outputs(&Session::new().keep(Keep::Bf16), &many));
    assert!(off > 0.0 && off < 0.03, "{off}");
}
