//! Helpers for decompositions: the elements at fixed positions of an axis, and a constant with one number for each
//! position of an axis.

use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;

/// The elements of `x` at these positions along `axis`.
pub fn take_elements_at<'g>(x: Var<'g>, from: &[usize], axis: usize) -> Var<'g> {
    let bytes: Vec<u8> = from.iter().flat_map(|&i| (i as i32).to_le_bytes()).collect();
    x.gather(x.g.constant_bytes(&bytes, [from.len()], DType::I32), axis as i64)
}

/// One number for each position along an axis, as a tensor of `rank` axes, the first of which is that axis.
pub fn numbers_by_position<'g>(g: &'g Builder, values: &[f64], rank: usize, dtype: DType) -> Var<'g> {
    let mut dims = vec![1; rank.max(1)];
    dims[0] = values.len();
    match dtype {
        DType::F32 => g.constant(&values.iter().map(|&v| v as f32).collect::<Vec<_>>(), dims),
        _ => g.constant_f64(values, dims),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_along_the_first_of_their_axes() {
        let g = Builder::new("numbers");
        for (rank, dims) in [(0, &[3][..]), (1, &[3]), (3, &[3, 1, 1])] {
            for dtype in [DType::F32, DType::F64] {
                let x = numbers_by_position(&g, &[1.0, 2.0, 3.0], rank, dtype);
                assert_eq!((&x.dims()[..], x.dtype()), (dims, dtype), "rank {rank}");
            }
        }
    }

    #[test]
    fn positions_are_taken_along_an_axis() {
        let g = Builder::new("taken");
        let x = g.input("x", [2, 3], DType::F32);
        assert_eq!(take_elements_at(x, &[2, 0, 0, 1], 1).dims()[..], [2, 4]);
        assert_eq!(take_elements_at(x, &[1], 0).dims()[..], [1, 3]);
    }
}
