//! Reads at fixed positions of an axis, and numbers for the positions of an axis.

use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;

/// The elements of `x` at these positions along `axis`.
pub fn take_positions<'g>(x: Var<'g>, from: &[usize], axis: usize) -> Var<'g> {
    let bytes: Vec<u8> = from.iter().flat_map(|&i| (i as i32).to_le_bytes()).collect();
    x.gather(x.g.constant_bytes(&bytes, [from.len()], DType::I32), axis as i64)
}

/// One number for each position along an axis that `after` − 1 axes follow.
pub fn numbers_by_position<'g>(g: &'g Builder, values: &[f64], after: usize, dtype: DType) -> Var<'g> {
    let mut dims = vec![1; after];
    dims[..1].copy_from_slice(&[values.len()]);
    match dtype {
        DType::F32 => g.constant(&values.iter().map(|&v| v as f32).collect::<Vec<_>>(), dims),
        _ => g.constant_f64(values, dims),
    }
}
