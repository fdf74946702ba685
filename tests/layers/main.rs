//! What may import what: the order of the crates and their modules, and files that import each other.
//!
//! A file uses another if it names something that the other one defines, by whatever path and through whatever
//! re-export. A module and what is below it are one house, whose files the compiler lets see each other, so paths
//! between a `mod.rs` and the files of its folder are no imports.

#![allow(clippy::unwrap_used, clippy::panic)]

mod imports;

use imports::{Arrows, Crate, Modules};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const CRATES: &[Crate] = &[
    Crate { name: "arenagrad_arena", folder: "src/arena/", without: &[] },
    Crate { name: "arenagrad_fft", folder: "src/fft/", without: &[] },
    Crate { name: "arenagrad_kernels", folder: "src/kernels/", without: &[] },
    Crate { name: "arenagrad", folder: "src/", without: &["arena/", "fft/", "kernels/"] },
    Crate { name: "arenagrad_tables", folder: "cli/tables/src/", without: &[] },
    Crate { name: "arenagrad_cli", folder: "cli/src/", without: &[] },
    Crate { name: "arenagrad_c", folder: "capi/src/", without: &[] },
    Crate { name: "arenagrad_python", folder: "python/src/", without: &[] },
    Crate { name: "arenagrad_fuzz", folder: "fuzz/src/", without: &[] },
];

/// Lists of places, each of which may use those before it.
const LAYERS: &[&[&str]] = &[
    &[
        "src/arena/",
        "src/kernels/",
        "src/nodes/",
        "src/passes/",
        "src/sched/",
        "src/session/",
        "src/nn/",
        "src/train/",
        "src/conform/",
        "src/fuzz/",
        "cli/",
    ],
    // The graph knows no op by name, but for the leaves.
    &["src/nodes/ir/", "src/nodes/arguments/", "src/nodes/ops/"],
];

/// Files that use each other, and what forces it. Each has a type or a function that is defined by means of itself.
const CIRCLES: &[(&str, &[&str])] = &[
    (
        "an op definition has functions of builders and graphs, which have op definitions",
        &[
            "src/nodes/ir/batch.rs",
            "src/nodes/ir/builder.rs",
            "src/nodes/ir/builder_start_values.rs",
            "src/nodes/ir/case.rs",
            "src/nodes/ir/cost_cx.rs",
            "src/nodes/ir/emit/mod.rs",
            "src/nodes/ir/graph/mod.rs",
            "src/nodes/ir/init.rs",
            "src/nodes/ir/leaf.rs",
            "src/nodes/ir/lower_cx.rs",
            "src/nodes/ir/opdef.rs",
            "src/nodes/ir/pack.rs",
            "src/nodes/ir/pattern.rs",
            "src/nodes/ir/results.rs",
            "src/nodes/ir/site.rs",
        ],
    ),
    (
        "the derivative of a choice, or of a function with rules of its own, has the derivative of a region",
        &[
            "src/passes/ad/backward.rs",
            "src/passes/ad/choice_site.rs",
            "src/passes/ad/custom_rules.rs",
            "src/passes/ad/forward.rs",
        ],
    ),
    (
        "a batch of loops has a batch of regions",
        &["src/passes/batch/batched_loop.rs", "src/passes/batch/batched_region.rs", "src/passes/batch/one_by_one.rs"],
    ),
    ("the copy of a node with a region is the rebuilt region", &["src/passes/copier.rs", "src/passes/rebuild.rs"]),
    (
        "the body of a loop is a plan of its own, which is checked and has instructions",
        &[
            "src/sched/checker.rs",
            "src/sched/faults.rs",
            "src/sched/instructions.rs",
            "src/sched/modelled_time/mod.rs",
            "src/sched/partial_contents.rs",
            "src/sched/plan.rs",
            "src/sched/planned_body/mod.rs",
        ],
    ),
    (
        "a value has a builder's methods, and a builder makes values; a graph is finished by one and extended by one",
        &[
            "python/src/build.rs",
            "python/src/forward/mod.rs",
            "python/src/graph.rs",
            "python/src/index.rs",
            "python/src/var.rs",
        ],
    ),
    ("a view holds its program, and a program gives views", &["python/src/program.rs", "python/src/tensors.rs"]),
];

/// All Rust files below `folder` but those of tests, with their text.
fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, into),
                false if path.extension().is_some_and(|e| e == "rs") => into.push(path),
                false => {}
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    walk(&root.join(folder), &mut paths);
    let name = |p: &Path| p.strip_prefix(root).unwrap().to_string_lossy().into_owned();
    let files = paths.iter().map(|p| (name(p), std::fs::read_to_string(p).unwrap()));
    files.filter(|(name, _)| !name.contains("tests")).collect()
}

/// The file or the folder of each module that is gated by a family's feature, with that feature.
fn gated(files: &[(String, String)]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (file, text) in files {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (gate, declared) in text.lines().zip(text.lines().skip(1)) {
            let feature = gate.trim().strip_prefix("#[cfg(feature = \"").and_then(|rest| rest.strip_suffix("\")]"));
            let module = declared.trim().trim_start_matches("pub ").strip_prefix("mod ");
            if let (Some(feature), Some(name)) = (feature, module.and_then(|rest| rest.strip_suffix(';'))) {
                found.push((format!("{folder}/{name}"), feature.to_string()));
            }
        }
    }
    found
}

/// Uses of a family of ops by another family.
fn across(arrows: &Arrows, gated: &[(String, String)]) -> Vec<String> {
    let is_in =
        |file: &str, module: &str| file.strip_prefix(module).is_some_and(|rest| rest.starts_with('/') || rest == ".rs");
    let family = |file: &str| gated.iter().find(|(module, _)| is_in(file, module)).map(|(_, feature)| feature);
    let mut found = Vec::new();
    for (from, uses) in arrows {
        for (to, names) in uses {
            if let (Some(a), Some(b)) = (family(from), family(to))
                && a != b
            {
                found.push(format!("{from} of {a} uses {names:?} of {b}, which {to} defines"));
            }
        }
    }
    found
}

/// Who uses whom in the whole repository.
fn repository() -> Arrows {
    let mut modules = Modules::default();
    CRATES.iter().for_each(|of| modules.read(of, &sources(of.folder)));
    let arrows = modules.arrows();
    let all: usize = arrows.values().map(BTreeMap::len).sum();
    assert!(all > 5000, "{all} imports are few: does the search miss some?");
    arrows
}

/// Uses of a later place by an earlier one.
fn upward(arrows: &Arrows, layers: &[&str]) -> Vec<String> {
    let place = |file: &String| layers.iter().position(|layer| file.starts_with(layer));
    let mut found = Vec::new();
    for (from, uses) in arrows {
        for (to, names) in uses.iter().filter(|(to, _)| place(from).is_some_and(|p| place(to).is_some_and(|q| p < q))) {
            found.push(format!("{from} uses {names:?} of {to}"));
        }
    }
    found
}

/// Whether `file` is below the folder whose module is `module`.
fn is_below(file: &str, module: &str) -> bool {
    let folder = module.strip_suffix("mod.rs").or(module.strip_suffix("lib.rs"));
    folder.is_some_and(|folder| file.starts_with(folder) && file != module)
}

/// The files that `file` uses, but for those of its own house.
fn imports<'a>(arrows: &'a Arrows, file: &str) -> Vec<&'a str> {
    let all = arrows.get(file).into_iter().flatten().map(|(to, _)| to.as_str());
    all.filter(|to| !is_below(file, to) && !is_below(to, file)).collect()
}

/// Sets of files that use each other, each set as large as can be.
fn circles(arrows: &Arrows) -> BTreeSet<Vec<&str>> {
    let reach = |file| {
        let (mut seen, mut next) = (BTreeSet::new(), imports(arrows, file));
        while let Some(to) = next.pop() {
            if seen.insert(to) {
                next.extend(imports(arrows, to));
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = arrows.keys().map(|file| (file.as_str(), reach(file))).collect();
    let back = |from: &str, to: &str| reached.get(from).is_some_and(|seen| seen.contains(to));
    let circles = reached.iter().map(|(a, seen)| seen.iter().copied().filter(|b| back(b, a)).collect());
    circles.filter(|circle: &Vec<&str>| circle.len() > 1).collect()
}

#[test]
fn modules_import_downwards_only() {
    let arrows = repository();
    let found: Vec<String> = LAYERS.iter().flat_map(|layers| upward(&arrows, layers)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn families_of_ops_do_not_use_each_other() {
    let gated: Vec<_> = ["src/kernels/", "src/"].iter().flat_map(|folder| gated(&sources(folder))).collect();
    assert!(gated.len() > 20, "{gated:?} are few: does the search miss some?");
    let found = across(&repository(), &gated);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn files_import_each_other_only_where_types_force_it() {
    let arrows = repository();
    let found = circles(&arrows);
    let allowed: BTreeSet<Vec<&str>> = CIRCLES.iter().map(|(_, files)| files.to_vec()).collect();
    let mut text = String::new();
    for circle in found.difference(&allowed) {
        for from in circle {
            for (to, names) in arrows[*from].iter().filter(|(to, _)| circle.contains(&to.as_str())) {
                text += &format!("{from} uses {names:?} of {to}\n");
            }
        }
        text += "\n";
    }
    assert!(text.is_empty(), "files import each other:\n{text}");
    let gone: Vec<_> = allowed.difference(&found).collect();
    assert!(gone.is_empty(), "circles that are no more: {gone:?}");
}

/// The uses in a crate of these files.
fn arrows_of(files: &[(&str, &str)]) -> Vec<String> {
    let mut modules = Modules::default();
    let of = Crate { name: "house", folder: "src/", without: &[] };
    let sources: Vec<(String, String)> = files.iter().map(|(f, t)| (format!("src/{f}"), t.to_string())).collect();
    modules.read(&of, &sources);
    let arrows = modules.arrows();
    let line = |(from, uses): (&String, &BTreeMap<String, BTreeSet<String>>)| {
        uses.keys().map(|to| format!("{from} {to}").replace("src/", "")).collect::<Vec<_>>()
    };
    arrows.iter().flat_map(line).collect()
}

#[test]
fn paths_are_resolved_to_the_file_that_defines() {
    let b = ("b.rs", "pub fn f() {} pub struct S; #[cfg(test)] mod tests { use crate::a::g; }");
    let head = ("lib.rs", "mod a; mod b; mod c; pub use b::S as T;");
    for text in [
        "use crate::b::f;",
        "use super::b::{self};",
        "use crate::{c::{}, b::{f as g}};",
        "fn x() { super::b::f() }",
        "use crate::T;",
        "use crate::c::*; fn x() { f() }",
        "use crate::c::again; fn x() { again::f() }",
        "fn x() -> &'static str { let _ = 'a'; let _ = \"}\"; crate::b::f(); r#\"use crate::c::X;\"# }",
    ] {
        let c = ("c.rs", "pub use crate::b as again; pub use super::b::f;");
        assert_eq!(arrows_of(&[head, ("a.rs", text), b, c]), ["a.rs b.rs"], "{text}");
    }
    for text in ["// use crate::b::f;", "/* crate::b::f */", "#[cfg(test)] use crate::b::f;", "pub use crate::b::f;"] {
        assert_eq!(arrows_of(&[head, ("a.rs", text), b, ("c.rs", "")]), [""; 0], "{text}");
    }
}

#[test]
fn uses_across_families_are_found() {
    let head = "#[cfg(feature = \"one\")]\npub mod x;\n#[cfg(feature = \"two\")]\nmod y;\nmod z;\n";
    let gated = gated(&[("s/mod.rs".to_string(), head.to_string())]);
    assert_eq!(gated, [("s/x", "one"), ("s/y", "two")].map(|(m, f)| (m.to_string(), f.to_string())));
    let to = |names: &[&str]| names.iter().map(|n| (n.to_string(), BTreeSet::new())).collect();
    let arrows: Arrows = [
        ("s/x/a.rs".to_string(), to(&["s/x/b.rs", "s/z.rs", "s/y.rs"])),
        ("s/xy.rs".to_string(), to(&["s/y.rs"])),
        ("s/z.rs".to_string(), to(&["s/y.rs"])),
    ]
    .into();
    assert_eq!(across(&arrows, &gated), ["s/x/a.rs of one uses {} of two, which s/y.rs defines"]);
}

#[test]
fn circles_and_layers_are_found() {
    let set = |names: &[&str]| -> BTreeMap<String, BTreeSet<String>> {
        names.iter().map(|n| (n.to_string(), BTreeSet::new())).collect()
    };
    let arrows: Arrows = [
        ("x/mod.rs", set(&["x/a.rs"])),
        ("x/a.rs", set(&["x/mod.rs", "x/b.rs"])),
        ("x/b.rs", set(&["y.rs"])),
        ("y.rs", set(&["x/a.rs", "z.rs"])),
        ("z.rs", set(&[])),
    ]
    .map(|(from, to)| (from.to_string(), to))
    .into();
    assert_eq!(circles(&arrows), [vec!["x/a.rs", "x/b.rs", "y.rs"]].into());
    assert_eq!(upward(&arrows, &["x/", "y.rs"]), ["x/b.rs uses {} of y.rs"]);
}
