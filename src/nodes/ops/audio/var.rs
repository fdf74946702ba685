//! Short-time Fourier transforms and log-mel spectra as methods of [`Var`].

use super::attrs::{LogMelAttrs, SpectrumLayout};
use super::stft::Stft;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::audio::log_mel::LogMel;
use crate::nodes::ops::fft::norm::FftNorm;

impl<'g> Var<'g> {
    /// The short-time Fourier transform of signals along the last axis: `[…, n_fft/2 + 1, frames]`, as in `torch.stft`
    /// of real numbers. Frame t is [`rfft`](Var::rfft) of the window times `n_fft` samples, which begin at t·hop, or
    /// lie around t·hop if frames are centred. Samples behind the last whole frame are left out.
    ///
    /// ```
    /// use arenagrad::graph::signal::{LogMel, MelFilterbank, Stft};
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("whisper");
    /// let sound = g.input("sound", [2, 16_000], DType::F32); // a second
    /// let spectrum = sound.stft(Stft::new(400).hop(160)).t(); // [2, 101, 201]
    /// let filters = g.mel_filterbank(MelFilterbank::new(80, 400, 16_000.0), DType::F32);
    /// let mel = spectrum.log_mel(filters, LogMel::default());
    /// assert_eq!(mel.dims()[..], [2, 101, 80]);
    /// # g.finish([mel])?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn stft(self, opt: Stft) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        self.g.with_caller(|| self.stft_frames(opt).unwrap_or_else(|why| self.refuse("stft", why)))
    }

    /// The inverse of [`Var::stft`], as in `torch.istft`: the frames of `[…, n_fft/2 + 1, frames]`, each times the
    /// window, are added where they lie, and divided by the sum of the squared windows. `length` is that of the signal;
    /// without it the signal ends with the last frame, or at half of it if frames are centred. It is an error if the
    /// squared windows sum to 0 (less than 10⁻¹¹) at a sample: so it is at the first one under Hann's window if frames
    /// are not centred.
    #[track_caller]
    pub fn istft(self, opt: Stft, length: Option<usize>) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        self.g.with_caller(|| self.overlapped_frames(opt, length).unwrap_or_else(|why| self.refuse("istft", why)))
    }

    /// The log-mel spectrum `[…, frames, n_mels]` of the spectrum `[…, frames, bins]`: the energies of mel bins as
    /// decimal logarithms L, cut off at `range` below their maximum m, as (max(L, m − range) + 4)/4. `filters` are
    /// `[n_mels, bins]`, such as [`mel_filterbank`](crate::graph::Builder::mel_filterbank) gives. The spectrum is
    /// complex, or real with all real parts before all imaginary parts; bins behind those of the filters are not read.
    /// The example of [`Var::stft`] shows it.
    ///
    /// An energy of `floor` or less has the derivative 0. A bin at m − range has its own derivative, as those above.
    /// What lower bins get goes to the bin whose logarithm is m, in equal shares if there are more than one.
    #[track_caller]
    pub fn log_mel(self, filters: Var<'g>, opt: LogMel) -> Var<'g> {
        let complex = self.is_some() && self.dtype().is_complex();
        let layout = if complex { SpectrumLayout::Complex } else { SpectrumLayout::Block };
        let LogMel { floor, range, over } = opt;
        self.g.emit1(Op::LOG_MEL, &[self, filters], &LogMelAttrs { floor, range, over, layout }.list())
    }

    #[track_caller]
    fn stft_frames(self, opt: Stft) -> Result<Var<'g>, String> {
        opt.check()?;
        let d = self.dims();
        let Some((&n, lead)) = d.split_last() else { return Err("a scalar has no samples".into()) };
        if !self.dtype().is_float() {
            return Err("f32 or f64 is needed".into());
        }
        let (margin, reflected) = (opt.margin(), opt.pad_mode.filter(|_| opt.center));
        if n.saturating_add(2 * margin) < opt.n_fft || n == 0 {
            return Err(format!("a signal of {n} samples is shorter than n_fft = {}", opt.n_fft));
        }
        if let Some(mode) = reflected.filter(|mode| margin > mode.most_padding(n)) {
            let most = mode.most_padding(n);
            return Err(format!("{mode:?} adds at most {most} samples to {n}; n_fft/2 = {margin} are needed"));
        }
        let rows = self.reshape([lead.iter().product(), 1, 1, n]);
        let (rows, zeros) = match reflected {
            Some(mode) => (rows.pad_with(&[0, 0, 0, margin], &[0, 0, 0, margin], mode), 0),
            None => (rows, margin),
        };
        let frames = rows.im2col(opt.frames(zeros, zeros)).t();
        let window = self.g.constant_f64(&opt.frame_weights(), [opt.n_fft]).cast(self.dtype());
        let spectra = (frames * window).rfft(None, -1, FftNorm::Backward).t();
        let count = spectra.axis_len(-1).unwrap_or(0);
        Ok(spectra.reshape([lead, &[opt.n_fft / 2 + 1, count]].concat()))
    }

    #[track_caller]
    fn overlapped_frames(self, opt: Stft, length: Option<usize>) -> Result<Var<'g>, String> {
        opt.check()?;
        let (d, bins) = (self.dims(), opt.n_fft / 2 + 1);
        let &[ref lead @ .., have, count] = &d[..] else { return Err("[…, n_fft/2 + 1, frames] is needed".into()) };
        if !self.dtype().is_complex() {
            return Err("complex numbers are needed".into());
        }
        if have != bins {
            return Err(format!("there are {have} bins; n_fft = {} has {bins}", opt.n_fft));
        }
        let covered = opt.covered(count, length)?;
        if let Some(at) = opt.first_uncovered(&covered, count) {
            return Err(format!(
                "the squared windows sum to 0 at sample {at}; a smaller hop or centred frames would do"
            ));
        }
        let window = self.g.constant_f64(&opt.frame_weights(), [opt.n_fft]).cast(self.dtype().part());
        let rows = lead.iter().product();
        let frames = self.reshape([rows, bins, count]).t().irfft(Some(opt.n_fft), -1, FftNorm::Backward) * window;
        let added = |frames: Var<'g>| frames.t().col2im([1, covered.length], opt.frames(covered.left, covered.right));
        let squares = added(window.square().broadcast([1, count, opt.n_fft]));
        Ok((added(frames) / squares).reshape([lead, &[covered.length]].concat()))
    }
}
