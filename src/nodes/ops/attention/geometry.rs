//! Sizes, masks and options of attention, checked from shapes and attributes, and the layouts of its operands.

use super::attrs::{AttentionAttrs, Layout, Mask};
use crate::ensure;
use crate::kernels::attention::AttentionShape;
use crate::nodes::ir::attr_types::Choice;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::site::Site;
use std::ops::Deref;

/// Sizes and options of a node, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionGeometry {
    /// Order of axes.
    pub layout: Layout,
    /// The kernels' parameters. What depends on operands beside q, k and v is added by the lowering.
    pub shape: AttentionShape,
}

impl Deref for AttentionGeometry {
    type Target = AttentionShape;

    fn deref(&self) -> &AttentionShape {
        &self.shape
    }
}

/// `[batch, heads, sequence, width]` of one operand.
pub(in crate::nodes::ops) fn operand_axes(
    what: &str,
    d: &[usize],
    layout: Layout,
    heads: usize,
) -> Result<[usize; 4], String> {
    let name = Layout::NAMES[layout as usize];
    let shape = Infer::show_dims(d);
    match (layout, d) {
        (Layout::Bhsd, &[b, h, s, w]) | (Layout::Bshd, &[b, s, h, w]) => {
            ensure!(h == heads, "{what} of shape {shape} has {h} heads in layout {name}, not {heads}");
            ensure!(w > 0, "the head width of {what} is 0");
            Ok([b, h, s, w])
        }
        (Layout::Bsd, &[b, s, w]) => {
            ensure!(w.is_multiple_of(heads), "{heads} heads do not divide the last axis of {what}, {w}");
            ensure!(w > 0, "the head width of {what} is 0");
            Ok([b, heads, s, w / heads])
        }
        _ => Err(format!(
            "{what} has shape {shape}; layout {name} has rank {}",
            if layout == Layout::Bsd { 3 } else { 4 }
        )),
    }
}

/// Attribute `name` as a number of at least 1.
pub(super) fn attention_count(name: &str, n: i64) -> Result<usize, String> {
    ensure!(n >= 1, "{name} is {n}; it must be at least 1");
    usize::try_from(n).map_err(|_| format!("{name} is {n}"))
}

impl AttentionGeometry {
    /// The geometry of q, k and v of these dimensions.
    pub fn of<D: Deref<Target = [usize]>>(
        [q, k, v]: &[D; 3],
        attrs: &AttentionAttrs,
    ) -> Result<AttentionGeometry, String> {
        let AttentionAttrs { layout, mask, window, ahead, top_left, scale, softcap, .. } = *attrs;
        let (heads, kv_heads) = (attention_count("heads", attrs.heads)?, attention_count("kv_heads", attrs.kv_heads)?);
        ensure!(heads.is_multiple_of(kv_heads), "kv_heads = {kv_heads} does not divide heads = {heads}");
        let [batch, _, queries, width] = operand_axes("q", q, layout, heads)?;
        let [kb, _, keys, kw] = operand_axes("k", k, layout, kv_heads)?;
        let [vb, _, values, value_width] = operand_axes("v", v, layout, kv_heads)?;
        ensure!(batch == kb && batch == vb, "batch sizes {batch} of q, {kb} of k and {vb} of v differ");
        ensure!(width == kw, "head widths {width} of q and {kw} of k differ");
        ensure!(keys == values, "lengths {keys} of k and {values} of v differ");
        ensure!(window >= 0, "window is {window}; it must not be negative");
        ensure!(mask == Mask::Window || window == 0, "window is {window}, but mask is {}", Mask::NAMES[mask as usize]);
        ensure!(ahead >= 0, "ahead is {ahead}; it must not be negative");
        ensure!(mask == Mask::Window || ahead == 0, "ahead is {ahead}, but mask is {}", Mask::NAMES[mask as usize]);
        ensure!(mask != Mask::None || !top_left, "top_left places queries among keys, but mask is none");
        ensure!(scale.is_finite(), "scale is {scale}; it must be finite (0 stands for 1/√width)");
        ensure!(softcap >= 0.0 && softcap.is_finite(), "softcap is {softcap}; it must be 0 (none) or positive");
        let shape = AttentionShape {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            width,
            value_width,
            // With one head of each, both orders are the same.
            seq_major: layout != Layout::Bhsd && heads > 1,
            causal: mask != Mask::None,
            window: if mask == Mask::Window { window as usize } else { usize::MAX },
            ahead: ahead as usize,
            top_left,
            scale: if scale == 0.0 { 1.0 / (width as f64).sqrt() } else { scale },
            cap: softcap,
            padding: attrs.padding,
            bias: attrs.bias,
            drop: attrs.dropout,
            stream: attrs.stream as u64,
            ..AttentionShape::from_words(&[])
        };
        Ok(AttentionGeometry { layout, shape })
    }

    /// Dimensions of y.
    pub(super) fn y(&self) -> Vec<usize> {
        let (b, h, s, w) = (self.batch, self.heads, self.queries, self.value_width);
        match self.layout {
            Layout::Bhsd => vec![b, h, s, w],
            Layout::Bshd => vec![b, s, h, w],
            Layout::Bsd => vec![b, s, h.saturating_mul(w)],
        }
    }

    /// Pairs of a query and a key that it may see, over all heads.
    pub(super) fn pairs(&self) -> u64 {
        let rows = (self.batch * self.heads * self.queries) as u64;
        let all = rows.saturating_mul(self.keys as u64);
        match (self.causal, self.window) {
            (false, _) => all,
            (true, usize::MAX) => all / 2,
            (true, w) => all.min(rows.saturating_mul((w as u64).saturating_add(self.ahead as u64).saturating_add(1))),
        }
    }
}

/// Operands that a node may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optional {
    /// The mask of keys.
    pub padding: Option<usize>,
    /// The bias.
    pub bias: Option<usize>,
    /// The random key of dropout.
    pub key: Option<usize>,
    /// The number of all operands.
    pub end: usize,
}

/// Which optional operands there are, from `rest` on.
pub fn find_optional_operands(attrs: &AttentionAttrs, rest: usize) -> Optional {
    let mut end = rest;
    let mut next = |there: bool| {
        end += usize::from(there);
        there.then(|| end - 1)
    };
    let padding = next(attrs.padding);
    let bias = next(attrs.bias);
    let key = next(attrs.dropout != 0.0);
    Optional { padding, bias, key, end }
}

/// Checks the optional operands from `rest` on, and that no other follows.
pub(super) fn check_optional_operands(
    cx: &Infer<'_>,
    attrs: &AttentionAttrs,
    g: &AttentionGeometry,
    rest: usize,
) -> Result<(), String> {
    let Optional { padding, bias, key, end } = find_optional_operands(attrs, rest);
    let given = cx.args.len();
    ensure!(given == end, "{given} operands; padding, bias and dropout ask for {end}");
    if let Some(i) = padding {
        let d = cx.dtype(i);
        ensure!(d == DType::Bool || d == cx.dtype(0), "the padding mask is {d}; bool or {} is needed", cx.dtype(0));
        cx.expect_dims(i, "the padding mask", &[g.batch, g.keys])?;
    }
    if let Some(i) = bias {
        let d = cx.dtype(i);
        ensure!(d == DType::Bool || d == cx.dtype(0), "the bias is {d}; bool or {} is needed", cx.dtype(0));
        let (d, full) = (cx.rank(i, "the bias", 4)?, [g.batch, g.heads, g.queries, g.keys]);
        let fits = (0..4).all(|a| d[a] == full[a] || (a < 2 && d[a] == 1));
        let full = Infer::show_dims(&full);
        ensure!(fits, "the bias has shape {d}; {full} is needed, or 1 for its first axes");
    }
    let p = attrs.dropout;
    ensure!((0.0..=1.0).contains(&p), "dropout is {p}; it must lie in [0, 1]");
    match key {
        Some(i) => crate::nodes::ops::random::check_rng_key(cx, i),
        None => Ok(()),
    }
}

impl AttentionGeometry {
    /// A tensor of `heads` heads with its heads first, in groups: q and y have several in a group, k and v one.
    pub(super) fn split<'g>(&self, x: Var<'g>, heads: usize) -> Var<'g> {
        let d = x.dims();
        let (x, len, width) = match (self.layout, &d[..]) {
            (Layout::Bhsd, &[_, _, len, width]) => (x, len, width),
            (Layout::Bshd, &[_, len, _, width]) => (x.transpose(&[0, 2, 1, 3]), len, width),
            (_, &[_, len, wide, ..]) => {
                let width = wide / heads.max(1);
                (x.reshape([self.batch, len, heads, width]).transpose(&[0, 2, 1, 3]), len, width)
            }
            // After an error.
            _ => return x,
        };
        x.reshape([self.batch, self.kv_heads, heads / self.kv_heads, len, width])
    }

    /// The inverse of [`AttentionGeometry::split`].
    pub(super) fn join<'g>(&self, x: Var<'g>) -> Var<'g> {
        let d = x.dims();
        // After an error it may have any shape.
        let &[_, groups, group, len, width] = &d[..] else { return x };
        let heads = groups * group;
        let x = x.reshape([self.batch, heads, len, width]);
        match self.layout {
            Layout::Bhsd => x,
            Layout::Bshd => x.transpose(&[0, 2, 1, 3]),
            Layout::Bsd => x.transpose(&[0, 2, 1, 3]).reshape([self.batch, len, heads * width]),
        }
    }

    /// One number for each row, `[batch, heads, queries]`, as a column that broadcasts against the scores.
    pub(super) fn score_column<'g>(&self, x: Var<'g>) -> Var<'g> {
        x.reshape([self.batch, self.kv_heads, self.group(), self.queries, 1])
    }

    /// The inverse of [`AttentionGeometry::score_column`].
    pub(super) fn score_rows<'g>(&self, x: Var<'g>) -> Var<'g> {
        x.reshape([self.batch, self.heads, self.queries])
    }

    /// A bias, a mask or a tangent of a bias, in groups.
    pub(super) fn grouped_bias<'g>(&self, bias: Var<'g>) -> Var<'g> {
        let full = bias.broadcast([self.batch, self.heads, self.queries, self.keys]);
        full.reshape([self.batch, self.kv_heads, self.group(), self.queries, self.keys])
    }

    /// Which keys each query may see by its position, `[queries, keys]`.
    pub(super) fn visible_band<'g>(&self, s: &Site<'_, 'g>) -> Var<'g> {
        let dims = [self.queries, self.keys];
        let position = |axis| s.g.iota(axis, dims, DType::I64);
        // The distance of a key before the query's own place.
        let shift = if self.top_left { 0.0 } else { self.keys as f64 - self.queries as f64 };
        let behind = position(0) - position(1) + shift;
        let seen = behind.greater_equal(-(self.ahead.min(self.keys + self.queries) as f64));
        if self.window == usize::MAX {
            seen
        } else {
            seen.logical_and(behind.less_equal(self.window.min(self.keys + self.queries) as f64))
        }
    }
}

pub(super) fn attention_dims<'e>(cx: &Infer<'e>, first: usize) -> [crate::arena::dims::Dims; 3] {
    [0, 1, 2].map(|i| cx.dims(first + i))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(layout: Layout) -> AttentionGeometry {
        let shape = AttentionShape {
            batch: 2,
            heads: 3,
            kv_heads: 1,
            queries: 5,
            keys: 7,
            width: 4,
            value_width: 6,
            window: usize::MAX,
            ..AttentionShape::from_words(&[])
        };
        AttentionGeometry { layout, shape }
    }

    /// 30 rows of 7 keys.
    #[test]
    fn pairs_are_those_that_a_mask_leaves() {
        let g = geometry(Layout::Bhsd);
        let of = |causal, window, ahead| {
            AttentionGeometry { shape: AttentionShape { causal, window, ahead, ..g.shape }, ..g }.pairs()
        };
        assert_eq!(of(false, usize::MAX, 0), 210);
        assert_eq!(of(true, usize::MAX, 0), 105);
        assert_eq!(of(true, 2, 1), 120);
        assert_eq!(of(true, 0, 0), 30);
        assert_eq!([of(true, 6, 0), of(true, 9, 1), of(true, usize::MAX - 1, usize::MAX)], [210; 3]);
    }

    #[test]
    fn y_has_the_axes_of_its_layout() {
        let of = |layout| geometry(layout).y();
        assert_eq!((of(Layout::Bhsd), of(Layout::Bshd)), (vec![2, 3, 5, 6], vec![2, 5, 3, 6]));
        assert_eq!((of(Layout::Bsd), geometry(Layout::Bsd).group()), (vec![2, 5, 18], 3));
    }

    #[test]
    fn operands_beyond_the_optional_ones_begin_at_the_end() {
        let none = AttentionAttrs {
            layout: Layout::Bhsd,
            heads: 1,
            kv_heads: 1,
            mask: Mask::None,
            window: 0,
            ahead: 0,
            top_left: false,
            scale: 0.0,
            softcap: 0.0,
            padding: false,
            bias: false,
            dropout: 0.0,
            stream: 0,
        };
        let of = |padding, bias, dropout| {
            let o = find_optional_operands(&AttentionAttrs { padding, bias, dropout, ..none.clone() }, 3);
            (o.padding, o.bias, o.key, o.end)
        };
        assert_eq!(of(false, false, 0.0), (None, None, None, 3));
        assert_eq!(of(true, false, 0.5), (Some(3), None, Some(4), 5));
        assert_eq!(of(false, true, 0.0), (None, Some(3), None, 4));
        assert_eq!(of(true, true, 0.5), (Some(3), Some(4), Some(5), 6));
    }
}
