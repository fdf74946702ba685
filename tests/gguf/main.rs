//! Weights in the blocks of GGUF files: decoding and products against the format's own library, files against hostile
//! bytes, models against their weights in `f32`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod blocks;
mod encoders;
mod experts;
mod files;
mod hostile_files;
mod loads;
mod models;
mod odd_files;

/// Blocks of bytes that `tests/torch/gguf_blocks.py` makes in the same way.
fn blocks_of(name: &str, block_bytes: usize, count: usize, scales: &[usize]) -> Vec<u8> {
    let mut state = name.bytes().rev().fold(0u64, |s, b| s << 8 | u64::from(b));
    let mut next = move || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 56) as u8
    };
    let mut all: Vec<u8> = (0..count * block_bytes).map(|_| next()).collect();
    for block in all.chunks_exact_mut(block_bytes) {
        scales.iter().for_each(|&at| block[at] &= 0xBF);
    }
    all
}

/// Numbers in (−1, 1).
fn noise(n: usize, seed: u64) -> Vec<f32> {
    let one = |i: u64| {
        let x = (i + seed * 7919 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n as u64).map(one).collect()
}

/// A path for this process.
fn path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("arenagrad-gguf-{}-{name}", std::process::id()))
}
