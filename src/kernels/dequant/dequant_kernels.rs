//! The kernels of coded weights.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`dequant_kernel`] | codes, scales, then, if the scheme has it, a third operand: the zeros or the factor of all scales | `T[k, n]` | [`DequantMatmul`] |
//! | [`dequant_matmul_kernel`] | x: `T[m, k]`, then the same | `T[m, n]`, scratch | [`DequantMatmul`] |
//!
//! With `transposed`, x is `[m, n]` and the product `[m, k]`. Invariant: a product has the bits of the general product
//! with the decoded weights.

use super::code_scheme::CodeScheme;
use super::coded_row_product::ROW_SCRATCH;
use super::coded_weights::{CodedWeights, DEPTH, Scales};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::gemm::{Gemm, GemmFloat, PanelDecoder, TransposedDecoder, one_row_target, run_decoded};
use crate::params::params;

/// About the number of weights in a unit of [`dequant_kernel`].
const UNIT: usize = 8192;

params! {
    /// Params of the kernels of coded weights.
    pub struct DequantMatmul {
        /// Rows of x; 0 for the weights alone.
        pub m: usize,
        /// Rows of the weights.
        pub k: usize,
        /// Columns of the weights.
        pub n: usize,
        /// The position of the scheme in [`CodeScheme::ALL`].
        pub scheme: usize,
        /// Rows that share a scale, at least 1.
        pub block: usize,
        /// Whether the operands have zeros.
        pub zeros: bool,
        /// Whether the product is by the transpose of the weights.
        pub transposed: bool,
    }
}

impl DequantMatmul {
    /// The product as that of a matrix whose numbers are decoded.
    pub fn gemm(&self) -> Gemm {
        let (n, k) = if self.transposed { (self.k, self.n) } else { (self.n, self.k) };
        Gemm::new(self.m, n, k)
    }

    /// Elements of scratch of each thread for a product.
    pub fn scratch<T: GemmFloat + From<f32>>(&self) -> usize {
        let depth = if self.transposed { TransposedDecoder::<()>::DEPTH } else { DEPTH };
        let decoded = self.gemm().decoded_scratch::<T>(depth);
        if self.is_coded_row_product() { decoded.max(ROW_SCRATCH) } else { decoded }
    }

    /// Whether it is the product of one row, which has loops of its own.
    fn is_coded_row_product(&self) -> bool {
        self.m == 1 && !self.transposed
    }

    /// Rows of the weights in a unit of [`dequant_kernel`].
    fn rows(&self) -> usize {
        (UNIT / self.n.max(1)).max(1)
    }

    /// Elements in a unit of [`dequant_kernel`].
    pub fn per_unit(&self) -> usize {
        self.rows() * self.n
    }

    /// Units of [`dequant_kernel`].
    pub fn units(&self) -> usize {
        self.k.div_ceil(self.rows())
    }

    /// The weights whose operands begin at read `first`.
    fn dequant_weights<'a, T: GemmFloat>(&self, args: &Args<'a>, first: usize) -> CodedWeights<'a, T> {
        let scheme = CodeScheme::from_word(self.scheme);
        let codes = args.read::<u8>(first);
        let scales = match scheme {
            CodeScheme::Nvfp4 => Scales::Codes(args.read::<u8>(first + 1), args.read::<T>(first + 2)[0]),
            _ => Scales::Numbers(args.read::<T>(first + 1)),
        };
        let zeros = (self.zeros && scheme.has_zeros()).then(|| args.read::<T>(first + 2));
        CodedWeights { scheme, codes, k: self.k, n: self.n, block: self.block.max(1), scales, zeros }
    }
}

/// The weights as numbers.
///
/// Reads the codes, the scales, and the zeros or the number that multiplies all scales; writes `T[k, n]`,
/// [`DequantMatmul::per_unit`]; params [`DequantMatmul`].
pub fn dequant_kernel<T: GemmFloat + From<f32>>(args: &mut Args<'_>) {
    let p = DequantMatmul::from_words(args.params());
    let weights = p.dequant_weights::<T>(args, 0);
    let first = args.units().start * p.rows();
    let to = args.write::<T>(0);
    weights.decode(first..first + to.len() / p.n.max(1), 0..p.n, to, p.n);
}

/// A product with the weights, which are decoded while they are packed.
///
/// Reads x: `T[m, k]`, then as [`dequant_kernel`]; writes `T[m, n]`, divided by [`Gemm::decoded_division`], and scratch
/// (`Split::PerThread`, [`DequantMatmul::scratch`]); params [`DequantMatmul`].
pub fn dequant_matmul_kernel<T: GemmFloat + From<f32>>(args: &mut Args<'_>) {
    let p = DequantMatmul::from_words(args.params());
    let (g, x, weights) = (p.gemm(), args.read::<T>(0), p.dequant_weights::<T>(args, 1));
    if p.is_coded_row_product() && weights.coded_row_product_fits() {
        let (from, mut y) = one_row_target(args, &g);
        let scratch = args.write::<T>(1);
        return weights.coded_row_product(x, from..from + y.cols(), y.row(0), scratch);
    }
    match p.transposed {
        true => run_decoded(args, &g, x, &TransposedDecoder(weights)),
        false => run_decoded(args, &g, x, &weights),
    }
}

by_dtype!(dequant_kernel_for = dequant_kernel::<floats>);
by_dtype!(dequant_matmul_kernel_for = dequant_matmul_kernel::<floats>);
