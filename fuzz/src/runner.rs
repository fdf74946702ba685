//! The loop that runs a target: pick an input, change it, run it, keep it if it reached new code.
//!
//! Invariant: without instrumentation, inputs follow from the seed and the corpus alone.

use crate::args::Options;
use crate::corpus::{read_corpus, write_input};
use crate::coverage::{Coverage, counters};
use crate::files::package_dir;
use crate::finding::{Finding, keep_panics, run_input};
use crate::mutate::Mutator;
use crate::report::{Report, cpu_seconds};
use crate::shrink::shrink_input;
use crate::targets::Target;
use crate::watch::Watch;
use arenagrad::tools::arena::rng::SplitMix64;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long an input with a finding is made smaller.
const SHRINK: Duration = Duration::from_secs(5);

/// The folder of inputs with findings of `target`.
pub fn crash_dir(target: &str) -> PathBuf {
    package_dir().join("crashes").join(target)
}

/// What an input did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// It reached something new.
    New,
    /// It reached nothing new.
    Known,
    /// It showed a finding.
    Finding,
}

/// A run of one target.
struct Run<'a> {
    target: &'a Target,
    options: &'a Options,
    corpus: Vec<Vec<u8>>,
    coverage: Coverage,
    watch: Watch,
    kinds: BTreeSet<String>,
    report: Report,
}

/// Runs `target` on random inputs as `options` say.
///
/// # Errors
/// Files that cannot be written.
pub fn fuzz_target(target: &Target, options: &Options) -> std::io::Result<Report> {
    keep_panics();
    let start = Instant::now();
    let watch = Watch::new(&crash_dir(target.name))?;
    let (coverage, report) = (Coverage::new(), Report { counters: counters(), ..Report::default() });
    let mut run = Run { target, options, corpus: Vec::new(), coverage, watch, kinds: BTreeSet::new(), report };
    run.load()?;
    let mut m = Mutator {
        rng: SplitMix64(options.seed),
        words: target.words,
        max_len: options.max_len.unwrap_or(target.max_len),
    };
    while run.report.runs < options.runs && start.elapsed() < options.time && run.kinds.len() < options.findings {
        let data = match run.corpus.len() {
            0 => m.mutated(&[], &[]),
            n => {
                // Inputs that were found late are tried more often.
                let late = n - n / 4;
                let base = if m.below(2) == 0 && late < n { late + m.below(n - late) } else { m.below(n) };
                let other = m.below(n);
                m.mutated(&run.corpus[base], &run.corpus[other])
            }
        };
        if run.try_input(&data)? == Tried::New {
            if let Some(dir) = &options.corpus {
                write_input(dir, &data, "")?;
            }
            run.corpus.push(data);
        }
    }
    let (time, cpu, edges) = (start.elapsed(), cpu_seconds(), run.coverage.edges());
    Ok(Report { time, cpu, edges, corpus: run.corpus.len(), kinds: run.kinds.len(), ..run.report })
}

impl Run<'_> {
    /// Runs the seeds and the files of the corpus. With coverage, only those that reach something new are kept.
    fn load(&mut self) -> std::io::Result<()> {
        let blind = counters() == 0;
        for seed in (self.target.seeds)() {
            if self.try_input(&seed)? == Tried::New || blind {
                self.corpus.push(seed);
            }
        }
        for (path, data) in self.options.corpus.iter().flat_map(|dir| read_corpus(dir)) {
            match self.try_input(&data)? {
                Tried::Known if !blind && self.options.prune => {
                    // Another process may have done so.
                    let _ = std::fs::remove_file(path);
                }
                Tried::Known if !blind => {}
                Tried::New | Tried::Known => self.corpus.push(data),
                Tried::Finding => {}
            }
        }
        Ok(())
    }

    /// Runs an input.
    fn try_input(&mut self, data: &[u8]) -> std::io::Result<Tried> {
        self.coverage.clear();
        let found = self.watched(data);
        let new = self.coverage.take() > 0;
        self.report.runs += 1;
        let Some(found) = found else { return Ok(if new { Tried::New } else { Tried::Known }) };
        self.report.findings += 1;
        if self.kinds.insert(found.key()) {
            self.keep_finding(data, &found)?;
        }
        Ok(Tried::Finding)
    }

    /// Runs an input under the watch: if it hangs, the process ends and leaves it behind.
    fn watched(&self, data: &[u8]) -> Option<Finding> {
        self.watch.begin(data, self.report.runs, self.coverage.edges() as u64);
        let found = run_input(self.target, data);
        self.watch.end();
        found
    }

    /// Writes the input of a finding, and a smaller one that shows it too, and tells where they are.
    fn keep_finding(&self, data: &[u8], found: &Finding) -> std::io::Result<()> {
        let (name, key) = (self.target.name, found.key());
        let path = write_input(&crash_dir(name), data, "")?;
        let small = shrink_input(data, SHRINK, |t| self.watched(t).is_some_and(|f| f.key() == key));
        let small = write_input(&crash_dir(name), &small, ".small")?;
        println!("{name}: {} ({})", found.message, found.place);
        println!("  {} and, made smaller, {}", path.display(), small.display());
        println!("  cargo run --release --bin arenagrad-fuzz -- {name} {}", small.display());
        Ok(())
    }
}
