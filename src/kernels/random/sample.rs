//! Draws of tokens from rows of logits: temperature, top-k, top-p.
//!
//! Invariants: the token is a function of the row, the settings and one uniform number; ties go to the smaller index;
//! nothing allocates. Used by the lowering of `sample`, and by the sampler of `train`.
//!
//! Source of top-p: Holtzman et al., "The curious case of neural text degeneration", 2020.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`sample_kernel`] | logits: `T[rows, n]`, key: `u32[4]` | tokens: `i32[rows]`, scratch | [`Sample`] |

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::fault::Cause;
use crate::float::Float;
use crate::params::params;
use crate::random::random_uniform;
use crate::sort::top_k;
use crate::vmath;

/// A row of logits with a NaN or +∞: the value is its position in the row.
pub static BAD_LOGIT: Cause = Cause {
    name: "logit",
    text: |bad, f| write!(f, "logit {} of row {} is NaN or +∞", bad.value.unwrap_or_default().0, bad.element),
};

/// A row of logits without one above −∞.
pub static NO_LOGIT: Cause =
    Cause { name: "no logit", text: |bad, f| write!(f, "no logit of row {} is above −∞", bad.element) };

/// The settings of a draw.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// Divisor of the logits, at least 0. 1 samples from the softmax; 0 always chooses the largest logit.
    pub temperature: f64,
    /// Only this many of the largest logits count, ties broken by index. 0: all count.
    pub top_k: usize,
    /// Of those, only the smallest set of the likeliest tokens whose probabilities sum to at least this number counts
    /// (nucleus sampling, Holtzman et al. 2020). In (0, 1]; 1: all count.
    pub top_p: f64,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling { temperature: 1.0, top_k: 0, top_p: 1.0 }
    }
}

impl Sampling {
    /// These settings with this `temperature`; see the field.
    pub fn temperature(self, temperature: f64) -> Sampling {
        Sampling { temperature, ..self }
    }

    /// These settings with this `top_k`; see the field.
    pub fn top_k(self, top_k: usize) -> Sampling {
        Sampling { top_k, ..self }
    }

    /// These settings with this `top_p`; see the field.
    pub fn top_p(self, top_p: f64) -> Sampling {
        Sampling { top_p, ..self }
    }

    /// What is wrong with the settings, if anything.
    pub fn check(&self) -> Result<(), String> {
        let Sampling { temperature, top_p, .. } = *self;
        if !(temperature >= 0.0 && temperature.is_finite()) {
            return Err(format!("the temperature is {temperature}; it must be finite and at least 0"));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(format!("top_p is {top_p}; it goes from above 0 to 1"));
        }
        Ok(())
    }
}

/// Why a row has no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLogits {
    /// The logit at this position is NaN or +∞.
    At(usize),
    /// No logit is above −∞.
    None,
}

/// The position that `u`, uniform in [0, 1), chooses from `logits`, of which there are at most 2³¹. `order` and
/// `weights` are scratch, as long as the logits. A logit of −∞ is never chosen.
///
/// # Panics
/// If the scratch is shorter.
pub fn pick_token<T: Float>(
    s: &Sampling,
    logits: &[T],
    u: f64,
    order: &mut [i32],
    weights: &mut [f64],
) -> Result<usize, BadLogits> {
    if let Some(i) = logits.iter().position(|x| x.is_nan() || *x == T::INFINITY) {
        return Err(BadLogits::At(i));
    }
    let mut count = 0;
    for (i, _) in (0..).zip(logits).filter(|(_, x)| **x > -T::INFINITY) {
        order[count] = i;
        count += 1;
    }
    if count == 0 {
        return Err(BadLogits::None);
    }
    let kept = match (s.temperature == 0.0, s.top_k) {
        (true, _) => 1,
        (_, 0) => count,
        (_, k) => k.min(count),
    };
    top_k::select_largest(logits, &mut order[..count], kept);
    let (order, weights) = (&order[..kept], &mut weights[..kept]);
    let first = order[0] as usize;
    if s.temperature == 0.0 {
        return Ok(first);
    }
    let top = logits[first].to_f64();
    for (w, &i) in weights.iter_mut().zip(order) {
        *w = vmath::exp((logits[i as usize].to_f64() - top) / s.temperature);
    }
    let all: f64 = weights.iter().sum();
    let mut sum = 0.0;
    let enough = weights.iter().position(|w| {
        sum += w;
        sum >= s.top_p * all
    });
    let weights = &weights[..enough.map_or(kept, |i| i + 1)];
    let mut left = u * weights.iter().sum::<f64>();
    let chosen = weights.iter().position(|w| {
        left -= w;
        left < 0.0
    });
    // Rounding may leave a remainder behind the last weight.
    Ok(order[chosen.unwrap_or(weights.len() - 1)] as usize)
}

/// Approximate number of logits in a unit.
const UNIT: usize = 1024;

params! {
    /// Params of [`sample_kernel`].
    pub struct Sample {
        /// Number of rows.
        pub rows: usize,
        /// Logits of a row, at least 1; fits an `i32`.
        pub n: usize,
        /// Distinguishes the random ops of a program.
        pub stream: u64,
        /// Of [`Sampling`].
        pub temperature: f64,
        /// Of [`Sampling`].
        pub top_k: usize,
        /// Of [`Sampling`].
        pub top_p: f64,
    }
}

impl Sample {
    /// Rows in each unit.
    pub fn per_unit(&self) -> usize {
        (UNIT / self.n.max(1)).max(1)
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.rows.div_ceil(self.per_unit())
    }
}

/// A token for each row of logits: that of the row's uniform `f64` of the stream.
///
/// Reads logits: `T[rows, n]`, key: `u32[4]`; writes tokens: `i32[rows]`, [`Sample::per_unit`], and scratch for each
/// thread: `i32[n]` and `f64[n]`; params [`Sample`]. A row without a token is a fault, and gets 0.
pub fn sample_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Sample::from_words(args.params());
    let (logits, first) = (args.read::<T>(0), args.units().start * p.per_unit());
    let mut key = [0; 4];
    key.copy_from_slice(args.read::<u32>(1));
    let (tokens, order, weights) = (args.write::<i32>(0), args.write::<i32>(1), args.write::<f64>(2));
    let settings = Sampling { temperature: p.temperature, top_k: p.top_k, top_p: p.top_p };
    for (row, token) in (first..).zip(tokens) {
        // A block of random bits has two numbers.
        let mut uniforms = [0.0; 2];
        random_uniform::<f64>(key, p.stream, (row / 2) as u64, &mut uniforms);
        let logits = &logits[row * p.n..][..p.n];
        *token = match pick_token(&settings, logits, uniforms[row % 2], order, weights) {
            Ok(i) => i as i32,
            Err(bad) => {
                match bad {
                    BadLogits::At(i) => args.report(&BAD_LOGIT, row, Some((i as i64, 0))),
                    BadLogits::None => args.report(&NO_LOGIT, row, None),
                }
                0
            }
        };
    }
}

by_dtype!(sample_kernel_for = sample_kernel::<floats>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Split;
    use crate::harness::{In, Out, Outcome, hash_numbers, run_in_ranges, written_elements};

    fn sampled(p: &Sample, logits: &[f32], key: [u32; 4]) -> Outcome {
        let scratch = |size| Out(p.n, size, Split::PerThread(p.n));
        let writes = [Out::of::<i32>(p.rows, p.per_unit()), scratch(4), scratch(8)];
        run_in_ranges(sample_kernel::<f32>, &p.to_words(), &[In::of(logits), In::of(&key)], &writes, p.units())
    }

    #[test]
    fn rows_get_the_tokens_of_their_uniforms() {
        let key = [5, 6, 7, 8];
        for (rows, n, top_k, top_p) in [(1, 1, 0, 1.0), (9, 5, 3, 1.0), (700, 11, 0, 0.7), (3, 5000, 40, 0.9)] {
            let logits: Vec<f32> = hash_numbers(rows * n, 3);
            let p = Sample { rows, n, stream: 9, temperature: 0.7, top_k, top_p };
            assert_eq!(Sample::from_words(&p.to_words()), p);
            let tokens: Vec<i32> = written_elements(&sampled(&p, &logits, key), 0);
            let mut u = vec![0.0; rows.next_multiple_of(2)];
            random_uniform::<f64>(key, 9, 0, &mut u);
            let (mut order, mut weights) = (vec![0; n], vec![0.0; n]);
            let settings = Sampling { temperature: 0.7, top_k, top_p };
            for (r, row) in logits.chunks(n).enumerate() {
                let want = pick_token(&settings, row, u[r], &mut order, &mut weights).unwrap();
                assert_eq!(tokens[r] as usize, want, "row {r} of {rows}");
            }
        }
    }

    #[test]
    fn a_row_without_a_token_is_a_fault() {
        let p = Sample { rows: 3, n: 2, stream: 0, temperature: 1.0, top_k: 0, top_p: 1.0 };
        let low = f32::NEG_INFINITY;
        assert_eq!(sampled(&p, &[0.0, 1.0, low, 0.0, f32::NAN, 1.0], [0; 4]), Err(2));
        assert_eq!(sampled(&p, &[0.0, 1.0, low, low, 0.0, f32::INFINITY], [0; 4]), Err(1));
        assert_eq!(written_elements::<i32>(&sampled(&p, &[0.0, low, low, 0.0, low, 1.0], [0; 4]), 0), [0, 1, 1]);
    }
}
