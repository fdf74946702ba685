//! Sampling a token from logits: temperature, top-k, top-p.
//!
//! Invariants: the token is a function of logits, settings and one uniform number; ties go to the smaller index. A
//! sampler allocates nothing after its first token.

use crate::error::{Error, Kind, Result};
use crate::kernels::random;
pub use crate::kernels::random::sample::Sampling;
use crate::kernels::random::sample::{BadLogits, pick_token};

/// Samples tokens from logits.
#[derive(Clone, Debug)]
pub struct Sampler {
    settings: Sampling,
    order: Vec<i32>,
    weights: Vec<f64>,
}

/// An error of kind [`Kind::Data`].
fn settings_error(text: String) -> Error {
    Error::new(Kind::Data, text)
}

impl Sampler {
    /// A sampler. Fails with [`Kind::Data`] if a setting is out of its range.
    pub fn new(settings: Sampling) -> Result<Sampler> {
        settings.check().map_err(settings_error)?;
        Ok(Sampler { settings, order: Vec::new(), weights: Vec::new() })
    }

    /// The index that `u`, uniform in [0, 1), chooses from `logits`: the draw of
    /// [`Var::sample`](crate::graph::Var::sample). A logit of −∞ is never chosen. Fails with [`Kind::Data`] if a logit
    /// is NaN or +∞, or if all are −∞.
    pub fn pick(&mut self, logits: &[f32], u: f64) -> Result<usize> {
        self.order.resize(logits.len(), 0);
        self.weights.resize(logits.len(), 0.0);
        pick_token(&self.settings, logits, u, &mut self.order, &mut self.weights).map_err(|bad| match bad {
            BadLogits::At(i) => settings_error(format!("logit {i} is {}", logits[i])),
            BadLogits::None => settings_error(format!("none of {} logits is above −∞", logits.len())),
        })
    }
}

/// Number `i` of the stream `seed`, uniform in [0, 1): the `u` of [`Sampler::pick`] for token `i`.
pub fn uniform(seed: u64, i: u64) -> f64 {
    let mut out = [0.0; 2];
    random::random_uniform::<f64>([seed as u32, (seed >> 32) as u32, 0, 0], 0, i, &mut out);
    out[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(s: Sampling, logits: &[f32]) -> Vec<f64> {
        let mut sampler = Sampler::new(s).unwrap();
        let mut n = vec![0.0; logits.len()];
        (0..20_000).for_each(|i| n[sampler.pick(logits, uniform(3, i)).unwrap()] += 1.0 / 20_000.0);
        n
    }

    #[test]
    fn plain_sampling_follows_the_softmax() {
        let logits: Vec<f32> = [0.5f32, 0.25, 0.25].iter().map(|p| p.ln()).collect();
        let f = frequencies(Sampling::default(), &logits);
        assert!(f.iter().zip([0.5, 0.25, 0.25]).all(|(a, b)| (a - b).abs() < 0.015), "{f:?}");
        // A temperature of one half squares the odds.
        let f = frequencies(Sampling::default().temperature(0.5), &logits);
        assert!((f[0] - 2.0 / 3.0).abs() < 0.015, "{f:?}");
    }

    #[test]
    fn top_k_keeps_exactly_k_and_top_p_the_shortest_prefix() {
        let f = frequencies(Sampling::default().top_k(2), &[1.0, 1.0, 1.0, 0.0]);
        assert!(f[0] > 0.4 && f[1] > 0.4 && f[2] == 0.0 && f[3] == 0.0, "{f:?}");
        let logits: Vec<f32> = [0.1f32, 0.6, 0.3].iter().map(|p| p.ln()).collect();
        let f = frequencies(Sampling::default().top_p(0.5), &logits);
        assert!(f[0] == 0.0 && f[1] > 0.999 && f[2] == 0.0, "{f:?}");
        let f = frequencies(Sampling::default().top_p(0.8), &logits);
        assert!(f[0] == 0.0 && (f[1] - 2.0 / 3.0).abs() < 0.015, "{f:?}");
    }

    #[test]
    fn no_temperature_takes_the_first_of_the_largest() {
        let mut s = Sampler::new(Sampling::default().temperature(0.0)).unwrap();
        assert_eq!(s.pick(&[1.0, 3.0, 3.0], 0.99).unwrap(), 1);
        assert_eq!(s.pick(&[-0.0, 0.0], 0.0).unwrap(), 0);
    }

    #[test]
    fn infinities_and_bad_settings() {
        let mut s = Sampler::new(Sampling::default()).unwrap();
        let low = f32::NEG_INFINITY;
        assert!((0..100).all(|i| s.pick(&[low, 0.0, low], uniform(0, i)).unwrap() == 1));
        assert_eq!(s.pick(&[0.0, 0.0], 1.0 - f64::EPSILON / 2.0).unwrap(), 1);
        assert!(s.pick(&[0.0, f32::NAN], 0.5).unwrap_err().to_string().contains("logit 1 is NaN"));
        assert!(s.pick(&[f32::INFINITY], 0.5).unwrap_err().to_string().contains("logit 0 is inf"));
        assert!(s.pick(&[low], 0.5).is_err() && s.pick(&[], 0.5).is_err());
        for (temperature, top_p) in [(-1.0, 1.0), (f64::NAN, 1.0), (f64::INFINITY, 1.0), (1.0, 0.0), (1.0, 1.5)] {
            assert!(Sampler::new(Sampling::default().temperature(temperature).top_p(top_p)).is_err());
        }
    }
}
