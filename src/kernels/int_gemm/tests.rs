//! Tests of products and convolutions of 8-bit integers against sums in `i64`.

use super::int_conv_kernel::{IntConv, int_conv_kernel, int_conv_zeros_kernel};
use super::int_gemm_desc::{IntGemm, IntGemmBlocks};
use super::int_gemm_kernel::{int_gemm_block, int_gemm_kernel, int_gemm_zeros_kernel};
use super::int_product::IntBlock;
use super::int_tile::IntEngine;
use super::requantise::{Requantise, requantise};
use crate::abi::{MatrixMut, Split};
use crate::harness::{In, Out, hash_numbers, run_in_ranges, written_elements};
use crate::simd::{Isa, Token, detect_isa, limit};
use crate::window::WindowGeometry;

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    hash_numbers::<f64>(len, seed).iter().map(|x| (x.to_bits() >> 20) as u8).collect()
}

/// A code as a number without its zero.
fn centred(byte: u8, signed: bool, zero: i64) -> i64 {
    (if signed { i64::from(byte as i8) } else { i64::from(byte) }) - zero
}

/// Element `(s, i, j)` of the product of a batch.
fn element(p: &IntGemm, a: &[u8], b: &[u8], s: usize, i: usize, j: usize) -> i32 {
    let sum: i64 = (0..p.k)
        .map(|t| {
            let x = a[s * p.m * p.k + if p.ta { t * p.m + i } else { i * p.k + t }];
            let y = b[s * p.k * p.n + if p.tb { j * p.k + t } else { t * p.n + j }];
            centred(x, p.a_signed, p.a_zero) * centred(y, p.b_signed, p.b_zero)
        })
        .sum();
    sum as i32
}

fn naive(p: &IntGemm, a: &[u8], b: &[u8]) -> Vec<i32> {
    (0..p.batch * p.m * p.n).map(|e| element(p, a, b, e / (p.m * p.n), e / p.n % p.m, e % p.n)).collect()
}

fn product(p: &IntGemm, a: &[u8], b: &[u8]) -> Vec<i32> {
    let ((split, units), per) = (p.division(), p.scratch());
    let out = [Out(p.batch * p.m * p.n, 4, split), Out(per, 4, Split::PerThread(per))];
    written_elements(&run_in_ranges(int_gemm_kernel, &p.to_words(), &[In::of(a), In::of(b)], &out, units), 0)
}

#[test]
fn products_are_those_of_i64_on_every_instruction_set() {
    let shapes = [
        (1, 1, 1, 1),
        (1, 1, 300, 601),
        (2, 3, 5, 7),
        (3, 13, 70, 33),
        (1, 100, 66, 515),
        (1, 7, 300, 1100),
        (2, 2, 3, 0),
        (1, 5, 64, 2),
    ];
    for (batch, m, n, k) in shapes {
        let (a, b) = (bytes(batch * m * k, 1), bytes(batch * k * n, 2));
        for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
            for (a_signed, b_signed, a_zero, b_zero) in
                [(true, true, 0, 0), (false, true, 128, -3), (false, false, 255, 0), (true, true, -128, 127)]
            {
                let p = IntGemm { batch, m, n, k, ta, tb, a_signed, b_signed, a_zero, b_zero };
                assert_eq!(IntGemm::from_words(&p.to_words()), p);
                let want = naive(&p, &a, &b);
                for isa in [Isa::Portable, Isa::Avx2, detect_isa()] {
                    limit(isa);
                    assert_eq!(product(&p, &a, &b), want, "{p:?} {isa:?}");
                }
                limit(detect_isa());
            }
        }
    }
}

/// The engine of the instruction set alone has the integers of the best one, which may be VNNI.
#[test]
fn engines_agree() {
    let p = IntGemm {
        batch: 1,
        m: 9,
        n: 70,
        k: 600,
        ta: false,
        tb: false,
        a_signed: true,
        b_signed: true,
        a_zero: 5,
        b_zero: -7,
    };
    let (a, b) = (bytes(p.m * p.k, 1), bytes(p.k * p.n, 2));
    let by = |engine: IntEngine| {
        let mut c = vec![0; p.m * p.n];
        let mut scratch = vec![0; IntGemmBlocks::new(p.m, p.n, p.k).scratch()];
        let block = IntBlock { row: 0, col: 0, c: MatrixMut::new(&mut c, p.m, p.n) };
        int_gemm_block(engine, &p, (&a, &b, &[]), block, &mut scratch);
        c
    };
    let want = naive(&p, &a, &b);
    for engine in
        [IntEngine::current(), IntEngine::Token(Token::current()), IntEngine::Token(Token::at_most(Isa::Portable))]
    {
        assert_eq!(by(engine), want, "{engine:?}");
    }
}

#[test]
fn the_largest_codes_do_not_overflow() {
    let base = IntGemm {
        batch: 1,
        m: 2,
        n: 3,
        k: 33_000,
        ta: false,
        tb: false,
        a_signed: true,
        b_signed: true,
        a_zero: 127,
        b_zero: 127,
    };
    for (x, y, a_zero, b_zero) in [(0x80u8, 0x80u8, 127, 127), (0x7f, 0x7f, -128, -128), (0x80, 0x7f, 127, -128)] {
        let p = IntGemm { a_zero, b_zero, ..base };
        let (a, b) = (vec![x; p.m * p.k], vec![y; p.k * p.n]);
        let want = centred(x, true, a_zero) * centred(y, true, b_zero) * p.k as i64;
        assert!(want.abs() == 65_025 * 33_000 && i32::try_from(want).is_ok());
        assert!(product(&p, &a, &b).iter().all(|y| i64::from(*y) == want));
    }
}

/// A convolution by its definition.
fn naive_conv(p: &IntConv, x: &[u8], w: &[u8]) -> Vec<i32> {
    let WindowGeometry { size: [rows, cols], kernel: [kh, kw], stride, pad, dilation } = p.windows;
    let (m, [oh, ow]) = (p.groups * p.m, p.windows.out());
    let at = |e: usize| {
        let (i, o, out) = (e / (m * oh * ow), e / (oh * ow) % m, [e / ow % oh, e % ow]);
        let mut sum = 0i64;
        for c in 0..p.channels {
            for (ky, kx) in (0..kh).flat_map(|ky| (0..kw).map(move |kx| (ky, kx))) {
                let place = |a: usize, tap: usize| (out[a] * stride[a] + tap * dilation[a]).wrapping_sub(pad[a][0]);
                let (y, z) = (place(0, ky), place(1, kx));
                if y >= rows || z >= cols {
                    continue;
                }
                let channel = i * p.groups * p.channels + o / p.m * p.channels + c;
                let value = centred(x[(channel * rows + y) * cols + z], p.x_signed, p.x_zero);
                sum += value * centred(w[((o * p.channels + c) * kh + ky) * kw + kx], true, p.w_zero);
            }
        }
        sum as i32
    };
    (0..p.images * m * oh * ow).map(at).collect()
}

fn conv(p: &IntConv, x: &[u8], w: &[u8]) -> Vec<i32> {
    let [oh, ow] = p.windows.out();
    let (len, per) = (p.images * p.groups * p.m * oh * ow, p.scratch());
    let out = [Out::of::<i32>(len, p.per_unit()), Out(per, 4, Split::PerThread(per))];
    written_elements(&run_in_ranges(int_conv_kernel, &p.to_words(), &[In::of(x), In::of(w)], &out, p.units()), 0)
}

/// Columns of a product and channels of a convolution, each with a zero point of its own: in units of rows and of
/// columns, and for odd numbers of terms.
#[test]
fn columns_and_channels_have_zeros_of_their_own() {
    for (m, n, k, tb) in [(1, 1, 1, false), (5, 7, 3, true), (70, 33, 12, false), (1, 300, 601, false)] {
        let p = IntGemm { batch: 1, m, n, k, ta: false, tb, a_signed: false, b_signed: true, a_zero: 200, b_zero: 0 };
        let (a, b) = (bytes(m * k, 1), bytes(k * n, 2));
        let zeros: Vec<i8> = bytes(n, 3).iter().map(|&z| z as i8).collect();
        let ((split, units), per) = (p.division(), p.scratch());
        let out = [Out(m * n, 4, split), Out(per, 4, Split::PerThread(per))];
        let operands = [In::of(&a), In::of(&b), In::of(&zeros)];
        let got: Vec<i32> =
            written_elements(&run_in_ranges(int_gemm_zeros_kernel, &p.to_words(), &operands, &out, units), 0);
        let column = |j: usize| IntGemm { b_zero: zeros[j].into(), ..p };
        let want: Vec<i32> = (0..m * n).map(|e| element(&column(e % n), &a, &b, 0, e / n, e % n)).collect();
        assert_eq!(got, want, "{p:?}");
    }
    let p = IntConv {
        images: 2,
        groups: 2,
        channels: 3,
        m: 5,
        windows: WindowGeometry { pad: [[1; 2]; 2], ..WindowGeometry::new([4, 6], [3, 3]) },
        x_signed: true,
        x_zero: -3,
        w_zero: 0,
    };
    let (channels, size) = (p.groups * p.m, 4 * 6);
    let (x, w) = (bytes(p.images * p.groups * p.channels * size, 4), bytes(channels * p.k(), 5));
    let zeros: Vec<i8> = bytes(channels, 6).iter().map(|&z| z as i8).collect();
    let out =
        [Out::of::<i32>(p.images * channels * size, p.per_unit()), Out(p.scratch(), 4, Split::PerThread(p.scratch()))];
    let operands = [In::of(&x), In::of(&w), In::of(&zeros)];
    let got: Vec<i32> =
        written_elements(&run_in_ranges(int_conv_zeros_kernel, &p.to_words(), &operands, &out, p.units()), 0);
    for (channel, &zero) in zeros.iter().enumerate() {
        let want = naive_conv(&IntConv { w_zero: zero.into(), ..p }, &x, &w);
        for e in (0..got.len()).filter(|e| e / size % channels == channel) {
            assert_eq!(got[e], want[e], "channel {channel}, element {e}");
        }
    }
}

#[test]
fn convolutions_are_those_of_the_definition() {
    for (images, groups, channels, m, size, kernel, stride, pad, dilation) in [
        (1, 1, 1, 1, [3, 3], [2, 2], [1, 1], [1, 1], [1, 1]),
        (2, 1, 3, 5, [9, 11], [3, 2], [1, 1], [1, 0], [1, 2]),
        (3, 2, 2, 3, [8, 70], [3, 3], [2, 3], [2, 1], [1, 1]),
        (1, 4, 1, 1, [6, 7], [3, 3], [1, 1], [2, 4], [2, 1]),
        (1, 1, 7, 20, [5, 5], [1, 1], [1, 1], [0, 0], [1, 1]),
        (1, 1, 64, 13, [12, 13], [3, 3], [1, 2], [1, 1], [1, 1]),
    ] {
        for (x_signed, x_zero, w_zero) in [(true, -7, 0), (false, 130, 3)] {
            let windows = WindowGeometry { size, kernel, stride, pad: [[pad[0], 1], [pad[1], 2]], dilation };
            let p = IntConv { images, groups, channels, m, windows, x_signed, x_zero, w_zero };
            let (x, w) = (bytes(images * groups * channels * size[0] * size[1], 3), bytes(groups * m * p.k(), 4));
            assert_eq!(conv(&p, &x, &w), naive_conv(&p, &x, &w), "{p:?}");
        }
    }
}

#[test]
fn places_beyond_the_edge_count_as_the_zero() {
    let p = IntConv {
        images: 1,
        groups: 1,
        channels: 1,
        m: 1,
        windows: WindowGeometry { pad: [[1; 2]; 2], ..WindowGeometry::new([3, 3], [2, 2]) },
        x_signed: true,
        x_zero: 2,
        w_zero: 1,
    };
    let x: Vec<u8> = (-4..=4i8).map(|x| x as u8).collect();
    let w = [1i8, 2, 3, -1].map(|w| w as u8);
    assert_eq!(conv(&p, &x, &w), [12, -2, -2, -8, 0, -7, -6, -2, -3, -4, -3, 4, 0, 1, 2, 0]);
}

#[test]
fn sums_become_codes_half_to_even() {
    let run_to = |p: &Requantise, sums: &[i32], bias: &[i32], scales: &[f32]| -> Vec<i8> {
        let mut reads = vec![In::of(sums)];
        reads.extend(p.bias.then(|| In::of(bias)));
        reads.extend(p.scales.then(|| In::of(scales)));
        written_elements(
            &run_in_ranges(
                requantise::<i8>,
                &p.to_words(),
                &reads,
                &[Out::of::<i8>(sums.len(), p.per_unit())],
                p.units(),
            ),
            0,
        )
    };
    let p = Requantise { outer: 2, channels: 2, inner: 1, bias: false, scales: false, multiplier: 0.05, zero: 5 };
    assert_eq!(run_to(&p, &[-1, -50, 641, -693], &[], &[]), [5, 3, 37, -30]);
    let sums: Vec<i32> = hash_numbers::<f64>(40_000, 9).iter().map(|x| (x * 2147483648.0) as i32).collect();
    for (channels, inner) in [(50, 1), (8, 5), (1, 40), (40_000, 1), (2, 20_000)] {
        let outer = sums.len() / channels / inner;
        let bias: Vec<i32> = (0..channels as i32).map(|c| c.wrapping_mul(77_777_777)).collect();
        let scales: Vec<f32> = (0..channels).map(|c| [1e-7, 3e-8, f32::NAN, 1.0, -2e-8][c % 5]).collect();
        for (with_bias, with_scales) in [(false, false), (true, false), (false, true), (true, true)] {
            let multiplier = if with_scales { 0.37 } else { 4e-8 };
            let p = Requantise { outer, channels, inner, bias: with_bias, scales: with_scales, multiplier, zero: -3 };
            let got = run_to(&p, &sums, &bias, &scales);
            for (e, got) in got.into_iter().enumerate() {
                let c = e / inner % channels;
                let sum = f64::from(sums[e]) + if with_bias { f64::from(bias[c]) } else { 0.0 };
                let by = multiplier * if with_scales { f64::from(scales[c]) } else { 1.0 };
                let v = (sum * by).round_ties_even();
                let want = if v.is_nan() { -3.0 } else { (v - 3.0).clamp(-128.0, 127.0) };
                assert_eq!(f64::from(got), want, "{p:?} at {e}");
            }
        }
    }
}
