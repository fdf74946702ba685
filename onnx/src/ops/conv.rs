//! Convolutions.

use super::norm::per_channel;
use super::{Entry, own, same};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use arenagrad::graph::window::{Conv, ConvTranspose};
use arenagrad::graph::{DType, Var};

pub const OPS: &[Entry] = &[
    same("Conv", |c| {
        let (x, w) = (c.x(0)?, c.x(1)?);
        let y = convolve(x, w, &Windows::of(c, &x.dims(), &w.dims()[2..])?, c.int("group", 1))?;
        biased(c, y, 2)
    }),
    same("ConvTranspose", transposed),
    own("ConvInteger", |c| {
        let (x, w) = (centred(c, 0, 2, None)?, centred(c, 1, 3, Some(0))?);
        let windows = Windows::of(c, &x.dims(), &w.dims()[2..])?;
        one(convolve(x, w, &windows, c.int("group", 1))?.cast(DType::I32))
    }),
    same("CausalConvWithState", causal),
];

/// How windows lie along the axes after the second.
#[derive(Clone)]
pub struct Windows {
    pub kernel: Vec<usize>,
    pub stride: Vec<usize>,
    pub dilation: Vec<usize>,
    pub low: Vec<usize>,
    pub high: Vec<usize>,
}

impl Windows {
    /// Those of a node whose operand has shape `dims`.
    pub fn of(c: &Cx<'_, '_>, dims: &[usize], kernel: &[usize]) -> Result<Windows> {
        let n = kernel.len();
        if dims.len() != n + 2 || !(1..=3).contains(&n) {
            return c
                .refuse(format!("an operand of shape {dims:?} and a window {kernel:?}: 1 to 3 axes are supported"));
        }
        let list = |name: &str, default: usize, len: usize| match c.sizes(name)? {
            None => Ok(vec![default; len]),
            Some(all) if all.len() == len => Ok(all),
            Some(all) => c.wrong(format!("{name} has {} entries; {len} are needed", all.len())),
        };
        let kernel = match c.sizes("kernel_shape")? {
            Some(given) if given != kernel => {
                return c.wrong(format!("kernel_shape {given:?} and a kernel {kernel:?}"));
            }
            _ => kernel.to_vec(),
        };
        let (stride, dilation, pads) = (list("strides", 1, n)?, list("dilations", 1, n)?, list("pads", 0, 2 * n)?);
        if stride.iter().chain(&dilation).chain(&kernel).any(|&k| k == 0) {
            return c.wrong("a kernel, a stride or a dilation is 0");
        }
        let (mut low, mut high) = (pads[..n].to_vec(), pads[n..].to_vec());
        let mode = c.text("auto_pad", "NOTSET");
        for a in 0..n {
            let reach = (kernel[a] - 1) * dilation[a] + 1;
            let all = ((dims[a + 2].div_ceil(stride[a]).max(1) - 1) * stride[a] + reach).saturating_sub(dims[a + 2]);
            match mode {
                "SAME_UPPER" => (low[a], high[a]) = (all / 2, all - all / 2),
                "SAME_LOWER" => (low[a], high[a]) = (all - all / 2, all / 2),
                "VALID" => (low[a], high[a]) = (0, 0),
                "NOTSET" | "" => {}
                other => return c.refuse(format!("auto_pad {other:?} is not supported")),
            }
        }
        Ok(Windows { kernel, stride, dilation, low, high })
    }

    /// Pads of both sides, axis by axis.
    pub fn pads(&self) -> Vec<usize> {
        self.low.iter().zip(&self.high).flat_map(|(&l, &h)| [l, h]).collect()
    }
}

/// The first entries of a list.
pub fn first<const N: usize>(all: &[usize]) -> [usize; N] {
    let mut some = [0; N];
    some.iter_mut().zip(all).for_each(|(slot, &n)| *slot = n);
    some
}

/// A convolution along one to three axes.
pub fn convolve<'g>(x: Var<'g>, w: Var<'g>, win: &Windows, groups: i64) -> Result<Var<'g>> {
    fn options<const N: usize, const P: usize>(win: &Windows, groups: usize) -> Conv<N, P> {
        let mut conv = Conv::default().groups(groups);
        (conv.stride, conv.dilation, conv.pad) = (first(&win.stride), first(&win.dilation), first(&win.pads()));
        conv
    }
    let groups = groups.max(1) as usize;
    Ok(match win.kernel.len() {
        1 => x.conv1d(w, options(win, groups)),
        2 => x.conv2d(w, options(win, groups)),
        _ => x.conv3d(w, options(win, groups)),
    })
}

/// `y` with operand `i` added to each channel, if it is there.
fn biased<'g>(c: &Cx<'_, 'g>, y: Var<'g>, i: usize) -> Out<'g> {
    one(match c.opt(i)? {
        Some(bias) => y + per_channel(bias, y.rank()),
        None => y,
    })
}

/// Codes without their zero point, exact in `f64`. With an axis, there may be a zero point for each element of it.
pub fn centred<'g>(c: &Cx<'_, 'g>, x: usize, zero: usize, axis: Option<usize>) -> Result<Var<'g>> {
    let codes = c.stored(x)?.cast(DType::F64);
    if !c.has(zero) {
        return Ok(codes);
    }
    let zero = c.stored(zero)?.cast(DType::F64);
    Ok(match (axis, zero.numel()) {
        (_, 1) => codes - zero.reshape([]),
        (Some(axis), _) => codes - super::from_left(zero, axis, codes.rank()),
        (None, _) => return c.wrong("one zero point is needed"),
    })
}

/// The transpose of a convolution. It is computed whole and then cut, since both ends may be padded differently.
fn transposed<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    fn options<const N: usize>(win: &Windows, groups: usize) -> ConvTranspose<N> {
        let mut conv = ConvTranspose::default().groups(groups);
        (conv.stride, conv.dilation) = (first(&win.stride), first(&win.dilation));
        conv
    }
    let (x, w) = (c.x(0)?, c.x(1)?);
    let (d, groups) = (x.dims(), c.int("group", 1).max(1) as usize);
    let win = Windows::of(c, &d, &w.dims()[2..])?;
    let whole = match win.kernel.len() {
        1 => x.conv_transpose1d(w, options(&win, groups)),
        2 => x.conv_transpose2d(w, options(&win, groups)),
        _ => x.conv_transpose3d(w, options(&win, groups)),
    };
    let n = win.kernel.len();
    let more = c.sizes("output_padding")?.unwrap_or_else(|| vec![0; n]);
    let asked = c.sizes("output_shape")?;
    let (mut y, mode) = (whole, c.text("auto_pad", "NOTSET"));
    if more.len() != n || asked.as_ref().is_some_and(|s| s.len() < n) {
        return c.wrong("output_padding or output_shape has too few entries");
    }
    for a in 0..n {
        let full = whole.dims()[a + 2];
        let (low, len) = match (&asked, mode) {
            (None, "NOTSET" | "" | "VALID") => {
                let (low, high) = (win.low[a], win.high[a]);
                (low as i64, (full + more[a]).saturating_sub(low + high))
            }
            _ => {
                let len = asked.as_ref().map_or(d[a + 2] * win.stride[a], |s| s[s.len() - n + a]);
                let all = (full + more[a]) as i64 - len as i64;
                let smaller = all.div_euclid(2);
                (if mode == "SAME_UPPER" { smaller } else { all - smaller }, len)
            }
        };
        y = window(y, a + 2, low, len);
    }
    biased(c, y, 2)
}

/// `len` elements along an axis from `start` on, with zeros where there are none.
fn window<'g>(y: Var<'g>, axis: usize, start: i64, len: usize) -> Var<'g> {
    let n = y.dims()[axis];
    let (before, skip) = ((-start).max(0) as usize, start.max(0) as usize);
    let after = (skip + len).saturating_sub(before + n);
    let (mut low, mut high) = (vec![0; y.rank()], vec![0; y.rank()]);
    (low[axis], high[axis]) = (before, after);
    let y = if before + after > 0 { y.pad(&low, &high, 0.0) } else { y };
    y.narrow(axis as i64, skip, len)
}

/// A depthwise convolution over what came before, with the last inputs for the next call.
fn causal<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, w) = (c.x(0)?, c.x(1)?);
    let (d, k) = (x.dims(), w.dims());
    let ([batch, channels, _], [_, _, k]) = (&d[..], &k[..]) else { return c.wrong("it needs operands of rank 3") };
    let past = match c.opt(3)? {
        Some(past) => past,
        None => c.g.full(0.0, [*batch, *channels, k - 1], x.dtype()),
    };
    let all = past.concat(&[x], 2);
    let y = all.conv1d(w, Conv::default().groups(*channels));
    let y = biased(c, y, 2)?[0];
    let y = match c.text("activation", "none") {
        "none" => y,
        "silu" | "swish" => y.silu(),
        other => return c.refuse(format!("the activation {other:?} is not supported")),
    };
    let length = all.dims()[2];
    Ok(vec![y, all.narrow(2, length - (k - 1), k - 1)])
}
