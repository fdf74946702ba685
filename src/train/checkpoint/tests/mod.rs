//! Checkpoints: round trips, and malformed files.

use super::digest::{self, seal};
use super::header::repeated_key;
use super::*;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;

mod program_load;
mod weights;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("arenagrad-checkpoint-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn sample() -> Vec<u8> {
    let w: Vec<u8> = [1.0f32, f32::NAN, -0.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let step = 7i64.to_le_bytes();
    encode(&[
        Entry { name: "fc1.weight", dtype: DType::F32, dims: &[3, 1], bytes: &w },
        Entry { name: "opt.step", dtype: DType::I64, dims: &[], bytes: &step },
        Entry { name: "empty", dtype: DType::U8, dims: &[0, 4], bytes: &[] },
    ])
    .unwrap()
}

fn with_header(header: &str, data: usize) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.resize(out.len() + data, 0);
    out
}

fn refused(bytes: Vec<u8>, part: &str) {
    let e = Loaded::parse(bytes).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(e.contains(part), "{e:?} should mention {part:?}");
}

#[test]
fn tensors_come_back_bit_for_bit() {
    let back = Loaded::parse(sample()).unwrap();
    let names: Vec<&str> = back.entries().map(|e| e.name).collect();
    assert_eq!(names, ["empty", "fc1.weight", "opt.step"]);
    let w = back.expect("fc1.weight", DType::F32, &[3, 1]).unwrap();
    assert_eq!(w.bytes[4..8], f32::NAN.to_le_bytes());
    assert_eq!(back.expect("opt.step", DType::I64, &[]).unwrap().bytes, 7i64.to_le_bytes());
    assert!(back.find("fc2.weight").is_none());
    assert_eq!(sample(), sample());
}

#[test]
fn mismatches_are_named() {
    let back = Loaded::parse(sample()).unwrap();
    let e = back.expect("fc1.weight", DType::F32, &[1, 3]).unwrap_err().to_string();
    assert_eq!(e, "\"fc1.weight\" is f32[3, 1] in the file, not f32[1, 3]");
    let e = back.expect("fc1.bias", DType::F32, &[3]).unwrap_err().to_string();
    assert_eq!(e, "there is no tensor \"fc1.bias\"");
}

#[test]
fn equal_names_are_refused_on_both_sides() {
    let e = Entry { name: "w", dtype: DType::U8, dims: &[1], bytes: &[0] };
    for entries in [vec![e, e], vec![e, Entry { name: "a", ..e }, e]] {
        assert_eq!(encode(&entries).unwrap_err().to_string(), "two tensors are called \"w\"");
    }
    let info = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    refused(with_header(&format!(r#"{{"w":{info},"w":{info}}}"#), 1), "\"w\" twice");
}

/// A name may be spelled in several ways. The two tensors share their bytes, so the layout shows nothing.
#[test]
fn equal_names_are_found_behind_escapes() {
    for (plain, other) in [("w", r"\u0077"), ("a/w", r"a\/w"), ("é", r"\u00e9"), ("\u{1f600}", r"\ud83d\uDE00")] {
        let info = |dims: &str| format!(r#"{{"dtype":"U8","shape":[{dims}],"data_offsets":[0,2]}}"#);
        let header = format!(r#"{{"{plain}":{},"{other}":{}}}"#, info("2"), info("1,2"));
        refused(with_header(&header, 2), &format!("the header lists {plain:?} twice"));
    }
    assert_eq!(repeated_key(br#"{"\u0077":1,"\\u0077":1,"w\"":1,"\"w":1}"#), None);
}

#[test]
fn every_truncation_is_refused() {
    let whole = sample();
    for n in 0..whole.len() {
        assert!(Loaded::parse(whole[..n].to_vec()).is_err(), "{n} of {} bytes", whole.len());
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(Loaded::parse(longer).is_err());
}

#[test]
fn lying_headers_are_refused() {
    refused(with_header(r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}"#, 8), "safetensors");
    refused(with_header(r#"{"w":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}}"#, 4), "safe");
    refused(with_header(r#"{"w":{"dtype":"F8_E4M3","shape":[5],"data_offsets":[0,4]}}"#, 4), "does not fit its bytes");
    refused(with_header(r#"{"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}"#, 2), "does not fit its bytes");
    refused(with_header(r#"{"w":{"dtype":"F99","shape":[1],"data_offsets":[4,0]}}"#, 4), "must begin at 0");
    refused(with_header(r#"{"w":{"dtype":7,"shape":[1],"data_offsets":[0,4]}}"#, 4), "tensor \"w\": invalid type");
    refused(with_header(r#"{"w":{"shape":[1],"data_offsets":[0,4]}}"#, 4), "tensor \"w\" has no \"dtype\"");
    let twice = r#"{"w":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    refused(with_header(twice, 4), "tensor \"w\" lists \"dtype\" twice");
    let gap =
        r#"{"v":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}"#;
    refused(with_header(gap, 3), "tensor \"w\" has the bytes 2..3 of the data, but must begin at 1");
    refused(u64::MAX.to_le_bytes().to_vec(), "safetensors");
    refused(with_header(&"[".repeat(100_000), 0), "safetensors");
}

/// A header of 640 bytes begins as a pickle does.
#[test]
fn a_header_of_the_length_of_a_pickle_is_read() {
    let header = format!(r#"{{"w":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}{}}}"#, " ".repeat(587));
    let file = with_header(&header, 1);
    assert_eq!(file[..2], [0x80, 2]);
    assert_eq!(Loaded::parse(file).unwrap().entries().len(), 1);
}

#[test]
fn tensors_of_unknown_types_are_listed_and_the_others_are_read() {
    let header = r#"{"a":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]},
        "b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},"c":{"dtype":"F4","shape":[4],"data_offsets":[6,8]},
        "d":{"dtype":"U128","shape":[],"data_offsets":[8,24]}}"#;
    let mut file = with_header(header, 24);
    let data = file.len() - 24;
    file[data + 4..data + 6].copy_from_slice(&[7, 8]);
    let loaded = Loaded::parse(file.clone()).unwrap();
    assert_eq!(loaded.entries().map(|e| (e.name, e.bytes)).collect::<Vec<_>>(), [("b", &[7u8, 8][..])]);
    let listed: Vec<_> = loaded.unusable().iter().map(|t| (&t.name[..], &t.kind[..], t.dims.len(), t.bytes)).collect();
    assert_eq!(listed, [("a", "F8_E4M3", 2, 4), ("c", "F4", 1, 2), ("d", "U128", 0, 16)]);
    let e = loaded.expect("a", DType::F32, &[2, 2]).unwrap_err();
    assert_eq!(e.to_string(), "\"a\" is F8_E4M3[2, 2]: there is no such type here");
    let dir = scratch("odd");
    std::fs::write(dir.join("w"), &file).unwrap();
    let opened = Weights::open(dir.join("w")).unwrap();
    assert_eq!(opened.unusable().iter().map(|t| &t.name[..]).collect::<Vec<_>>(), ["a", "c", "d"]);
    let mut bytes = [0; 2];
    opened.read(opened.find("b").unwrap(), 0, &mut bytes).unwrap();
    assert_eq!((opened.tensors().len(), bytes), (1, [7, 8]));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn keys_inside_strings_and_values_do_not_count() {
    assert_eq!(repeated_key(br#"{"a":{"x":1},"b":{"x":1},"c\"a":"a:a"}"#), None);
    assert_eq!(repeated_key(br#"{"a":{"x":1},"b":[{"a":2}],"a":0}"#).as_deref(), Some("a"));
    assert_eq!(repeated_key(br#"{"":1,"a":2,"a":3}"#).as_deref(), Some("a"));
}

#[test]
fn every_flipped_bit_is_refused() {
    let whole = sample();
    assert_eq!(Loaded::parse(whole.clone()).unwrap().digest(), Digest::Fits);
    for bit in 0..8 * whole.len() {
        let mut file = whole.clone();
        file[bit / 8] ^= 1 << (bit % 8);
        assert!(Loaded::parse(file).is_err(), "bit {bit} of {}", 8 * whole.len());
    }
}

/// Bytes of a file as other programs write it: without a digest, perhaps with entries of their own.
fn foreign(meta: &str) -> Vec<u8> {
    with_header(&format!(r#"{{{meta}"w":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#), 4)
}

#[test]
fn files_of_other_programs_need_no_digest() {
    let meta = r#""__metadata__":{"format":"pt","digest":"sha256:00","note":"arenagrad"},"#;
    for file in [foreign(""), foreign(meta)] {
        assert_eq!(Loaded::parse(file).unwrap().digest(), Digest::Absent);
    }
    // Kept by a program that wrote everything else anew.
    let kept = r#""__metadata__":{"arenagrad.digest":"arenagrad-crc32:00000000","format":"pt"},"#;
    refused(foreign(kept), "another program");
    refused(foreign(r#""__metadata__":{"arenagrad.digest":"x"},"#), "digest");
    refused(with_header(r#"{"__metadata__":{"arenagrad.digest":"x"}}"#, 0), "the file ends within its digest");
}

/// An input that fails once before it gives its bytes.
struct Stumbles<'a>(&'a [u8], Option<ErrorKind>);

impl Read for Stumbles<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1.take().map_or_else(|| self.0.read(into), |kind| Err(kind.into()))
    }
}

#[test]
fn only_an_interrupted_read_of_a_digest_goes_on() {
    let file = sample();
    let (head, data) = file.split_at(100);
    let entry = ("arenagrad.digest".to_string(), String::new());
    let check = |kind| digest::check_in_pieces(head, &mut Stumbles(data, Some(kind)), [(&entry.0, &entry.1)]);
    assert_eq!(check(ErrorKind::Interrupted).unwrap(), Digest::Fits);
    assert_eq!(check(ErrorKind::PermissionDenied).unwrap_err().kind, crate::error::Kind::Io);
}

#[test]
fn only_a_file_that_begins_with_its_format_is_sealed() {
    for meta in [r#""__metadata__":{"format":"pt","note":"x"},"#, r#""__metadata__":{"format":"np"},"#, ""] {
        let (mut file, before) = (foreign(meta), foreign(meta));
        let e = seal(&mut file).unwrap_err().to_string();
        assert_eq!(e, "the header does not begin with its metadata", "{meta}");
        assert_eq!(file, before);
    }
}

/// Of several elements, one that is not finite counts. Integers are finite.
#[test]
fn an_element_that_is_not_finite_is_found_in_each_type() {
    fn finite(dtype: DType, bytes: &[u8]) -> bool {
        Entry { name: "x", dtype, dims: &[], bytes }.is_finite()
    }
    let words = |x: [f32; 4]| -> Vec<u8> { x.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let doubles = |x: [f64; 4]| -> Vec<u8> { x.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let halves = |x: [f32; 4]| -> Vec<u8> { x.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect() };
    let brains = |x: [f32; 4]| -> Vec<u8> { x.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect() };
    for (bad, at) in [(f32::NAN, 0), (f32::INFINITY, 1), (f32::NEG_INFINITY, 3)] {
        let (good, mut x) = ([0.0, -1.5, 6e4, 1e-3], [0.0, -1.5, 6e4, 1e-3]);
        x[at] = bad;
        for dtype in [DType::F32, DType::C64] {
            assert!(finite(dtype, &words(good)) && !finite(dtype, &words(x)), "{dtype} {bad}");
        }
        for dtype in [DType::F64, DType::C128] {
            let (good, bad) = (doubles(good.map(f64::from)), doubles(x.map(f64::from)));
            assert!(finite(dtype, &good) && !finite(dtype, &bad), "{dtype} {at}");
        }
        assert!(finite(DType::F16, &halves(good)) && !finite(DType::F16, &halves(x)), "{bad}");
        assert!(finite(DType::BF16, &brains(good)) && !finite(DType::BF16, &brains(x)), "{bad}");
    }
    assert!(finite(DType::I32, &[255; 8]) && finite(DType::Bool, &[1, 0]));
}

#[test]
fn data_stays_aligned_behind_the_digest() {
    let file = sample();
    let header = u64::from_le_bytes(file[..8].try_into().unwrap());
    assert_eq!(header % 8, 0);
}

#[test]
fn bools_are_0_or_1_on_both_sides() {
    let numbers = r#""a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}"#;
    let header = format!(r#"{{{numbers},"m":{{"dtype":"BOOL","shape":[3],"data_offsets":[2,5]}}}}"#);
    let file = |bytes: [u8; 5]| [with_header(&header, 0), bytes.to_vec()].concat();
    assert!(Loaded::parse(file([7, 8, 0, 1, 1])).is_ok());
    refused(file([7, 8, 0, 1, 2]), "element 2 of \"m\" is 2; a bool is 0 or 1");
    let e = encode(&[Entry { name: "m", dtype: DType::Bool, dims: &[2], bytes: &[1, 255] }]).unwrap_err().to_string();
    assert_eq!(e, "element 1 of \"m\" is 255; a bool is 0 or 1");
}

#[test]
fn sizes_are_limited() {
    let dir = scratch("limits");
    let path = dir.join("w.safetensors");
    write_atomically(&path, &sample()).unwrap();
    assert!(Loaded::open_within(&path, 10).err().unwrap().to_string().contains("at most 10"));
    let length = sample().len() as u64;
    assert!(Loaded::open_within(&path, length - 1).is_err());
    assert_eq!(Loaded::open_within(&path, length).unwrap().entries().len(), 3);
    assert_eq!(Loaded::open(&path).unwrap().entries().len(), 3);
    let missing = dir.join("absent").join("w.safetensors");
    assert!(Loaded::open(&missing).is_err());
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn headers_are_limited_on_both_sides() {
    let over = format!("a header of {} bytes; at most {HEADER_LIMIT} are allowed", HEADER_LIMIT + 8);
    let header = format!("{{{}}}", " ".repeat(HEADER_LIMIT as usize + 6));
    refused(with_header(&header, 0), &over);
    // Short enough without the digest, too long with it.
    let long = "w".repeat(HEADER_LIMIT as usize - 100);
    let e = encode(&[Entry { name: &long, dtype: DType::U8, dims: &[1], bytes: &[0] }]).unwrap_err().to_string();
    assert!(e.contains("at most 100000000 are allowed"), "{e}");

    let dir = scratch("header");
    let path = dir.join("w.safetensors");
    let weights = |length: u64| {
        std::fs::write(&path, length.to_le_bytes()).unwrap();
        Weights::open(&path).err().unwrap().to_string()
    };
    let e = weights(HEADER_LIMIT + 8);
    assert!(e.contains(&over) && e.contains("w.safetensors"), "{e}");
    let e = weights(HEADER_LIMIT);
    assert!(e.contains("not a safetensors file: a header of 100000000 bytes in a file of 8"), "{e}");
    // The length itself is no part of the header.
    std::fs::write(&path, [&8u64.to_le_bytes()[..], b"{ }"].concat()).unwrap();
    let e = Weights::open(&path).err().unwrap().to_string();
    assert!(e.contains("not a safetensors file: a header of 8 bytes in a file of 11"), "{e}");
    std::fs::write(&path, [0; 7]).unwrap();
    let e = Weights::open(&path).err().unwrap().to_string();
    assert!(e.contains("not a safetensors file: 7 bytes"), "{e}");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Headers are padded to a multiple of 8 bytes, as is the limit.
#[test]
fn the_longest_header_is_written_and_read() {
    let file = |name: &str| encode(&[Entry { name, dtype: DType::U8, dims: &[1], bytes: &[0] }]).unwrap();
    let header = file("w").len() - 9;
    let longest = file(&"w".repeat(1 + HEADER_LIMIT as usize - header));
    assert_eq!(longest.len(), 8 + HEADER_LIMIT as usize + 1);
    assert_eq!(Loaded::parse(longest).unwrap().entries().len(), 1);
}

/// What [`Loaded`] refuses, [`Weights`] refuses by the name of the file.
#[test]
fn broken_headers_are_refused_by_weights() {
    let dir = scratch("broken");
    let path = dir.join("w.safetensors");
    let refused = |bytes: Vec<u8>, part: &str| {
        std::fs::write(&path, bytes).unwrap();
        let e = Weights::open(&path).err().unwrap().to_string();
        assert!(e.contains(part) && e.contains("w.safetensors"), "{e:?} should mention {part:?}");
    };
    let w = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    refused(with_header("[]", 0), "not a safetensors file: the header: invalid");
    refused(with_header(&format!(r#"{{"w":{w},"w":{w}}}"#), 1), "the header lists \"w\" twice");
    refused(with_header(&format!(r#"{{"w":{w}}}"#), 2), "the header tells of 1 bytes of tensors; the file has 2");
    for (bytes, part) in [
        (&b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"[..], "but a Git LFS pointer"),
        (b"<!DOCTYPE html><html></html>", "but a page of HTML"),
        (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9 j\xa8P\x19.", "but a pickle"),
        (b"\x80\x04\x95\x10\0\0\0\0\0\0\0}.", "but a pickle"),
        (b"PK\x03\x04\0\0\x08\x08\0\0archive/data.pkl", "a zip archive"),
    ] {
        refused(bytes.to_vec(), part);
        let e = Loaded::parse(bytes.to_vec()).err().unwrap().to_string();
        assert!(e.contains(part) && !e.contains("a header of"), "{e}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
