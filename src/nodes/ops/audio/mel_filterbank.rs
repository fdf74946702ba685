//! Mel filters: triangles over the bins of a spectrum, evenly spaced on a scale of pitch.

use crate::ensure;
use crate::error::{Error, Kind, Location, Result};
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ops::fft::LONGEST_FFT;

/// The most weights of a filterbank.
const MOST_WEIGHTS: usize = 1 << 24;

/// A scale of pitch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MelScale {
    /// 2595·log₁₀(1 + f/700), of the Hidden Markov Model Toolkit.
    Htk,
    /// f·3/200 up to 1 kHz, and 27 steps for each factor of 6.4 above, of Slaney's Auditory Toolbox.
    #[default]
    Slaney,
}

/// Pitch of 1 kHz on Slaney's scale, where it turns from linear to logarithmic.
const SLANEY_TURN: f64 = 15.0;

impl MelScale {
    /// The pitch of a frequency in hertz.
    pub fn mel(self, hertz: f64) -> f64 {
        match self {
            MelScale::Htk => 2595.0 * (1.0 + hertz / 700.0).log10(),
            MelScale::Slaney if hertz < 1000.0 => hertz * 3.0 / 200.0,
            MelScale::Slaney => SLANEY_TURN + (hertz / 1000.0).ln() * 27.0 / 6.4f64.ln(),
        }
    }

    /// The frequency in hertz of a pitch.
    pub fn hertz(self, mel: f64) -> f64 {
        match self {
            MelScale::Htk => 700.0 * (10f64.powf(mel / 2595.0) - 1.0),
            MelScale::Slaney if mel < SLANEY_TURN => mel * 200.0 / 3.0,
            MelScale::Slaney => 1000.0 * ((mel - SLANEY_TURN) * 6.4f64.ln() / 27.0).exp(),
        }
    }
}

/// Options of [`Builder::mel_filterbank`]. [`MelFilterbank::new`] has librosa's defaults, which are Whisper's.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MelFilterbank {
    /// The number of filters.
    pub n_mels: usize,
    /// The length of the Fourier transform; there are n_fft/2 + 1 bins.
    pub n_fft: usize,
    /// Samples in a second.
    pub rate: f64,
    /// Where the first filter begins, in hertz.
    pub fmin: f64,
    /// Where the last filter ends, in hertz; at most half the rate.
    pub fmax: f64,
    /// The scale on which the filters are evenly spaced.
    pub scale: MelScale,
    /// Whether each triangle has the area 1 hertz (`norm="slaney"` elsewhere); else its peak is 1.
    pub norm: bool,
}

setters! {
    [] MelFilterbank {
        fmin: f64,
        fmax: f64,
        scale: MelScale,
        norm: bool,
    }
}

impl MelFilterbank {
    /// `n_mels` filters of area 1 on Slaney's scale from 0 to half the rate.
    pub fn new(n_mels: usize, n_fft: usize, rate: f64) -> MelFilterbank {
        MelFilterbank { n_mels, n_fft, rate, fmin: 0.0, fmax: rate / 2.0, scale: MelScale::Slaney, norm: true }
    }

    fn check(&self) -> Result<(), String> {
        let MelFilterbank { n_mels, n_fft, rate, fmin, fmax, .. } = *self;
        ensure!(n_mels >= 1, "n_mels is 0; it must be 1 or more");
        ensure!((1..=LONGEST_FFT).contains(&n_fft), "n_fft is {n_fft}; it must be 1 to {LONGEST_FFT}");
        let weights = n_mels.saturating_mul(n_fft / 2 + 1);
        ensure!(weights <= MOST_WEIGHTS, "{n_mels} filters of {} bins have more than 2²⁴ weights", n_fft / 2 + 1);
        ensure!(rate.is_finite() && rate > 0.0, "the rate is {rate}; it must be finite and above 0");
        ensure!(
            0.0 <= fmin && fmin < fmax && fmax <= rate / 2.0,
            "the filters run from {fmin} to {fmax}; they must rise within 0 to {}, half the rate",
            rate / 2.0
        );
        Ok(())
    }

    /// The weights `[n_mels, n_fft/2 + 1]`, filter by filter: start values of filters that are learnt.
    #[track_caller]
    pub fn weights(&self) -> Result<Vec<f64>> {
        let at = std::panic::Location::caller();
        let here = || Location::Source(at.file().into(), at.line());
        self.check().map_err(|why| Error::new(Kind::Shape, format!("mel_filterbank: {why}")).at(here()))?;
        let (low, high) = (self.scale.mel(self.fmin), self.scale.mel(self.fmax));
        let step = (high - low) / (self.n_mels + 1) as f64;
        let corner = |i: usize| self.scale.hertz(if i > self.n_mels { high } else { low + i as f64 * step });
        let bins = self.n_fft / 2 + 1;
        let mut weights = Vec::with_capacity(self.n_mels * bins);
        for filter in 0..self.n_mels {
            let [from, peak, to] = [corner(filter), corner(filter + 1), corner(filter + 2)];
            let scale = if self.norm { 2.0 / (to - from) } else { 1.0 };
            weights.extend((0..bins).map(|k| {
                let f = k as f64 * self.rate / self.n_fft as f64;
                let (up, down) = ((f - from) / (peak - from), (to - f) / (to - peak));
                up.min(down).max(0.0) * scale
            }));
        }
        Ok(weights)
    }
}

impl Builder {
    /// The constant `[n_mels, n_fft/2 + 1]` of mel filters, as `librosa.filters.mel`, and as the transpose of
    /// `mel_filter_bank` of Hugging Face's transformers. Filters that are narrower than a bin may have no weight but 0.
    #[track_caller]
    pub fn mel_filterbank(&self, bank: MelFilterbank, dtype: DType) -> Var<'_> {
        if !dtype.is_float() {
            return self.fail(Kind::Shape, format!("mel_filterbank: the type is {dtype}; f32 or f64 is needed"));
        }
        match bank.weights() {
            Ok(weights) => {
                self.with_caller(|| self.constant_f64(&weights, [bank.n_mels, bank.n_fft / 2 + 1]).cast(dtype))
            }
            Err(e) => self.fail(e.kind, e.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitches_of_known_frequencies() {
        let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-11 * want.max(1.0), "{got}, not {want}");
        // 700 hertz double the argument of the logarithm, 6300 make it ten.
        for (hertz, mel) in [(0.0, 0.0), (700.0, 2595.0 * 2f64.log10()), (6300.0, 2595.0)] {
            near(MelScale::Htk.mel(hertz), mel);
            near(MelScale::Htk.hertz(mel), hertz);
        }
        let just_above = 15.0 + 27.0 * 1.0005f64.ln() / 6.4f64.ln();
        for (hertz, mel) in [(200.0, 3.0), (1000.0, 15.0), (1000.5, just_above), (6400.0, 42.0)] {
            near(MelScale::Slaney.mel(hertz), mel);
            near(MelScale::Slaney.hertz(mel), hertz);
        }
    }

    #[test]
    fn a_bank_has_up_to_two_to_the_24_weights() {
        // 1024 filters of 2¹⁴ bins.
        assert_eq!(MelFilterbank::new(1024, 32_766, 8000.0).check(), Ok(()));
        let want = "1025 filters of 16384 bins have more than 2²⁴ weights";
        assert_eq!(MelFilterbank::new(1025, 32_766, 8000.0).check(), Err(want.to_string()));
        assert_eq!(MelFilterbank::new(1, 1, 8000.0).check(), Ok(()));
        assert_eq!(MelFilterbank::new(1, LONGEST_FFT, 8000.0).check(), Ok(()));
        let want = "n_fft is 16777217; it must be 1 to 16777216";
        assert_eq!(MelFilterbank::new(1, LONGEST_FFT + 1, 8000.0).check(), Err(want.to_string()));
    }

    #[test]
    fn a_rate_is_a_number_above_zero() {
        for rate in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            let want = format!("the rate is {rate}; it must be finite and above 0");
            assert_eq!(MelFilterbank::new(1, 8, rate).check(), Err(want));
        }
        assert_eq!(MelFilterbank::new(1, 8, 0.5).check(), Ok(()));
    }

    #[test]
    fn one_filter_is_a_triangle_over_its_bins() {
        // Corners at 0, 250 and 500 hertz, where Slaney's scale is linear, and a bin each 125 hertz.
        let bank = MelFilterbank::new(1, 8, 1000.0);
        let all = |bank: MelFilterbank| bank.weights().unwrap_or_default();
        let near = |got: &[f64], want: &[f64]| {
            let same = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(same, "{got:?}, not {want:?}");
        };
        near(&all(bank.norm(false)), &[0.0, 0.5, 1.0, 0.5, 0.0]);
        // The area of a triangle of height 1 is 250.
        near(&all(bank), &[0.0, 0.002, 0.004, 0.002, 0.0]);
    }
}
