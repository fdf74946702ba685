//! Blocks that the encoders make, against the numbers that the format's own library reads in them.

use super::{blocks_of, noise};
use arenagrad::graph::quant::BlockType;
use arenagrad::tools::testing::bless;
use arenagrad::train::gguf::{Gguf, GgufEntry, TensorType, decode, encode, encode_file};
use std::path::Path;

/// The types that have an encoder.
const TYPES: [BlockType; 3] = [BlockType::Q8_0, BlockType::Q4_0, BlockType::Q4K];
const DIMS: [usize; 2] = [8, 512];

/// Rows of usual numbers, large ones, small ones, shifted ones, one-sided ones, equal ones, zeros, and one large number
/// among small ones.
fn numbers() -> Vec<f32> {
    let mut all = noise(DIMS[0] * DIMS[1], 31);
    for (i, row) in all.chunks_exact_mut(DIMS[1]).enumerate() {
        for (j, x) in row.iter_mut().enumerate() {
            *x = match i {
                0 => *x,
                1 => *x * 3000.0,
                2 => *x * 1e-3,
                3 => *x + 5.0,
                4 => -x.abs(),
                5 => 0.75,
                6 => 0.0,
                _ => *x * if j % 64 == 9 { 100.0 } else { 0.5 },
            };
        }
    }
    all
}

/// FNV-1a of the bytes of numbers.
fn digest(numbers: &[f32]) -> String {
    let bytes = numbers.iter().flat_map(|x| x.to_le_bytes());
    let hash = bytes.fold(0xCBF2_9CE4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
    format!("{hash:016x}")
}

/// The file of all encoders' blocks of [`numbers`].
fn encoded_file() -> Vec<u8> {
    let blocks = TYPES.map(|t| encode(t, &numbers()).unwrap());
    let entries: Vec<GgufEntry<'_>> = TYPES
        .iter()
        .zip(&blocks)
        .map(|(&t, bytes)| GgufEntry::new(t.name(), TensorType::Blocks(t), &DIMS, bytes))
        .collect();
    encode_file(&[], &entries).unwrap()
}

/// `encoded.gguf` is what the encoders make (`BLESS=1` writes it again); `encoded.txt` is what
/// `python tests/torch/gguf_blocks.py tests/torch/encoded.gguf` prints of it.
#[test]
fn the_formats_library_reads_the_numbers_that_the_decoder_reads() {
    let path = Path::new("tests/torch/encoded.gguf");
    bless(path, encoded_file()).unwrap();
    assert!(std::fs::read(path).unwrap() == encoded_file(), "the encoders' blocks changed; write both files again");
    let read = std::fs::read_to_string("tests/torch/encoded.txt").unwrap();
    let file = Gguf::open(path).unwrap();
    let mut lines = 0;
    for (line, t) in read.lines().zip(TYPES) {
        let numbers = decode(t, &file.bytes(file.find(t.name()).unwrap()).unwrap()).unwrap();
        assert_eq!(line, format!("{} {} [{}, {}] {}", t.name(), t.name(), DIMS[0], DIMS[1], digest(&numbers)));
        lines += 1;
    }
    assert_eq!(lines, TYPES.len());
}

/// Half a step of a row's range, and some more for the rounding of scales.
#[test]
fn encoded_numbers_are_near() {
    for (t, most) in TYPES.into_iter().zip([0.0045, 0.08, 0.08]) {
        let decoded = decode(t, &encode(t, &numbers()).unwrap()).unwrap();
        for (i, (x, y)) in numbers().chunks_exact(DIMS[1]).zip(decoded.chunks_exact(DIMS[1])).enumerate() {
            let (low, high) = x.iter().fold((0.0f32, 0.0f32), |(low, high), x| (low.min(*x), high.max(*x)));
            let off = x.iter().zip(y).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
            assert!(off <= most * (high - low), "{} row {i}: {off} of {}", t.name(), high - low);
        }
    }
}

/// The rows of `gguf_blocks.py`.
fn rows_of_the_package() -> Vec<f32> {
    let bits = blocks_of("Q8_0", 4 * 32, 64, &[]);
    let bits = bits.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b));
    let usual = bits.enumerate().map(|(i, bits)| {
        let x = (bits >> 8) as f32 / (1 << 23) as f32 - 1.0;
        x * 2f32.powi((i / 32 % 40) as i32 - 30)
    });
    let mut whole: Vec<f32> = blocks_of("ties", 32, 15, &[]).iter().map(|b| f32::from(*b as i8).max(-127.0)).collect();
    for (i, row) in whole.chunks_exact_mut(32).enumerate() {
        row[5] = 127.0;
        row.iter_mut().for_each(|x| *x /= [1.0, 2.0, 127.0][i % 3]);
        (row[6], row[7], row[8]) = (row[5] * 0.5 / 127.0, row[5] * 1.5 / 127.0, row[5] * 2.5 / 127.0);
    }
    usual.chain(whole).chain([0.0; 32]).collect()
}

/// `q8_0.txt` is what the format's own library makes of these rows.
#[test]
fn q8_0_has_the_bytes_of_the_formats_library() {
    let known = std::fs::read_to_string("tests/torch/q8_0.txt").unwrap();
    let made = encode(BlockType::Q8_0, &rows_of_the_package()).unwrap();
    assert_eq!(known.lines().count(), made.len() / 34);
    for (i, (block, line)) in made.chunks_exact(34).zip(known.lines()).enumerate() {
        let hex: String = block.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, line, "row {i}");
    }
}
