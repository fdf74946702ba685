//! The precisions that products of `f32` are computed in.

use super::bf16::Engine;

/// How the products of `f32` are computed. Other element types have one way only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Precision {
    /// Products and sums in f32.
    #[default]
    F32 = 0,
    /// Operands split in three bf16 terms, which are all of an f32, and the six larger products of them summed in f32.
    /// An element is off by at most 2⁻²⁴ (1 + 2⁻⁹) Σ|a||b| beside the rounding of the sums: as in f32.
    Bf16x3 = 1,
    /// Operands split in two bf16 terms, the three larger products of them summed in f32. An element is off by at most
    /// 2⁻¹⁵ (1 + 2⁻⁹) Σ|a||b| beside the rounding of the sums.
    Bf16x2 = 2,
    /// Operands rounded to bf16, sums in f32. An element is off by at most 2⁻⁷ (1 + 2⁻⁹) Σ|a||b| beside the rounding of
    /// the sums.
    Bf16 = 3,
}

impl Precision {
    /// All of them, by their number, with their names.
    pub const ALL: [(Precision, &'static str); 4] = [
        (Precision::F32, "f32"),
        (Precision::Bf16x3, "bf16x3"),
        (Precision::Bf16x2, "bf16x2"),
        (Precision::Bf16, "bf16"),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Precision::ALL[self as usize].1
    }

    /// The precision called `name`.
    pub fn named(name: &str) -> Option<Precision> {
        Precision::ALL.iter().find(|p| p.1 == name).map(|p| p.0)
    }

    /// What this CPU computes products in that ask for this precision and are large enough: those of several terms cost
    /// more than those of f32, but by tiles of AMX.
    pub fn here(self) -> Precision {
        if self.splits() == 1 || Engine::current() == Engine::Amx { self } else { Precision::F32 }
    }

    /// The name, and what is computed instead where that differs: `bf16x3 (as f32)`.
    pub fn report(self) -> String {
        let (asked, here) = (self.name(), self.here().name());
        if asked == here { asked.to_string() } else { format!("{asked} (as {here})") }
    }

    /// Terms of an operand.
    pub(super) fn splits(self) -> usize {
        match self {
            Precision::F32 | Precision::Bf16 => 1,
            Precision::Bf16x2 => 2,
            Precision::Bf16x3 => 3,
        }
    }
}
