//! Every target on its seeds and on mutants from a fixed seed, by the program; and the runner on wrong targets.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad_fuzz::Options;
use arenagrad_fuzz::corpus::read_corpus;
use arenagrad_fuzz::finding::{keep_panics, run_input};
use arenagrad_fuzz::runner::{crash_dir, fuzz_target};
use arenagrad_fuzz::targets::{MemoryLimit, TARGETS, Target};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Inputs of each target. Code without optimisation is slow.
const RUNS: u64 = if cfg!(debug_assertions) { 150 } else { 1000 };

const PLANTED: Target = Target {
    name: "planted",
    about: "a target that is wrong",
    run: |data| assert!(!data.windows(3).any(|w| w == b"bug"), "found"),
    seeds: || vec![b"some text".to_vec(), b"and more of it".to_vec()],
    words: &["ug", "b"],
    max_len: 64,
    memory: MemoryLimit { base: 1 << 20, each: 0 },
};

/// Two programs at a time. What they say is printed: the other test hides the messages of panics.
#[test]
fn targets_find_nothing() {
    let (next, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let run_all = || {
        while let Some(t) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let seeds = (t.seeds)();
            let same = !seeds.is_empty() && seeds == (t.seeds)();
            let runs = (RUNS + seeds.len() as u64).to_string();
            let mut program = Command::new(env!("CARGO_BIN_EXE_arenagrad-fuzz"));
            let out = program.args([t.name, "--runs", &runs, "--seconds", "600", "--json"]).output().unwrap();
            let [line, errors] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
            if !(same && out.status.success() && line.contains(&format!("\"runs\":{runs},"))) {
                println!("{}: {}, seeds are the same each time: {same}\n{errors}{line}", t.name, out.status);
                wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|threads| (0..2).for_each(|_| drop(threads.spawn(run_all))));
    assert_eq!(wrong.into_inner(), 0, "see the lines above");
}

/// Each target is one of cargo-fuzz, too.
#[test]
fn cargo_fuzz_has_the_same_targets() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("libfuzzer");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let bins: Vec<&str> =
        manifest.split("[[bin]]\nname = \"").skip(1).filter_map(|bin| bin.split('"').next()).collect();
    assert_eq!(bins, TARGETS.iter().map(|t| t.name).collect::<Vec<_>>());
    for name in bins {
        let text = std::fs::read_to_string(folder.join("fuzz_targets").join(name).with_extension("rs")).unwrap();
        assert!(text.contains(&format!("libfuzzer_target!(\"{name}\")")), "{name}");
    }
}

/// Findings are kept for the whole process.
#[test]
fn the_runner_finds_what_is_planted() {
    let _ = std::fs::remove_dir_all(crash_dir("planted"));
    let found = fuzz_target(&PLANTED, &Options::runs(20_000)).unwrap();
    assert!(found.findings > 0 && found.kinds == 1, "{found:?}");
    let files = read_corpus(&crash_dir("planted"));
    assert!(files.iter().any(|(path, data)| path.extension().is_some_and(|e| e == "small") && data == b"bug"));
    std::fs::remove_dir_all(crash_dir("planted")).unwrap();

    // The same seed, the same inputs.
    let again = fuzz_target(&PLANTED, &Options::runs(20_000)).unwrap();
    assert_eq!((again.findings, again.runs), (found.findings, found.runs));
    std::fs::remove_dir_all(crash_dir("planted")).unwrap();

    keep_panics();
    let large = Target { run: |_| drop(std::hint::black_box(vec![1u8; 4 << 20])), ..PLANTED };
    assert!(run_input(&large, b"").unwrap().message.contains("bytes in use"));
    // A panic that another thread kept to itself.
    let quiet = Target { run: |_| drop(std::thread::spawn(|| panic!("quiet")).join()), ..PLANTED };
    assert_eq!(run_input(&quiet, b"").unwrap().message, "quiet");
    assert!(run_input(&PLANTED, b"no such word").is_none());
}
