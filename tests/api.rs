//! What users see: how many names a page has, that what may grow is marked, that types do not repeat their module.

#![allow(clippy::unwrap_used, clippy::panic)]

use sources::{module_name, root, sources};
use std::collections::BTreeMap;

#[path = "common/sources.rs"]
mod sources;

/// The names of the `pub use` lists of a text.
fn exported(text: &str) -> Vec<&str> {
    let uses = text.split("pub use ").skip(1).map(|list| list.split_once(';').unwrap().0);
    let names = uses.flat_map(|list| list.split([',', '{', '}'])).map(|path| path.rsplit("::").next().unwrap().trim());
    names.filter(|name| !name.is_empty()).collect()
}

/// The names that `use arenagrad::prelude::*` brings.
#[test]
fn the_prelude_is_small() {
    let text = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let prelude = text.split_once("pub mod prelude {").unwrap().1;
    let names = exported(prelude.split_once("\n}").unwrap().0);
    assert!(names.contains(&"Builder") && names.len() <= 25, "{} names: {names:?}", names.len());
}

/// What most programs need of graphs; names that few need are in its modules.
#[test]
fn the_page_of_graphs_is_short() {
    let text = std::fs::read_to_string(root().join("src/graph.rs")).unwrap();
    let (own, modules) =
        text.split_once("\npub mod ").map_or((&text[..], 0), |(own, _)| (own, text.matches("\npub mod ").count()));
    let names = exported(own);
    assert!(names.contains(&"Builder") && modules >= 6, "{modules} modules, {names:?}");
    assert!(names.len() + modules <= 60, "{} names, {modules} modules: {names:?}", names.len());
    assert!(!text.contains("*;") && !text.rsplit("\n}").next().unwrap().contains("pub use"), "a name is not counted");
}

/// Types that nothing can be added to, and why.
const CLOSED: &[(&str, &str)] = &[
    ("Mode", "what is good is small or large"),
    ("Splats", "its fields are the operands of one function; named, they cannot be confused"),
    ("Ty", "a pair"),
    ("Meta", "the types of the format"),
    ("MetaArray", "the types of the format"),
    ("Adam", "it names a rule and has no values"),
    ("Sgd", "it names a rule and has no values"),
    ("Choice", "a trait"),
];

/// Where the names that users import are listed.
const PAGES: [&str; 7] = [
    "src/graph.rs",
    "src/nn/mod.rs",
    "src/op.rs",
    "src/optim.rs",
    "src/session/mod.rs",
    "src/train/mod.rs",
    "src/train/gguf/mod.rs",
];

/// The definition of each public type of `src`: what stands before it, and what follows its name.
fn definitions(files: &[(String, String)]) -> BTreeMap<&str, Vec<(&str, &str)>> {
    let mut all: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (_, text) in files.iter().filter(|(name, _)| !name.contains("tests")) {
        for keyword in ["pub struct ", "pub enum "] {
            for (at, _) in text.match_indices(keyword) {
                let (before, rest) = (&text[..at], &text[at + keyword.len()..]);
                let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                let attributes = &before[before.rfind("\n\n").unwrap_or(0)..];
                all.entry(name).or_default().push((attributes, rest));
            }
        }
    }
    all
}

/// True of a type that users could write out in full, so that a new part would break them.
fn is_open(after_name: &str) -> bool {
    let body = after_name.split_once(['{', ';', '(']).map_or("", |(_, body)| body);
    let body = body.split("\n}").next().unwrap_or_default().split("\n    }").next().unwrap_or_default();
    let code: Vec<&str> = body.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with(['/', '#'])).collect();
    !code.is_empty() && !after_name.split('{').next().unwrap_or_default().contains([';', '('])
}

/// True if users cannot write out the type whose definition goes on with `after`: it has a field of its own.
fn is_private(after: &str) -> bool {
    let fields = after.split("\n}").next().unwrap_or_default().lines().map(str::trim_start);
    let lower = |name: &str| name.chars().all(|c| c.is_lowercase() || c == '_');
    fields.into_iter().any(|l| l.starts_with("pub(") || l.split_once(": ").is_some_and(|(name, _)| lower(name)))
}

#[test]
fn what_users_write_out_can_grow() {
    let files = sources("src");
    let definitions = definitions(&files);
    let (mut marked, mut wrong) = (0, Vec::new());
    for page in PAGES {
        let text = &files.iter().find(|(name, _)| *name == page).unwrap().1;
        for name in exported(text).into_iter().filter(|n| CLOSED.iter().all(|(closed, _)| closed != n)) {
            // A kernel may have the name of an op's options.
            let Some(all) = definitions.get(name) else { continue };
            let is_marked = all.iter().any(|(attributes, _)| attributes.contains("#[non_exhaustive]"));
            marked += usize::from(is_marked);
            if !is_marked && all.iter().all(|(_, after)| is_open(after) && !is_private(after)) {
                wrong.push(format!("{page}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not #[non_exhaustive]: {wrong:#?}");
    assert!(marked > 100, "{marked} types are few: does the search miss some?");
}

/// Beside the attributes of ops, whose names end so in files that are called `attrs`.
#[test]
fn types_do_not_repeat_their_module() {
    let (mut all, mut repeats) = (0, Vec::new());
    for (name, text) in sources("src").into_iter().filter(|(name, _)| !name.contains("tests")) {
        let module = format!("_{}_", module_name(&name));
        for line in text.lines().filter(|l| l.starts_with("pub")) {
            let kind = ["struct ", "enum ", "trait ", "type "].iter().find_map(|kind| line.split_once(kind));
            let Some((before, rest)) = kind else { continue };
            if before.contains("fn ") || before.contains("use ") {
                continue;
            }
            let own = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            all += 1;
            let words = own.chars().flat_map(|c| c.is_uppercase().then_some('_').into_iter().chain(c.to_lowercase()));
            let words = format!("{}_", words.collect::<String>());
            if words != module && words.contains(&module) && !own.ends_with("Attrs") {
                repeats.push(format!("{name}: {own}"));
            }
        }
    }
    assert!(all > 600, "{all} types are few: does the search miss some?");
    // A name that is imported bare in many files may say where it is from.
    assert!(repeats.len() <= LIMIT, "{} of {all} types repeat their module: {repeats:#?}", repeats.len());
}

/// Types that repeat their module today.
const LIMIT: usize = 97;
