//! Adaptive pools: window i of `out` along an axis of n holds the elements from ⌊i·n/out⌋ to ⌈(i + 1)·n/out⌉, as in
//! torch. Each axis is pooled alone. Windows of equal length that do not overlap are an ordinary pool. Other windows
//! are first copied out side by side, each as long as the longest.

use crate::ensure;
use crate::kernels::window::{WindowGeometry, axis_name};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::common::positions::{numbers_by_position, take_elements_at};
use crate::nodes::ops::pool::planes::{self, Of};
use crate::nodes::ops::reduce::attrs::ReduceAttrs;

/// The longest axis that is copied out by positions, which are i32.
const LONGEST: usize = 1 << 28;

/// Checks a pool to `out` windows along each axis. The shape of its result.
pub(super) fn check(x: Var<'_>, out: &[usize]) -> Result<Vec<usize>, String> {
    let rank = out.len();
    let d = planes::check_operand(x, rank)?;
    let mut plane = [1usize; 2];
    for (a, (&n, &out)) in d[2..].iter().zip(out).enumerate() {
        let name = axis_name(rank, a);
        ensure!(out > 0, "output {name} 0 of an input of {n}; 1 is the least");
        ensure!(n > 0, "the {name} of x is 0; output {out} needs elements");
        ensure!(out <= LONGEST && n <= LONGEST, "{name} {n} to {out} is above {LONGEST}");
        // Copied out, an axis is at most n + 2·out long.
        let at = usize::from(a > 0 && a + 1 == rank);
        plane[at] = plane[at].checked_mul(n + 2 * out).ok_or("the size of a plane overflows")?;
    }
    let places = plane[0].checked_mul(plane[1]).filter(|&p| p <= i32::MAX as usize);
    ensure!(places.is_some(), "planes of {d} to {out:?} have more places than i32");
    Ok([&d[..2], out].concat())
}

/// The windows along one axis as those of an ordinary pool.
struct Even {
    /// Elements of each window, and so from one to the next.
    kernel: usize,
    /// The positions of the elements, window by window; `None` if they are in this order already.
    from: Option<Vec<usize>>,
    /// Elements of each window that count.
    count: Vec<f64>,
}

/// Elements that do not count come from position `filler(end of the window)`.
fn even_windows(n: usize, out: usize, filler: impl Fn(usize) -> usize) -> Even {
    let bounds: Vec<[usize; 2]> = (0..out).map(|i| [i * n / out, ((i + 1) * n).div_ceil(out)]).collect();
    let kernel = bounds.iter().map(|[a, b]| b - a).max().unwrap_or(1);
    let count = bounds.iter().map(|[a, b]| (b - a) as f64).collect();
    let place = |&[a, b]: &[usize; 2]| (a..a + kernel).map(move |i| (i, b)).collect::<Vec<_>>();
    let from = || bounds.iter().flat_map(place).map(|(i, b)| if i < b { i } else { filler(b) }).collect();
    Even { kernel, from: (!n.is_multiple_of(out)).then(from), count }
}

/// A pool of x `[d]` along one axis, to `d[axis]` windows of `kernel` elements. The axes after it form one row of a
/// plane.
fn along_axis<'g>(x: Var<'g>, d: &[usize], axis: usize, kernel: usize, of: Of) -> Var<'g> {
    let (before, out, after) = (d[2..axis].iter().product::<usize>(), d[axis], d[axis + 1..].iter().product::<usize>());
    let last = axis + 1 == d.len();
    let (each, size) = if last { (1, [before, out * kernel]) } else { (before, [out * kernel, after]) };
    let kernel = if last { [1, kernel] } else { [kernel, 1] };
    let win = WindowGeometry { stride: kernel, ..WindowGeometry::new(size, kernel) };
    planes::one(x.reshape([d[0], d[1] * each, size[0], size[1]]), of, win).reshape(d)
}

/// The largest elements. The last axis is first: of equal elements, the first in row-major order wins.
pub(super) fn max<'g>(mut x: Var<'g>, output: &[usize]) -> Var<'g> {
    let mut d = x.dims().to_vec();
    for (a, &out) in output.iter().enumerate().rev() {
        let n = std::mem::replace(&mut d[2 + a], out);
        if n != out {
            // The last element of the window once more: it never wins over its first occurrence.
            let e = even_windows(n, out, |end| end - 1);
            x = e.from.map_or(x, |from| take_elements_at(x, &from, 2 + a));
            x = along_axis(x, &d, 2 + a, e.kernel, Of::Max);
        }
    }
    x
}

/// The means. The last axis is last: before it, whole rows are added.
pub(super) fn mean<'g>(mut x: Var<'g>, output: &[usize]) -> Var<'g> {
    let mut d = x.dims().to_vec();
    let rank = d.len();
    if output.iter().all(|&n| n == 1) {
        let axes: Vec<i64> = (2..rank as i64).collect();
        return x.g.emit1(Op::REDUCE_MEAN, &[x], &ReduceAttrs { axes, keep: true }.list());
    }
    for (a, &out) in output.iter().enumerate() {
        let n = std::mem::replace(&mut d[2 + a], out);
        if n == out {
            continue;
        }
        // Elements that do not count are the zero after the last element.
        let e = even_windows(n, out, |_| n);
        if let Some(from) = e.from {
            if from.contains(&n) {
                let mut high = vec![0; rank];
                high[2 + a] = 1;
                x = x.pad(&vec![0; rank], &high, 0.0);
            }
            x = take_elements_at(x, &from, 2 + a);
        }
        x = match e.count.iter().all(|&c| c == e.kernel as f64) {
            true => along_axis(x, &d, 2 + a, e.kernel, Of::Mean { count_pad: true }),
            false => {
                along_axis(x, &d, 2 + a, e.kernel, Of::Sum)
                    / numbers_by_position(x.g, &e.count, rank - 2 - a, x.dtype())
            }
        };
    }
    x
}
