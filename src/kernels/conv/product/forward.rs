//! The forward pass as a product of weights and windows.

use super::super::conv_micro::ConvMicroEpilogue;
use super::super::geom::ConvGeom;
use super::super::way::Share;
use super::product_plan::{COLUMNS, ROWS, TERMS};
use super::windows::load_windows;
use crate::abi::MatrixMut;
use crate::gemm::{Gemm, GemmFloat, OpenProduct, Strides};
use std::ops::Range;

/// The blocks of the forward pass.
struct Blocks {
    /// Whether images are windows themselves.
    direct: bool,
    /// Channels whose windows are copied together.
    channels: usize,
    /// Columns of a block.
    columns: usize,
    /// Whether the product goes to a stage: its columns are positions of several images.
    staged: bool,
}

impl Blocks {
    fn new(g: &ConvGeom, share: Share) -> Blocks {
        let (area, each) = (g.windows.out()[0] * g.windows.out()[1], g.c_in / g.groups);
        let staged = share.fold > 1;
        let direct = g.windows_are_pixels() && !staged;
        Blocks {
            direct,
            channels: if direct { each } else { (TERMS / (g.window())).clamp(1, each) },
            columns: if direct { area } else { COLUMNS.min(share.fold * area) },
            staged,
        }
    }

    /// The product of one block; `row` is the stride of its windows.
    fn product<T: GemmFloat>(&self, g: &ConvGeom) -> OpenProduct {
        let k = self.channels * g.window();
        let shape = Gemm::new((g.c_out / g.groups).min(ROWS), self.columns, k);
        OpenProduct::new::<T>(
            shape.with_strides(Strides { row: g.taps(), col: 1 }, Strides { row: self.columns, col: 1 }),
        )
    }

    /// Elements of [windows, stage].
    fn sizes(&self, g: &ConvGeom) -> [usize; 2] {
        let windows = if self.direct { 0 } else { self.channels * g.window() * self.columns };
        let stage = if self.staged { (g.c_out / g.groups).min(ROWS) * self.columns } else { 0 };
        [windows, stage].map(|len| len.next_multiple_of(16))
    }
}

/// Elements of scratch of a thread.
pub(in super::super) fn forward_scratch(g: &ConvGeom, share: Share) -> usize {
    let b = Blocks::new(g, share);
    let product = b.product::<f32>(g).scratch::<f32>().max(b.product::<f64>(g).scratch::<f64>());
    b.sizes(g).iter().sum::<usize>() + product
}

/// Computes channels `channels` of images `images`: a row of `y` for each image.
pub(in super::super) fn forward<T: GemmFloat>(
    g: &ConvGeom,
    share: Share,
    (x, weight): (&[T], &[T]),
    epilogue: ConvMicroEpilogue<'_, T>,
    (images, channels): (Range<usize>, Range<usize>),
    mut y: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    let b = Blocks::new(g, share);
    let (area, each, all) = (g.windows.out()[0] * g.windows.out()[1], g.c_in / g.groups, g.c_out / g.groups);
    let [windows, stage] = b.sizes(g);
    let (windows, scratch) = scratch.split_at_mut(windows);
    let (stage, scratch) = scratch.split_at_mut(stage);
    let first = b.product::<T>(g);
    let next = first.accumulating();
    for group in channels.start / all..channels.end.div_ceil(all) {
        let (lo, hi) = (channels.start.max(group * all), channels.end.min((group + 1) * all));
        for (image, at, m) in blocks_of(images.clone(), share.fold, area, b.columns, lo..hi) {
            let count = share.fold.min(images.end - image);
            let positions = at..(at + b.columns).min(count * area);
            let n = positions.len();
            let from = (m.start - channels.start) * area;
            for c in (0..each).step_by(b.channels) {
                let some = c..(c + b.channels).min(each);
                let k = some.len() * g.window();
                let right: &[T] = if b.direct {
                    &x[((image * g.groups + group) * each + c) * area + at..]
                } else {
                    load_windows(g, x, (image, group), some, positions.clone(), windows, b.columns);
                    windows
                };
                let to = if b.staged {
                    MatrixMut::new(stage, m.len(), n)
                } else {
                    let row = &mut y.row(image - images.start)[from..];
                    MatrixMut::new(row, m.len(), area).cut(0..m.len(), positions.clone())
                };
                let product = if c == 0 { &first } else { &next };
                product.compute((&weight[m.start * g.taps() + c * g.window()..], right), k, to, scratch);
            }
            finish(area, (image - images.start, positions), m, from, b.staged.then_some(&*stage), epilogue, &mut y);
        }
    }
}

/// The blocks (first image, first position, channels) of a call, channels innermost.
fn blocks_of(
    images: Range<usize>,
    fold: usize,
    area: usize,
    columns: usize,
    channels: Range<usize>,
) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
    images.clone().step_by(fold).flat_map(move |image| {
        let (all, channels) = (fold.min(images.end - image) * area, channels.clone());
        (0..all).step_by(columns).flat_map(move |at| {
            let channels = channels.clone();
            channels.clone().step_by(ROWS).map(move |m| (image, at, m..channels.end.min(m + ROWS)))
        })
    })
}

/// Copies a staged block to the output and applies the epilogue. `from` is the first element of the channels in a row.
fn finish<T: GemmFloat>(
    area: usize,
    (image, positions): (usize, Range<usize>),
    m: Range<usize>,
    from: usize,
    stage: Option<&[T]>,
    epilogue: ConvMicroEpilogue<'_, T>,
    y: &mut MatrixMut<'_, T>,
) {
    if stage.is_none() && !epilogue.some() {
        return;
    }
    let epilogue = epilogue.of(m.clone());
    let n = positions.len();
    let mut at = positions.start;
    while at < positions.end {
        let (offset, position) = (at / area, at % area);
        let len = (area - position).min(positions.end - at);
        let row = &mut y.row(image + offset)[from..];
        for c in 0..m.len() {
            let to = &mut row[c * area + position..][..len];
            if let Some(stage) = stage {
                let from = &stage[c * n + at - positions.start..][..len];
                to.iter_mut().zip(from).for_each(|(to, v)| *to = *v);
            }
            if epilogue.some() {
                epilogue.apply(c, to);
            }
        }
        at += len;
    }
}
