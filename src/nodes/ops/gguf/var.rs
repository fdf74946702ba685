//! Weights in blocks as methods of [`Var`].

use super::attrs::{GgufDequantAttrs, GgufMatmulAttrs};
use crate::kernels::gguf::BlockType;
use crate::nodes::build::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

impl<'g> Var<'g> {
    /// The elements of these blocks, a `u8` of rank 1, as `f32` of shape `dims`. Rows of the last axis are whole
    /// blocks: 32 or 256 elements each ([`BlockType::elements`]).
    ///
    /// ```
    /// use arenagrad::graph::BlockType;
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("decode");
    /// let blocks = g.input("blocks", [34], DType::U8);
    /// let x = blocks.gguf_dequant(BlockType::Q8_0, [32]).named("x");
    /// let mut p = Session::new().compile(&g.finish([x])?)?;
    /// let held: Vec<f32> = (0..32).map(|i| i as f32 - 127.0 * (i / 31) as f32).collect();
    /// p.values_mut::<u8>("blocks")?.copy_from_slice(&arenagrad::train::gguf::encode(BlockType::Q8_0, &held)?);
    /// p.step()?;
    /// assert!(p.values::<f32>("x")?.iter().zip(&held).all(|(a, b)| (a - b).abs() < 0.5));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn gguf_dequant(self, block_type: BlockType, dims: impl AsRef<[usize]>) -> Var<'g> {
        let dims = size_attrs_to_i64(dims.as_ref());
        self.g.emit1(Op::GGUF_DEQUANT, &[self], &GgufDequantAttrs { block_type, dims }.list())
    }

    /// x·Dᵀ for this x, `[.., k]`, and D `[n, k]`, which `blocks` hold row by row: a `u8` of rank 1, such as a tensor
    /// of a GGUF file. The result is `[.., n]`. x is `f32` or `f64`; its gradient is g·D. D never exists as numbers:
    /// parts of it are decoded where they are multiplied.
    ///
    /// One to four rows x of `f32` are multiplied by codes, which takes about as long as reading the blocks; sums then
    /// have another order than in [`Var::matmul`]. An infinite x may then give NaN where the product with decoded
    /// numbers is infinite.
    #[track_caller]
    pub fn gguf_matmul(self, blocks: Var<'g>, block_type: BlockType, n: usize) -> Var<'g> {
        let k = if self.is_some() { self.dims().last().copied().unwrap_or(0) } else { 0 };
        let attrs = GgufMatmulAttrs { block_type, n: size_attr_to_i64(n), k: size_attr_to_i64(k), back: false };
        self.g.emit1(Op::GGUF_MATMUL, &[self, blocks], &attrs.list())
    }
}
