//! Trials: the tests that reach a mutant are run with it, until one fails.

use crate::sites::Mutant;
use crate::tests::{Binary, End, Test, append};
use crate::tree::Tree;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The most tests of one process, and the seconds that they may take.
const TOGETHER: usize = 40;
const SECONDS: f64 = 1.5;

/// What became of a mutant.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The mutant as the list of equivalent ones names it: without line, so that edits of a file keep its results.
    pub entry: String,
    /// `noticed`, `timeout`, `missed`, `unreached`, or `short`: no test failed in the time that was given.
    pub end: String,
    pub by: String,
}

impl Outcome {
    pub fn is_unnoticed(&self) -> bool {
        matches!(self.end.as_str(), "missed" | "unreached" | "short")
    }
}

/// The last outcomes of all mutants.
pub fn read(out: &Path) -> Vec<Outcome> {
    let text = fs::read_to_string(out.join("results")).unwrap_or_default();
    let mut last = HashMap::new();
    for (k, line) in text.lines().enumerate() {
        let mut words = line.split('\t').map(String::from);
        if let (Some(_), Some(end), Some(entry), Some(by)) = (words.next(), words.next(), words.next(), words.next()) {
            last.insert(entry.clone(), (k, Outcome { entry, end, by }));
        }
    }
    let mut all: Vec<_> = last.into_values().collect();
    all.sort_by_key(|(k, _)| *k);
    all.into_iter().map(|(_, o)| o).collect()
}

/// FNV-1a: the rank of a mutant follows from the seed and its entry.
pub fn rank(seed: u64, entry: &str) -> u64 {
    let start = 0xCBF2_9CE4_8422_2325 ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let hash = entry.bytes().fold(start, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
    (hash ^ hash >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Tries mutants, `threads` at a time, each for at most `cap` seconds of tests.
pub fn run(tree: &Tree, mutants: &[&Mutant], tests: &[Test], binaries: &[Binary], threads: usize, cap: f64) {
    let mut files: HashMap<String, Range<u32>> = HashMap::new();
    for m in &tree.mutants {
        files.entry(m.file.clone()).or_insert(m.id..m.id).end = m.id + 1;
    }
    let out = &tree.out;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    let (end, by) = try_one(mutant, &reaching(mutant, &files[&mutant.file], tests), binaries, cap);
                    let (entry, area, seconds) = (mutant.entry(), mutant.area, start.elapsed().as_secs_f64());
                    append(&out.join("results"), &format!("{area}\t{end}\t{entry}\t{by}\t{seconds:.1}\n"));
                }
            });
        }
    });
}

/// The tests that reach a mutant, in the order in which they are tried: the quick ones, and those that reach little but
/// the mutant's file, come first. `file` holds the mutants of the file.
fn reaching<'t>(m: &Mutant, file: &Range<u32>, tests: &'t [Test]) -> Vec<&'t Test> {
    let mut reaching: Vec<(f64, &Test)> = Vec::new();
    for t in tests.iter().filter(|t| t.seen.binary_search(&m.id).is_ok()) {
        let before = |id: u32| t.seen.partition_point(|&seen| seen < id);
        let share = (before(file.end) - before(file.start)) as f64 / t.seen.len() as f64;
        reaching.push((t.place() / share, t));
    }
    reaching.sort_by(|a, b| a.0.total_cmp(&b.0));
    reaching.into_iter().map(|(_, t)| t).collect()
}

fn try_one(m: &Mutant, reaching: &[&Test], binaries: &[Binary], cap: f64) -> (&'static str, String) {
    if reaching.is_empty() {
        return ("unreached", String::new());
    }
    let number = m.id.to_string();
    let (mut left, mut spent) = (reaching.to_vec(), 0.0);
    while let Some(first) = left.first().copied() {
        if spent > cap {
            return ("short", format!("{} of {} tests", reaching.len() - left.len(), reaching.len()));
        }
        let (mut together, mut seconds) = (Vec::new(), 0.0);
        left.retain(|&t| {
            let fits = together.is_empty()
                || t.binary == first.binary
                    && t.op.is_some() == first.op.is_some()
                    && (t.op.is_none() || t.name == first.name)
                    && together.len() < TOGETHER
                    && seconds + t.seconds < SECONDS
                    && t.seconds < 4.0 * first.seconds + 0.05;
            if fits {
                together.push(t);
                seconds += t.seconds;
            }
            !fits
        });
        let ops = together.iter().filter_map(|t| t.op.as_deref()).collect::<Vec<_>>().join(" ");
        let mut names: Vec<&str> = together.iter().map(|t| t.name.as_str()).collect();
        names.dedup();
        let vars = [("MUTANT", number.as_str()), ("OPS", &ops)];
        spent += seconds;
        let by = || format!("{} {} {ops}", binaries[together[0].binary].name, names[0]);
        match binaries[together[0].binary].run(&names, &vars, 4.0 + 10.0 * seconds) {
            Ok((End::Passed, _)) => {}
            Ok((End::Failed, _)) => return ("noticed", by()),
            Ok((End::TimedOut, _)) => return ("timeout", by()),
            Err(e) => return ("short", e.to_string()),
        }
    }
    ("missed", format!("{} tests", reaching.len()))
}
