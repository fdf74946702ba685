//! The activations and act-grad epilogues of a product, as a tag.
//!
//! Invariant: numbers are part of the form of a descriptor as words, so they never change.

/// An activation function applied to C: bit for bit that of the point-wise op of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Act {
    /// The identity.
    #[default]
    None = 0,
    /// max(x, 0); NaN stays NaN.
    Relu = 1,
    /// x·Φ(x).
    Gelu = 2,
    /// ½x(1 + tanh u).
    GeluTanh = 3,
    /// x·sigmoid(x).
    Silu = 4,
    /// tanh x.
    Tanh = 5,
    /// 1/(1 + e⁻ˣ).
    Sigmoid = 6,
    /// x where r > 0, else 0, for a matrix r like C: relu's derivative at its result r times x.
    ReluGrad = 7,
    /// x·(1 − r²), as tanh's.
    TanhGrad = 8,
    /// x·r·(1 − r), as sigmoid's.
    SigmoidGrad = 9,
    /// x·r.
    Mul = 10,
}

impl Act {
    /// All activations, by their number.
    pub const ALL: [Act; 11] = [
        Act::None,
        Act::Relu,
        Act::Gelu,
        Act::GeluTanh,
        Act::Silu,
        Act::Tanh,
        Act::Sigmoid,
        Act::ReluGrad,
        Act::TanhGrad,
        Act::SigmoidGrad,
        Act::Mul,
    ];

    /// Whether it is an activation's gradient: then the product has no bias, and r in its place.
    #[inline]
    pub fn is_act_grad(self) -> bool {
        self >= Act::ReluGrad
    }

    /// The activation of a parameter word.
    pub(crate) fn from_word(word: u64) -> Act {
        Act::ALL[word as usize]
    }
}
