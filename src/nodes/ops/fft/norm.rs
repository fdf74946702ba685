//! The factor of a Fourier transform, by NumPy's names.

/// What a transform of N elements is multiplied by, as NumPy's `norm`: there and back is the identity, except with
/// [`FftNorm::None`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FftNorm {
    /// 1 forward, 1/N back.
    #[default]
    Backward,
    /// 1/√N both ways.
    Ortho,
    /// 1/N forward, 1 back.
    Forward,
    /// 1 both ways: there and back multiplies by N.
    None,
}

impl FftNorm {
    /// The factor of a transform of `n` elements.
    pub fn factor(self, inverse: bool, n: usize) -> f64 {
        match (self, inverse) {
            (FftNorm::Ortho, _) => 1.0 / (n as f64).sqrt(),
            (FftNorm::Backward, true) | (FftNorm::Forward, false) => 1.0 / n as f64,
            _ => 1.0,
        }
    }
}
