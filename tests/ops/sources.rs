//! What is asked of the sources of the op definitions, and the reference page that is made from them.

use arenagrad::tools::ops::reference::{self, Notes};
use arenagrad::tools::testing::bless;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// `docs/ops.md` is what the definitions say. `BLESS=1` writes it.
#[test]
fn the_reference_page_is_current() {
    let (methods, sentences) = (methods(), sentences());
    let page = reference::render_page(|op| Notes {
        about: sentences.get(op).cloned().unwrap_or_else(|| panic!("the constant of {op} has no documentation")),
        method: methods.get(op).cloned(),
    });
    if !cfg!(feature = "all-families") {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ops.md");
    bless(&path, &page).unwrap();
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(written.lines().chain(std::iter::repeat(""))).find(|(new, old)| new != old);
    assert!(
        page == written,
        "docs/ops.md is out of date, first at {differs:?}; run BLESS=1 cargo test --test ops reference_page"
    );
}

/// The documentation of the constant of each op, by the op's name. Links become names of ops.
fn sentences() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (_, text) in sources(Path::new("src/nodes")) {
        let mut above: Vec<&str> = Vec::new();
        for line in text.lines() {
            let name = line.strip_prefix("pub const ").and_then(|l| l.split_once(": OpDef")).map(|l| l.0);
            if let Some(name) = name {
                all.insert(name.to_lowercase(), plain(&above.join(" ")));
            }
            match line.strip_prefix("/// ") {
                Some(doc) => above.push(doc),
                None => above.clear(),
            }
        }
    }
    all
}

/// A sentence with links as names of ops: [`GELU`] as `gelu`.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for (i, part) in text.split("[`").enumerate() {
        match part.split_once("`]").filter(|_| i > 0) {
            Some((name, rest)) => {
                let target = rest.strip_prefix('(').and_then(|r| r.split_once(')'));
                out += &format!("`{}`{}", name.to_lowercase(), target.map_or(rest, |t| t.1));
            }
            None => out += part,
        }
    }
    out
}

/// The files of builder methods.
const METHODS: [&str; 8] = [
    "var.rs",
    "builder.rs",
    "arguments/broadcast.rs",
    "control/call.rs",
    "control/custom_fn.rs",
    "control/scan/mod.rs",
    "pointwise/var_activations.rs",
    "sort/cum_arg_max.rs",
];

/// The builder method of each op that has one, by the op's name: the method called like the op, else one that a list
/// of methods gives, else the first that names the op.
fn methods() -> BTreeMap<String, String> {
    let (mut first, mut listed, mut same) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (path, text) in sources(Path::new("src/nodes")) {
        if !METHODS.iter().any(|file| path.ends_with(file)) {
            continue;
        }
        let (mut owner, mut method, mut list) = ("Var", None::<String>, "");
        for line in text.lines() {
            if line.starts_with("impl") {
                let known = ["Builder", "CustomFn"].into_iter().find(|owner| line.contains(owner));
                owner = known.unwrap_or("Var");
                method = None;
            }
            if let Some(name) = line.strip_suffix("! {") {
                (owner, list) = ("Var", name);
            }
            if line == "}" {
                (list, method) = ("", None);
            }
            let words: Vec<&str> = line.trim().trim_end_matches(';').split_whitespace().collect();
            match (list, &words[..]) {
                ("unary" | "binary", [name, "=>", op]) | ("reductions", [name, "=>", op]) => {
                    listed.insert(op.to_lowercase(), format!("Var::{name}"));
                }
                ("operator", [operator, _, op]) => {
                    listed.insert(op.to_lowercase(), format!("std::ops::{operator}"));
                }
                ("by_axes", [.., _, _]) => {
                    let ops = line.rsplit(':').next().unwrap_or_default().trim_end_matches(';');
                    same.extend(ops.split_whitespace().map(|name| (name.to_string(), format!("Var::{name}"))));
                }
                _ => {}
            }
            // A custom function is called by its own `call`, which is not that of a region.
            let indent = line.strip_prefix("    ").filter(|l| !l.starts_with(' ') && owner != "CustomFn");
            if let Some(declared) = indent.filter(|l| l.contains("fn ")) {
                let public = declared.strip_prefix("pub fn ");
                method = public.and_then(|l| l.split(['(', '<']).next()).map(|name| format!("{owner}::{name}"));
                let name = method.as_deref().and_then(|m| m.split("::").nth(1));
                same.extend(name.map(|n| (n.to_string(), method.clone().unwrap_or_default())));
            }
            let Some(method) = &method else { continue };
            for op in line.split("Op::").skip(1) {
                let id: String =
                    op.chars().take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_').collect();
                first.entry(id.to_lowercase()).or_insert_with(|| method.clone());
            }
        }
    }
    first.extend(listed);
    first.extend(same);
    first
}

/// No family's constructor of op definitions chooses a derivative: it takes one. A definition that is made of another
/// one by `..OTHER` says its own.
#[test]
fn every_definition_says_its_derivative() {
    for (path, text) in sources(Path::new("src/nodes")) {
        for (at, _) in text.match_indices("-> OpDef {\n").filter(|_| !path.ends_with("ir/opdef.rs")) {
            let body = text[at..].split("\n}\n").next().unwrap_or_default();
            assert!(!body.contains("deriv: "), "{}: a constructor chooses a derivative:{body}", path.display());
        }
        for literal in text.split(": OpDef = OpDef {").skip(1).filter_map(|rest| rest.split("\n};").next()) {
            let last = literal.trim_end().lines().last().unwrap_or_default().trim();
            let copies = last.strip_prefix("..").is_some_and(|c| !c.contains('('));
            assert!(!copies || literal.contains("\n    deriv: "), "{}: {last} gives the derivative", path.display());
        }
    }
}

/// The Rust files under a folder of the repository, with their text.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            files.push((path, text));
        }
    }
    files.sort();
    files
}
