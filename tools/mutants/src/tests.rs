//! The tests of the mutated copy: what each reaches, and how long it takes.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Tests that ask all ops, and take names of ops from `OPS`: each op counts as a test.
const BY_OP: [&str; 2] =
    ["conformance::every_op_passes_every_facet", "shape_rules::shape_rules_answer_what_the_file_says"];

/// Tests that compare many answers with a file: they notice much, and so come early.
const EARLY: [&str; 3] = [BY_OP[1], "plan_figures::figures_of_plans_are_those_of_the_file", "filetests::file_tests"];

/// Binaries that look at the sources themselves.
const LEFT_OUT: [&str; 2] = ["style", "alloc"];

/// A test that can run alone.
#[derive(Clone, Debug)]
pub struct Test {
    pub binary: usize,
    pub name: String,
    /// The op, of [`BY_OP`].
    pub op: Option<String>,
    /// Processor's time.
    pub seconds: f64,
    /// The mutants that it asks for, in order.
    pub seen: Vec<u32>,
}

/// A test binary.
#[derive(Clone, Debug)]
pub struct Binary {
    pub name: String,
    pub path: PathBuf,
    pub folder: PathBuf,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Passed,
    Failed,
    TimedOut,
}

impl Binary {
    pub fn new(name: &str, path: impl Into<PathBuf>, folder: impl Into<PathBuf>) -> Binary {
        Binary { name: name.to_string(), path: path.into(), folder: folder.into() }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = |more: &[&str]| -> io::Result<Vec<String>> {
            let output = Command::new(&self.path)
                .args(["--list", "--format", "terse"])
                .args(more)
                .current_dir(&self.folder)
                .output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(text.lines().filter_map(|l| l.strip_suffix(": test")).map(String::from).collect())
        };
        let ignored = names(&["--ignored"])?;
        Ok(names(&[])?.into_iter().filter(|n| !ignored.contains(n)).collect())
    }

    /// Runs some tests for at most `limit` seconds. Returns how they ended, and the seconds that they took. Seconds are
    /// those of the processor, since other programs may run; tests that wait for each other are stopped, too.
    pub fn run(&self, names: &[&str], vars: &[(&str, &str)], limit: f64) -> io::Result<(End, f64)> {
        let mut command = Command::new("sh");
        // Mutants that allocate or write without end are stopped.
        command.args(["-c", "ulimit -v 16000000; ulimit -f 2000000; ulimit -c 0; exec \"$0\" \"$@\""]);
        command.arg(&self.path).args(["--exact", "--test-threads", "1"]).args(names);
        command.envs(vars.iter().copied()).env("RUST_BACKTRACE", "0").current_dir(&self.folder);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let stat = format!("/proc/{}/stat", child.id());
        let (mut pause, mut seconds, mut waited) = (2, 0.0, 0.0);
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((if status.success() { End::Passed } else { End::Failed }, seconds));
            }
            let now = Process::read(&stat);
            // Pauses are counted, not the clock: both processes may be stopped for a while.
            waited += if now.stopped { 0.0 } else { pause as f64 / 1000.0 };
            if now.seconds > limit || waited > 30.0 + 4.0 * limit {
                child.kill()?;
                child.wait()?;
                return Ok((End::TimedOut, now.seconds));
            }
            std::thread::sleep(Duration::from_millis(pause));
            seconds = now.seconds + pause as f64 / 1000.0;
            pause = (pause * 2).min(50);
        }
    }
}

/// What the `stat` file of a process says.
struct Process {
    /// User's and system's time, for a clock of 100 ticks a second.
    seconds: f64,
    /// True while a signal keeps it from running.
    stopped: bool,
}

impl Process {
    fn read(stat: &str) -> Process {
        let text = fs::read_to_string(stat).unwrap_or_default();
        let words: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |k: usize| words.get(k).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
        Process { seconds: (ticks(11) + ticks(12)) / 100.0, stopped: words.first() == Some(&"T") }
    }
}

/// The tests of the binaries that take at most `limit` seconds, with what each reaches. Those that `out` has are not run
/// again.
pub fn record(out: &Path, binaries: &[Binary], ops: &[String], threads: usize, limit: f64) -> io::Result<Vec<Test>> {
    let folder = out.join("seen");
    fs::create_dir_all(&folder)?;
    let mut tests = Vec::new();
    for (binary, b) in binaries.iter().enumerate().filter(|(_, b)| !LEFT_OUT.contains(&b.name.as_str())) {
        for name in b.list()? {
            let each: Vec<Option<String>> = match BY_OP.contains(&name.as_str()) {
                true => ops.iter().cloned().map(Some).collect(),
                false => vec![None],
            };
            let all =
                each.into_iter().map(|op| Test { binary, name: name.clone(), op, seconds: 0.0, seen: Vec::new() });
            tests.extend(all);
        }
    }
    let known: HashMap<String, f64> = fs::read_to_string(out.join("times"))
        .unwrap_or_default()
        .lines()
        .filter_map(|l| l.rsplit_once('\t'))
        .filter_map(|(key, s)| Some((key.to_string(), s.parse().ok()?)))
        .collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let key = test.key(binaries);
                    let file = folder.join(file_name(&key));
                    let seconds = match known.get(&key) {
                        Some(s) if *s >= 0.0 || -s >= limit => *s,
                        _ => {
                            let s = record_one(test, &binaries[test.binary], &file, limit).unwrap_or(f64::NEG_INFINITY);
                            append(&out.join("times"), &format!("{key}\t{s:.3}\n"));
                            s
                        }
                    };
                    if seconds == f64::NEG_INFINITY {
                        eprintln!("left out, since it fails without a mutant: {key}");
                    }
                    if seconds < 0.0 {
                        continue;
                    }
                    let bytes = fs::read(&file).unwrap_or_default();
                    let mut seen: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
                    seen.sort_unstable();
                    seen.dedup();
                    if let Ok(mut done) = done.lock() {
                        done.push(Test { seconds, seen, ..test.clone() });
                    }
                }
            });
        }
    });
    Ok(done.into_inner().unwrap_or_default())
}

/// The seconds that a test takes; `-limit` if it takes more; below all numbers if it fails.
fn record_one(test: &Test, binary: &Binary, file: &Path, limit: f64) -> io::Result<f64> {
    let _ = fs::remove_file(file);
    let seen = file.to_string_lossy();
    let mut vars = vec![("MUTANTS_SEEN", &*seen)];
    if let Some(op) = &test.op {
        vars.push(("OPS", op));
    }
    let (end, seconds) = binary.run(&[&test.name], &vars, limit)?;
    Ok(match end {
        End::Passed => seconds,
        End::Failed => f64::NEG_INFINITY,
        End::TimedOut => -limit,
    })
}

impl Test {
    /// The seconds that it takes; less for a test that comes early.
    pub fn place(&self) -> f64 {
        self.seconds * if EARLY.contains(&self.name.as_str()) { 0.05 } else { 1.0 }
    }

    pub fn key(&self, binaries: &[Binary]) -> String {
        let op = self.op.as_ref().map(|op| format!(" {op}")).unwrap_or_default();
        format!("{} {}{op}", binaries[self.binary].name, self.name)
    }
}

fn file_name(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Appends a line to a file. Writers of other threads come before or after it.
pub fn append(path: &Path, line: &str) {
    use std::io::Write;
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    if let Err(e) = file.and_then(|mut f| f.write_all(line.as_bytes())) {
        eprintln!("{}: {e}", path.display());
    }
}
