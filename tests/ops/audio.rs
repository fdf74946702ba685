//! Sound: short-time transforms, mel filters and log-mel spectra against torch, scipy, transformers and librosa in f64;
//! derivatives against differences; round trips; wrong use.

use crate::common::fixture::{Fixture, near};
use crate::common::{PLAIN, Tensor, run};
use arenagrad::graph::signal::{FftNorm, LogMel, LogMelOver, MelFilterbank, MelScale, Stft, WindowFunction};
use arenagrad::graph::window::PadMode;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Var, grad};

const F64: DType = DType::F64;

fn tensor(dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype: F64, dims: dims.to_vec(), data: data.to_vec() }
}

/// Numbers in −1 … 1.
fn noise(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| (((i + 1) * 7919 + seed * 104_729) % 2003) as f64 / 1001.5 - 1.0).collect()
}

/// The graph of one output of operands of these shapes.
fn graph(dims: &[&[usize]], f: impl for<'g> Fn(&[Var<'g>]) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("audio");
    let x: Vec<Var> = dims.iter().zip(["a", "b"]).map(|(d, name)| g.input(name, d, F64)).collect();
    g.finish([f(&x).named("y")]).unwrap()
}

fn value(operands: &[Tensor], f: impl for<'g> Fn(&[Var<'g>]) -> Var<'g>) -> Vec<f64> {
    let dims: Vec<&[usize]> = operands.iter().map(|t| &t.dims[..]).collect();
    run(&graph(&dims, f), operands, PLAIN)[0].data.clone()
}

/// Checks one case of the fixture: the result of `f`, and the gradients of its weighted sum.
fn agrees(case: &str, tolerance: f64, f: impl for<'g> Fn(&[Var<'g>]) -> Var<'g>) {
    Fixture::read("audio").agrees(case, tolerance, f);
}

#[test]
fn short_time_transforms_and_gradients_are_torchs() {
    use WindowFunction::{Blackman, Hamming, Hann, Rectangular};
    let forward = |case, opt: Stft| agrees(case, 1e-12, move |x| x[0].stft(opt).view_as_real());
    forward("stft_hann", Stft::new(16));
    forward("stft_hamming", Stft::new(12).hop(5).window(Hamming).center(false));
    forward("stft_blackman", Stft::new(10).hop(3).window(Blackman).pad_mode(None));
    forward("stft_odd", Stft::new(9).hop(2).window(Hann).window_length(6).pad_mode(Some(PadMode::Replicate)));
    forward("stft_circular", Stft::new(8).hop(8).window(Rectangular).pad_mode(Some(PadMode::Circular)));
    forward("stft_plain", Stft::new(8).hop(4).center(false));
    let back = |case, opt: Stft, n| agrees(case, 1e-12, move |z| z[0].view_as_complex().istft(opt, n));
    back("istft_hann", Stft::new(16), None);
    back("istft_length", Stft::new(16).hop(5).window(Hamming), Some(29));
    back("istft_odd", Stft::new(9).hop(2).window(Blackman).window_length(7), None);
    back("istft_plain", Stft::new(8).hop(3).window(Hamming).center(false), None);
}

#[test]
fn log_mel_and_its_gradients_are_those_of_the_formula() {
    let frame = LogMel::default().over(LogMelOver::Frame);
    let complex = |case, opt| agrees(case, 1e-9, move |x| x[0].view_as_complex().log_mel(x[1], opt));
    let block = |case, opt| agrees(case, 1e-9, move |x| x[0].log_mel(x[1], opt));
    complex("log_mel_frame", frame);
    complex("log_mel_clip", LogMel::default());
    complex("log_mel_row", frame.range(0.0));
    block("log_mel_cut", LogMel::default().floor(1.5).range(0.25));
    block("log_mel_floor", LogMel::default().floor(1.5).range(3.0));
    block("log_mel_range", frame.range(3.0));
}

#[test]
fn mel_filters_are_those_of_transformers_and_librosa() {
    let same = |key: &str, bank: MelFilterbank, every: usize| {
        let want = Fixture::read("audio").get(key).unwrap();
        let g = Builder::new("mel");
        let all = g.mel_filterbank(bank, F64);
        let got = run(&g.finish([all]).unwrap(), &[], PLAIN).remove(0);
        let bins = got.dims[1];
        assert_eq!([got.dims[0].div_ceil(every), bins], want.dims[..], "{key}");
        let kept: Vec<f64> = got.data.chunks(bins).step_by(every).flatten().copied().collect();
        // Weights near 0 are differences of frequencies of kilohertz.
        near(key, &kept, &want.data, 1e-12);
        assert!(got.data.iter().all(|w| *w >= 0.0), "{key}");
    };
    same("mel_whisper.y", MelFilterbank::new(80, 400, 16_000.0), 8);
    let htk = MelFilterbank::new(13, 128, 8000.0).fmin(100.0).fmax(3800.0).scale(MelScale::Htk).norm(false);
    same("mel_htk.y", htk, 1);
    same("mel_htk_area.y", MelFilterbank::new(9, 64, 22_050.0).scale(MelScale::Htk), 1);
    same("mel_peaks.y", MelFilterbank::new(12, 128, 16_000.0).fmin(20.0).fmax(7600.0).norm(false), 1);
    for scale in [MelScale::Htk, MelScale::Slaney] {
        for f in [0.0, 440.0, 999.0, 1000.0, 6400.0] {
            assert!((scale.hertz(scale.mel(f)) - f).abs() < 1e-9, "{scale:?} {f}");
        }
    }
}

/// A symmetric window weighs the samples of each frame by other numbers: one frame is their transform.
#[test]
fn a_frame_may_have_a_symmetric_window() {
    let opt = Stft::new(9).window(WindowFunction::Hamming).window_length(7).periodic(false).center(false);
    let x = tensor(&[9], &noise(9, 5));
    let weights = [&[0.0][..], &WindowFunction::Hamming.symmetric_weights(7), &[0.0]].concat();
    assert!((weights[1] - 0.08).abs() < 1e-15 && (weights[7] - 0.08).abs() < 1e-15, "{weights:?}");
    let got = value(std::slice::from_ref(&x), |x| x[0].stft(opt).view_as_real());
    let want = value(&[x, tensor(&[9], &weights)], |x| (x[0] * x[1]).rfft(None, -1, FftNorm::Backward).view_as_real());
    near("symmetric", &got, &want, 1e-14);
}

/// Transforms there and back give the signal, whatever the window, the hop and the border are.
#[test]
fn the_inverse_gives_the_signal_back() {
    for (n, opt) in [
        (50, Stft::new(16)),
        (47, Stft::new(16).hop(5).window(WindowFunction::Hamming)),
        (40, Stft::new(9).hop(3).window(WindowFunction::Blackman)),
        (41, Stft::new(16).hop(3).window_length(10).pad_mode(None)),
        (44, Stft::new(8).window(WindowFunction::Hamming).center(false)),
        (5, Stft::new(1)),
        (8, Stft::new(2).hop(2).window(WindowFunction::Rectangular)),
    ] {
        let x = tensor(&[2, 3, n], &noise(6 * n, n));
        let back = value(std::slice::from_ref(&x), |x| x[0].stft(opt).istft(opt, Some(n)));
        near(&format!("{n} {opt:?}"), &back, &x.data, 1e-13);
    }
}

/// A frame's maximum is not that of the clip.
#[test]
fn a_quiet_frame_is_cut_off_by_a_loud_one() {
    // Two frames of one bin: energies 10⁴ and 10⁻⁶.
    let spectrum = tensor(&[2, 2], &[1e2, 0.0, 1e-3, 0.0]);
    let of = |opt: LogMel| {
        value(std::slice::from_ref(&spectrum), move |x| x[0].log_mel(x[0].builder().constant_f64(&[1.0], [1, 1]), opt))
    };
    near("clip", &of(LogMel::default()), &[2.0, 0.0], 1e-15);
    near("frame", &of(LogMel::default().over(LogMelOver::Frame)), &[2.0, -0.5], 1e-15);
    near("floor", &of(LogMel::default().range(30.0).floor(1e-3)), &[2.0, 0.25], 1e-15);
}

/// Bins that tie for the maximum share what the bins below the range give, and what is cut off gets exactly 0.
#[test]
fn ties_share_and_cut_off_bins_get_zero() {
    let g = Builder::new("ties");
    let (x, f) = (g.input("x", [1, 8], F64), g.input("f", [5, 4], F64));
    let y = x.log_mel(f, LogMel::default().range(2.0));
    let weighted = (y * g.constant_f64(&[1.0, 2.0, 4.0, 8.0, 16.0], [1, 5])).sum(..);
    let step = grad(&g.finish([weighted.named("loss")]).unwrap(), "loss", &GradOptions::wrt(&["x", "f"])).unwrap();
    let spectrum = tensor(&[1, 8], &[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    // Filters 0 and 1 tie; 2 lies below the range, 3 below the floor, 4 has no weight.
    let mut filters = vec![0.0; 20];
    [(0, 1.0), (5, 1.0), (10, 1e-5), (15, 1e-12)].into_iter().for_each(|(i, w)| filters[i] = w);
    let outs = run(&step, &[spectrum, tensor(&[5, 4], &filters)], PLAIN);
    let v = step.view();
    let of = |name: &str| &outs[v.output_names.iter().position(|&n| v.str(n) == name).unwrap()].data;
    // (1 + 28/2)/4 and (2 + 28/2)/4 over ln 10.
    let (a, b) = (15.0 / 4.0 / 10f64.ln(), 16.0 / 4.0 / 10f64.ln());
    near("spectrum", of("grad.x"), &[2.0 * a, 2.0 * b, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 1e-14);
    let mut want = [[0.0; 4]; 5];
    (want[0], want[1]) = ([a; 4], [b; 4]);
    near("filters", of("grad.f"), want.as_flattened(), 1e-14);
    assert!(of("grad.f")[8..].iter().chain(&of("grad.x")[2..]).all(|g| *g == 0.0), "{outs:?}");
}

/// Silence has gradients of 0, and NaN stays NaN.
#[test]
fn silence_is_flat_and_nan_is_kept() {
    let g = Builder::new("silence");
    let (x, f) = (g.input("x", [2, 8], F64), g.input("f", [3, 4], F64));
    let y = x.log_mel(f, LogMel::default().over(LogMelOver::Frame));
    let graph = g.finish([y.named("y"), y.sum(..).named("loss")]).unwrap();
    let step = grad(&graph, "loss", &GradOptions::wrt(&["x", "f"])).unwrap();
    let filters = tensor(&[3, 4], &noise(12, 2).iter().map(|w| w.abs()).collect::<Vec<_>>());
    let outs = run(&step, &[tensor(&[2, 8], &[0.0; 16]), filters.clone()], PLAIN);
    assert!(outs[0].data.iter().all(|y| *y == -1.5), "{outs:?}");
    assert!(outs[2..].iter().flat_map(|t| &t.data).all(|g| *g == 0.0), "{outs:?}");
    let mut broken = noise(16, 1);
    broken[3] = f64::NAN;
    let outs = run(&step, &[tensor(&[2, 8], &broken), filters], PLAIN);
    assert!(
        outs[0].data[..3].iter().all(|y| y.is_nan()) && outs[0].data[3..].iter().all(|y| y.is_finite()),
        "{outs:?}"
    );
}

/// No signal, no filter weight too few: batches of 0 members run.
#[test]
fn empty_batches_run() {
    let opt = Stft::new(8);
    let y = value(&[tensor(&[0, 3, 20], &[])], |x| x[0].stft(opt).istft(opt, Some(20)));
    assert!(y.is_empty());
    let y = value(&[tensor(&[0, 2, 3, 10], &[]), tensor(&[2, 5], &noise(10, 1))], |x| {
        x[0].log_mel(x[1], LogMel::default())
    });
    assert!(y.is_empty());
}

fn refused(dims: &[usize], dtype: DType, f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> String {
    let g = Builder::new("g");
    let x = g.input("x", dims, dtype);
    g.finish([f(x)]).unwrap_err().to_string()
}

#[track_caller]
fn says(error: &str, parts: &[&str]) {
    assert!(parts.iter().all(|p| error.contains(p)) && error.contains("audio.rs"), "{error}");
}

#[test]
fn wrong_short_time_transforms_are_refused() {
    let stft = |dims: &[usize], dtype, opt| refused(dims, dtype, move |x| x.stft(opt));
    let opt = Stft::new(16);
    says(&stft(&[2, 50], F64, opt.hop(0)), &["stft(%0: f64[2,50])", "the hop is 0"]);
    says(&stft(&[2, 50], F64, Stft::new(0)), &["stft(%0: f64[2,50])", "n_fft is 0"]);
    says(&stft(&[50], F64, Stft::new(usize::MAX)), &["stft(%0: f64[50])", "n_fft is 18446744073709551615"]);
    says(&stft(&[50], F64, opt.window_length(17)), &["stft", "17 samples", "1 to n_fft = 16"]);
    says(&stft(&[50], F64, opt.window_length(0)), &["stft", "0 samples"]);
    says(&stft(&[3, 15], F64, opt.center(false)), &["stft(%0: f64[3,15])", "15 samples is shorter than n_fft = 16"]);
    says(&stft(&[8], F64, opt), &["stft(%0: f64[8])", "Reflect adds at most 7", "n_fft/2 = 8"]);
    says(&stft(&[7], F64, opt.pad_mode(Some(PadMode::Circular))), &["stft", "Circular adds at most 7"]);
    says(&stft(&[0], F64, opt.pad_mode(None)), &["stft", "0 samples"]);
    says(&stft(&[50], DType::I32, opt), &["stft(%0: i32[50])", "f32 or f64 is needed"]);
    says(&stft(&[50], DType::C64, opt), &["stft(%0: c64[50])", "f32 or f64 is needed"]);
    says(&stft(&[], F64, opt), &["stft(%0: f64[])", "scalar"]);
}

#[test]
fn wrong_inverses_are_refused() {
    let istft = |dims: &[usize], dtype, opt, n| refused(dims, dtype, move |x| x.istft(opt, n));
    let opt = Stft::new(16);
    says(&istft(&[9, 6], F64, opt, None), &["istft(%0: f64[9,6])", "complex"]);
    says(&istft(&[9], DType::C128, opt, None), &["istft(%0: c128[9])", "frames]"]);
    says(&istft(&[8, 6], DType::C128, opt, None), &["istft(%0: c128[8,6])", "8 bins", "n_fft = 16 has 9"]);
    says(&istft(&[9, 0], DType::C128, opt, None), &["istft(%0: c128[9,0])", "no frame"]);
    says(&istft(&[9, 6], DType::C128, opt.hop(0), None), &["istft", "the hop is 0"]);
    says(&istft(&[9, 6], DType::C128, opt, Some(0)), &["istft", "no sample"]);
    says(&istft(&[9, 6], DType::C128, opt, Some(29)), &["istft", "cover 28 samples, and 29 are wanted"]);
    says(&istft(&[9, 6], DType::C128, opt.center(false), None), &["squared windows sum to 0 at sample 0"]);
    // The last 8 samples of a centred transform are the end of the window: the very last weight is above 0.
    let rectangular = opt.window(WindowFunction::Rectangular).center(false);
    says(&istft(&[9, 3], DType::C128, rectangular.hop(17), None), &["squared windows sum to 0 at sample 16"]);
    says(&istft(&[9, 2], DType::C128, opt.window_length(4).hop(5), None), &["sum to 0 at sample 2"]);
    says(&istft(&[9, 6], DType::C128, opt.hop(usize::MAX), None), &["istft", "too many"]);
    // A signal of 2³³ samples: refused by the step that adds the frames, without a table of that length.
    says(&istft(&[9, 1 << 31], DType::C128, opt, None), &["above 2147483647"]);
}

#[test]
fn wrong_log_mels_are_refused() {
    let log_mel = |dims: &[usize], dtype, filters: &[usize], opt| {
        let filters = filters.to_vec();
        refused(dims, dtype, move |x| x.log_mel(x.builder().input("f", &filters, F64), opt))
    };
    let opt = LogMel::default();
    let frame = opt.over(LogMelOver::Frame);
    let c = DType::C128;
    says(&log_mel(&[3, 9], DType::C64, &[4, 9], opt), &["log_mel(c64[3,9], f64[4,9])", "filters are f64"]);
    says(&log_mel(&[3, 9], c, &[4, 8], opt), &["log_mel(c128[3,9], f64[4,8])", "8 bins", "of 9 has 9, or 5"]);
    says(&log_mel(&[3, 9], c, &[9], opt), &["log_mel(c128[3,9], f64[9])", "filters"]);
    says(&log_mel(&[3, 9], F64, &[4, 9], opt), &["log_mel(f64[3,9], f64[4,9])", "even number"]);
    says(&log_mel(&[9], c, &[4, 9], opt), &["log_mel(c128[9], f64[4,9])", "axis of frames"]);
    says(&log_mel(&[0, 9], c, &[4, 9], opt), &["log_mel", "no frame"]);
    says(&log_mel(&[3, 9], c, &[0, 9], opt), &["log_mel", "no filter"]);
    says(&log_mel(&[3, 0], c, &[4, 0], opt), &["log_mel", "no bin"]);
    says(&log_mel(&[], c, &[4, 9], frame), &["log_mel(c128[], f64[4,9])", "scalar"]);
    says(&log_mel(&[3, 9], DType::I32, &[4, 9], opt), &["log_mel(i32[3,9], f64[4,9])"]);
    for floor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        says(&log_mel(&[3, 9], c, &[4, 9], opt.floor(floor)), &["log_mel", "floor is"]);
    }
    for range in [-1.0, f64::NAN, f64::INFINITY] {
        says(&log_mel(&[3, 9], c, &[4, 9], opt.range(range)), &["log_mel", "range is"]);
    }
    // 10⁻⁴⁰ is no normal number of f32.
    let g = Builder::new("g");
    let (x, f) = (g.input("x", [3, 9], DType::C64), g.input("f", [4, 9], DType::F32));
    says(&g.finish([x.log_mel(f, opt.floor(1e-40))]).unwrap_err().to_string(), &["log_mel", "floor is 1e-40", "f32"]);
}

#[test]
fn wrong_filterbanks_are_refused() {
    let bank = MelFilterbank::new(10, 64, 8000.0);
    let mel = |bank, dtype| refused(&[1], F64, move |x| x.builder().mel_filterbank(bank, dtype));
    says(&mel(MelFilterbank::new(0, 64, 8000.0), F64), &["mel_filterbank: n_mels is 0"]);
    says(&mel(MelFilterbank::new(10, 0, 8000.0), F64), &["mel_filterbank: n_fft is 0"]);
    says(&mel(MelFilterbank::new(usize::MAX, 64, 8000.0), F64), &["mel_filterbank", "2²⁴ weights"]);
    says(&mel(MelFilterbank::new(10, 64, f64::NAN), F64), &["mel_filterbank", "the rate is NaN"]);
    says(&mel(bank.fmin(-1.0), F64), &["mel_filterbank", "-1 to 4000"]);
    says(&mel(bank.fmin(3000.0).fmax(3000.0), F64), &["mel_filterbank", "3000 to 3000"]);
    says(&mel(bank.fmax(4001.0), F64), &["mel_filterbank", "4001", "half the rate"]);
    says(&mel(bank.fmin(f64::NAN), F64), &["mel_filterbank", "NaN"]);
    says(&bank.fmin(-1.0).weights().unwrap_err().to_string(), &["mel_filterbank", "-1 to 4000"]);
    says(&mel(bank, DType::I32), &["mel_filterbank", "i32", "f32 or f64 is needed"]);
}

/// A signal that just fits: as long as a frame, and longer than its margin by one.
#[test]
fn the_shortest_signals_have_a_frame() {
    let dims = |n: usize, opt: Stft| {
        let g = Builder::new("short");
        g.input("x", [2, n], F64).stft(opt).dims().to_vec()
    };
    assert_eq!(dims(16, Stft::new(16).center(false)), [2, 9, 1]);
    assert_eq!(dims(19, Stft::new(16).center(false)), [2, 9, 1]);
    assert_eq!(dims(20, Stft::new(16).center(false)), [2, 9, 2]);
    assert_eq!(dims(9, Stft::new(16)), [2, 9, 3]);
    assert_eq!(dims(8, Stft::new(16).pad_mode(Some(PadMode::Circular))), [2, 9, 3]);
    assert_eq!(dims(1, Stft::new(16).pad_mode(None)), [2, 9, 1]);
}

/// The defaults are Whisper's: 10⁻¹⁰ is the floor, and eight powers of ten the range.
#[test]
fn log_mel_cuts_off_where_whisper_does() {
    assert_eq!(LogMel::default(), LogMel::default().floor(1e-10).range(8.0).over(LogMelOver::Clip));
    let bank = MelFilterbank::new(80, 400, 16_000.0);
    assert_eq!([bank.fmin, bank.fmax, bank.rate], [0.0, 8000.0, 16_000.0]);
    assert_eq!((bank.n_mels, bank.n_fft, bank.scale, bank.norm), (80, 400, MelScale::Slaney, true));
}

/// What comes behind a failed operation adds nothing: the first error stays.
#[test]
fn the_first_error_stays() {
    let all: [for<'g> fn(Var<'g>) -> Var<'g>; 4] = [
        |x| x.stft(Stft::new(8)),
        |x| x.istft(Stft::new(8), None),
        |x| x.log_mel(x, LogMel::default()),
        |x| x.builder().full(1.0, [3, 8], F64).log_mel(x, LogMel::default()),
    ];
    for (k, f) in all.into_iter().enumerate() {
        let g = Builder::new("failed");
        let failed = g.input("x", [2, 4], F64).reshape([5]);
        let first = g.error().unwrap().message;
        assert!(!f(failed).is_some(), "{k}");
        assert_eq!(g.finish([]).unwrap_err().message, first, "{k}");
    }
}
