//! Coded weights and products of codes, element by element, from the definition of each code.
//!
//! Invariant: nothing comes from kernels, nor from decompositions. Sums of codes are exact integers. The factors of
//! these sums are computed in `f64`, as the ops define them.

use super::array::{Array, count_elements, unravel_position};
use super::balls::{Ball, Balls, UNKNOWN, ZERO};
use super::oracle_node::OracleOps;
use super::quant_ops::oracle_quant_scales;
use super::rounding::{Rounding, nearest_element, spread_of_ends};
use super::stop::Stop;
use super::whole_ops::wrap_whole;
use crate::nodes::ops::quant::attrs::DequantizeAttrs;
use crate::nodes::ops::quant::int_attrs::{QConvAttrs, QMatmulAttrs};
use crate::nodes::ops::quant::weight_attrs::{DequantAttrs, DequantMatmulAttrs, WeightScheme};
use crate::nodes::{Attrs, DType, Op};

/// Ops on codes.
pub(super) const OPS: OracleOps = OracleOps {
    names: &["dequant", "dequantize", "dequant_matmul", "q_matmul", "q_conv2d"],
    run: |node| {
        let (args, dtype, to) = (node.args.clone(), node.dtypes[0], node.dims[0].clone());
        let terms = match node.op {
            Op::DEQUANT_MATMUL | Op::Q_MATMUL => args[0].dims.last().copied().unwrap_or(1),
            Op::Q_CONV2D => count_elements(&args[1].dims[1..]),
            _ => 1,
        };
        node.spend((count_elements(&to) as u64).saturating_mul(terms as u64))?;
        oracle_coded_op(node.op, &node.attrs.clone(), &args, dtype, &to, node.may_fault()).map(|y| vec![y])
    },
};

/// The result of an op on codes.
fn oracle_coded_op(
    op: Op,
    attrs: &Attrs<'_>,
    args: &[&Array],
    dtype: DType,
    to: &[usize],
    may_fault: &mut bool,
) -> Result<Array, Stop> {
    let e = Balls(Rounding::of(dtype));
    let reals = |one: &dyn Fn(usize) -> Ball| {
        let number = |i: usize| {
            let Ball { x, b } = one(i);
            (x, b)
        };
        Array::reals(dtype, to, (0..count_elements(to)).map(number))
    };
    Ok(match op {
        Op::DEQUANTIZE => {
            oracle_quant_scales(args[1], may_fault)?;
            let axis = DequantizeAttrs::of(attrs).axis.and_then(|axis| usize::try_from(axis).ok());
            reals(&|i| {
                let at = axis.map_or(0, |axis| unravel_position(i, to)[axis]);
                let zero = args.get(2).map_or(Some(0), |z| z.whole(at));
                let centred = args[0].whole(i).zip(zero).map(|(q, z)| oracle_coded_whole_ball(q - z));
                centred.map_or(UNKNOWN, |q| e.times(q, oracle_coded_ball(args[1], at)))
            })
        }
        Op::DEQUANT => {
            let w = OracleCodedWeights::new(e, DequantAttrs::of(attrs), args);
            reals(&|i| w.number(i / w.n.max(1), i % w.n.max(1)))
        }
        Op::DEQUANT_MATMUL => {
            let a = DequantMatmulAttrs::of(attrs);
            let (transposed, w) = (a.transposed, OracleCodedWeights::new(e, a.into(), &args[1..]));
            let (k, columns) = (args[0].dims.last().copied().unwrap_or(1), to.last().copied().unwrap_or(1));
            reals(&|i| {
                let (row, column) = (i / columns, i % columns);
                let weight = |t: usize| if transposed { w.number(column, t) } else { w.number(t, column) };
                e.sum(ZERO, 1.0, (0..k).map(|t| (oracle_coded_ball(args[0], row * k + t), weight(t))))
            })
        }
        Op::Q_MATMUL => {
            let p = OracleCodedSums::new(QMatmulAttrs::of(attrs), args, may_fault)?;
            let (k, n) = (args[1].dims[0], args[1].dims[1]);
            let terms = |i: usize| (0..k).map(move |t| Some((i / n * k + t, t * n + i % n)));
            p.results(dtype, to, |i| (p.sum(i % n, terms(i)), i % n))
        }
        _ => {
            let a = QConvAttrs::of(attrs);
            let p = OracleCodedSums::new(a.product(), args, may_fault)?;
            oracle_coded_convolution(&a, &p, dtype, to)
        }
    })
}

/// Float `i` of `x`.
fn oracle_coded_ball(x: &Array, i: usize) -> Ball {
    let (x, b) = x.real(i);
    if x.is_finite() { Ball { x, b } } else { UNKNOWN }
}

fn oracle_coded_whole_ball(x: i128) -> Ball {
    Ball { x: x as f64, b: 0.0 }
}

/// A number of one sign bit, `exponent` bits and `mantissa` bits: (1 + m/2^mantissa)·2^(e − bias), and below the least
/// exponent m·2^(1 − bias − mantissa).
fn oracle_float_of_code(code: u32, exponent: u32, mantissa: u32) -> f64 {
    let (bias, m) = ((1 << (exponent - 1)) - 1, f64::from(code & ((1 << mantissa) - 1)));
    let (e, unit) = ((code >> mantissa & ((1 << exponent) - 1)) as i32, 2f64.powi(-(mantissa as i32)));
    let size = if e == 0 { m * unit * 2f64.powi(1 - bias) } else { (1.0 + m * unit) * 2f64.powi(e - bias) };
    if code >> (exponent + mantissa) & 1 == 1 { -size } else { size }
}

/// A number of four bits of exponent and three of mantissa; `None` for NaN.
fn oracle_e4m3_of_code(code: u32) -> Option<f64> {
    if code & 0x7F == 0x7F { None } else { Some(oracle_float_of_code(code, 4, 3)) }
}

/// Coded weights: codes, scales, and the third operand if there is one.
struct OracleCodedWeights<'a> {
    e: Balls,
    a: DequantAttrs,
    args: &'a [&'a Array],
    /// Columns.
    n: usize,
}

impl<'a> OracleCodedWeights<'a> {
    fn new(e: Balls, a: DequantAttrs, args: &'a [&'a Array]) -> OracleCodedWeights<'a> {
        OracleCodedWeights { e, a, args, n: args[1].dims[1] }
    }

    /// The code of this flat position.
    fn code(&self, at: usize) -> Option<i128> {
        match self.a.scheme {
            WeightScheme::Int4 | WeightScheme::Nvfp4 => Some(self.args[0].whole(at / 2)? >> (4 * (at % 2)) & 15),
            _ => self.args[0].whole(at),
        }
    }

    /// The weight of row `p` and column `j`.
    fn number(&self, p: usize, j: usize) -> Ball {
        let Some(code) = self.code(p * self.n + j) else { return UNKNOWN };
        let block = p / self.a.block as usize * self.n + j;
        let zero = |none: i128| {
            self.args.get(2).map_or(oracle_coded_whole_ball(none), |zeros| oracle_coded_ball(zeros, block))
        };
        let centred = |zero: Ball| {
            self.e.sum(oracle_coded_whole_ball(code), -1.0, std::iter::once((zero, oracle_coded_whole_ball(1))))
        };
        let exact = |x: f64| if x.is_finite() { Ball { x, b: 0.0 } } else { UNKNOWN };
        let number = match self.a.scheme {
            WeightScheme::Int8 => centred(zero(0)),
            WeightScheme::Int4 => centred(zero(8)),
            WeightScheme::Fp8E4m3 => oracle_e4m3_of_code(code as u32).map_or(UNKNOWN, exact),
            WeightScheme::Fp8E5m2 if code >> 2 & 31 == 31 => UNKNOWN,
            WeightScheme::Fp8E5m2 => exact(oracle_float_of_code(code as u32, 5, 2)),
            WeightScheme::Nvfp4 => exact(oracle_float_of_code(code as u32, 2, 1)),
        };
        let scale = match self.a.scheme {
            WeightScheme::Nvfp4 => {
                let Some(scale) = self.args[1].whole(block) else { return UNKNOWN };
                // NaN counts as 0.
                let scale = exact(oracle_e4m3_of_code(scale as u32).unwrap_or(0.0));
                self.args.get(2).map_or(UNKNOWN, |all| self.e.times(scale, oracle_coded_ball(all, 0)))
            }
            _ => oracle_coded_ball(self.args[1], block),
        };
        self.e.times(number, scale)
    }
}

/// Sums of products of codes, and what becomes of them.
struct OracleCodedSums<'a> {
    a: QMatmulAttrs,
    args: &'a [&'a Array],
}

impl<'a> OracleCodedSums<'a> {
    fn new(a: QMatmulAttrs, args: &'a [&'a Array], may_fault: &mut bool) -> Result<OracleCodedSums<'a>, Stop> {
        let p = OracleCodedSums { a, args };
        if let Some(scales) = p.scales() {
            oracle_quant_scales(scales, may_fault)?;
        }
        Ok(p)
    }

    /// The scale of each column or channel. Bare sums have none.
    fn scales(&self) -> Option<&'a Array> {
        let scaled = self.a.scales && self.a.to != DType::I32;
        self.args.last().copied().filter(|_| scaled)
    }

    /// Σ (x − x_zp)·(w − w_zp) over these positions; `None` stands for a place beyond the edge, which adds nothing.
    fn sum(&self, column: usize, terms: impl Iterator<Item = Option<(usize, usize)>>) -> Option<i128> {
        let w_zp = match self.a.zeros_place(self.args.len()) {
            Some(zeros) => self.args[zeros].whole(column)?,
            None => i128::from(self.a.w_zp),
        };
        let mut sum = 0;
        for (p, q) in terms.flatten() {
            let (x, w) = (self.args[0].whole(p)?, self.args[1].whole(q)?);
            sum += (x - i128::from(self.a.x_zp)) * (w - w_zp);
        }
        Some(sum)
    }

    /// All results of type `dtype`, of the sum and the column or channel of each.
    fn results(&self, dtype: DType, to: &[usize], of: impl Fn(usize) -> (Option<i128>, usize)) -> Array {
        let has_bias = self.a.places(self.args.len()).0.is_some();
        let scales = self.scales();
        let biased = |i: usize| {
            let (sum, column) = of(i);
            let bias = if has_bias { self.args[2].whole(column) } else { Some(0) };
            (sum.zip(bias).map(|(sum, bias)| wrap_whole(DType::I32, sum + bias)), column)
        };
        let count = count_elements(to);
        if dtype == DType::I32 {
            return Array::wholes(dtype, to, (0..count).map(|i| biased(i).0));
        }
        let factor = self.a.s_x * self.a.s_w / self.a.s_out;
        // The number in the middle and those at the ends of the scale's bound.
        let multiplied = |i: usize| -> Option<[f64; 3]> {
            let (sum, column) = biased(i);
            let (scale, bound) = scales.map_or((1.0, 0.0), |s| s.real(column));
            let sum = sum? as f64;
            let by = |scale: f64| sum * if scales.is_some() { scale * factor } else { factor };
            (bound < f64::INFINITY).then(|| [by(scale), by(scale - bound), by(scale + bound)])
        };
        if dtype == DType::F32 {
            let r = Rounding::of(dtype);
            let number = |i: usize| match multiplied(i) {
                Some([y, low, high]) => {
                    let moved = spread_of_ends(y, &[low, high]);
                    let bound = if moved == 0.0 { 0.0 } else { moved + r.ulps(y, 1.0) };
                    r.settled(nearest_element(dtype, y), bound)
                }
                None => (0.0, f64::INFINITY),
            };
            return Array::reals(dtype, to, (0..count).map(number));
        }
        let code = |y: f64| {
            let rounded = y.round_ties_even();
            let shifted = if rounded.is_nan() { 0.0 } else { rounded } + self.a.out_zp as f64;
            shifted.clamp(-128.0, 127.0) as i128
        };
        let known = |i: usize| {
            let [y, low, high] = multiplied(i)?.map(code);
            (y == low && y == high).then_some(y)
        };
        Array::wholes(dtype, to, (0..count).map(known))
    }
}

/// `q_conv2d`: a place beyond the edge counts as the zero point of x.
fn oracle_coded_convolution(a: &QConvAttrs, p: &OracleCodedSums<'_>, dtype: DType, to: &[usize]) -> Array {
    let (x, w) = (&p.args[0].dims, &p.args[1].dims);
    let (c_in, h, width) = (x[1], x[2] as i64, x[3] as i64);
    let (c_out, own, kh, kw) = (w[0], w[1], w[2], w[3]);
    p.results(dtype, to, |i| {
        let at = unravel_position(i, to);
        let (image, channel) = (at[0], at[1]);
        let group = channel / (c_out / a.groups.max(1) as usize).max(1);
        let terms = (0..own * kh * kw).map(|t| {
            let (c, u, v) = (t / (kh * kw), t / kw % kh, t % kw);
            let place = |axis: usize, o: usize, k: usize| {
                o as i64 * a.stride[axis] + k as i64 * a.dilation[axis] - a.pad[2 * axis]
            };
            let (row, column) = (place(0, at[2], u), place(1, at[3], v));
            let inside = (0..h).contains(&row) && (0..width).contains(&column);
            let from = (image * c_in + group * own + c) as i64 * h * width + row * width + column;
            inside.then(|| (from as usize, channel * own * kh * kw + t))
        });
        (p.sum(channel, terms), channel)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_floats_have_known_numbers() {
        let e4m3 = [(0x01, 2f64.powi(-9)), (0x08, 2f64.powi(-6)), (0x38, 1.0), (0x7E, 448.0), (0xB8, -1.0)];
        assert!(e4m3.iter().all(|&(code, x)| oracle_e4m3_of_code(code) == Some(x)));
        assert_eq!((oracle_e4m3_of_code(0x7F), oracle_e4m3_of_code(0xFF)), (None, None));
        let e5m2 = [(0x01, 2f64.powi(-16)), (0x3C, 1.0), (0x7B, 57344.0)];
        assert!(e5m2.iter().all(|&(code, x)| oracle_float_of_code(code, 5, 2) == x));
        let e2m1: Vec<f64> = (0..10).map(|code| oracle_float_of_code(code, 2, 1)).collect();
        assert_eq!(e2m1, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5]);
    }
}
