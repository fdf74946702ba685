//! Training runs: what they write, and that neither threads nor a kill changes a bit of it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, good, idx, program, summary};
use std::path::Path;
use std::time::{Duration, Instant};

const KEYS: [&str; 14] = [
    "allocs_per_step",
    "arena_bytes",
    "arena_lower_bound_bytes",
    "convolutions",
    "keep",
    "peak_rss_bytes",
    "precision",
    "seed",
    "step_us_p50",
    "step_us_p99",
    "steps",
    "test_accuracy",
    "threads",
    "weights_sha256",
];

fn sha(dir: &str) -> String {
    summary(Path::new(dir))["weights_sha256"].as_str().unwrap().to_string()
}

/// What is set for latency changes no bit.
#[test]
#[cfg(target_os = "linux")]
fn a_run_on_chosen_cores_gives_the_same_weights() {
    let s = Scratch::new();
    let run = |name: &str, more: &[&str]| {
        let out = s.path(name);
        good(&[&["train", "digits", "--steps", "5", "--threads", "1", "--quiet", "--out", &out], more].concat());
        sha(&out)
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let cores = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap();
    let core = cores.trim().split([',', '-']).next().unwrap();
    let plain = run("plain", &[]);
    assert_eq!(run("pinned", &["--pin", core, "--spin", "0.001", "--prefault"]), plain);
    let text = good(&["bench", "--workloads", "w2", "--seconds", "0", "--pin", core, "--spin", "inf", "--prefault"]);
    assert!(text.starts_with("w2  "), "{text}");
    // A machine may let this process lock no memory, and says why.
    let out = program(&["bench", "--workloads", "w2", "--seconds", "0", "--lock-memory"]).output().unwrap();
    let errors = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success() || errors.contains("bytes of a program are not locked in memory"), "{errors}");
}

#[test]
fn a_short_run_writes_its_files() {
    let s = Scratch::new();
    let out = s.path("o");
    let text = good(&["train", "digits", "--steps", "20", "--out", &out, "--threads", "1"]);
    assert!(text.contains("test accuracy") && text.contains("allocations per step  0\n"), "{text}");
    let sum = summary(Path::new(&out));
    let mut keys: Vec<_> = sum.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, KEYS);
    assert_eq!((sum["steps"].as_u64(), sum["allocs_per_step"].as_f64()), (Some(20), Some(0.0)));
    assert!(sum["arena_lower_bound_bytes"].as_u64() <= sum["arena_bytes"].as_u64());
    let metrics = std::fs::read_to_string(format!("{out}/metrics.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = metrics.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let losses: Vec<f64> = lines.iter().filter_map(|l| l["train/loss"].as_f64()).collect();
    assert_eq!(losses.len(), 20);
    assert!(losses[19] < losses[0], "{losses:?}");
    let html = std::fs::read_to_string(format!("{out}/run.html")).unwrap();
    assert!(html.matches("<svg").count() == 5 && html.contains("conv1.weight (param)") && html.contains("convnet.rs:"));
    for part in
        ["Accuracy", "Learning rate", "Time of a step", "<th>processor</th>", "weight_decay = 0.05", ">finished<"]
    {
        assert!(html.contains(part), "{part}");
    }
    // Rectangles of the memory map are labelled with op and place.
    let labels: Vec<&str> =
        html.split("pointer-events=\"none\">").skip(1).filter_map(|l| l.split('<').next()).collect();
    assert!(labels.iter().any(|l| l.contains("convnet.rs:")), "{labels:?}");
    assert!(!html.contains("<script") && !html.contains("NaN"));
    let weights = arenagrad::train::Loaded::open(Path::new(&format!("{out}/weights.safetensors"))).unwrap();
    let names: Vec<&str> = weights.entries().map(|e| e.name).collect();
    let layers = ["conv1", "conv2", "fc1", "fc2"];
    assert_eq!(names, layers.map(|l| [format!("{l}.bias"), format!("{l}.weight")]).concat());
    let strays =
        std::fs::read_dir(&out).unwrap().filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "tmp"));
    assert_eq!(strays.count(), 0);
}

#[test]
fn threads_change_no_bit() {
    let s = Scratch::new();
    let one = |threads: &str| {
        let out = s.path(threads);
        good(&["train", "digits", "--steps", "20", "--out", &out, "--threads", threads, "--quiet"]);
        sha(&out)
    };
    let first = one("1");
    assert_eq!([one("2"), one("7")], [first.clone(), first]);
}

#[test]
fn seeds_change_the_weights() {
    let s = Scratch::new();
    let one = |seed: &str| {
        let out = s.path(seed);
        good(&["train", "digits", "--steps", "2", "--out", &out, "--threads", "1", "--quiet", "--seed", seed]);
        sha(&out)
    };
    assert_ne!(one("0"), one("1"));
}

/// Starts a run and kills it once its checkpoint of step `at` or a later one is there.
fn kill_after_checkpoint(args: &[&str], out: &str, kill: impl FnOnce(&mut std::process::Child)) {
    let mut child =
        program(args).stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !Path::new(out).join("checkpoint.safetensors").exists() {
        assert!(start.elapsed() < Duration::from_secs(300), "no checkpoint came");
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    kill(&mut child);
    child.wait().unwrap();
}

#[test]
fn a_killed_run_continues_bit_for_bit() {
    let s = Scratch::new();
    let straight = s.path("straight");
    good(&["train", "digits", "--steps", "300", "--out", &straight, "--threads", "1", "--quiet"]);
    let out = s.path("killed");
    let args =
        ["train", "digits", "--steps", "300", "--out", &out, "--threads", "2", "--checkpoint-every", "20", "--quiet"];
    kill_after_checkpoint(&args, &out, |child| child.kill().unwrap());
    assert!(!Path::new(&out).join("summary.json").exists(), "killed too late to show anything");
    good(&["train", "digits", "--resume", &out, "--quiet", "--threads", "1"]);
    assert_eq!(sha(&out), sha(&straight));
    let losses = |dir: &str| {
        let text = std::fs::read_to_string(format!("{dir}/metrics.jsonl")).unwrap();
        let values = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        values.map(|v| (v["step"].clone(), v["train/loss"].clone(), v["test/accuracy"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(losses(&out), losses(&straight));
}

#[cfg(unix)]
#[test]
fn ctrl_c_and_sigterm_write_the_checkpoint_first() {
    let s = Scratch::new();
    let straight = s.path("straight");
    good(&["train", "digits", "--steps", "200", "--out", &straight, "--threads", "1", "--quiet"]);
    for signal in ["-INT", "-TERM"] {
        stopped_by(signal, &s.path(signal), &straight);
    }
}

/// A run in the folder `out` gets `signal`, stops with a checkpoint, and resumes to the weights of `straight`.
#[cfg(unix)]
fn stopped_by(signal: &str, out: &str, straight: &str) {
    let args =
        ["train", "digits", "--steps", "200", "--out", out, "--threads", "1", "--checkpoint-every", "0", "--quiet"];
    let mut child = program(&args).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    // The metrics file exists once steps run.
    while !Path::new(out).join("metrics.jsonl").exists() {
        assert!(start.elapsed() < Duration::from_secs(300));
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
    let done = child.wait().unwrap();
    if done.code() == Some(0) {
        return; // The run ended before the signal.
    }
    assert_eq!(done.code(), Some(1));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut text).unwrap();
    assert!(text.contains("stopped after step") && text.lines().count() == 1, "{text}");
    assert!(Path::new(out).join("checkpoint.safetensors").exists());
    good(&["train", "digits", "--resume", out, "--quiet", "--threads", "1"]);
    assert_eq!(sha(out), sha(straight));
}

#[test]
fn idx_folders_and_configurations_train() {
    let s = Scratch::new();
    idx(&s, "data", 40);
    let text = "data = \"data\"\nsteps = 3\nbatch = 8\nthreads = 1\nout = \"o\"\n[model]\nchannels = [4]\nhidden = 8\n\
                dropout = 0.0\n[optimiser]\nkind = \"sgd\"\nlr = 0.01\nmomentum = 0.9\n[schedule]\nkind = \"cosine\"\nwarmup = 1\n";
    let config = s.file("run.toml", text);
    let sum: serde_json::Value = serde_json::from_str(&good(&["train", &config, "--json", "--quiet"])).unwrap();
    assert_eq!(sum["steps"].as_u64(), Some(3));
    assert!(Path::new(&s.path("o/weights.safetensors")).exists());
}

/// Muon for the matrices, other rules for the rest, micro-batches and averages; killed after 6 steps and resumed.
#[test]
fn groups_micro_batches_and_averages_resume_bit_for_bit() {
    let s = Scratch::new();
    let text = "steps = 12\nbatch = 16\nthreads = 1\ncheckpoint_every = 6\n[model]\nchannels = [4]\nhidden = 8\n\
                [optimiser]\nkind = \"muon\"\nlr = 0.01\nema = 0.5\naccumulate = 3\ndecay_from_rank = 2\n\
                [[optimiser.group]]\npattern = \"conv*\"\nrule = { kind = \"rmsprop\", momentum = 0.9 }\nlr_scale = 0.1\n\
                [[optimiser.group]]\npattern = \"*.bias\"\nrule = { kind = \"nadam\" }\n\
                [schedule]\nkind = \"constant\"\n";
    let config = s.file("run.toml", text);
    let (whole, half) = (s.path("whole"), s.path("half"));
    good(&["train", &config, "--out", &whole, "--quiet"]);
    good(&["train", &config, "--out", &half, "--quiet", "--steps", "6"]);
    good(&["train", &config, "--resume", &half, "--quiet", "--steps", "12", "--threads", "2"]);
    assert_eq!(sha(&whole), sha(&half));
    let file = |dir: &str, name: &str| std::fs::read(Path::new(dir).join(name)).unwrap();
    let ema = file(&whole, "weights_ema.safetensors");
    assert!(ema == file(&half, "weights_ema.safetensors") && ema != file(&whole, "weights.safetensors"));
    assert_eq!(summary(Path::new(&whole))["allocs_per_step"].as_f64(), Some(0.0));
    let text = text.replace("conv*", "convolution*");
    let wrong = s.file("wrong.toml", &text);
    common::fails(2, &["train", &wrong, "--out", &whole], &["convolution*", "matches no trained param"]);
}

/// The page is there while a run goes on, and tells how it ended.
#[cfg(unix)]
#[test]
fn the_page_tells_the_state_of_a_run() {
    let s = Scratch::new();
    let out = s.path("o");
    let page = || std::fs::read_to_string(format!("{out}/run.html")).unwrap_or_default();
    let args = ["train", "digits", "--steps", "1000000", "--checkpoint-every", "5", "--out", &out, "--quiet"];
    let mut child = program(&args).stderr(std::process::Stdio::null()).spawn().unwrap();
    while page().is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a page");
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = page();
    assert!(text.contains("<td>running</td>") && text.ends_with("</html>\n") && text.contains("Time of a step"));
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(page().contains("<td>interrupted</td>"));
    // Steps so large that the params overflow.
    let config = s.file(
        "large.toml",
        "steps = 100\nbatch = 8\n[model]\nchannels = [4]\nhidden = 8\n[optimiser]\nkind = \"sgd\"\nlr = 1e6\nweight_decay = 1.0\n\
         [schedule]\nkind = \"constant\"\n",
    );
    let large = ["train", &config, "--out", &out, "--quiet", "--threads", "1"];
    common::fails(1, &large, &["the loss of step", "train --find-nan"]);
    assert!(page().contains("<td>failed: the loss of step"), "{}", page());
    let looking = [&large[..], &["--find-nan"]].concat();
    common::fails(1, &looking, &["of its result f32[", "are not finite", ".rs:"]);
}

/// Without MPI, processes that `mpirun` has started would be several equal runs.
#[cfg(not(feature = "mpi"))]
#[test]
fn a_program_without_mpi_refuses_mpirun() {
    let s = Scratch::new();
    let out = s.path("o");
    let run = |n: &str| {
        let args = ["train", "digits", "--steps", "1", "--quiet", "--out", &out];
        program(&args).env("OMPI_COMM_WORLD_SIZE", n).output().unwrap()
    };
    let four = run("4");
    let text = String::from_utf8_lossy(&four.stderr);
    let want = "arenagrad: mpirun has started 4 of this program, which was built without MPI: each would be a run of its \
                own; build it with `cargo build --release --bin arenagrad --features arenagrad-cli/mpi`\n";
    assert_eq!((four.status.code(), &text[..]), (Some(2), want));
    assert!(!Path::new(&out).exists() && run("1").status.success());
}
