//! Encodes numbers as coded weights, when a model is prepared.

use super::weight_attrs::WeightScheme;
use crate::error::{Error, Kind, Result};
use crate::kernels::dequant::fp8_fp4::{e2m1_to_f32, e4m3_to_f32, e5m2_to_f32};

/// Weights as [`encode_weights`] gives them: the data of the operands of
/// [`CodedWeights`](super::coded_weights::CodedWeights).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EncodedWeights {
    /// The codes. Those of [`WeightScheme::Int8`] are the bytes of `i8`.
    pub codes: Vec<u8>,
    /// The scales, `[⌈k / block⌉, n]`; none for [`WeightScheme::Nvfp4`].
    pub scales: Vec<f32>,
    /// The scales of [`WeightScheme::Nvfp4`] as codes, `[⌈k / block⌉, n]`; else none.
    pub scale_codes: Vec<u8>,
    /// The number that multiplies all scales of [`WeightScheme::Nvfp4`]; else 1.
    pub all_scales: f32,
}

/// The largest number of a scheme's codes.
fn largest_weight(scheme: WeightScheme) -> f32 {
    match scheme {
        WeightScheme::Int8 => 127.0,
        WeightScheme::Int4 => 7.0,
        WeightScheme::Fp8E4m3 => 448.0,
        WeightScheme::Fp8E5m2 => 57344.0,
        WeightScheme::Nvfp4 => 6.0,
    }
}

/// The code of the nearest number among codes `0..count`, whose numbers ascend, with the sign in bit `sign`. A tie goes
/// to the even code.
fn nearest_weight_code(x: f32, of: fn(u8) -> f32, count: u8, sign: u8) -> u8 {
    let (size, mut low, mut high) = (x.abs(), 0, count - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if of(middle) < size { low = middle + 1 } else { high = middle }
    }
    // `low` is the first code whose number is not below, or the last code.
    let code = match low.checked_sub(1) {
        Some(below) => {
            let (down, up) = (size - of(below), of(low) - size);
            if down < up || (down == up && below % 2 == 0) { below } else { low }
        }
        None => low,
    };
    if x < 0.0 { code | sign } else { code }
}

/// The code of x / scale.
fn encode_weight_number(scheme: WeightScheme, x: f32, scale: f32) -> u8 {
    let steps = if scale > 0.0 { x / scale } else { 0.0 };
    match scheme {
        WeightScheme::Int8 => steps.round_ties_even().clamp(-127.0, 127.0) as i8 as u8,
        WeightScheme::Int4 => (steps.round_ties_even() + 8.0).clamp(0.0, 15.0) as u8,
        WeightScheme::Fp8E4m3 => nearest_weight_code(steps, e4m3_to_f32, 0x7f, 0x80),
        WeightScheme::Fp8E5m2 => nearest_weight_code(steps, e5m2_to_f32, 0x7c, 0x80),
        WeightScheme::Nvfp4 => nearest_weight_code(steps, e2m1_to_f32, 8, 8),
    }
}

/// Weights `[k, n]` as codes. The largest weight of each block of `block` rows of a column has the largest code, on
/// both sides of 0; other weights are rounded to the nearest one. There are no zeros.
///
/// # Errors
/// Another number of weights, a weight that is not finite, a block of 0 rows.
pub fn encode_weights(scheme: WeightScheme, w: &[f32], [k, n]: [usize; 2], block: usize) -> Result<EncodedWeights> {
    let refuse = |why: String| Err(Error::new(Kind::Data, format!("encode_weights: {why}")));
    if k.checked_mul(n) != Some(w.len()) {
        return refuse(format!("{} weights; k = {k} and n = {n} need k·n", w.len()));
    }
    if block == 0 {
        return refuse("block is 0; it must be 1 or more".to_string());
    }
    if let Some(at) = w.iter().position(|x| !x.is_finite()) {
        return refuse(format!("weight {at} is {}; it must be finite", w[at]));
    }
    let blocks = k.div_ceil(block);
    let mut most = vec![0f32; blocks * n];
    for (e, x) in w.iter().enumerate() {
        let most = &mut most[e / n / block * n + e % n];
        *most = most.max(x.abs());
    }
    let mut scales: Vec<f32> = most.iter().map(|m| m / largest_weight(scheme)).collect();
    let (mut scale_codes, mut all_scales) = (Vec::new(), 1.0);
    if scheme == WeightScheme::Nvfp4 {
        // The largest scale has the largest code.
        let top = scales.iter().copied().fold(0.0, f32::max);
        all_scales = if top > 0.0 { top / largest_weight(WeightScheme::Fp8E4m3) } else { 1.0 };
        scale_codes = scales.iter().map(|s| encode_weight_number(WeightScheme::Fp8E4m3, *s, all_scales)).collect();
        scales = scale_codes.iter().map(|c| e4m3_to_f32(*c) * all_scales).collect();
    }
    let codes: Vec<u8> = w
        .iter()
        .enumerate()
        .map(|(e, x)| encode_weight_number(scheme, *x, scales[e / n / block * n + e % n]))
        .collect();
    let codes = match scheme.kernel().is_packed() {
        true => codes.chunks(2).map(|pair| pair[0] | pair.get(1).copied().unwrap_or(0) << 4).collect(),
        false => codes,
    };
    if scheme == WeightScheme::Nvfp4 {
        scales = Vec::new();
    }
    Ok(EncodedWeights { codes, scales, scale_codes, all_scales })
}
