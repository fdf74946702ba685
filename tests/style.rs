//! House rules that a machine can hold: sizes, the unsafe budget, rows, dependencies.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::tools::ops::table::OPS;
use sources::{module_name, root, sources};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[path = "common/sources.rs"]
mod sources;

fn everything() -> Vec<(String, String)> {
    let fuzz = ["fuzz/src", "fuzz/tests", "fuzz/libfuzzer/fuzz_targets"];
    [
        "src",
        "cli",
        "mpi",
        "capi/src",
        "onnx/src",
        "onnx/tests",
        "onnx/examples",
        "export_c",
        "python/src",
        "web",
        "tests",
        "benches",
        "examples",
    ]
    .into_iter()
    .chain(fuzz)
    .flat_map(sources)
    .collect()
}

fn is_test(name: &str) -> bool {
    name.contains("tests") || name.starts_with("benches") || name == "src/kernels/harness.rs"
}

#[test]
fn files_are_small_and_say_what_they_hold() {
    for (name, text) in everything() {
        let lines = text.lines().count();
        assert!(lines <= 500, "{name} has {lines} lines");
        let page = name == "src/lib.rs" && text.starts_with("#![doc = include_str!(\"../README.md\")]");
        assert!(page || text.starts_with("//!"), "{name} does not open with //!");
    }
}

#[test]
fn lines_of_comments_are_short() {
    let mut long = String::new();
    for (name, text) in everything() {
        for (i, line) in text.lines().enumerate() {
            let comment = line.trim_start().starts_with("//");
            let table = line.trim_start_matches([' ', '/', '!']).starts_with('|');
            let width = line.chars().count();
            if comment && !table && width > 120 {
                long += &format!("{name}:{}: {width} columns\n", i + 1);
            }
        }
    }
    assert!(long.is_empty(), "{long}");
}

/// Phrases that a reader has to decode.
const BANNED: &[&str] = &["nobody", "somebody", "anybody", "so many", "in any case", "on paper"];

#[test]
fn words_are_plain() {
    for (name, text) in ["src", "cli/src"].into_iter().flat_map(sources) {
        for (i, line) in text.lines().enumerate() {
            let found = BANNED.iter().find(|b| line.to_lowercase().contains(**b));
            assert!(found.is_none(), "{name}:{}: {found:?}", i + 1);
        }
    }
}

#[test]
fn functions_are_short() {
    for (name, text) in everything() {
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let head = line.trim_start();
            let starts =
                ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "const fn ", "pub const fn ", "unsafe fn "];
            // A name that a macro fills in has no end that indentation shows.
            let real = starts.iter().any(|s| head.starts_with(s)) && !head.contains("fn $");
            if !real || head.ends_with(';') || head.ends_with('}') {
                continue;
            }
            let close = format!("{}}}", " ".repeat(indent));
            let Some(len) = lines[i..].iter().position(|l| **l == close) else { continue };
            let limit = if is_test(&name) { 100 } else { 70 };
            assert!(len < limit, "{name}:{} is a function of {} lines", i + 1, len + 1);
        }
    }
}

/// A module with children is a folder with a `mod.rs`.
#[test]
fn modules_have_one_form() {
    for (name, _) in everything() {
        let folder = root().join(name.strip_suffix(".rs").unwrap());
        assert!(!folder.is_dir(), "{name} stands beside its folder: move it to mod.rs there");
    }
}

#[test]
fn functions_do_not_repeat_their_module() {
    let (mut all, mut repeats) = (0, Vec::new());
    for (name, text) in sources("src").into_iter().filter(|(name, _)| !is_test(name)) {
        let module = format!("_{}_", module_name(&name));
        for line in text.lines().filter(|l| l.starts_with("pub") || l.starts_with("fn") || l.starts_with("const fn")) {
            let Some((before, rest)) = line.split_once("fn ") else { continue };
            if before.split(' ').any(|word| !["", "const", "unsafe"].contains(&word) && !word.starts_with("pub")) {
                continue;
            }
            let function = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            all += 1;
            if format!("_{function}_").contains(&module) {
                repeats.push(format!("{name}: {function}"));
            }
        }
    }
    assert!(all > 2000, "{all} functions are few: does the search miss some?");
    // A name that is imported bare in many files may say where it is from; so may a module's one function.
    assert!(repeats.len() * 10 <= all, "{} of {all} functions repeat their module: {repeats:#?}", repeats.len());
}

/// Files that may hold unsafe code: weights that are mapped, owned graph view, kernel ABI, instruction sets, what is
/// made of their vectors (tiles, dot products and transposes; AMX, AVX512-BF16), cores of threads, executor, team, what
/// a step lends; what a rank does at exit; NumPy's arrays and forks of Python; pointers of C; names of a module's
/// exports.
const UNSAFE: &[&str] = &[
    "capi/src/border.rs",
    "mpi/src/exit.rs",
    "python/src/views.rs",
    "python/src/program.rs",
    "python/src/slot.rs",
    "src/arena/front.rs",
    "src/kernels/abi/mod.rs",
    "src/kernels/abi/arena_ptr.rs",
    "src/kernels/abi/matrix_mut.rs",
    "src/kernels/gemm/bf16/amx.rs",
    "src/kernels/gemm/bf16/avx512_bf16.rs",
    "src/kernels/gemm/bf16/tile.rs",
    "src/kernels/gemm/dots.rs",
    "src/kernels/gemm/register_tile.rs",
    "src/kernels/gemm/transpose.rs",
    "src/kernels/simd/mod.rs",
    "src/kernels/simd/neon.rs",
    "src/kernels/simd/portable.rs",
    "src/kernels/simd/transpose_x86.rs",
    "src/kernels/simd/vector.rs",
    "src/kernels/simd/wasm.rs",
    "src/kernels/simd/wasm_terms.rs",
    "src/nodes/ir/graph/mod.rs",
    "src/sched/affinity.rs",
    "src/sched/exec.rs",
    "src/sched/lend.rs",
    "src/sched/team/mod.rs",
    "web/src/exports.rs",
];

#[test]
fn unsafe_code_is_rare_and_reasoned() {
    let mut total = 0;
    for (name, text) in ["src", "mpi/src", "capi/src", "python/src", "web/src"]
        .into_iter()
        .flat_map(sources)
        .filter(|(n, _)| !is_test(n))
    {
        let code: Vec<&str> = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
        // What C calls promises nothing: its declaration says what C must keep, as the header does.
        let own =
            |l: &str| l.contains("unsafe ") && !l.contains("unsafe_code") && !l.contains("unsafe extern \"C\" fn");
        let lines = code.iter().filter(|l| own(l)).count();
        let reasons = text.matches("SAFETY").count() + text.matches("# Safety").count();
        assert!(lines == 0 || UNSAFE.contains(&name.as_str()), "{name} holds unsafe code");
        assert!(lines <= reasons, "{name}: {lines} unsafe lines, {reasons} reasons");
        total += lines;
    }
    assert!(total <= 126, "{total} lines of unsafe code");
}

/// A file that another program cuts would end a program that maps it, so only memory without a file is mapped, and the
/// weights of an exported program, whose pages say so. And a clock that is set back would make times negative, so times
/// come from `Instant`. Only `clock` reads both: it knows the targets that have neither.
#[test]
fn no_file_is_mapped_and_no_wall_clock_is_read() {
    let maps = |name: &str| name == "src/arena/front.rs";
    for (name, text) in ["src", "cli/src"].into_iter().flat_map(sources).filter(|(name, _)| !maps(name)) {
        let clock = name == "src/clock.rs";
        for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
            let found = ["SystemTime", "Mmap::map(", "map_mut(", "map_copy(", "map_exec(", "MmapOptions", "MmapRaw"];
            let found = found.iter().skip(usize::from(clock)).find(|w| line.contains(**w));
            assert!(found.is_none(), "{name}: {line}");
            let other = name.starts_with("src/") && !clock && !is_test(&name);
            assert!(!(other && line.contains("std::time") && line.contains("Instant")), "{name}: {line}");
        }
    }
}

/// Fuzz targets are safe code; the counters and the allocator of their runner are not.
#[test]
fn only_the_runner_of_fuzz_targets_is_unsafe() {
    for (name, text) in sources("fuzz/src") {
        let holds = text.lines().any(|l| l.contains("unsafe ") && !l.trim_start().starts_with("//"));
        let may = ["fuzz/src/coverage.rs", "fuzz/src/memory.rs"].contains(&name.as_str());
        assert!(!holds || may && text.contains("SAFETY"), "{name} holds unsafe code");
    }
}

#[test]
fn library_code_cannot_give_up() {
    for (name, text) in sources("src").into_iter().filter(|(n, _)| !is_test(n)) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().map(str::trim_start).filter(|l| !l.starts_with("//")) {
            let bad = ["todo!(", "unimplemented!(", ".unwrap()"].iter().find(|w| line.contains(**w));
            assert!(bad.is_none(), "{name}: {line}");
        }
    }
}

#[test]
fn rows_are_documented() {
    for def in OPS {
        assert!(def.doc.len() > 4, "{} needs a formula", def.name);
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(def.name.chars().all(plain), "{} is no snake_case name", def.name);
    }
}

#[test]
fn the_library_has_few_dependencies() {
    let (mut optional, mut direct) = (BTreeSet::new(), BTreeSet::new());
    for manifest in LIBRARY {
        let text = std::fs::read_to_string(root().join(manifest)).unwrap();
        for name in names_under(manifest, DEPENDENCIES).into_iter().filter(|n| !n.starts_with("arenagrad")) {
            // Optional ones are built only by those who ask for their feature.
            let mut lines = text.lines().filter(|l| l.starts_with(&name));
            let set = if lines.any(|l| l.contains("optional = true")) { &mut optional } else { &mut direct };
            set.insert(name);
        }
    }
    assert!(optional.len() <= 2, "{optional:?}");
    assert!((1..=15).contains(&direct.len()), "{direct:?}");
}

/// The names under `[head]` of a manifest.
fn names_under(manifest: &str, head: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(manifest)).unwrap();
    let section = text.split(head).nth(1).and_then(|s| s.split("\n[").next()).unwrap_or_default().to_string();
    let lines = section.lines().filter(|l| l.contains('=') && !l.starts_with('#'));
    lines.filter_map(|l| Some(l.split(['=', '.']).next()?.trim().to_string())).collect()
}

/// The manifests of the library's crates.
const LIBRARY: [&str; 4] = ["Cargo.toml", "src/arena/Cargo.toml", "src/fft/Cargo.toml", "src/kernels/Cargo.toml"];

/// The head of what every user builds.
const DEPENDENCIES: &str = "\n[dependencies]";

/// The head of what only users of Linux build.
const LINUX: &str = "\n[target.'cfg(target_os = \"linux\")'.dependencies]";

/// The head of what only the tests of the team's model need.
const LOOM: &str = "\n[target.'cfg(loom)'.dev-dependencies]";

#[test]
fn every_dependency_has_a_reason() {
    let page = std::fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    let part =
        |head: &str| page.split(head).nth(1).and_then(|s| s.split("\n## ").next()).unwrap_or_default().to_string();
    for (manifest, sections, head) in [
        ("Cargo.toml", &[DEPENDENCIES, LINUX][..], "## Library"),
        ("src/arena/Cargo.toml", &[DEPENDENCIES], "## Library"),
        ("src/fft/Cargo.toml", &[DEPENDENCIES], "## Library"),
        ("src/kernels/Cargo.toml", &[DEPENDENCIES], "## Library"),
        ("cli/Cargo.toml", &[DEPENDENCIES], "## Program"),
        ("cli/tables/Cargo.toml", &[DEPENDENCIES], "## Program"),
        ("python/Cargo.toml", &[DEPENDENCIES], "## Python package"),
        ("onnx/Cargo.toml", &[DEPENDENCIES], "## ONNX"),
        ("export_c/Cargo.toml", &[DEPENDENCIES], "## C files"),
        ("mpi/Cargo.toml", &[DEPENDENCIES], "## MPI"),
        ("web/Cargo.toml", &[DEPENDENCIES], "## Browser"),
        ("capi/Cargo.toml", &[DEPENDENCIES], "## C interface"),
        ("Cargo.toml", &["\n[dev-dependencies]", LOOM], "## Tests"),
        ("benches/Cargo.toml", &["\n[dev-dependencies]"], "## Tests"),
        ("fuzz/Cargo.toml", &[DEPENDENCIES], "## Tests"),
        ("fuzz/libfuzzer/Cargo.toml", &[DEPENDENCIES], "## Tests"),
    ] {
        let listed = part(head);
        for name in sections.iter().flat_map(|s| names_under(manifest, s)).filter(|n| {
            !n.starts_with("arenagrad")
                || matches!(
                    head,
                    "## Program" | "## Python package" | "## ONNX" | "## MPI" | "## C interface" | "## Browser"
                )
        }) {
            assert!(listed.contains(&format!("`{name}`")), "{manifest}: {name} is missing under {head}");
        }
        let others = [
            "cli/Cargo.toml",
            "cli/tables/Cargo.toml",
            "python/Cargo.toml",
            "onnx/Cargo.toml",
            "export_c/Cargo.toml",
            "mpi/Cargo.toml",
            "web/Cargo.toml",
            "capi/Cargo.toml",
            "benches/Cargo.toml",
            "fuzz/libfuzzer/Cargo.toml",
        ];
        let known: Vec<String> = LIBRARY
            .iter()
            .chain(&others)
            .flat_map(|m| [DEPENDENCIES, LINUX, "\n[dev-dependencies]", LOOM].map(|s| names_under(m, s)))
            .flatten()
            .collect();
        let rows = listed.lines().filter(|l| l.starts_with("| `"));
        for name in rows.flat_map(|l| l.split('|').nth(1).unwrap_or_default().split(',')) {
            let name = name.trim().trim_matches('`');
            assert!(known.iter().any(|k| k == name), "{name} is no dependency");
        }
    }
}

/// Each published crate has what its package needs, and the page names them in the order in which they are published.
#[test]
fn published_crates_are_complete() {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let page = read(&root().join("docs/releasing.md"));
    let mut rest = page.split_once("`cargo publish --workspace`").unwrap().1;
    for manifest in LIBRARY[1..].iter().chain(&LIBRARY[..1]) {
        let text = read(&root().join(manifest));
        let package = text.split_once("[package]").unwrap().1.split_once("\n[").unwrap().0;
        assert!(!package.contains("publish = "), "{manifest}");
        for field in ["description", "documentation", "license", "readme"] {
            assert!(package.contains(&format!("\n{field}")), "{manifest} has no {field}");
        }
        let name = package.split_once("name = \"").unwrap().1.split_once('"').unwrap().0;
        rest = rest.split_once(&format!("`{name}`")).unwrap_or_else(|| panic!("{name} is not on the page")).1;
        for text in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let own = root().join(manifest).with_file_name(text);
            assert_eq!(read(&own), read(&root().join(text)), "{}", own.display());
        }
    }
    let folders = ["cli", "onnx", "export_c", "mpi", "capi", "web", "benches", "fuzz"];
    for manifest in folders.map(|folder| format!("{folder}/Cargo.toml")) {
        assert!(read(&root().join(&manifest)).contains("\npublish = false\n"), "{manifest}");
    }
}

/// The pages of the repository, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CHANGELOG.md", "data/README.md", "fuzz/README.md"].map(PathBuf::from).into();
    for dir in ["docs", "docs/modules"] {
        let entries = std::fs::read_dir(root().join(dir)).unwrap();
        pages.extend(
            entries
                .map(|e| Path::new(dir).join(e.unwrap().file_name()))
                .filter(|p| p.extension().is_some_and(|e| e == "md")),
        );
    }
    pages.into_iter().map(|p| (p.clone(), std::fs::read_to_string(root().join(p)).unwrap())).collect()
}

/// The lines of a page that are no code, without what stands between backticks.
fn prose(text: &str) -> Vec<String> {
    let mut code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code {
            lines.push(line.split('`').step_by(2).collect::<Vec<_>>().join(""));
        }
    }
    lines
}

/// The places of a page that links may name: its headings, as readers of Markdown write them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut code = false;
    let headings = text.lines().filter(|line| {
        code ^= line.trim_start().starts_with("```");
        !code && line.starts_with('#')
    });
    let kept = |c: char| c.is_alphanumeric() || "_- ".contains(c);
    headings
        .map(|h| h.trim_start_matches('#').trim().to_lowercase().chars().filter(|&c| kept(c)).collect::<String>())
        .map(|h| h.replace(' ', "-"))
        .collect()
}

#[test]
fn links_of_pages_lead_somewhere() {
    let pages = pages();
    let mut wrong = String::new();
    for (page, text) in &pages {
        let prose = prose(text).join("\n");
        let inline = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        let listed = prose.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ")).map(|(_, link)| link);
        for link in inline.chain(listed).filter(|link| !link.starts_with("http")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let there = std::fs::read_to_string(root().join(&to)).unwrap_or_default();
            let is_known = anchor.is_empty() || anchors(&there).contains(anchor);
            if !root().join(&to).exists() || !is_known {
                wrong += &format!("{}: {link}\n", page.display());
            }
        }
    }
    assert!(wrong.is_empty(), "links to nothing:\n{wrong}");
}

/// Guides name files that their reader writes; pages of modules and of the whole name files that exist.
#[test]
fn files_that_pages_name_exist() {
    let files: Vec<String> = everything().into_iter().map(|(name, _)| name).collect();
    let known = |named: &str| files.iter().any(|f| f == named || f.ends_with(&format!("/{named}")));
    // Generated files keep no rule but this one.
    let is_there = |named: &str| known(named) || root().join(named).exists();
    for (page, text) in pages().iter().filter(|(page, _)| !page.to_string_lossy().contains("add-a")) {
        for named in text.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs") && !word.contains(' ')) {
            assert!(is_there(named), "{}: there is no {named}", page.display());
        }
    }
}

#[test]
fn the_book_has_each_page_once() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let mut listed: Vec<String> = links.map(|(page, _)| format!("docs/{page}")).collect();
    listed.sort_unstable();
    let names = pages().into_iter().map(|(p, _)| p.to_string_lossy().into_owned());
    let mut there: Vec<String> = names.filter(|p| p.starts_with("docs/") && p != "docs/SUMMARY.md").collect();
    there.sort_unstable();
    assert_eq!(listed, there);
}
