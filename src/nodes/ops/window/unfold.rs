//! Windows as columns (torch's `unfold`) and columns added into planes (`fold`): linear, and each the other's transpose.

use super::lower;
use crate::ensure;
use crate::nodes::build::axes::to_i64s;
use crate::nodes::ir::attrs::{Attrs, Field};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Expand, Flags, Lower, Op, OpDef, Site};
use crate::nodes::ops::common::slide::{ints, pad_field};
use crate::nodes::ops::common::window::{DILATION, IN_HW, KERNEL, PAD, STRIDE, Windows, array, sizes, sum};
use Domain::Real;

const fn row(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [Field],
    infer: fn(&mut Infer<'_>) -> Result<(), String>,
    expand: Expand,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs,
        flags: Flags::PURE,
        infer,
        deriv: Deriv::Zero,
        decompose: Some(expand),
        lower: Lower::Expand,
        cost: |cx| cx.args(),
        cases: &[],
    }
}

/// The windows over a plane, by the attributes from field `at` on.
pub fn windows(plane: [usize; 2], a: &Attrs<'_>, at: usize) -> Windows {
    let [kernel, stride] = [0, 1].map(|i| array(&a.sizes(at + i)));
    Windows { plane, kernel, stride, pad: array(&a.sizes(at + 2)), dilation: array(&a.sizes(at + 3)) }.tight()
}

/// Checks the windows over a plane: how many there are, and elements in each.
fn count(cx: &Infer<'_>, plane: [usize; 2], at: usize) -> Result<([usize; 2], usize), String> {
    sizes::<2>(cx, at)?;
    sizes::<2>(cx, at + 1)?;
    pad_field::<2>(cx, at + 2)?;
    sizes::<2>(cx, at + 3)?;
    ensure!(!plane.contains(&0), "a plane of {plane:?} is empty");
    let win = windows(plane, &cx.attrs, at);
    let taps = win.kernel[0].checked_mul(win.kernel[1]).ok_or("the number of a window's elements overflows")?;
    Ok((win.count()?, taps))
}

/// The other of the two ops, on `v`.
fn other<'g>(s: &Site<'_, 'g>, v: Var<'g>, op: Op, plane: &[usize], at: usize) -> Option<Var<'g>> {
    let list = |i: usize| s.attrs.ints(at + i);
    let lists = [to_i64s(plane), list(0), list(1), list(2), list(3)];
    let all = ints(&lists);
    Some(s.g.emit1(op, &[v], if op == Op::IM2COL { &all[1..] } else { &all }))
}

/// See `doc`.
pub const IM2COL: OpDef = OpDef {
    deriv: Deriv::Linear(|s, _, g| other(s, g, Op::COL2IM, &s.args[0].dims()[2..], 0)),
    cases: &[
        Case { args: "f[2,3,4,5]", attrs: "kernel=[2,3] stride=[1,1] pad=[0,0,0,0] dilation=[1,1]", domains: &[Real] },
        Case { args: "f[1,2,5,7]", attrs: "kernel=[3,2] stride=[2,3] pad=[1,2,4,0] dilation=[1,3]", domains: &[Real] },
    ],
    lower: Lower::Kernel(lower::im2col),
    ..row(
        "im2col",
        "y[n, (c·kh + k)·kw + l, i·Wo + j] = x[n, c, i·s − p + k·d, …], 0 in the padding; torch's unfold",
        &[KERNEL, STRIDE, PAD, DILATION],
        |cx| {
            let dtype = cx.float(0)?;
            let d = cx.rank(0, "x", 4)?;
            let ([ho, wo], taps) = count(cx, [d[2], d[3]], 0)?;
            let rows = d[1].checked_mul(taps).ok_or("the number of rows overflows")?;
            let columns = ho.checked_mul(wo).ok_or("the number of windows overflows")?;
            cx.result(dtype, &[d[0], rows, columns])
        },
        |s| {
            let x = s.args[0];
            let [n, c, h, w] = array::<4>(&x.dims());
            let win = windows([h, w], &s.attrs, 0);
            let Ok(count) = win.count() else { return Vec::new() };
            let (padded, columns) = (win.pad(x, 0.0), count[0] * count[1]);
            let parts: Vec<_> = win.taps().map(|t| win.tap(padded, t, count).reshape([n, c, 1, columns])).collect();
            let Some((first, rest)) = parts.split_first() else { return Vec::new() };
            vec![first.concat(rest, 2).reshape([n, c * parts.len(), columns])]
        },
    )
};

/// See `doc`.
pub const COL2IM: OpDef = OpDef {
    deriv: Deriv::Linear(|s, _, g| other(s, g, Op::IM2COL, &[], 1)),
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
    lower: Lower::Kernel(lower::col2im),
    ..row(
        "col2im",
        "planes of in_hw with each column added where im2col takes it from: the transpose of im2col; torch's fold",
        &[IN_HW, KERNEL, STRIDE, PAD, DILATION],
        |cx| {
            let dtype = cx.float(0)?;
            let d = cx.rank(0, "x", 3)?;
            let hw = sizes::<2>(cx, 0)?;
            let ([ho, wo], taps) = count(cx, hw, 1)?;
            ensure!(d[1].is_multiple_of(taps), "x has {} rows; windows of {taps} elements do not divide them", d[1]);
            let columns = ho.checked_mul(wo).ok_or("the number of windows overflows")?;
            ensure!(d[2] == columns, "x has {} columns; {ho} · {wo} windows lie on {hw:?}", d[2]);
            cx.result(dtype, &[d[0], d[1] / taps, hw[0], hw[1]])
        },
        |s| {
            let [n, rows, _] = array::<3>(&s.args[0].dims());
            let win = windows(array(&s.attrs.sizes(0)), &s.attrs, 1);
            let Ok([ho, wo]) = win.count() else { return Vec::new() };
            let taps = win.kernel[0] * win.kernel[1];
            let c = rows / taps.max(1);
            let parts = s.args[0].reshape([n, c, taps, ho * wo]);
            let part = |(i, t)| win.untap(parts.narrow(2, i, 1).reshape([n, c, ho, wo]), t);
            sum(win.taps().enumerate().map(part)).map(|x| win.crop(x)).into_iter().collect()
        },
    )
};
