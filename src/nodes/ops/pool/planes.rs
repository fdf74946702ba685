//! Pools over one axis or three axes as pools of planes. A row is a plane of height 1. A volume is pooled over height
//! and width, then over depth. Both read planes in their order in memory, so nothing is transposed, and of equal
//! elements the first in row-major order still wins.

use crate::arena::dims::Dims;
use crate::ensure;
use crate::kernels::window::WindowGeometry;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::common::window_attrs::WindowAttrs;
use crate::nodes::ops::pool::attrs::{AvgPoolAttrs, SumPoolAttrs};
use crate::nodes::ops::pool::check_i32_plane;

/// What a pool makes of the elements of a window.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
    /// The sum.
    Sum,
    /// The sum over the number of elements.
    Mean {
        /// Whether the padding counts.
        count_pad: bool,
    },
}

/// Checks the operand of a pool over `axes` axes. Its dimensions.
pub(super) fn check_operand(x: Var<'_>, axes: usize) -> Result<Dims, String> {
    let (d, dtype) = (x.dims(), x.dtype());
    ensure!(d.len() == axes + 2, "x has shape {d}; rank {} is needed", axes + 2);
    ensure!(dtype.is_float(), "operand 0 is {dtype}; f32 or f64 is needed");
    Ok(d)
}

/// Checks the planes of a pool of a number of channels.
pub(super) fn check<const N: usize>(channels: usize, win: &WindowGeometry<N>) -> Result<(), String> {
    match (&win.size[..], &win.count()?[..]) {
        (&[d, h, w], &[_, rows, columns]) => {
            // Windows over depth slide over the results of those over height and width.
            let rest = rows.checked_mul(columns).ok_or("the number of windows overflows")?;
            check_i32_plane([d, rest])?;
            check_i32_plane([h, w])?;
            channels.checked_mul(d).map(drop).ok_or_else(|| "the number of planes overflows".to_string())
        }
        (size, _) => check_i32_plane([size[0], size[1..].iter().product()]),
    }
}

/// The first result of a pool of planes.
pub(super) fn one<'g>(x: Var<'g>, of: Of, win: WindowGeometry<2>) -> Var<'g> {
    let windows = WindowAttrs::from(win);
    match of {
        Of::Max => x.g.emit1(Op::MAX_POOL2D, &[x], &windows.list()),
        Of::Min => -one(-x, Of::Max, win),
        Of::Sum => x.g.emit1(Op::SUM_POOL2D, &[x], &SumPoolAttrs::new(windows).list()),
        Of::Mean { count_pad } => x.g.emit1(Op::AVG_POOL2D, &[x], &AvgPoolAttrs::new(windows, count_pad).list()),
    }
}

/// A pool over the axes after the second. The divisor of a window is a product over its axes, so means of means are
/// means.
pub(super) fn pool<'g, const N: usize>(x: Var<'g>, of: Of, win: &WindowGeometry<N>) -> Var<'g> {
    let (d, count) = (x.dims(), win.out());
    let to = [&d[..2], &count[..]].concat();
    match N {
        1 => one(x.unsqueeze(2), of, win.on_plane([None, Some(0)])).reshape(to),
        2 => one(x, of, win.on_plane([Some(0), Some(1)])),
        _ => {
            let planes = one(x.reshape([d[0], d[1] * d[2], d[3], d[4]]), of, win.on_plane([Some(1), Some(2)]));
            let deep = planes.reshape([d[0], d[1], d[2], count[1] * count[2]]);
            one(deep, of, win.on_plane([Some(0), None])).reshape(to)
        }
    }
}
