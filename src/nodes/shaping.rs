//! Methods of [`Var`] that move, join, index and reduce: shapes in, shapes out.

use super::attrs::Attr;
use super::builder::Var;
use super::dtype::DType;
use super::infer::show;
use super::math::broadcast_dims;
use super::opdef::Op;
use super::ops::slide::wide;
use crate::arena::intern::Dims;
use crate::error::Kind;

/// Axes as a caller writes them: one, several, or `..` for all; negative ones count from the end.
pub trait Axes {
    /// The axes of a shape of rank `rank`, in 0..rank (or the first that is outside it).
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64>;
}

fn resolve_one(a: i64, rank: usize) -> Result<i64, i64> {
    let plain = if a < 0 { a + rank as i64 } else { a };
    if (0..rank as i64).contains(&plain) { Ok(plain) } else { Err(a) }
}

impl Axes for i64 {
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64> {
        Ok(vec![resolve_one(*self, rank)?])
    }
}

impl<const N: usize> Axes for [i64; N] {
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64> {
        self.as_slice().resolve(rank)
    }
}

impl Axes for [i64] {
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64> {
        self.iter().map(|&a| resolve_one(a, rank)).collect()
    }
}

impl Axes for &[i64] {
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64> {
        (**self).resolve(rank)
    }
}

impl Axes for std::ops::RangeFull {
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64> {
        Ok((0..rank as i64).collect())
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl<'g> Var<'g> {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(self, axes: impl Axes) -> Var<'g> {
                self.reduce(Op::$op, axes, false)
            })*
        }
    };
}

reductions! {
    /// Sum over `axes`, which disappear.
    sum => REDUCE_SUM;
    /// Mean over `axes`, which disappear.
    mean => REDUCE_MEAN;
    /// Maximum over `axes`, which disappear.
    amax => REDUCE_MAX;
    /// Minimum over `axes`, which disappear.
    amin => REDUCE_MIN;
    /// Product over `axes`, which disappear.
    prod => REDUCE_PROD;
    /// ln Σ eˣ over `axes`, which disappear.
    logsumexp => LOGSUMEXP;
}

impl<'g> Var<'g> {
    #[track_caller]
    fn axes(self, op: Op, axes: impl Axes) -> Option<Vec<i64>> {
        match axes.resolve(self.rank()) {
            Ok(a) => Some(a),
            Err(bad) => {
                let name = self.g.op_name(op);
                self.g.fail(Kind::Shape, format!("{name}({:?}): axis {bad} is outside rank {}", self, self.rank()));
                None
            }
        }
    }

    #[track_caller]
    fn on_axis(self, op: Op, axis: i64, f: impl FnOnce(i64) -> Var<'g>) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        match self.axes(op, axis) {
            Some(a) => self.g.held(|| f(a[0])),
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// A reduction over `axes`; with `keep`, they stay with size 1.
    #[track_caller]
    pub fn reduce(self, op: Op, axes: impl Axes, keep: bool) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        match self.axes(op, axes) {
            Some(mut a) => {
                a.sort_unstable();
                self.g.emit1(op, &[self], &[Attr::Ints(&a), Attr::Bool(keep)])
            }
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// Variance over `axes` with the divisor n − `correction` (0: biased; 1: as `torch.var`).
    #[track_caller]
    pub fn var(self, axes: impl Axes, correction: i64, keep: bool) -> Var<'g> {
        match self.axes(Op::VAR, axes) {
            Some(mut a) => {
                a.sort_unstable();
                self.g.emit1(Op::VAR, &[self], &[Attr::Ints(&a), Attr::Bool(keep), Attr::Int(correction)])
            }
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// Index of the first largest element along `axis`, which disappears.
    #[track_caller]
    pub fn arg_max(self, axis: i64, dtype: DType) -> Var<'g> {
        self.on_axis(Op::ARG_MAX, axis, |a| self.g.emit1(Op::ARG_MAX, &[self], &[Attr::Int(a), Attr::DType(dtype)]))
    }

    /// Index of the first smallest element along `axis`, which disappears.
    #[track_caller]
    pub fn arg_min(self, axis: i64, dtype: DType) -> Var<'g> {
        self.on_axis(Op::ARG_MIN, axis, |a| self.g.emit1(Op::ARG_MIN, &[self], &[Attr::Int(a), Attr::DType(dtype)]))
    }

    /// eˣ / Σ eˣ along `axis`.
    #[track_caller]
    pub fn softmax(self, axis: i64) -> Var<'g> {
        self.on_axis(Op::SOFTMAX, axis, |a| self.g.emit1(Op::SOFTMAX, &[self], &[Attr::Int(a)]))
    }

    /// x − ln Σ eˣ along `axis`.
    #[track_caller]
    pub fn log_softmax(self, axis: i64) -> Var<'g> {
        self.on_axis(Op::LOG_SOFTMAX, axis, |a| self.g.emit1(Op::LOG_SOFTMAX, &[self], &[Attr::Int(a)]))
    }

    /// Running sum along `axis`: `exclusive` leaves the element itself out, `reverse` runs from the end.
    #[track_caller]
    pub fn cumsum(self, axis: i64, exclusive: bool, reverse: bool) -> Var<'g> {
        self.on_axis(Op::CUMSUM, axis, |a| {
            self.g.emit1(Op::CUMSUM, &[self], &[Attr::Int(a), Attr::Bool(exclusive), Attr::Bool(reverse)])
        })
    }

    /// The same elements in another shape. One dimension may be `usize::MAX`: it is computed, which beside a dimension
    /// of 0 is an error, as in torch.
    #[track_caller]
    pub fn reshape(self, dims: impl AsRef<[usize]>) -> Var<'g> {
        let mut dims = dims.as_ref().to_vec();
        if !self.is_some() {
            return self;
        }
        if let Some(hole) = dims.iter().position(|&d| d == usize::MAX) {
            match computed(self.numel(), &dims) {
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
            Some(s) => self.g.emit1(Op::RESHAPE, &[self], &[Attr::Shape(s)]),
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// This value, marked as a boundary of blocks: where a [memory budget](crate::session::Session::memory_budget) calls
    /// for it, what lies between two boundaries is computed again for the gradients instead of being kept. Without a
    /// budget nothing changes.
    #[track_caller]
    pub fn checkpoint(self) -> Var<'g> {
        self.g.emit1(Op::CHECKPOINT, &[self], &[])
    }

    /// Axis `i` of the result is axis `perm[i]` of this.
    #[track_caller]
    pub fn transpose(self, perm: &[usize]) -> Var<'g> {
        self.g.emit1(Op::TRANSPOSE, &[self], &[Attr::Ints(&wide(perm))])
    }

    /// The last two axes exchanged.
    #[track_caller]
    pub fn t(self) -> Var<'g> {
        let r = self.rank();
        if r < 2 {
            return self.g.fail(Kind::Shape, format!("t({self:?}): rank 2 or more is needed"));
        }
        let mut perm: Vec<usize> = (0..r).collect();
        perm.swap(r - 2, r - 1);
        self.transpose(&perm)
    }

    /// Repeats size-1 and missing leading dimensions up to `dims`.
    #[track_caller]
    pub fn broadcast(self, dims: impl AsRef<[usize]>) -> Var<'g> {
        if !self.is_some() || *self.dims() == *dims.as_ref() {
            return self;
        }
        match self.g.shape(dims.as_ref()) {
            Some(s) => self.g.emit1(Op::BROADCAST, &[self], &[Attr::Shape(s)]),
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// Sums over what broadcasting would repeat, down to `dims`: the transpose of [`Var::broadcast`]. It is an error if
    /// `dims` do not broadcast to this shape.
    #[track_caller]
    pub fn unbroadcast(self, dims: &[usize]) -> Var<'g> {
        let from = self.dims();
        if *from == *dims || !self.is_some() {
            return self;
        }
        if broadcast_dims(dims, &from) != Some(from) {
            let text = format!("unbroadcast({self:?}): {} does not broadcast to {from}", show(dims));
            return self.g.fail(Kind::Shape, text);
        }
        let lead = from.len() - dims.len();
        let axes: Vec<i64> =
            (0..from.len()).filter(|&i| i < lead || (dims[i - lead] == 1 && from[i] != 1)).map(|i| i as i64).collect();
        let summed = if axes.is_empty() { self } else { self.reduce(Op::REDUCE_SUM, axes.as_slice(), false) };
        summed.reshape(dims)
    }

    /// Elements `starts[i]..limits[i]` in steps of `steps[i]` along each axis. A step behind which nothing is taken is
    /// the same as 1.
    #[track_caller]
    pub fn slice(self, starts: &[usize], limits: &[usize], steps: &[usize]) -> Var<'g> {
        let (s, mut l, mut p) = (wide(starts), wide(limits), wide(steps));
        for (i, &size) in self.dims().iter().enumerate().take(s.len().min(l.len()).min(p.len())) {
            let reach = l[i] - s[i];
            if l[i] as usize <= size && p[i] > 1 && (0..=p[i]).contains(&reach) {
                (l[i], p[i]) = (s[i] + reach.min(1), 1);
            }
        }
        self.g.emit1(Op::SLICE, &[self], &[Attr::Ints(&s), Attr::Ints(&l), Attr::Ints(&p)])
    }

    /// Elements `start..start + len` along `axis`.
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

    /// Adds `low[i]` elements of `value` before and `high[i]` after axis `i`.
    #[track_caller]
    pub fn pad(self, low: &[usize], high: &[usize], value: f64) -> Var<'g> {
        self.g.emit1(Op::PAD, &[self], &[Attr::Ints(&wide(low)), Attr::Ints(&wide(high)), Attr::F64(value)])
    }

    /// The elements in reverse order along `axes`.
    #[track_caller]
    pub fn flip(self, axes: impl Axes) -> Var<'g> {
        match self.axes(Op::FLIP, axes) {
            Some(a) => self.g.emit1(Op::FLIP, &[self], &[Attr::Ints(&a)]),
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// This and `rest`, one after another along `axis`.
    #[track_caller]
    pub fn concat(self, rest: &[Var<'g>], axis: i64) -> Var<'g> {
        self.on_axis(Op::CONCAT, axis, |a| {
            let all: Vec<_> = [&[self], rest].concat();
            self.g.emit1(Op::CONCAT, &all, &[Attr::Int(a)])
        })
    }

    /// Slices at `indices` along `axis`: shape `[..axis] ++ indices ++ [axis + 1..]`.
    #[track_caller]
    pub fn gather(self, indices: Var<'g>, axis: i64) -> Var<'g> {
        self.on_axis(Op::GATHER, axis, |a| self.g.emit1(Op::GATHER, &[self, indices], &[Attr::Int(a)]))
    }

    /// Element `indices[.., i, ..]` along `axis` at each place of `indices`.
    #[track_caller]
    pub fn take_along_axis(self, indices: Var<'g>, axis: i64) -> Var<'g> {
        self.on_axis(Op::TAKE_ALONG_AXIS, axis, |a| {
            self.g.emit1(Op::TAKE_ALONG_AXIS, &[self, indices], &[Attr::Int(a)])
        })
    }

    /// Adds the slices of this (updates) at `indices` along `axis` of a zero tensor with `size` there: the transpose
    /// of [`Var::gather`].
    #[track_caller]
    pub fn scatter_add(self, indices: Var<'g>, axis: usize, size: usize) -> Var<'g> {
        self.g.emit1(Op::SCATTER_ADD, &[self, indices], &[Attr::Int(axis as i64), Attr::Int(size as i64)])
    }

    /// 1 at the index along a new last axis of `depth`, 0 elsewhere.
    #[track_caller]
    pub fn one_hot(self, depth: usize, dtype: DType) -> Var<'g> {
        self.g.emit1(Op::ONE_HOT, &[self], &[Attr::Int(depth as i64), Attr::DType(dtype)])
    }

    /// Matrix product of the last two axes; leading axes broadcast.
    #[track_caller]
    pub fn matmul(self, b: Var<'g>) -> Var<'g> {
        self.matmul_t(b, false, false)
    }

    /// Matrix product with either operand's last two axes exchanged first.
    #[track_caller]
    pub fn matmul_t(self, b: Var<'g>, ta: bool, tb: bool) -> Var<'g> {
        self.g.emit1(Op::MATMUL, &[self, b], &[Attr::Bool(ta), Attr::Bool(tb)])
    }

    /// XLA's general product: batch axes, then free axes of this, then free axes of `b`.
    #[track_caller]
    pub fn dot_general(self, b: Var<'g>, batch: [&[usize]; 2], contract: [&[usize]; 2]) -> Var<'g> {
        let lists = [wide(batch[0]), wide(batch[1]), wide(contract[0]), wide(contract[1])];
        self.g.emit1(Op::DOT_GENERAL, &[self, b], &lists.each_ref().map(|l| Attr::Ints(l)))
    }

    /// Zeroes each element with probability `p` and scales the rest by 1/(1 − p). The mask follows from the seed, the
    /// step and this call alone.
    #[track_caller]
    pub fn dropout(self, p: f64) -> Var<'g> {
        let (key, stream) = (self.g.rng(), self.g.fresh_stream());
        self.g.emit1(Op::DROPOUT, &[self, key], &[Attr::F64(p), Attr::Int(stream)])
    }
}

/// The one dimension of `dims` that is `usize::MAX`, so that there are `numel` elements.
fn computed(numel: usize, dims: &[usize]) -> Result<usize, String> {
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

/// Dimensions with those at `axes` removed, or set to 1.
pub fn without(dims: &[usize], axes: &[usize], keep: bool) -> Vec<usize> {
    let kept = dims.iter().enumerate().filter_map(|(i, &d)| match axes.contains(&i) {
        true => keep.then_some(1),
        false => Some(d),
    });
    kept.collect()
}

/// `[outer, n, inner]` around `axis`.
pub fn around(dims: &Dims, axis: usize) -> (usize, usize, usize) {
    (dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product())
}
