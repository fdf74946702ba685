//! Weights in blocks as methods of [`Var`].

use super::attrs::{GgufDequantAttrs, GgufExpertsAttrs, GgufGroupedAttrs, GgufMatmulAttrs};
use crate::kernels::gguf::BlockType;
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

impl<'g> Var<'g> {
    /// The elements of these blocks, a `u8` of rank 1, as `f32` of shape `dims`. Rows of the last axis are whole
    /// blocks: 32 or 256 elements each ([`BlockType::elements`]).
    ///
    /// ```
    /// use arenagrad::graph::quant::BlockType;
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

    /// Each row times the matrix of its group: `yᵢ = xᵢ·D[gᵢ]ᵀ` for this x, `[rows, k]`, and the matrices D
    /// `[count, n, k]`, which `blocks` hold one after the other: a `u8` of rank 1, such as the weights of all experts
    /// in a GGUF file. `groups` holds the group of each row, `i32` or `i64`, `[rows]`. The result is `[rows, n]`; the
    /// gradient of x is that of the product. Only groups that have rows are decoded, part by part, where they are
    /// multiplied.
    ///
    /// Errors: those of [`Builder::finish`](crate::graph::Builder::finish), for shapes and types that do not fit. A
    /// group outside of `0..count` ends the step with the row and the value. Few rows of `f32` are multiplied by
    /// codes, as in [`Var::gguf_matmul`].
    ///
    /// ```
    /// use arenagrad::graph::quant::BlockType;
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let (experts, n, k) = (4, 8, 64);
    /// let g = Builder::new("experts");
    /// let (x, expert) = (g.input("x", [3, k], DType::F32), g.input("expert", [3], DType::I32));
    /// let blocks = g.input("blocks", [experts * n * k / 32 * 34], DType::U8);
    /// let y = x.gguf_grouped_matmul(blocks, BlockType::Q8_0, expert, [experts, n]).named("y");
    /// let mut p = Session::new().compile(&g.finish([y])?)?;
    /// // The matrix of expert e is filled with e.
    /// let w: Vec<f32> = (0..experts * n * k).map(|i| (i / (n * k)) as f32).collect();
    /// p.values_mut::<u8>("blocks")?.copy_from_slice(&arenagrad::train::gguf::encode(BlockType::Q8_0, &w)?);
    /// p.values_mut::<f32>("x")?.fill(1.0);
    /// p.values_mut::<i32>("expert")?.copy_from_slice(&[3, 0, 1]);
    /// p.step()?;
    /// let y = p.values::<f32>("y")?;
    /// assert!((y[0] - 192.0).abs() < 0.5 && y[n] == 0.0 && (y[2 * n] - 64.0).abs() < 0.5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn gguf_grouped_matmul(
        self,
        blocks: Var<'g>,
        block_type: BlockType,
        groups: Var<'g>,
        [count, n]: [usize; 2],
    ) -> Var<'g> {
        self.gguf_grouped(&[blocks, groups], block_type, [count, n], false)
    }

    /// As [`Var::gguf_grouped_matmul`], for rows that are in the order of their groups already. `sizes` holds the
    /// number of rows of each group, `[count]`. Sizes that do not sum to the number of rows end the step with an
    /// error.
    #[track_caller]
    pub fn sorted_gguf_grouped_matmul(
        self,
        blocks: Var<'g>,
        block_type: BlockType,
        sizes: Var<'g>,
        [count, n]: [usize; 2],
    ) -> Var<'g> {
        self.gguf_grouped(&[blocks, sizes], block_type, [count, n], true)
    }

    #[track_caller]
    fn gguf_grouped(
        self,
        rest: &[Var<'g>; 2],
        block_type: BlockType,
        [groups, n]: [usize; 2],
        by_size: bool,
    ) -> Var<'g> {
        let k = if self.is_some() { self.dims().last().copied().unwrap_or(0) } else { 0 };
        let [groups, n, k] = [groups, n, k].map(size_attr_to_i64);
        let attrs = GgufGroupedAttrs { block_type, groups, n, k, back: false, by_size };
        self.g.emit1(Op::GGUF_GROUPED_MATMUL, &[self, rest[0], rest[1]], &attrs.list())
    }

    /// The matrices of all experts as numbers in the layout of [`Var::grouped_matmul`]: of these blocks, which hold
    /// `[experts, n, k]` row by row, `f32` of shape `[experts, k, n]`.
    #[track_caller]
    pub fn gguf_dequant_experts(self, block_type: BlockType, [experts, n, k]: [usize; 3]) -> Var<'g> {
        let [experts, n, k] = [experts, n, k].map(size_attr_to_i64);
        self.g.emit1(Op::GGUF_DEQUANT_EXPERTS, &[self], &GgufExpertsAttrs { block_type, experts, n, k }.list())
    }
}
