//! Fourier transforms, windows, mel filters.

use super::layout::dtype_or;
use super::{Entry, own, same};
use crate::import::{Cx, Out, one};
use arenagrad::graph::signal::FftNorm;
use arenagrad::graph::{DType, Var};
use std::f64::consts::PI;

pub const OPS: &[Entry] = &[
    same("DFT", dft),
    same("STFT", stft),
    own("HannWindow", |c| window(c, |t| (PI * t).sin().powi(2))),
    own("HammingWindow", |c| window(c, |t| 25.0 / 46.0 - (1.0 - 25.0 / 46.0) * (2.0 * PI * t).cos())),
    own("BlackmanWindow", |c| window(c, |t| 0.42 - 0.5 * (2.0 * PI * t).cos() + 0.08 * (4.0 * PI * t).cos())),
    own("MelWeightMatrix", mel),
];

/// `[…, 1]` or `[…, 2]` as complex numbers without the last axis.
fn complex(x: Var<'_>) -> Var<'_> {
    let parts = x.dims().last().copied().unwrap_or(0);
    let re = x.narrow(-1, 0, 1).squeeze(-1);
    let im = if parts == 2 { x.narrow(-1, 1, 1).squeeze(-1) } else { re.full_like(0.0) };
    re.complex(im)
}

/// Complex numbers as `[…, 2]`.
fn parts(z: Var<'_>) -> Var<'_> {
    z.real().stack(&[z.imag()], -1)
}

fn dft<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    // The expected values of the format are spectra summed in `f64`, whose parts differ much in size, and inverse
    // transforms summed in the type of the operand.
    let (x, own) = (c.x(0)?, c.x(0)?.dtype());
    let x = if c.flag("inverse", false) { x } else { x.cast(DType::F64) };
    let n = if c.has(1) { Some(c.integer(1)?.max(0) as usize) } else { None };
    let axis = match c.opset < 20 {
        true => c.int("axis", 1),
        false if c.has(2) => c.integer(2)?,
        false => -2,
    };
    let axis = c.axis(axis, x.rank())? as i64;
    let norm = FftNorm::Backward;
    let real = x.dims().last() == Some(&1);
    let y = match (c.flag("inverse", false), c.flag("onesided", false)) {
        (false, false) => parts(complex(x).fft(n, axis, norm)),
        (true, false) => parts(complex(x).ifft(n, axis, norm)),
        (false, true) if real => parts(x.squeeze(-1).rfft(n, axis, norm)),
        (false, true) => return c.wrong("half a spectrum is asked for complex numbers"),
        (true, true) => complex(x).irfft(n, axis, norm).unsqueeze(-1),
    };
    one(y.cast(own))
}

fn stft<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, step) = (c.x(0)?, c.integer(1)?.max(1) as usize);
    let d = x.dims();
    let size = match (c.has(3), c.has(2)) {
        (true, _) => c.integer(3)?.max(1) as usize,
        (false, true) => c.dims(2)?.first().copied().unwrap_or(1),
        (false, false) => return c.wrong("neither a window nor a frame length is given"),
    };
    let window = c.opt(2)?;
    if window.is_some_and(|w| *w.dims() != [size]) || d.len() != 3 || size > d[1] {
        return c.refuse(format!("frames of {size} of a signal of shape {d} with another window are not supported"));
    }
    // [batch, frames, parts, size]: the window is the last axis.
    let frames = x.sliding_window(1, size, step);
    let frames = match window {
        Some(w) => frames * w,
        None => frames,
    };
    let frames = frames.movedim(&[-1], &[2]);
    let half = c.flag("onesided", true) && d[2] == 1;
    one(match half {
        true => parts(frames.squeeze(-1).rfft(None, 2, FftNorm::Backward)),
        false => {
            let y = parts(complex(frames).fft(None, 2, FftNorm::Backward));
            if c.flag("onesided", true) { y.narrow(2, 0, size / 2 + 1) } else { y }
        }
    })
}

fn numbers<'g>(c: &Cx<'_, 'g>, values: &[f64], dims: &[usize]) -> Out<'g> {
    let dtype = dtype_or(c, "output_datatype", DType::F32)?;
    one(c.g.constant_f64(values, dims).cast(dtype))
}

/// A window as a function of the place in it, 0 to 1.
fn window<'g>(c: &Cx<'_, 'g>, f: impl Fn(f64) -> f64) -> Out<'g> {
    let n = c.integer(0)?;
    if !(0..1 << 20).contains(&n) {
        return c.wrong(format!("a window of {n} elements"));
    }
    let whole = if c.flag("periodic", true) { n } else { n - 1 };
    let values: Vec<f64> = (0..n).map(|i| f(i as f64 / whole.max(1) as f64)).collect();
    numbers(c, &values, &[n as usize])
}

fn mel<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let [bins, length] = [c.integer(0)?, c.integer(1)?];
    let [rate, low, high] = [c.number(2)?, c.number(3)?, c.number(4)?];
    if !(1..1 << 12).contains(&bins) || !(1..1 << 16).contains(&length) || rate <= 0.0 {
        return c.wrong(format!("{bins} bins, frames of {length}, {rate} samples a second"));
    }
    let (bins, spectrum) = (bins as usize, length as usize / 2 + 1);
    let to_mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / 10f64.ln();
    let step = (to_mel(high) - to_mel(low)) / (bins + 2) as f64;
    let edge = |i: usize| {
        let hertz = 700.0 * ((i as f64 * step + to_mel(low)) / 2595.0 * 10f64.ln()).exp_m1();
        ((length as f64 + 1.0) * hertz / rate).floor().max(0.0) as usize
    };
    let edges: Vec<usize> = (0..bins + 2).map(edge).collect();
    if edges.iter().any(|&e| e > spectrum) {
        return c.wrong("the highest frequency is above half of the sample rate");
    }
    let mut all = vec![0.0; spectrum * bins];
    for i in 0..bins {
        let [low, mid, high] = [edges[i], edges[i + 1], edges[i + 2]];
        let mut put = |j: usize, x: f64| all.get_mut(j * bins + i).map(|slot| *slot = x);
        if low == mid {
            put(mid, 1.0);
        }
        (low..=mid).filter(|_| mid > low).for_each(|j| _ = put(j, (j - low) as f64 / (mid - low) as f64));
        (mid..high).for_each(|j| _ = put(j, (high - j) as f64 / (high - mid) as f64));
    }
    numbers(c, &all, &[spectrum, bins])
}
