//! File tests: `tests/filetests/**/*.ir` are texts with what is expected of them as comments.
//!
//! The first line says what to do: `; test print`, or with an argument, `; test verify=core`. A command finds either a
//! text, which stands after the graph in lines that start with `; |`, or errors, each of which stands on the line that
//! it names as `; ^ part of the message`. What is expected and not found fails, and what is found and not expected.
//! `BLESS=1 cargo test --test graphs filetests::` writes what is found. A new command is one function and one line in
//! [`COMMANDS`].
//!
//! A file with ops of a family names it at the end of the first line, `; test opt=states needs recurrent`, and is left
//! out where the family is.

#![allow(clippy::unwrap_used)] // A test may panic.

use crate::common::families::has_family;
use arenagrad::error::{Error, Location};
use arenagrad::graph::{GraphBuf, Sizes};
use arenagrad::op::Op;
use arenagrad::tools::arena::{Region, ids::Id};
use arenagrad::tools::ir::text::{parse_all, parse_all_with_sizes, print};
use arenagrad::tools::ir::verify::{Stage, verify};
use arenagrad::tools::passes::fusion_notes::order_outcomes;
use arenagrad::tools::passes::{fusion_notes::Trace, pipeline};
use arenagrad::tools::testing::bless;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What a command finds.
enum Found {
    Text(String),
    Errors(Vec<Error>),
}

/// Runs a text; the argument is what follows `=` in the first line.
type Command = fn(text: &str, argument: &str) -> Found;

const COMMANDS: &[(&str, Command)] = &[
    ("print", test_print),
    ("sizes", test_sizes),
    ("verify", test_verify),
    ("error", test_error),
    ("opt", test_opt),
    ("report", test_report),
    ("places", test_places),
];

fn test_print(text: &str, _: &str) -> Found {
    match parse_all(text, &[]) {
        Ok(g) => Found::Text(print(g.view())),
        Err(errors) => Found::Errors(errors),
    }
}

/// The printed text; the argument binds symbols: `; test sizes=batch=7,len=3`.
fn test_sizes(text: &str, argument: &str) -> Found {
    let bound: Vec<(&str, usize)> = argument
        .split(',')
        .filter_map(|b| b.split_once('='))
        .map(|(name, size)| (name, size.parse().unwrap()))
        .collect();
    match parse_all_with_sizes(text, &[], &Sizes::new(&bound).unwrap()) {
        Ok(g) => Found::Text(print(g.view())),
        Err(errors) => Found::Errors(errors),
    }
}

fn test_verify(text: &str, argument: &str) -> Found {
    let stage = match argument {
        "core" => Stage::Core,
        "fused" => Stage::Fused,
        _ => Stage::Block,
    };
    Found::Errors(parse_all(text, &[]).map_or_else(|e| e, |g| verify(g.view(), stage)))
}

fn test_error(text: &str, _: &str) -> Found {
    Found::Errors(parse_all(text, &[]).err().unwrap_or_default())
}

/// The graph after the passes that the argument names.
fn test_opt(text: &str, argument: &str) -> Found {
    passed(text, argument, |g, _| print(g.view()))
}

/// What fusion rules met in the passes that the argument names.
fn test_report(text: &str, argument: &str) -> Found {
    passed(text, argument, |_, traces| {
        let all = order_outcomes(traces.into_iter().map(|t| t.fusions));
        all.iter().map(|f| format!("{} at {:?}: {:?}\n", f.rule, f.location, f.outcome)).collect()
    })
}

/// The ops of each region after the passes that the argument names, each with the line of the text that it comes from.
fn test_places(text: &str, argument: &str) -> Found {
    passed(text, argument, |g, _| {
        let g = g.view();
        let mut out = String::new();
        for r in (0..g.regions()).map(Region::new) {
            let name = g.str(if r == g.entry() { g.name } else { g.region_names[r.at()] });
            let nodes = g.region_nodes(r).filter(|&n| g.op[n.at()] != Op::ARG).map(|n| match g.location(n) {
                Location::Text(line, _) => format!("{} {line}", g.def_of(n).name),
                elsewhere => format!("{} at {elsewhere:?}", g.def_of(n).name),
            });
            let _ = writeln!(out, "{name}: {}", nodes.collect::<Vec<_>>().join(", "));
        }
        out
    })
}

fn passed(text: &str, argument: &str, show: impl Fn(&GraphBuf, Vec<Trace>) -> String) -> Found {
    let names: Vec<&str> = argument.split(',').collect();
    let done = parse_all(text, &[]).and_then(|g| pipeline::run_pipeline(&g, &names, true).map_err(|e| vec![e]));
    done.map_or_else(Found::Errors, |(g, traces)| Found::Text(show(&g, traces)))
}

const OUTPUT: &str = "; |";
const ERROR: &str = "; ^ ";

/// The text without its expectations, those of its lines' errors, and that of its output.
fn split(file: &str) -> (Vec<&str>, BTreeMap<u32, Vec<&str>>, String) {
    let (mut lines, mut errors, mut output) = (Vec::new(), BTreeMap::new(), String::new());
    for line in file.lines() {
        if let Some(text) = line.strip_prefix(OUTPUT) {
            let _ = writeln!(output, "{}", text.strip_prefix(' ').unwrap_or(text));
            continue;
        }
        let mut parts = line.split(ERROR);
        lines.push(parts.next().unwrap_or_default().trim_end());
        let expected: Vec<&str> = parts.map(str::trim).collect();
        if !expected.is_empty() {
            errors.insert(lines.len() as u32, expected);
        }
    }
    (lines, errors, output)
}

/// Line 1 takes the errors that have no line.
fn line_of(e: &Error) -> u32 {
    if let Location::Text(line, _) = e.location { line } else { 1 }
}

/// `lines` with what was found as expectations.
fn with_expectations(lines: &[&str], found: &Found) -> String {
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        out.push_str(line);
        if let Found::Errors(errors) = found {
            for e in errors.iter().filter(|e| line_of(e) == i as u32 + 1) {
                let _ = write!(out, " {ERROR}{}", e.message);
            }
        }
        out.push('\n');
    }
    if let Found::Text(text) = found {
        for line in text.lines() {
            let _ = writeln!(out, "{}", format!("{OUTPUT} {line}").trim_end());
        }
    }
    out
}

fn compare(errors: &BTreeMap<u32, Vec<&str>>, output: &str, found: &Found, complaints: &mut Vec<String>) {
    let (text, mut left) = match found {
        Found::Text(text) => (text.as_str(), Vec::new()),
        Found::Errors(errors) => ("", errors.iter().collect()),
    };
    if text != output {
        complaints.push(format!("found\n{text}instead of\n{output}"));
    }
    for (line, wants) in errors {
        for want in wants {
            match left.iter().position(|e| line_of(e) == *line && e.message.contains(want)) {
                Some(i) => drop(left.remove(i)),
                None => complaints.push(format!("line {line}: no error says {want:?}")),
            }
        }
    }
    complaints.extend(left.iter().map(|e| format!("line {}: unexpected: {e}", line_of(e))));
}

/// Runs a file; `false` if this build has not the family that it needs.
fn run(path: &Path, complaints: &mut Vec<String>) -> bool {
    let file = std::fs::read_to_string(path).unwrap();
    let header = file.lines().next().unwrap_or_default();
    let Some(command) = header.strip_prefix("; test ") else {
        complaints.push("the first line is not `; test command`".into());
        return true;
    };
    let command = command.split(ERROR).next().unwrap_or_default().trim();
    let (command, family) = command.split_once(" needs ").unwrap_or((command, ""));
    let (name, argument) = command.split_once('=').unwrap_or((command, ""));
    let Some((_, test)) = COMMANDS.iter().find(|c| c.0 == name) else {
        complaints.push(format!("there is no command {name}"));
        return true;
    };
    match has_family(family) {
        Some(false) => return false,
        None if !family.is_empty() => complaints.push(format!("there is no family {family}")),
        _ => {}
    }
    let (lines, errors, output) = split(&file);
    // The expectations go before the text is read, so that columns in messages are those of the file.
    let found = test(&lines.join("\n"), argument);
    if !bless(path, with_expectations(&lines, &found)).unwrap() {
        compare(&errors, &output, &found, complaints);
    }
    true
}

fn files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else if path.extension().is_some_and(|e| e == "ir") {
            into.push(path);
        }
    }
}

#[test]
fn file_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let mut paths = Vec::new();
    files(&root, &mut paths);
    paths.sort();
    assert!(!paths.is_empty());
    let (mut failures, mut left_out) = (String::new(), 0);
    for path in &paths {
        let mut complaints = Vec::new();
        left_out += usize::from(!run(path, &mut complaints));
        for c in complaints {
            let _ = writeln!(failures, "{}: {c}", path.strip_prefix(&root).unwrap_or(path).display());
        }
    }
    println!("{} files, of which {left_out} are left out for want of a family", paths.len());
    assert!(failures.is_empty(), "BLESS=1 writes what was found:\n{failures}");
}
