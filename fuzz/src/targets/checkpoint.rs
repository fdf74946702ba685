//! Any bytes either load as a checkpoint, which is written back to an equal one, or give an error.

use super::{READERS, Target};
use arenagrad::error::Kind;
use arenagrad::graph::DType;
use arenagrad::train::checkpoint::{digest, encode};
use arenagrad::train::{Entry, Loaded};

pub const TARGET: Target = Target {
    name: "checkpoint",
    about: "any bytes are a safetensors file that is written back with equal tensors, or an error",
    run,
    seeds,
    words: WORDS,
    max_len: 2048,
    memory: READERS,
};

/// Runs the target. The first byte chooses whether the bytes get a digest that fits.
pub fn run(data: &[u8]) {
    let (seal, mut file) = data.split_first().map_or((false, Vec::new()), |(n, file)| (n % 2 == 1, file.to_vec()));
    if seal && digest::seal(&mut file).is_err() {
        return;
    }
    let loaded = match Loaded::parse(file.clone()) {
        Ok(loaded) => loaded,
        Err(e) => {
            assert!(e.kind == Kind::Data && e.message.len() < 8192 + file.len(), "{e:?}");
            return;
        }
    };
    let entries: Vec<Entry<'_>> = loaded.entries().collect();
    assert!(entries.windows(2).all(|w| w[0].name < w[1].name), "names rise");
    let total: usize = entries.iter().map(|e| e.bytes.len()).sum();
    assert!(total <= file.len());
    for e in &entries {
        assert_eq!(e.dims.iter().product::<usize>() * e.dtype.size(), e.bytes.len(), "{:?}", e.name);
        assert_eq!(loaded.find(e.name).as_ref(), Some(e));
        assert!(loaded.expect(e.name, e.dtype, e.dims).is_ok());
    }
    let again = encode(&entries).unwrap_or_else(|e| panic!("what was read can be written: {e}"));
    assert_eq!(encode(&entries).as_ref(), Ok(&again), "equal tensors give equal bytes");
    let again = Loaded::parse(again).unwrap_or_else(|e| panic!("what was written can be read: {e}"));
    assert!(again.entries().eq(entries.iter().copied()), "the tensors come back");
}

/// Checkpoints with a digest and without.
pub fn seeds() -> Vec<Vec<u8>> {
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::U16, DType::Bool, DType::C64];
    let bytes = [0u8, 1].repeat(64);
    let entry = |name: &'static str, dtype: DType, dims: &'static [usize]| {
        Entry::new(name, dtype, dims, &bytes[..dims.iter().product::<usize>() * dtype.size()])
    };
    let mut files: Vec<Vec<Entry<'_>>> = dtypes.iter().map(|&d| vec![entry("w", d, &[2, 3])]).collect();
    files.push(vec![]);
    files.push(vec![
        entry("fc.weight", DType::F32, &[2, 3]),
        entry("fc.bias", DType::F32, &[2]),
        entry("s", DType::Bool, &[]),
    ]);
    files.push(vec![entry("empty", DType::F32, &[0, 4]), entry("odd \"name\"\n", DType::I8, &[1, 1, 1, 1])]);
    let mut all = Vec::new();
    for file in files.iter().filter_map(|f| encode(f).ok()) {
        all.push([&[0][..], &file].concat());
        // The same header without its metadata, which holds the digest.
        let text = String::from_utf8_lossy(&file[8..]).to_string();
        let (Some(from), Some(to)) = (text.find("\"__metadata__\":{"), text.find('}')) else { continue };
        let rest = file[8 + to + 1..].strip_prefix(b",").unwrap_or(&file[8 + to + 1..]);
        let header_end = usize::try_from(u64::from_le_bytes(file[..8].try_into().unwrap_or_default())).unwrap_or(0);
        let cut = file.len() - 8 - from - rest.len();
        let len = (header_end - cut) as u64;
        for seal in [0, 1] {
            all.push([&[seal][..], &len.to_le_bytes(), &file[8..8 + from], rest].concat());
        }
    }
    all
}

/// Words of headers.
pub const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\"__metadata__\"",
    "\"dtype\"",
    "\"shape\"",
    "\"data_offsets\"",
    "\"F32\"",
    "\"BOOL\"",
    "\"F8_E4M3\"",
    "\"BF16\"",
    "[0,0]",
    "[0,24]",
    "[2,3]",
    "\"format\":\"pt\"",
    "\"digest\"",
    "null",
    "true",
    "1e3",
    "-1",
    "\\u0000",
    "\\ud800",
    "18446744073709551615",
    "\"w\"",
    "\"fc.bias\"",
];
