//! Any list of shards with any two files. If it opens, each name of the list has the bytes that its file gives.

use super::checkpoint::{WORDS, seeds as checkpoints};
use super::weights::load;
use super::{READERS, Target};
use crate::files::file_path;
use arenagrad::graph::DType;
use arenagrad::train::checkpoint::encode;
use arenagrad::train::{Entry, Loaded, Weights};
use std::path::Path;

pub const TARGET: Target = Target {
    name: "shards",
    about: "any list of shards with any files gives what the files give, or an error that names the list",
    run,
    seeds,
    words: WORDS,
    max_len: 4096,
    memory: super::MemoryLimit { base: 4 << 20, each: READERS.each },
};

/// The names of the two shards.
const SHARDS: [&str; 2] = ["a", "b"];

/// The two bytes that give a length, and the bytes of that length.
fn part(data: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = data.split_first_chunk::<2>().map_or((0, data), |(n, rest)| (u16::from_le_bytes(*n), rest));
    rest.split_at(rest.len().min(usize::from(length)))
}

/// Runs the target. The bits of the first byte choose how the weights are loaded; then come the list and the first
/// shard, each behind its length, and the second shard.
pub fn run(data: &[u8]) {
    let (how, data) = data.split_first().map_or((0, data), |(n, data)| (*n, data));
    let (list, data) = part(data);
    let (first, second) = part(data);
    let dir = file_path("shards");
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        let done = std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&path, bytes));
        done.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    };
    let index = write("model.safetensors.index.json", list);
    let files = [first, second];
    SHARDS.iter().zip(files).for_each(|(name, bytes)| drop(write(name, bytes)));
    match Weights::open(&index) {
        Err(e) => assert!(e.message.contains("index.json") && !e.message.contains('\n'), "{e}"),
        Ok(opened) => {
            check(&opened, files);
            load(&opened, how);
        }
    }
    let _ = std::fs::remove_dir_all(&dir);
}

/// Compares the opened weights with the files of the shards.
fn check(opened: &Weights, files: [&[u8]; 2]) {
    assert!(opened.tensors().windows(2).all(|w| w[0].name < w[1].name), "names rise");
    let whole = files.map(|bytes| Loaded::parse(bytes.to_vec()));
    let shard = |path: &Path| SHARDS.iter().position(|name| path.ends_with(name));
    for t in opened.tensors() {
        let at = shard(opened.path(t)).unwrap_or_else(|| panic!("{:?} is in no shard", t.name));
        let mut bytes = vec![0; t.bytes];
        opened.read(t, 0, &mut bytes).unwrap_or_else(|e| panic!("{e}"));
        // A bool of 2 is found only in the whole file.
        let Ok(file) = &whole[at] else { continue };
        let want = file.find(&t.name).unwrap_or_else(|| panic!("{:?} is missing", t.name));
        assert!(bytes == want.bytes && t.dims == want.dims && t.dtype == want.dtype, "{:?}", t.name);
    }
    for t in opened.unusable() {
        let at = shard(&t.path).unwrap_or_else(|| panic!("{:?} is in no shard", t.name));
        let held = |file: &Loaded| file.find(&t.name).is_some() || file.unusable().iter().any(|u| u.name == t.name);
        assert!(whole[at].as_ref().map_or(true, held) && !t.error().message.is_empty(), "{:?}", t.name);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let input = |how: u8, list: &str, first: &[u8], second: &[u8]| {
        let length = |bytes: &[u8]| (bytes.len() as u16).to_le_bytes();
        [&[how][..], &length(list.as_bytes()), list.as_bytes(), &length(first), first, second].concat()
    };
    let file = |entries: &[(&str, DType, &[usize])]| {
        let bytes = [0u8, 1].repeat(16);
        let of = |&(name, dtype, dims): &(_, DType, _)| {
            Entry::new(name, dtype, dims, &bytes[..dims.iter().product::<usize>() * dtype.size()])
        };
        encode(&entries.iter().map(of).collect::<Vec<_>>()).unwrap_or_default()
    };
    let w = file(&[("w", DType::F32, &[2, 3])]);
    let rest = file(&[("fc.bias", DType::F32, &[2]), ("s", DType::Bool, &[])]);
    let mut all = Vec::new();
    for list in [
        r#"{"metadata":{"total_size":33},"weight_map":{"w":"a","fc.bias":"b","s":"b"}}"#,
        r#"{"weight_map":{"w":"a","fc.bias":"b"}}"#,
        r#"{"weight_map":{"w":"a","\u0077":"b"}}"#,
        r#"{"weight_map":{"w":"../a"}}"#,
        r#"{"weight_map":{"w":"c"}}"#,
        r#"{"weight_map":{}}"#,
    ] {
        all.extend([0, 2, 4].map(|how| input(how, list, &w, &rest)));
    }
    // One shard, of each file of the other targets.
    all.extend(checkpoints().iter().map(|f| input(4, r#"{"weight_map":{"w":"a"}}"#, &f[1..], &[])));
    all
}
