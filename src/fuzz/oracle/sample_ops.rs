//! Draws of tokens from rows of logits. A token is unknown where the bounds of the logits, or the rounding of their
//! exponentials, could change it.

use super::array::{Array, count_elements};
use super::random_ops::{oracle_random_key_words, oracle_random_uniform};
use super::stop::Stop;
use crate::nodes::ops::random::attrs::SampleAttrs;
use crate::nodes::{Attrs, DType, Op};

/// The tokens of shape `to`, if `op` draws them.
pub(super) fn oracle_sample_tokens(
    op: Op,
    attrs: &Attrs<'_>,
    args: &[&Array],
    to: &[usize],
    may_fault: &mut bool,
) -> Result<Option<Array>, Stop> {
    let (Op::SAMPLE, &[logits, key]) = (op, args) else { return Ok(None) };
    let (a, n) = (SampleAttrs::of(attrs), logits.dims.last().copied().unwrap_or(1));
    let key = oracle_random_key_words(key);
    let mut tokens = Vec::new();
    for row in 0..count_elements(to) {
        let all: Vec<(f64, f64)> = (row * n..(row + 1) * n).map(|i| logits.real(i)).collect();
        if all.iter().any(|x| x.1 == f64::INFINITY) {
            *may_fault = true;
            tokens.push(None);
            continue;
        }
        if let Some(i) = all.iter().position(|x| x.0.is_nan() || x.0 == f64::INFINITY) {
            return Err(Stop::fault(format!("logit {i} of row {row} is {}", all[i].0)));
        }
        if all.iter().all(|x| x.0 == f64::NEG_INFINITY) {
            return Err(Stop::fault(format!("no logit of row {row} is above −∞")));
        }
        tokens.push(key.and_then(|key| {
            oracle_sample_token(&a, &all, oracle_random_uniform(key, a.stream as u64, DType::F64, row))
        }));
    }
    Ok(Some(Array::wholes(DType::I32, to, tokens.into_iter().map(|t| t.map(|t| t as i128)))))
}

/// The token that `u` chooses from numbers with bounds, if it is sure.
fn oracle_sample_token(a: &SampleAttrs, logits: &[(f64, f64)], u: f64) -> Option<usize> {
    let mut order: Vec<usize> = (0..logits.len()).filter(|&i| logits[i].0 > f64::NEG_INFINITY).collect();
    // A stable sort: equal ones, as zeros of both signs are, stay in their order.
    order.sort_by(|&i, &j| logits[j].0.partial_cmp(&logits[i].0).unwrap_or(std::cmp::Ordering::Equal));
    let apart = |i: usize, j: usize| {
        let bounds = logits[i].1 + logits[j].1;
        bounds == 0.0 || logits[i].0 - logits[j].0 > bounds
    };
    if !order.windows(2).all(|w| apart(w[0], w[1])) {
        return None;
    }
    let first = order[0];
    if a.temperature == 0.0 {
        return Some(first);
    }
    if a.top_k > 0 {
        order.truncate(a.top_k as usize);
    }
    // How far all weights together may be off, as a share of their sum.
    let mut slack: f64 = 1e-15 * order.len() as f64;
    let weights: Vec<f64> = order
        .iter()
        .map(|&i| {
            let x = (logits[i].0 - logits[first].0) / a.temperature;
            slack = slack.max(2.0 * (logits[i].1 + logits[first].1) / a.temperature + 1e-14);
            libm::exp(x)
        })
        .collect();
    let all: f64 = weights.iter().sum();
    let mut kept = 0.0;
    let mut len = weights.len();
    for (i, w) in weights.iter().enumerate() {
        kept += w;
        if (kept - a.top_p * all).abs() <= slack * all && i + 1 < weights.len() {
            return None;
        }
        if kept >= a.top_p * all {
            len = i + 1;
            break;
        }
    }
    let total: f64 = weights[..len].iter().sum();
    let mut left = u * total;
    for (i, w) in weights[..len].iter().enumerate() {
        left -= w;
        if left.abs() <= slack * total && i + 1 < len {
            return None;
        }
        if left < 0.0 {
            return Some(order[i]);
        }
    }
    Some(order[len - 1])
}
