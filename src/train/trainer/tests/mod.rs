//! The trainer: resuming, and refusing checkpoints of other runs.

use super::*;
use crate::nn;
use crate::nodes::{Builder, DType};
use crate::optim::{self, train};
use crate::passes::optimiser::STEP;
use crate::session::Session;
use crate::train::Schedule;
use crate::train::checkpoint::{self, Digest, Loaded};
use std::path::{Path, PathBuf};

mod saved;
mod streams;

const BATCH: usize = 4;
const QUARTER: Schedule = Schedule::Constant { lr: 0.25 };

fn trainer(hidden: usize, seed: u64) -> Trainer {
    small_run_at(hidden, seed, Schedule::one_cycle(1e-2, 40))
}

fn program(hidden: usize) -> Program {
    let g = Builder::new("small");
    let x = g.input("x", [BATCH, 3], DType::F32);
    let h = nn::linear(&g, "fc1", x, hidden).tanh().dropout(0.25);
    let loss = nn::linear(&g, "fc2", h, 1).mse(x.narrow(1, 0, 1)).named("loss");
    let graph = g.finish([loss]).unwrap();
    let step = train(&graph, "loss", optim::AdamW::new(1e-2)).unwrap();
    Session::new().compile(&step).unwrap()
}

fn small_run_at(hidden: usize, seed: u64, rate: impl Into<Rate>) -> Trainer {
    let batches = Batches::new(11, BATCH, seed).unwrap();
    Trainer::new(program(hidden), "loss", rate, batches, seed).unwrap()
}

fn run(t: &mut Trainer, steps: usize) -> Vec<u64> {
    let x = t.program().input::<f32>("x").unwrap();
    let fill = &mut |p: &mut Program, which: &[u32]| {
        let rows = p.get_mut(x)?.chunks_exact_mut(3).zip(which);
        rows.for_each(|(row, &i)| row.copy_from_slice(&[i as f32 * 0.1, 1.0, -(i as f32)]));
        Ok(())
    };
    (0..steps).map(|_| t.step(fill).unwrap().loss.to_bits()).collect()
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("arenagrad-trainer-{}-{name}.safetensors", std::process::id()))
}

fn weights(t: &Trainer) -> Vec<u8> {
    checkpoint::encode(&t.weights()).unwrap()
}

#[test]
fn a_resumed_run_is_the_straight_run() {
    let path = file("resume");
    let mut straight = trainer(8, 3);
    let losses = run(&mut straight, 20);
    for stop in [0, 1, 2, 7] {
        let mut first = trainer(8, 3);
        run(&mut first, stop);
        first.save(&path).unwrap();
        let mut second = trainer(8, 3);
        run(&mut second, 5);
        second.restore(&path).unwrap();
        assert_eq!(second.steps_done(), stop as u64);
        assert_eq!(run(&mut second, 20 - stop), losses[stop..]);
        assert_eq!(weights(&second), weights(&straight));
    }
    std::fs::remove_file(path).unwrap();
}

/// Batches of two over a graph for four.
#[test]
fn a_batch_that_leaves_rows_of_an_input_as_they_were_is_an_error() {
    let batches = || Batches::new(11, 2, 3).unwrap();
    let trainer = || Trainer::new(program(8), "loss", QUARTER, batches(), 3).unwrap();
    let mut t = trainer();
    t.program_mut().values_mut::<f32>("x").unwrap().fill(0.5);
    let two = &mut |p: &mut Program, which: &[u32]| {
        assert_eq!(which.len(), 2);
        p.values_mut::<f32>("x")?[..6].copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        Ok(())
    };
    let before = weights(&t);
    let e = t.step(two).unwrap_err();
    assert_eq!(e.kind, Kind::Data);
    let want = "input \"x\" (f32[4,3]) has 4 rows, and only the 2 of a batch were written";
    assert!(e.to_string().starts_with(want), "{e}");
    assert_eq!((weights(&t), t.steps_done(), t.batches_taken()), (before, 0, 0));
    // Both examples, each twice; an input that is written once before the run; and one of which a part stays.
    let written: Vec<f32> = (0u8..12).map(f32::from).collect();
    let write = |p: &mut Program, n: usize| {
        p.values_mut::<f32>("x")?[..n].copy_from_slice(&written[..n]);
        Ok(())
    };
    let mut all = trainer();
    all.step(&mut |p: &mut Program, _: &[u32]| write(p, 12)).unwrap();
    let mut none = trainer();
    write(none.program_mut(), 12).unwrap();
    none.step(&mut |_: &mut Program, _: &[u32]| Ok(())).unwrap();
    let mut some = trainer();
    write(some.program_mut(), 12).unwrap();
    some.step(&mut |p: &mut Program, _: &[u32]| write(p, 9)).unwrap();
    assert_eq!((weights(&none), weights(&some)), (weights(&all), weights(&all)));
    // Nothing was written at all.
    let e = trainer().step(&mut |_: &mut Program, _: &[u32]| Ok(())).unwrap_err();
    assert!(e.to_string().contains("\"x\"") && e.to_string().contains("was never written"), "{e}");
}

#[test]
fn checkpoints_of_other_runs_are_refused_and_change_nothing() {
    let path = file("other");
    let refused = |from: Trainer, part: &str| {
        from.save(&path).unwrap();
        let mut t = trainer(8, 3);
        let before = weights(&t);
        let e = t.restore(&path).unwrap_err().to_string();
        assert!(e.contains(part), "{e:?} should mention {part:?}");
        assert_eq!((weights(&t), t.steps_done()), (before, 0));
    };
    refused(trainer(8, 4), "seed 4, this run has 3");
    refused(trainer(9, 3), "\"fc1.weight\" is f32[9, 3] in the file, not f32[8, 3]");
    let of = |examples| {
        let batches = Batches::new(examples, BATCH, 3).unwrap();
        Trainer::new(program(8), "loss", Schedule::one_cycle(1e-2, 40), batches, 3).unwrap()
    };
    refused(of(10), "number of examples 10, this run has 11");
    refused(of(12), "number of examples 12, this run has 11");
    let t = trainer(8, 3);
    t.save(&path).unwrap();
    let file = Loaded::open(&path).unwrap();
    let other = Entry { name: "other.weight", dtype: DType::U8, dims: &[1], bytes: &[7] };
    checkpoint::save(&path, &file.entries().chain([other]).collect::<Vec<_>>()).unwrap();
    let e = trainer(8, 3).restore(&path).unwrap_err().to_string();
    assert!(e.contains("the checkpoint has \"other.weight\", which this run does not have"), "{e}");
    checkpoint::save(&path, &t.weights()).unwrap();
    assert!(trainer(8, 3).restore(&path).unwrap_err().to_string().contains(CURSOR));
    std::fs::remove_file(path).unwrap();
}

/// A checkpoint after five steps, three of which fill an epoch's first half, with one tensor changed.
fn edited(path: &Path, name: &str, change: impl Fn(&mut [i64])) {
    edited_of(trainer(8, 3), path, name, change);
}

fn edited_of(mut t: Trainer, path: &Path, name: &str, change: impl Fn(&mut [i64])) {
    run(&mut t, 5);
    t.save(path).unwrap();
    let file = Loaded::open(path).unwrap();
    let mut numbers: Vec<i64> = bytemuck::pod_collect_to_vec(file.find(name).unwrap().bytes);
    change(&mut numbers);
    let new = |e: Entry<'_>| e.name == name;
    let all: Vec<Entry<'_>> =
        file.entries().map(|e| if new(e) { Entry { bytes: bytemuck::cast_slice(&numbers), ..e } } else { e }).collect();
    checkpoint::save(path, &all).unwrap();
}

#[test]
fn numbers_that_no_run_comes_to_are_refused() {
    let path = file("ranges");
    let refused = |name: &str, change: &dyn Fn(&mut [i64]), part: &str| {
        edited(&path, name, change);
        let mut t = trainer(8, 3);
        let before = weights(&t);
        let e = t.restore(&path).unwrap_err().to_string();
        assert!(e.contains(part), "{e:?} should mention {part:?}");
        assert_eq!((weights(&t), t.steps_done(), t.batches_taken()), (before, 0, 0));
    };
    for bit in 3..64 {
        refused(CURSOR, &|c| c[1] ^= 1 << bit, "5 batches");
    }
    refused(CURSOR, &|c| c[2] = i64::MAX, "batches");
    refused(CURSOR, &|c| c[2] = -1, "batches");
    refused(CURSOR, &|c| c[2] -= 1, "step 5 at epoch 1, position 4, before which are 3 batches");
    refused(CURSOR, &|c| c[3] = 12, "position 12");
    refused(CURSOR, &|c| c[3] = -4, "position");
    refused(CURSOR, &|c| c[0] += 1, "the checkpoint has version ");
    refused(CURSOR, &|c| c[5] += 1, "the checkpoint has batch ");
    refused(STEP, &|s| s[0] = -1, "opt.step is -1; it goes from 0");
    refused(STEP, &|s| s[0] |= 1 << 60, "opt.step");
    refused(STEP, &|s| s[0] = (1 << 53) + 1, "opt.step is 9007199254740993; it goes from 0 to 9007199254740992");
    for steps in [5, 1 << 53] {
        edited(&path, STEP, |s| s[0] = steps);
        assert_eq!(trainer(8, 3).restore(&path).unwrap(), Digest::Fits);
    }
    std::fs::remove_file(path).unwrap();
}

/// The state of a plateau: two metrics, the rate, the best metric, and two counts.
#[test]
fn a_state_of_a_rate_that_no_run_comes_to_is_refused() {
    let path = file("rates");
    let new = || small_run_at(8, 3, crate::train::ReduceLrOnPlateau::new(1e-2));
    let restored = |i: usize, x: f64| {
        edited_of(new(), &path, "train.rate", |r| r[i] = x.to_bits() as i64);
        new().restore(&path)
    };
    for (i, good) in [(2, 0.0), (3, f64::INFINITY), (4, 0.0), (4, (1u64 << 53) as f64), (5, 7.0)] {
        restored(i, good).unwrap();
    }
    let counts = [-1.0, 0.5, (1u64 << 54) as f64, f64::INFINITY, f64::NAN].map(|x| [(4, x), (5, x)]);
    for (i, bad) in counts.into_iter().flatten().chain([(2, -0.5), (2, f64::INFINITY), (3, f64::NAN)]) {
        let e = restored(i, bad).unwrap_err();
        assert!(e.message.contains("train.rate has rate "), "number {i} is {bad}: {e}");
    }
    std::fs::remove_file(path).unwrap();
}

/// The next step gets the same one, in a run that resumes from here too.
#[test]
fn a_failed_step_takes_no_batch() {
    let path = file("failed");
    let mut t = trainer(8, 3);
    run(&mut t, 1);
    assert!(t.step(&mut |_, _| Err(Error::new(Kind::Data, "unreadable"))).is_err());
    t.save(&path).unwrap();
    let mut second = trainer(8, 3);
    second.restore(&path).unwrap();
    assert_eq!((second.steps_done(), second.batches_taken()), (1, 1));
    assert_eq!(run(&mut second, 3), run(&mut t, 3));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_error_of_the_caller_ends_the_step() {
    let mut t = trainer(8, 3);
    let e = t.step(&mut |_, _| Err(Error::new(Kind::Data, "no more"))).unwrap_err();
    assert_eq!((e.to_string(), t.steps_done()), ("no more".to_string(), 0));
}

#[test]
fn params_are_copied_by_name() {
    let mut from = trainer(8, 3);
    run(&mut from, 3);
    let mut to = trainer(8, 5);
    copy_params(from.program(), to.program_mut()).unwrap();
    assert_eq!(weights(&from), weights(&to));
    let mut names: Vec<&str> = to.weights().iter().map(|e| e.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]);
    assert!(copy_params(from.program(), trainer(9, 3).program_mut()).is_err());
}

/// Another output than the loss may be followed. Of several elements, the first is reported.
#[test]
fn the_first_element_of_an_output_is_reported() {
    for dtype in [DType::F32, DType::F64] {
        let g = Builder::new("sums");
        let x = g.input("x", [BATCH, 3], dtype);
        let loss = nn::linear(&g, "fc", x, 1).square().mean(..).named("loss");
        let graph = g.finish([loss, x.sum(1).named("sums")]).unwrap();
        let step = train(&graph, "loss", optim::Sgd::new(1e-2)).unwrap();
        let program = Session::new().compile(&step).unwrap();
        let rate = Schedule::Constant { lr: 1e-2 };
        let mut t = Trainer::new(program, "sums", rate, Batches::new(11, BATCH, 3).unwrap(), 3).unwrap();
        let fill = &mut |p: &mut Program, _: &[u32]| {
            match dtype {
                DType::F32 => p.values_mut::<f32>("x")?.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32),
                _ => p.values_mut::<f64>("x")?.iter_mut().enumerate().for_each(|(i, x)| *x = i as f64),
            }
            Ok(())
        };
        // The sums are 3, 12, 21 and 30.
        assert_eq!(t.step(fill).unwrap().loss, 3.0, "{dtype}");
    }
}
