//! Initialisations by their names in `torch.nn.init`, for weights laid out `[outputs, inputs, …]`.

use crate::nodes::Init;

/// torch's default: uniform in ±1/√fan_in (Kaiming uniform with a = √5).
pub(super) fn uniform_by_fan_in(n: usize) -> Init {
    Init::Uniform(if n == 0 { 0.0 } else { 1.0 / (n as f64).sqrt() })
}

/// Inputs and outputs of one unit: `[outputs, inputs, kernel…]`.
fn count_fans(dims: &[usize]) -> [f64; 2] {
    let taps: f64 = dims.get(2..).unwrap_or(&[]).iter().map(|&d| d as f64).product();
    let at = |i: usize| dims.get(i).map_or(1.0, |&d| d as f64) * taps;
    [at(1), at(0)]
}

/// gain / √over; 0 for an empty weight.
fn divide_gain(gain: f64, over: f64) -> f64 {
    if over > 0.0 { gain / over.sqrt() } else { 0.0 }
}

/// Uniform in ±gain·√(6 / (inputs + outputs)) (Glorot and Bengio 2010).
pub fn xavier_uniform(dims: &[usize], gain: f64) -> Init {
    let [i, o] = count_fans(dims);
    Init::Uniform(divide_gain(gain * 6f64.sqrt(), i + o))
}

/// Normal with σ = gain·√(2 / (inputs + outputs)) (Glorot and Bengio 2010).
pub fn xavier_normal(dims: &[usize], gain: f64) -> Init {
    let [i, o] = count_fans(dims);
    Init::Normal(divide_gain(gain * 2f64.sqrt(), i + o))
}

/// Uniform in ±gain·√(3 / inputs) (He et al. 2015); √2 is the gain for ReLU.
pub fn kaiming_uniform(dims: &[usize], gain: f64) -> Init {
    Init::Uniform(divide_gain(gain * 3f64.sqrt(), count_fans(dims)[0]))
}

/// Normal with σ = gain / √inputs (He et al. 2015); √2 is the gain for ReLU.
pub fn kaiming_normal(dims: &[usize], gain: f64) -> Init {
    Init::Normal(divide_gain(gain, count_fans(dims)[0]))
}

/// As [`kaiming_uniform`], by the number of outputs: torch's `mode="fan_out"`.
pub fn kaiming_uniform_fan_out(dims: &[usize], gain: f64) -> Init {
    Init::Uniform(divide_gain(gain * 3f64.sqrt(), count_fans(dims)[1]))
}

/// As [`kaiming_normal`], by the number of outputs: torch's `mode="fan_out"`.
pub fn kaiming_normal_fan_out(dims: &[usize], gain: f64) -> Init {
    Init::Normal(divide_gain(gain, count_fans(dims)[1]))
}

/// The gain for a leaky ReLU of this slope, √(2 / (1 + slope²)); 0 is ReLU's, √2.
pub fn leaky_relu_gain(slope: f64) -> f64 {
    (2.0 / (1.0 + slope * slope)).sqrt()
}

/// Uniform from `low` to `high`.
pub fn uniform(low: f64, high: f64) -> Init {
    Init::Between { low, high }
}

/// Normal with this mean and standard deviation.
pub fn normal(mean: f64, deviation: f64) -> Init {
    Init::Around { mean, deviation }
}

/// Normal with this mean and standard deviation, from `low` to `high` alone; torch's defaults are 0, 1, −2, 2. `low` is
/// at most 37 deviations above the mean, and `high` at most 37 below it.
pub fn trunc_normal(mean: f64, deviation: f64, low: f64, high: f64) -> Init {
    Init::TruncNormal { mean, deviation, low, high }
}

/// All elements are `x`.
pub fn constant(x: f64) -> Init {
    Init::Constant(x)
}

/// `gain` times a matrix with orthonormal rows or columns.
pub fn orthogonal(gain: f64) -> Init {
    Init::Orthogonal(gain)
}

/// The identity matrix.
pub fn eye() -> Init {
    Init::Eye
}

/// The identity of a convolution with `groups` groups of outputs.
pub fn dirac(groups: usize) -> Init {
    Init::Dirac { groups }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_torchs() {
        // torch.nn.init on a weight of [8, 3, 5, 5]: fan_in 75, fan_out 200.
        let d = [8, 3, 5, 5];
        assert_eq!(kaiming_normal(&d, 2f64.sqrt()), Init::Normal(2f64.sqrt() / 75f64.sqrt()));
        let Init::Uniform(a) = xavier_uniform(&d, 1.0) else { unreachable!("uniform") };
        assert!((a - (6.0f64 / 275.0).sqrt()).abs() < 1e-15);
        // torch.nn.Linear's default: a = √5 is a gain of √(1/3).
        let Init::Uniform(a) = kaiming_uniform(&[4, 16], (1.0f64 / 3.0).sqrt()) else { unreachable!("uniform") };
        assert!((a - 0.25).abs() < 1e-15);
        assert_eq!(kaiming_normal(&[4, 1], 2.0), Init::Normal(2.0));
        assert_eq!(xavier_normal(&[0, 0], 1.0), Init::Normal(0.0));
        let Init::Normal(a) = xavier_normal(&d, 3.0) else { unreachable!("normal") };
        assert!((a - (18.0f64 / 275.0).sqrt()).abs() < 1e-15);
        // An axis that is missing has one element.
        assert_eq!(kaiming_normal(&[4], 3.0), Init::Normal(3.0));
    }

    #[test]
    fn a_layer_without_inputs_starts_at_zero() {
        assert_eq!(uniform_by_fan_in(0), Init::Uniform(0.0));
        assert_eq!(uniform_by_fan_in(1), Init::Uniform(1.0));
        assert_eq!(uniform_by_fan_in(16), Init::Uniform(0.25));
    }
}
