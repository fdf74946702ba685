//! The values of a tile program under construction.

/// A value inside a tile program. Operand codes count inputs first, then steps.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::nodes) enum Slot {
    Input(usize),
    TileStep(usize),
}
