//! Sliding windows over one to three axes: their number, the checks with their messages, and torch's `ceil_mode`. Ops
//! and kernels share them, so all refuse the same windows.

use crate::params::Param;
use arenagrad_arena::ensure;
use std::ops::Range;

/// The windows over `N` axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowGeometry<const N: usize> {
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

/// The name of axis `a` of the last `n` axes.
pub fn axis_name(n: usize, a: usize) -> &'static str {
    if n == 1 { "length" } else { ["depth", "height", "width"].get(3 + a - n).copied().unwrap_or("axis") }
}

impl<const N: usize> Param for WindowGeometry<N> {
    const WORDS: usize = 6 * N;
    fn write(self, words: &mut Vec<u64>) {
        [self.size, self.kernel, self.stride].write(words);
        self.pad.write(words);
        self.dilation.write(words);
    }
    fn read(words: &mut impl Iterator<Item = u64>) -> WindowGeometry<N> {
        let [size, kernel, stride] = Param::read(words);
        WindowGeometry { size, kernel, stride, pad: Param::read(words), dilation: Param::read(words) }
    }
}

impl<const N: usize> WindowGeometry<N> {
    /// Windows one apart, without padding.
    pub fn new(size: [usize; N], kernel: [usize; N]) -> WindowGeometry<N> {
        WindowGeometry { size, kernel, stride: [1; N], pad: [[0; 2]; N], dilation: [1; N] }
    }

    /// Number of windows along each axis; 0 if none fits or a size overflows. [`WindowGeometry::count`] says why.
    pub fn out(&self) -> [usize; N] {
        std::array::from_fn(|a| self.along(a))
    }

    fn along(&self, a: usize) -> usize {
        let window = self.kernel[a].checked_sub(1).and_then(|k| k.checked_mul(self.dilation[a])?.checked_add(1));
        let padded = self.size[a].checked_add(self.pad[a][0]).and_then(|x| x.checked_add(self.pad[a][1]));
        let room = window.zip(padded).and_then(|(window, padded)| padded.checked_sub(window));
        room.and_then(|room| room.checked_div(self.stride[a])?.checked_add(1)).unwrap_or(0)
    }

    /// The element of axis `a` under tap `tap` of window `at`; `None` for padding.
    #[inline(always)]
    pub fn element(&self, a: usize, at: usize, tap: usize) -> Option<usize> {
        (at * self.stride[a] + tap * self.dilation[a]).checked_sub(self.pad[a][0]).filter(|x| *x < self.size[a])
    }

    /// The windows of the `count` along axis `a` whose tap `tap` lies in the input, and the element under that of the
    /// first of them.
    #[inline(always)]
    pub fn inside(&self, a: usize, tap: usize, count: usize) -> (Range<usize>, usize) {
        let (at, s, pad) = (tap * self.dilation[a], self.stride[a], self.pad[a][0]);
        let lo = pad.saturating_sub(at).div_ceil(s);
        let hi = (self.size[a] + pad).saturating_sub(at).div_ceil(s).min(count);
        if lo < hi { (lo..hi, lo * s + at - pad) } else { (0..0, 0) }
    }

    /// The windows along `axes` as windows over a plane. The plane has one element along an axis that is `None`.
    pub fn on_plane(&self, axes: [Option<usize>; 2]) -> WindowGeometry<2> {
        let at = |list: &[usize; N]| axes.map(|a| a.map_or(1, |a| list[a]));
        WindowGeometry {
            size: at(&self.size),
            kernel: at(&self.kernel),
            stride: at(&self.stride),
            pad: axes.map(|a| a.map_or([0, 0], |a| self.pad[a])),
            dilation: at(&self.dilation),
        }
    }

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

    /// The same windows with the least numbers that describe them: a stride that leads beyond the end of its axis ends
    /// there, and a lone tap has distance 1. So the work of kernels and gradients is bounded by the axes.
    pub fn tight(mut self) -> WindowGeometry<N> {
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

    /// Checks that every window has a tap inside the input.
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

    /// Checks that padding is at most half of a window, as torch does for pools.
    pub fn half_padded(&self) -> Result<(), String> {
        for a in 0..N {
            let window = self.window(a)?;
            let most = self.pad[a][0].max(self.pad[a][1]);
            let name = axis_name(N, a);
            ensure!(most <= window / 2, "padding {most} is above half of the window's {name} {window}");
        }
        Ok(())
    }

    /// These windows in torch's `ceil_mode`: padding after the input grows so that the last window that starts
    /// in the input, or in the padding before it, is whole.
    pub fn ceiled(&self) -> Result<WindowGeometry<N>, String> {
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
        Ok(WindowGeometry { pad, ..*self })
    }
}

impl WindowGeometry<2> {
    /// The taps of a window, row by row.
    pub fn taps(&self) -> impl Iterator<Item = [usize; 2]> + use<> {
        let [kh, kw] = self.kernel;
        (0..kh).flat_map(move |i| (0..kw).map(move |j| [i, j]))
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
            let win = WindowGeometry {
                size: [size],
                kernel: [kernel],
                stride: [stride],
                pad: [[pad; 2]],
                dilation: [dilation],
            };
            if win.half_padded().is_err() {
                // The half rounds down.
                assert!(2 * pad > (kernel - 1) * dilation + 1);
                continue;
            }
            for ceil in [false, true] {
                let [size, kernel, stride, pad, dilation] = [size, kernel, stride, pad, dilation].map(|v| v as i64);
                let want = torch(size, kernel, stride, pad, dilation, ceil);
                let whole = if ceil { win.ceiled() } else { Ok(win) };
                let got = whole.as_ref().map_err(String::clone).and_then(WindowGeometry::count);
                assert_eq!(got.map_or(0, |c| c[0] as i64), want.max(0), "{win:?} ceil {ceil}");
                if let (Ok(whole), true) = (whole, want > 0 && size >= dilation) {
                    assert_eq!(whole.all_touch(), Ok(()), "{win:?} ceil {ceil}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 1000, "{seen}");
    }
    fn plain() -> WindowGeometry<2> {
        WindowGeometry { size: [5, 7], kernel: [3, 2], stride: [2, 1], pad: [[1, 0], [0, 2]], dilation: [1, 3] }
    }

    fn one(size: usize, kernel: usize, stride: usize, pad: [usize; 2], dilation: usize) -> WindowGeometry<1> {
        WindowGeometry { size: [size], kernel: [kernel], stride: [stride], pad: [pad], dilation: [dilation] }
    }

    #[test]
    fn axes_have_the_names_of_their_number() {
        let names = |n: usize| (0..n).map(|a| axis_name(n, a)).collect::<Vec<_>>();
        assert_eq!(names(1), ["length"]);
        assert_eq!(names(2), ["height", "width"]);
        assert_eq!(names(3), ["depth", "height", "width"]);
    }

    #[test]
    fn windows_that_do_not_fit_name_their_axis() {
        assert_eq!(plain().count(), Ok([2, 6]));
        let why = |w: WindowGeometry<2>| w.count().unwrap_err();
        let most = i32::MAX as usize;
        for (w, text) in [
            (WindowGeometry { kernel: [0, 2], ..plain() }, "the kernel has height 0; 1 is the least"),
            (WindowGeometry { stride: [2, 0], ..plain() }, "stride 0 over a width of 7; 1 is the least"),
            (WindowGeometry { dilation: [0, 3], ..plain() }, "dilation 0 of a kernel of height 3; 1 is the least"),
            (WindowGeometry { kernel: [3, usize::MAX], ..plain() }, "the width of a window overflows"),
            (WindowGeometry { kernel: [7, 2], ..plain() }, "the window's height 7 is above the padded input's 6"),
            (
                WindowGeometry { size: [most, 7], ..plain() },
                "the height 2147483647 with padding 1 and 0 is above 2147483647",
            ),
            (WindowGeometry { size: [5, most - 1], ..plain() }, "with padding 0 and 2 is above"),
        ] {
            assert!(why(w).contains(text), "{}\nnot {text}", why(w));
        }
        assert_eq!(WindowGeometry { size: [most - 1, 7], ..plain() }.count(), Ok([(most - 3) / 2 + 1, 6]));
        assert_eq!(WindowGeometry { kernel: [6, 2], ..plain() }.count(), Ok([1, 6]));
    }

    #[test]
    fn tight_windows_are_the_same_by_the_least_numbers() {
        let wide =
            WindowGeometry { size: [5, 7], kernel: [1, 3], stride: [9, 9], pad: [[0, 0], [1, 1]], dilation: [4, 2] };
        let tight = wide.tight();
        assert_eq!(tight, WindowGeometry { stride: [5, 5], dilation: [1, 2], ..wide });
        assert_eq!((wide.count(), tight.count()), (Ok([1, 1]), Ok([1, 1])));
        assert_eq!(plain().tight(), plain());
        // What is refused stays so.
        assert!(one(5, 1, 1, [0, 0], 0).tight().count().is_err() && one(2, 5, 3, [0, 0], 1).tight().count().is_err());
    }

    #[test]
    fn each_window_touches_the_input_or_is_refused() {
        let padding = |pad: &str| Err(format!("a window holds only padding: pad {pad}"));
        assert_eq!(one(2, 1, 1, [1, 0], 1).all_touch(), padding("[1, 0]"));
        assert_eq!(one(2, 2, 1, [1, 0], 1).all_touch(), Ok(()));
        assert_eq!(one(2, 2, 1, [0, 1], 1).all_touch(), Ok(()));
        assert_eq!(one(2, 2, 1, [0, 2], 1).all_touch(), padding("[0, 2]"));
        assert_eq!(one(4, 2, 3, [0, 3], 1).all_touch(), Ok(()));
        // Without padding nothing is outside.
        assert_eq!(one(2, 1, 1, [0, 0], 4).all_touch(), Ok(()));
        let gaps = "dilation 3 steps over the length 2 of a padded input".to_string();
        assert_eq!(one(2, 3, 1, [4, 4], 3).all_touch(), Err(gaps));
        assert_eq!(one(3, 2, 1, [3, 3], 3).all_touch(), Ok(()));
        let second =
            WindowGeometry { size: [4, 2], kernel: [1; 2], stride: [1; 2], pad: [[0; 2], [1, 0]], dilation: [1; 2] };
        assert_eq!(second.all_touch(), padding("[0, 0, 1, 0]"));
    }

    #[test]
    fn the_larger_padding_of_an_axis_is_at_most_half_of_a_window() {
        assert_eq!(one(5, 3, 1, [0, 1], 1).half_padded(), Ok(()));
        let why = "padding 2 is above half of the window's length 3".to_string();
        assert_eq!(one(5, 3, 1, [0, 2], 1).half_padded(), Err(why.clone()));
        assert_eq!(one(5, 3, 1, [2, 0], 1).half_padded(), Err(why));
    }

    #[test]
    fn the_last_window_of_ceil_mode_starts_in_the_input_or_before_it() {
        let pad = |w: WindowGeometry<1>| w.ceiled().unwrap().pad[0];
        assert_eq!(pad(one(5, 2, 2, [0, 0], 1)), [0, 1]);
        assert_eq!(pad(one(5, 2, 2, [1, 0], 1)), [1, 0]);
        // A second window would start in the padding behind.
        assert_eq!(pad(one(3, 3, 3, [0, 2], 1)), [0, 2]);
        // A window longer than the input, by less than a stride.
        assert_eq!(pad(one(2, 4, 3, [0, 0], 1)), [0, 2]);
        let e = one(2, 4, 2, [0, 0], 1).ceiled().unwrap_err();
        assert_eq!(e, "the window's length 4 is above the padded input's 2");
    }

    #[test]
    fn windows_over_one_axis_are_windows_over_a_plane() {
        let want =
            WindowGeometry { size: [1, 5], kernel: [1, 3], stride: [1, 2], pad: [[0, 0], [1, 2]], dilation: [1, 4] };
        assert_eq!(one(5, 3, 2, [1, 2], 4).on_plane([None, Some(0)]), want);
        assert_eq!(plain().on_plane([Some(0), Some(1)]), plain());
    }
}
