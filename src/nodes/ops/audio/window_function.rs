//! Windows that weigh the samples of a frame.

use std::f64::consts::TAU;

/// The weights of a frame's n samples: one period of a sum of cosines, as in `torch.hann_window` and
/// `scipy.signal.get_window`. The sample after the last would be the first again
/// ([`weights`](WindowFunction::weights)), or the last is ([`symmetric_weights`](WindowFunction::symmetric_weights)).
/// The formulas are of the former; the latter has n − 1 for n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowFunction {
    /// 0.5 − 0.5·cos(2πk/n).
    #[default]
    Hann,
    /// 0.54 − 0.46·cos(2πk/n).
    Hamming,
    /// 0.42 − 0.5·cos(2πk/n) + 0.08·cos(4πk/n).
    Blackman,
    /// 1.
    Rectangular,
}

impl WindowFunction {
    /// The `n` weights of the periodic form. The only one of a window of 1 is 1.
    pub fn weights(self, n: usize) -> Vec<f64> {
        self.weights_of_period(n, n)
    }

    /// The `n` weights of the symmetric form, which filters take: `periodic=False` of torch's windows, `sym=True` of
    /// scipy's. The only one of a window of 1 is 1.
    pub fn symmetric_weights(self, n: usize) -> Vec<f64> {
        self.weights_of_period(n, n.saturating_sub(1))
    }

    fn weights_of_period(self, n: usize, period: usize) -> Vec<f64> {
        let [a, b, c] = match self {
            _ if n == 1 => [1.0, 0.0, 0.0],
            WindowFunction::Hann => [0.5, 0.5, 0.0],
            WindowFunction::Hamming => [0.54, 0.46, 0.0],
            WindowFunction::Blackman => [0.42, 0.5, 0.08],
            WindowFunction::Rectangular => [1.0, 0.0, 0.0],
        };
        let weight = |k: usize| {
            let angle = TAU * k as f64 / period.max(1) as f64;
            a - b * angle.cos() + c * (2.0 * angle).cos()
        };
        (0..n).map(weight).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::WindowFunction::{Blackman, Hamming, Hann, Rectangular};

    #[test]
    fn weights_are_one_period_of_the_cosines() {
        let want = [
            (Hann, [0.0, 0.5, 1.0, 0.5]),
            (Hamming, [0.08, 0.54, 1.0, 0.54]),
            (Blackman, [0.0, 0.34, 1.0, 0.34]),
            (Rectangular, [1.0; 4]),
        ];
        for (window, want) in want {
            let got = window.weights(4);
            let near = got.len() == 4 && got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-15);
            assert!(near, "{window:?}: {got:?}");
            assert_eq!(window.weights(1), [1.0], "{window:?}");
            assert!(window.weights(0).is_empty(), "{window:?}");
        }
    }

    /// The numbers of `torch.hann_window(5, periodic=False)` and its like.
    #[test]
    fn symmetric_weights_end_as_they_begin() {
        let want = [
            (Hann, [0.0, 0.5, 1.0, 0.5, 0.0]),
            (Hamming, [0.08, 0.54, 1.0, 0.54, 0.08]),
            (Blackman, [0.0, 0.34, 1.0, 0.34, 0.0]),
            (Rectangular, [1.0; 5]),
        ];
        for (window, want) in want {
            let got = window.symmetric_weights(5);
            let near = got.len() == 5 && got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-15);
            assert!(near, "{window:?}: {got:?}");
            assert_eq!(window.symmetric_weights(1), [1.0], "{window:?}");
            assert!(window.symmetric_weights(0).is_empty(), "{window:?}");
        }
        let ends = Hann.symmetric_weights(2);
        assert!(ends.len() == 2 && ends.iter().all(|w| w.abs() < 1e-15), "{ends:?}");
    }
}
