//! The weight's gradient: dot products of strips of x with dy, and the sum of the image blocks' parts.
//!
//! Order of sums, fixed by the shape: images of a block in order, in strips of `fold` images or bands of rows; inside
//! a strip, lane chains and a tree (see `micro::dots`); then the blocks in order. Used by the entry points beside it.

use super::geom::ConvGeom;
use super::micro::{Rows, TAPS, dots, dots_rows};
use super::plan::{Corr, LANES, SLACK, weight_blocks};
use super::strip::{clear, copy_rows, load, strip_len};
use crate::kernels::float::Float;
use std::ops::Range;

/// Scratch of one lane, cut up.
struct Room<'a, T> {
    offs: &'a mut [u32],
    strip: &'a mut [T],
    cols: &'a mut [T],
    dy: &'a mut [T],
}

/// Elements of dy from one row to the next, and from one channel to the next, in scratch.
fn dy_pitch(c: &Corr) -> [usize; 2] {
    let row = c.grid[1].next_multiple_of(LANES);
    if c.packed { [c.columns(), c.columns()] } else { [row, row * c.band] }
}

/// Elements of scratch that a lane needs.
pub(super) fn scratch_len(c: &Corr) -> usize {
    let [_, plane] = dy_pitch(c);
    let (strips, cols, dy) =
        if c.packed { (1, c.taps() * c.columns(), 8 * plane) } else { (c.fold, 0, 8 * plane * c.fold) };
    c.taps() + strip_len(c, strips) + cols + dy
}

fn room<'a, T: Float>(c: &Corr, scratch: &'a mut [T]) -> Room<'a, T> {
    let (offs, rest) = scratch.split_at_mut(c.taps());
    let (strip, rest) = rest.split_at_mut(strip_len(c, if c.packed { 1 } else { c.fold }));
    let (cols, dy) = rest.split_at_mut(if c.packed { c.taps() * c.columns() } else { 0 });
    let offs: &mut [u32] = bytemuck::cast_slice_mut(offs);
    Room { offs: &mut offs[..c.taps()], strip, cols, dy }
}

/// Computes some units of the parts; `part` holds them.
pub(super) fn parts<T: Float>(g: &ConvGeom, x: &[T], dy: &[T], units: Range<usize>, part: &mut [T], scratch: &mut [T]) {
    let c = Corr::weight(g);
    let (blocks, channels) = weight_blocks(g);
    let taps = c.taps();
    let first = units.start * channels;
    let last = first + part.len() / taps;
    let mut room = room(&c, &mut scratch[..scratch_len(&c)]);
    clear(room.strip);
    clear(room.cols);
    let mut k = 0;
    c.each_tap([0, 0], |_, _, off| {
        room.offs[k] = if c.packed { k * c.columns() } else { off } as u32;
        k += 1;
    });
    part.fill(T::ZERO);
    let mut at = first;
    while at < last {
        let (block, from) = (at / g.c_out, at % g.c_out);
        let to = g.c_out.min(from + last - at);
        let images = block * g.n / blocks..(block + 1) * g.n / blocks;
        let part = &mut part[(at - first) * taps..][..(to - from) * taps];
        for group in from / c.dst_c..to.div_ceil(c.dst_c) {
            let lo = from.max(group * c.dst_c);
            let hi = to.min((group + 1) * c.dst_c);
            let part = &mut part[(lo - from) * taps..(hi - from) * taps];
            for image in images.clone().step_by(c.fold) {
                let images = image..(image + c.fold).min(images.end);
                for row in (0..c.grid[0]).step_by(c.band) {
                    strip(&c, x, dy, &images, group, lo, row, part, &mut room);
                }
            }
        }
        at += to - from;
    }
}

/// Adds one strip's dot products to the rows `lo..` of the gradient.
fn strip<T: Float>(
    c: &Corr,
    x: &[T],
    dy: &[T],
    images: &Range<usize>,
    group: usize,
    lo: usize,
    row: usize,
    part: &mut [T],
    room: &mut Room<'_, T>,
) {
    let (taps, rows, cols) = (c.taps(), c.band.min(c.grid[0] - row), c.grid[1]);
    load_x(c, x, images, group, row, room);
    let [dy_row, dy_plane] = dy_pitch(c);
    let s = if c.packed {
        Rows { images: 1, rows: 1, width: c.columns(), x: [0, 0], dy: [0, dy_plane, 0] }
    } else {
        let x = [c.pitch, c.planes_len()];
        Rows { images: images.len(), rows, width: cols, x, dy: [dy_row, dy_plane, 8 * dy_plane] }
    };
    let x: &[T] = if c.packed { room.cols } else { room.strip };
    let channels = part.len() / taps;
    let mut m0 = 0;
    while m0 < channels {
        let m = dots_rows(channels - m0);
        let real = m.min(channels - m0);
        load_dy(c, dy, images, lo + m0..lo + m0 + real, row, room.dy);
        for k0 in (0..taps).step_by(TAPS) {
            let mut out = [[T::ZERO; TAPS]; 8];
            let offs = [0, 1, 2].map(|j| room.offs[(k0 + j).min(taps - 1)] as usize);
            dots(m, x, offs, room.dy, s, &mut out[..m]);
            for (part, out) in part[m0 * taps..].chunks_exact_mut(taps).zip(&out[..real]) {
                part[k0..].iter_mut().zip(out).for_each(|(p, o)| *p += *o);
            }
        }
        m0 += real;
    }
}

/// Copies the images' channels of a group into the strip, and from there into columns where they are packed.
fn load_x<T: Float>(c: &Corr, x: &[T], images: &Range<usize>, group: usize, row: usize, room: &mut Room<'_, T>) {
    let pixels = c.src_c * c.src[0] * c.src[1];
    let [rows, cols] = c.grid;
    for (i, image) in images.clone().enumerate() {
        let x = &x[(image * c.groups + group) * pixels..][..pixels];
        if !c.packed {
            load(c, x, row, &mut room.strip[i * c.planes_len()..]);
            continue;
        }
        load(c, x, row, room.strip);
        let mut to = room.cols.chunks_exact_mut(c.columns());
        c.each_tap([0, 0], |_, _, off| {
            if let Some(to) = to.next() {
                copy_rows(&room.strip[off..], c.pitch, &mut to[i * rows * cols..], cols, cols, rows);
            }
        });
    }
    if c.packed {
        let used = images.len() * rows * cols;
        room.cols.chunks_exact_mut(c.columns()).for_each(|col| col[used..].fill(T::ZERO));
    }
}

/// Copies up to eight channels of dy, with zeros where the vectors reach past a row.
fn load_dy<T: Float>(c: &Corr, dy: &[T], images: &Range<usize>, channels: Range<usize>, row: usize, to: &mut [T]) {
    let [pitch, plane] = dy_pitch(c);
    let ([h, cols], all) = (c.grid, c.groups * c.dst_c);
    let rows = c.band.min(h - row);
    to.fill(T::ZERO);
    for (i, image) in images.clone().enumerate() {
        for (m, channel) in channels.clone().enumerate() {
            let from = &dy[((image * all + channel) * h + row) * cols..][..rows * cols];
            if c.packed {
                to[m * plane + i * rows * cols..][..rows * cols].copy_from_slice(from);
            } else {
                copy_rows(from, cols, &mut to[(i * 8 + m) * plane..], pitch, cols, rows);
            }
        }
    }
}

/// Adds the image blocks' parts, in order: elements `from..from + dw.len()` of the gradient.
pub(super) fn combine<T: Float>(parts: &[T], len: usize, from: usize, dw: &mut [T]) {
    for (i, block) in parts.chunks_exact(len).enumerate() {
        let block = &block[from..][..dw.len()];
        if i == 0 {
            dw.copy_from_slice(block);
        } else {
            dw.iter_mut().zip(block).for_each(|(d, b)| *d += *b);
        }
    }
}

/// Slack is part of [`strip_len`]; dots read at most one vector past a row.
const _: () = assert!(SLACK >= LANES);
