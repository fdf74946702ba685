//! Weights in blocks, element by element, from the definition of each type.
//!
//! In a block of 256, element e is in half e/128 of the block, in plane (e mod 128)/32 of that half, at place e mod 32.

use super::array::{Array, count_elements};
use super::grouped_ops::oracle_group_of_each_row;
use super::oracle_node::OracleOps;
use super::rounding::{Rounding, nearest_element};
use super::stop::Stop;
use crate::kernels::gguf::BlockType;
use crate::nodes::ops::gguf::attrs::{GgufDequantAttrs, GgufExpertsAttrs, GgufGroupedAttrs, GgufMatmulAttrs};
use crate::nodes::{Attrs, DType, Op};

/// How far a code is from the number that a kernel multiplies by, at most.
const OFFSET: f64 = 16.0;

/// An element: scale·code − min, each step rounded to `f32`.
struct OracleGgufElement {
    scale: f64,
    code: f64,
    min: f64,
}

impl OracleGgufElement {
    fn product(&self) -> f64 {
        oracle_gguf_single(self.scale * self.code)
    }

    fn value(&self) -> f64 {
        oracle_gguf_single(self.product() - self.min)
    }

    /// What the rounding of a kernel that multiplies by codes is relative to.
    fn size(&self) -> f64 {
        self.product().abs() + self.min.abs() + OFFSET * self.scale.abs()
    }
}

fn oracle_gguf_single(x: f64) -> f64 {
    nearest_element(DType::F32, x)
}

/// The half at byte `at`.
fn oracle_gguf_half(b: &[u8], at: usize) -> f64 {
    half::f16::from_le_bytes([b[at], b[at + 1]]).to_f64()
}

/// Element `e` of a block.
fn oracle_gguf_element(t: BlockType, b: &[u8], e: usize) -> OracleGgufElement {
    let of_32 = |code: i32, scale: f64, min: f64| OracleGgufElement { scale, code: f64::from(code), min };
    // In blocks of 32, the first sixteen elements are the lower halves of bytes.
    let four = |q: usize| i32::from(if e < 16 { b[q + e % 16] & 15 } else { b[q + e % 16] >> 4 });
    let fifth = |h: usize| i32::from(b[h + e / 8] >> (e % 8) & 1) << 4;
    let d = oracle_gguf_half(b, 0);
    match t {
        BlockType::Q4_0 => of_32(four(2) - 8, d, 0.0),
        BlockType::Q4_1 => of_32(four(4), d, -oracle_gguf_half(b, 2)),
        BlockType::Q5_0 => of_32(four(6) + fifth(2) - 16, d, 0.0),
        BlockType::Q5_1 => of_32(four(8) + fifth(4), d, -oracle_gguf_half(b, 2)),
        BlockType::Q8_0 => of_32(i32::from(b[2 + e] as i8), d, 0.0),
        BlockType::Iq4Nl => {
            let values = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
            of_32(values[four(2) as usize], d, 0.0)
        }
        BlockType::Mxfp4 => {
            let (v, sign) = (four(1) % 8, if four(1) < 8 { 1 } else { -1 });
            of_32(sign * [0, 1, 2, 3, 4, 6, 8, 12][v as usize], 2f64.powi(i32::from(b[0]) - 128), 0.0)
        }
        BlockType::Q8K => {
            let d = f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            of_32(i32::from(b[4 + e] as i8), d, 0.0)
        }
        _ => oracle_gguf_element_of_256(t, b, e),
    }
}

fn oracle_gguf_element_of_256(t: BlockType, b: &[u8], e: usize) -> OracleGgufElement {
    let (half, plane, k) = (e / 128, e % 128 / 32, e % 32);
    let two = |q: usize| i32::from(b[q + 32 * half + k] >> (2 * plane) & 3);
    let with = |code: i32, scale: f64, min: f64| OracleGgufElement {
        scale: oracle_gguf_single(scale),
        code: f64::from(code),
        min: oracle_gguf_single(min),
    };
    match t {
        BlockType::Q2K => {
            let s = b[e / 16];
            with(two(16), oracle_gguf_half(b, 80) * f64::from(s & 15), oracle_gguf_half(b, 82) * f64::from(s >> 4))
        }
        BlockType::Q3K => {
            let (s, j) = (&b[96..108], e / 16);
            let low = if j < 8 { s[j] & 15 } else { s[j - 8] >> 4 };
            let scale = i32::from(low) + (i32::from(s[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32;
            let missing = b[k] >> (4 * half + plane) & 1 == 0;
            with(two(32) - if missing { 4 } else { 0 }, oracle_gguf_half(b, 108) * f64::from(scale), 0.0)
        }
        BlockType::Q4K | BlockType::Q5K => {
            let (s, j) = (&b[4..16], e / 32);
            let (scale, min) = match j < 4 {
                true => (s[j] & 63, s[j + 4] & 63),
                false => (s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4),
            };
            let (q, fifth) = match t {
                BlockType::Q4K => (16, 0),
                _ => (48, i32::from(b[16 + k] >> j & 1) << 4),
            };
            let byte = b[q + 32 * (e / 64) + k];
            let v = i32::from(if e % 64 < 32 { byte & 15 } else { byte >> 4 }) + fifth;
            with(v, oracle_gguf_half(b, 0) * f64::from(scale), oracle_gguf_half(b, 2) * f64::from(min))
        }
        BlockType::Q6K => {
            let byte = b[64 * half + 32 * (plane % 2) + k];
            let low = i32::from(if plane < 2 { byte & 15 } else { byte >> 4 });
            let v = low + (i32::from(b[128 + 32 * half + k] >> (2 * plane) & 3) << 4) - 32;
            with(v, oracle_gguf_half(b, 208) * f64::from(b[192 + e / 16] as i8), 0.0)
        }
        BlockType::Tq2_0 => with(two(0) - 1, oracle_gguf_half(b, 64), 0.0),
        _ => {
            let (byte, n) = match e {
                0..160 => (b[e % 32], e / 32),
                160..240 => (b[32 + e % 16], (e - 160) / 16),
                _ => (b[48 + e % 4], (e - 240) / 4),
            };
            let moved = u32::from(byte) * 3u32.pow(n as u32) % 256;
            with((moved * 3 / 256) as i32 - 1, oracle_gguf_half(b, 52), 0.0)
        }
    }
}

/// All elements of blocks, or `None` if a byte is unknown.
fn oracle_gguf_elements(t: BlockType, blocks: &Array) -> Option<Vec<OracleGgufElement>> {
    let bytes: Vec<u8> = blocks.each_whole().map(|x| x.map(|x| x as u8)).collect::<Option<_>>()?;
    let one = |b: &[u8]| (0..t.elements()).map(|e| oracle_gguf_element(t, b, e)).collect::<Vec<_>>();
    Some(bytes.chunks_exact(t.bytes()).flat_map(one).collect())
}

/// Ops on blocks.
pub(super) const OPS: OracleOps = OracleOps {
    names: &["gguf_dequant", "gguf_dequant_experts", "gguf_matmul", "gguf_grouped_matmul"],
    run: |node| {
        let terms = match node.op {
            Op::GGUF_MATMUL => {
                let a = GgufMatmulAttrs::of(&node.attrs);
                if a.back { a.n } else { a.k }
            }
            Op::GGUF_GROUPED_MATMUL => {
                let a = GgufGroupedAttrs::of(&node.attrs);
                if a.back { a.n } else { a.k }
            }
            _ => 1,
        };
        let (args, dtype, to) = (node.args.clone(), node.dtypes[0], node.dims[0].clone());
        node.spend((count_elements(&to) as u64).saturating_mul(terms.unsigned_abs()))?;
        oracle_gguf_op(node.op, &node.attrs.clone(), &args, dtype, &to, node.may_fault()).map(|y| vec![y])
    },
};

/// The result of an op on blocks.
fn oracle_gguf_op(
    op: Op,
    attrs: &Attrs<'_>,
    args: &[&Array],
    dtype: DType,
    to: &[usize],
    may_fault: &mut bool,
) -> Result<Array, Stop> {
    let number = |e: &OracleGgufElement| (e.value(), Rounding::of(dtype).ulps(e.value(), 0.0));
    let known = match (op, args) {
        (Op::GGUF_DEQUANT, &[blocks]) => oracle_gguf_elements(GgufDequantAttrs::of(attrs).block_type, blocks)
            .map(|d| Array::reals(dtype, to, d.iter().map(number))),
        (Op::GGUF_DEQUANT_EXPERTS, &[blocks]) => {
            let a = GgufExpertsAttrs::of(attrs);
            let (n, k) = (a.n as usize, a.k as usize);
            oracle_gguf_elements(a.block_type, blocks).map(|d| {
                let one = |at: usize| number(&d[at / (n * k) * n * k + at % n * k + at / n % k]);
                Array::reals(dtype, to, (0..count_elements(to)).map(one))
            })
        }
        (Op::GGUF_MATMUL, &[x, blocks]) => {
            let a = GgufMatmulAttrs::of(attrs);
            let of = |_: usize| 0;
            oracle_gguf_elements(a.block_type, blocks)
                .map(|d| oracle_gguf_product([a.n, a.k], a.back, x, (&d, &of), dtype, to))
        }
        (Op::GGUF_GROUPED_MATMUL, &[x, blocks, groups]) => {
            let a = GgufGroupedAttrs::of(attrs);
            let group = oracle_group_of_each_row(groups, a.by_size, x.dims[0], a.groups as usize, may_fault)?;
            let of = |row: usize| group.as_ref().map_or(0, |g| g[row]);
            let d = if group.is_some() { oracle_gguf_elements(a.block_type, blocks) } else { None };
            d.map(|d| oracle_gguf_product([a.n, a.k], a.back, x, (&d, &of), dtype, to))
        }
        _ => None,
    };
    Ok(known.unwrap_or_else(|| Array::reals(dtype, to, (0..count_elements(to)).map(|_| (0.0, f64::INFINITY)))))
}

/// x·Dᵀ, or x·D, with one of the matrices `d` `[n, k]` for each row.
fn oracle_gguf_product(
    [n, k]: [i64; 2],
    back: bool,
    x: &Array,
    (d, of): (&[OracleGgufElement], &dyn Fn(usize) -> usize),
    dtype: DType,
    to: &[usize],
) -> Array {
    let (n, k) = (n as usize, k as usize);
    let (terms, columns) = if back { (n, k) } else { (k, n) };
    let r = Rounding::of(dtype);
    let one = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        let first = of(row) * n * k;
        let (mut y, mut sizes, mut moved) = (0.0, 0.0, 0.0);
        for t in 0..terms {
            let d = &d[first + if back { t * k + column } else { column * k + t }];
            let (x, bound) = x.real(row * terms + t);
            y += x * d.value();
            sizes += (x.abs() + bound) * d.size();
            moved += if bound > 0.0 { bound * d.size() } else { 0.0 };
        }
        // Products of codes may be infinite or NaN where those of numbers are not, and the other way round.
        if sizes.is_nan() || sizes >= r.most || !y.is_finite() {
            return (y, f64::INFINITY);
        }
        r.settled(y, moved + r.ulps(sizes, terms as f64 / 2.0 + 8.0))
    };
    Array::reals(dtype, to, (0..count_elements(to)).map(one))
}
