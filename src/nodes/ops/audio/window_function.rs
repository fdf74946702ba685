//! Windows that weigh the samples of a frame.

use std::f64::consts::TAU;

/// The weights of a frame's samples, in the periodic form: one period of a sum of cosines, as in `torch.hann_window`
/// and `scipy.signal.get_window`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// The `n` weights. The only one of a window of 1 is 1.
    pub fn weights(self, n: usize) -> Vec<f64> {
        let [a, b, c] = match self {
            _ if n == 1 => [1.0, 0.0, 0.0],
            WindowFunction::Hann => [0.5, 0.5, 0.0],
            WindowFunction::Hamming => [0.54, 0.46, 0.0],
            WindowFunction::Blackman => [0.42, 0.5, 0.08],
            WindowFunction::Rectangular => [1.0, 0.0, 0.0],
        };
        let weight = |k: usize| {
            let angle = TAU * k as f64 / n as f64;
            a - b * angle.cos() + c * (2.0 * angle).cos()
        };
        (0..n).map(weight).collect()
    }
}
