//! Training runs that the system fails or kills, at calls on files of the run's folder.
//!
//! Needs Linux and a C compiler (which Rust needs for linking): `tools/faults.c` is preloaded. A few calls are hit
//! here, and all of them by `tools/fault-io`.
//!
//! Invariant, after each fault: the process ended by the kill, or with an exit code and one line, or it went on with a
//! warning that the page could not be written; no file is torn; a checkpoint that was there is there; the history is
//! complete up to it; and the run goes on to the same bits.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use arenagrad::train::checkpoint::Digest;
use arenagrad::train::{Loaded, trainer::CURSOR};
use common::{Scratch, program, run};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const KINDS: [&str; 5] = ["EIO", "ENOSPC", "FULL", "KILL", "TORN"];
const STEPS: u64 = 6;

/// A small network: the folder's calls are what counts here.
const CONFIG: &str = "steps = 6\nbatch = 8\nthreads = 1\ncheckpoint_every = 2\n[model]\nchannels = [4]\nhidden = 8\n";

struct Shop {
    _s: Scratch,
    /// The folder that the test writes to, as a path without links.
    root: PathBuf,
    shim: PathBuf,
    config: String,
    /// Weights and history of a run without faults.
    weights: Vec<u8>,
    history: Vec<(u64, String)>,
}

/// What a run is started on.
struct Scene {
    name: &'static str,
    /// The folder's content before the run, if it exists.
    folder: Option<PathBuf>,
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for f in std::fs::read_dir(from).unwrap() {
        let f = f.unwrap();
        std::fs::copy(f.path(), to.join(f.file_name())).unwrap();
    }
}

/// Step and numbers of each whole line, without the times.
fn history(dir: &Path) -> Vec<(u64, String)> {
    let text = std::fs::read_to_string(dir.join("metrics.jsonl")).unwrap_or_default();
    let whole = text.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
    whole
        .map(|v| (v["step"].as_u64().unwrap(), format!("{} {} {}", v["train/loss"], v["lr"], v["test/accuracy"])))
        .collect()
}

impl Shop {
    fn new() -> Shop {
        let s = Scratch::new();
        let root = s.0.canonicalize().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/faults.c");
        let shim = root.join("faults.so");
        let made =
            Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&shim).args([source, "-ldl"]).status();
        assert!(made.unwrap().success(), "cc builds {source}");
        let config = s.file("small.toml", CONFIG);
        let whole = root.join("whole");
        common::good(&["train", &config, "--out", whole.to_str().unwrap(), "--quiet"]);
        let weights = std::fs::read(whole.join("weights.safetensors")).unwrap();
        let history = history(&whole);
        assert_eq!(history.iter().filter(|h| !h.1.starts_with("null")).count(), STEPS as usize);
        Shop { _s: s, root, shim, config, weights, history }
    }

    fn args(&self, dir: &Path, resumed: bool) -> Vec<String> {
        let flag = if resumed { "--resume" } else { "--out" };
        ["train", &self.config, flag, dir.to_str().unwrap(), "--quiet"].map(String::from).to_vec()
    }

    fn hit(&self, dir: &Path, resumed: bool, at: usize, how: &str) -> Output {
        let args = self.args(dir, resumed);
        let mut c = program(&args.iter().map(String::as_str).collect::<Vec<_>>());
        c.env("LD_PRELOAD", &self.shim).env("FAULT_DIR", dir).env("FAULT_HOW", how).env("FAULT_AT", at.to_string());
        if at == 0 {
            c.env("FAULT_LOG", self.root.join("log"));
        }
        c.output().unwrap()
    }

    /// The calls of a run without faults.
    fn calls(&self, scene: &Scene) -> Vec<String> {
        let dir = self.fresh(scene);
        let _ = std::fs::remove_file(self.root.join("log"));
        assert!(self.hit(&dir, scene.folder.is_some(), 0, "").status.success());
        let log = std::fs::read_to_string(self.root.join("log")).unwrap();
        log.lines().map(|l| l.replace(dir.to_str().unwrap(), "DIR")).collect()
    }

    fn fresh(&self, scene: &Scene) -> PathBuf {
        let dir = self.root.join("run");
        let _ = std::fs::remove_dir_all(&dir);
        if let Some(from) = &scene.folder {
            copy(from, &dir);
        }
        dir
    }

    /// Injects one fault, and returns an error if anything is wrong after it.
    fn fault(&self, scene: &Scene, calls: &[String], at: usize, how: &str) -> Result<(), String> {
        let dir = self.fresh(scene);
        let out = self.hit(&dir, scene.folder.is_some(), at, how);
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        // A page that cannot be written while the run goes on is a warning.
        let of_page = |l: &&str| l.starts_with("arenagrad: warning: ") && l.contains("run.html: ");
        let told = errors.lines().filter(|l| !of_page(l)).count();
        let warned = errors.lines().count() > told;
        match how {
            "KILL" | "TORN" if out.status.signal() == Some(9) => {}
            // A disk that is full after the last write fails no call.
            "FULL" if out.status.success() && !calls[at - 1..].iter().any(|c| c.starts_with("write")) => {}
            "EIO" | "ENOSPC" | "FULL" if matches!(out.status.code(), Some(1 | 2)) && told == 1 => {}
            "EIO" | "ENOSPC" | "FULL" if out.status.success() && warned && told == 0 => {}
            _ => return Err(format!("{}: {errors}", out.status)),
        }
        let step = self.left(&dir)?;
        if scene.folder.is_some() && step.is_none() {
            return Err("the checkpoint is gone".into());
        }
        let out = run(&self.args(&dir, step.is_some()).iter().map(String::as_str).collect::<Vec<_>>());
        if !out.status.success() {
            return Err(format!("does not go on: {}", String::from_utf8_lossy(&out.stderr)));
        }
        if std::fs::read(dir.join("weights.safetensors")).unwrap() != self.weights {
            return Err("goes on to other weights".into());
        }
        if history(&dir) != self.history {
            return Err("goes on to another history".into());
        }
        Ok(())
    }

    /// Checks the files that a fault left, and returns the step of the checkpoint, if there is one.
    fn left(&self, dir: &Path) -> Result<Option<u64>, String> {
        let file = |name: &str| std::fs::read(dir.join(name)).ok();
        for name in ["weights.safetensors", "checkpoint.safetensors"] {
            if let Some(bytes) = file(name) {
                let loaded = Loaded::parse(bytes).map_err(|e| format!("{name}: {e}"))?;
                assert_eq!(loaded.digest(), Digest::Fits);
            }
        }
        if file("summary.json").is_some_and(|b| serde_json::from_slice::<serde_json::Value>(&b).is_err()) {
            return Err("summary.json is torn".into());
        }
        if file("run.html").is_some_and(|b| !b.ends_with(b"</html>\n")) {
            return Err("run.html is torn".into());
        }
        let Some(bytes) = file("checkpoint.safetensors") else { return Ok(None) };
        let loaded = Loaded::parse(bytes).unwrap();
        let step = u64::from_le_bytes(loaded.find(CURSOR).unwrap().bytes[8..16].try_into().unwrap());
        let kept = |all: &[(u64, String)]| all.iter().filter(|l| l.0 <= step).cloned().collect::<Vec<_>>();
        // The evaluation after the checkpoint's step is written before the checkpoint, so no line is missing.
        if kept(&history(dir)) != kept(&self.history) {
            return Err(format!("the history up to step {step} is not complete"));
        }
        Ok(Some(step))
    }

    /// A folder whose run was killed in the middle of a line, some steps after a checkpoint.
    fn killed(&self) -> PathBuf {
        let nothing = Scene { name: "", folder: None };
        let calls = self.calls(&nothing);
        let second =
            calls.iter().enumerate().filter(|(_, c)| *c == "rename DIR/checkpoint.safetensors").nth(1).unwrap().0;
        // The page is written after the checkpoint, and then the next line of the history.
        let page = second + calls[second..].iter().position(|c| c == "rename DIR/run.html").unwrap();
        let line = page + calls[page..].iter().position(|c| c.starts_with("write")).unwrap();
        let dir = self.fresh(&nothing);
        assert_eq!(self.hit(&dir, false, line + 1, "TORN").status.signal(), Some(9));
        assert!(!std::fs::read_to_string(dir.join("metrics.jsonl")).unwrap().ends_with('\n'), "no line is torn");
        let kept = self.root.join("killed");
        copy(&dir, &kept);
        kept
    }
}

/// Of each call: the files that it was hit on, and for each kind how many faults were survived and injected.
#[derive(Default)]
struct Survived(BTreeMap<String, (BTreeSet<String>, [[usize; 2]; KINDS.len()])>);

impl Survived {
    fn add(&mut self, call: &str, kind: usize, survived: bool) {
        let (name, path) = call.split_once(' ').unwrap();
        let (files, cells) = self.0.entry(name.replace("64", "")).or_default();
        files.insert(path.trim_start_matches("DIR/").replace("DIR", "the folder"));
        cells[kind] = [cells[kind][0] + usize::from(survived), cells[kind][1] + 1];
    }

    /// A table in Markdown: calls by kinds, how many faults were survived of how many.
    fn print(&self) {
        println!("| call | {} | on |", KINDS.join(" | "));
        println!("|---|{}---|", "---|".repeat(KINDS.len()));
        for (call, (files, cells)) in &self.0 {
            let cells = cells.map(|[survived, hit]| format!("{survived}/{hit}"));
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            println!("| `{call}` | {} | {} |", cells.join(" | "), files.join(", "));
        }
    }
}

/// `FAULTS=n` hits every n-th call, and some chosen ones; `tools/fault-io` sets 1.
#[test]
fn no_fault_loses_what_was_there() {
    let every: usize = std::env::var("FAULTS").map_or(41, |n| n.parse().unwrap());
    let shop = Shop::new();
    let scenes = [Scene { name: "new run", folder: None }, Scene { name: "resumed run", folder: Some(shop.killed()) }];
    let (mut wrong, mut survived) = (0, Survived::default());
    for scene in &scenes {
        let calls = shop.calls(scene);
        assert!(calls.len() > 40, "{calls:?}");
        for (k, how) in KINDS.into_iter().enumerate() {
            // All calls on the history are hit, not a sample of them.
            let chosen = |at: usize| matches!(how, "ENOSPC" | "TORN") && calls[at - 1].contains("metrics.jsonl");
            let hit: Vec<usize> =
                (1..=calls.len()).filter(|&at| (at + 8 * k).is_multiple_of(every) || chosen(at)).collect();
            for &at in &hit {
                let found = shop.fault(scene, &calls, at, how);
                survived.add(&calls[at - 1], k, found.is_ok());
                if let Err(what) = found {
                    wrong += 1;
                    println!("{}, {how} at call {at}, {}: {what}", scene.name, calls[at - 1]);
                }
            }
            println!("{}: {how} at {} of {} calls", scene.name, hit.len(), calls.len());
        }
    }
    survived.print();
    assert_eq!(wrong, 0, "see above");
}
