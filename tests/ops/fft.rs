//! Fourier transforms: golden values, the definition, inverses, derivatives, convolutions, refusals.

use crate::common::fixture::Fixture;
use crate::common::{PLAIN, run};
use arenagrad::graph::signal::{ConvPart, FftNorm};
use arenagrad::prelude::*;
use std::f64::consts::TAU;

type C = [f64; 2];

const BACK: FftNorm = FftNorm::Backward;

/// Numbers in −1 … 1.
fn noise(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| (((i + 1) * 7919 + seed * 104_729) % 2003) as f64 / 1001.5 - 1.0).collect()
}

fn pairs(n: usize, seed: usize) -> Vec<C> {
    noise(2 * n, seed).as_chunks::<2>().0.to_vec()
}

/// Σ zₙ e^(sign·2πikn/N).
fn definition(z: &[C], sign: f64) -> Vec<C> {
    let n = z.len();
    let one = |k: usize| {
        z.iter().enumerate().fold([0.0; 2], |y, (i, z)| {
            let (s, c) = (sign * TAU * ((i * k) % n) as f64 / n as f64).sin_cos();
            [y[0] + z[0] * c - z[1] * s, y[1] + z[0] * s + z[1] * c]
        })
    };
    (0..n).map(one).collect()
}

fn close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let size = want.iter().fold(1.0f64, |m, x| m.max(x.abs()));
    let off = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(off <= tolerance * size, "{what}: {off:e} apart\n{got:?}\n{want:?}");
}

/// The output of `f` on a complex input of this shape.
fn of_complex(dims: &[usize], z: &[C], f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> Vec<f64> {
    let g = Builder::new("g");
    let x = g.input("x", dims, DType::C128);
    let mut p = Session::new().compile(&g.finish([f(x).view_as_real().named("y")]).unwrap()).unwrap();
    p.values_mut::<C>("x").unwrap().copy_from_slice(z);
    p.step().unwrap();
    p.values::<f64>("y").unwrap().to_vec()
}

/// The output of `f` on a real input of this shape.
fn of_real(dims: &[usize], x: &[f64], f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> Vec<f64> {
    let g = Builder::new("g");
    let leaf = g.input("x", dims, DType::F64);
    let mut p = Session::new().compile(&g.finish([f(leaf).view_as_real().named("y")]).unwrap()).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(x);
    p.step().unwrap();
    p.values::<f64>("y").unwrap().to_vec()
}

#[test]
fn four_elements_in_a_block() {
    let block = [1.0, 2.0, 0.0, -1.0, 0.0, 0.5, -1.0, 0.0];
    let there = |x: Var<'_>| x.block_to_complex().fft(None, -1, FftNorm::None).complex_to_block().value();
    let y = of_real(&[8], &block, |x| x.builder().var(there(x)));
    close("forward", &y, &[2.0, 1.5, 0.0, 0.5, -0.5, -2.0, -1.5, 4.0], 1e-15);
    let back = of_real(&[8], &y, |x| x.block_to_complex().ifft(None, -1, FftNorm::None).complex_to_block());
    close("back", &back, &block.map(|x| 4.0 * x), 1e-15);
}

#[test]
fn methods_are_the_definition_and_inverses() {
    for n in [1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 31, 60, 97, 128, 360] {
        let z = pairs(2 * n, n);
        let want: Vec<f64> = z.chunks(n).flat_map(|row| definition(row, -1.0)).flatten().collect();
        close("fft", &of_complex(&[2, n], &z, |z| z.fft(None, -1, BACK)), &want, 1e-12);
        for norm in [BACK, FftNorm::Ortho, FftNorm::Forward] {
            let back = of_complex(&[2, n], &z, |z| z.fft(None, 1, norm).ifft(None, 1, norm));
            close("ifft of fft", &back, z.as_flattened(), 1e-13);
        }
        // Parseval: the transform keeps the sum of squares.
        let squares = |y: &[f64]| y.iter().map(|x| x * x).sum::<f64>();
        let kept = squares(&of_complex(&[2, n], &z, |z| z.fft(None, -1, FftNorm::Ortho)));
        assert!((kept / squares(z.as_flattened()) - 1.0).abs() < 1e-13, "{n}");
        let x = noise(3 * n, n);
        let half = of_real(&[3, n], &x, |x| x.rfft(None, -1, BACK));
        close("rfft", &half, &of_real(&[3, n], &x, |x| x.fft(None, -1, BACK).narrow(-1, 0, n / 2 + 1)), 1e-13);
        let back = of_real(&[3, n], &x, |x| x.rfft(None, -1, BACK).irfft(Some(n), -1, BACK));
        close("irfft of rfft", &back, &x, 1e-13);
    }
}

#[test]
fn factors_are_numpys() {
    let z = pairs(6, 1);
    let plain: Vec<f64> = definition(&z, -1.0).concat();
    let times = |k: f64| plain.iter().map(|x| k * x).collect::<Vec<_>>();
    for (norm, there, back) in [
        (BACK, 1.0, 1.0 / 6.0),
        (FftNorm::Ortho, 6f64.sqrt().recip(), 6f64.sqrt().recip()),
        (FftNorm::Forward, 1.0 / 6.0, 1.0),
        (FftNorm::None, 1.0, 1.0),
    ] {
        close("there", &of_complex(&[6], &z, |z| z.fft(None, 0, norm)), &times(there), 1e-14);
        let inverse: Vec<f64> = definition(&z, 1.0).concat().iter().map(|x| back * x).collect();
        close("back", &of_complex(&[6], &z, |z| z.ifft(None, 0, norm)), &inverse, 1e-14);
    }
}

/// Values are NumPy's and SciPy's, and gradients torch's.
#[test]
fn values_and_gradients_are_those_of_numpy_scipy_and_torch() {
    use FftNorm::{Forward, Ortho};
    type Transform = for<'g> fn(Var<'g>) -> Var<'g>;
    let all = Fixture::read("fft");
    let complex: [(&str, Transform); 9] = [
        ("fft_prime", |z| z.fft(None, -1, BACK)),
        ("fft_ortho", |z| z.fft(None, -1, Ortho)),
        ("fft_pad", |z| z.fft(Some(32), 0, Forward)),
        ("ifft_crop", |z| z.ifft(Some(12), -1, BACK)),
        ("ifft_forward", |z| z.ifft(None, 0, Forward)),
        ("fft2", |z| z.fft2(BACK)),
        ("ifft2", |z| z.ifft2(Ortho)),
        ("fftn", |z| z.fftn([0, 2], BACK)),
        ("ifftn", |z| z.ifftn([0, 1, 2], BACK)),
    ];
    for (case, f) in complex {
        all.agrees(case, 1e-12, |x| f(x[0].view_as_complex()).view_as_real());
    }
    let spectra: [(&str, Transform); 4] = [
        ("rfft_odd", |x| x.rfft(None, -1, BACK)),
        ("rfft_even", |x| x.rfft(None, 0, Ortho)),
        ("rfft2", |x| x.rfft2(BACK)),
        ("rfftn", |x| x.rfftn([0, 1, 2], Forward)),
    ];
    for (case, f) in spectra {
        all.agrees(case, 1e-12, |x| f(x[0]).view_as_real());
    }
    let signals: [(&str, Transform); 4] = [
        ("irfft_odd", |z| z.irfft(Some(25), -1, BACK)),
        ("irfft_even", |z| z.irfft(None, -1, Forward)),
        ("irfft2", |z| z.irfft2(None, Ortho)),
        ("irfftn", |z| z.irfftn(None, [0, 1, 2], BACK)),
    ];
    for (case, f) in signals {
        all.agrees(case, 1e-12, |x| f(x[0].view_as_complex()));
    }
    all.agrees("fftshift", 1e-12, |x| x[0].fftshift([0, 1]));
    all.agrees("ifftshift", 1e-12, |x| x[0].ifftshift([0, 1]));
    let parts = [("conv_full", ConvPart::Full), ("conv_same", ConvPart::Same), ("conv_valid", ConvPart::Valid)];
    for (case, part) in parts {
        all.agrees(case, 1e-12, |x| x[0].fft_conv(x[1], part));
    }
    all.agrees("psd_even", 1e-12, |x| x[0].psd(50.0));
    all.agrees("psd_odd", 1e-12, |x| x[0].psd(8.0));
    let frequencies = |f: for<'g> fn(&'g Builder) -> Var<'g>| {
        let g = Builder::new("frequencies");
        run(&g.finish([f(&g).named("y")]).unwrap(), &[], PLAIN)[0].data.clone()
    };
    close("fftfreq", &frequencies(|g| g.fftfreq(9, 0.25, DType::F64)), &all.get("fftfreq.y").unwrap().data, 1e-15);
    close("rfftfreq", &frequencies(|g| g.rfftfreq(10, 3.0, DType::F64)), &all.get("rfftfreq.y").unwrap().data, 1e-15);
}

#[test]
fn lengths_axes_and_dimensions() {
    let z = pairs(12, 2);
    let row = |k: usize| z[4 * k..4 * k + 4].to_vec();
    // Cut to 3, padded to 6.
    let cut: Vec<f64> = (0..3).flat_map(|k| definition(&row(k)[..3], -1.0)).flatten().collect();
    close("cut", &of_complex(&[3, 4], &z, |z| z.fft(Some(3), -1, BACK)), &cut, 1e-14);
    let long: Vec<f64> =
        (0..3).flat_map(|k| definition(&[&row(k)[..], &[[0.0; 2]; 2]].concat(), -1.0)).flatten().collect();
    close("padded", &of_complex(&[3, 4], &z, |z| z.fft(Some(6), -1, BACK)), &long, 1e-14);
    let turned = of_complex(&[3, 4], &z, |z| z.t().fft(None, -1, BACK).t());
    close("first axis", &of_complex(&[3, 4], &z, |z| z.fft(None, 0, BACK)), &turned, 1e-15);
    // Two axes by definition.
    let at = |a: usize, b: usize| {
        let mut y = [0.0; 2];
        for (i, z) in z.iter().enumerate() {
            let (s, c) = (-TAU * ((i / 4 * a) as f64 / 3.0 + (i % 4 * b) as f64 / 4.0)).sin_cos();
            y = [y[0] + z[0] * c - z[1] * s, y[1] + z[0] * s + z[1] * c];
        }
        y
    };
    let want: Vec<f64> = (0..12).flat_map(|i| at(i / 4, i % 4)).collect();
    close("fft2", &of_complex(&[3, 4], &z, |z| z.fft2(BACK)), &want, 1e-14);
    close("fftn", &of_complex(&[3, 4], &z, |z| z.fftn(.., BACK)), &want, 1e-14);
    close("ifft2", &of_complex(&[3, 4], &z, |z| z.fft2(BACK).ifft2(BACK)), z.as_flattened(), 1e-14);
    close("ifftn", &of_complex(&[3, 4], &z, |z| z.ifftn([0, 1], BACK).fft2(BACK)), z.as_flattened(), 1e-14);
    let x = noise(30, 4);
    let half = of_real(&[2, 3, 5], &x, |x| x.rfft2(BACK));
    close("rfft2", &half, &of_real(&[2, 3, 5], &x, |x| x.fft2(BACK).narrow(-1, 0, 3)), 1e-14);
    close("irfft2", &of_real(&[2, 3, 5], &x, |x| x.rfft2(BACK).irfft2(Some(5), BACK)), &x, 1e-14);
    close("irfftn", &of_real(&[2, 3, 5], &x, |x| x.rfftn(.., BACK).irfftn(Some(5), .., BACK)), &x, 1e-14);
    let even = of_real(&[3, 10], &x, |x| x.rfft(None, -1, BACK).irfft(None, -1, BACK));
    close("irfft without n", &even, &x, 1e-14);
}

#[test]
fn shifts_and_frequencies() {
    let x: Vec<f64> = (0..5).map(f64::from).collect();
    assert_eq!(of_real(&[5], &x, |x| x.fftshift(0)), [3.0, 4.0, 0.0, 1.0, 2.0]);
    assert_eq!(of_real(&[5], &x, |x| x.ifftshift(0)), [2.0, 3.0, 4.0, 0.0, 1.0]);
    assert_eq!(of_real(&[5], &x, |x| x.fftshift(0).ifftshift(..)), x);
    assert_eq!(of_real(&[2, 2], &x[..4], |x| x.fftshift(..)), [3.0, 2.0, 1.0, 0.0]);
    let frequencies = |f: for<'g> fn(&'g Builder) -> Var<'g>| of_real(&[1], &[0.0], |x| f(x.builder()));
    close("5", &frequencies(|g| g.fftfreq(5, 0.1, DType::F64)), &[0.0, 2.0, 4.0, -4.0, -2.0], 1e-15);
    assert_eq!(frequencies(|g| g.fftfreq(4, 0.25, DType::F64)), [0.0, 1.0, -2.0, -1.0]);
    assert_eq!(frequencies(|g| g.rfftfreq(4, 0.25, DType::F64)), [0.0, 1.0, 2.0]);
    assert_eq!(frequencies(|g| g.rfftfreq(5, 0.2, DType::F64)), [0.0, 1.0, 2.0]);
}

#[test]
fn convolutions_and_power() {
    for (n, m) in [(7, 3), (3, 7), (16, 5), (1, 1), (10, 10)] {
        let (x, k) = (noise(2 * n, n), noise(m, m));
        let sum = |row: &[f64], i: usize| (0..n).filter(|&j| (j..j + m).contains(&i)).map(|j| row[j] * k[i - j]).sum();
        let full: Vec<Vec<f64>> = x.chunks(n).map(|row| (0..n + m - 1).map(|i| sum(row, i)).collect()).collect();
        let part = |from: usize, len: usize| full.iter().flat_map(|r| r[from..from + len].to_vec()).collect::<Vec<_>>();
        for (mode, want) in [
            (ConvPart::Full, part(0, n + m - 1)),
            (ConvPart::Same, part((m - 1) / 2, n)),
            (ConvPart::Valid, part(n.min(m) - 1, n.max(m) - n.min(m) + 1)),
        ] {
            let y = of_real(&[2, n], &x, |x| x.fft_conv(x.builder().constant_f64(&k, [m]), mode));
            close(&format!("{mode:?} {n} {m}"), &y, &want, 1e-13);
            let z = of_real(&[2, n], &x, |x| {
                let kernel = x.builder().constant_f64(&k, [m]).cast(DType::C128);
                x.cast(DType::C128).fft_conv(kernel, mode).real()
            });
            close("of complex numbers", &z, &want, 1e-13);
        }
    }
    for n in [8, 9] {
        let x = noise(n, 3);
        let power = of_real(&[n], &x, |x| x.psd(100.0));
        assert_eq!(power.len(), n / 2 + 1);
        let mean = x.iter().map(|x| x * x).sum::<f64>() / n as f64;
        close("power", &[power.iter().sum::<f64>() * 100.0 / n as f64], &[mean], 1e-14);
    }
}

#[test]
fn wrong_transforms_are_refused() {
    let refused = |f: for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>| {
        let g = Builder::new("g");
        let (z, x) = (g.input("z", [2, 3], DType::C64), g.input("x", [2, 0], DType::F32));
        g.finish([f(z, x)]).unwrap_err().to_string()
    };
    let cases: [(for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>, &str); 11] = [
        (|_, x| x.rfft(None, -1, BACK), "rfft(%1: f32[2,0]): a transform has 1 element or more"),
        (|z, _| z.fft(Some(0), -1, BACK), "a transform has 1 element or more"),
        (|z, _| z.fft(None, 2, BACK), "axis 2 is outside rank 2"),
        (|z, _| z.rfft(None, -1, BACK), "rfft(c64[2,3]): operand 0 is c64, and the op is for real numbers"),
        (|_, x| x.irfft(Some(3), -1, BACK), "irfft(f32[2,2]): operand 0 is f32; c64 or c128 is needed"),
        (|z, _| z.narrow(1, 0, 1).irfft(None, -1, BACK), "n is 0; it must be 1 or more"),
        (|z, _| z.fft(Some(1 << 25), -1, BACK), "a transform of 33554432 elements; at most 16777216 are allowed"),
        (|z, _| z.fftn([0, 0], BACK), "axis 0 is named twice"),
        (
            |_, x| x.builder().iota(0, [4], DType::I32).fft(None, 0, BACK),
            "fft(i32[4]): operand 0 is i32; c64 or c128 is needed",
        ),
        (|z, x| z.fft_conv(x, ConvPart::Full), "fft_conv("),
        (|z, _| z.builder().fftfreq(4, 0.0, DType::F32), "a finite d other than 0"),
    ];
    for (f, want) in cases {
        let e = refused(f);
        assert!(e.contains(want) && e.contains("fft.rs:"), "{e}\n{want}");
    }
}

#[test]
fn spectra_and_convolutions_that_do_not_fit_are_refused() {
    type Bad = for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>;
    let one_type = "one type of floats is needed, and 1 element or more";
    let cases: [(&str, &str, Bad); 17] = [
        ("fft_conv(%0: f32[2,4]): the kernel is f64[3,3]", one_type, |x, _| {
            x.fft_conv(x.builder().input("k", [3, 3], DType::F64), ConvPart::Full)
        }),
        ("fft_conv(", one_type, |x, k| x.cast(DType::I32).fft_conv(k.cast(DType::I32), ConvPart::Full)),
        ("fft_conv(", one_type, |x, k| x.narrow(1, 0, 0).fft_conv(k, ConvPart::Same)),
        ("fft_conv(%0: f32[2,4]): the kernel is f32[3,0]", one_type, |x, k| {
            x.fft_conv(k.narrow(1, 0, 0), ConvPart::Same)
        }),
        ("fft_conv(%0: f32[2,4])", "it does not broadcast with the kernel's [3,2]", |x, k| {
            x.fft_conv(k, ConvPart::Valid)
        }),
        ("fft_conv(", "a scalar has no axis to convolve along", |x, k| x.sum(..).fft_conv(k, ConvPart::Full)),
        ("fft_conv(", "a scalar has no axis to convolve along", |x, k| x.fft_conv(k.sum(..), ConvPart::Full)),
        ("psd(%0: f32[2,4])", "the rate is 0; it must be finite and above 0", |x, _| x.psd(0.0)),
        ("psd(%0: f32[2,4])", "the rate is -1; it", |x, _| x.psd(-1.0)),
        ("psd(%0: f32[2,4])", "the rate is inf; it", |x, _| x.psd(f64::INFINITY)),
        ("psd(%0: f32[2,4])", "the rate is NaN; it", |x, _| x.psd(f64::NAN)),
        ("psd(", "a scalar has no axis to transform along", |x, _| x.sum(..).psd(1.0)),
        ("rfft(c64[2,4])", "operand 0 is c64", |x, _| x.cast(DType::C64).psd(1.0)),
        ("block_to_complex(", "the last axis must hold as many real as imaginary parts", |x, _| {
            x.narrow(1, 0, 3).block_to_complex()
        }),
        ("block_to_complex(", "the last axis must hold as many real as imaginary parts", |x, _| {
            x.sum(..).block_to_complex()
        }),
        ("rfftn(%0: f32[2,4])", "there is no axis to transform along", |x, _| x.rfftn([0i64; 0], BACK)),
        ("irfftn(", "there is no axis to transform along", |x, _| x.cast(DType::C64).irfftn(None, [0i64; 0], BACK)),
    ];
    for (start, why, f) in cases {
        let g = Builder::new("g");
        let (x, k) = (g.input("x", [2, 4], DType::F32), g.input("kernel", [3, 2], DType::F32));
        assert!(!f(x, k).is_some(), "{why}");
        let e = g.finish([]).unwrap_err().to_string();
        assert!(e.contains(start) && e.contains(why) && e.contains("fft.rs:"), "{e}\n{start} {why}");
    }
}

#[test]
fn frequencies_have_a_length_a_distance_and_a_type() {
    let refused = |f: &dyn for<'g> Fn(&'g Builder) -> Var<'g>, want: &str| {
        let g = Builder::new("g");
        assert!(!f(&g).is_some(), "{want}");
        let e = g.finish([]).unwrap_err().to_string();
        assert!(e.contains(want) && e.contains("f32 or f64 are needed") && e.contains("fft.rs:"), "{e}\n{want}");
    };
    refused(&|g| g.fftfreq((1 << 24) + 1, 1.0, DType::F32), "fftfreq(16777217, 1, f32): n from 1 to 16777216");
    refused(&|g| g.rfftfreq(0, 1.0, DType::F32), "rfftfreq(0, 1, f32)");
    refused(&|g| g.rfftfreq(4, f64::INFINITY, DType::F64), "rfftfreq(4, inf, f64)");
    refused(&|g| g.fftfreq(4, f64::NAN, DType::F64), "fftfreq(4, NaN, f64)");
    refused(&|g| g.fftfreq(4, 1.0, DType::I64), "fftfreq(4, 1, i64)");
    refused(&|g| g.fftfreq(4, 1.0, DType::C64), "fftfreq(4, 1, c64)");
    assert_eq!(of_real(&[1], &[0.0], |x| x.builder().fftfreq(1, 0.5, DType::F64)), [0.0]);
    assert_eq!(of_real(&[1], &[0.0], |x| x.builder().fftfreq(2, 0.25, DType::F32).cast(DType::F64)), [0.0, -2.0]);
}

#[test]
fn a_convolution_is_no_longer_than_a_fast_length() {
    for ([n, m], want) in [([7, 3], "n=9 "), ([10, 10], "n=20 "), ([1, 1], "n=1 ")] {
        let g = Builder::new("g");
        let (x, k) = (g.input("x", [n], DType::F32), g.input("k", [m], DType::F32));
        let y = x.fft_conv(k, ConvPart::Full);
        assert_eq!(y.dims()[..], [n + m - 1]);
        let text = g.finish([y]).unwrap().to_string();
        assert!(text.lines().any(|l| l.contains("= irfft ") && l.contains(want)), "{want}: {text}");
    }
}

#[test]
fn the_power_of_a_short_row() {
    // The half spectrum is 10, −2 + 2i and −2.
    close("four", &of_real(&[4], &[1.0, 2.0, 3.0, 4.0], |x| x.psd(0.5)), &[50.0, 8.0, 2.0], 1e-15);
    close("one", &of_real(&[2, 1], &[3.0, -1.0], |x| x.psd(2.0)), &[4.5, 0.5], 1e-15);
}

#[test]
fn rows_of_blocks_are_rows_of_complex_numbers() {
    let x: Vec<f64> = (0..8).map(f64::from).collect();
    let pairs = of_real(&[2, 4], &x, |x| x.block_to_complex());
    assert_eq!(pairs, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
    assert_eq!(of_real(&[2, 4], &x, |x| x.block_to_complex().complex_to_block()), x);
    let g = Builder::new("odd");
    assert_eq!(g.input("x", [3, 4], DType::F32).block_to_complex().dims()[..], [3, 2]);
}

/// What comes behind a failed operation adds nothing: the first error stays.
#[test]
fn the_first_error_stays() {
    let all: [for<'g> fn(Var<'g>) -> Var<'g>; 14] = [
        |x| x.fft(None, -1, BACK),
        |x| x.irfft(None, 0, BACK),
        |x| x.fft2(BACK),
        |x| x.rfftn([0, 1], BACK),
        |x| x.rfftn([0i64; 0], BACK),
        |x| x.irfftn(None, [0i64; 0], BACK),
        |x| x.fftshift(0),
        |x| x.ifftshift(..),
        |x| x.fft_conv(x, ConvPart::Full),
        |x| x.builder().full(1.0, [3], DType::F32).fft_conv(x, ConvPart::Full),
        |x| x.fft_conv(x.builder().full(1.0, [3], DType::F32), ConvPart::Full),
        |x| x.psd(1.0),
        |x| x.block_to_complex(),
        |x| x.complex_to_block(),
    ];
    for (k, f) in all.into_iter().enumerate() {
        let g = Builder::new("failed");
        let failed = g.input("x", [2, 4], DType::F32).reshape([5]);
        let first = g.error().unwrap().message;
        assert!(!f(failed).is_some(), "{k}");
        assert_eq!(g.finish([]).unwrap_err().message, first, "{k}");
    }
}
