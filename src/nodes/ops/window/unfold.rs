//! Windows as columns (torch's `unfold`) and columns added into planes (`fold`): linear, and each the other's
//! transpose.

use super::lower;
use crate::ensure;
use crate::nodes::arguments::per_axis::{PerAxis, both_sides_per_axis};
use crate::nodes::arguments::setters::setters;
use crate::nodes::arguments::size_attrs::{size_attrs_to_i64, to_size_attrs};
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Expand, Flags, Lower, Op, OpDef};
use crate::nodes::ops::common::window_attrs::WindowAttrs;
use crate::nodes::ops::common::window_geometry::{PlaneTaps, check_window_sizes, first_entries, sum_over_window_taps};
use crate::nodes::ops::pool::last_two_dims;
use crate::nodes::ops::window::attrs::Col2imAttrs;
use Domain::Real;

/// Options of `Var::im2col` and `Var::col2im`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfold {
    /// Height and width of a window.
    pub kernel: [usize; 2],
    /// Step between windows.
    pub stride: [usize; 2],
    /// Zeros around the image: top, bottom, left, right.
    pub pad: [usize; 4],
    /// Distance between the taps of a window.
    pub dilation: [usize; 2],
}

setters! {
    [] Unfold {
        stride: impl PerAxis<2> => stride.per_axis(),
        pad: [usize; 4],
        dilation: impl PerAxis<2> => dilation.per_axis(),
    }
}

impl Unfold {
    /// Windows of `kernel` at every position.
    pub fn new(kernel: impl PerAxis<2>) -> Unfold {
        Unfold { kernel: kernel.per_axis(), stride: [1, 1], pad: [0; 4], dilation: [1, 1] }
    }

    /// These windows with the same `pad` on both sides of each axis: torch's `padding`.
    pub fn padding(self, padding: impl PerAxis<2>) -> Unfold {
        Unfold { pad: both_sides_per_axis(padding), ..self }
    }

    pub(super) fn window_attrs(&self) -> WindowAttrs {
        WindowAttrs {
            kernel: size_attrs_to_i64(&self.kernel),
            stride: size_attrs_to_i64(&self.stride),
            pad: size_attrs_to_i64(&self.pad),
            dilation: size_attrs_to_i64(&self.dilation),
        }
    }
}

const fn define_op(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [Field],
    infer: fn(&mut Infer<'_>) -> Result<(), String>,
    expand: Expand,
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs,
        flags: Flags::PURE,
        infer,
        deriv,
        batch: Batch::Rule(|s| s.merged()),
        decompose: Some(expand),
        lower: Lower::Expand,
        cost: |cx| cx.args(),
        cases: &[],
        ..OpDef::BLANK
    }
}

/// Checks the windows over a plane: their number along each axis, and the elements of each.
fn count_plane_windows(windows: &WindowAttrs, plane: [usize; 2]) -> Result<([usize; 2], usize), String> {
    windows.check::<2>()?;
    ensure!(!plane.contains(&0), "a plane of {plane:?} is empty");
    let win = windows.over(plane);
    let taps = win.kernel[0].checked_mul(win.kernel[1]).ok_or("the number of a window's elements overflows")?;
    Ok((win.count()?, taps))
}

/// The windows of images as columns: torch's `unfold`.
pub const IM2COL: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,4,5]", attrs: "kernel=[2,3] stride=[1,1] pad=[0,0,0,0] dilation=[1,1]", domains: &[Real] },
        Case { args: "f[1,2,5,7]", attrs: "kernel=[3,2] stride=[2,3] pad=[1,2,4,0] dilation=[1,3]", domains: &[Real] },
    ],
    lower: Lower::Kernel(lower::emit_im2col),
    ..define_op(
        "im2col",
        "y[n, (c·kh + k)·kw + l, i·Wo + j] = x[n, c, i·s − p + k·d, …], 0 in the padding; torch's unfold",
        WindowAttrs::FIELDS,
        |cx| {
            let dtype = cx.float(0)?;
            let d = cx.rank(0, "x", 4)?;
            let ([ho, wo], taps) = count_plane_windows(&WindowAttrs::of(&cx.attrs), [d[2], d[3]])?;
            let rows = d[1].checked_mul(taps).ok_or("the number of rows overflows")?;
            let columns = ho.checked_mul(wo).ok_or("the number of windows overflows")?;
            cx.result(dtype, &[d[0], rows, columns])
        },
        |s| {
            let x = s.args[0];
            let [n, c, h, w] = first_entries::<4>(&x.dims());
            let win = WindowAttrs::of(&s.attrs).over([h, w]);
            let Ok(count) = win.count() else { return Vec::new() };
            let (padded, columns) = (win.pad(x, 0.0), count[0] * count[1]);
            let parts: Vec<_> = win.taps().map(|t| win.tap(padded, t, count).reshape([n, c, 1, columns])).collect();
            let Some((first, rest)) = parts.split_first() else { return Vec::new() };
            vec![first.concat(rest, 2).reshape([n, c * parts.len(), columns])]
        },
        Deriv::Linear(|s, _, g| {
            let attrs = Col2imAttrs::new(last_two_dims(&s.args[0].dims()), WindowAttrs::of(&s.attrs));
            Some(s.g.emit1(Op::COL2IM, &[g], &attrs.list()))
        }),
    )
};

/// Columns added into images: torch's `fold`, the transpose of [`IM2COL`].
pub const COL2IM: OpDef = OpDef {
    cases: &[
        Case {
            args: "f[2,18,9]",
            attrs: "in_hw=[4,5] kernel=[2,3] stride=[1,1] pad=[0,0,0,0] dilation=[1,1]",
            domains: &[Real],
        },
        Case {
            args: "f[1,12,9]",
            attrs: "in_hw=[5,7] kernel=[3,2] stride=[2,3] pad=[1,2,4,0] dilation=[1,3]",
            domains: &[Real],
        },
    ],
    lower: Lower::Kernel(lower::emit_col2im),
    ..define_op(
        "col2im",
        "planes of in_hw with each column added at the elements that im2col reads: the transpose of im2col; torch's \
        fold",
        Col2imAttrs::FIELDS,
        |cx| {
            let dtype = cx.float(0)?;
            let d = cx.rank(0, "x", 3)?;
            let a = Col2imAttrs::of(&cx.attrs);
            let hw = check_window_sizes::<2>("in_hw", &a.in_hw)?;
            let ([ho, wo], taps) = count_plane_windows(&a.into(), hw)?;
            ensure!(d[1].is_multiple_of(taps), "x has {} rows; windows of {taps} elements do not divide them", d[1]);
            let columns = ho.checked_mul(wo).ok_or("the number of windows overflows")?;
            ensure!(d[2] == columns, "x has {} columns; {ho} · {wo} windows lie on {hw:?}", d[2]);
            cx.result(dtype, &[d[0], d[1] / taps, hw[0], hw[1]])
        },
        |s| {
            let [n, rows, _] = first_entries::<3>(&s.args[0].dims());
            let a = Col2imAttrs::of(&s.attrs);
            let in_hw = first_entries(&to_size_attrs(&a.in_hw));
            let win = WindowAttrs::from(a).over(in_hw);
            let Ok([ho, wo]) = win.count() else { return Vec::new() };
            let taps = win.kernel[0] * win.kernel[1];
            let c = rows / taps.max(1);
            let parts = s.args[0].reshape([n, c, taps, ho * wo]);
            let part = |(i, t)| win.untap(parts.narrow(2, i, 1).reshape([n, c, ho, wo]), t);
            sum_over_window_taps(win.taps().enumerate().map(part)).map(|x| win.crop(x)).into_iter().collect()
        },
        Deriv::Linear(|s, _, g| {
            let windows = WindowAttrs::from(Col2imAttrs::of(&s.attrs));
            Some(s.g.emit1(Op::IM2COL, &[g], &windows.list()))
        }),
    )
};
