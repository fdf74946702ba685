//! What a resumed run refuses, and one writer a folder.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use arenagrad::train::checkpoint::{self, Entry, Loaded};
use common::{Scratch, fails, good, program, run};
use std::path::Path;
use std::time::{Duration, Instant};

/// A finished run of four steps.
fn finished(s: &Scratch) -> String {
    let out = s.path("o");
    good(&["train", "digits", "--steps", "4", "--out", &out, "--quiet", "--threads", "1"]);
    out
}

/// Changes the numbers of tensor `name` in the run's checkpoint; the file gets a digest that fits.
fn edit<T: bytemuck::Pod>(dir: &str, name: &str, change: impl Fn(&mut [T])) {
    let path = Path::new(dir).join("checkpoint.safetensors");
    let file = Loaded::open(&path).unwrap();
    let mut numbers: Vec<T> = bytemuck::pod_collect_to_vec(file.find(name).unwrap().bytes);
    change(&mut numbers);
    let bytes = bytemuck::cast_slice(&numbers);
    let entries: Vec<Entry<'_>> =
        file.entries().map(|e| if e.name == name { Entry::new(e.name, e.dtype, e.dims, bytes) } else { e }).collect();
    checkpoint::save(&path, &entries).unwrap();
}

/// Takes the digest out of a file, as a version wrote it that knew none.
fn unsealed(path: &Path) {
    let file = std::fs::read(path).unwrap();
    let n = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&file[8..8 + n]).unwrap();
    let at = header.find(", \"arenagrad.digest\"").unwrap();
    let end = at + header[at..].find('}').unwrap();
    let header = format!("{}{}", &header[..at], &header[end..]);
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &file[8 + n..]].concat();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn fewer_steps_than_done_are_refused() {
    let s = Scratch::new();
    let out = finished(&s);
    let summary = || std::fs::read(format!("{out}/summary.json")).unwrap();
    let before = summary();
    let resume = ["train", "digits", "--resume", &out, "--quiet", "--threads", "1", "--steps"];
    fails(2, &[&resume[..], &["3"]].concat(), &["checkpoint.safetensors", "4 steps are done", "3 that are asked for"]);
    assert_eq!(summary(), before, "nothing is written");
    good(&[&resume[..], &["4"]].concat());
}

/// A schedule's length is that of the run, so more steps are another schedule, unless the rate stays the same.
#[test]
fn another_schedule_is_refused_and_a_constant_rate_goes_on() {
    let s = Scratch::new();
    let out = finished(&s);
    let resume = ["train", "digits", "--resume", &out, "--quiet", "--threads", "1"];
    let parts = ["checkpoint.safetensors", "step 4 had the learning rate ", "schedule of 8 steps gives it "];
    fails(2, &[&resume[..], &["--steps", "8"]].concat(), &parts);
    good(&resume);
    let out = s.path("constant");
    let config = s.path("constant.toml");
    std::fs::write(&config, "[schedule]\nkind = \"constant\"\n").unwrap();
    let run = |more: &[&str]| good(&[&["train", &config, "--quiet", "--threads", "1"], more].concat());
    run(&["--steps", "4", "--out", &out]);
    run(&["--steps", "8", "--resume", &out]);
    let weights = |dir: &str| std::fs::read(format!("{dir}/weights.safetensors")).unwrap();
    let straight = s.path("straight");
    run(&["--steps", "8", "--out", &straight]);
    assert_eq!(weights(&out), weights(&straight));
}

/// In an address space that the losses of that many steps would not fit.
#[cfg(unix)]
#[test]
fn a_step_beyond_the_run_takes_no_memory() {
    let s = Scratch::new();
    let out = finished(&s);
    for step in [5, 1 << 29, 1 << 32, 1 << 40] {
        // 22 batches of 64 are taken from the 1438 images of an epoch.
        edit::<u64>(&out, "train.cursor", |c| (c[1], c[2], c[3]) = (step, (step - 1) / 22, ((step - 1) % 22 + 1) * 64));
        let text = "ulimit -v 2000000; exec \"$0\" train digits --resume \"$1\" --quiet --threads 1";
        let out = std::process::Command::new("sh").args(["-c", text, env!("CARGO_BIN_EXE_arenagrad"), &out]).output();
        let out = out.unwrap();
        let errors = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{step}: {errors}");
        assert!(errors.contains(&format!("{step} steps are done, more than the 4")), "{errors}");
    }
}

#[test]
fn numbers_that_do_not_agree_are_refused() {
    let s = Scratch::new();
    let out = finished(&s);
    let file = Path::new(&out).join("checkpoint.safetensors");
    let whole = std::fs::read(&file).unwrap();
    let refused = |parts: &[&str]| {
        fails(2, &["train", "digits", "--resume", &out, "--quiet", "--threads", "1"], parts);
        std::fs::write(&file, &whole).unwrap();
    };
    for bit in 0..64 {
        edit::<u64>(&out, "opt.step", |t| t[0] ^= 1 << bit);
        refused(&["checkpoint.safetensors", "opt.step is "]);
    }
    edit::<u64>(&out, "train.cursor", |c| c[1] = 3);
    refused(&["3 steps took 4 batches"]);
    edit::<u64>(&out, "train.cursor", |c| c[2] += 1);
    refused(&["4 steps took 26 batches"]);
    edit::<u64>(&out, "train.cursor", |c| c[3] += 64);
    refused(&["4 steps took 5 batches"]);
    edit::<u32>(&out, "rng", |k| k[3] ^= 1 << 7);
    refused(&["rng is [0, 0, 4, 128] after 4 steps"]);
    edit::<u32>(&out, "rng", |k| k[0] ^= 1);
    refused(&["rng is [1, 0, 4, 0] after 4 steps"]);
}

#[test]
fn a_checkpoint_without_a_digest_is_read_with_a_warning() {
    let s = Scratch::new();
    let out = finished(&s);
    let weights = std::fs::read(format!("{out}/weights.safetensors")).unwrap();
    unsealed(&Path::new(&out).join("checkpoint.safetensors"));
    let done = run(&["train", "digits", "--resume", &out, "--quiet", "--threads", "1"]);
    let errors = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(0), "{errors}");
    assert!(errors.lines().count() == 1 && errors.contains("warning") && errors.contains("digest"), "{errors}");
    assert_eq!(std::fs::read(format!("{out}/weights.safetensors")).unwrap(), weights);
}

/// Weights of another program, which has no digests, are read without a word.
#[test]
fn weights_without_a_digest_are_read_in_silence() {
    let s = Scratch::new();
    let g = "graph @g {\n  %w = param init=zeros scale=0 frozen=false : f32[2]\n  return y=%w\n}\n";
    let g = s.file("g.ir", g);
    let path = s.0.join("w.safetensors");
    let bytes = [1.0f32, 2.0].map(f32::to_le_bytes).concat();
    let w = Entry::new("w", arenagrad::graph::DType::F32, &[2], &bytes);
    checkpoint::save(&path, &[w]).unwrap();
    unsealed(&path);
    let done = run(&["run", &g, "--weights", path.to_str().unwrap(), "--out", &s.path("out")]);
    assert_eq!((done.status.code(), String::from_utf8(done.stderr).unwrap().as_str()), (Some(0), ""));
    assert!(std::fs::read(s.path("out/y.npy")).unwrap().ends_with(&bytes));
}

/// The lock goes with the process that holds it, also if that is killed.
#[test]
fn a_folder_has_one_writer() {
    let s = Scratch::new();
    let out = s.path("o");
    let args = ["train", "digits", "--steps", "1000000", "--out", &out, "--threads", "1", "--quiet"];
    let mut first = program(&args).spawn().unwrap();
    let start = Instant::now();
    while !Path::new(&out).join("metrics.jsonl").exists() {
        assert!(start.elapsed() < Duration::from_secs(300) && first.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(2));
    }
    let files = |name: &str| std::fs::read(Path::new(&out).join(name)).unwrap();
    let config = files("run.toml");
    let refused: &[&str] = &[&format!("{out}: another process writes into this folder")];
    fails(2, &["train", "digits", "--steps", "3", "--out", &out, "--quiet"], refused);
    let graph = s.file("g.ir", "graph @g {\n  %y = full value=1 : f32[2]\n  return y=%y\n}\n");
    fails(2, &["run", &graph, "--out", &out], refused);
    assert_eq!(files("run.toml"), config, "nothing is written");
    first.kill().unwrap();
    first.wait().unwrap();
    good(&["train", "digits", "--steps", "3", "--out", &out, "--quiet", "--threads", "1"]);
    good(&["run", &graph, "--out", &out]);
}

/// The steps of the records in the event files of `dir`, file by file.
fn event_steps(dir: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    let steps = |file: Vec<u8>| {
        let (mut left, mut steps) = (&file[..], Vec::new());
        while !left.is_empty() {
            let length = u64::from_le_bytes(left[..8].try_into().unwrap()) as usize;
            // A time of nine bytes, then the tag of the step.
            assert_eq!((left[12], left[21]), (9, 16));
            steps.push(left[22]);
            left = &left[16 + length..];
        }
        steps
    };
    paths.into_iter().map(|path| steps(std::fs::read(path).unwrap())).collect()
}

#[test]
fn event_files_have_each_step_and_say_where_a_resumed_run_starts() {
    let s = Scratch::new();
    let (out, events, under) = (s.path("o"), s.path("events"), s.path("file/events"));
    let train = ["train", "digits", "--steps", "4", "--out", &out, "--quiet", "--threads", "1", "--tensorboard"];
    good(&[&train[..], &[&events]].concat());
    // A file starts with its version and its first step. Each step but the last is followed by its evaluation.
    assert_eq!(event_steps(&events), [[0, 1, 1, 1, 2, 2, 3, 3, 4]]);
    good(&[&train[..], &[&events, "--resume", &out]].concat());
    assert_eq!(event_steps(&events), [vec![0, 1, 1, 1, 2, 2, 3, 3, 4], vec![0, 5]]);
    std::fs::write(s.path("file"), "").unwrap();
    fails(2, &[&train[..], &[&under]].concat(), &["file/events"]);
}
