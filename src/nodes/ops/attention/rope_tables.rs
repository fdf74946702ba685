//! The tables of rotary position embeddings: constants whose angles are computed in `f64`.

use crate::error::Kind;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;

/// The most elements of a table. A larger one is refused before it is allocated.
const LARGEST: usize = 1 << 28;

impl Builder {
    /// Tables of cosines and sines `[positions, n/2]` for heads of which `n` elements are rotated: position p rotates
    /// pair i by p·base^(−2i/n). `base` is 10000 in the paper.
    ///
    /// An odd `n`, or a `base` that is not positive, is an error of the graph.
    #[track_caller]
    pub fn rope_tables(&self, positions: usize, n: usize, base: f64, dtype: DType) -> [Var<'_>; 2] {
        if n % 2 == 1 {
            return [self.fail(Kind::Shape, format!("rope_tables: n = {n} elements cannot turn in pairs")); 2];
        }
        let rate = rope_frequencies(n, base);
        self.rope_angle_tables("rope_tables", [positions, n / 2], base, dtype, |p, i| p as f64 * rate(i))
    }

    /// Cosines and sines of `angle(row, column)`.
    #[track_caller]
    pub(super) fn rope_angle_tables(
        &self,
        name: &str,
        [rows, columns]: [usize; 2],
        base: f64,
        dtype: DType,
        angle: impl Fn(usize, usize) -> f64,
    ) -> [Var<'_>; 2] {
        let elements = rows.checked_mul(columns.max(1)).filter(|n| *n <= LARGEST);
        let wrong = match elements {
            _ if !dtype.is_float() => format!("no tables of {dtype}; f32 or f64 is needed"),
            _ if !(base > 0.0 && base.is_finite()) => format!("base is {base}; it must be positive"),
            None => format!("tables of {rows} × {columns} elements; at most {LARGEST} are allowed"),
            Some(_) => String::new(),
        };
        if !wrong.is_empty() {
            return [self.fail(Kind::Shape, format!("{name}: {wrong}")); 2];
        }
        let all = |f: fn(f64) -> f64| {
            let values = (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))).map(|(r, c)| f(angle(r, c)));
            let bytes: Vec<u8> = match dtype {
                DType::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                _ => values.flat_map(f64::to_le_bytes).collect(),
            };
            self.constant_bytes(&bytes, [rows, columns], dtype)
        };
        self.with_caller(|| [all(f64::cos), all(f64::sin)])
    }
}

/// The angle per position of each pair of `n` elements.
pub(super) fn rope_frequencies(n: usize, base: f64) -> impl Fn(usize) -> f64 {
    move |i| base.powf(-((2 * i) as f64) / n as f64)
}
