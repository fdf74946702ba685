//! The program: runs a target in a child process, so that an input that ends the process is a finding too.
//!
//! Invariant: exit code 0 means no finding, 1 a finding, 2 bad arguments or a file that cannot be read or written.

use crate::agree::disagreement;
use crate::args::{Job, Options, parse_args};
use crate::corpus::{write_input, write_seeds};
use crate::finding::{keep_panics, run_input};
use crate::report::Report;
use crate::runner::{crash_dir, fuzz_target};
use crate::targets::{TARGETS, Target};
use crate::watch::{take_left, watch_path};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Set in the child process.
const CHILD: &str = "ARENAGRAD_FUZZ_CHILD";

/// Does what the command line asks for.
pub fn run_fuzz() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = parse_args(&args).and_then(|job| match job {
        Job::List => Ok(list()),
        Job::Seeds(dir) => seeds(&dir),
        Job::Agree(files) => agree(&files),
        Job::Replay(name, files) => replay(find(&name)?, &files),
        Job::Fuzz(name, o) if std::env::var_os(CHILD).is_some() => child(find(&name)?, &o),
        Job::Fuzz(name, o) => parent(find(&name)?, &o, &args),
    });
    done.unwrap_or_else(|text| {
        eprintln!("{text}");
        ExitCode::from(2)
    })
}

fn find(name: &str) -> Result<&'static Target, String> {
    let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
    let found = TARGETS.iter().find(|t| t.name == name);
    found.ok_or_else(|| format!("there is no target {name:?}; there are {}", names.join(", ")))
}

fn list() -> ExitCode {
    TARGETS.iter().for_each(|t| println!("{:<12} {:>5} {}", t.name, t.max_len, t.about));
    ExitCode::SUCCESS
}

fn seeds(dir: &std::path::Path) -> Result<ExitCode, String> {
    let (n, bytes) = write_seeds(dir, TARGETS).map_err(|e| format!("{}: {e}", dir.display()))?;
    println!("{n} inputs of {bytes} bytes in {}", dir.display());
    Ok(ExitCode::SUCCESS)
}

/// Checks graphs and prints what is wrong with them.
fn agree(files: &[PathBuf]) -> Result<ExitCode, String> {
    let mut all_well = true;
    for path in files {
        let found = disagreement(path)?;
        println!("{}: {}", path.display(), found.as_deref().unwrap_or("no finding"));
        all_well &= found.is_none();
    }
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Runs a target on files and prints what it finds.
fn replay(target: &Target, files: &[PathBuf]) -> Result<ExitCode, String> {
    keep_panics();
    let mut all_well = true;
    for path in files {
        let data = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        match run_input(target, &data) {
            None => println!("{}: no finding", path.display()),
            Some(found) => {
                println!("{}: {}\n{}", path.display(), found.place, found.message);
                all_well = false;
            }
        }
    }
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn child(target: &Target, o: &Options) -> Result<ExitCode, String> {
    let report = fuzz_target(target, o).map_err(|e| e.to_string())?;
    println!("{}", report.line(target.name, o));
    Ok(ExitCode::from(u8::from(report.findings > 0)))
}

/// Runs the child; if it dies, the input that it ran is a finding.
fn parent(target: &Target, o: &Options, args: &[String]) -> Result<ExitCode, String> {
    let start = Instant::now();
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut run = Command::new(exe).args(args).env(CHILD, "1").spawn().map_err(|e| e.to_string())?;
    let pid = run.id();
    let status = run.wait().map_err(|e| e.to_string())?;
    if let Some(code @ 0..=2) = status.code() {
        return Ok(ExitCode::from(code as u8));
    }
    let dir = crash_dir(target.name);
    let left = take_left(&watch_path(&dir, pid)).ok_or(format!("{status}, before the first input"))?;
    let path = write_input(&dir, &left.input, "").map_err(|e| e.to_string())?;
    println!("{}: the process ended with {status}", target.name);
    println!("  cargo run --release --bin arenagrad-fuzz -- {} {}", target.name, path.display());
    let edges = left.edges as usize;
    let report =
        Report { runs: left.runs + 1, time: start.elapsed(), edges, findings: 1, kinds: 1, ..Report::default() };
    println!("{}", report.line(target.name, o));
    Ok(ExitCode::from(1))
}
