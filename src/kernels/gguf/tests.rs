//! Blocks against fixed numbers and against the definition of each element; products against decoded matrices.

use super::block_codec::GROUP;
use super::encode_q4_0::encode_q4_0;
use super::encode_q4_k::encode_q4_k;
use super::encode_q8_0::encode_q8_0;
use super::gguf_dequant::{GgufDequant, decode_gguf_blocks, gguf_dequant_kernel};
use super::gguf_grouped::{GgufGrouped, gguf_grouped_kernel};
use super::gguf_matmul::{GgufMatmul, gguf_matmul_kernel};
use super::{BlockType, nibble_dots};
use crate::abi::Split;
use crate::gemm::GemmFloat;
use crate::harness::{In, Out, close, noise, noise32, run_in_ranges, written_elements};
use crate::simd::{Isa, detect_isa, limit};

/// Where the halves of a block are.
fn halves_of(t: BlockType) -> &'static [usize] {
    match t {
        BlockType::Q2K => &[80, 82],
        BlockType::Q3K => &[108],
        BlockType::Q6K => &[208],
        BlockType::Tq1_0 => &[52],
        BlockType::Tq2_0 => &[64],
        BlockType::Q4_1 | BlockType::Q5_1 | BlockType::Q4K | BlockType::Q5K => &[0, 2],
        BlockType::Q8K | BlockType::Mxfp4 => &[],
        _ => &[0],
    }
}

/// Blocks of arbitrary bytes whose scales are usual numbers.
fn random_blocks(t: BlockType, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 56) as u8
    };
    let mut all: Vec<u8> = (0..count * t.bytes()).map(|_| next()).collect();
    for block in all.chunks_exact_mut(t.bytes()) {
        for &at in halves_of(t) {
            // An exponent from 2^−8 to 2^−1, either sign.
            block[at + 1] = block[at + 1] & 0x9f | 0x20;
        }
        match t {
            BlockType::Q8K => {
                let d = f32::from(block[0]) / 8192.0 - 0.015;
                block[..4].copy_from_slice(&d.to_le_bytes());
            }
            BlockType::Mxfp4 => block[0] = 120 + block[0] % 8,
            _ => {}
        }
    }
    all
}

fn decoded(t: BlockType, blocks: &[u8]) -> Vec<f32> {
    let mut all = vec![0.0; blocks.len() / t.bytes() * t.elements()];
    decode_gguf_blocks(t, blocks, &mut all);
    all
}

#[test]
fn blocks_of_a_pattern_have_known_numbers() {
    use BlockType::*;
    // The first four elements, the one in the middle, the last, the sum.
    let known: [(BlockType, [f32; 4], f32, f32, f32); 14] = [
        (Q4_0, [-0.75, 0.5, 1.75, -1.0], -0.75, 0.0, -5.25),
        (Q4_1, [3.875, 1.125, 2.375, 3.625], 2.375, 3.125, 65.25),
        (Q5_0, [2.25, -0.5, 0.75, -2.0], 3.5, 0.25, 3.75),
        (Q5_1, [4.875, 6.125, 7.375, 4.625], 4.875, 1.375, 130.25),
        (Q8_0, [21.25, 30.5, -24.25, -15.0], -22.75, -12.0, -44.0),
        (Q2K, [8.25, 0.0, 2.75, 5.5], 1.875, 1.125, 514.75),
        (Q3K, [20.25, -27.0, 6.75, -13.5], 0.5, 10.5, 239.5),
        (Q4K, [78.875, -6.375, 32.375, 71.125], 105.75, 12.125, 13610.0),
        (Q5K, [202.875, -6.375, 156.375, 71.125], 261.75, 27.125, 29054.0),
        (Q6K, [-357.75, 424.0, 145.75, -132.5], -87.75, -15.0, 1153.0),
        (Iq4Nl, [-8.75, 6.25, 28.25, -12.25], -8.75, 0.25, -64.25),
        (Mxfp4, [0.0, 1.5, -0.5, -3.0], 0.75, 1.5, 6.25),
        (Tq1_0, [-0.25, -0.25, -0.25, 0.0], 0.0, -0.25, -0.5),
        (Tq2_0, [0.5, -0.25, 0.0, 0.25], 0.5, -0.25, 32.25),
    ];
    for (t, first, middle, last, sum) in known {
        let mut block: Vec<u8> = (0..t.bytes()).map(|i| ((37 * i + 11) % 256) as u8).collect();
        for (&at, d) in halves_of(t).iter().zip([0.25f32, 0.125]) {
            block[at..at + 2].copy_from_slice(&half::f16::from_f32(d).to_le_bytes());
        }
        if t == Mxfp4 {
            block[0] = 126;
        }
        let x = decoded(t, &block);
        assert_eq!(x[..4], first, "{}", t.name());
        assert_eq!((x[x.len() / 2], x[x.len() - 1], x.iter().sum::<f32>()), (middle, last, sum), "{}", t.name());
    }
}

#[test]
fn types_are_found_by_number_and_name() {
    for (i, t) in BlockType::ALL.iter().copied().enumerate() {
        assert_eq!((BlockType::from_id(t.id()), BlockType::from_name(t.name())), (Some(t), Some(t)));
        assert!(BlockType::ALL[..i].iter().all(|u| u.id() < t.id()));
        assert_eq!(t as usize, i);
    }
    assert_eq!((BlockType::from_id(1), BlockType::from_name("q4_k")), (None, Some(BlockType::Q4K)));
    assert_eq!((BlockType::Q4K.bytes_of(512), BlockType::Q4K.bytes_of(300)), (Some(288), None));
    assert_eq!(BlockType::Q8K.bytes_of(usize::MAX & !255), None);
}

#[test]
fn matrices_are_decoded_by_units() {
    for &t in BlockType::ALL {
        let len = 9000usize.next_multiple_of(t.elements());
        let blocks = random_blocks(t, len / t.elements(), 7);
        let p = GgufDequant { block_type: t as usize, len };
        let out = [Out::of::<f32>(len, p.per_unit())];
        let y = run_in_ranges(gguf_dequant_kernel, &p.to_words(), &[In::of(&blocks)], &out, p.units());
        assert_eq!(written_elements::<f32>(&y, 0), decoded(t, &blocks), "{}", t.name());
    }
}

/// The product of the definition, in f64.
fn naive(x: &[f64], d: &[f32], p: &GgufMatmul) -> Vec<f64> {
    let (n, k) = (p.n, p.k);
    let (cols, terms) = if p.back { (k, n) } else { (n, k) };
    let entry = |j: usize, t: usize| f64::from(if p.back { d[t * k + j] } else { d[j * k + t] });
    (0..p.m * cols).map(|e| (0..terms).map(|t| x[e / cols * terms + t] * entry(e % cols, t)).sum()).collect()
}

/// Runs a product on all divisions and two instruction sets.
fn product<T: GemmFloat + From<f32>>(x: &[T], blocks: &[u8], p: &GgufMatmul) -> Vec<T> {
    let (size, cols) = (size_of::<T>(), if p.back { p.k } else { p.n });
    let ((split, units), scratch) = (p.division(size), p.scratch(size));
    let out = [Out(p.m * cols, size, split), Out(scratch, size, Split::PerThread(scratch))];
    let all = [Isa::Portable, detect_isa()].map(|isa| {
        limit(isa);
        let y = run_in_ranges(gguf_matmul_kernel::<T>, &p.to_words(), &[In::of(x), In::of(blocks)], &out, units);
        written_elements::<T>(&y, 0)
    });
    limit(detect_isa());
    assert!(bytemuck::cast_slice::<T, u8>(&all[0]) == bytemuck::cast_slice::<T, u8>(&all[1]), "{p:?}");
    all[1].clone()
}

#[test]
fn products_are_those_of_decoded_matrices() {
    let shapes = [(1, 1, 1), (1, 70, 2), (3, 33, 1), (4, 5, 3), (5, 40, 2), (70, 37, 1), (2, 300, 1)];
    for &t in BlockType::ALL {
        for (m, n, k) in shapes {
            let k = k * t.elements();
            let blocks = random_blocks(t, n * k / t.elements(), (m + n) as u64);
            let d = decoded(t, &blocks);
            for back in [false, true] {
                let p = GgufMatmul { block_type: t as usize, m, n, k, back };
                let x = noise(m * if back { n } else { k }, 3);
                let want = naive(&x, &d, &p);
                let size = want.iter().fold(1.0f64, |m, y| m.max(y.abs()));
                let scaled = |y: Vec<f64>| y.into_iter().map(|y| y / size).collect::<Vec<_>>();
                close(&scaled(product(&x, &blocks, &p)), &scaled(want.clone()), 1e-13);
                let single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
                let got: Vec<f64> = product(&single, &blocks, &p).into_iter().map(f64::from).collect();
                let exact = naive(&single.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), &d, &p);
                close(&scaled(got), &scaled(exact), 3e-6);
            }
        }
    }
}

#[test]
fn decoded_products_have_the_bits_of_a_chain() {
    for (m, back) in [(6, false), (50, false), (1, true), (6, true)] {
        let (t, n, k) = (BlockType::Q4K, 40, 512);
        let blocks = random_blocks(t, n * k / t.elements(), 5);
        let (d, p) = (decoded(t, &blocks), GgufMatmul { block_type: t as usize, m, n, k, back });
        let (cols, terms) = if back { (k, n) } else { (n, k) };
        let x = noise32(m * terms, 9);
        let entry = |j: usize, i: usize| if back { d[i * k + j] } else { d[j * k + i] };
        let chain = |e: usize| (0..terms).fold(0.0, |c, i| x[e / cols * terms + i].mul_add(entry(e % cols, i), c));
        assert_eq!(product(&x, &blocks, &p), (0..m * cols).map(chain).collect::<Vec<f32>>(), "{p:?}");
    }
}

/// Runs a grouped product on all divisions and two instruction sets.
fn grouped_product<T: GemmFloat + From<f32>>(x: &[T], blocks: &[u8], starts: &[i32], p: &GgufGrouped) -> Vec<T> {
    assert_eq!(GgufGrouped::from_words(&p.to_words()), *p);
    let (size, cols) = (size_of::<T>(), if p.back { p.k } else { p.n });
    let ((split, units), scratch) = (p.division(size), p.scratch(size));
    let out = [Out(p.rows * cols, size, split), Out(scratch, size, Split::PerThread(scratch))];
    let reads = [In::of(x), In::of(blocks), In::of(starts)];
    let all = [Isa::Portable, detect_isa()].map(|isa| {
        limit(isa);
        written_elements::<T>(&run_in_ranges(gguf_grouped_kernel::<T>, &p.to_words(), &reads, &out, units), 0)
    });
    limit(detect_isa());
    assert!(bytemuck::cast_slice::<T, u8>(&all[0]) == bytemuck::cast_slice::<T, u8>(&all[1]), "{p:?}");
    all[1].clone()
}

/// Groups without rows, of one row, and of most rows; few rows, which are multiplied by codes, and many; units of rows
/// and of columns.
#[test]
fn grouped_products_are_those_of_each_group() {
    let starts: [&[i32]; 6] =
        [&[0, 0], &[0, 1, 1, 3], &[0, 0, 0, 9, 16], &[0, 7, 7, 70], &[0, 3, 40], &[0, 1, 6, 6, 17]];
    for t in [BlockType::Q4_0, BlockType::Q4K, BlockType::Q6K, BlockType::Q8_0] {
        for (starts, n) in starts.into_iter().flat_map(|s| [(s, 5), (s, 37), (s, 300)]) {
            let (groups, rows, k) = (starts.len() - 1, starts[starts.len() - 1] as usize, t.elements());
            let blocks = random_blocks(t, groups * n, (rows + n) as u64);
            for back in [false, true] {
                let p = GgufGrouped { block_type: t as usize, rows, n, k, groups, back };
                let terms = if back { n } else { k };
                let x = noise32(rows * terms, 3);
                let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
                let [single, double] =
                    [grouped_product(&x, &blocks, starts, &p).into_iter().map(f64::from).collect(), {
                        grouped_product(&wide, &blocks, starts, &p)
                    }];
                let want: Vec<f64> = (0..groups)
                    .flat_map(|e| {
                        let own = starts[e] as usize..starts[e + 1] as usize;
                        let d = decoded(t, &blocks[e * n * t.bytes()..(e + 1) * n * t.bytes()]);
                        let one = GgufMatmul { block_type: t as usize, m: own.len(), n, k, back };
                        naive(&wide[own.start * terms..own.end * terms], &d, &one)
                    })
                    .collect();
                let size = want.iter().fold(1.0f64, |m, y| m.max(y.abs()));
                let scaled = |y: &Vec<f64>| y.iter().map(|y| y / size).collect::<Vec<_>>();
                close(&scaled(&double), &scaled(&want), 1e-13);
                close(&scaled(&single), &scaled(&want), 3e-6);
            }
        }
    }
}

#[test]
fn a_row_of_a_grouped_product_does_not_depend_on_the_groups_of_the_others() {
    let (t, rows, n, k) = (BlockType::Q4K, 30, 300, 512);
    let one = random_blocks(t, n * k / t.elements(), 4);
    let blocks = [&one[..], &one[..], &one[..]].concat();
    let p = GgufGrouped { block_type: t as usize, rows, n, k, groups: 3, back: false };
    for p in [p, GgufGrouped { rows: 11, ..p }, GgufGrouped { back: true, ..p }] {
        let x = noise32(p.rows * if p.back { n } else { k }, 6);
        let all = p.rows as i32;
        let by = |starts: &[i32]| grouped_product(&x, &blocks, starts, &p);
        let want = by(&[0, all, all, all]);
        assert!([[0, 1, 2, all], [0, 0, 9, all], [0, 5, all, all]].iter().all(|s| by(s) == want), "{p:?}");
    }
}

#[test]
fn special_numbers_of_x_pass() {
    for t in [BlockType::Q4K, BlockType::Q4_0, BlockType::Q6K, BlockType::Q8_0] {
        let blocks = random_blocks(t, 3, 8);
        let k = t.elements();
        for special in [f32::NAN, f32::INFINITY] {
            let mut x = noise32(k, 2);
            x[k / 2] = special;
            let y = product(&x, &blocks, &GgufMatmul { block_type: t as usize, m: 1, n: 3, k, back: false });
            assert!(y.iter().all(|y| !y.is_finite()), "{}: {y:?}", t.name());
        }
    }
    assert!(nibble_dots::has_nibbles(BlockType::Q4_0, 64) && !nibble_dots::has_nibbles(BlockType::Q4_0, 96));
}

#[test]
fn rows_that_integers_cannot_hold_leave_others_as_they_are() {
    for t in [BlockType::Q4K, BlockType::Q4_0] {
        let (n, k) = (3, 2 * t.elements().max(64));
        let blocks = random_blocks(t, n * k / t.elements(), 8);
        let mut x = noise32(3 * k, 2);
        let plain = product(&x, &blocks, &GgufMatmul { block_type: t as usize, m: 3, n, k, back: false });
        x[k..2 * k].iter_mut().for_each(|x| *x *= 1e30);
        let mixed = product(&x, &blocks, &GgufMatmul { block_type: t as usize, m: 3, n, k, back: false });
        assert_eq!((&mixed[..n], &mixed[2 * n..]), (&plain[..n], &plain[2 * n..]), "{}", t.name());
        for (large, plain) in mixed[n..2 * n].iter().zip(&plain[n..2 * n]) {
            assert!((large / 1e30 - plain).abs() <= 1e-5 * plain.abs().max(1.0), "{}: {large}, {plain}", t.name());
        }
    }
}

type Encode = fn(&[f32], &mut [u8]) -> Result<(), String>;

/// The largest distance that encoding may move element `e`: half a step of its block; for Q8_0, whose codes are those
/// of the scale before it was rounded, the part 2⁻¹¹ of 127 steps more.
fn half_step(t: BlockType, block: &[u8], e: usize) -> f32 {
    let d = super::block_codec::f16_value([block[0], block[1]]).abs();
    match t {
        BlockType::Q4K => {
            let scale =
                super::blocks_of_256::scale_and_min_of_256(super::block_codec::leading_bytes(&block[4..]), e / 32).0;
            d * f32::from(scale) / 2.0
        }
        BlockType::Q8_0 => d * (0.5 + 127.0 / 2048.0),
        _ => d / 2.0,
    }
}

#[test]
fn encoded_numbers_move_by_half_a_step() {
    let encoders: [(BlockType, Encode); 3] =
        [(BlockType::Q8_0, encode_q8_0), (BlockType::Q4_0, encode_q4_0), (BlockType::Q4K, encode_q4_k)];
    for (t, encode) in encoders {
        for (seed, scale, shift) in [(1, 1.0, 0.0), (2, 100.0, 0.0), (3, 0.02, 0.01), (4, 1.0, 5.0), (5, 1.0, -5.0)] {
            let x: Vec<f32> = noise32(40 * t.elements(), seed).into_iter().map(|x| x * scale + shift).collect();
            let mut blocks = vec![0; 40 * t.bytes()];
            encode(&x, &mut blocks).unwrap();
            for (i, (x, y)) in x.iter().zip(decoded(t, &blocks)).enumerate() {
                let most = half_step(t, &blocks[i / t.elements() * t.bytes()..], i % t.elements());
                let rounding = 4.0 * f32::EPSILON * (x.abs() + shift.abs());
                assert!((x - y).abs() <= most + rounding, "{} {i}: {x} became {y}, step {most}", t.name());
            }
        }
        let (mut block, zeros) = (vec![1; t.bytes()], vec![0.0; t.elements()]);
        encode(&zeros, &mut block).unwrap();
        assert_eq!(decoded(t, &block), zeros);
        for bad in [f32::NAN, f32::INFINITY, 1e12] {
            let mut x = zeros.clone();
            x[GROUP] = bad;
            assert!(encode(&x, &mut block).is_err(), "{} {bad}", t.name());
        }
    }
}
