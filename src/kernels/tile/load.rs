//! Fetches a tile of an input that is not contiguous: broadcasts and strided views.
//!
//! Elements of 1, 2, 4 or 8 bytes move uninterpreted.

use super::program::MAX_DIMS;
use super::tile_code::{AccessCode, Word};
use bytemuck::{Pod, cast_slice, cast_slice_mut};

/// Whether loops over short runs have code of their own: a module for browsers would be too large.
const SHORT_RUNS: bool = !cfg!(target_arch = "wasm32");

/// `$short` with the constant `$n` for a length of 2 to 8, else `$other`: loops over short runs have a fixed length.
macro_rules! with_short {
    ($len:expr, $n:ident => $short:block, $other:block) => {
        with_short!(@each $len, $n, $short, $other, 2 3 4 5 6 7 8)
    };
    (@each $len:expr, $n:ident, $short:block, $other:block, $($k:literal)*) => {
        match $len {
            $($k if SHORT_RUNS => {
                const $n: usize = $k;
                $short
            })*
            _ => $other,
        }
    };
}

/// First element of the input that holds program elements `at..at + n`, if they are contiguous there.
#[inline]
pub(super) fn contiguous_start(access: AccessCode<'_>, at: usize, n: usize) -> Option<usize> {
    match access {
        AccessCode::Suffix(period) if at % period + n <= period => Some(at % period),
        AccessCode::Strided { base, walk } => match walk {
            [.., dim, 1] if at % *dim as usize + n <= *dim as usize => {
                Some(TileLoadOdometer::new(base, walk, at).offset)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The element of the input in the tile from `at` on, of an access with one element in each tile.
pub(super) fn steady_element(access: AccessCode<'_>, at: usize) -> usize {
    match access {
        AccessCode::Prefix(n) => at / n,
        AccessCode::Strided { base, walk } => TileLoadOdometer::new(base, walk, at).offset,
        _ => 0,
    }
}

/// Copies program elements from `at` on to all of `dst`.
pub(super) fn fetch_elements<T: Pod>(dst: &mut [u8], src: &[u8], access: AccessCode<'_>, at: usize) {
    let (dst, src) = (cast_slice_mut::<u8, T>(dst), cast_slice::<u8, T>(src));
    match access {
        AccessCode::Scalar => dst.fill(src[0]),
        AccessCode::Suffix(n) => repeat_source(dst, &src[..n], at % n),
        AccessCode::Prefix(n) => repeat_elements(dst, src, at, n),
        AccessCode::Strided { base, walk } => copy_strided(dst, src, TileLoadOdometer::new(base, walk, at)),
        AccessCode::Full | AccessCode::Unused => {}
    }
}

/// Repeats `src` from its element `phase` on.
fn repeat_source<T: Pod>(dst: &mut [T], src: &[T], phase: usize) {
    // One period, rotated by `phase`, then doubled: a short period does not cause many short copies.
    let n = src.len().min(dst.len());
    let head = n.min(src.len() - phase);
    dst[..head].copy_from_slice(&src[phase..phase + head]);
    dst[head..n].copy_from_slice(&src[..n - head]);
    repeat_head(dst, n);
}

/// Repeats the first `done` elements.
fn repeat_head<T: Pod>(dst: &mut [T], mut done: usize) {
    while done < dst.len() {
        let more = done.min(dst.len() - done);
        dst.copy_within(..more, done);
        done += more;
    }
}

/// Repeats each element of `src` `n` times.
fn repeat_elements<T: Pod>(dst: &mut [T], src: &[T], at: usize, n: usize) {
    let (row, within) = (at / n, at % n);
    let (head, body) = dst.split_at_mut(dst.len().min(n - within));
    head.fill(src[row]);
    let src = &src[(row + 1).min(src.len())..];
    let whole = body.len() / n;
    let (body, tail) = body.split_at_mut(whole * n);
    with_short!(n, N => {
        body.as_chunks_mut::<N>().0.iter_mut().zip(src).for_each(|(run, x)| *run = [*x; N]);
    }, {
        body.chunks_mut(n).zip(src).for_each(|(run, x)| run.fill(*x));
    });
    if !tail.is_empty() {
        tail.fill(src[whole]);
    }
}

/// A cursor in a strided view: the index, and the input element at it.
struct TileLoadOdometer<'a> {
    walk: &'a [Word],
    index: [usize; MAX_DIMS],
    offset: usize,
}

impl<'a> TileLoadOdometer<'a> {
    #[inline]
    fn new(base: usize, walk: &'a [Word], at: usize) -> TileLoadOdometer<'a> {
        let mut o = TileLoadOdometer { walk, index: [0; MAX_DIMS], offset: base };
        let mut rest = at;
        for (axis, index) in walk.chunks_exact(2).zip(&mut o.index).rev() {
            let dim = axis[0] as usize;
            *index = rest % dim;
            rest /= dim;
            o.offset = o.offset.wrapping_add(index.wrapping_mul(axis[1] as usize));
        }
        o
    }

    /// Advances axis `k`, and the axes outside it on overflow, after the inner axes have wrapped.
    #[inline]
    fn carry(&mut self, k: usize) {
        for (axis, index) in self.walk.chunks_exact(2).zip(&mut self.index).take(k + 1).rev() {
            let (dim, stride) = (axis[0] as usize, axis[1] as usize);
            *index += 1;
            self.offset = self.offset.wrapping_add(stride);
            if *index < dim {
                return;
            }
            *index = 0;
            self.offset = self.offset.wrapping_sub(dim.wrapping_mul(stride));
        }
    }
}

fn copy_strided<T: Pod>(dst: &mut [T], src: &[T], mut o: TileLoadOdometer<'_>) {
    let rank = o.walk.len() / 2;
    let Some(inner) = rank.checked_sub(1) else {
        dst.fill(src[o.offset]);
        return;
    };
    let [dim, stride] = [2 * inner, 2 * inner + 1].map(|i| o.walk[i] as usize);
    let mut dst = dst;
    while !dst.is_empty() {
        // Whole runs that follow one another along the axis outside, or what is left of a run.
        let mut runs = 0;
        if let Some(outside) = inner.checked_sub(1).filter(|_| o.index[inner] == 0) {
            runs = (dst.len() / dim).min(o.walk[2 * outside] as usize - o.index[outside]);
        }
        let len = if runs == 0 { dst.len().min(dim - o.index[inner]) } else { runs * dim };
        let (part, rest) = dst.split_at_mut(len);
        if runs == 0 {
            copy_run(part, src, o.offset, stride);
            // Moves to the last element of the run, then takes one step that carries.
            o.index[inner] += len - 1;
            o.offset = o.offset.wrapping_add((len - 1).wrapping_mul(stride));
            o.carry(inner);
        } else {
            let outside = inner - 1;
            let step = o.walk[2 * outside + 1] as usize;
            copy_runs(part, src, o.offset, (dim, stride), step);
            o.index[outside] += runs - 1;
            o.offset = o.offset.wrapping_add((runs - 1).wrapping_mul(step));
            o.carry(outside);
        }
        dst = rest;
    }
}

/// Copies runs of `dim` elements, `stride` apart, that start `step` apart.
fn copy_runs<T: Pod>(dst: &mut [T], src: &[T], from: usize, (dim, stride): (usize, usize), step: usize) {
    if step == 0 && dst.len() > dim {
        copy_run(&mut dst[..dim], src, from, stride);
        return repeat_head(dst, dim);
    }
    with_short!(dim, N => {
        let mut from = from;
        for run in dst.as_chunks_mut::<N>().0 {
            *run = std::array::from_fn(|i| src[from.wrapping_add(i.wrapping_mul(stride))]);
            from = from.wrapping_add(step);
        }
    }, {
        for (r, run) in dst.chunks_exact_mut(dim).enumerate() {
            copy_run(run, src, from.wrapping_add(r.wrapping_mul(step)), stride);
        }
    });
}

/// Copies elements that are `stride` apart; a stride below 0 wraps.
fn copy_run<T: Pod>(run: &mut [T], src: &[T], from: usize, stride: usize) {
    match stride as isize {
        0 => run.fill(src[from]),
        1 => run.copy_from_slice(&src[from..from + run.len()]),
        2.. => run.iter_mut().zip(src[from..].iter().step_by(stride)).for_each(|(d, s)| *d = *s),
        back => {
            let back = src[..=from].iter().rev().step_by(back.unsigned_abs());
            run.iter_mut().zip(back).for_each(|(d, s)| *d = *s);
        }
    }
}
