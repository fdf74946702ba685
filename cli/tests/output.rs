//! What the program prints and writes: into full and closed places, in all combinations of flags, under names of any
//! kind.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, fails, good, idx, program, run};
use std::fs::File;
use std::io::Read;
use std::process::Stdio;

const GRAPH: &str = "\
graph @g {
  %x = state init=ones scale=0.0 : f32[4,3]
  %w = param init=uniform scale=0.5 frozen=false : f32[2,3]
  %0 = matmul %x, %w ta=false tb=true : f32[4,2]
  %1 = tanh %0 : f32[4,2]
  %2 = reduce_sum %1 axes=[0,1] keep=false : f32[]
  return loss=%2, \"a/b\"=%1, a_b=%0
}
";

/// The commands that print on standard output.
fn printing(s: &Scratch) -> Vec<Vec<String>> {
    let (g, out, csv) = (s.file("g.ir", GRAPH), s.path("out"), s.file("b.csv", "id,lower,upper,size\na,0,1,1\n"));
    let lines = [
        "print G",
        "opt G",
        "opt G --report",
        "grad G --output loss",
        "plan G",
        "plan G --json",
        "plan G --budgets",
        "check G",
        "run G --out OUT",
        "pack CSV",
        "pack CSV --json",
        "bench --workloads w2 --seconds 0 --json",
        "trace G --out OUT.json",
        "--help",
        "--version",
        "train --help",
    ];
    let word = |w: &str| w.replace("OUT", &out).replace("CSV", &csv).replace('G', &g);
    let word = |w: &str| if w.starts_with("--") { w.to_string() } else { word(w) };
    lines.iter().map(|l| l.split(' ').map(word).collect()).collect()
}

#[test]
fn a_full_disk_is_one_line_and_exit_code_1() {
    let s = Scratch::new();
    for args in printing(&s) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
        let out = program(&args).stdout(full()).output().unwrap();
        let errors = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}: {errors}");
        assert!(
            errors.starts_with("arenagrad: standard output: ") && errors.lines().count() == 1,
            "{args:?}: {errors}"
        );
        // Standard error is full too: there is no message, but the same exit code.
        let out = program(&args).stdout(full()).stderr(full()).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}");
    }
    let full = Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    assert_eq!(program(&["print", &s.path("none.ir")]).stderr(full).output().unwrap().status.code(), Some(2));
    let full = Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let out = s.path("run");
    let quiet = program(&["train", "digits", "--steps", "2", "--threads", "1", "--out", &out]).stderr(full).output();
    assert_eq!(quiet.unwrap().status.code(), Some(0));
    // So is a full disk under a file.
    let out = program(&["pack", "--make", "training:40:1", "--out", "/dev/full"]).output().unwrap();
    let errors = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{errors}");
    assert!(errors.starts_with("arenagrad: /dev/full: ") && errors.lines().count() == 1, "{errors}");
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let s = Scratch::new();
    for args in printing(&s) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut child = program(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args:?}: {errors}");
        assert_eq!(errors, "", "{args:?}");
    }
}

#[test]
fn a_verdict_needs_no_reader() {
    let s = Scratch::new();
    let f = s.file("b.csv", "id,lower,upper,size\na,0,1,5\nb,0,1,5\n");
    let mut child =
        program(&["pack", &f, "--capacity", "9"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn plans_are_drawn_whatever_is_printed() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH);
    for flags in ["", "--json", "--budgets", "--budgets --json", "--max-memory 1MiB"] {
        let (svg, html) = (s.path("p.svg"), s.path("p.html"));
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let text = good(&[&["plan", &g, "--svg", &svg, "--html", &html], &flags[..]].concat());
        assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"), "{flags:?}");
        assert!(std::fs::read_to_string(&html).unwrap().contains("Memory map"), "{flags:?}");
        assert_eq!(text.starts_with(['{', '[']), flags.contains(&"--json"), "{text}");
        assert_eq!(
            text.contains("computed twice")
                || text.contains("recomputed\":{\"flops\":0,\"nodes\":0,\"what\":\"nothing"),
            !flags.is_empty() && flags != ["--json"],
            "{flags:?}: {text}"
        );
        std::fs::remove_file(svg).unwrap();
        std::fs::remove_file(html).unwrap();
    }
    fails(2, &["plan", &g, "--budgets", "--max-memory", "1MiB"], &["--budgets", "--max-memory"]);
    fails(2, &["opt", &g, "--report", "--locations"], &["--report", "--locations"]);
    // A report goes to standard output, a trace to standard error.
    let both = run(&["opt", &g, "--report", "--trace"]);
    assert!(String::from_utf8(both.stdout).unwrap().contains("nodes saved"));
    assert!(String::from_utf8(both.stderr).unwrap().contains("simplify: "));
}

#[test]
fn outputs_of_like_names_have_files_of_their_own() {
    let s = Scratch::new();
    let out = s.path("out");
    good(&["run", &s.file("g.ir", GRAPH), "--out", &out]);
    let mut names: Vec<String> =
        std::fs::read_dir(&out).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|n| n != ".lock");
    names.sort();
    assert_eq!(names, ["a%2Fb.npy", "a_b.npy", "loss.npy"]);
}

#[test]
fn all_commands_count_threads_alike() {
    let s = Scratch::new();
    let (g, out) = (s.file("g.ir", GRAPH), s.path("out"));
    let commands: [&[&str]; 6] = [
        &["plan", &g],
        &["run", &g, "--out", &out],
        &["trace", &g, "--out", &out],
        &["bench", "--seconds", "0"],
        &["sample", &out],
        &["train", "digits", "--out", &out],
    ];
    for command in commands {
        for n in ["0", "1025", "1000000000", "99999999999999999999999", "many"] {
            let why = format!("threads is {n}; it goes from 1 to 1024");
            fails(2, &[command, &["--threads", n]].concat(), &[&why]);
        }
    }
    for n in ["0", "1025", "1000000000"] {
        let file = s.file("run.toml", format!("threads = {n}\n"));
        fails(2, &["train", &file, "--out", &out], &["run.toml", &format!("threads is {n}; it goes from 1 to 1024")]);
    }
    assert!(!std::path::Path::new(&out).exists());
    good(&["plan", &g, "--threads", "1024"]);
}

#[test]
fn plans_of_texts_name_file_and_line() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH.replace("%1 = tanh %0 : f32[4,2]", "%1 = tanh %0 : f32[4,2] loc(\"net.rs\":77)"));
    let text = good(&["plan", &g]);
    for part in [format!("{g}:2"), format!("{g}:3"), "net.rs:77".into()] {
        assert!(text.contains(&part), "{part}\n{text}");
    }
    let plan: serde_json::Value = serde_json::from_str(&good(&["plan", &g, "--json"])).unwrap();
    let buffers = plan["buffers"].as_array().unwrap();
    assert!(
        buffers.iter().all(|b| b["place"].as_str().is_some_and(|p| p.contains("g.ir:") || p == "net.rs:77")),
        "{plan}"
    );
    // With --locations, each node has its source location; without, the text holds none.
    let placed = good(&["print", &g, "--locations"]);
    assert!(placed.contains("loc(\"net.rs\":77)") && placed.contains(&format!("loc(\"{g}\":3)")), "{placed}");
    assert!(!good(&["print", &g]).contains("loc("));
    let again = s.file("again.ir", &placed);
    assert_eq!(good(&["print", &again, "--locations"]), placed);
    assert!(good(&["plan", &again]).contains(&format!("{g}:3")));
    assert!(good(&["opt", &g, "--locations"]).contains("loc(\"net.rs\":77)"));
    assert!(good(&["grad", &g, "--output", "loss", "--locations"]).contains("loc(\"net.rs\":77)"));
}

#[test]
fn packed_files_are_unpacked_as_far_as_their_sizes_go() {
    use std::io::Write;
    let s = Scratch::new();
    let dir = idx(&s, "data", 8);
    let name = "data/train-images-idx3-ubyte";
    let head = std::fs::read(s.path(name)).unwrap();
    std::fs::remove_file(s.path(name)).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&head).unwrap();
    let block = vec![0; 1 << 20];
    (0..700).for_each(|_| gz.write_all(&block).unwrap());
    s.file(&format!("{name}.gz"), gz.finish().unwrap());
    // The unpacked bytes behind the images need more memory than there is.
    let shell = "ulimit -v 600000; exec \"$0\" \"$@\"";
    let mut c = std::process::Command::new("bash");
    c.args(["-c", shell, env!("CARGO_BIN_EXE_arenagrad"), "train", "digits", "--threads", "1"]);
    let out = c.args(["--data", &dir, "--out", &s.path("o")]).output().unwrap();
    let errors = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{errors}");
    assert!(errors.contains("byte 520: bytes follow the elements: its sizes are [8, 9, 7]"), "{errors}");
}

#[test]
fn no_memory_is_one_line() {
    let s = Scratch::new();
    let wide: String = (0..50_000).map(|i| format!("  %{i} = full value={i}.5 : f32[2]\n")).collect();
    let g = s.file("wide.ir", format!("graph @g {{\n{wide}  return y=%7\n}}\n"));
    for kib in [30_000, 45_000, 60_000] {
        let shell = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
        let mut c = std::process::Command::new("bash");
        let out = c.args(["-c", &shell, env!("CARGO_BIN_EXE_arenagrad"), "print", &g]).output().unwrap();
        let errors = String::from_utf8(out.stderr).unwrap();
        let said = errors.starts_with("arenagrad: there is no memory for") && errors.lines().count() == 1;
        assert!(
            out.status.code() == Some(0) || out.status.code() == Some(1) && said,
            "{kib}: {:?} {errors}",
            out.status
        );
    }
}

#[test]
fn an_arena_that_the_system_refuses_is_a_lack_of_memory() {
    let s = Scratch::new();
    let g = s.file(
        "large.ir",
        "graph @g {\n  %x = input : f32[2147483648]\n  %1 = exp %x : f32[2147483648]\n  return y=%1\n}\n",
    );
    let mut c = std::process::Command::new("bash");
    let shell = "ulimit -v 4000000; exec \"$0\" \"$@\"";
    let out =
        c.args(["-c", shell, env!("CARGO_BIN_EXE_arenagrad"), "run", &g, "--out", &s.path("o")]).output().unwrap();
    let errors = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{errors}");
    assert!(errors.contains("no memory for an arena of 17179871232 bytes"), "{errors}");
}

#[test]
fn a_wrong_command_line_is_one_line() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH);
    fails(2, &["print", &g, "--locatons"], &["--locatons", "--locations"]);
    fails(2, &["run", &g], &["--out"]);
    fails(2, &["dance"], &["dance"]);
    fails(2, &["plan", &g, "--precision", "f8"], &["f8", "bf16x3"]);
}
