//! Windows over planes as the definitions of ops use them: the checks of lists of attributes, and the decomposition
//! into simple ops, one tap (position in the window) at a time. The geometry itself is
//! [`kernels::window`](crate::kernels::window)'s: shape inference, builder methods and kernels share it.

use crate::ensure;
use crate::kernels::window::WindowGeometry;
use crate::nodes::arguments::dilate::dilate;
use crate::nodes::arguments::size_attrs::{check_size_attrs, to_size_attrs};
use crate::nodes::ir::builder::Var;

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

/// Windows by lists of attributes that shape inference has seen.
pub fn windows_of_lists<const N: usize>(
    size: [usize; N],
    kernel: [usize; N],
    stride: &[i64],
    pad: &[i64],
    dilation: &[i64],
) -> WindowGeometry<N> {
    let [stride, dilation] = [stride, dilation].map(|l| first_entries(&to_size_attrs(l)));
    WindowGeometry { size, kernel, stride, pad: low_high_pairs(&to_size_attrs(pad)), dilation }
}

/// Windows over planes, tap by tap.
pub trait PlaneTaps {
    /// `x[N, C, H, W]` with the padding filled by `value`.
    fn pad<'g>(&self, x: Var<'g>, value: f64) -> Var<'g>;

    /// The elements under tap `tap` of every window of a padded plane: `[N, C, Ho, Wo]`.
    fn tap<'g>(&self, padded: Var<'g>, tap: [usize; 2], count: [usize; 2]) -> Var<'g>;

    /// The transpose of [`PlaneTaps::tap`]: `y[N, C, Ho, Wo]` at its positions in a padded plane of zeros.
    fn untap<'g>(&self, y: Var<'g>, tap: [usize; 2]) -> Var<'g>;

    /// A padded plane without its padding.
    fn crop<'g>(&self, padded: Var<'g>) -> Var<'g>;
}

impl PlaneTaps for WindowGeometry<2> {
    fn pad<'g>(&self, x: Var<'g>, value: f64) -> Var<'g> {
        let [[t, b], [l, r]] = self.pad;
        if self.pad == [[0; 2]; 2] { x } else { x.pad(&[0, 0, t, l], &[0, 0, b, r], value) }
    }

    fn tap<'g>(&self, padded: Var<'g>, tap: [usize; 2], count: [usize; 2]) -> Var<'g> {
        let d = padded.dims();
        let (n, c) = (d.first().copied().unwrap_or(0), d.get(1).copied().unwrap_or(0));
        let start = [0, 1].map(|a| tap[a] * self.dilation[a]);
        // Up to one past the last element taken, so that the slice never leaves the plane.
        let limit = [0, 1].map(|a| start[a] + (count[a].max(1) - 1) * self.stride[a] + 1);
        padded.slice(&[0, 0, start[0], start[1]], &[n, c, limit[0], limit[1]], &[1, 1, self.stride[0], self.stride[1]])
    }

    fn untap<'g>(&self, y: Var<'g>, tap: [usize; 2]) -> Var<'g> {
        let spread = dilate(y, &[1, 1, self.stride[0], self.stride[1]]);
        let d = spread.dims();
        let padded = [0, 1].map(|a| self.size[a] + self.pad[a][0] + self.pad[a][1]);
        let start = [0, 1].map(|a| tap[a] * self.dilation[a]);
        let after = [0, 1].map(|a| padded[a].saturating_sub(start[a] + d.get(2 + a).copied().unwrap_or(0)));
        spread.pad(&[0, 0, start[0], start[1]], &[0, 0, after[0], after[1]], 0.0)
    }

    fn crop<'g>(&self, padded: Var<'g>) -> Var<'g> {
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

    fn plain() -> WindowGeometry<2> {
        WindowGeometry { size: [5, 7], kernel: [3, 2], stride: [2, 1], pad: [[1, 0], [0, 2]], dilation: [1, 3] }
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
