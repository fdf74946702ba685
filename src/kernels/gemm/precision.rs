//! The precisions that products of `f32` can be computed in.

use super::bf16::Bf16Engine;

/// How products of `f32` are computed. Products of other element types are computed in their own type.
///
/// Error bounds are for an element of C, relative to Σ|a||b|, beside the rounding of the sums in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Precision {
    /// Products and sums in f32.
    #[default]
    F32 = 0,
    /// Operands are split into three bf16 terms, which are exact, and the six largest products of terms are summed in
    /// f32. Error at most 2⁻²⁴ (1 + 2⁻⁹): as in f32.
    Bf16x3 = 1,
    /// Operands are split into two bf16 terms, and the three largest products of terms are summed in f32. Error at most
    /// 2⁻¹⁵ (1 + 2⁻⁹).
    Bf16x2 = 2,
    /// Operands are rounded to bf16, sums are f32. Error at most 2⁻⁷ (1 + 2⁻⁹).
    Bf16 = 3,
}

impl Precision {
    /// All precisions, by their number, with their names.
    pub const ALL: &[(Precision, &'static str)] = &[
        (Precision::F32, "f32"),
        (Precision::Bf16x3, "bf16x3"),
        (Precision::Bf16x2, "bf16x2"),
        (Precision::Bf16, "bf16"),
    ];

    /// The name: `f32`, `bf16x3`, `bf16x2` or `bf16`.
    pub fn name(self) -> &'static str {
        Precision::ALL[self as usize].1
    }

    /// The precision called `name`.
    pub fn named(name: &str) -> Option<Precision> {
        Precision::ALL.iter().find(|p| p.1 == name).map(|p| p.0)
    }

    /// The precision in which this CPU computes large products that ask for this one. Without AMX, `bf16x2` and
    /// `bf16x3` are slower than `f32`, which then computes them.
    pub fn here(self) -> Precision {
        if self.splits() == 1 || Bf16Engine::current() == Bf16Engine::Amx { self } else { Precision::F32 }
    }

    /// The name, and that of [`Precision::here`] if it differs: `bf16x3 (as f32)`.
    pub fn report(self) -> String {
        let (asked, here) = (self.name(), self.here().name());
        if asked == here { asked.to_string() } else { format!("{asked} (as {here})") }
    }

    /// bf16 terms of a number.
    pub(super) fn splits(self) -> usize {
        match self {
            Precision::F32 | Precision::Bf16 => 1,
            Precision::Bf16x2 => 2,
            Precision::Bf16x3 => 3,
        }
    }
}
