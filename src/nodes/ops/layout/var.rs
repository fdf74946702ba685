//! Methods of [`Var`] that move, join and select elements, and that add, remove and reorder axes, with torch's names
//! and defaults.

use crate::error::Kind;
use crate::nodes::arguments::axes::{Axes, AxisSplit, split_at_axis};
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::layout::attrs::{ConcatAttrs, FlipAttrs, PadAttrs, SliceAttrs, ToShapeAttrs, TransposeAttrs};
use crate::nodes::ops::layout::pad_mode::PadMode;

impl<'g> Var<'g> {
    /// The same elements in row-major order, in shape `dims`. One dimension may be `usize::MAX`: it is computed. If
    /// another dimension is 0, it cannot be computed, which is an error, as in torch. A shape with another number of
    /// elements is an error. No copy is made.
    #[track_caller]
    pub fn reshape(self, dims: impl AsRef<[usize]>) -> Var<'g> {
        let mut dims = dims.as_ref().to_vec();
        if !self.is_some() {
            return self;
        }
        if let Some(hole) = dims.iter().position(|&d| d == usize::MAX) {
            match computed_layout_dim(self.numel(), &dims) {
                Ok(size) => dims[hole] = size,
                Err(why) => {
                    let asked: Vec<_> = dims.iter().map(|&d| if d == usize::MAX { -1 } else { d as i128 }).collect();
                    return self.g.fail(Kind::Shape, format!("reshape({self:?}) to {asked:?}: {why}"));
                }
            }
        }
        if *self.dims() == *dims {
            return self;
        }
        match self.g.shape(&dims) {
            Some(shape) => self.g.emit1(Op::RESHAPE, &[self], &ToShapeAttrs { shape }.list()),
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// This value, marked as a boundary of blocks. Under a [memory budget](crate::session::Session::memory_budget),
    /// values between two boundaries may be computed again for the gradients instead of being kept. Without a budget
    /// nothing changes.
    #[track_caller]
    pub fn checkpoint(self) -> Var<'g> {
        self.g.emit1(Op::CHECKPOINT, &[self], &[])
    }

    /// The axes in another order: axis `i` of the result is axis `perm[i]` of this. `perm` names each axis once;
    /// negative axes count from the end.
    #[track_caller]
    pub fn transpose(self, perm: &[i64]) -> Var<'g> {
        let rank = size_attr_to_i64(self.rank());
        let from_start = |&axis: &i64| if (-rank..0).contains(&axis) { axis + rank } else { axis };
        let perm = perm.iter().map(from_start).collect();
        self.g.emit1(Op::TRANSPOSE, &[self], &TransposeAttrs { perm }.list())
    }

    /// As [`Var::transpose`], for axes that were computed.
    #[track_caller]
    pub(crate) fn permute(self, perm: &[usize]) -> Var<'g> {
        self.g.emit1(Op::TRANSPOSE, &[self], &TransposeAttrs { perm: size_attrs_to_i64(perm) }.list())
    }

    /// The last two axes exchanged: each matrix of a batch is transposed, as torch's `mT`. A rank below 2 is an error.
    #[doc(alias = "mT")]
    #[track_caller]
    pub fn t(self) -> Var<'g> {
        let r = self.rank();
        if r < 2 {
            return self.g.fail(Kind::Shape, format!("t({self:?}): rank 2 or more is needed"));
        }
        let mut perm: Vec<usize> = (0..r).collect();
        perm.swap(r - 2, r - 1);
        self.permute(&perm)
    }

    /// Elements repeated along axes of size 1 and along missing leading axes, up to shape `dims`. It is an error if the
    /// shape does not broadcast to `dims` as in NumPy.
    #[track_caller]
    pub fn broadcast(self, dims: impl AsRef<[usize]>) -> Var<'g> {
        if !self.is_some() || *self.dims() == *dims.as_ref() {
            return self;
        }
        match self.g.shape(dims.as_ref()) {
            Some(shape) => self.g.emit1(Op::BROADCAST, &[self], &ToShapeAttrs { shape }.list()),
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// Elements `starts[i]..limits[i]` along each axis `i`, in steps of `steps[i]`. Each list has an entry for each
    /// axis. Ranges beyond the axis and steps of 0 are errors.
    #[track_caller]
    pub fn slice(self, starts: &[usize], limits: &[usize], steps: &[usize]) -> Var<'g> {
        let mut a = SliceAttrs {
            starts: size_attrs_to_i64(starts),
            limits: size_attrs_to_i64(limits),
            steps: size_attrs_to_i64(steps),
        };
        let ranges = a.starts.iter().zip(&mut a.limits).zip(&mut a.steps);
        for (&size, ((start, limit), step)) in self.dims().iter().zip(ranges) {
            let reach = *limit - start;
            if *limit as usize <= size && *step > 1 && (0..=*step).contains(&reach) {
                (*limit, *step) = (start + reach.min(1), 1);
            }
        }
        self.g.emit1(Op::SLICE, &[self], &a.list())
    }

    /// Elements `start..start + len` along `axis`, which may be negative. A range beyond the axis is an error.
    #[track_caller]
    pub fn narrow(self, axis: i64, start: usize, len: usize) -> Var<'g> {
        self.on_axis(Op::SLICE, axis, |a| {
            let d = self.dims();
            let (mut starts, mut limits) = (vec![0; d.len()], d.to_vec());
            starts[a as usize] = start;
            limits[a as usize] = start.saturating_add(len);
            self.slice(&starts, &limits, &vec![1; d.len()])
        })
    }

    /// This with `low[i]` elements of `value` before and `high[i]` after each axis `i`. Each list has an entry for each
    /// axis.
    #[track_caller]
    pub fn pad(self, low: &[usize], high: &[usize], value: f64) -> Var<'g> {
        self.g.emit1(
            Op::PAD,
            &[self],
            &PadAttrs { low: size_attrs_to_i64(low), high: size_attrs_to_i64(high), value }.list(),
        )
    }

    /// The elements in reverse order along `axes`: one, several, or `..` for all.
    #[track_caller]
    pub fn flip(self, axes: impl Axes) -> Var<'g> {
        match self.axes_for_op(Op::FLIP, axes) {
            Some(axes) => self.g.emit1(Op::FLIP, &[self], &FlipAttrs { axes }.list()),
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// This and `rest`, joined along `axis`. All must have the same type, and the same shape except along `axis`.
    #[track_caller]
    pub fn concat(self, rest: &[Var<'g>], axis: i64) -> Var<'g> {
        self.on_axis(Op::CONCAT, axis, |axis| {
            let all: Vec<_> = [&[self], rest].concat();
            self.g.emit1(Op::CONCAT, &all, &ConcatAttrs { axis }.list())
        })
    }

    /// The elements moved by `shift` positions along `axis`. Those that leave at one end come in at the other.
    #[track_caller]
    pub fn roll(self, shift: i64, axis: i64) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        let Some(n) = self.axis_len(axis) else {
            return self.g.fail(Kind::Shape, format!("roll({self:?}): axis {axis} is outside rank {}", self.rank()));
        };
        if n == 0 {
            return self;
        }
        let cut = n - shift.rem_euclid(n as i64) as usize;
        if cut == n {
            return self;
        }
        self.narrow(axis, cut, n - cut).concat(&[self.narrow(axis, 0, cut)], axis)
    }

    /// The tensor repeated `times[i]` times along each axis `i`, as in `torch.tile`. `times` has an entry for each
    /// axis.
    #[track_caller]
    pub fn tile(self, times: &[usize]) -> Var<'g> {
        let d = self.dims();
        if !self.is_some() {
            return self;
        }
        if times.len() != d.len() {
            return self.g.fail(Kind::Shape, format!("tile({self:?}): {} counts for rank {}", times.len(), d.len()));
        }
        let mut y = self;
        for (axis, &t) in times.iter().enumerate().filter(|(_, t)| **t != 1) {
            // One axis at a time: all at once would double the rank.
            let now = y.dims();
            let AxisSplit { outer, n, inner } = split_at_axis(&now, axis);
            let mut all = now.to_vec();
            all[axis] = n.saturating_mul(t);
            y = y.reshape([outer, 1, n * inner]).broadcast([outer, t, n * inner]).reshape(all);
            if !y.is_some() {
                return y;
            }
        }
        y
    }

    /// This with `low[i]` elements before and `high[i]` after each axis `i`, which continue the tensor as `mode` says.
    /// At each end of an axis of n elements, reflection can add at most n − 1 elements and circular padding at most n.
    /// More is an error.
    #[track_caller]
    pub fn pad_with(self, low: &[usize], high: &[usize], mode: PadMode) -> Var<'g> {
        let d = self.dims();
        if !self.is_some() {
            return self;
        }
        if low.len() != d.len() || high.len() != d.len() {
            let text = format!("pad({self:?}): {} and {} widths for rank {}", low.len(), high.len(), d.len());
            return self.g.fail(Kind::Shape, text);
        }
        let mut y = self;
        for (axis, &n) in d.iter().enumerate() {
            let (a, b) = (low[axis], high[axis]);
            if !mode.can_pad(n, [a, b]) {
                let most = mode.most_padding(n);
                let text =
                    format!("pad({self:?}): {a} and {b} elements beyond axis {axis} of {n}, {mode:?} gives {most}");
                return self.g.fail(Kind::Shape, text);
            }
            if a + b > 0 {
                let from: Vec<u8> = (-(a as i64)..(n + b) as i64)
                    .flat_map(|i| (mode.source_position(i, n as i64) as i32).to_le_bytes())
                    .collect();
                let from = self.g.constant_bytes(&from, [a + n + b], DType::I32);
                y = y.gather(from, axis as i64);
            }
        }
        y
    }

    /// This and `rest`, side by side along a new axis, as in `torch.stack`. All have one type and one shape. `axis` is
    /// the position of the new axis in the result; a negative one counts from the end of the result.
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
            let parts: Vec<_> = rest.iter().map(|x| x.unsqueeze(size_attr_to_i64(at))).collect();
            self.unsqueeze(size_attr_to_i64(at)).concat(&parts, size_attr_to_i64(at))
        })
    }

    /// Consecutive parts along `axis` with these sizes, as in `torch.split`. The sizes must sum to the length of the
    /// axis. After an error there are still as many parts as `sizes`.
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
                self.narrow(size_attr_to_i64(at), from - size, size)
            };
            sizes.iter().map(part).collect()
        })
    }

    /// At most `parts` consecutive parts along `axis`, as in `torch.chunk`: each of ⌈n / parts⌉ elements of an axis of
    /// n, but for the last, which may be shorter. There are fewer parts if fewer suffice. `parts` is at least 1.
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
            self.split(&sizes, size_attr_to_i64(at))
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

    /// This tensor with a new axis of length 1, which is axis `axis` of the result, as in `torch.unsqueeze`. A negative
    /// axis counts from the end of the result.
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

    /// Axes `first` to `last`, both included, joined into one, as in `torch.flatten`. A scalar becomes `[1]`.
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

    /// `axis` divided into axes of these sizes, as in `torch.unflatten`. One size may be `usize::MAX`: it is computed.
    /// The product of the sizes must be the length of the axis.
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

    /// Axes `from[i]` moved to the positions `to[i]`, the others in their order, as in `torch.movedim`.
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

    /// Each element `times` times in a row along `axis`, as in `torch.repeat_interleave` with a number.
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

/// The one dimension of `dims` that is `usize::MAX`, so that there are `numel` elements.
fn computed_layout_dim(numel: usize, dims: &[usize]) -> Result<usize, String> {
    let known = dims.iter().filter(|&&d| d != usize::MAX);
    if known.clone().count() + 1 != dims.len() {
        return Err("only one dimension can be computed".into());
    }
    match known.copied().try_fold(1usize, usize::checked_mul) {
        Some(0) => Err("beside a dimension of 0, the computed one is ambiguous".into()),
        Some(n) if numel.is_multiple_of(n) => Ok(numel / n),
        _ => Err(format!("no dimension makes {numel} elements")),
    }
}

/// The most parts of an empty axis, and the most that an error leaves.
const MOST_PARTS: usize = 1 << 16;
