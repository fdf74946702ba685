//! Elementwise calls, and losses.

use super::calls::Call;
use super::dtype;
use arenagrad::graph::{CrossEntropy, Reduction};
use arenagrad::nn;

/// Calls of methods of one value, of two, of a value and a number.
macro_rules! calls {
    ($($one:ident)*; $($two:ident)*; $($number:ident)*; $($rest:expr,)*) => {
        &[
            $(|c| {
                let v = c.var().$one();
                c.put(v);
            },)*
            $(|c| {
                let (a, b) = (c.var(), c.var());
                let x = c.number();
                let y = if c.script.byte() < 64 { a.$two(x) } else { a.$two(b) };
        c.put(y);
            },)*
            $(|c| {
                let (v, x) = (c.var(), c.number());
                c.put(v.$number(x));
            },)*
            $($rest,)*
        ]
    };
}

const REDUCTIONS: [Reduction; 3] = [Reduction::None, Reduction::Mean, Reduction::Sum];

/// Calls of elementwise methods.
pub const CALLS: &[Call] = calls! {
    neg_value abs sign exp expm1 log log1p sqrt rsqrt recip sin cos tan atan tanh sigmoid erf floor ceil round
    trunc asin acos sinh cosh asinh acosh atanh exp2 log2 log10 erfc erfinv erfcinv lgamma digamma isnan isinf
    isfinite relu gelu gelu_grad gelu_tanh silu silu_grad softplus logical_not stop_gradient bitwise_not square
    sinc logit logsigmoid mish hardsigmoid hardswish hardtanh relu6 selu tanhshrink softsign checkpoint t;
    maximum minimum pow atan2 hypot copysign nextafter fmod remainder floor_divide fmax fmin logaddexp xlogy
    bitwise_left_shift bitwise_right_shift equal not_equal less less_equal greater greater_equal logical_and
    logical_or bitwise_and bitwise_or bitwise_xor;
    leaky_relu elu celu softshrink hardshrink dropout full_like;
    |c| {
        let (a, b) = (c.var(), c.var());
        let y = match c.script.below(8) {
            0 => a - b,
            1 => a * b,
            2 => a / b,
            3 => -a,
            4 => a * 2.0,
            5 => 1.0 - a,
            _ => a + b,
        };
        c.put(y);
    },
    |c| {
        let (v, lo, hi) = (c.var(), c.number(), c.number());
        c.put(v.clamp(lo, hi));
    },
    |c| {
        let (v, order) = (c.var(), c.int());
        c.put(v.polygamma(order));
    },
    |c| {
        let (v, dtype) = (c.var(), dtype(&mut c.script));
        c.put(v.cast(dtype));
    },
    |c| {
        let (v, a, b) = (c.var(), c.var(), c.var());
        c.put(v.select(a, b));
    },
    |c| {
        let (v, cond, b) = (c.var(), c.var(), c.var());
        c.put(v.where_(cond, b));
    },
    |c| {
        let (v, a, b, dtype) = (c.var(), c.number(), c.number(), dtype(&mut c.script));
        c.put(v.select_as(a, b, dtype));
    },
    |c| {
        let (v, slope) = (c.var(), c.var());
        c.put(v.prelu(slope));
    },
    |c| {
        let (v, at, x) = (c.var(), c.number(), c.number());
        c.put(v.threshold(at, x));
    },
    |c| {
        let (v, x, high) = (c.var(), c.number(), c.number());
        let high = c.script.flag().then_some(high);
        c.put(v.nan_to_num(x, high, None));
    },
    |c| {
        let (v, end, weight) = (c.var(), c.var(), c.var());
        c.put(v.lerp(end, weight));
    },
    |c| {
        let (v, mask, x) = (c.var(), c.var(), c.number());
        c.put(v.masked_fill(mask, x));
    },
    |c| {
        let (v, labels) = (c.var(), c.var());
        c.put(v.cross_entropy(labels));
    },
    |c| {
        let (v, labels, reduction) = (c.var(), c.var(), c.script.pick(&REDUCTIONS));
        let (ignore_index, label_smoothing) = (c.int(), c.number());
        let weight = c.script.flag().then(|| c.var());
        let options = CrossEntropy::default().ignore_index(ignore_index).label_smoothing(label_smoothing);
        c.put(v.cross_entropy_with(labels, options.reduction(reduction).weight(weight)));
    },
    |c| {
        let (v, b, reduction) = (c.var(), c.var(), c.script.pick(&REDUCTIONS));
        let y = match c.script.below(8) {
            0 => v.mse(b),
            1 => v.mse_with(b, reduction),
            2 => v.bce(b, reduction),
            3 => v.bce_with_logits_with(b, reduction),
            4 => nn::l1_loss(v, b, reduction),
            5 => nn::kl_div(v, b, reduction),
            6 => nn::nll_loss(v, b, reduction),
            _ => nn::poisson_nll_loss(v, b, nn::PoissonNll::default().full(c.script.flag())),
        };
        c.put(y);
    },
    |c| {
        let (v, b, x, reduction) = (c.var(), c.var(), c.number(), c.script.pick(&REDUCTIONS));
        let y = match c.script.below(6) {
            0 => nn::huber_loss(v, b, x, reduction),
            1 => nn::smooth_l1_loss(v, b, x, reduction),
            2 => nn::hinge_embedding_loss(v, b, x, reduction),
            3 => nn::cosine_similarity(v, b, c.axis(), x),
            4 => nn::gaussian_nll_loss(v, b, c.var(), c.script.flag(), x, reduction),
            _ => nn::cosine_embedding_loss(v, b, c.var(), x, reduction),
        };
        c.put(y);
    },
    |c| {
        let (a, b, d) = (c.var(), c.var(), c.var());
        let y = nn::triplet_margin_loss(a, b, d, nn::Triplet::default().swap(c.script.flag()));
        c.put(y);
    },
};
