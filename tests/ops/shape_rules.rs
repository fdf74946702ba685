//! What the shape rules answer to wrong operands and attributes: `tests/filetests/shape_rules.txt`.
//!
//! For each op the file says how many variants of its cases are accepted, with a digest of the variants and of their
//! results, and which texts refuse the others, how often. Types, shapes and numbers but those of operands are written
//! `#`. `BLESS=1` writes what is found, and `OPS="conv2d" cargo test --release --test ops shape_rules -- --nocapture`
//! prints each variant of an op.

#![allow(clippy::unwrap_used)] // A test may panic.

use arenagrad::graph::DType;
use arenagrad::op::OpDef;
use arenagrad::tools::ops::table::OPS;
use arenagrad::tools::testing::{ShapeAnswer, bless, shape_answers};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// True for a number, or a type of elements.
fn is_varied(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) || DType::ALL.iter().any(|d| d.to_string() == word)
}

/// The reason of a refusal without numbers, types and shapes, but with the numbers of operands.
fn reason(def: &OpDef, text: &str) -> String {
    let types = text.strip_prefix(def.name).filter(|rest| rest.starts_with('('));
    let text = types.and_then(|rest| rest.split_once("): ")).map_or(text, |(_, why)| why);
    let text = text.lines().collect::<Vec<_>>().join(" ");
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let (mut out, mut before) = (String::new(), "");
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(c.len_utf8());
        let (word, after) = rest.split_at(end);
        out.push_str(if is_varied(word) && before != "operand" { "#" } else { word });
        if word != " " {
            before = word;
        }
        rest = after;
    }
    let mut out = out.replace("-#", "#");
    while let Some((at, len)) = list_in(&out) {
        out.replace_range(at..at + len, "#");
    }
    out
}

/// Where a list of numbers in brackets is.
fn list_in(text: &str) -> Option<(usize, usize)> {
    text.match_indices('[').find_map(|(at, _)| {
        let len = text[at..].find(']')? + 1;
        text[at + 1..at + len - 1].chars().all(|c| "#, ".contains(c)).then_some((at, len))
    })
}

/// FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3))
}

/// The lines of an op.
fn page(def: &OpDef, answers: &[ShapeAnswer]) -> String {
    let (mut accepted, mut refused) = (String::new(), BTreeMap::<String, usize>::new());
    for a in answers {
        match &a.answer {
            Ok(types) => writeln!(accepted, "{} -> {types}", a.given).unwrap(),
            Err(why) => *refused.entry(reason(def, why)).or_default() += 1,
        }
    }
    let mut out = format!("{}: {} accepted, {:016x}\n", def.name, accepted.lines().count(), digest(&accepted));
    refused.iter().for_each(|(why, n)| writeln!(out, "{n:4} {why}").unwrap());
    out
}

#[test]
fn shape_rules_answer_what_the_file_says() {
    let asked = std::env::var("OPS").unwrap_or_default();
    let is_asked = |def: &OpDef| asked.split_whitespace().any(|name| name == def.name);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests/shape_rules.txt");
    let mut found = Vec::new();
    for &def in OPS.iter().filter(|def| !def.cases.is_empty() && (asked.trim().is_empty() || is_asked(def))) {
        let answers = shape_answers(def).unwrap();
        if is_asked(def) {
            answers.iter().for_each(|a| println!("{} {} -> {:?}", def.name, a.given, a.answer));
        }
        found.push(page(def, &answers));
    }
    let whole = asked.trim().is_empty() && cfg!(feature = "all-families");
    if whole && bless(&path, found.join("\n")).unwrap() {
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    let pages: Vec<&str> = expected.trim_end().split("\n\n").collect();
    let differs: Vec<&str> = found.iter().map(|p| p.trim_end()).filter(|p| !pages.contains(p)).collect();
    assert!(differs.is_empty(), "other answers (BLESS=1 writes them):\n{}", differs.join("\n\n"));
    let some = !asked.trim().is_empty() || !cfg!(feature = "all-families");
    assert!(some || found.len() == pages.len(), "{} ops, {} in the file", found.len(), pages.len());
}
