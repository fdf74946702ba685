//! Tests of coded weights against their definition, code by code.

use super::dequant_kernels::{dequant_kernel, dequant_matmul_kernel};
use super::fp8_fp4::{e2m1_to_f32, e4m3_to_f32, e5m2_to_f32};
use super::{CodeScheme, DequantMatmul};
use crate::abi::Split;
use crate::gemm::{Gemm, GemmFloat, gemm};
use crate::harness::{In, Out, hash_numbers, noise, run_in_ranges, written_elements};
use crate::simd::{Isa, detect_isa, limit};

/// Operands of a matrix of coded weights, and its numbers by definition.
struct Coded {
    p: DequantMatmul,
    codes: Vec<u8>,
    scales: Vec<f32>,
    scale_codes: Vec<u8>,
    zeros: Vec<f32>,
    numbers: Vec<f32>,
}

impl Coded {
    fn new(scheme: CodeScheme, (k, n, block): (usize, usize, usize), zeros: bool) -> Coded {
        let at = CodeScheme::ALL.iter().position(|s| *s == scheme).unwrap_or_default();
        let p = DequantMatmul { m: 0, k, n, scheme: at, block, zeros, transposed: false };
        let bits = |seed: usize, len: usize| -> Vec<u8> {
            hash_numbers::<f64>(len, seed).iter().map(|x| (x.to_bits() >> 20) as u8).collect()
        };
        // Codes of floats stay away from NaN and infinity here.
        let finite = |c: u8| if scheme.has_zeros() || scheme.is_packed() { c } else { c & 0xbf };
        let codes: Vec<u8> = bits(1, scheme.bytes(k * n)).into_iter().map(finite).collect();
        let blocks = k.div_ceil(block);
        let scales: Vec<f32> = noise(blocks * n, 2).iter().map(|x| *x as f32).collect();
        let zeros_of: Vec<f32> = noise(blocks * n, 3).iter().map(|x| (x * 9.0).round() as f32).collect();
        let scale_codes = bits(4, blocks * n);
        let number = |p: usize, j: usize| {
            let (e, b) = (p * n + j, p / block * n + j);
            let nibble = || codes[e / 2] >> (4 * (e % 2)) & 15;
            let zero = |default: f32| if zeros { zeros_of[b] } else { default };
            match scheme {
                CodeScheme::Int8 => (f32::from(codes[e] as i8) - zero(0.0)) * scales[b],
                CodeScheme::Int4 => (f32::from(nibble()) - zero(8.0)) * scales[b],
                CodeScheme::Fp8E4m3 => e4m3_to_f32(codes[e]) * scales[b],
                CodeScheme::Fp8E5m2 => e5m2_to_f32(codes[e]) * scales[b],
                CodeScheme::Nvfp4 => {
                    let scale = e4m3_to_f32(scale_codes[b]);
                    e2m1_to_f32(nibble()) * (if scale.is_nan() { 0.0 } else { scale } * 0.75)
                }
            }
        };
        let numbers = (0..k * n).map(|e| number(e / n.max(1), e % n.max(1))).collect();
        Coded { p, codes, scales, scale_codes, zeros: zeros_of, numbers }
    }

    /// The operands after x.
    fn reads(&self) -> Vec<In> {
        let nvfp4 = CodeScheme::from_word(self.p.scheme) == CodeScheme::Nvfp4;
        match (nvfp4, self.p.zeros) {
            (true, _) => vec![In::of(&self.codes), In::of(&self.scale_codes), In::of(&[0.75f32])],
            (_, true) => vec![In::of(&self.codes), In::of(&self.scales), In::of(&self.zeros)],
            _ => vec![In::of(&self.codes), In::of(&self.scales)],
        }
    }
}

/// Matrices of all schemes, with blocks that end inside and beyond the matrix.
fn matrices(sizes: &[(usize, usize, usize)]) -> Vec<Coded> {
    let mut all = Vec::new();
    for &size in sizes {
        for scheme in CodeScheme::ALL {
            all.push(Coded::new(scheme, size, false));
            if scheme.has_zeros() {
                all.push(Coded::new(scheme, size, true));
            }
        }
    }
    all
}

#[test]
fn weights_are_those_of_the_definition() {
    for c in matrices(&[(1, 1, 1), (5, 7, 2), (70, 33, 16), (9, 40, 100), (33, 1, 4)]) {
        for isa in [Isa::Portable, detect_isa()] {
            limit(isa);
            let out = [Out::of::<f32>(c.p.k * c.p.n, c.p.per_unit())];
            let y: Vec<f32> = written_elements(
                &run_in_ranges(dequant_kernel::<f32>, &c.p.to_words(), &c.reads(), &out, c.p.units()),
                0,
            );
            assert_eq!(y, c.numbers, "{:?} {isa:?}", c.p);
        }
        limit(detect_isa());
    }
}

/// The general product of x with the numbers, or with their transpose.
fn product(c: &Coded, m: usize, x: &[f32], transposed: bool) -> Vec<f32> {
    let (k, n) = (c.p.k, c.p.n);
    let across: Vec<f32> = (0..k * n).map(|e| c.numbers[e % k * n + e / k]).collect();
    let (g, b) = if transposed { (Gemm::new(m, k, n), &across) } else { (Gemm::new(m, n, k), &c.numbers) };
    let (mut y, mut scratch) = (vec![0.0; g.len()], vec![0.0; g.scratch_len::<f32>()]);
    gemm(&g, x, b, None, &mut y, 0..g.units(), &mut scratch);
    y
}

#[test]
fn products_have_the_bits_of_products_with_the_numbers() {
    fn scratch<T: GemmFloat + From<f32>>(p: &DequantMatmul) -> Out {
        let per = p.scratch::<T>();
        Out(per, size_of::<T>(), Split::PerThread(per))
    }
    for c in matrices(&[(5, 7, 2), (70, 33, 16), (90, 300, 32), (40, 64, 1000)]) {
        for (m, transposed) in [(1, false), (3, true), (70, false), (1, true)] {
            let p = DequantMatmul { m, transposed, ..c.p };
            let (inner, outer) = if transposed { (p.n, p.k) } else { (p.k, p.n) };
            let x: Vec<f32> = noise(m * inner, 7).iter().map(|x| *x as f32).collect();
            let want = product(&c, m, &x, transposed);
            let (split, units) = p.gemm().decoded_division();
            let reads = [vec![In::of(&x)], c.reads()].concat();
            let out = [Out(m * outer, 4, split), scratch::<f32>(&p)];
            let y: Vec<f32> =
                written_elements(&run_in_ranges(dequant_matmul_kernel::<f32>, &p.to_words(), &reads, &out, units), 0);
            let same = y.iter().zip(&want).all(|(y, w)| y.to_bits() == w.to_bits());
            assert!(same, "{p:?}");
        }
    }
}
