//! Rotary position embedding as a method of [`Var`], and its tables: constants whose angles are computed in `f64`.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::attention::attrs::{Layout, Pairing, RopeAttrs};

/// The most elements of a table. A larger one is refused before it is allocated.
const LARGEST: usize = 1 << 28;

/// Options of [`Var::rope`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rope {
    /// The order of axes of x.
    pub layout: Layout,
    /// Number of heads. 0 takes it from the shape of x; [`Layout::Bsd`] has no axis of heads, so there 0 means 1.
    pub heads: usize,
    /// Which elements of a head make a pair.
    pub pairing: Pairing,
    /// Whether the angles are negated.
    pub inverse: bool,
}

impl<'g> Var<'g> {
    /// Rotates each pair (a, b) of each head into (a·cos − b·sin, b·cos + a·sin) of its position.
    ///
    /// `cos` and `sin` have shape `[positions, n/2]`, one row for each position of the sequence, or
    /// `[batch, positions, n/2]`, one row for each element of each sequence; n of the head's elements are rotated, and
    /// the rest passes through. For positions that are not 0, 1, 2 …, gather the rows: `cos.gather(positions, 0)`.
    #[track_caller]
    pub fn rope(self, cos: Var<'g>, sin: Var<'g>, opt: Rope) -> Var<'g> {
        let axis = if opt.layout == Layout::Bhsd { 1 } else { 2 };
        let heads = match (opt.heads, opt.layout) {
            (0, Layout::Bsd) => 1,
            (0, _) => self.dims().get(axis).copied().unwrap_or(1),
            (heads, _) => heads,
        };
        let attrs = RopeAttrs {
            layout: opt.layout,
            heads: i64::try_from(heads).unwrap_or(i64::MAX),
            pairing: opt.pairing,
            inverse: opt.inverse,
        };
        self.g.emit1(Op::ROPE, &[self, cos, sin], &attrs.list())
    }
}

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
    fn rope_angle_tables(
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
fn rope_frequencies(n: usize, base: f64) -> impl Fn(usize) -> f64 {
    move |i| base.powf(-((2 * i) as f64) / n as f64)
}

/// Rotary embedding of the pixels of an image, as in SAM 2: the column rotates the first half of a head's pairs, the
/// row rotates the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxialRope2d {
    /// Columns of the image.
    pub end_x: usize,
    /// Rows of the image. Element `t` of the sequence is column `t % end_x` of row `t / end_x`.
    pub end_y: usize,
    /// Elements of a head; a multiple of 4.
    pub head_dim: usize,
    /// Heads.
    pub heads: usize,
    /// The base of the frequencies (10000 in SAM 2).
    pub theta: f64,
    /// Number of images of this size that lie one after another in the sequence, as SAM 2's memories do; usually 1.
    pub repeat_factor: usize,
}

impl AxialRope2d {
    /// Tables `[repeat_factor·end_x·end_y, head_dim/2]`: pair i < head_dim/4 is rotated by column·θ^(−4i/head_dim),
    /// pair head_dim/4 + i by row·θ^(−4i/head_dim).
    #[track_caller]
    pub fn tables<'g>(&self, g: &'g Builder, dtype: DType) -> [Var<'g>; 2] {
        let (d, quarter) = (self.head_dim, self.head_dim / 4);
        if d % 4 != 0 {
            return [g.fail(Kind::Shape, format!("axial_rope2d: head_dim is {d}; it must be a multiple of 4")); 2];
        }
        let places = self.end_x.checked_mul(self.end_y).and_then(|n| n.checked_mul(self.repeat_factor));
        let Some(rows) = places else {
            let (n, x, y) = (self.repeat_factor, self.end_x, self.end_y);
            return [g.fail(Kind::Shape, format!("axial_rope2d: {n} images of {x} × {y} are too many")); 2];
        };
        // The pairs of one axis are those of a head of half the elements.
        let rate = rope_frequencies(d / 2, self.theta);
        g.rope_angle_tables("axial_rope2d", [rows, d / 2], self.theta, dtype, |t, i| {
            let t = t % (self.end_x * self.end_y);
            if i < quarter { (t % self.end_x) as f64 * rate(i) } else { (t / self.end_x) as f64 * rate(i - quarter) }
        })
    }

    /// `x` `[batch, repeat_factor·end_x·end_y, heads·head_dim]`, rotated.
    #[track_caller]
    pub fn apply<'g>(&self, x: Var<'g>) -> Var<'g> {
        let (d, wide) = (x.dims(), self.heads.saturating_mul(self.head_dim));
        if x.is_some() && d.last() != Some(&wide) {
            let (h, w) = (self.heads, self.head_dim);
            return x.g.fail(Kind::Shape, format!("axial_rope2d({x:?}): the last axis is not {h} heads of {w}"));
        }
        if !x.is_some() {
            return x.g.var(Value::NONE);
        }
        let [cos, sin] = self.tables(x.g, x.dtype());
        let opt = Rope { layout: Layout::Bsd, heads: self.heads, pairing: Pairing::Neighbours, inverse: false };
        x.rope(cos, sin, opt)
    }
}
