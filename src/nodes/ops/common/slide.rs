//! Sliding windows over one to three axes: how many there are, what is refused and in which words, and what torch's
//! `ceil_mode` adds. Row rules and builder methods share it, so that both refuse the same.

use super::window::array;
use crate::ensure;
use crate::nodes::build::axes::to_i64s;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::infer::Infer;

/// Where windows lie on `N` axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slide<const N: usize> {
    /// Elements of each axis.
    pub size: [usize; N],
    /// Taps of a window.
    pub kernel: [usize; N],
    /// Step between windows.
    pub stride: [usize; N],
    /// Padding before and after each axis.
    pub pad: [[usize; 2]; N],
    /// Distance between taps.
    pub dilation: [usize; N],
}

/// What the last `n` axes are called.
pub fn axis_name(n: usize, a: usize) -> &'static str {
    if n == 1 { "length" } else { ["depth", "height", "width"].get(3 + a - n).copied().unwrap_or("axis") }
}

/// `[low, high, low, high, …]` as pairs.
pub fn pairs<const N: usize>(list: &[usize]) -> [[usize; 2]; N] {
    std::array::from_fn(|a| array(list.get(2 * a..).unwrap_or(&[])))
}

/// Field `i` as padding before and after `N` axes.
pub fn pad_field<const N: usize>(cx: &Infer<'_>, i: usize) -> Result<[[usize; 2]; N], String> {
    let list = cx.sizes(i)?;
    let name = cx.attrs.fields[i].name;
    ensure!(list.len() == 2 * N, "{name} has {} entries, not {}", list.len(), 2 * N);
    Ok(pairs(&list))
}

impl<const N: usize> Slide<N> {
    /// Elements from the first to the last tap.
    pub fn window(&self, a: usize) -> Result<usize, String> {
        let (k, d, name) = (self.kernel[a], self.dilation[a], axis_name(N, a));
        ensure!(k > 0, "the kernel has {name} 0; 1 is the least");
        ensure!(self.stride[a] > 0, "stride 0 over a {name} of {}; 1 is the least", self.size[a]);
        ensure!(d > 0, "dilation 0 of a kernel of {name} {k}; 1 is the least");
        let window = (k - 1).checked_mul(d).and_then(|w| w.checked_add(1));
        window.ok_or_else(|| format!("the {name} of a window overflows: kernel {k}, dilation {d}"))
    }

    /// Elements of axis `a` with its padding.
    fn padded(&self, a: usize) -> Result<usize, String> {
        let ([low, high], size) = (self.pad[a], self.size[a]);
        // Kernels walk over padding too, and count in 32 bits.
        let sum = size.checked_add(low).and_then(|x| x.checked_add(high)).filter(|&x| x <= i32::MAX as usize);
        sum.ok_or_else(|| format!("the {} {size} with padding {low} and {high} is above {}", axis_name(N, a), i32::MAX))
    }

    /// The same windows with the least numbers that say so: a stride that leads beyond the end of its axis ends there, and
    /// a lone tap has distance 1. What kernels and gradients take then depends on the axes, not on such numbers.
    pub fn tight(mut self) -> Slide<N> {
        for a in 0..N {
            if self.kernel[a] == 1 {
                self.dilation[a] = self.dilation[a].min(1);
            }
            if let (Ok(window), Ok(padded)) = (self.window(a), self.padded(a)) {
                self.stride[a] = self.stride[a].min(padded.saturating_sub(window) + 1);
            }
        }
        self
    }

    /// Number of windows along each axis, or why there are none.
    pub fn count(&self) -> Result<[usize; N], String> {
        let mut out = [0; N];
        for (a, n) in out.iter_mut().enumerate() {
            let (window, padded) = (self.window(a)?, self.padded(a)?);
            ensure!(window <= padded, "the window's {} {window} is above the padded input's {padded}", axis_name(N, a));
            *n = (padded - window) / self.stride[a] + 1;
        }
        Ok(out)
    }

    /// Asks that every window has a tap inside the input.
    pub fn all_touch(&self) -> Result<(), String> {
        let count = self.count()?;
        for (a, &n) in count.iter().enumerate() {
            let ([low, high], size, d) = (self.pad[a], self.size[a], self.dilation[a]);
            if low == 0 && high == 0 {
                continue;
            }
            // A window that overlaps at least `d` elements has a tap among them: its gaps are narrower.
            ensure!(size >= d, "dilation {d} steps over the {} {size} of a padded input", axis_name(N, a));
            let (first_end, last) = ((self.kernel[a] - 1) * d, (n - 1) * self.stride[a]);
            ensure!(
                first_end >= low && last < low + size,
                "a window holds only padding: pad {:?}",
                self.pad.as_flattened()
            );
        }
        Ok(())
    }

    /// Asks, as torch does of pools, that padding is at most half of a window.
    pub fn half_padded(&self) -> Result<(), String> {
        for a in 0..N {
            let window = self.window(a)?;
            let most = self.pad[a][0].max(self.pad[a][1]);
            let name = axis_name(N, a);
            ensure!(most <= window / 2, "padding {most} is above half of the window's {name} {window}");
        }
        Ok(())
    }

    /// These windows as torch's `ceil_mode` has them: padding after the input grows so that the last window that starts
    /// in the input, or in the padding before it, is whole.
    pub fn ceiled(&self) -> Result<Slide<N>, String> {
        let mut pad = self.pad;
        for (a, pad) in pad.iter_mut().enumerate() {
            let (window, padded, s) = (self.window(a)?, self.padded(a)?, self.stride[a]);
            let name = axis_name(N, a);
            // Division that rounds up, also where the window is the longer of the two.
            let n = match padded.checked_sub(window) {
                Some(room) => room.div_ceil(s) + 1,
                None if window - padded < s => 1,
                None => return Err(format!("the window's {name} {window} is above the padded input's {padded}")),
            };
            let starts_outside = (n - 1).saturating_mul(s) >= self.size[a].saturating_add(pad[0]);
            let n = if starts_outside && n > 1 { n - 1 } else { n };
            let end = (n - 1).checked_mul(s).and_then(|x| x.checked_add(window));
            let end = end.ok_or_else(|| format!("the {name} of all windows overflows"))?;
            pad[1] += end.saturating_sub(padded);
        }
        Ok(Slide { pad, ..*self })
    }

    /// The attribute lists kernel, stride, pad and dilation.
    pub fn lists(&self) -> [Vec<i64>; 4] {
        [to_i64s(&self.kernel), to_i64s(&self.stride), to_i64s(self.pad.as_flattened()), to_i64s(&self.dilation)]
    }
}

/// Lists as attributes.
pub fn ints<const K: usize>(lists: &[Vec<i64>; K]) -> [Attr<'_>; K] {
    lists.each_ref().map(|l| Attr::Ints(l))
}

/// The windows along `axes` of `win` as windows over a plane, whose first axis has one element where there is one axis.
pub fn plane_of<const N: usize>(win: &Slide<N>, axes: [Option<usize>; 2]) -> Slide<2> {
    let at = |f: &dyn Fn(usize) -> usize, other: usize| axes.map(|a| a.map_or(other, f));
    Slide {
        size: at(&|a| win.size[a], 1),
        kernel: at(&|a| win.kernel[a], 1),
        stride: at(&|a| win.stride[a], 1),
        pad: axes.map(|a| a.map_or([0, 0], |a| win.pad[a])),
        dilation: at(&|a| win.dilation[a], 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pooling_output_shape` of torch, for one axis: 0 where torch refuses.
    fn torch(size: i64, kernel: i64, stride: i64, pad: i64, dilation: i64, ceil: bool) -> i64 {
        let more = if ceil { stride - 1 } else { 0 };
        let out = (size + 2 * pad - dilation * (kernel - 1) - 1 + more).div_euclid(stride) + 1;
        if ceil && (out - 1) * stride >= size + pad { out - 1 } else { out }
    }

    #[test]
    fn counts_are_torchs() {
        let mut seen = 0;
        for code in 0..9 * 5 * 5 * 3 * 4 {
            let (size, kernel, stride) = (code % 9 + 1, code / 9 % 5 + 1, code / 45 % 5 + 1);
            let (dilation, pad) = (code / 225 % 3 + 1, code / 675);
            let win = Slide { size: [size], kernel: [kernel], stride: [stride], pad: [[pad; 2]], dilation: [dilation] };
            if win.half_padded().is_err() {
                // The half rounds down.
                assert!(2 * pad > (kernel - 1) * dilation + 1);
                continue;
            }
            for ceil in [false, true] {
                let [size, kernel, stride, pad, dilation] = [size, kernel, stride, pad, dilation].map(|v| v as i64);
                let want = torch(size, kernel, stride, pad, dilation, ceil);
                let whole = if ceil { win.ceiled() } else { Ok(win) };
                let got = whole.as_ref().map_err(String::clone).and_then(Slide::count);
                assert_eq!(got.map_or(0, |c| c[0] as i64), want.max(0), "{win:?} ceil {ceil}");
                if let (Ok(whole), true) = (whole, want > 0 && size >= dilation) {
                    assert_eq!(whole.all_touch(), Ok(()), "{win:?} ceil {ceil}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 1000, "{seen}");
    }
}
