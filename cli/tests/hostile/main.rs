//! All commands on hostile input, with little memory and a limit of time: each must end with exit code 0, 1 or 2 and
//! say why in one line. A fast part runs with the other tests; `tools/hostile` runs all of it.
//!
//! `HOSTILE_DIR` keeps the folder of inputs, `HOSTILE_SECONDS` and `HOSTILE_KIB` change the limits of a run.
//! `HOSTILE_EVERY=n` runs every n-th of the mutated ops.

#![allow(clippy::unwrap_used, clippy::panic)]

mod files;
mod texts;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The limits of a run.
struct Limits {
    seconds: String,
    /// Limit of the address space.
    kib: String,
}

impl Limits {
    fn new() -> Limits {
        let or = |name: &str, plain: &str| std::env::var(name).unwrap_or_else(|_| plain.into());
        Limits { seconds: or("HOSTILE_SECONDS", "60"), kib: or("HOSTILE_KIB", "4194304") }
    }
}

/// A folder of inputs, and what is run on them.
struct Corpus {
    dir: PathBuf,
    runs: Vec<Vec<String>>,
}

impl Corpus {
    fn new(name: &str) -> Corpus {
        let plain = || std::env::temp_dir().join(format!("arenagrad-hostile-{name}-{}", std::process::id()));
        let dir = std::env::var_os("HOSTILE_DIR").map_or_else(plain, |d| PathBuf::from(d).join(name));
        std::fs::create_dir_all(&dir).unwrap();
        Corpus { dir, runs: Vec::new() }
    }

    fn write(&self, files: &[texts::File]) {
        for (name, bytes) in files {
            let path = self.dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }

    /// Adds graphs. Each of `commands` runs on each of them.
    fn graphs(&mut self, files: &[texts::File], commands: &[&str]) {
        self.write(files);
        for (name, _) in files {
            for line in commands {
                let line = line.replace("FILE", &format!("DIR/{name}"));
                self.runs.push(line.split(' ').map(String::from).collect());
            }
        }
    }

    fn set(&mut self, set: files::Set) {
        self.write(&set.files);
        self.runs.extend(set.runs);
    }

    /// Runs everything on `workers` threads, and returns the runs that did not end as they should.
    fn bad(&self, limits: &Limits, workers: usize) -> Vec<String> {
        let (next, bad) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(args) = self.runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let done = run(&self.dir, args, limits);
                        if let Some(why) = wrong(&done) {
                            let line = format!("{}: {why}", args.join(" "));
                            println!("bad: {line}");
                            bad.lock().unwrap().push(line);
                        }
                    }
                });
            }
        });
        bad.into_inner().unwrap()
    }
}

fn run(dir: &Path, args: &[String], limits: &Limits) -> Output {
    let shell = "ulimit -c 0; ulimit -v $0; exec timeout -k 5 \"$@\"";
    let mut c = Command::new("bash");
    c.args(["-c", shell, &limits.kib, &limits.seconds, env!("CARGO_BIN_EXE_arenagrad")]);
    c.args(args.iter().map(|a| a.replace("DIR", &dir.display().to_string())));
    c.stdin(Stdio::null()).output().unwrap()
}

/// Why a run did not end as it should.
fn wrong(out: &Output) -> Option<String> {
    let errors = String::from_utf8_lossy(&out.stderr);
    let last = errors.lines().last().unwrap_or_default();
    match out.status.code() {
        Some(0) => None,
        Some(1 | 2) if last.contains("internal error") => Some(last.to_string()),
        Some(1 | 2) if last.starts_with("arenagrad: ") => None,
        Some(1 | 2) => Some(format!("its last line is {last:?}")),
        code => Some(format!("exit code {code:?}: {last}")),
    }
}

/// All commands on graphs.
const COMMANDS: [&str; 9] = [
    "print --locations FILE",
    "opt FILE",
    "opt --report --json FILE",
    "grad --zero-missing --output loss FILE",
    "grad --zero-missing FILE",
    "plan --json FILE",
    "run FILE --out DIR/out",
    "check FILE",
    "trace FILE --threads 2 --out DIR/trace.json",
];

#[test]
fn a_part_of_it_ends_well() {
    let mut c = Corpus::new("part");
    let slow = |name: &str| {
        ["doubling-21", "chain-20000", "arguments", "outputs", "long", "wide", "params"]
            .iter()
            .any(|s| name.starts_with(s))
    };
    let graphs: Vec<_> = texts::graphs().into_iter().filter(|f| !slow(&f.0)).collect();
    let some = |n: usize| {
        graphs.iter().enumerate().filter(move |(i, _)| i % 4 == n).map(|(_, f)| f.clone()).collect::<Vec<_>>()
    };
    c.graphs(&some(0), &["check FILE"]);
    c.graphs(&some(1), &["plan FILE"]);
    c.graphs(&some(2), &["grad --zero-missing FILE"]);
    c.graphs(&some(3), &["run FILE --out DIR/out"]);
    // Attention over 70,001 positions fits in memory, and takes half a minute.
    let (attention, ops): (Vec<_>, Vec<_>) =
        texts::ops().into_iter().step_by(97).partition(|f| f.0.starts_with("attention"));
    c.graphs(&ops, &["run FILE --out DIR/out"]);
    c.graphs(&attention, &["plan FILE"]);
    let mut set = files::all(1 << 26);
    set.runs = set.runs.into_iter().step_by(3).collect();
    c.set(set);
    let bad = c.bad(&Limits::new(), 2);
    let _ = std::fs::remove_dir_all(&c.dir);
    assert!(c.runs.len() > 100 && bad.is_empty(), "{} of {} runs: {bad:#?}", bad.len(), c.runs.len());
}

/// For `tools/hostile`.
#[test]
#[ignore = "takes an hour: tools/hostile runs it"]
fn all_of_it_ends_well() {
    let mut c = Corpus::new("all");
    c.graphs(&texts::graphs(), &COMMANDS);
    let every = std::env::var("HOSTILE_EVERY").map_or(1, |n| n.parse().unwrap());
    let ops: Vec<_> = texts::ops().into_iter().step_by(every).collect();
    c.graphs(&ops, &["run FILE --out DIR/out", "check FILE"]);
    c.set(files::all(1300 << 20));
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let bad = c.bad(&Limits::new(), cores);
    println!("hostile: {} runs, {} ended otherwise than with 0, 1 or 2", c.runs.len(), bad.len());
    if std::env::var_os("HOSTILE_DIR").is_none() {
        let _ = std::fs::remove_dir_all(&c.dir);
    }
    assert!(bad.is_empty());
}
