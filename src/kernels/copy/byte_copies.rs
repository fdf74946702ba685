//! Copies of whole operands, as bytes.

use crate::abi::Args;

/// Bytes of one unit of a copy.
pub const UNIT: usize = 1 << 15;

/// `y = x` as bytes, [`UNIT`] bytes in a unit.
pub fn copy_bytes_kernel(args: &mut Args<'_>) {
    let x = args.read::<u8>(0);
    let at = args.units().start * UNIT;
    let y = args.write::<u8>(0);
    y.copy_from_slice(&x[at..at + y.len()]);
}

/// Copies an operand into a larger one, at the byte that the parameter says. The other bytes stay.
pub fn place_bytes_kernel(args: &mut Args<'_>) {
    let (x, at) = (args.read::<u8>(0), args.params()[0] as usize);
    args.write::<u8>(0)[at..at + x.len()].copy_from_slice(x);
}

/// As [`copy_bytes_kernel`], but does nothing if the operands share their bytes.
pub fn copy_bytes_unless_shared_kernel(args: &mut Args<'_>) {
    if args.inplace(0).is_none() {
        copy_bytes_kernel(args);
    }
}
