//! Programs of one recipe at many sizes: the bits of separate graphs, one set of params and states, kept plans.

use super::methods::least_of;
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::nn::{self, BatchNorm};
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Session, SizedProgram};
use arenagrad::tools::arena::tensor::LINE;
use arenagrad::tools::ir::text;
use arenagrad::{Error, Result};

/// A training step with moments, random numbers, and a state that no optimiser made.
fn net(g: &Builder, batch: usize) -> Result<GraphBuf> {
    let (x, y) = (g.input("x", [batch, 6], DType::F32), g.input("y", [batch, 3], DType::F32));
    let h = nn::layer_norm(g, "norm", nn::linear(g, "fc1", x, 12), 1e-5).tanh();
    let seen = g.state("seen", [12], DType::F32, Init::Zeros);
    g.update(seen, (seen * 0.9 + h.sum([0])).stop_gradient());
    let loss = nn::linear(g, "fc2", h.dropout(0.25), 3).mse(y).named("loss");
    train(&g.finish([loss])?, "loss", optim::AdamW::new(1e-2).clip_norm(1.0))
}

fn sized(session: &Session) -> SizedProgram {
    session.compile_sized("net", |g| net(g, g.symbol("batch")))
}

fn alone(batch: usize) -> Program {
    Session::new().compile(&net(&Builder::new("net"), batch).unwrap()).unwrap()
}

fn fill(p: &mut Program, name: &str, seed: usize) {
    let values = p.values_mut::<f32>(name).unwrap();
    let noise = |i: usize| ((seed * 7919 + i * 104_729) % 1000) as f32 / 500.0 - 1.0;
    values.iter_mut().enumerate().for_each(|(i, v)| *v = noise(i));
}

/// One step on batch `seed`; the loss's bits.
fn step(p: &mut Program, seed: usize) -> u32 {
    fill(p, "x", seed);
    fill(p, "y", seed + 1);
    p.step().unwrap();
    p.values::<f32>("loss").unwrap()[0].to_bits()
}

fn persistent(p: &Program) -> Vec<(String, Vec<u8>)> {
    p.persistent().map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect()
}

fn hand_over(from: &Program, to: &mut Program) {
    persistent(from).iter().for_each(|(name, bytes)| to.write_bytes(name, bytes).unwrap());
}

/// Trains at each of `batches`, from one recipe with `session` and by separate programs, planned without its choices,
/// that hand over params and states.
fn compare(session: &Session, batches: &[usize]) -> SizedProgram {
    let mut all = sized(session);
    all.at(&[("batch", batches[0])]).unwrap().init(4).unwrap();
    let mut last = alone(batches[0]);
    last.init(4).unwrap();
    for (seed, &batch) in batches.iter().enumerate() {
        let mut one = alone(batch);
        hand_over(&last, &mut one);
        let p = all.at(&[("batch", batch)]).unwrap();
        assert_eq!(step(p, seed), step(&mut one, seed), "batch {batch}");
        assert_eq!(persistent(p), persistent(&one), "batch {batch}");
        last = one;
    }
    all
}

fn error(result: Result<&mut Program>) -> Error {
    result.err().unwrap()
}

/// The least budget at this size, in bytes, as the error of a budget of one byte tells it.
fn least(of: fn(&Session) -> SizedProgram, batch: usize) -> usize {
    least_of(&error(of(&Session::new().memory_budget(1)).at(&[("batch", batch)])))
}

#[test]
fn one_recipe_has_the_bits_of_65_graphs() {
    let batches: Vec<usize> = (1..=65).collect();
    let all = compare(&Session::new().plans_kept(65), &batches);
    assert_eq!((all.plans_made(), all.kept().count()), (65, 65));
    // The workspace is shared: the arena is less than twice the largest step, and the inputs and outputs of all.
    let largest = alone(65).plan().arena_bytes;
    let own: usize = (1..=65).map(|batch| batch * 9 * 4 + 1024).sum();
    assert!(all.arena_bytes() < 2 * largest + 2 * own, "{} {largest} {own}", all.arena_bytes());
}

#[test]
fn plans_that_are_dropped_and_made_again_change_no_bit() {
    // Rising, falling, and back and forth; inputs and outputs take the places of dropped ones.
    let batches = [3, 9, 3, 20, 1, 9, 40, 39, 3, 1, 20, 40];
    for kept in [1, 2, 3] {
        let all = compare(&Session::new().plans_kept(kept), &batches);
        assert_eq!(all.kept().count(), kept);
        assert!(all.plans_made() > kept as u64);
    }
    assert_eq!(compare(&Session::new().plans_kept(0), &[2, 3]).kept().count(), 1);
    // With room for all, each size is planned once.
    assert_eq!(compare(&Session::new(), &batches).plans_made(), 6);
}

#[test]
fn checks_threads_and_budgets_work_at_every_size() {
    let batches = [5, 12, 5, 30, 12, 2, 30];
    let mut sessions = vec![
        Session::new().poison(true),
        Session::new().find_nan(true),
        Session::new().threads(2).share(true),
        Session::new().threads(3).share(true).plans_kept(2),
        Session::new().optimise(false),
    ];
    sessions.extend([40_000, 20_000, 18_000].map(|bytes| Session::new().memory_budget(bytes)));
    for session in sessions {
        compare(&session, &batches);
    }
}

#[test]
fn a_budget_bounds_the_arena_and_drops_plans_first() {
    let budget = 18_001;
    let mut all = sized(&Session::new().memory_budget(budget));
    all.at(&[("batch", 16)]).unwrap().init(0).unwrap();
    let mut most = 0;
    for batch in (1..=70).chain([16, 1]) {
        match all.at(&[("batch", batch)]) {
            Ok(p) => {
                assert!(p.plan().arena_bytes <= budget);
                step(p, batch);
            }
            Err(e) => {
                assert!(e.message.contains(&format!("at batch={batch}: the memory budget")), "{e}");
                most = batch;
            }
        }
        assert!(all.arena_bytes() <= budget);
    }
    let kept = all.kept().count();
    assert!(most > 16 && kept > 1 && all.plans_made() > kept as u64, "{most} {kept} {all:?}");
}

/// A budget of the least size is met, and one that is short by a line or by a byte is refused with that size.
#[test]
fn a_budget_of_a_size_is_kept_to_the_line() {
    let why = |budget: usize| {
        sized(&Session::new().memory_budget(budget)).at(&[("batch", 16)]).map(|_| ()).err().map(|e| e.message)
    };
    let least = least(sized, 16);
    let mut all = sized(&Session::new().memory_budget(least));
    assert_eq!(all.at(&[("batch", 16)]).unwrap().plan().arena_bytes, least);
    assert_eq!(all.arena_bytes(), least);
    for short in [1, 64] {
        let told = why(least - short).unwrap();
        let want = format!("budget of {} bytes is too small; the smallest that would do is {least} ", least - short);
        assert!(told.contains(&want), "{told}");
    }
}

#[test]
fn a_short_last_batch_needs_one_more_plan() {
    let mut all = sized(&Session::new());
    all.at(&[("batch", 32)]).unwrap().init(1).unwrap();
    for _ in 0..3 {
        for start in (0..100).step_by(32) {
            let batch = (100 - start).min(32);
            let p = all.at(&[("batch", batch)]).unwrap();
            assert_eq!(p.dims("x").unwrap(), [batch, 6]);
            step(p, start);
        }
    }
    assert_eq!(all.plans_made(), 2);
    let kept: Vec<String> = all.kept().map(ToString::to_string).collect();
    assert_eq!(kept, ["batch=4", "batch=32"]);
}

#[test]
fn the_plan_that_was_not_used_for_longest_goes_first() {
    let mut all = sized(&Session::new().plans_kept(2));
    all.at(&[("batch", 2)]).unwrap().init(1).unwrap();
    for (batch, made, kept) in [
        (3, 2, ["batch=3", "batch=2"]),
        (4, 3, ["batch=4", "batch=3"]),
        (3, 3, ["batch=3", "batch=4"]),
        (2, 4, ["batch=2", "batch=3"]),
    ] {
        step(all.at(&[("batch", batch)]).unwrap(), batch);
        let now: Vec<String> = all.kept().map(ToString::to_string).collect();
        assert_eq!((all.plans_made(), &now[..]), (made, &kept.map(String::from)[..]));
    }
}

#[test]
fn inputs_and_outputs_of_a_kept_size_stay_when_the_arena_grows() {
    let mut all = sized(&Session::new());
    let p = all.at(&[("batch", 3)]).unwrap();
    p.init(7).unwrap();
    step(p, 5);
    let (x, loss) = (p.values::<f32>("x").unwrap().to_vec(), p.values::<f32>("loss").unwrap()[0]);
    let handle = p.input::<f32>("x").unwrap();
    let mut grew = 0;
    for batch in [4, 50, 80, 300, 1000] {
        let before = all.arena_bytes();
        step(all.at(&[("batch", batch)]).unwrap(), batch);
        grew += usize::from(all.arena_bytes() > before);
    }
    assert!(grew >= 3);
    let p = all.at(&[("batch", 3)]).unwrap();
    assert_eq!((p.get(handle).unwrap(), p.values::<f32>("loss").unwrap()[0]), (&x[..], loss));
    p.step().unwrap();
    // A handle belongs to its size.
    let other = all.at(&[("batch", 4)]).unwrap();
    assert!(other.get(handle).unwrap_err().message.contains("another program"));
    assert_eq!(other.values::<f32>("x").unwrap().len(), 24);
}

#[test]
fn sizes_may_be_derived_and_there_may_be_several() {
    let mut all = Session::new().compile_sized("pairs", |g| {
        let (batch, len) = (g.symbol("batch"), g.symbol("len"));
        let x = g.input("x", [batch, 2 * len + 1, 4], DType::F64);
        let mut flat = x.reshape([batch * (2 * len + 1), 4]);
        // A loop and a branch over sizes.
        for _ in 0..len {
            flat = flat * 2.0;
        }
        let flat = if batch % 2 == 0 { flat + 1.0 } else { flat };
        g.finish([flat.mean(..).named("mean"), flat.sum([0]).named("sum")])
    });
    for (batch, len) in [(3, 2), (4, 0), (1, 5), (3, 2)] {
        let p = all.at(&[("len", len), ("batch", batch)]).unwrap();
        let n = batch * (2 * len + 1) * 4;
        let x: Vec<f64> = (0..n).map(|i| (i % 17) as f64 - 3.0).collect();
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&x);
        p.step().unwrap();
        let scale = f64::from(1u32 << len);
        let flat: Vec<f64> = x.iter().map(|v| v * scale + if batch % 2 == 0 { 1.0 } else { 0.0 }).collect();
        let mean = flat.iter().sum::<f64>() / n as f64;
        assert!((p.values::<f64>("mean").unwrap()[0] - mean).abs() < 1e-12);
        for column in 0..4 {
            let sum: f64 = flat.iter().skip(column).step_by(4).sum();
            assert!((p.values::<f64>("sum").unwrap()[column] - sum).abs() < 1e-9);
        }
    }
    assert_eq!(all.plans_made(), 3);
}

#[test]
fn size_zero_runs_empty_kernels() {
    let mut all = Session::new().compile_sized("empty", |g| {
        let batch = g.symbol("batch");
        let x = g.input("x", [batch, 6], DType::F32);
        let h = nn::linear(g, "fc", x, 4).relu();
        train(&g.finish([h.sum(..).named("loss")])?, "loss", optim::Sgd::new(0.5))
    });
    all.at(&[("batch", 0)]).unwrap().init(3).unwrap();
    let start = persistent(all.at(&[("batch", 0)]).unwrap());
    let p = all.at(&[("batch", 0)]).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>("loss").unwrap(), [0.0]);
    assert_eq!(persistent(p), start);
    let p = all.at(&[("batch", 2)]).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    p.step().unwrap();
    assert_ne!(persistent(p), start);
}

#[test]
fn running_statistics_carry_over_and_files_fit_every_size() {
    let recipe = |g: &Builder| {
        let x = g.input("x", [g.symbol("batch"), 5], DType::F32);
        let h = nn::batch_norm(g, "bn", x, BatchNorm::default());
        train(&g.finish([h.square().mean(..).named("loss")])?, "loss", optim::Adam::new(1e-2))
    };
    let mut all = Session::new().compile_sized("bn", recipe);
    let mut mean = [0.0f64; 5];
    all.at(&[("batch", 4)]).unwrap().init(0).unwrap();
    for (seed, batch) in [4, 9, 2, 4].into_iter().enumerate() {
        let p = all.at(&[("batch", batch)]).unwrap();
        fill(p, "x", seed);
        let x = p.values::<f32>("x").unwrap().to_vec();
        for (c, mean) in mean.iter_mut().enumerate() {
            let now: f64 = (0..batch).map(|i| f64::from(x[i * 5 + c])).sum::<f64>() / batch as f64;
            *mean = *mean * 0.9 + now * 0.1;
        }
        p.step().unwrap();
        let running = p.values::<f32>("bn.running_mean").unwrap();
        assert!(running.iter().zip(&mean).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-6));
    }
    let e = error(all.at(&[("batch", 1)]));
    assert!(e.message.starts_with("at batch=1: layer \"bn\": batch_norm(%0: f32[1,5]): a channel of one value"), "{e}");
    let path = std::env::temp_dir().join(format!("arenagrad-sizes-{}.safetensors", std::process::id()));
    all.at(&[("batch", 9)]).unwrap().save(&path).unwrap();
    let mut other = Session::new().compile_sized("bn", recipe);
    other.at(&[("batch", 3)]).unwrap().load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (a, b) = (persistent(all.at(&[("batch", 6)]).unwrap()), persistent(other.at(&[("batch", 6)]).unwrap()));
    assert_eq!(a, b);
    // What was loaded at one size counts as loaded at another.
    fill(other.at(&[("batch", 6)]).unwrap(), "x", 1);
    other.at(&[("batch", 6)]).unwrap().step().unwrap();
}

#[test]
fn a_plan_that_was_dropped_forgets_its_inputs_but_not_the_params() {
    let mut all = sized(&Session::new().plans_kept(1));
    let p = all.at(&[("batch", 2)]).unwrap();
    assert!(p.step().unwrap_err().message.contains("was never written"));
    p.init(0).unwrap();
    step(p, 0);
    let trained = persistent(p);
    step(all.at(&[("batch", 3)]).unwrap(), 1);
    let p = all.at(&[("batch", 2)]).unwrap();
    assert_ne!(persistent(p), trained);
    let e = p.step().unwrap_err().message;
    assert!(e.contains("input \"x\" (f32[2,6]) was never written"), "{e}");
}

#[test]
fn a_symbol_may_choose_between_training_and_evaluation() {
    let mut all = Session::new().compile_sized("modes", |g| {
        let x = g.input("x", [g.symbol("batch"), 4], DType::F32);
        let y = nn::linear(g, "fc", x, 1).named("y");
        match g.symbol("learn") {
            1 => train(&g.finish([y.square().mean(..).named("loss")])?, "loss", optim::AdamW::new(0.1)),
            _ => g.finish([y]),
        }
    });
    let p = all.at(&[("batch", 8), ("learn", 1)]).unwrap();
    p.init(0).unwrap();
    fill(p, "x", 1);
    let mut last = f32::MAX;
    for _ in 0..3 {
        let p = all.at(&[("batch", 8), ("learn", 1)]).unwrap();
        p.step().unwrap();
        let loss = p.values::<f32>("loss").unwrap()[0];
        let (x, weight) = (p.values::<f32>("x").unwrap()[..4].to_vec(), p.values::<f32>("fc.weight").unwrap().to_vec());
        let bias = p.values::<f32>("fc.bias").unwrap()[0];
        // The evaluation sees the new params, has no moments of its own, and changes nothing.
        let p = all.at(&[("batch", 1), ("learn", 0)]).unwrap();
        p.values_mut::<f32>("x").unwrap().copy_from_slice(&x);
        p.step().unwrap();
        let y: f32 = x.iter().zip(&weight).map(|(a, b)| a * b).sum::<f32>() + bias;
        assert!((p.values::<f32>("y").unwrap()[0] - y).abs() < 1e-5);
        assert_eq!(p.values::<f32>("fc.weight").unwrap(), weight);
        assert!(!p.bindings().iter().any(|b| b.name.contains("exp_avg") || b.name.contains(".m")));
        assert!(loss < last, "{loss} {last}");
        last = loss;
    }
}

#[test]
fn a_text_with_symbols_is_a_recipe() {
    const TEXT: &str = "graph @sums {\n  %x = input : f64[batch,len]\n  %w = param init=ones scale=0 frozen=false : f64[]\n  \
                        %s = reduce_sum %x axes=[0,1] keep=false\n  %y = add %s, %w\n  %n = add %w, %w\n  update %w <- %n\n  \
                        return y=%y\n}\n";
    let mut all = Session::new().compile_sized("sums", |g| text::parse_with_sizes(TEXT, &[], g.sizes()));
    all.at(&[("batch", 2), ("len", 3)]).unwrap().init(0).unwrap();
    for (step, (batch, len)) in [(2, 3), (5, 1), (2, 3)].into_iter().enumerate() {
        let p = all.at(&[("batch", batch), ("len", len)]).unwrap();
        p.values_mut::<f64>("x").unwrap().fill(1.0);
        p.step().unwrap();
        assert_eq!(p.values::<f64>("y").unwrap(), [(batch * len + (1 << step)) as f64]);
    }
    let e = error(all.at(&[("batch", 2)])).to_string();
    assert!(e.contains("at batch=2") && e.contains("2:26") && e.contains("symbol \"len\" has no size"), "{e}");
    let e = error(all.at(&[("batch", 2), ("len", 1), ("more", 1)])).to_string();
    assert!(e.contains("no such symbol; it has batch, len"), "{e}");
}

/// Lines of the params of [`forward`].
const LEAVES: usize = 32;

/// Two products: at each size an input and an output of a line for each row, and a spare line behind the output.
fn forward(session: &Session) -> SizedProgram {
    session.compile_sized("forward", |g| {
        let param = |name: &str| g.param(name, [16, 16], DType::F32, Init::Ones);
        let h = g.input("x", [g.symbol("batch"), 16], DType::F32).matmul(param("w")).tanh();
        g.finish([h.matmul(param("v")).named("y")])
    })
}

/// Lines of the own area and of the workspace of [`forward`].
fn areas(batch: usize) -> (usize, usize) {
    let own = 2 * batch + 1;
    (own, least(forward, batch) / LINE - LEAVES - own)
}

/// Of two plans, the older one stays if both fit with the wider of their workspaces.
#[test]
fn as_many_plans_stay_as_fit_the_budget_to_the_line() {
    let [(own, work), (more_own, more_work)] = [8, 40].map(areas);
    assert!(0 < work && work < more_work);
    let both = LINE * (LEAVES + own + more_own + more_work);
    for batches in [[8, 40], [40, 8]] {
        for (budget, kept) in [(both, 2), (both - 1, 1)] {
            let mut all = forward(&Session::new().memory_budget(budget));
            batches.iter().for_each(|&batch| _ = all.at(&[("batch", batch)]).unwrap());
            assert_eq!((all.kept().count(), all.plans_made()), (kept, 2), "{batches:?} in {budget}");
            assert!(all.arena_bytes() <= budget);
        }
    }
}

#[test]
fn an_arena_that_grows_has_room_for_workspaces_half_as_large_again() {
    let [(own, work), (_, more_work)] = [64, 80].map(areas);
    assert!(work < more_work);
    for session in [Session::new(), Session::new().memory_budget(1 << 20)] {
        let mut all = forward(&session.plans_kept(1));
        // As much again as the own area stays free. A smaller size needs no more.
        let first = LINE * (LEAVES + 2 * own + work);
        let grown = LINE * (LEAVES + 2 * own + more_work) + (LINE * more_work / 2).next_multiple_of(LINE);
        for (batch, bytes) in [(64, first), (20, first), (80, grown), (81, grown)] {
            assert_eq!(all.at(&[("batch", batch)]).unwrap().plan().arena_bytes, bytes, "at {batch}");
            assert_eq!(all.arena_bytes(), bytes, "at {batch}");
        }
    }
}

#[test]
fn tensors_of_a_new_plan_are_zero_where_a_dropped_one_lay() {
    let mut all = sized(&Session::new().plans_kept(1));
    let p = all.at(&[("batch", 9)]).unwrap();
    p.init(7).unwrap();
    step(p, 5);
    let p = all.at(&[("batch", 3)]).unwrap();
    assert_eq!((p.values::<f32>("x").unwrap(), p.values::<f32>("loss").unwrap()), (&[0.0; 18][..], &[0.0][..]));
}

/// Inputs and outputs lie behind the params of all sizes. Large batches have one param more.
#[test]
fn a_new_param_moves_the_tensors_of_other_sizes_and_changes_none() {
    let mut all = Session::new().compile_sized("more", |g| {
        let batch = g.symbol("batch");
        let param = |name: &str| g.param(name, [2], DType::F32, Init::Ones);
        let x = g.input("x", [batch, 2], DType::F32);
        let h = if batch > 1 { x * param("more") } else { x };
        g.finish([(h * param("w")).named("y")])
    });
    let p = all.at(&[("batch", 1)]).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[3.0, 4.0]);
    p.step().unwrap();
    let places = |p: &Program| p.bindings().iter().map(|b| (b.name.clone(), b.offset)).collect::<Vec<_>>();
    let before = places(p);
    all.at(&[("batch", 2)]).unwrap().init_rest(0).unwrap();
    let p = all.at(&[("batch", 1)]).unwrap();
    assert_ne!(places(p), before);
    assert_eq!(["x", "y"].map(|name| p.values::<f32>(name).unwrap().to_vec()), [[3.0, 4.0]; 2]);
    let told = |name: &str| p.plan().buffers.iter().find(|b| b.name == name).unwrap().offset;
    assert!(places(p).iter().all(|(name, offset)| told(name) == *offset));
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[5.0, 6.0]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("y").unwrap(), [5.0, 6.0]);
}

#[test]
fn every_size_is_watched_for_nan() {
    let mut all = Session::new()
        .find_nan(true)
        .compile_sized("logs", |g| g.finish([g.input("x", [g.symbol("batch")], DType::F32).log().named("y")]));
    for batch in [2, 3, 2] {
        let p = all.at(&[("batch", batch)]).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(-1.0);
        let e = p.step().unwrap_err().message;
        assert!(e.starts_with(&format!("log: {batch} of {batch} elements of its result")), "{e}");
    }
}
