//! The weight's gradient: dot products of strips of x with dy, and the sum of the image blocks' parts.
//!
//! Order of sums, fixed by the shape: images of a block in order, in strips of `fold` images or bands of rows; inside
//! a strip, lane chains and a tree (see `micro::dots`); then the blocks in order. Used by the entry points beside it.

use super::geom::ConvGeom;
use super::micro::{Rows, TAPS, dots, dots_rows, lanes};
use super::plan::{Corr, LANES, SLACK, weight_blocks};
use super::strip::{clear, copy_rows, load, strip_len};
use crate::kernels::float::Float;
use std::ops::Range;

/// Scratch of one lane, cut up.
struct Room<'a, T> {
    /// Offset of each tap in a strip, and of its column.
    offs: &'a mut [u32],
    even: &'a mut [u32],
    strip: &'a mut [T],
    cols: &'a mut [T],
    dy: &'a mut [T],
}

/// Vectors of positions in one row of dy; a strip is one row where columns are packed.
fn steps<T>(c: &Corr) -> usize {
    if c.packed { c.columns() / lanes::<T>() } else { c.grid[1].div_ceil(lanes::<T>()) }
}

/// Elements of scratch that a lane needs.
pub(super) fn scratch_len(c: &Corr) -> usize {
    let (strips, cols, dy) = if c.packed {
        (1, c.taps() * c.columns(), 9 * c.columns())
    } else {
        (c.fold, 0, 8 * c.fold * c.band * c.grid[1].next_multiple_of(LANES))
    };
    2 * c.taps() + strip_len(c, strips) + cols + dy
}

fn room<'a, T: Float>(c: &Corr, scratch: &'a mut [T]) -> Room<'a, T> {
    let (offs, rest) = scratch.split_at_mut(c.taps());
    let (even, rest) = rest.split_at_mut(c.taps());
    let (strip, rest) = rest.split_at_mut(strip_len(c, if c.packed { 1 } else { c.fold }));
    let (cols, dy) = rest.split_at_mut(if c.packed { c.taps() * c.columns() } else { 0 });
    let (offs, even) = (bytemuck::cast_slice_mut(offs), bytemuck::cast_slice_mut(even));
    Room { offs: &mut offs[..c.taps()], even: &mut even[..c.taps()], strip, cols, dy }
}

/// Computes some units of the parts; `part` holds them.
pub(super) fn parts<T: Float>(g: &ConvGeom, x: &[T], dy: &[T], units: Range<usize>, part: &mut [T], scratch: &mut [T]) {
    let c = Corr::weight(g);
    let (blocks, channels) = weight_blocks(g);
    let taps = g.taps();
    let first = units.start * channels;
    let last = first + part.len() / taps;
    let mut room = room(&c, &mut scratch[..scratch_len(&c)]);
    clear(room.strip);
    clear(room.cols);
    let mut k = 0;
    c.each_tap([0, 0], |_, _, off| {
        room.offs[k] = off as u32;
        room.even[k] = (k * c.columns()) as u32;
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
            channels_of(g, &c, x, dy, Piece { images: images.clone(), group, lo, row: 0 }, part, &mut room);
        }
        at += to - from;
    }
}

/// What one strip covers: some images (in the end at most `fold`), one band of rows, some channels of a group.
#[derive(Clone)]
struct Piece {
    images: Range<usize>,
    group: usize,
    /// First channel of dy.
    lo: usize,
    row: usize,
}

/// Rows of the gradient that belong to one image block and group: chunk of source channels → images → band.
fn channels_of<T: Float>(g: &ConvGeom, c: &Corr, x: &[T], dy: &[T], p: Piece, part: &mut [T], room: &mut Room<'_, T>) {
    let (all, pixels) = (g.c_in / g.groups, g.h * g.w);
    for from in (0..all).step_by(c.src_c) {
        let count = c.src_c.min(all - from);
        // The planes of these channels, in an image.
        let planes = |image: usize| &x[((image * g.groups + p.group) * all + from) * pixels..][..count * pixels];
        let cols = from * g.kh * g.kw..(from + count) * g.kh * g.kw;
        for image in p.images.clone().step_by(c.fold) {
            let images = image..(image + c.fold).min(p.images.end);
            for row in (0..c.grid[0]).step_by(c.band) {
                let p = Piece { images: images.clone(), row, ..p };
                load_x(c, planes, &p, room);
                strip(c, dy, &p, cols.clone(), part, g.taps(), room);
            }
        }
    }
}

/// Adds one strip's dot products to columns `cols` of a part whose rows have `taps` elements.
fn strip<T: Float>(
    c: &Corr,
    dy: &[T],
    p: &Piece,
    cols: Range<usize>,
    part: &mut [T],
    taps: usize,
    room: &mut Room<'_, T>,
) {
    let rows = c.band.min(c.grid[0] - p.row);
    let (s, x, offs): (_, &[T], &[u32]) = if c.packed {
        (Rows { images: 1, rows: 1, width: c.columns(), x: [0, 0] }, room.cols, room.even)
    } else {
        let x = [c.pitch, c.planes_len()];
        (Rows { images: p.images.len(), rows, width: c.grid[1], x }, room.strip, room.offs)
    };
    let channels = part.len() / taps;
    let mut m0 = 0;
    while m0 < channels {
        let m = dots_rows(channels - m0);
        let real = m.min(channels - m0);
        load_dy(c, dy, p, p.lo + m0..p.lo + m0 + real, m, room.dy);
        for k0 in (0..cols.len()).step_by(TAPS) {
            let mut out = [[T::ZERO; TAPS]; 8];
            let offs = [0, 1, 2].map(|j| offs[(k0 + j).min(cols.len() - 1)] as usize);
            dots(m, x, offs, room.dy, s, &mut out[..m]);
            for (part, out) in part[m0 * taps..].chunks_exact_mut(taps).zip(&out[..real]) {
                part[cols.clone()][k0..].iter_mut().zip(out).for_each(|(p, o)| *p += *o);
            }
        }
        m0 += real;
    }
}

/// Copies the images' channels into the strip, and from there into columns where they are packed.
fn load_x<'x, T: Float>(c: &Corr, planes: impl Fn(usize) -> &'x [T], p: &Piece, room: &mut Room<'_, T>) {
    let [rows, cols] = c.grid;
    for (i, image) in p.images.clone().enumerate() {
        if !c.packed {
            load(c, planes(image), p.row, &mut room.strip[i * c.planes_len()..]);
            continue;
        }
        load(c, planes(image), p.row, room.strip);
        for (off, to) in room.offs.iter().zip(room.cols.chunks_exact_mut(c.columns())) {
            copy_rows(&room.strip[*off as usize..], c.pitch, &mut to[i * rows * cols..], cols, cols, rows);
        }
    }
    if c.packed {
        let used = p.images.len() * rows * cols;
        room.cols.chunks_exact_mut(c.columns()).for_each(|col| col[used..].fill(T::ZERO));
    }
}

/// Copies a block of channels of dy in the order in which `dots` reads them: `m` vectors of the same positions side by
/// side, zeros where a vector reaches past a row and where a channel does not exist.
fn load_dy<T: Float>(c: &Corr, dy: &[T], p: &Piece, channels: Range<usize>, m: usize, to: &mut [T]) {
    let (steps, l) = (steps::<T>(c), lanes::<T>());
    let ([h, cols], all) = (c.grid, c.groups * c.dst_c);
    let rows = c.band.min(h - p.row);
    let row_len = steps * m * l;
    let plane = |image: usize, channel: usize| &dy[((image * all + channel) * h + p.row) * cols..][..rows * cols];
    if c.packed {
        let (to, line) = to.split_at_mut(row_len);
        let line = &mut line[..c.columns()];
        clear(line);
        if channels.len() < m {
            clear(to);
        }
        for (i, channel) in channels.enumerate() {
            for (image, line) in p.images.clone().zip(line.chunks_exact_mut(rows * cols)) {
                line.copy_from_slice(plane(image, channel));
            }
            interleave(line, i, m, l, to);
        }
    } else {
        let to = &mut to[..p.images.len() * rows * row_len];
        if channels.len() < m {
            clear(to);
        }
        for (image, to) in p.images.clone().zip(to.chunks_exact_mut(rows * row_len)) {
            for (i, channel) in channels.clone().enumerate() {
                let from = plane(image, channel);
                for at in (0..cols).step_by(l) {
                    // One column of vectors, in all rows.
                    let (to, width) = (&mut to[(at / l * m + i) * l..], l.min(cols - at));
                    if width < l {
                        to.chunks_mut(row_len).for_each(|row| row[..l].fill(T::ZERO));
                    }
                    copy_rows(&from[at..], cols, to, row_len, width, rows);
                }
            }
        }
    }
}

/// Writes a row, cut into whole vectors, as the `i`-th of every `m` vectors.
fn interleave<T: Float>(from: &[T], i: usize, m: usize, l: usize, to: &mut [T]) {
    copy_rows(from, l, &mut to[i * l..], m * l, l, from.len() / l);
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

/// `dots` reads at most one vector past a row.
const _: () = assert!(SLACK >= LANES);
