//! Sliding windows over one to three axes: their number, the checks with their messages, torch's `ceil_mode`, and the
//! decomposition of windows over planes into simple ops, one tap (position in the window) at a time. Shape inference
//! and builder methods share it, so that both refuse the same windows.

use crate::ensure;
use crate::nodes::arguments::dilate::dilate;
use crate::nodes::arguments::size_attrs::check_size_attrs;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::builder::Var;

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
pub fn window_axis_name(n: usize, a: usize) -> &'static str {
    if n == 1 { "length" } else { ["depth", "height", "width"].get(3 + a - n).copied().unwrap_or("axis") }
}

/// The first `N` entries of a list that shape inference has seen.
pub fn first_entries<const N: usize>(list: &[usize]) -> [usize; N] {
    std::array::from_fn(|i| list.get(i).copied().unwrap_or(0))
}

/// `[low, high, low, high, …]` as pairs.
pub fn low_high_pairs<const N: usize>(list: &[usize]) -> [[usize; 2]; N] {
    std::array::from_fn(|a| first_entries(list.get(2 * a..).unwrap_or(&[])))
}

/// The list of attribute `name` as `N` non-negative sizes.
pub fn check_window_sizes<const N: usize>(name: &str, list: &[i64]) -> Result<[usize; N], String> {
    let list = check_size_attrs(name, list)?;
    list.try_into().map_err(|l: Vec<usize>| format!("{name} has {} entries, not {N}", l.len()))
}

/// Checks that attribute `pad` holds padding before and after `N` axes.
pub fn check_window_pad<const N: usize>(list: &[i64]) -> Result<(), String> {
    let n = check_size_attrs("pad", list)?.len();
    ensure!(n == 2 * N, "pad has {n} entries, not {}", 2 * N);
    Ok(())
}

impl<const N: usize> WindowGeometry<N> {
    /// Windows by lists of attributes that shape inference has seen.
    pub fn from_lists(
        size: [usize; N],
        kernel: [usize; N],
        stride: &[i64],
        pad: &[i64],
        dilation: &[i64],
    ) -> WindowGeometry<N> {
        let [stride, dilation] = [stride, dilation].map(|l| first_entries(&to_size_attrs(l)));
        WindowGeometry { size, kernel, stride, pad: low_high_pairs(&to_size_attrs(pad)), dilation }
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
        let (k, d, name) = (self.kernel[a], self.dilation[a], window_axis_name(N, a));
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
        sum.ok_or_else(|| {
            format!("the {} {size} with padding {low} and {high} is above {}", window_axis_name(N, a), i32::MAX)
        })
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
            ensure!(
                window <= padded,
                "the window's {} {window} is above the padded input's {padded}",
                window_axis_name(N, a)
            );
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
            ensure!(size >= d, "dilation {d} steps over the {} {size} of a padded input", window_axis_name(N, a));
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
            let name = window_axis_name(N, a);
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
            let name = window_axis_name(N, a);
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

    /// `x[N, C, H, W]` with the padding filled by `value`.
    pub fn pad<'g>(&self, x: Var<'g>, value: f64) -> Var<'g> {
        let [[t, b], [l, r]] = self.pad;
        if self.pad == [[0; 2]; 2] { x } else { x.pad(&[0, 0, t, l], &[0, 0, b, r], value) }
    }

    /// The elements under tap `tap` of every window of a padded plane: `[N, C, Ho, Wo]`.
    pub fn tap<'g>(&self, padded: Var<'g>, tap: [usize; 2], count: [usize; 2]) -> Var<'g> {
        let d = padded.dims();
        let (n, c) = (d.first().copied().unwrap_or(0), d.get(1).copied().unwrap_or(0));
        let start = [0, 1].map(|a| tap[a] * self.dilation[a]);
        // Up to one past the last element taken, so that the slice never leaves the plane.
        let limit = [0, 1].map(|a| start[a] + (count[a].max(1) - 1) * self.stride[a] + 1);
        padded.slice(&[0, 0, start[0], start[1]], &[n, c, limit[0], limit[1]], &[1, 1, self.stride[0], self.stride[1]])
    }

    /// The transpose of [`WindowGeometry::tap`]: `y[N, C, Ho, Wo]` at its positions in a padded plane of zeros.
    pub fn untap<'g>(&self, y: Var<'g>, tap: [usize; 2]) -> Var<'g> {
        let spread = dilate(y, &[1, 1, self.stride[0], self.stride[1]]);
        let d = spread.dims();
        let padded = [0, 1].map(|a| self.size[a] + self.pad[a][0] + self.pad[a][1]);
        let start = [0, 1].map(|a| tap[a] * self.dilation[a]);
        let after = [0, 1].map(|a| padded[a].saturating_sub(start[a] + d.get(2 + a).copied().unwrap_or(0)));
        spread.pad(&[0, 0, start[0], start[1]], &[0, 0, after[0], after[1]], 0.0)
    }

    /// A padded plane without its padding.
    pub fn crop<'g>(&self, padded: Var<'g>) -> Var<'g> {
        let [[t, _], [l, _]] = self.pad;
        let [h, w] = self.size;
        padded.narrow(2, t, h).narrow(3, l, w)
    }
}

/// The sum of `terms`, in order. After an error no further terms are built.
pub fn sum_over_window_taps<'g>(mut terms: impl Iterator<Item = Var<'g>>) -> Option<Var<'g>> {
    let first = terms.next()?;
    terms.try_fold(first, |a, b| if a.is_some() { Ok(a + b) } else { Err(a) }).map_or_else(Some, Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::builder::Builder;
    use crate::nodes::ir::dtype::DType;

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
        let names = |n: usize| (0..n).map(|a| window_axis_name(n, a)).collect::<Vec<_>>();
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

    #[test]
    fn taps_are_the_slices_of_a_padded_plane() {
        let all: Vec<[usize; 2]> = plain().taps().collect();
        assert_eq!(all, [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]);
        let g = Builder::new("taps");
        let x = g.input("x", [4, 3, 5, 7], DType::F32);
        let padded = plain().pad(x, 0.0);
        assert_eq!(padded.dims()[..], [4, 3, 6, 9]);
        let y = plain().tap(padded, [2, 1], [2, 6]);
        assert_eq!(y.dims()[..], [4, 3, 2, 6]);
        assert_eq!(plain().untap(y, [2, 1]).dims()[..], [4, 3, 6, 9]);
        assert_eq!(plain().crop(padded).dims()[..], [4, 3, 5, 7]);
        assert_eq!(WindowGeometry { pad: [[0; 2]; 2], ..plain() }.pad(x, 0.0).v, x.v);
        let parts = [x, x * 2.0, x * 3.0];
        assert_eq!(sum_over_window_taps(parts.into_iter()).map(|y| y.dims()), Some(x.dims()));
        assert!(sum_over_window_taps(std::iter::empty()).is_none());
    }
}
