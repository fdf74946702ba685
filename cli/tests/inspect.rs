//! `inspect`: what it prints of GGUF and safetensors files, and how it ends.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, fails, good};

/// A file that the format's own library wrote.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/torch/package.gguf");
const TENSORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/torch/windows.safetensors");

#[test]
fn a_gguf_file_is_listed() {
    let text = good(&["inspect", PACKAGE]);
    for part in ["GGUF 3", "test.texts = [a, , ü] (3)", "test.f64 = 0.1", "Q4_K", "[2, 512]", "5 tensors, "] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&good(&["inspect", "--json", PACKAGE])).unwrap();
    assert_eq!(json["metadata"]["test.i64"], -(1i64 << 40));
    assert_eq!(json["metadata"]["test.numbers"], serde_json::json!([1, 2, 3]));
    let q4 = json["tensors"].as_array().unwrap().iter().find(|t| t["name"] == "q4").unwrap();
    assert_eq!((&q4["type"], &q4["dims"], &q4["bytes"]), (&"Q4_K".into(), &serde_json::json!([2, 512]), &576.into()));
}

#[test]
fn a_safetensors_file_is_listed() {
    let text = good(&["inspect", TENSORS]);
    assert!(text.starts_with("safetensors\n") && text.contains(" bytes  ["), "{text}");
    let json: serde_json::Value = serde_json::from_str(&good(&["inspect", "--json", TENSORS])).unwrap();
    assert_eq!(json["format"], "safetensors");
}

#[test]
fn bad_files_give_one_line() {
    let s = Scratch::new();
    let whole = std::fs::read(PACKAGE).unwrap();
    let mut lie = whole.clone();
    lie[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    fails(2, &["inspect", &s.file("lie.gguf", &lie)], &["lie.gguf", "tensors; at most"]);
    fails(2, &["inspect", &s.file("cut.gguf", &whole[..700])], &["cut.gguf"]);
    fails(2, &["inspect", &s.file("other", "some text of another kind")], &["other"]);
    fails(2, &["inspect", &s.path("absent")], &["absent"]);
    fails(2, &["inspect", &s.0.display().to_string()], &[]);
    // Texts of a file cannot move the cursor, nor break a line.
    let odd: Vec<u8> = whole.iter().map(|b| if *b == b't' { 27 } else { *b }).collect();
    let text = good(&["inspect", &s.file("odd.gguf", &odd)]);
    assert!(!text.contains('\u{1b}'), "{text}");
}
