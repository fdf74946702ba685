//! Options of short-time Fourier transforms, and how frames lie on a signal.

use super::window_function::WindowFunction;
use crate::ensure;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ops::fft::LONGEST_FFT;
use crate::nodes::ops::layout::pad_mode::PadMode;
use crate::nodes::ops::window::unfold::Unfold;

/// Squared windows whose sum is below this cannot be divided by, as in torch.
const LEAST_SQUARED_WINDOWS: f64 = 1e-11;

/// Options of [`Var::stft`](crate::graph::Var::stft) and [`Var::istft`](crate::graph::Var::istft), as in torch.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stft {
    /// Samples of a frame, the length of its Fourier transform.
    pub n_fft: usize,
    /// Samples from the start of a frame to that of the next one.
    pub hop: usize,
    /// The weights of a frame's samples.
    pub window: WindowFunction,
    /// Samples of the window, at most `n_fft`; zeros stand on both sides of a shorter one. Torch's `win_length`.
    pub window_length: usize,
    /// Whether the window is periodic, torch's default, or symmetric: torch's `periodic=False`.
    pub periodic: bool,
    /// Whether frame t is centred at sample t·hop: the signal is continued by n_fft/2 samples on both sides. Else frame
    /// t begins there.
    pub center: bool,
    /// How a centred signal is continued; `None` is zeros.
    pub pad_mode: Option<PadMode>,
}

setters! {
    [] Stft {
        hop: usize,
        window: WindowFunction,
        window_length: usize,
        periodic: bool,
        center: bool,
        pad_mode: Option<PadMode>,
    }
}

impl Stft {
    /// Centred frames of `n_fft` samples, a quarter of a frame apart, under Hann's window; the signal is reflected at
    /// its ends.
    pub fn new(n_fft: usize) -> Stft {
        Stft {
            n_fft,
            hop: (n_fft / 4).max(1),
            window: WindowFunction::Hann,
            window_length: n_fft,
            periodic: true,
            center: true,
            pad_mode: Some(PadMode::Reflect),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let Stft { n_fft, hop, window_length, .. } = *self;
        ensure!((1..=LONGEST_FFT).contains(&n_fft), "n_fft is {n_fft}; it must be 1 to {LONGEST_FFT}");
        ensure!(hop >= 1, "the hop is 0; it must be 1 or more");
        ensure!(
            (1..=n_fft).contains(&window_length),
            "the window has {window_length} samples; it must have 1 to n_fft = {n_fft}"
        );
        Ok(())
    }

    /// Samples that a centred signal has more on each side.
    pub(super) fn margin(&self) -> usize {
        if self.center { self.n_fft / 2 } else { 0 }
    }

    /// The weights of all samples of a frame.
    pub(super) fn frame_weights(&self) -> Vec<f64> {
        let mut weights = vec![0.0; (self.n_fft - self.window_length) / 2];
        weights.extend(match self.periodic {
            true => self.window.weights(self.window_length),
            false => self.window.symmetric_weights(self.window_length),
        });
        weights.resize(self.n_fft, 0.0);
        weights
    }

    /// Frames as windows of one row, with `left` and `right` samples more than it has.
    pub(super) fn frames(&self, left: usize, right: usize) -> Unfold {
        Unfold::new([1, self.n_fft]).stride([1, self.hop]).pad([0, 0, left, right])
    }

    /// Which samples of what `frames` frames cover a signal of `length` has. Without a length it ends with the last
    /// frame, or, if frames are centred, at half of it.
    pub(super) fn covered(&self, frames: usize, length: Option<usize>) -> Result<Covered, String> {
        ensure!(frames >= 1, "there is no frame");
        let all = (frames - 1).checked_mul(self.hop).and_then(|n| n.checked_add(self.n_fft));
        let all = all.ok_or_else(|| format!("{frames} frames with a hop of {} are too many", self.hop))?;
        let start = self.margin();
        let length = length.unwrap_or(all.saturating_sub(2 * start));
        ensure!(length >= 1, "the signal has no sample");
        ensure!(
            length <= all - start,
            "{frames} frames of {} samples, {} apart, cover {} samples, and {length} are wanted",
            self.n_fft,
            self.hop,
            all - start
        );
        let right = all - start - length;
        Ok(Covered { left: start, length, right })
    }

    /// The first sample in `covered` by `frames` frames where the squared windows sum to 0.
    pub(super) fn first_uncovered(&self, covered: &Covered, frames: usize) -> Option<usize> {
        // sums[i] is the sum of the squared weights i, i − hop, i − 2·hop, ….
        let mut sums: Vec<f64> = self.frame_weights().iter().map(|w| w * w).collect();
        for i in self.hop..self.n_fft {
            sums[i] += sums[i - self.hop];
        }
        let sum = |at: usize| {
            let beyond = at.saturating_sub(self.n_fft - 1).div_ceil(self.hop).saturating_mul(self.hop);
            let last_frames = at.checked_sub(frames.saturating_mul(self.hop));
            at.checked_sub(beyond).map_or(0.0, |i| sums[i]) - last_frames.map_or(0.0, |i| sums[i])
        };
        // Between the first and the last frames the sums repeat after each hop.
        let (start, end) = (covered.left, covered.left + covered.length);
        let first = start..end.min(self.n_fft.saturating_add(self.hop));
        let last = end.saturating_sub(self.n_fft).max(start)..end;
        first.chain(last).find(|&at| sum(at) < LEAST_SQUARED_WINDOWS).map(|at| at - start)
    }
}

/// The samples of a signal among those that frames cover.
pub(super) struct Covered {
    /// Samples before the signal.
    pub(super) left: usize,
    /// Samples of the signal.
    pub(super) length: usize,
    /// Samples behind it.
    pub(super) right: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first uncovered sample by adding all squared windows.
    fn by_adding(opt: &Stft, covered: &Covered, frames: usize) -> Option<usize> {
        let mut sums = vec![0.0; covered.left + covered.length + covered.right];
        for t in 0..frames {
            for (k, w) in opt.frame_weights().iter().enumerate() {
                sums[t * opt.hop + k] += w * w;
            }
        }
        sums[covered.left..][..covered.length].iter().position(|&s| s < LEAST_SQUARED_WINDOWS)
    }

    #[test]
    fn uncovered_samples_are_found() {
        let (mut found, mut none) = (0, 0);
        for (n_fft, window_length) in [(1, 1), (4, 4), (7, 3), (8, 8), (9, 2)] {
            for (hop, frames, center) in hops_and_frames(n_fft + 3) {
                for window in [WindowFunction::Hann, WindowFunction::Hamming, WindowFunction::Rectangular] {
                    let opt = Stft { hop, window, window_length, center, ..Stft::new(n_fft) };
                    for length in (1..).map_while(|n| opt.covered(frames, Some(n)).ok()) {
                        let want = by_adding(&opt, &length, frames);
                        assert_eq!(opt.first_uncovered(&length, frames), want, "{opt:?}, {frames}, {}", length.length);
                        if want.is_some() { found += 1 } else { none += 1 }
                    }
                }
            }
        }
        assert!(found > 1000 && none > 1000, "{found} {none}");
    }

    /// Hops up to `most`, one to five frames, both kinds of frames.
    fn hops_and_frames(most: usize) -> impl Iterator<Item = (usize, usize, bool)> {
        (1..=most).flat_map(|hop| (1..=5).flat_map(move |n| [(hop, n, false), (hop, n, true)]))
    }

    #[test]
    fn frames_are_a_quarter_of_a_frame_apart_and_reflected() {
        for (n_fft, hop) in [(1, 1), (2, 1), (3, 1), (16, 4), (19, 4), (400, 100)] {
            let want = Stft {
                n_fft,
                hop,
                window: WindowFunction::Hann,
                window_length: n_fft,
                periodic: true,
                center: true,
                pad_mode: Some(PadMode::Reflect),
            };
            assert_eq!(Stft::new(n_fft), want);
            assert_eq!([want.margin(), want.center(false).margin()], [n_fft / 2, 0]);
        }
    }

    #[test]
    fn a_short_window_lies_in_the_middle_of_a_frame() {
        let weights = |n_fft: usize, n: usize| {
            Stft::new(n_fft).window_length(n).window(WindowFunction::Rectangular).frame_weights()
        };
        assert_eq!(weights(4, 4), [1.0; 4]);
        assert_eq!(weights(6, 2), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
        assert_eq!(weights(6, 3), [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn frames_cover_the_signal_between_the_margins() {
        let covered = |opt: Stft, frames, length| opt.covered(frames, length).map(|c| [c.left, c.length, c.right]);
        // Six frames of 16 samples, 4 apart, cover 36.
        let opt = Stft::new(16);
        assert_eq!(covered(opt, 6, None), Ok([8, 20, 8]));
        assert_eq!(covered(opt, 6, Some(28)), Ok([8, 28, 0]));
        assert_eq!(covered(opt, 6, Some(1)), Ok([8, 1, 27]));
        assert_eq!(covered(opt.center(false), 6, None), Ok([0, 36, 0]));
        assert_eq!(covered(opt.center(false), 1, Some(16)), Ok([0, 16, 0]));
        let refused = |opt, frames, length, why: &str| {
            assert_eq!(covered(opt, frames, length), Err(why.to_string()));
        };
        let why = "6 frames of 16 samples, 4 apart, cover 28 samples, and 29 are wanted";
        refused(opt, 6, Some(29), why);
        // One centred frame of an even length ends where its half does.
        refused(opt, 1, None, "the signal has no sample");
        refused(opt, 0, Some(3), "there is no frame");
        refused(opt.hop(usize::MAX), 2, None, &format!("2 frames with a hop of {} are too many", usize::MAX));
    }

    #[test]
    fn options_have_at_least_one_sample() {
        assert_eq!(Stft::new(1).check(), Ok(()));
        assert_eq!(Stft::new(LONGEST_FFT).check(), Ok(()));
        let longer = Stft::new(LONGEST_FFT + 1).check();
        assert_eq!(longer, Err("n_fft is 16777217; it must be 1 to 16777216".to_string()));
        assert_eq!(Stft::new(8).hop(1).window_length(1).check(), Ok(()));
    }
}
