//! Coded weights. Users make a [`CodedWeights`]. The rest of the file serves the rules of `dequant` and
//! `dequant_matmul`: checks of the operands, the weights as numbers in simpler ops, and derivatives.
//!
//! Operands are the codes, the scales `[⌈k / block⌉, n]`, and, for integer codes, zeros of the scales' shape, which may
//! be left out. With [`WeightScheme::Nvfp4`], the scales are codes too, and the third operand is a factor of all
//! scales.

use super::weight_attrs::{DequantAttrs, WeightScheme};
use crate::ensure;
use crate::kernels::dequant::fp8_fp4::{e2m1_to_f32, e4m3_to_f32, e5m2_to_f32};
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, to_size_attr};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::Op;

/// Weights `[k, n]` as codes: (code − zero)·scale, with a scale and a zero for each block of rows of a column. Scales
/// and zeros are `[⌈k / block⌉, n]`, of the type of the numbers.
/// [`encode_weights`](crate::graph::quant::encode_weights) makes codes and scales of numbers.
#[derive(Clone, Copy)]
pub struct CodedWeights<'g> {
    pub(super) scheme: WeightScheme,
    pub(super) block: usize,
    pub(super) k: usize,
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

    /// The weights as numbers, `[k, n]`: the op `dequant`. The derivative with respect to a code is its scale; codes of
    /// four bits, which share bytes, and codes of scales count as constants.
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

    pub(super) fn operands(&self) -> Vec<Var<'g>> {
        [self.codes, self.scales].into_iter().chain(self.third).collect()
    }
}

/// The sizes and the float type of weights whose operands begin at operand `first`: rows, columns, type.
pub(super) fn check_weight_operands(
    cx: &Infer<'_>,
    first: usize,
    a: &DequantAttrs,
) -> Result<(usize, usize, DType), String> {
    let (scheme, codes, scales) = (a.scheme.kernel(), first, first + 1);
    let k = usize::try_from(a.k).map_err(|_| format!("k is {}; it must be 0 or more", a.k))?;
    ensure!(a.block >= 1, "block is {}; it must be 1 or more", a.block);
    let of_scales = cx.rank(scales, "the scales", 2)?;
    let n = of_scales[1];
    let blocks = k.div_ceil(to_size_attr(a.block));
    cx.expect_dims(scales, "the scales", &[blocks, n])?;
    let want = if a.scheme == WeightScheme::Int8 { DType::I8 } else { DType::U8 };
    ensure!(cx.dtype(codes) == want, "the weights are {}; {want} is needed", cx.dtype(codes));
    match scheme.is_packed() {
        true => {
            let elements = k.checked_mul(n).ok_or("the number of weights overflows")?;
            cx.expect_dims(codes, "the weights", &[scheme.bytes(elements)])?;
        }
        false => cx.expect_dims(codes, "the weights", &[k, n])?,
    }
    let third = (cx.args.len() > first + 2).then_some(first + 2);
    let dtype = match (a.scheme, third) {
        (WeightScheme::Nvfp4, Some(all)) => {
            ensure!(cx.dtype(scales) == DType::U8, "the scales are {}; u8 is needed", cx.dtype(scales));
            cx.expect_dims(all, "the number that multiplies all scales", &[])?;
            cx.float(all)?
        }
        (WeightScheme::Nvfp4, None) => return Err("nvfp4 needs a number that multiplies all scales".to_string()),
        (_, zeros) => {
            let dtype = cx.float(scales)?;
            if let Some(zeros) = zeros {
                ensure!(scheme.has_zeros(), "codes that are floats have no zeros");
                cx.same(scales, zeros)?;
            }
            dtype
        }
    };
    ensure!(matches!(dtype, DType::F32 | DType::F64), "scales are {dtype}; f32 or f64 is needed");
    Ok((k, n, dtype))
}

/// The operands of coded weights, as rules see them.
#[derive(Clone, Copy)]
pub(super) struct CodedWeightSite<'a, 'g> {
    pub(super) a: &'a DequantAttrs,
    /// Codes, scales, and the third operand if there is one.
    pub(super) args: &'a [Var<'g>],
}

impl<'g> CodedWeightSite<'_, 'g> {
    fn codes(&self) -> Var<'g> {
        self.args[0]
    }

    fn scales(&self) -> Var<'g> {
        self.args[1]
    }

    fn third(&self) -> Option<Var<'g>> {
        self.args.get(2).copied()
    }

    fn is_nvfp4(&self) -> bool {
        self.a.scheme == WeightScheme::Nvfp4
    }

    fn dtype(&self) -> DType {
        if self.is_nvfp4() { self.third().map_or(DType::F32, |t| t.dtype()) } else { self.scales().dtype() }
    }

    fn k(&self) -> usize {
        to_size_attr(self.a.k)
    }

    /// Rows of a block that may be in the matrix.
    fn block(&self) -> usize {
        to_size_attr(self.a.block).min(self.k()).max(1)
    }

    /// What each block has, for each row: `[⌈k / block⌉, n]` as `[k, n]`.
    pub(super) fn each_row(&self, x: Var<'g>) -> Var<'g> {
        let (d, block) = (x.dims(), self.block());
        let (blocks, n) = (d[0], d[1]);
        let rows = x.reshape([blocks, 1, n]).broadcast([blocks, block, n]).reshape([blocks * block, n]);
        rows.narrow(0, 0, self.k())
    }

    /// The sums over the rows of each block: `[k, n]` as `[⌈k / block⌉, n]`.
    fn block_sums(&self, x: Var<'g>) -> Var<'g> {
        let (n, block) = (x.dims()[1], self.block());
        let blocks = self.k().div_ceil(block);
        let padded = x.pad(&[0, 0], &[blocks * block - self.k(), 0], 0.0);
        padded.reshape([blocks, block, n]).sum(1)
    }

    /// Codes of 8-bit or 4-bit floats as numbers, by a table.
    fn by_table(&self, codes: Var<'g>, of: fn(u8) -> f32, count: u16) -> Var<'g> {
        let table: Vec<f32> = (0..count).map(|c| of(c as u8)).collect();
        let table = codes.g.constant(&table, [table.len()]).cast(self.dtype());
        table.gather(codes.cast(DType::I32), 0)
    }

    /// The 4-bit codes, one by one: `u8[⌈k·n/2⌉]` as `f32[k, n]`.
    fn nibbles(&self) -> Var<'g> {
        let (n, bytes) = (self.scales().dims()[1], self.codes().cast(DType::F32));
        let high = (bytes * (1.0 / 16.0)).floor();
        let low = bytes - high * 16.0;
        let len = bytes.numel();
        let both = low.reshape([len, 1]).concat(&[high.reshape([len, 1])], 1).reshape([2 * len]);
        both.narrow(0, 0, self.k() * n).reshape([self.k(), n])
    }

    /// Codes minus zeros.
    fn centred(&self) -> Var<'g> {
        let dtype = self.dtype();
        match self.a.scheme {
            WeightScheme::Int8 => {
                let codes = self.codes().cast(dtype);
                self.third().map_or(codes, |zeros| codes - self.each_row(zeros))
            }
            WeightScheme::Int4 => {
                let codes = self.nibbles().cast(dtype);
                self.third().map_or(codes - 8.0, |zeros| codes - self.each_row(zeros))
            }
            WeightScheme::Fp8E4m3 => self.by_table(self.codes(), e4m3_to_f32, 256),
            WeightScheme::Fp8E5m2 => self.by_table(self.codes(), e5m2_to_f32, 256),
            WeightScheme::Nvfp4 => self.by_table(self.nibbles(), e2m1_to_f32, 16),
        }
    }

    /// The scales as numbers.
    fn scale_numbers(&self) -> Var<'g> {
        let Some(all) = self.third().filter(|_| self.is_nvfp4()) else { return self.scales() };
        let finite = |c: u8| {
            let x = e4m3_to_f32(c);
            if x.is_nan() { 0.0 } else { x }
        };
        self.by_table(self.scales(), finite, 256) * all
    }

    /// The weights in simpler ops.
    pub(super) fn in_simpler_ops(&self) -> Var<'g> {
        self.centred() * self.each_row(self.scale_numbers())
    }

    /// The weights with scales of 1: what a scale multiplies. Of nvfp4 with the number 1 for all scales.
    fn unscaled(&self) -> Var<'g> {
        let mut args = self.args.to_vec();
        let one = if self.is_nvfp4() { args.last_mut() } else { args.get_mut(1) };
        if let Some(one) = one {
            *one = one.full_like(1.0);
        }
        self.codes().g.emit1(Op::DEQUANT, &args, &self.a.list())
    }

    /// The tangent of the weights, given those of the operands. Packed codes, and codes of scales, count as constants.
    pub(super) fn tangent(&self, t: &[Option<Var<'g>>]) -> Option<Var<'g>> {
        let t = |i: usize| t.get(i).copied().flatten();
        let of_codes = t(0).filter(|_| !self.a.scheme.kernel().is_packed());
        let of_codes = of_codes.map(|t| t.cast(self.dtype()) * self.each_row(self.scale_numbers()));
        let others = match self.is_nvfp4() {
            true => [None, t(2).map(|t| self.unscaled() * t)],
            false => {
                [t(1).map(|t| self.unscaled() * self.each_row(t)), t(2).map(|t| -self.each_row(self.scales() * t))]
            }
        };
        others.into_iter().chain([of_codes]).flatten().reduce(|a, b| a + b)
    }

    /// The cotangents of the operands that `needed` names, given that of the weights.
    pub(super) fn cotangents(&self, g: Var<'g>, needed: &[bool]) -> Vec<Option<Var<'g>>> {
        let is = |i: usize| needed.get(i) == Some(&true);
        let codes = (is(0) && !self.a.scheme.kernel().is_packed())
            .then(|| (g * self.each_row(self.scale_numbers())).cast(DType::F32));
        let (scales, third) = match self.is_nvfp4() {
            true => (None, is(2).then(|| (self.unscaled() * g).sum(..))),
            false => (
                is(1).then(|| self.block_sums(self.unscaled() * g)),
                is(2).then(|| -(self.scales() * self.block_sums(g))),
            ),
        };
        [codes, scales, third].into_iter().take(self.args.len()).collect()
    }
}
