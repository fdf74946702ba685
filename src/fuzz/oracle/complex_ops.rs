//! Joins real and imaginary parts to complex numbers, and takes them apart. All other complex arithmetic is real ops.

use super::array::Array;
use crate::nodes::{DType, Op};

/// The result of `complex`, `real` or `imag`, of type `dtype`.
pub(super) fn oracle_complex_parts(op: Op, args: &[&Array], dtype: DType) -> Option<Array> {
    let x = *args.first()?;
    let part = |k: usize| {
        let one = |i: usize| (x.pair(i).unwrap_or_default()[k], x.bounds()[i]);
        Array::reals(dtype, &x.dims, (0..x.len()).map(one))
    };
    Some(match (op, args) {
        (Op::COMPLEX, &[re, im]) => {
            let one = |i: usize| ([re.number(i), im.number(i)], re.bounds()[i].max(im.bounds()[i]));
            Array::pairs(dtype, &re.dims, (0..re.len()).map(one))
        }
        (Op::REAL, _) => part(0),
        (Op::IMAG, _) => part(1),
        _ => return None,
    })
}
