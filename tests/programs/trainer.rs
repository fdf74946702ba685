//! Trainers: partial batches, rates with state, streams, kept numbers. A restore brings back each piece to the bit.

use arenagrad::error::{Error, Kind};
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Session};
use arenagrad::train::{
    Batches, NonFinite, Partial, Progress, Rate, RateInput, ReduceLrOnPlateau, Schedule, Supply, Threshold, Trainer,
    stream,
};
use std::path::PathBuf;

const F32: DType = DType::F32;

pub fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("arenagrad-trainers-{}-{name}.safetensors", std::process::id()))
}

/// Regression of examples `i` with features `[i/10, 1, sin i]` on `cos i`: weighted by `mask` if asked for.
pub fn graph(batch: usize, masked: bool) -> GraphBuf {
    let g = Builder::new("regress");
    let (x, y) = (g.input("x", [batch, 3], F32), g.input("y", [batch, 1], F32));
    let p = nn::linear(&g, "fc2", nn::linear(&g, "fc1", x, 5).tanh().dropout(0.1), 1);
    let errors = (p - y) * (p - y);
    let loss = match masked {
        true => {
            let mask = g.input("mask", [batch], F32).reshape([batch, 1]);
            (errors * mask).sum(..) / mask.sum(..)
        }
        false => errors.mean(..),
    };
    train(&g.finish([loss.named("loss")]).unwrap(), "loss", optim::AdamW::new(1e-2)).unwrap()
}

fn example(i: u32) -> ([f32; 3], f32) {
    ([i as f32 / 10.0, 1.0, (i as f32).sin()], (i as f32).cos())
}

/// Writes examples into inputs of as many rows, of the method that has them.
pub fn write(p: &mut Program, which: &[u32]) -> arenagrad::Result<()> {
    let names: Vec<String> = p.methods().map(str::to_string).collect();
    for name in names {
        let m = p.method(&name)?;
        let (x, y) = (p.input_of::<f32>(m, "x")?, p.input_of::<f32>(m, "y")?);
        if p[y].len() == which.len() {
            for (k, &i) in which.iter().enumerate() {
                let (features, target) = example(i);
                p[x][3 * k..3 * k + 3].copy_from_slice(&features);
                p[y][k] = target;
            }
            return Ok(());
        }
    }
    Err(Error::new(Kind::Data, format!("no method takes {} rows", which.len())))
}

pub fn persistent(t: &Trainer) -> Vec<(String, Vec<u8>)> {
    t.program().persistent().map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect()
}

/// What a step shows, to the bit.
fn seen(p: Progress) -> (u64, u64, usize, u64, u64) {
    (p.step, p.epoch, p.examples, p.loss.to_bits(), p.lr.to_bits())
}

/// Asserts that a run of `steps` steps that stops and resumes anywhere is the straight run.
fn resumes(name: &str, steps: usize, new: &dyn Fn() -> Trainer, step: &dyn Fn(&mut Trainer) -> Progress) {
    let path = scratch(name);
    let mut straight = new();
    let all: Vec<_> = (0..steps).map(|_| seen(step(&mut straight))).collect();
    for stop in 0..steps {
        let mut first = new();
        for _ in 0..stop {
            step(&mut first);
        }
        first.save(&path).unwrap();
        let mut second = new();
        for _ in 0..3 {
            step(&mut second);
        }
        second.restore(&path).unwrap();
        let rest: Vec<_> = (stop..steps).map(|_| seen(step(&mut second))).collect();
        assert_eq!(rest, all[stop..], "{name}: resumed after {stop}");
        assert_eq!(persistent(&second), persistent(&straight), "{name}: resumed after {stop}");
    }
    std::fs::remove_file(path).unwrap();
}

fn compile(graph: &GraphBuf) -> Program {
    Session::new().compile(graph).unwrap()
}

fn padded(rate: impl Into<Rate>) -> Trainer {
    let batches = Batches::new(11, 4, 7).unwrap().partial(Partial::Pad);
    Trainer::new(compile(&graph(4, true)), "loss", rate, batches, 7).unwrap()
}

const CONSTANT: Schedule = Schedule::Constant { lr: 1e-2 };

#[test]
fn padded_batches_count_each_example_once() {
    let mut t = padded(CONSTANT);
    for step in 0..9 {
        let mut which = Vec::new();
        let p = t.step(&mut |p, indices| {
            which = indices.to_vec();
            write(p, indices)
        });
        let p = p.unwrap();
        assert_eq!((which.len(), p.examples, p.epoch), (4, [4, 4, 3][step % 3], step as u64 / 3));
        let mask = t.program().values::<f32>("mask").unwrap();
        assert_eq!(mask, [1.0, 1.0, 1.0, if step % 3 == 2 { 0.0 } else { 1.0 }]);
    }
    resumes("pad", 8, &|| padded(CONSTANT), &|t| t.step(&mut write).unwrap());
}

/// A padded batch and a short one of the same examples have one loss and one gradient.
#[test]
fn padded_and_short_batches_agree() {
    let plain = |batch, masked| {
        let g = Builder::new("line");
        let (x, y) = (g.input("x", [batch, 3], F32), g.input("y", [batch, 1], F32));
        let e = nn::linear(&g, "fc", x, 1) - y;
        let loss = match masked {
            true => {
                let m = g.input("mask", [batch], F32).reshape([batch, 1]);
                (e * e * m).sum(..) / m.sum(..)
            }
            false => (e * e).mean(..),
        };
        train(&g.finish([loss.named("loss")]).unwrap(), "loss", optim::Sgd::new(0.1)).unwrap()
    };
    let batches = |how| Batches::new(11, 4, 7).unwrap().partial(how);
    let mut pad = Trainer::new(compile(&plain(4, true)), "loss", CONSTANT, batches(Partial::Pad), 7).unwrap();
    let two =
        Session::new().compile_all(&[("step", plain(4, false).view()), ("short", plain(3, false).view())]).unwrap();
    let method = two.method("short").unwrap();
    let short = Trainer::new(two, "loss", CONSTANT, batches(Partial::Short), 7).unwrap();
    let mut short = short.method_of(3, method).unwrap();
    for _ in 0..9 {
        let (a, b) = (pad.step(&mut write).unwrap(), short.step(&mut write).unwrap());
        assert_eq!((a.step, a.epoch, a.examples), (b.step, b.epoch, b.examples));
        assert!((a.loss - b.loss).abs() < 1e-6 * a.loss.max(1.0), "{} {}", a.loss, b.loss);
    }
    let weights = |t: &Trainer| t.program().values::<f32>("fc.weight").unwrap().to_vec();
    assert!(weights(&pad).iter().zip(weights(&short)).all(|(a, b)| (a - b).abs() < 1e-6));
}

#[test]
fn short_batches_resume_to_the_same_bits() {
    let new = || {
        let (whole, rest) = (graph(4, false), graph(3, false));
        let p = Session::new().compile_all(&[("step", &whole), ("short", &rest)]).unwrap();
        let m = p.method("short").unwrap();
        let batches = Batches::new(11, 4, 2).unwrap().partial(Partial::Short);
        Trainer::new(p, "loss", CONSTANT, batches, 2).unwrap().method_of(3, m).unwrap()
    };
    resumes("short", 8, &new, &|t| t.step(&mut write).unwrap());
}

#[test]
fn partial_batches_without_a_place_are_refused() {
    let batches = |how| Batches::new(11, 4, 2).unwrap().partial(how);
    let new = |g: &GraphBuf, how| Trainer::new(compile(g), "loss", CONSTANT, batches(how), 2);
    let e = new(&graph(4, false), Partial::Pad).err().unwrap().to_string();
    assert!(e.contains("padded batches") && e.contains("\"mask\""), "{e}");
    let e = new(&graph(3, true), Partial::Pad).err().unwrap();
    assert!(e.kind == Kind::Shape && e.to_string().contains("has 3 elements for batches of 4 examples"), "{e}");
    let mut t = new(&graph(4, false), Partial::Short).unwrap();
    (0..2).for_each(|_| assert!(t.step(&mut write).is_ok()));
    let e = t.step(&mut write).unwrap_err().to_string();
    assert!(e.contains("no method is for a batch of 3 examples"), "{e}");
    assert_eq!((t.steps_done(), t.batches_taken()), (2, 2));
    let other = compile(&graph(3, false));
    let m = other.method("step").unwrap();
    assert!(t.method_of(3, m).err().unwrap().to_string().contains("another program"));
    let p = compile(&graph(4, false));
    let m = p.method("step").unwrap();
    let t = Trainer::new(p, "loss", CONSTANT, batches(Partial::Short), 2).unwrap();
    assert!(t.method_of(4, m).err().unwrap().to_string().contains("there is a method for batches of 4 examples"));
    // A checkpoint tells how its run treated them.
    let path = scratch("kind");
    padded(CONSTANT).save(&path).unwrap();
    let mut plain =
        Trainer::new(compile(&graph(4, true)), "loss", CONSTANT, Batches::new(11, 4, 7).unwrap(), 7).unwrap();
    let e = plain.restore(&path).unwrap_err().to_string();
    assert!(e.contains("kind of partial batches 1, this run has 0"), "{e}");
    std::fs::remove_file(path).unwrap();
}

fn plateau() -> ReduceLrOnPlateau {
    let threshold = Threshold::Absolute(0.01);
    ReduceLrOnPlateau::new(0.02).factor(0.5).patience(1).cooldown(1).threshold(threshold)
}

/// Trains a step and reports its loss.
fn step_and_report(t: &mut Trainer) -> Progress {
    let p = t.step(&mut write).unwrap();
    t.report(p.loss);
    p
}

#[test]
fn rates_with_state_resume_to_the_same_bits() {
    let lrs = |mut t: Trainer, n| (0..n).map(|_| step_and_report(&mut t).lr).collect::<Vec<_>>();
    let falling = lrs(padded(plateau()), 30);
    assert!(falling[29] < 0.011 && falling.windows(2).all(|w| w[1] == w[0] || w[1] == w[0] * 0.5), "{falling:?}");
    resumes("plateau", 12, &|| padded(plateau()), &step_and_report);
    let of_metrics = || {
        padded(Rate::of_metrics(|m: &RateInput| {
            let loss = if m.loss.is_nan() { 1.0 } else { m.loss };
            1e-2 * loss.min(1.0) / (1.0 + m.step as f64) + if m.metric.is_nan() { 0.0 } else { 1e-4 * m.metric }
        }))
    };
    resumes("metrics", 8, &of_metrics, &step_and_report);
    let of_step = || padded(|step: u64| 1e-2 / (1.0 + step as f64));
    assert_eq!(lrs(of_step(), 3), [1e-2, 5e-3, 1e-2 / 3.0]);
    resumes("step", 5, &of_step, &step_and_report);
}

#[test]
fn names_of_the_trainers_own_tensors_are_refused() {
    let g = Builder::new("names");
    let w = g.param("train.rate", [1], DType::F32, Init::Ones);
    let step = train(&g.finish([(w * w).sum(..).named("loss")]).unwrap(), "loss", optim::Sgd::new(0.1)).unwrap();
    let e = Trainer::streaming(compile(&step), "loss", CONSTANT, 0).err().unwrap();
    assert!(e.kind == Kind::Name && e.message.contains("\"train.rate\" is the name of a tensor"), "{e}");
    // A program without a trainer reads back what it wrote.
    let (mut p, path) = (compile(&step), scratch("names"));
    p.values_mut::<f32>("train.rate").unwrap()[0] = 7.0;
    p.save(&path).unwrap();
    p.init(0).unwrap();
    p.load(&path).unwrap();
    assert_eq!(p.values::<f32>("train.rate").unwrap(), [7.0]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn bad_rates_end_the_step_before_it_begins() {
    for (bad, text) in [(f64::NAN, "NaN"), (-1.0, "-1"), (f64::INFINITY, "inf")] {
        let mut t = padded(move |step: u64| if step == 1 { bad } else { 0.1 });
        t.step(&mut write).unwrap();
        let before = persistent(&t);
        let e = t.step(&mut write).unwrap_err();
        assert_eq!((e.kind, e.to_string()), (Kind::Data, format!("the learning rate of step 2 is {text}")));
        assert_eq!((persistent(&t), t.steps_done(), t.batches_taken()), (before, 1, 1));
    }
    let worse = plateau().factor(2.0);
    let new = |rate: Rate| Trainer::new(compile(&graph(4, false)), "loss", rate, Batches::new(8, 4, 0).unwrap(), 0);
    assert!(new(worse.into()).err().unwrap().to_string().contains("plateau: factor is 2"));
    // The state of a rate is neither lost nor invented.
    let path = scratch("rates");
    padded(plateau()).save(&path).unwrap();
    let e = padded(CONSTANT).restore(&path).unwrap_err().to_string();
    assert!(e.contains("\"train.rate\", which this run does not have"), "{e}");
    let of_metrics = || padded(Rate::of_metrics(|_: &RateInput| 0.1));
    let e = of_metrics().restore(&path).unwrap_err().to_string();
    assert!(e.contains("f64[6] in the file, not f64[2]"), "{e}");
    of_metrics().save(&path).unwrap();
    let e = padded(plateau()).restore(&path).unwrap_err().to_string();
    assert!(e.contains("f64[2] in the file, not f64[6]"), "{e}");
    padded(CONSTANT).save(&path).unwrap();
    let e = padded(plateau()).restore(&path).unwrap_err().to_string();
    assert!(e.contains("there is no tensor \"train.rate\""), "{e}");
    std::fs::remove_file(path).unwrap();
}

/// Batches of four, `per_epoch` an epoch: those of epoch `e` begin at example `100·e`.
fn numbers(per_epoch: u32, epochs: u64) -> impl arenagrad::train::Source {
    let batch = |e: u32, k: u32| -> [u32; 4] { std::array::from_fn(|i| 100 * e + 4 * k + i as u32) };
    let open = move |e: u64| Ok((0..per_epoch).map(move |k| Ok(batch(e as u32, k))));
    stream(epochs, open, |p: &mut Program, which: [u32; 4]| write(p, &which).map(|_| 4))
}

fn streaming() -> Trainer {
    Trainer::streaming(compile(&graph(4, false)), "loss", CONSTANT, 5).unwrap()
}

#[test]
fn streams_end_and_resume_to_the_same_bits() {
    let path = scratch("stream");
    let (mut straight, mut source) = (streaming(), numbers(3, 3));
    let mut all = Vec::new();
    while let Some(p) = straight.step_from(&mut source).unwrap() {
        all.push(seen(p));
    }
    assert_eq!(all.iter().map(|s| s.1).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    assert_eq!((straight.batches_taken(), straight.epochs_done(), all[4].2), (9, 3, 4));
    for stop in 0..=9 {
        let (mut first, mut source) = (streaming(), numbers(3, 3));
        (0..stop).for_each(|_| assert!(first.step_from(&mut source).is_ok()));
        first.save(&path).unwrap();
        let (mut second, mut source) = (streaming(), numbers(3, 3));
        second.restore(&path).unwrap();
        let mut rest = Vec::new();
        while let Some(p) = second.step_from(&mut source).unwrap() {
            rest.push(seen(p));
        }
        assert_eq!(rest, all[stop..]);
        assert_eq!(persistent(&second), persistent(&straight));
    }
    // A stream that is shorter now cannot be resumed.
    let (mut t, mut source) = (streaming(), numbers(3, 3));
    (0..2).for_each(|_| assert!(t.step_from(&mut source).is_ok()));
    t.save(&path).unwrap();
    t.restore(&path).unwrap();
    let e = t.step_from(&mut numbers(1, 3)).unwrap_err().to_string();
    assert!(e.contains("epoch 0 of the stream has 1 batches; 2 of it were taken"), "{e}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_stream_may_have_a_method_for_single_examples() {
    let p = Session::new().compile_all(&[("step", &graph(4, false)), ("one", &graph(1, false))]).unwrap();
    let one = p.method("one").unwrap();
    let loss = p.output_of::<f32>(one, "loss").unwrap();
    let mut t = Trainer::streaming(p, "loss", CONSTANT, 5).unwrap().method_of(1, one).unwrap();
    let sizes = [4u32, 1, 4];
    let open = move |_: u64| Ok(sizes.into_iter().map(Ok));
    let fill = |p: &mut Program, n: u32| write(p, &Vec::from_iter(0..n)).map(|_| n as usize);
    let mut source = stream(1, open, fill);
    for n in sizes {
        let p = t.step_from(&mut source).unwrap().unwrap();
        assert_eq!(p.examples, n as usize);
        assert_eq!(p.loss == f64::from(t.program()[loss][0]), n == 1);
    }
}

#[test]
fn an_epoch_without_batches_takes_nothing() {
    let open = |epoch: u64| Ok((0..if epoch == 1 { 0 } else { 2u32 }).map(Ok));
    let mut source = stream(3, open, |p: &mut Program, k: u32| write(p, &[k, k + 1, k + 2, k + 3]).map(|_| 4));
    let mut t = streaming();
    (0..2).for_each(|_| assert!(t.step_from(&mut source).is_ok()));
    for _ in 0..2 {
        let e = t.step_from(&mut source).unwrap_err().to_string();
        assert_eq!(e, "the source gives no batch in epoch 1");
        assert_eq!((t.epoch(), t.batches_taken()), (0, 2));
    }
}

#[test]
fn errors_of_a_source_name_the_batch_and_take_none() {
    let mut failures = 2;
    let open = |_| Ok((0u32..5).map(Ok));
    let mut source = stream(1, open, |p: &mut Program, k: u32| {
        if k == 3 && failures > 0 {
            failures -= 1;
            return Err(Error::new(Kind::Io, "the disk went away"));
        }
        write(p, &[k, k + 1, k + 2, k + 3]).map(|_| 4)
    });
    let mut t = streaming();
    (0..3).for_each(|_| assert!(t.step_from(&mut source).is_ok()));
    for _ in 0..2 {
        let e = t.step_from(&mut source).unwrap_err();
        assert_eq!((e.kind, e.to_string()), (Kind::Io, "batch 3 of epoch 0: the disk went away".to_string()));
        assert_eq!((t.steps_done(), t.batches_taken()), (3, 3));
    }
    while t.step_from(&mut source).unwrap().is_some() {}
    let mut good = streaming();
    let mut source =
        stream(1, |_| Ok((0u32..5).map(Ok)), |p: &mut Program, k: u32| write(p, &[k, k + 1, k + 2, k + 3]).map(|_| 4));
    while good.step_from(&mut source).unwrap().is_some() {}
    assert_eq!(persistent(&t), persistent(&good));
}

#[test]
fn feeds_are_not_mixed_up() {
    let e = padded(CONSTANT).step_from(&mut numbers(3, 1)).unwrap_err().to_string();
    assert!(e.contains("takes shuffled batches; call Trainer::step"), "{e}");
    let e = streaming().step_from(&mut numbers(0, 5)).unwrap_err().to_string();
    assert!(e.contains("the source gives no batch in epoch 1"), "{e}");
    let path = scratch("feeds");
    streaming().save(&path).unwrap();
    let batches = Batches::new(11, 4, 5).unwrap();
    let mut shuffled = Trainer::new(compile(&graph(4, false)), "loss", CONSTANT, batches, 5).unwrap();
    let e = shuffled.restore(&path).unwrap_err().to_string();
    assert!(e.contains("the checkpoint is of a stream, this run is of shuffled batches"), "{e}");
    // A program without a trainer reads the params of either.
    compile(&graph(4, false)).load(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    // Without a source, the caller writes each batch.
    let mut t = streaming();
    let p = t.step(&mut |p, which| {
        assert!(which.is_empty());
        write(p, &[1, 2, 3, 4])
    });
    assert_eq!((p.unwrap().step, t.batches_taken()), (1, 1));
    struct Stuck;
    impl arenagrad::train::Source for Stuck {
        fn next(&mut self, _: &mut Program) -> arenagrad::Result<Supply> {
            Ok(Supply::End)
        }
        fn seek(&mut self, _: arenagrad::train::StreamPosition) -> arenagrad::Result<()> {
            Err(Error::new(Kind::Data, "a sensor cannot go back"))
        }
    }
    let e = t.step_from(&mut Stuck).unwrap_err().to_string();
    assert_eq!(e, "batch 1 of epoch 0: a sensor cannot go back");
}

#[test]
fn kept_numbers_are_in_the_checkpoint() {
    let path = scratch("kept");
    let mut t = padded(CONSTANT);
    t.kept("best", &[f64::INFINITY, 0.0]).unwrap().copy_from_slice(&[-0.0, f64::from_bits(0x7ff8_0000_0000_0001)]);
    t.save(&path).unwrap();
    let mut second = padded(CONSTANT);
    second.kept("other", &[1.0]).unwrap()[0] = 2.0;
    second.restore(&path).unwrap();
    let bits: Vec<u64> = second.kept("best", &[0.0; 2]).unwrap().iter().map(|x| x.to_bits()).collect();
    assert_eq!(bits, [1 << 63, 0x7ff8_0000_0000_0001]);
    assert_eq!(second.kept("other", &[1.0]).unwrap(), [1.0]);
    let e = second.kept("best", &[0.0]).unwrap_err().to_string();
    assert!(e.contains("keeps 2 numbers of \"best\", not 1"), "{e}");
    let e = second.kept("many", &[0.0; 1 << 16]).unwrap_err().to_string();
    assert!(e.contains("\"many\" keeps 65536 numbers, 3 are kept; at most 65536"), "{e}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_run_may_go_on_after_a_loss_that_is_not_finite() {
    let line = || {
        let g = Builder::new("line");
        let w = g.param("w", [2], F32, Init::Ones);
        let loss = (g.input("x", [2], F32) * w).sum(..);
        compile(&train(&g.finish([loss.named("loss")]).unwrap(), "loss", optim::Sgd::new(0.1)).unwrap())
    };
    let mut t = Trainer::streaming(line(), "loss", CONSTANT, 0).unwrap().on_non_finite(NonFinite::GoOn);
    let mut feed = |x: f32| {
        t.step(&mut |p, _| {
            p.values_mut::<f32>("x")?.fill(x);
            Ok(())
        })
        .unwrap()
    };
    assert!(feed(f32::NAN).loss.is_nan());
    assert_eq!(feed(1.0).step, 2);
    let mut t = Trainer::streaming(line(), "loss", CONSTANT, 0).unwrap();
    let e = t.step(&mut |p, _| {
        p.values_mut::<f32>("x")?.fill(f32::INFINITY);
        Ok(())
    });
    let e = e.unwrap_err();
    assert_eq!(e.kind, Kind::Diverged);
    for part in ["the loss of step 1 is inf (output \"loss\", rate 0.01)", "Session::find_nan", "lower rate"] {
        assert!(e.to_string().contains(part), "{e}");
    }
}

/// The rate and the mask of a step reach the program, as `f32` and `f64`, the mask as truth values too.
#[test]
fn rates_and_masks_reach_the_program() {
    for (dtype, mask) in [(F32, F32), (F32, DType::U8), (DType::F64, DType::F64), (DType::F64, DType::Bool)] {
        let g = Builder::new("line");
        let (x, w) = (g.input("x", [4], dtype), g.param("w", [], dtype, Init::Zeros));
        let loss = ((w - x) * g.input("mask", [4], mask).cast(dtype)).sum(..).named("loss");
        let graph = train(&g.finish([loss]).unwrap(), "loss", optim::Sgd::new(1.0)).unwrap();
        let batches = Batches::new(6, 4, 7).unwrap().partial(Partial::Pad);
        let mut t = Trainer::new(compile(&graph), "loss", Schedule::Constant { lr: 0.25 }, batches, 7).unwrap();
        // The slope is the number of examples that count.
        for at in [-1.0, -1.5] {
            let fill = |p: &mut Program, _: &[u32]| {
                match dtype {
                    F32 => p.values_mut::<f32>("x")?.fill(0.5),
                    _ => p.values_mut::<f64>("x")?.fill(0.5),
                }
                Ok(())
            };
            t.step(&mut { fill }).unwrap();
            let w = match dtype {
                F32 => f64::from(t.program().values::<f32>("w").unwrap()[0]),
                _ => t.program().values::<f64>("w").unwrap()[0],
            };
            assert_eq!(w, at, "{dtype}, mask {mask}");
        }
    }
}
