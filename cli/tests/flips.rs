//! Checkpoints with one flipped bit: a run refuses to go on from them.
//!
//! A few bits are flipped here, and 200 by `tools/flip-checkpoint`; a unit test of the library flips all of a small
//! file.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, good, run};
use std::path::Path;

/// SplitMix64: other bits for each seed, the same ones each time.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What became of the flips.
#[derive(Debug, Default, PartialEq)]
struct Count {
    /// The run ended with exit code 2 and one line that names the file.
    refused: usize,
    /// The run went on to the same weights.
    harmless: usize,
    /// Anything else.
    wrong: usize,
}

/// Resumes from `whole` with one of `bits` flipped, each time.
fn resume(dir: &Path, whole: &[u8], want: &[u8], bits: impl Iterator<Item = u64>) -> Count {
    let (checkpoint, weights) = (dir.join("checkpoint.safetensors"), dir.join("weights.safetensors"));
    let mut count = Count::default();
    for bit in bits {
        let mut file = whole.to_vec();
        file[bit as usize / 8] ^= 1 << (bit % 8);
        std::fs::write(&checkpoint, &file).unwrap();
        let _ = std::fs::remove_file(&weights);
        let out = run(&["train", "digits", "--resume", dir.to_str().unwrap(), "--quiet", "--threads", "1"]);
        let errors = String::from_utf8(out.stderr).unwrap();
        match out.status.code() {
            Some(2) if errors.lines().count() == 1 && errors.contains("checkpoint.safetensors") => count.refused += 1,
            Some(0) if std::fs::read(&weights).unwrap() == want => count.harmless += 1,
            code => {
                count.wrong += 1;
                println!("bit {bit} of byte {}: {code:?} {errors}", bit / 8);
            }
        }
    }
    count
}

/// `FLIPS` says how many bits of the whole file, and of its header, are flipped.
#[test]
fn a_flipped_bit_resumes_no_run() {
    let flips: usize = std::env::var("FLIPS").map_or(8, |n| n.parse().unwrap());
    let s = Scratch::new();
    let out = s.path("o");
    good(&["train", "digits", "--steps", "4", "--out", &out, "--quiet", "--threads", "1"]);
    let dir = Path::new(&out);
    let file = |name: &str| std::fs::read(dir.join(name)).unwrap();
    let (whole, want) = (file("checkpoint.safetensors"), file("weights.safetensors"));
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap());
    let mut state = 7;
    for (what, bytes) in [("file", whole.len() as u64), ("header", header)] {
        let bits: Vec<u64> = (0..flips).map(|_| random(&mut state) % (8 * bytes)).collect();
        let count = resume(dir, &whole, &want, bits.into_iter());
        println!("{flips} bits of the {what}: {count:?}");
        assert_eq!(count, Count { refused: flips, ..Count::default() });
    }
}
