//! The commands `generate` and `reduce`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, fails, good, program, run};
use std::time::{Duration, Instant};

const GRAPH: &str = "\
graph @g {
  %x = input : f32[4,3]
  %w = param init=uniform scale=0.5 frozen=false : f32[2,3]
  %0 = matmul %x, %w ta=false tb=true : f32[4,2]
  %1 = tanh %0 : f32[4,2]
  %2 = exp %1 : f32[4,2]
  %3 = reduce_sum %2 axes=[0,1] keep=false : f32[]
  update %w <- %w
  return loss=%3, h=%1
}
";

#[test]
fn drawn_graphs_are_graphs_of_what_was_asked_for() {
    let s = Scratch::new();
    let one = good(&["generate", "--seed", "5", "--nodes", "12"]);
    assert_eq!(good(&["print", &s.file("one.ir", &one)]), one);
    let dir = s.path("many");
    good(&["generate", "--seed", "4", "--nodes", "12", "--count", "3", "--out", &dir]);
    let read = |seed: u64| std::fs::read_to_string(format!("{dir}/drawn-{seed}.ir")).unwrap();
    assert!(read(5) == one && read(4) != one && read(6) != one);
    let few =
        good(&["generate", "--nodes", "30", "--ops", "add,mul=2", "--dtypes", "f64", "--depth", "1", "--regions"]);
    assert!(few.contains("= mul ") && !few.contains("f32") && !few.contains("reshape"), "{few}");
    fails(2, &["generate", "--ops", "tanhh"], &["--ops", "did you mean tanh?"]);
    fails(2, &["generate", "--count", "2"], &["--out"]);
    fails(2, &["generate", "--dtypes", "f31"], &["f32"]);
}

#[test]
fn a_graph_is_reduced_to_what_the_check_wants() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH);
    let small = good(&["reduce", &g, "--check", "grep -q 'tanh'", "--quiet"]);
    assert_eq!(small, "graph @g {\n  %in0 = input : f32[]\n  %1 = tanh %in0 : f32[]\n  return h=%1\n}\n");
    let out = s.path("small.ir");
    let check = "test -s {} && grep -q matmul {}";
    let shown = run(&["reduce", &g, "--check", check, "--out", &out]);
    assert!(shown.status.success() && shown.stdout.is_empty(), "{shown:?}");
    let notes = String::from_utf8(shown.stderr).unwrap();
    assert!(notes.starts_with("check 0: 4 nodes") && notes.contains("no single step makes it smaller"), "{notes}");
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.contains("matmul") && !text.contains("tanh"), "{text}");
    good(&["print", &out]);
    let few = run(&["reduce", &g, "--check", check, "--max-checks", "1", "--out", &out]);
    assert!(String::from_utf8(few.stderr).unwrap().contains("--max-checks ended the search"));
}

#[test]
fn a_check_must_find_the_graph_itself_interesting() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH);
    fails(2, &["reduce", &g, "--check", "false"], &["not interesting", "exit status: 1", "exit with 0"]);
    fails(2, &["reduce", &g, "--check", "kill -SEGV $$; true"], &["not interesting", "signal: 11"]);
    let begin = Instant::now();
    fails(2, &["reduce", &g, "--check", "sleep 100; true", "--timeout", "0.2"], &["took more than 0.2 s"]);
    assert!(begin.elapsed() < Duration::from_secs(60));
    fails(2, &["reduce", &g, "--check", "true", "--timeout", "0"], &["0.001"]);
    fails(2, &["reduce", &s.path("none.ir"), "--check", "true"], &["none.ir"]);
}

/// Processes whose command line has `mark`.
fn running(mark: &str) -> usize {
    let dirs = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok());
    let lines = dirs.filter_map(|e| std::fs::read_to_string(e.path().join("cmdline")).ok());
    lines.filter(|l| l.contains(mark)).count()
}

/// A check that hangs on some graphs is killed with its children, and the reduction goes on.
#[test]
fn a_check_that_hangs_is_not_interesting_and_leaves_no_process() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH);
    let nap = format!("77.{}", std::process::id());
    // Hangs on graphs without exp; a child of a child hangs, too.
    let check = format!("grep -q exp {{}} || {{ (sleep {nap} & sleep {nap}); }}; grep -q tanh {{}}");
    let small = good(&["reduce", &g, "--check", &check, "--timeout", "0.3", "--quiet"]);
    assert!(small.contains("tanh") && small.contains("exp") && !small.contains("matmul"), "{small}");
    assert_eq!(running(&nap), 0);
}

/// An interrupt ends the search, and the smallest graph so far is there.
#[test]
fn an_interrupt_leaves_the_best_graph() {
    let s = Scratch::new();
    let (g, out, asked) = (s.file("g.ir", GRAPH), s.path("best.ir"), s.path("asked"));
    // The fourth check hangs.
    let check = format!("echo x >> {asked}; test $(wc -l < {asked}) -gt 3 && sleep 600; grep -q tanh {{}}");
    let child = program(&["reduce", &g, "--check", &check, "--out", &out]).stderr(std::process::Stdio::piped()).spawn();
    let child = child.unwrap();
    let begin = Instant::now();
    let count = || std::fs::read_to_string(&asked).map_or(0, |t| t.lines().count());
    while count() < 4 && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let kill = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(kill.unwrap().success());
    let ended = child.wait_with_output().unwrap();
    let notes = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success() && notes.contains("interrupted: this is the smallest so far"), "{notes}");
    assert!(begin.elapsed() < Duration::from_secs(120));
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.contains("tanh"), "{text}");
    good(&["print", &out]);
}
