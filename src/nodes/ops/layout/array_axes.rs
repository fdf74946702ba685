//! Joins, parts and axes of tensors as methods of [`Var`], with torch's names and defaults. None of them is an op: they
//! are reshapes, transposes, slices and concatenations.

use crate::nodes::build::axes::Axes;
use crate::nodes::build::sizes::size_to_i64;
use crate::nodes::ir::builder::Var;

/// The most parts of an empty axis, and the most that an error leaves.
const MOST_PARTS: usize = 1 << 16;

impl<'g> Var<'g> {
    /// This and `rest`, side by side along a new axis, as `torch.stack`. All have one type and one shape. `axis` is the
    /// position of the new axis in the result; a negative one counts from the end of the result.
    #[track_caller]
    pub fn stack(self, rest: &[Var<'g>], axis: i64) -> Var<'g> {
        self.g.with_caller(|| {
            if !self.g.owns("stack", rest) || !self.is_some() || rest.iter().any(|x| !x.is_some()) {
                return self.none();
            }
            if let Some((i, x)) = rest.iter().enumerate().find(|(_, x)| x.ty() != self.ty()) {
                let why = format!("operand {} is {}{}; all need one type and shape", i + 1, x.dtype(), x.dims());
                return self.refuse("stack", why);
            }
            let Some(at) = self.new_axis("stack", axis) else { return self.none() };
            let parts: Vec<_> = rest.iter().map(|x| x.unsqueeze(size_to_i64(at))).collect();
            self.unsqueeze(size_to_i64(at)).concat(&parts, size_to_i64(at))
        })
    }

    /// Consecutive parts along `axis` with these sizes, as `torch.split`. The sizes must sum to the length of the axis.
    /// After an error, the number of parts is the same.
    #[track_caller]
    pub fn split(self, sizes: &[usize], axis: i64) -> Vec<Var<'g>> {
        self.g.with_caller(|| {
            let none = vec![self.none(); sizes.len()];
            let Some(at) = self.axis_at("split", axis) else { return none };
            let n = self.dims()[at];
            if sizes.iter().try_fold(0usize, |sum, &s| sum.checked_add(s)) != Some(n) {
                self.refuse("split", format!("the sizes {sizes:?} do not sum to {n}, the length of axis {axis}"));
                return none;
            }
            let mut from = 0;
            let part = |&size: &usize| {
                from += size;
                self.narrow(size_to_i64(at), from - size, size)
            };
            sizes.iter().map(part).collect()
        })
    }

    /// At most `parts` consecutive parts along `axis`, as `torch.chunk`: each of ⌈n / parts⌉ elements of an axis of n,
    /// but for the last, which may be shorter. There are fewer parts if fewer suffice. `parts` is at least 1.
    #[track_caller]
    pub fn chunk(self, parts: usize, axis: i64) -> Vec<Var<'g>> {
        self.g.with_caller(|| {
            let Some(at) = self.axis_at("chunk", axis) else { return vec![self.none(); parts.min(MOST_PARTS)] };
            if parts == 0 {
                self.refuse("chunk", "the number of parts is 0; it must be at least 1");
                return Vec::new();
            }
            let n = self.dims()[at];
            if n == 0 && parts > MOST_PARTS {
                self.refuse("chunk", format!("{parts} parts of an empty axis; at most {MOST_PARTS} are allowed"));
                return vec![self.none(); MOST_PARTS];
            }
            let size = n.div_ceil(parts);
            let sizes: Vec<usize> = match size {
                0 => vec![0; parts],
                _ => (0..n.div_ceil(size)).map(|i| size.min(n - i * size)).collect(),
            };
            self.split(&sizes, size_to_i64(at))
        })
    }

    /// This without `axes` (one, several, or `..` for all), each of which must have length 1.
    #[track_caller]
    pub fn squeeze(self, axes: impl Axes) -> Var<'g> {
        let Some(axes) = self.axes_at("squeeze", axes) else { return self.none() };
        let d = self.dims();
        if let Some(a) = axes.iter().find(|&&a| d[a] != 1) {
            return self.refuse("squeeze", format!("axis {a} has length {}; only axes of length 1 can go", d[*a]));
        }
        let left: Vec<usize> = (0..d.len()).filter(|a| !axes.contains(a)).map(|a| d[a]).collect();
        self.reshape(left)
    }

    /// This with a new axis of length 1 at `axis` of the result, as `torch.unsqueeze`. A negative axis counts from the
    /// end of the result.
    #[track_caller]
    pub fn unsqueeze(self, axis: i64) -> Var<'g> {
        let Some(at) = self.new_axis("unsqueeze", axis) else { return self.none() };
        let mut d = self.dims().to_vec();
        d.insert(at, 1);
        self.reshape(d)
    }

    /// The position of a new axis, in 0..=rank. None, with an error of `what`, if `axis` is outside.
    #[track_caller]
    fn new_axis(self, what: &str, axis: i64) -> Option<usize> {
        if !self.is_some() {
            return None;
        }
        match axis.resolve(self.rank() + 1) {
            Ok(at) => at.first().and_then(|&a| usize::try_from(a).ok()),
            Err(bad) => {
                self.refuse(what, format!("the new axis {bad} is outside rank {}", self.rank() + 1));
                None
            }
        }
    }

    /// Axes `first` to `last`, both included, joined into one, as `torch.flatten`. A scalar becomes `[1]`.
    #[track_caller]
    pub fn flatten(self, first: i64, last: i64) -> Var<'g> {
        if self.is_some() && self.rank() == 0 && [first, last].iter().all(|a| (-1..=0).contains(a)) {
            return self.reshape([1]);
        }
        let (Some(a), Some(b)) = (self.axis_at("flatten", first), self.axis_at("flatten", last)) else {
            return self.none();
        };
        if a > b {
            return self.refuse("flatten", format!("axis {first} stands behind axis {last}"));
        }
        let d = self.dims();
        self.reshape([&d[..a], &[d[a..=b].iter().product()], &d[b + 1..]].concat())
    }

    /// `axis` divided into axes of these sizes, as `torch.unflatten`. One size may be `usize::MAX`: it is computed. The
    /// product of the sizes must be the length of the axis.
    #[track_caller]
    pub fn unflatten(self, axis: i64, sizes: &[usize]) -> Var<'g> {
        let Some(at) = self.axis_at("unflatten", axis) else { return self.none() };
        let (d, mut sizes) = (self.dims(), sizes.to_vec());
        let known = sizes.iter().filter(|&&s| s != usize::MAX).try_fold(1usize, |n, &s| n.checked_mul(s));
        if let (Some(n), Some(hole)) = (known, sizes.iter().position(|&s| s == usize::MAX))
            && n > 0
            && d[at].is_multiple_of(n)
        {
            sizes[hole] = d[at] / n;
        }
        if sizes.is_empty() || sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s)) != Some(d[at]) {
            let shown: Vec<i128> = sizes.iter().map(|&s| if s == usize::MAX { -1 } else { s as i128 }).collect();
            return self.refuse("unflatten", format!("axis {axis} has length {}, not the product of {shown:?}", d[at]));
        }
        self.reshape([&d[..at], &sizes, &d[at + 1..]].concat())
    }

    /// Axes `from[i]` moved to the positions `to[i]`, the others in their order, as `torch.movedim`.
    #[track_caller]
    pub fn movedim(self, from: &[i64], to: &[i64]) -> Var<'g> {
        let (Some(a), Some(b)) = (self.axes_at("movedim", from), self.axes_at("movedim", to)) else {
            return self.none();
        };
        if a.len() != b.len() {
            return self.refuse("movedim", format!("{} axes move to {} positions", a.len(), b.len()));
        }
        let mut rest = (0..self.rank()).filter(|i| !a.contains(i));
        let source = |at: usize| b.iter().position(|&p| p == at).map_or_else(|| rest.next(), |k| Some(a[k]));
        let perm: Vec<usize> = (0..self.rank()).filter_map(source).collect();
        if perm.is_sorted() { self } else { self.permute(&perm) }
    }

    /// Each element `times` times in a row along `axis`, as `torch.repeat_interleave` with a number.
    #[track_caller]
    pub fn repeat_interleave(self, times: usize, axis: i64) -> Var<'g> {
        let Some(at) = self.axis_at("repeat_interleave", axis) else { return self.none() };
        self.g.with_caller(|| {
            let d = self.dims();
            let (outer, inner) = (d[..=at].iter().product(), d[at + 1..].iter().product());
            let mut all = d.to_vec();
            all[at] = d[at].saturating_mul(times);
            self.reshape([outer, 1, inner]).broadcast([outer, times, inner]).reshape(all)
        })
    }
}
