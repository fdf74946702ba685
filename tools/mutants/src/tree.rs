//! The mutated copy of the sources, and its build.

use crate::areas::{LEFT_OUT, Rules};
use crate::finder;
use crate::sites::{self, Mutant, Site, Written};
use crate::tests::Binary;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file with its mutants.
struct Source {
    name: String,
    text: String,
    sites: Vec<Site>,
    written: Vec<Written>,
}

/// The copy.
pub struct Tree {
    pub out: PathBuf,
    pub mutants: Vec<Mutant>,
    /// Those that do not compile.
    pub dropped: HashSet<u32>,
    /// Those that are not in the copy.
    pub absent: HashSet<u32>,
    sources: Vec<Source>,
}

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Writes a file unless it holds the text already: what is not changed is not built again.
fn put(path: &Path, text: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    fs::write(path, text)
}

impl Tree {
    /// Copies the working tree at `root`, and finds the mutants.
    pub fn new(
        root: &Path,
        out: &Path,
        kernels: bool,
        wanted: impl FnOnce(&[Mutant]) -> HashSet<u32>,
    ) -> Fallible<Tree> {
        let listed = Command::new("git").args(["ls-files", "-co", "--exclude-standard"]).current_dir(root).output()?;
        let names: Vec<String> = String::from_utf8(listed.stdout)?.lines().map(String::from).collect();
        let tree = out.join("tree");
        fs::create_dir_all(&tree)?;
        let tree = tree.canonicalize()?;
        let mut files = Vec::new();
        for name in names {
            let Some(bytes) = fs::read(root.join(&name)).ok().filter(|_| !name.starts_with("tools/mutants/")) else {
                continue;
            };
            let is_source = name.starts_with("src/") && name.ends_with(".rs");
            match is_source && !LEFT_OUT.iter().any(|(path, _)| name.starts_with(path)) {
                true => files.push((name, String::from_utf8(bytes)?)),
                false if name.ends_with("Cargo.toml") && !name.starts_with("tools/") => {
                    put(&tree.join(&name), manifest(&name, &String::from_utf8(bytes)?)?.as_bytes())?;
                }
                false => put(&tree.join(&name), &bytes)?,
            }
        }
        put(&tree.join("mutants/src/lib.rs"), include_bytes!("switch.rs"))?;
        let manifest = "[package]\nname = \"arenagrad-mutants\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        put(&tree.join("mutants/Cargo.toml"), manifest.as_bytes())?;
        let rules = Rules::read(&files);
        let tests = test_files(&files);
        let (mut mutants, mut sources, mut next) = (Vec::new(), Vec::new(), 1);
        for (name, text) in files {
            let other = ["src/kernels/", "src/arena/", "src/fft/"].iter().any(|p| name.starts_with(p));
            let (found, sites) = match tests.iter().any(|t| name.starts_with(t)) || other != kernels {
                true => Default::default(),
                false => finder::find(&name, &text, &rules, &mut next).map_err(|e| format!("{name}: {e}"))?,
            };
            mutants.extend(found);
            sources.push(Source { name, text, sites, written: Vec::new() });
        }
        number(&mut mutants);
        let out = out.canonicalize()?;
        let known: HashSet<String> =
            fs::read_to_string(out.join("unviable")).unwrap_or_default().lines().map(String::from).collect();
        let dropped = mutants.iter().filter(|m| known.contains(&m.entry())).map(|m| m.id).collect();
        let wanted = wanted(&mutants);
        let absent = mutants.iter().map(|m| m.id).filter(|id| !wanted.contains(id)).collect();
        Ok(Tree { out, mutants, dropped, absent, sources })
    }

    fn path(&self) -> PathBuf {
        self.out.join("tree")
    }

    fn write(&mut self) -> std::io::Result<()> {
        let tree = self.path();
        let without: HashSet<u32> = self.dropped.union(&self.absent).copied().collect();
        for s in &mut self.sources {
            let (text, written) = sites::write(&s.text, &s.sites, &without);
            let root =
                matches!(s.name.as_str(), "src/lib.rs" | "src/arena/lib.rs" | "src/kernels/lib.rs" | "src/fft/lib.rs");
            let head = if root { HEAD } else { "" };
            // On the first line: lines keep their numbers.
            put(&tree.join(&s.name), format!("{head}{text}").as_bytes())?;
            let shift = |(a, b): (usize, usize)| (a + head.len(), b + head.len());
            s.written =
                written.into_iter().map(|w| Written { branch: shift(w.branch), site: shift(w.site), ..w }).collect();
        }
        Ok(())
    }

    fn cargo(&self, args: &[&str]) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args(args).arg("--message-format=json").current_dir(self.path());
        cargo.env("CARGO_TARGET_DIR", self.out.join("target")).env("CARGO_INCREMENTAL", "1");
        cargo.stdout(Stdio::piped()).stderr(Stdio::inherit());
        cargo
    }

    /// Builds the library, without the mutants that the compiler refuses.
    pub fn compile(&mut self) -> Fallible<()> {
        loop {
            self.write()?;
            let output = self
                .cargo(&["test", "--release", "--no-run", "--test", "graphs", "--features", "csv", "-p", "arenagrad"])
                .output()?;
            if output.status.success() {
                break;
            }
            let before = self.dropped.len();
            let errors = self.drop_refused(&String::from_utf8_lossy(&output.stdout));
            eprintln!("{} errors, {} mutants do not compile", errors.len(), self.dropped.len());
            let names: BTreeSet<String> =
                self.mutants.iter().filter(|m| self.dropped.contains(&m.id)).map(Mutant::entry).collect();
            fs::write(self.out.join("unviable"), names.into_iter().map(|n| n + "\n").collect::<String>())?;
            if self.dropped.len() == before {
                return Err(errors.join("\n").into());
            }
        }
        Ok(())
    }

    /// Takes out the mutants that errors of the compiler are about. Returns the errors.
    fn drop_refused(&mut self, messages: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let by_name: HashMap<&str, &Source> = self.sources.iter().map(|s| (s.name.as_str(), s)).collect();
        let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for message in parsed.filter(|m| m["reason"] == "compiler-message" && m["message"]["level"] == "error") {
            let message = &message["message"];
            let mut spans: Vec<&Value> = message["spans"].as_array().into_iter().flatten().collect();
            spans.sort_by_key(|s| s["is_primary"] != true);
            let children = message["children"].as_array().into_iter().flatten();
            spans.extend(children.flat_map(|c| c["spans"].as_array().into_iter().flatten()));
            let found = spans.iter().find_map(|span| {
                let source = by_name.get(span["file_name"].as_str()?)?;
                let at = (span["byte_start"].as_u64()? as usize, span["byte_end"].as_u64()? as usize);
                let blamed = blame(&source.written, at, &self.dropped);
                (!blamed.is_empty()).then_some(blamed)
            });
            let text = message["rendered"].as_str().unwrap_or_default().to_string();
            errors.push(text);
            self.dropped.extend(found.into_iter().flatten());
        }
        errors
    }

    /// Builds the tests. Returns each binary with its name and the folder that it runs in.
    pub fn tests(&self, packages: &[&str]) -> Fallible<Vec<Binary>> {
        let mut args = vec!["test", "--release", "--no-run", "--features", "csv"];
        args.extend(packages);
        let output = self.cargo(&args).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !output.status.success() {
            let errors = messages.iter().filter_map(|m| m["message"]["rendered"].as_str());
            return Err(errors.collect::<Vec<_>>().join("\n").into());
        }
        let mut all = Vec::new();
        for m in messages.iter().filter(|m| m["reason"] == "compiler-artifact" && m["profile"]["test"] == true) {
            let (Some(exe), Some(name)) = (m["executable"].as_str(), m["target"]["name"].as_str()) else { continue };
            let folder = Path::new(m["manifest_path"].as_str().unwrap_or_default()).parent().unwrap_or(Path::new("."));
            all.push(Binary::new(name, exe, folder));
        }
        Ok(all)
    }
}

/// Numbers the mutants that have file, function and change in common.
fn number(mutants: &mut [Mutant]) {
    let mut all = HashMap::<String, Vec<usize>>::new();
    for (k, m) in mutants.iter().enumerate() {
        all.entry(m.entry()).or_default().push(k);
    }
    for same in all.values().filter(|same| same.len() > 1) {
        same.iter().zip(1..).for_each(|(&k, nth)| mutants[k].nth = nth);
    }
}

/// Lints say nothing of code that people do not read.
const HEAD: &str =
    "#![allow(warnings, clippy::all, unconditional_panic, arithmetic_overflow, unconditional_recursion)] ";

/// The mutants of a file that an error at `at` can be about: those whose branch holds it, or the innermost site.
fn blame(written: &[Written], at: (usize, usize), dropped: &HashSet<u32>) -> Vec<u32> {
    let there: Vec<&Written> = written.iter().filter(|w| !dropped.contains(&w.id)).collect();
    let branch = there.iter().filter(|w| w.branch.0 <= at.0 && at.1 <= w.branch.1);
    if let Some(w) = branch.min_by_key(|w| w.branch.1 - w.branch.0) {
        return vec![w.id];
    }
    let around = there.iter().filter(|w| w.site.0 <= at.0 && at.1 <= w.site.1);
    let within = there.iter().filter(|w| at.0 <= w.site.0 && w.site.1 <= at.1);
    let one = around.min_by_key(|w| w.site.1 - w.site.0).or(within.max_by_key(|w| w.site.1 - w.site.0));
    there.iter().filter(|w| one.is_some_and(|one| one.site == w.site)).map(|w| w.id).collect()
}

/// Files of modules that are built for tests only.
fn test_files(files: &[(String, String)]) -> Vec<String> {
    let mut all = Vec::new();
    for (name, text) in files {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let folder = match name.strip_suffix("/mod.rs").or(name.strip_suffix("/lib.rs")) {
            Some(folder) => folder.to_string(),
            None => name.trim_end_matches(".rs").to_string(),
        };
        for pair in lines.windows(2).filter(|p| p[0].starts_with("#[cfg(") && p[0].contains("test")) {
            let module = pair[1].strip_suffix(';').and_then(|line| match line.rsplit_once(' ')? {
                (before, module) => before.ends_with("mod").then_some(module),
            });
            if let Some(module) = module {
                all.push(format!("{folder}/{module}.rs"));
                all.push(format!("{folder}/{module}/"));
            }
        }
    }
    all
}

/// A manifest with the dependency that says which mutant is on. The engine is built in many units: mutants are in it.
fn manifest(name: &str, text: &str) -> Fallible<String> {
    let up = match name {
        "Cargo.toml" => "mutants",
        "src/arena/Cargo.toml" | "src/kernels/Cargo.toml" | "src/fft/Cargo.toml" => "../../mutants",
        _ => return Ok(text.to_string()),
    };
    let line = format!("[dependencies]\narenagrad-mutants = {{ path = \"{up}\" }}\n");
    let text = match text.contains("\n[dependencies]\n") {
        true => text.replacen("[dependencies]\n", &line, 1),
        false => format!("{text}\n{line}"),
    };
    let profile = "[profile.release.package.arenagrad]\nopt-level = 1\ncodegen-units = 4\n";
    if name == "Cargo.toml" && !text.contains(profile) {
        return Err("Cargo.toml: the profile of the engine is not the expected one".into());
    }
    Ok(text.replace(profile, "[profile.release.package.arenagrad]\nopt-level = 1\ncodegen-units = 32\n"))
}
