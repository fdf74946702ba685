//! GGUF files that are cut, or whose lengths lie.

use super::path;
use arenagrad::graph::DType;
use arenagrad::graph::quant::BlockType;
use arenagrad::train::gguf::{Gguf, GgufEntry, Meta, MetaArray, TensorType, encode_file};

/// A file with every kind of length: texts, an array of numbers, one of texts, axes, offsets.
fn sound() -> Vec<u8> {
    let metadata = [
        ("name".to_string(), Meta::String("toy".into())),
        ("list".to_string(), Meta::Array(MetaArray::U16(vec![7, 8, 9]))),
        ("texts".to_string(), Meta::Array(MetaArray::String(vec!["ab".into(), "c".into()]))),
        ("flag".to_string(), Meta::Bool(true)),
    ];
    let blocks = TensorType::Blocks(BlockType::Q4_0);
    let entries = [
        GgufEntry::new("q", blocks, &[2, 32], &[1; 36]),
        GgufEntry::new("x", TensorType::Plain(DType::F32), &[3, 5], &[2; 60]),
    ];
    encode_file(&metadata, &entries).unwrap()
}

/// Opens the bytes as a file; reads all tensors if that works.
fn open(name: &str, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let file = path(name);
    std::fs::write(&file, bytes).unwrap();
    let done =
        Gguf::open(&file).map_err(|e| e.to_string()).map(|f| f.tensors().iter().map(|t| f.bytes(t).unwrap()).collect());
    std::fs::remove_file(&file).unwrap();
    done
}

/// The place of `needle` in `bytes`.
fn at(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).position(|w| w == needle).unwrap()
}

#[test]
fn every_cut_is_refused() {
    let file = sound();
    assert_eq!(open("whole", &file).unwrap(), [vec![1; 36], vec![2; 60]]);
    // Behind the last element there is padding alone.
    let end = at(&file, &[2; 60]) + 60;
    for len in 0..end {
        let e = open("cut", &file[..len]).unwrap_err();
        assert!(e.contains("cut") && !e.contains('\n'), "{len}: {e}");
    }
    assert!(open("cut", &file[..end]).is_ok());
}

#[test]
fn lengths_that_lie_are_refused() {
    let file = sound();
    let name = |text: &str| at(&file, text.as_bytes());
    // Where each length, count, axis and offset is.
    let (list, texts) = (name("list") + 4 + 8, name("texts") + 5 + 8);
    let (q, x) = (at(&file, b"\x01\0\0\0\0\0\0\0q"), at(&file, b"\x01\0\0\0\0\0\0\0x"));
    let places = [
        ("tensors", 8),
        ("entries", 16),
        ("a key", 24),
        ("a text", name("toy") - 8),
        ("an array", list),
        ("an array of texts", texts),
        ("a text of an array", texts + 8),
        ("a name", q),
        ("the first axis", q + 9 + 4),
        ("the second axis", q + 9 + 12),
        ("an offset", q + 9 + 24),
        ("another name", x),
        ("another axis", x + 9 + 4),
        ("another offset", x + 9 + 24),
    ];
    for (what, at) in places {
        for lie in [1u64 << 63, u64::MAX, u64::MAX / 4 + 1, 1 << 40, file.len() as u64] {
            let mut bytes = file.clone();
            bytes[at..at + 8].copy_from_slice(&lie.to_le_bytes());
            let e = open("lie", &bytes).map(|_| ()).expect_err(what);
            assert!(!e.contains('\n'), "{what}: {e}");
        }
    }
}

#[test]
fn each_rule_of_the_format_is_checked() {
    let file = sound();
    let with = |at: usize, new: &[u8]| {
        let mut bytes = file.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        open("rule", &bytes).unwrap_err()
    };
    let name = |text: &[u8]| at(&file, text);
    let q = at(&file, b"\x01\0\0\0\0\0\0\0q") + 9;
    assert!(with(0, b"GGML").contains("does not begin with"));
    for (version, swapped) in
        [(1u32, false), (4, false), (2 << 24, true), (3 << 24, true), (1 << 24, false), (4 << 24, false)]
    {
        let why = format!("version {version}; versions 2 and 3 can be read");
        let e = with(4, &version.to_le_bytes());
        assert!(e.ends_with(&if swapped { why + "; the file is big-endian" } else { why }), "{e}");
    }
    assert!(with(name(b"name") + 4, &77u32.to_le_bytes()).contains("type 77 of a value is not known"));
    assert!(with(name(b"list") + 8, &13u32.to_le_bytes()).contains("type 13 of an array's elements"));
    assert!(with(name(b"flag") + 8, &[2]).contains("a bool is 2"));
    assert!(with(name(b"flag"), b"name").contains("key \"name\" occurs twice"));
    assert!(with(q, &5u32.to_le_bytes()).contains("5 axes; at most 4"));
    assert!(with(q + 4, &33u64.to_le_bytes()).contains("no whole blocks"));
    assert!(with(q + 24, &32u64.to_le_bytes()).contains("\"q\" has 36 bytes at offset 32 and overlaps \"x\""));
    assert!(with(q + 24, &8u64.to_le_bytes()).contains("no multiple of 32"));
    assert!(with(q + 24, &96u64.to_le_bytes()).contains("36 bytes at offset 96; the file has 128 of data"));
    assert!(with(at(&file, b"\x01\0\0\0\0\0\0\0x") + 8, b"q").contains("tensor \"q\" occurs twice"));
    assert!(Gguf::open(std::env::temp_dir()).err().unwrap().message.contains(": a directory, not a file"));
    assert!(Gguf::open(path("absent")).err().unwrap().message.contains("absent"));
}

#[test]
fn version_2_is_read_like_version_3() {
    let mut file = sound();
    file[4..8].copy_from_slice(&2u32.to_le_bytes());
    assert_eq!(open("two", &file).unwrap(), [vec![1; 36], vec![2; 60]]);
}

#[test]
fn a_file_that_ends_in_its_first_words_is_refused_by_what_is_missing() {
    for (head, why) in [
        (&b""[..], "byte 0: no GGUF file: it does not begin with \"GGUF\""),
        (b"GGU", "byte 0: no GGUF file: it does not begin with \"GGUF\""),
        (b"GGUF", "byte 4: 4 bytes are needed; at most 0 can follow"),
        (b"GGUF\x03\0\0", "byte 4: 4 bytes are needed; at most 3 can follow"),
        (b"GGUF\x03\0\0\0", "byte 8: 8 bytes are needed; at most 0 can follow"),
    ] {
        let e = open("head", head).unwrap_err();
        assert!(e.ends_with(&format!("head: {why}")), "{e}");
    }
}

/// Each text takes more memory than its eight bytes in the file.
#[test]
fn a_head_of_very_many_texts_is_refused() {
    let most = 4 << 20;
    let of = |count: u64| {
        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        [0, 1, 1].iter().for_each(|n: &u64| file.extend(n.to_le_bytes()));
        file.push(b'a');
        [9, 8].iter().for_each(|id: &u32| file.extend(id.to_le_bytes()));
        file.extend(count.to_le_bytes());
        file.resize(file.len() + 8 * count as usize, 0);
        open("texts", &file)
    };
    let e = of(most).unwrap_err();
    assert!(e.contains("more than 4194304 texts"), "{e}");
    // The key is a text, too.
    assert!(of(most - 1).is_ok());
}

#[test]
fn files_of_other_formats_are_named() {
    for (bytes, part) in [
        (&b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"[..], "but a Git LFS pointer"),
        (b"<!doctype html>\n<html>", "but a page of HTML"),
        (b"\x80\x02}q\0.", "but a pickle"),
        (b"PK\x03\x04\0\0", "but a zip archive"),
        (b"tjgg\x03\0\0\0", "but a GGJT file"),
    ] {
        let e = open("format", bytes).unwrap_err();
        assert!(e.contains(&format!("byte 0: no GGUF file {part}")), "{e}");
    }
}
