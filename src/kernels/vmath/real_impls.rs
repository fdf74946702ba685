//! `f32` and `f64` as types with elementary functions: constants and the coefficients of polynomials.

use super::exp::exp_methods;
use super::log::log_methods;
use super::real_trait::{Real, poly};
use super::trig::trig_methods;
use super::{pow, trig};

/// Constants and conversions with the same source for both types.
macro_rules! constants {
    ($t:ident, $mant:literal) => {
        const ZERO: $t = 0.0;
        const ONE: $t = 1.0;
        const INFINITY: $t = $t::INFINITY;
        const NAN: $t = $t::NAN;
        const MIN_POSITIVE: $t = $t::MIN_POSITIVE;
        const LOWEST: $t = $t::MIN;

        #[inline(always)]
        fn from_f64(x: f64) -> $t {
            x as $t
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            self as f64
        }
        const HALF: $t = 0.5;
        const TANH_SMALL: $t = 0.625;
        const TWO: $t = 2.0;
        const ROUND: $t = 1.5 * (1u64 << $mant) as $t;
        const LOG2E: $t = std::f64::consts::LOG2_E as $t;
        const INV_SQRT_2PI: $t = 0.398_942_280_401_432_7f64 as $t;
        const SQRT_2: $t = std::f64::consts::SQRT_2 as $t;
        const MILLS_B: $t = 1.25;
    };
}

// The polynomials interpolate at Chebyshev nodes, computed with 200 bits. Their relative errors are below 2^-28 (f32)
// and 2^-54 (f64).
impl Real for f32 {
    constants!(f32, 23);
    rounded_methods!(f32);
    exp_methods!(f32, 23);
    log_methods!(f32, u32, 23, 127, 24);
    trig_methods!(f32);
    const LN2_HI: f32 = std::f32::consts::LN_2;
    const LN2_LO: f32 = -1.904_654_2e-9;
    const EXP_RANGE: (f32, f32) = (-104.0, 89.0);
    const EXP2_RANGE: (f32, f32) = (-160.0, 129.0);
    const EXP_MIDDLE: f32 = 87.0;
    const LIFT: (f32, f32) = (90.0, 1.0 / (1u128 << 90) as f32);
    const EXPM1_LOW: f32 = -18.0;
    const TANH_HIGH: f32 = 10.0;
    const ERF_HIGH: f32 = 4.0;
    const PHI_HIGH: f32 = 14.5;
    const PI_2: (f32, f32) = (std::f32::consts::FRAC_PI_2, -4.371_139e-8);
    const GELU_LINEAR: (f32, f32) = (1.5957692, -4.534068e-8);
    const GELU_CUBIC: (f32, f32) = (0.071354814, 2.3988325e-9);
    const LOGISTIC_HIGH: f32 = 120.0;
    const GELU_TANH_HIGH: f32 = 12.0;
    const MILLS_C: f32 = 4.0;
    const MILLS_0: (f32, f32) = (0.49565586, 2.3246556e-9);

    #[inline(always)]
    fn exp_tail(r: f32) -> f32 {
        poly!(r; 0.5, 0.16666667, 0.041666456, 0.0083333105, 0.0013934541, 0.0001989198f32)
    }
    #[inline(always)]
    fn exp2_tail(f: f32) -> f32 {
        poly!(f; f32::LN2_HI, 0.2402265, 0.05550357, 0.009618083, 0.0013390863, 0.00015453163f32)
    }
    #[inline(always)]
    fn log_tail(z: f32) -> f32 {
        poly!(z; 0.6666667, 0.4000013, 0.2854997, 0.23353428f32)
    }
    #[inline(always)]
    fn tanh_tail(z: f32) -> f32 {
        poly!(z; -0.33333334, 0.13333304, -0.053959254, 0.021768868, -0.00834378, 0.0022925576f32)
    }
    #[inline(always)]
    fn erf_tail(z: f32) -> f32 {
        poly!(z; 0.12837917, -0.37612626, 0.11283594, -0.026854211, 0.0051890872, -0.00080168643,
            7.875875e-05f32)
    }
    #[inline(always)]
    fn mills_tail(u: f32) -> f32 {
        poly!(u; -0.1393029, 0.04509444, 0.01067325, -0.024481475, 0.015815813, -0.0048763175,
            -0.00013826428, 0.0006477437, -7.979584e-05, -7.215856e-05f32)
    }
    #[inline(always)]
    fn atan_tail(z: f32) -> f32 {
        poly!(z; -0.3333333, 0.1999974, -0.14278568, 0.110337645, -0.0865688, 0.06250169,
            -0.03587154, 0.013507771, -0.0023869972f32)
    }
    #[inline(always)]
    fn pow(x: f32, y: f32) -> f32 {
        pow::raise_f32(x, y)
    }
    #[inline(always)]
    fn sin_fit(x: f32) -> f32 {
        trig::sin_f32(x)
    }
    #[inline(always)]
    fn cos_fit(x: f32) -> f32 {
        trig::cos_f32(x)
    }
    #[inline(always)]
    fn tan_fit(x: f32) -> f32 {
        trig::tan_f32(x)
    }
}

impl Real for f64 {
    constants!(f64, 52);
    rounded_methods!(f64);
    exp_methods!(f64, 52);
    log_methods!(f64, u64, 52, 1023, 53);
    trig_methods!(f64);
    const LN2_HI: f64 = std::f64::consts::LN_2;
    const LN2_LO: f64 = 2.319_046_813_846_299_6e-17;
    const EXP_RANGE: (f64, f64) = (-746.0, 710.0);
    const EXP2_RANGE: (f64, f64) = (-1080.0, 1025.0);
    const EXP_MIDDLE: f64 = 708.0;
    const LIFT: (f64, f64) = (600.0, f64::from_bits((1023 - 600) << 52));
    const EXPM1_LOW: f64 = -40.0;
    const TANH_HIGH: f64 = 22.0;
    const ERF_HIGH: f64 = 6.0;
    const PHI_HIGH: f64 = 39.0;
    const PI_2: (f64, f64) = (std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17);
    const GELU_LINEAR: (f64, f64) = (1.5957691216057308, -9.96930880911092e-17);
    const GELU_CUBIC: (f64, f64) = (0.07135481627260025, -6.175149918155315e-19);
    const LOGISTIC_HIGH: f64 = 760.0;
    const GELU_TANH_HIGH: f64 = 24.0;
    const MILLS_C: f64 = 5.0;
    const MILLS_0: (f64, f64) = (0.48074565609378933, 1.7914452121833925e-17);

    #[inline(always)]
    fn exp_tail(r: f64) -> f64 {
        poly!(r; 0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333325544, 0.0013888888888883327,
            0.00019841269876864356, 2.4801587327007187e-05, 2.755725283351691e-06, 2.75572718102198e-07,
            2.5106274733573296e-08, 2.0915442297780116e-09f64)
    }
    #[inline(always)]
    fn exp2_tail(f: f64) -> f64 {
        poly!(f; f64::LN2_HI, 0.24022650695910098, 0.05550410866482159, 0.009618129107606889,
            0.0013333558146416935, 0.0001540353044173605, 1.5252733829836118e-05, 1.321544258792169e-06,
            1.0178062445845774e-07, 7.072585949269224e-09, 4.4549605981865184e-10f64)
    }
    #[inline(always)]
    fn log_tail(z: f64) -> f64 {
        poly!(z; 0.666666666666667, 0.39999999999886615, 0.28571428631764334, 0.2222221019926421,
            0.18182956608063458, 0.15329500754204178, 0.14643628601909797f64)
    }
    #[inline(always)]
    fn tanh_tail(z: f64) -> f64 {
        poly!(z; -0.3333333333333333, 0.13333333333333042, -0.05396825396789636, 0.02186948851898143,
            -0.008863235102653483, 0.0035921217436959856, -0.0014557753532096296, 0.0005896603606552671,
            -0.0002375896885211701, 9.256923588512033e-05, -3.119892666773487e-05, 6.484104982405479e-06f64)
    }
    #[inline(always)]
    fn erf_tail(z: f64) -> f64 {
        poly!(z; 0.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792,
            0.0052239776248180145, -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05,
            1.6461000484121368e-06, -1.6350312701054695e-07, 1.4659775274047436e-08, -1.1372848856791674e-09,
            5.957176147748911e-11f64)
    }
    #[inline(always)]
    fn mills_tail(u: f64) -> f64 {
        poly!(u; -0.12741667065001192, 0.060047571397464077, -0.010218616930813395, -0.01443720489524993,
            0.018683488122090922, -0.012922572765022544, 0.005927289573893978, -0.0016211846604067444,
            4.136084470633433e-05, 0.00016722728857799862, -5.33674233612457e-05, -8.235100316754601e-06,
            8.742790725830633e-06, -2.3869987702764405e-07, -1.2474698884796171e-06, 1.4621808263055425e-07,
            1.873524928899151e-07, -2.778834078540701e-08, -2.989800005258509e-08, 3.172471943428879e-09,
            4.1756108633505384e-09, -5.72790072830046e-11, -2.8355251773903815e-10f64)
    }
    #[inline(always)]
    fn atan_tail(z: f64) -> f64 {
        poly!(z; -0.3333333333333333, 0.1999999999999753, -0.14285714285384132, 0.11111111093490827,
            -0.09090908590891934, 0.07692298971033217, -0.06666564699289104, 0.05881506877793656,
            -0.052579733342841106, 0.04737749579527779, -0.04260356632601652, 0.03749486812535247,
            -0.031277189066996385, 0.023696731580048622, -0.015535152475414177, 0.008368931178450162,
            -0.0034958859739163094, 0.0010496035084968515, -0.00019996189377901382, 1.806195461861215e-05f64)
    }
    #[inline(always)]
    fn pow(x: f64, y: f64) -> f64 {
        x.powf(y)
    }
    #[inline(always)]
    fn sin_fit(x: f64) -> f64 {
        trig::sin_f64(x)
    }
    #[inline(always)]
    fn cos_fit(x: f64) -> f64 {
        trig::cos_f64(x)
    }
    #[inline(always)]
    fn tan_fit(x: f64) -> f64 {
        trig::tan_f64(x)
    }
}
