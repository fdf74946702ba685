//! The reference page of configurations, `docs/config.md`, and the tests that compare it with the parser.
//!
//! `BLESS=1 cargo test -p arenagrad-cli config::page` writes the page.

mod texts;

use super::task::{Model, Network};
use super::{Config, ConfigFile, build_config, parse_config};
use crate::args::TrainArgs;
use crate::fail::Run;
use arenagrad::tools::testing::bless;
use arenagrad_tables::kind_key::{KeyDefault, KindKey};
use arenagrad_tables::optimiser::{OptimiserGroupTable, OptimiserKind, OptimiserTable, WHOLE};
use arenagrad_tables::schedule::{ScheduleKind, ScheduleTable};
use arenagrad_tables::table::{KeyRow, RowDefault, Table};
use std::fmt::Write;
use std::path::Path;

/// A kind of optimiser or schedule: its name, its keys, and the keys that it needs, as TOML.
struct KindText {
    name: &'static str,
    reads: &'static [KindKey],
    needed: &'static str,
}

fn page_optimiser_kinds() -> Vec<KindText> {
    OptimiserKind::ALL.iter().map(|k| k.reads()).map(|(name, reads)| KindText { name, reads, needed: "" }).collect()
}

fn page_schedule_kinds() -> Vec<KindText> {
    let needed = |name| match name {
        "step" => "step_size = 5\n",
        "multi-step" => "milestones = [3, 9]\n",
        "cosine-restarts" => "t_0 = 5\n",
        "chained" => "part = [{ kind = \"constant\" }, { kind = \"linear\" }]\n",
        "sequential" => "milestones = [7]\npart = [{ kind = \"linear\" }, { kind = \"cosine\" }]\n",
        _ => "",
    };
    ScheduleKind::ALL
        .iter()
        .map(|k| k.reads())
        .map(|(name, reads)| KindText { name, reads, needed: needed(name) })
        .collect()
}

/// The kinds of `table`.
fn page_kinds_of(table: &str) -> Vec<KindText> {
    if table == "optimiser" { page_optimiser_kinds() } else { page_schedule_kinds() }
}

/// The tables, in the order of the page, each with its keys.
fn page_tables() -> [(&'static str, &'static [KeyRow]); 6] {
    [
        ("", ConfigFile::KEYS),
        ("model", Model::KEYS),
        ("gpt", Network::KEYS),
        ("optimiser", OptimiserTable::KEYS),
        ("optimiser.group", OptimiserGroupTable::KEYS),
        ("schedule", ScheduleTable::KEYS),
    ]
}

/// The keys of `table`.
fn page_keys_of(table: &str) -> impl Iterator<Item = &'static KeyRow> {
    page_tables().into_iter().filter(move |t| t.0 == table).flat_map(|t| t.1)
}

/// All keys, each with its table.
fn page_keys() -> impl Iterator<Item = (&'static str, &'static KeyRow)> {
    page_tables().into_iter().flat_map(|(table, keys)| keys.iter().map(move |key| (table, key)))
}

// The page.

fn config_page_default(default: KeyDefault) -> String {
    match default {
        KeyDefault::Value(value) => format!("`{value}`"),
        KeyDefault::Text(text) => text.to_string(),
        KeyDefault::Required => "required".to_string(),
    }
}

fn config_page_line(row: &KeyRow) -> String {
    let default = match row.default {
        RowDefault::Value(value) => format!("`{value}`"),
        RowDefault::ByTask { images, chargpt } => format!("`{images}`; task chargpt: `{chargpt}`"),
        RowDefault::Text(text) => text.to_string(),
        RowDefault::Required => "required".to_string(),
        RowDefault::ByKind => "by kind".to_string(),
    };
    let unit = if row.unit.is_empty() { "–" } else { row.unit };
    format!("| `{}` | {} | {unit} | {default} | {} |\n", row.key, row.ty, row.meaning.trim())
}

fn config_page_kinds(table: &str) -> String {
    let mut page = String::from("\n| `kind` | keys that it reads, with their defaults |\n|---|---|\n");
    for kind in page_kinds_of(table) {
        let keys: Vec<String> =
            kind.reads.iter().map(|k| format!("`{}`: {}", k.name, config_page_default(k.default))).collect();
        let keys = if keys.is_empty() { "–".to_string() } else { keys.join("; ") };
        writeln!(page, "| `{}` | {keys} |", kind.name).unwrap();
    }
    page
}

fn config_page() -> String {
    let mut page = String::from(texts::HEAD);
    for ((table, keys), text) in page_tables().into_iter().zip(texts::SECTIONS) {
        page.push_str(text);
        page.push_str("\n| key | type | unit | default | meaning |\n|---|---|---|---|---|\n");
        keys.iter().for_each(|row| page.push_str(&config_page_line(row)));
        if matches!(table, "optimiser" | "schedule") {
            page.push_str(&config_page_kinds(table));
        }
    }
    page.push_str(texts::TAIL);
    page
}

#[test]
fn the_page_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md");
    bless(&file, config_page()).unwrap();
    let now = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(now == config_page(), "docs/config.md is out of date: BLESS=1 cargo test -p arenagrad-cli config::page");
}

#[test]
fn each_kind_reads_keys_of_its_table() {
    // Each hyper-parameter is read by some kind, and each kind reads rows only.
    for table in ["optimiser", "schedule"] {
        let (kinds, rows) = (page_kinds_of(table), || page_keys_of(table));
        for kind in &kinds {
            for k in kind.reads {
                assert!(
                    rows().any(|r| r.key == k.name && r.default == RowDefault::ByKind),
                    "{}: {}",
                    kind.name,
                    k.name
                );
            }
        }
        for row in rows().filter(|r| r.default == RowDefault::ByKind) {
            assert!(kinds.iter().any(|kind| kind.reads.iter().any(|k| k.name == row.key)), "{}", row.key);
        }
    }
    assert!(WHOLE.iter().all(|key| page_keys_of("optimiser").any(|r| r.key == *key)));
    // The kinds above are all that the parser takes.
    for (table, key) in [("optimiser", "`lbfgs`"), ("schedule", "`sequential`")] {
        let e = read_page_struct(&format!("[{table}]\nkind = \"none\"")).unwrap_err().message;
        let listed = e.matches('`').count() / 2 - 1;
        assert!(e.contains(key) && listed == page_kinds_of(table).len(), "{e}");
        assert!(page_kinds_of(table).iter().all(|k| e.contains(&format!("`{}`", k.name))), "{e}");
    }
}

// Examples and defaults, read by the parser.

fn read_page_struct(text: &str) -> Run<Config> {
    let file = parse_config(Path::new("a.toml"), text)?;
    build_config(file, &TrainArgs::default(), Path::new(""), None).map_err(|f| f.in_file(Path::new("a.toml"), text))
}

/// All of a configuration but its text.
fn config_page_meaning(text: &str) -> String {
    let c = read_page_struct(text).unwrap_or_else(|e| panic!("{text}\n{}", e.message));
    format!("{:?}", Config { text: String::new(), ..c })
}

/// The text before the key of a row: the table, and other keys that the key needs.
fn config_page_context(table: &str, row: &KeyRow, task: &str) -> String {
    let head = format!("task = \"{task}\"\n");
    let by_kind = || {
        let kinds = page_kinds_of(table);
        let changes = |k: &KindKey| k.name == row.key && k.default != KeyDefault::Value(row.example);
        let kind = kinds.into_iter().find(|k| k.reads.iter().any(changes)).unwrap();
        let needed: Vec<&str> = kind.needed.lines().filter(|l| !l.starts_with(&format!("{} =", row.key))).collect();
        format!("{head}[{table}]\nkind = \"{}\"\n{}\n", kind.name, needed.join("\n"))
    };
    match (table, row.key) {
        ("", "task") => String::new(),
        ("", _) => head,
        ("gpt", _) => "task = \"chargpt\"\n[gpt]\n".to_string(),
        ("optimiser.group", "pattern") => format!("{head}[[optimiser.group]]\n"),
        ("optimiser.group", _) => format!("{head}[[optimiser.group]]\npattern = \"*\"\n"),
        ("optimiser", "norm_type" | "clip_each") => format!("{head}[optimiser]\nclip_norm = 1.0\n"),
        _ if row.default == RowDefault::ByKind => by_kind(),
        (table, _) => format!("{head}[{table}]\n"),
    }
}

#[test]
fn examples_are_accepted_and_change_the_run() {
    for (table, row) in page_keys() {
        let context = config_page_context(table, row, if row.key == "gpt" { "chargpt" } else { "images" });
        let with = config_page_meaning(&format!("{context}{} = {}\n", row.key, row.example));
        if matches!(row.default, RowDefault::Required) || table == "schedule" && row.default == RowDefault::ByKind {
            continue;
        }
        assert!(with != config_page_meaning(&context), "[{table}] {} = {} changes nothing", row.key, row.example);
    }
}

#[test]
fn defaults_are_those_of_the_parser() {
    let same = |context: &str, key: &str, value: &str| {
        let with = format!("{context}{key} = {value}\n");
        assert_eq!(config_page_meaning(&with), config_page_meaning(context), "{with}");
    };
    for (table, row) in page_keys() {
        match row.default {
            RowDefault::Value(value) => same(&config_page_context(table, row, "images"), row.key, value),
            RowDefault::ByTask { images, chargpt } => {
                same(&config_page_context(table, row, "images"), row.key, images);
                same(&config_page_context(table, row, "chargpt"), row.key, chargpt);
            }
            RowDefault::Required => {
                let context = config_page_context(table, row, "images");
                let e = read_page_struct(&context).unwrap_err().message;
                assert!(e.starts_with("a.toml:") && e.contains(&format!("{} is missing", row.key)), "{context}{e}");
            }
            RowDefault::Text(_) | RowDefault::ByKind => {}
        }
    }
    for table in ["optimiser", "schedule"] {
        for kind in page_kinds_of(table) {
            let context = format!("[{table}]\nkind = \"{}\"\n{}", kind.name, kind.needed);
            for k in kind.reads {
                match k.default {
                    KeyDefault::Value(value) => same(&context, k.name, value),
                    KeyDefault::Text(_) => {}
                    KeyDefault::Required => {
                        let given = |l: &&str| !l.starts_with(&format!("{} =", k.name));
                        let without: Vec<&str> = context.lines().filter(given).collect();
                        let e = read_page_struct(&without.join("\n")).unwrap_err().message;
                        let want = format!("a.toml:1: schedule.{} is missing", k.name);
                        assert!(e.starts_with(&want), "{e}");
                    }
                }
            }
        }
    }
}

/// The example of the page, and its error messages.
#[test]
fn the_page_says_what_the_parser_does() {
    let example = texts::TAIL.split("```").nth(1).unwrap().strip_prefix("toml\n").unwrap();
    read_page_struct(example).unwrap_or_else(|e| panic!("{}", e.message));
    let texts = [
        "[optimiser]\nkind = \"rmsprop\"\n\nrho = 0.9",
        "steps = 9\n\n\n[optimiser]\nkind = \"sgd\"\nema = 0.5\nlr = \"x\"",
    ];
    for text in texts {
        let e = read_page_struct(text).unwrap_err().message.replace("a.toml", "run.toml");
        assert!(texts::HEAD.contains(&format!("\n{e}\n")), "{e}");
    }
}

// What is refused.

/// Words of Rust that no message has.
const RUST: [&str; 18] = [
    "usize",
    "u64",
    "u32",
    "i64",
    "i128",
    "f64",
    "struct",
    "enum",
    "tuple",
    "Table",
    "variant",
    "field",
    "Option",
    "Visitor",
    "ConfigFile",
    "Network",
    "Kind",
    "sequence",
];

#[test]
fn a_wrong_value_is_named_with_file_line_and_key_in_plain_words() {
    let values = [
        "true",
        "\"x\"",
        "-1",
        "1.5",
        "nan",
        "[]",
        "[1]",
        "[\"x\"]",
        "[[1]]",
        "[{}]",
        "{}",
        "{ x = 1 }",
        "1979-05-27",
        "99999999999999999999",
        "1e400",
        "[1, 2, 3, 4]",
        "[{ x = 1 }]",
        "[{ kind = 3 }]",
        "{ kind = \"x\" }",
    ];
    for (table, row) in page_keys() {
        let context = config_page_context(table, row, if row.key == "gpt" { "chargpt" } else { "images" });
        let mut refused = 0;
        for value in values {
            let text = format!("{context}{} = {value}\n", row.key);
            let Err(e) = read_page_struct(&text) else { continue };
            refused += 1;
            let last = text.lines().count();
            let place = format!("a.toml:{last}:");
            assert!(e.message.starts_with(&place), "{text}{}", e.message);
            assert!(e.message.contains(row.key), "{text}{}", e.message);
            let words: Vec<&str> = e.message.split(|c: char| !c.is_alphanumeric()).collect();
            assert!(!RUST.iter().any(|r| words.contains(r)), "{text}{}", e.message);
        }
        assert!(refused >= 5, "[{table}] {}: {refused} values are refused", row.key);
    }
}

#[test]
fn a_key_that_no_kind_reads_is_named_with_its_line() {
    for table in ["optimiser", "schedule"] {
        for kind in page_kinds_of(table) {
            let others = page_keys_of(table).filter(|r| r.default == RowDefault::ByKind);
            for row in others.filter(|r| !kind.reads.iter().any(|k| k.name == r.key)) {
                let text =
                    format!("[{table}]\nkind = \"{}\"\n{}{} = {}\n", kind.name, kind.needed, row.key, row.example);
                let e = read_page_struct(&text).unwrap_err().message;
                let want =
                    format!("a.toml:{}: {table}.{} means nothing to {}", text.lines().count(), row.key, kind.name);
                assert!(e.starts_with(&want), "{text}{e}");
            }
        }
    }
}
