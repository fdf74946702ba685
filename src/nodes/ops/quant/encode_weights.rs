//! Encodes numbers as coded weights, when a model is prepared.

use super::weight_attrs::WeightScheme;
use crate::error::{Error, Kind, Result};
use crate::kernels::dequant::fp8_fp4::{e2m1_to_f32, e4m3_to_f32, e5m2_to_f32};

/// Weights as [`encode_weights`] gives them: the data of the operands of
/// [`CodedWeights`](super::coded_weights::CodedWeights).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
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

#[cfg(test)]
mod tests {
    use super::*;
    use WeightScheme::{Fp8E4m3, Fp8E5m2, Int4, Int8, Nvfp4};

    #[test]
    fn a_number_gets_the_nearest_code_and_a_tie_the_even_one() {
        // Codes 0 to 7 are 0, 0.5, 1, 1.5, 2, 3, 4 and 6; bit 3 is the sign.
        for (x, code) in [
            (0.0, 0),
            (-0.0, 0),
            (0.1, 0),
            (0.25, 0),
            (0.26, 1),
            (0.4, 1),
            (0.75, 2),
            (1.05, 2),
            (1.25, 2),
            (1.75, 4),
            (2.5, 4),
            (2.6, 5),
            (3.5, 6),
            (5.0, 6),
            (5.1, 7),
            (7.0, 7),
            (f32::INFINITY, 7),
            (-0.1, 8),
            (-4.0, 14),
            (-9.0, 15),
        ] {
            assert_eq!(nearest_weight_code(x, e2m1_to_f32, 8, 8), code, "{x}");
        }
    }

    #[test]
    fn the_number_of_a_code_has_that_code() {
        for code in 1..0x7f {
            let x = e4m3_to_f32(code);
            assert_eq!([x, -x].map(|x| encode_weight_number(Fp8E4m3, x, 1.0)), [code, code | 0x80], "{x}");
        }
        for code in 1..0x7c {
            let x = e5m2_to_f32(code);
            assert_eq!([x, -x].map(|x| encode_weight_number(Fp8E5m2, x, 1.0)), [code, code | 0x80], "{x}");
        }
        // Neither infinity nor NaN is the code of a weight.
        let most = [Fp8E4m3, Fp8E5m2, Nvfp4].map(|scheme| encode_weight_number(scheme, f32::INFINITY, 1.0));
        assert_eq!(most, [0x7e, 0x7b, 7]);
    }

    #[test]
    fn the_largest_weight_has_the_largest_code() {
        for (scheme, largest, codes) in [
            (Int8, 127.0, vec![127, 1, 254]),
            (Int4, 7.0, vec![0x9f, 6]),
            (Fp8E4m3, 448.0, vec![0x7e, 0x38, 0xc2]),
            (Fp8E5m2, 57344.0, vec![0x7b, 0x3c, 0xc1]),
        ] {
            let got = encode_weights(scheme, &[largest, 1.0, -2.5], [3, 1], 3).unwrap();
            let want = EncodedWeights { codes, scales: vec![1.0], scale_codes: Vec::new(), all_scales: 1.0 };
            assert_eq!(got, want, "{scheme:?}");
        }
    }

    #[test]
    fn each_block_of_a_column_has_its_scale() {
        let w = [127.0, 254.0, 0.0, -381.0, 63.5, 127.0];
        let got = encode_weights(Int8, &w, [3, 2], 2).unwrap();
        assert_eq!((got.scales, got.codes), (vec![1.0, 3.0, 0.5, 1.0], vec![127, 85, 0, 129, 127, 127]));
        let got = encode_weights(Int8, &[127.0, -254.0], [2, 1], 1).unwrap();
        assert_eq!((got.scales, got.codes), (vec![1.0, 2.0], vec![127, 129]));
    }

    /// The first column has the scale 896, which is 448 times the number for all. The second has 34, which is 17 times
    /// that number; the even code next to 17 is that of 16, so codes are those of weights over 32.
    #[test]
    fn codes_of_scales_are_rounded_before_weights_are_divided_by_them() {
        let got = encode_weights(Nvfp4, &[5376.0, 204.0, -1344.0, 84.0], [2, 2], 16).unwrap();
        let (codes, scale_codes) = (vec![0x77, 0x5b], vec![0x7e, 0x58]);
        assert_eq!(got, EncodedWeights { codes, scales: Vec::new(), scale_codes, all_scales: 2.0 });
    }

    #[test]
    fn blocks_of_zeros_have_codes_of_zero() {
        for (scheme, codes) in [
            (Int8, vec![0; 4]),
            (Int4, vec![0x88; 2]),
            (Fp8E4m3, vec![0; 4]),
            (Fp8E5m2, vec![0; 4]),
            (Nvfp4, vec![0; 2]),
        ] {
            let got = encode_weights(scheme, &[0.0; 4], [2, 2], 2).unwrap();
            assert_eq!((got.codes, got.all_scales), (codes, 1.0), "{scheme:?}");
            let zeros = if scheme == Nvfp4 { (Vec::new(), vec![0; 2]) } else { (vec![0.0; 2], Vec::new()) };
            assert_eq!((got.scales, got.scale_codes), zeros, "{scheme:?}");
        }
    }

    #[test]
    fn what_has_no_codes_is_refused_by_number() {
        let why = |w: &[f32], size, block| encode_weights(Int8, w, size, block).unwrap_err().message;
        assert_eq!(why(&[1.0], [2, 1], 1), "encode_weights: 1 weights; k = 2 and n = 1 need k·n");
        assert!(why(&[], [usize::MAX, 2], 1).contains("0 weights; k = 18446744073709551615"));
        assert_eq!(why(&[1.0], [1, 1], 0), "encode_weights: block is 0; it must be 1 or more");
        assert_eq!(why(&[1.0, f32::NEG_INFINITY], [2, 1], 1), "encode_weights: weight 1 is -inf; it must be finite");
    }
}
