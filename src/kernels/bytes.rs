//! Copies of whole operands, as bytes.

use super::abi::Args;

/// Bytes of one unit of a copy.
pub const UNIT: usize = 1 << 15;

/// `y = x`, bytes, in units of [`UNIT`].
pub fn copy(args: &mut Args<'_>) {
    let x = args.read::<u8>(0);
    let at = args.units().start * UNIT;
    let y = args.write::<u8>(0);
    y.copy_from_slice(&x[at..at + y.len()]);
}

/// As [`copy`], and nothing where the two share their place.
pub fn keep(args: &mut Args<'_>) {
    if args.inplace(0).is_none() {
        copy(args);
    }
}
