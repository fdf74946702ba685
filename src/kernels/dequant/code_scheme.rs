//! The schemes of coded weights.

/// How weights are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeScheme {
    /// Signed integers of 8 bits.
    Int8,
    /// Unsigned integers of 4 bits, two in a byte: the lower half has the even index.
    Int4,
    /// 8-bit floats, 4 bits of exponent.
    Fp8E4m3,
    /// 8-bit floats, 5 bits of exponent.
    Fp8E5m2,
    /// 4-bit floats, two in a byte. Scales are E4M3 codes times one number for all.
    Nvfp4,
}

impl CodeScheme {
    /// All schemes.
    pub const ALL: [CodeScheme; 5] =
        [CodeScheme::Int8, CodeScheme::Int4, CodeScheme::Fp8E4m3, CodeScheme::Fp8E5m2, CodeScheme::Nvfp4];

    /// The scheme of a parameter word.
    pub fn from_word(word: usize) -> CodeScheme {
        CodeScheme::ALL[word.min(CodeScheme::ALL.len() - 1)]
    }

    /// Whether two codes share a byte.
    pub fn is_packed(self) -> bool {
        matches!(self, CodeScheme::Int4 | CodeScheme::Nvfp4)
    }

    /// Whether codes are integers, which may have zeros.
    pub fn has_zeros(self) -> bool {
        matches!(self, CodeScheme::Int8 | CodeScheme::Int4)
    }

    /// The zero of integer codes that name none.
    pub fn default_zero(self) -> f64 {
        if self == CodeScheme::Int4 { 8.0 } else { 0.0 }
    }

    /// Bytes of a matrix of `elements` codes.
    pub fn bytes(self, elements: usize) -> usize {
        if self.is_packed() { elements.div_ceil(2) } else { elements }
    }
}
