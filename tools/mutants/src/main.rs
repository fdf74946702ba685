//! Changes the sources, one operator, constant, condition, statement or function body at a time, and counts the changes
//! that the tests notice, by area.
//!
//! All mutants are compiled into one copy of the working tree; the variable `MUTANT` says which one is on. Each test is
//! run once to see which mutants it reaches. A mutant is then tried on the tests that reach it, the quick ones first.
//! Builds, recordings and trials are kept, so a run goes on where the last one ended.

mod areas;
mod finder;
mod report;
mod sites;
mod tests;
mod tree;
mod trial;

use areas::AREAS;
use sites::Mutant;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use tests::{Binary, Test};
use tree::Tree;
use trial::Outcome;

const USAGE: &str =
    "mutants [list | run | again | report] [-n NUMBER] [-p NUMBER] [-s SEED] [-j THREADS] [-c SECONDS] [-l SECONDS] [-t TESTS] [-o] [-k] [AREA…]

list    prints the mutants of the areas (all areas without AREA)
run     tries NUMBER mutants (30) of each area, drawn by SEED (1), THREADS (2) at a time
again   tries those once more that no test noticed; needed after new tests
report  prints the table, and the mutants that no test noticed
-p      compiles NUMBER mutants of each area (100), and those that no test noticed; more take longer to build
-c      stops the tests of a mutant after SECONDS (60)
-l      leaves out tests that take more than SECONDS (10)
-t      only the tests of these targets, such as `ops,lib` (all)
-o      builds nothing: the tests as the last run with these targets built them
-k      the mutants of the crates arena, kernels and fft instead of the engine's
MUTANTS_OUT is the folder of the copy and the results (target/mutants).";

struct Options {
    command: String,
    number: usize,
    pool: usize,
    seed: u64,
    threads: usize,
    cap: f64,
    longest: f64,
    kernels: bool,
    targets: Vec<String>,
    old: bool,
    areas: Vec<String>,
}

fn options() -> Option<Options> {
    let mut o = Options {
        command: "run".into(),
        number: 30,
        pool: 100,
        seed: 1,
        threads: 2,
        cap: 60.0,
        longest: 10.0,
        kernels: false,
        targets: vec![],
        old: false,
        areas: vec![],
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "list" | "run" | "again" | "report" => o.command = word,
            "-n" => o.number = words.next()?.parse().ok()?,
            "-p" => o.pool = words.next()?.parse().ok()?,
            "-s" => o.seed = words.next()?.parse().ok()?,
            "-j" => o.threads = words.next()?.parse().ok()?,
            "-c" => o.cap = words.next()?.parse().ok()?,
            "-l" => o.longest = words.next()?.parse().ok()?,
            "-t" => o.targets = words.next()?.split(',').map(String::from).collect(),
            "-o" => o.old = true,
            "-k" => o.kernels = true,
            area if AREAS.contains(&area) => o.areas.push(word),
            _ => return None,
        }
    }
    if o.areas.is_empty() {
        o.areas = AREAS.iter().map(|a| a.to_string()).collect();
    }
    Some(o)
}

fn main() {
    let Some(o) = options() else {
        eprintln!("{USAGE}");
        std::process::exit(2);
    };
    if let Err(e) = command(&o) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

fn command(o: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let out = std::env::var_os("MUTANTS_OUT").map_or(root.join("target/mutants"), PathBuf::from);
    let out = if o.kernels { out.join("kernels") } else { out };
    let same = Equivalents::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("equivalent"))?;
    let unnoticed: HashSet<String> =
        trial::read(&out).into_iter().filter(Outcome::is_unnoticed).map(|r| r.entry).collect();
    let mut drawn = HashSet::new();
    let mut tree = Tree::new(&root, &out, o.kernels, |mutants| {
        let pools = ranked(mutants, &AREAS, o.seed).into_iter().flat_map(|l| l.into_iter().take(o.pool));
        drawn = pools.map(|m| m.id).collect();
        let again = mutants.iter().filter(|m| unnoticed.contains(&m.entry()));
        drawn.iter().copied().chain(again.map(|m| m.id)).collect()
    })?;
    for entry in same.unused(&tree.mutants, o.kernels) {
        eprintln!("equivalent: no mutant is called {entry}");
    }
    if o.command == "list" {
        for m in tree.mutants.iter().filter(|m| o.areas.iter().any(|a| a == m.area)) {
            println!("{}\t{}\t{}", m.area, m.name(), m.entry());
        }
        return Ok(());
    }
    if o.command != "report" {
        if !o.old {
            tree.compile()?;
        }
        let wanted = wanted(&tree, &same, o);
        let binaries = binaries(&tree, o)?;
        let tests = recorded(&tree, &root, &binaries, o)?;
        trial::run(&tree, &wanted, &tests, &binaries, o.threads, o.cap);
    }
    report::print(&tree, &same, &drawn, &o.areas);
    Ok(())
}

/// The mutants of each area, in the order in which they are drawn. It follows from the seed and their entries.
fn ranked<'m>(mutants: &'m [Mutant], areas: &[&str], seed: u64) -> Vec<Vec<&'m Mutant>> {
    let mut ranked: Vec<Vec<&Mutant>> = areas.iter().map(|_| Vec::new()).collect();
    for m in mutants {
        if let Some(k) = areas.iter().position(|a| *a == m.area) {
            ranked[k].push(m);
        }
    }
    ranked.iter_mut().for_each(|list| list.sort_by_key(|m| trial::rank(seed, &m.entry())));
    ranked
}

/// The mutants to be tried, area after area in turn.
fn wanted<'t>(tree: &'t Tree, same: &Equivalents, o: &Options) -> Vec<&'t Mutant> {
    let results: HashMap<String, Outcome> = trial::read(&tree.out).into_iter().map(|r| (r.entry.clone(), r)).collect();
    let areas: Vec<&str> = o.areas.iter().map(String::as_str).collect();
    let mut ranked = ranked(&tree.mutants, &areas, o.seed);
    for list in &mut ranked {
        list.retain(|m| !tree.dropped.contains(&m.id) && !tree.absent.contains(&m.id) && !same.has(m));
        if o.command == "run" {
            list.truncate(o.number);
        }
        list.retain(|m| match results.get(&m.entry()) {
            Some(last) => o.command == "again" && last.is_unnoticed(),
            None => o.command == "run",
        });
    }
    let most = ranked.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|k| ranked.iter().filter_map(move |list| list.get(k).copied())).collect()
}

fn binaries(tree: &Tree, o: &Options) -> Result<Vec<Binary>, Box<dyn std::error::Error>> {
    let list = tree.out.join("binaries");
    if o.old {
        let text = std::fs::read_to_string(list)?;
        let words = text.lines().map(|l| l.split('\t').collect::<Vec<_>>());
        return Ok(words.filter_map(|w| Some(Binary::new(w.first()?, w.get(1)?, w.get(2)?))).collect());
    }
    let mut args = vec!["-p", "arenagrad"];
    if o.kernels {
        args.extend(["-p", "arenagrad-arena", "-p", "arenagrad-kernels"]);
    }
    for target in &o.targets {
        match target.as_str() {
            "lib" => args.push("--lib"),
            name => args.extend(["--test", name]),
        }
    }
    let built = tree.tests(&args)?;
    let line = |b: &Binary| format!("{}\t{}\t{}\n", b.name, b.path.display(), b.folder.display());
    std::fs::write(list, built.iter().map(line).collect::<String>())?;
    Ok(built)
}

/// The tests with what they reach. Records of other sources are thrown away.
fn recorded(tree: &Tree, root: &Path, binaries: &[Binary], o: &Options) -> std::io::Result<Vec<Test>> {
    let page = std::fs::read_to_string(root.join("docs/ops.md"))?;
    let leaves = ["input", "param", "state", "arg"];
    let names = page.lines().filter_map(|l| l.strip_prefix("### ")).filter(|n| !leaves.contains(n));
    let ops: Vec<String> = names.map(String::from).collect();
    let present = tree.mutants.iter().filter(|m| !tree.absent.contains(&m.id));
    let sources = present.map(|m| format!("{} {}\n", m.id, m.entry())).collect::<String>();
    let mark = tree.out.join("recorded");
    if std::fs::read_to_string(&mark).is_ok_and(|old| old != sources) {
        let _ = std::fs::remove_dir_all(tree.out.join("seen"));
        let _ = std::fs::remove_file(tree.out.join("times"));
    }
    std::fs::write(mark, sources)?;
    tests::record(&tree.out, binaries, &ops, o.threads, o.longest)
}

/// Mutants that compute the same, with the reason.
pub struct Equivalents {
    entries: HashSet<String>,
}

impl Equivalents {
    fn read(path: &Path) -> std::io::Result<Equivalents> {
        let text = std::fs::read_to_string(path)?;
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("# "));
        Ok(Equivalents { entries: lines.map(String::from).collect() })
    }

    /// An entry that ends with `*` is of all mutants that begin so.
    pub fn has(&self, m: &Mutant) -> bool {
        let entry = m.entry();
        let starts = |e: &String| e.strip_suffix('*').is_some_and(|start| entry.starts_with(start));
        self.entries.contains(&entry) || self.entries.iter().any(starts)
    }

    fn unused(&self, mutants: &[Mutant], kernels: bool) -> Vec<&str> {
        let names: HashSet<String> = mutants.iter().map(Mutant::entry).collect();
        let known = |e: &String| match e.strip_suffix('*') {
            Some(start) => names.iter().any(|n| n.starts_with(start)),
            None => names.contains(e),
        };
        let other = |e: &String| ["src/kernels/", "src/arena/", "src/fft/"].iter().any(|p| e.starts_with(p)) != kernels;
        self.entries.iter().filter(|e| !other(e) && !known(e)).map(String::as_str).collect()
    }
}
