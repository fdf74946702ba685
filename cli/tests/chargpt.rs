//! The character model: training, resuming and sampling, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, fails, good, summary};
use std::path::Path;

/// A network that trains in no time, on a text of any script.
const TINY: &str = "task = \"chargpt\"\ndata = \"text.txt\"\nsteps = 30\nbatch = 4\n[gpt]\nlayers = 1\nheads = 2\nwidth = 16\n\
                    context = 8\nbias = true\ndropout = 0.1\n";

fn tiny(s: &Scratch) -> String {
    s.file("text.txt", "日本 né\nabc ".repeat(40));
    s.file("run.toml", TINY)
}

fn sha(dir: &str) -> serde_json::Value {
    summary(Path::new(dir))["weights_sha256"].clone()
}

#[test]
fn a_run_writes_what_sampling_needs_and_ends_with_a_sample() {
    let s = Scratch::new();
    let (config, out) = (tiny(&s), s.path("o"));
    let text = good(&["train", &config, "--out", &out, "--threads", "1"]);
    assert!(text.contains("validation loss") && text.contains("40 characters"), "{text}");
    let sample = text.split_once("written to").unwrap().1;
    assert!(sample.chars().count() > 300, "{text}");
    let sum = summary(Path::new(&out));
    let first = serde_json::from_str::<serde_json::Value>(
        std::fs::read_to_string(format!("{out}/metrics.jsonl")).unwrap().lines().next().unwrap(),
    );
    assert!(sum["val_loss"].as_f64() < first.unwrap()["train/loss"].as_f64(), "{sum}");
    assert_eq!(sum["allocs_per_step"].as_f64(), Some(0.0));
    let weights = arenagrad::train::Loaded::open(Path::new(&format!("{out}/weights.safetensors"))).unwrap();
    let names: Vec<&str> = weights.entries().map(|e| e.name).collect();
    let block = ["attn.c_attn", "attn.c_proj", "ln_1", "ln_2", "mlp.c_fc", "mlp.c_proj"];
    let block = block.map(|l| ["bias", "weight"].map(|k| format!("transformer.h.0.{l}.{k}"))).concat();
    let rest = ["ln_f.bias", "ln_f.weight", "wpe.weight", "wte.weight"].map(|n| format!("transformer.{n}"));
    assert_eq!(names, [block, rest.to_vec()].concat());
    let html = std::fs::read_to_string(format!("{out}/run.html")).unwrap();
    assert!(html.contains("validation loss") && !html.contains("100 %") && !html.contains("NaN"));

    // A sample begins with its prompt and depends on the seed, not on the number of threads.
    let sample = |args: &[&str]| good(&[&["sample", &out, "--tokens", "40", "--prompt", "né 日"], args].concat());
    let (a, b) = (sample(&[]), sample(&["--seed", "1"]));
    assert!(a.starts_with("né 日") && a.chars().count() == 4 + 40 + 1 && a != b);
    assert_eq!(a, sample(&["--threads", "2"]));
    assert_eq!(sample(&["--temperature", "0"]), sample(&["--top-k", "1", "--seed", "9"]));
    assert_eq!(sample(&["--temperature", "0"]), sample(&["--top-p", "0.0001", "--seed", "9"]));
    let two = sample(&["--samples", "2", "--json"]);
    let lines: Vec<serde_json::Value> = two.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        lines.iter().map(|l| l["text"].as_str().unwrap()).collect::<Vec<_>>(),
        [&a, &b].map(|text| text.strip_suffix('\n').unwrap())
    );
    fails(2, &["sample", &out, "--prompt", "né?"], &["--prompt", "character 2, '?'"]);
    fails(2, &["sample", &out, "--temperature", "-1"], &["temperature is -1"]);
    fails(2, &["sample", &out, "--top-p", "0"], &["top_p is 0"]);
    fails(2, &["sample", &out, "--samples", "0"], &["--samples"]);
    fails(2, &["sample", &out, "--weights", &s.path("gone")], &["gone"]);
    std::fs::write(s.path("o/vocabulary.json"), "\"ba\"").unwrap();
    fails(2, &["sample", &out], &["vocabulary.json", "alphabet"]);
}

#[test]
fn neither_threads_nor_a_stop_change_a_bit() {
    let s = Scratch::new();
    let config = tiny(&s);
    let run = |name: &str, args: &[&str]| {
        let out = s.path(name);
        good(&[&["train", &config, "--quiet", "--out", &out], args].concat());
        sha(&out)
    };
    let one = run("1", &["--threads", "1"]);
    assert_eq!([run("2", &["--threads", "2"]), run("7", &["--threads", "7"])], [one.clone(), one.clone()]);
    assert_eq!(run("small", &["--threads", "1", "--max-memory", "100KB"]), one);
    // A kill after the first checkpoint.
    let out = s.path("killed");
    let args = ["train", &config, "--quiet", "--out", &out, "--checkpoint-every", "1", "--steps", "500"];
    let mut child = common::program(&args).spawn().unwrap();
    while !Path::new(&out).join("checkpoint.safetensors").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a checkpoint");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    good(&["train", "chargpt", "--resume", &out, "--quiet", "--threads", "1"]);
    let straight = s.path("straight");
    good(&["train", &config, "--quiet", "--out", &straight, "--steps", "500"]);
    assert_eq!(sha(&out), sha(&straight));
}

#[test]
fn what_cannot_train_is_named() {
    let s = Scratch::new();
    let text = |body: &str| {
        s.file("text.txt", body);
        s.file("run.toml", TINY)
    };
    fails(2, &["train", &text("short")], &["text.txt", "a window takes 9"]);
    fails(2, &["train", "chargpt", "--data", &s.path("gone.txt")], &["gone.txt"]);
    fails(2, &["train", "chargpt", "--data", &s.file("bytes", b"ab\xff")], &["bytes", "UTF-8 at byte 2"]);
    let file = |text: &str| s.file("bad.toml", text);
    let wrong = file("task = \"chargpt\"\n[gpt]\nheads = 3\n");
    fails(2, &["train", &wrong], &["bad.toml", "gpt.heads is 3; it must divide gpt.width, 128"]);
    fails(2, &["train", &file("[gpt]\nheads = 4\n")], &["[gpt] means nothing to task images"]);
    fails(2, &["train", &file("task = \"chargpt\"\n[model]\nhidden = 4\n")], &["[model] means nothing"]);
    fails(2, &["train", &file("task = \"chatgpt\"\n")], &["bad.toml:1:8", "chatgpt"]);
    fails(2, &["sample", &s.path("gone")], &["gone"]);
    let out = s.path("digits");
    good(&["train", "digits", "--steps", "1", "--quiet", "--threads", "1", "--out", &out]);
    fails(2, &["sample", &out], &["no run of task chargpt"]);
    fails(2, &["train", "chargpt", "--resume", &out], &["is of task images, not chargpt"]);
}
