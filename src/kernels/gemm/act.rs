//! The tag of a product's activation or act-grad epilogue.
//!
//! Invariant: the numbers are part of a descriptor's words, so they never change.

/// The last operation on each element x of C: an activation, or the product with an activation's derivative (act-grad).
/// It has the bits of the pointwise ops of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Act {
    /// x.
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
    /// x times relu's derivative: x where r > 0, else 0. Here and below, r is the element of an operand `[.., m, n]`
    /// like C. For derivatives it is the activation's result.
    ReluGrad = 7,
    /// x times tanh's derivative: x·(1 − r²).
    TanhGrad = 8,
    /// x times sigmoid's derivative: x·(r·(1 − r)).
    SigmoidGrad = 9,
    /// x·r, for a derivative r that was computed before.
    Mul = 10,
}

impl Act {
    /// All tags, by their number.
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

    /// Whether it is an act-grad epilogue. Such a product has no bias; its third operand is r.
    #[inline]
    pub fn is_act_grad(self) -> bool {
        self >= Act::ReluGrad
    }

    /// The tag with a number.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn from_word(word: u64) -> Act {
        Act::ALL[word as usize]
    }
}
