//! The ways of computing convolutions that a session chooses between.

use super::geom::ConvGeom;
use super::winograd::fits_winograd;

/// How convolutions are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Convolutions {
    /// As sums of products, as they are defined.
    #[default]
    Direct = 0,
    /// Those of 3 × 3 kernels with stride 1 and at least 16 channels on both sides by Winograd's minimal filtering
    /// `F(4×4, 3×3)`, forward and in gradients, where that is faster. It takes a quarter of the multiplications; errors
    /// are about twice those of `Direct`. A pixel or weight that is not finite makes more results NaN. In WebAssembly
    /// all are direct.
    Winograd = 1,
}

impl Convolutions {
    /// Each choice, by its number, and its name.
    pub const ALL: &[(Convolutions, &'static str)] =
        &[(Convolutions::Direct, "direct"), (Convolutions::Winograd, "winograd")];

    /// The choice called `name`.
    pub fn named(name: &str) -> Option<Convolutions> {
        Convolutions::ALL.iter().find(|c| c.1 == name).map(|c| c.0)
    }

    /// The name: `direct` or `winograd`.
    pub fn name(self) -> &'static str {
        Convolutions::ALL[self as usize].1
    }

    /// `g`, computed as chosen.
    pub fn of(self, g: ConvGeom) -> ConvGeom {
        let here = cfg!(not(target_arch = "wasm32")) && self == Convolutions::Winograd;
        ConvGeom { winograd: here && fits_winograd(&g), ..g }
    }
}
