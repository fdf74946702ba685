//! Trials: the tests that reach a mutant are run with it, the quick ones first, until one fails.

use crate::sites::Mutant;
use crate::tests::{Binary, End, Test, append};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The most tests of one process, and the seconds that they may take.
const TOGETHER: usize = 40;
const SECONDS: f64 = 1.5;

/// What became of a mutant.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub name: String,
    pub area: String,
    /// `noticed`, `timeout`, `missed`, `unreached`, or `short`: no test failed in the time that was given.
    pub end: String,
    pub by: String,
}

pub fn read(out: &Path) -> Vec<Outcome> {
    let text = fs::read_to_string(out.join("results")).unwrap_or_default();
    let mut last = HashMap::new();
    for (k, line) in text.lines().enumerate() {
        let mut words = line.split('\t').map(String::from);
        if let (Some(area), Some(end), Some(name), Some(by)) = (words.next(), words.next(), words.next(), words.next())
        {
            last.insert(name.clone(), (k, Outcome { name, area, end, by }));
        }
    }
    let mut all: Vec<_> = last.into_values().collect();
    all.sort_by_key(|(k, _)| *k);
    all.into_iter().map(|(_, o)| o).collect()
}

/// FNV-1a: the rank of a mutant follows from the seed and its name.
pub fn rank(seed: u64, name: &str) -> u64 {
    let start = 0xCBF2_9CE4_8422_2325 ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let hash = name.bytes().fold(start, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
    (hash ^ hash >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Tries mutants, `threads` at a time, each for at most `cap` seconds of tests.
pub fn run(out: &Path, mutants: &[&Mutant], tests: &[Test], binaries: &[Binary], threads: usize, cap: f64) {
    let mut reach: HashMap<u32, Vec<usize>> = HashMap::new();
    let asked: HashSet<u32> = mutants.iter().map(|m| m.id).collect();
    for (k, test) in tests.iter().enumerate() {
        for id in test.seen.iter().filter(|id| asked.contains(id)) {
            reach.entry(*id).or_default().push(k);
        }
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let reaching = reach.get(&mutant.id).map(Vec::as_slice).unwrap_or_default();
                    let start = Instant::now();
                    let (end, by) = try_one(mutant, reaching, tests, binaries, cap);
                    let (name, area, seconds) = (mutant.name(), mutant.area, start.elapsed().as_secs_f64());
                    append(&out.join("results"), &format!("{area}\t{end}\t{name}\t{by}\t{seconds:.1}\n"));
                }
            });
        }
    });
}

fn try_one(m: &Mutant, reaching: &[usize], tests: &[Test], binaries: &[Binary], cap: f64) -> (&'static str, String) {
    if reaching.is_empty() {
        return ("unreached", String::new());
    }
    let number = m.id.to_string();
    let (mut left, mut spent) = (reaching.to_vec(), 0.0);
    while let Some(first) = left.first().map(|k| &tests[*k]) {
        if spent > cap {
            return ("short", format!("{} of {} tests", reaching.len() - left.len(), reaching.len()));
        }
        let (mut together, mut seconds) = (Vec::new(), 0.0);
        left.retain(|k| {
            let t = &tests[*k];
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
        match binaries[together[0].binary].run(&names, &vars, seconds) {
            Ok(End::Passed) => {}
            Ok(End::Failed) => return ("noticed", by()),
            Ok(End::TimedOut) => return ("timeout", by()),
            Err(e) => return ("short", e.to_string()),
        }
    }
    ("missed", format!("{} tests", reaching.len()))
}
