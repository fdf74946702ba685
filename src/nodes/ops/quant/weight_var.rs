//! Coded weights as methods of [`Var`].

use super::weight_attrs::{DequantAttrs, DequantMatmulAttrs, WeightScheme};
use crate::nodes::build::size_attrs::size_attr_to_i64;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

/// Weights `[k, n]` as codes: (code − zero)·scale, with a scale and a zero for each block of rows of a column. Scales
/// and zeros are `[⌈k / block⌉, n]`, of the type of the numbers. [`encode_weights`](crate::graph::encode_weights) makes
/// codes and scales of numbers.
#[derive(Clone, Copy)]
pub struct CodedWeights<'g> {
    scheme: WeightScheme,
    block: usize,
    k: usize,
    codes: Var<'g>,
    scales: Var<'g>,
    third: Option<Var<'g>>,
}

impl<'g> CodedWeights<'g> {
    /// Weights of a scheme, except [`WeightScheme::Nvfp4`]: `k` rows, of which `block` share a scale.
    pub fn new(scheme: WeightScheme, k: usize, block: usize, codes: Var<'g>, scales: Var<'g>) -> CodedWeights<'g> {
        CodedWeights { scheme, block, k, codes, scales, third: None }
    }

    /// The same with zeros, if codes are integers. Without them the zero is 0, and 8 for [`WeightScheme::Int4`].
    pub fn with_zeros(self, zeros: Var<'g>) -> CodedWeights<'g> {
        CodedWeights { third: Some(zeros), ..self }
    }

    /// Weights of [`WeightScheme::Nvfp4`]: `k` rows in blocks of 16, scales as `u8` codes, and the number that
    /// multiplies all scales.
    pub fn nvfp4(k: usize, codes: Var<'g>, scales: Var<'g>, all_scales: Var<'g>) -> CodedWeights<'g> {
        CodedWeights { scheme: WeightScheme::Nvfp4, block: 16, k, codes, scales, third: Some(all_scales) }
    }

    /// The weights as numbers, `[k, n]`: the op `dequant`. The derivative by a code is its scale; codes of four bits,
    /// which share bytes, and codes of scales count as constants.
    ///
    /// # Errors
    /// Those of [`Builder::finish`](crate::graph::Builder::finish): shapes that do not fit one another, other types,
    /// zeros of codes that are floats.
    #[track_caller]
    pub fn numbers(&self) -> Var<'g> {
        let CodedWeights { scheme, block, k, codes, .. } = *self;
        let attrs = DequantAttrs { scheme, block: size_attr_to_i64(block), k: size_attr_to_i64(k) };
        codes.g.emit1(Op::DEQUANT, &self.operands(), &attrs.list())
    }

    fn operands(&self) -> Vec<Var<'g>> {
        [self.codes, self.scales].into_iter().chain(self.third).collect()
    }
}

impl<'g> Var<'g> {
    /// The product of x `[.., k]` with coded weights, `[.., n]`. The weights are decoded while the product reads them,
    /// so their numbers never take memory. It has the bits of the product with [`CodedWeights::numbers`].
    ///
    /// Derivatives by x, scales, zeros and codes are those of that product; errors are those of
    /// [`CodedWeights::numbers`].
    ///
    /// ```
    /// use arenagrad::graph::{CodedWeights, WeightScheme, encode_weights};
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let (k, n, block) = (64, 8, 32);
    /// let w: Vec<f32> = (0..k * n).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    /// let encoded = encode_weights(WeightScheme::Int4, &w, [k, n], block)?;
    ///
    /// let g = Builder::new("small");
    /// let x = g.input("x", [1, k], DType::F32);
    /// let codes = g.state("w", [k * n / 2], DType::U8, Init::Zeros);
    /// let scales = g.state("scales", [k / block, n], DType::F32, Init::Zeros);
    /// let y = x.dequant_matmul(CodedWeights::new(WeightScheme::Int4, k, block, codes, scales)).named("y");
    /// let mut p = Session::new().compile(&g.finish([y])?)?;
    /// p.values_mut::<u8>("w")?.copy_from_slice(&encoded.codes);
    /// p.values_mut::<f32>("scales")?.copy_from_slice(&encoded.scales);
    /// p.values_mut::<f32>("x")?.fill(1.0);
    /// p.step()?;
    /// let exact: f32 = (0..k).map(|p| w[p * n]).sum();
    /// assert!((p.values::<f32>("y")?[0] - exact).abs() < 1.0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn dequant_matmul(self, w: CodedWeights<'g>) -> Var<'g> {
        self.dequant_product(w, false)
    }

    /// As [`Var::dequant_matmul`] with the transpose of the weights: x `[.., n]` gives `[.., k]`.
    #[track_caller]
    pub fn dequant_matmul_t(self, w: CodedWeights<'g>) -> Var<'g> {
        self.dequant_product(w, true)
    }

    #[track_caller]
    fn dequant_product(self, w: CodedWeights<'g>, transposed: bool) -> Var<'g> {
        let CodedWeights { scheme, block, k, .. } = w;
        let attrs = DequantMatmulAttrs { scheme, block: size_attr_to_i64(block), k: size_attr_to_i64(k), transposed };
        let args = [vec![self], w.operands()].concat();
        self.g.emit1(Op::DEQUANT_MATMUL, &args, &attrs.list())
    }
}
