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

/// A tensor that cannot be used is listed with the reason, beside the others.
#[test]
fn parts_that_cannot_be_used_are_listed() {
    let s = Scratch::new();
    let header = r#"{"a":{"dtype":"F8_E5M2","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}"#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
    let file = s.file("odd.safetensors", &file);
    let text = good(&["inspect", &file]);
    assert!(text.contains("F8_E5M2               3 bytes  [3]  unusable: there is no such type here"), "{text}");
    assert!(text.contains("2 tensors, 4 bytes"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&good(&["inspect", "--json", &file])).unwrap();
    assert_eq!(json["tensors"][0]["unusable"], "there is no such type here");
    assert_eq!((&json["tensors"][0]["type"], &json["tensors"][1]["type"]), (&"F8_E5M2".into(), &"u8".into()));
    assert!(json["tensors"][1].get("unusable").is_none());
    // A text that is not UTF-8, and a type without a reader: those of the package's file, changed.
    let mut bytes = std::fs::read(PACKAGE).unwrap();
    let at = |bytes: &[u8], word: &[u8]| bytes.windows(word.len()).position(|w| w == word).unwrap();
    let words = at(&bytes, b"two words");
    bytes[words] = 0xff;
    let q8 = at(&bytes, b"q8") + 2 + 4 + 16;
    assert_eq!(bytes[q8..q8 + 4], 8u32.to_le_bytes());
    // 77 is no type of ggml.
    bytes[q8] = 77;
    let file = s.file("odd.gguf", &bytes);
    let text = good(&["inspect", &file]);
    assert!(text.contains("test.text = \\xffwo words") && text.contains("type 77 "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&good(&["inspect", "--json", &file])).unwrap();
    assert_eq!(json["metadata"]["test.text"], "\\xffwo words");
    let q8 = json["tensors"].as_array().unwrap().iter().find(|t| t["name"] == "q8").unwrap();
    assert_eq!((&q8["type"], &q8["unusable"]), (&"type 77".into(), &"there is no reader for this type here".into()));
}

/// The numbers of a metadata array are printed as they are read: 32 MiB of them within 200 MiB of address space.
#[cfg(target_os = "linux")]
#[test]
fn json_of_a_large_array_takes_little_memory() {
    let s = Scratch::new();
    let n = 32u64 << 20;
    let mut file = b"GGUF".to_vec();
    file.extend(3u32.to_le_bytes());
    [0, 1, 1].iter().for_each(|n: &u64| file.extend(n.to_le_bytes()));
    file.push(b'a');
    [9u32, 0].iter().for_each(|id| file.extend(id.to_le_bytes()));
    file.extend(n.to_le_bytes());
    file.resize(file.len() + n as usize, 7);
    let path = s.file("large.gguf", &file);
    let run = format!("ulimit -v 204800; exec '{}' inspect --json '{path}'", env!("CARGO_BIN_EXE_arenagrad"));
    let out = std::process::Command::new("sh").args(["-c", &run]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let start = r#"{"format":"GGUF 3","metadata":{"a":[7,7,"#;
    assert_eq!(out.stdout.len(), start.len() + 2 * (n as usize - 3) + "7]},\"tensors\":[]}\n".len());
    assert!(out.stdout.starts_with(start.as_bytes()) && out.stdout.ends_with(b"7]},\"tensors\":[]}\n"));
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_files_of_other_formats_are_named() {
    let s = Scratch::new();
    let pipe = s.path("pipe.safetensors");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fails(2, &["inspect", &pipe], &["pipe.safetensors", "no regular file"]);
    fails(2, &["print", &pipe], &["pipe.safetensors", "no regular file"]);
    for (bytes, part) in [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "Git LFS pointer"),
        ("<!doctype html>\n", "HTML"),
        ("PK\u{3}\u{4}", "zip archive"),
    ] {
        fails(2, &["inspect", &s.file("w.safetensors", bytes)], &["w.safetensors", part]);
    }
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
