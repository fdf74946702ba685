//! Methods of [`Var`] that put elements where indices say, and count where elements fall. Indices are i32 or i64, and
//! every one is checked when the step runs.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::index::scatter::Scatter;

impl<'g> Var<'g> {
    /// This tensor with `updates[.., i, ..]` joined at place `indices[.., i, ..]` along `axis`: the counterpart of
    /// [`Var::take_along_axis`], as `torch.scatter` and `torch.scatter_reduce` (with `include_self`). Indices and updates
    /// have one shape, which is this one's beside `axis`.
    ///
    /// Gradients go to this and to the updates: of several updates that set one element, to the last; where maxima or
    /// minima tie, evenly.
    #[track_caller]
    pub fn scatter(self, indices: Var<'g>, updates: Var<'g>, axis: i64, mode: Scatter) -> Var<'g> {
        self.scatter_along("scatter", [updates, indices], axis, mode, true)
    }

    /// This tensor with slices of `updates` joined at the places `indices` along `axis`: the counterpart of
    /// [`Var::gather`], whose result has the shape of the updates (`torch.index_copy`, `index_add`, `index_reduce`).
    #[track_caller]
    pub fn scatter_slices(self, indices: Var<'g>, updates: Var<'g>, axis: i64, mode: Scatter) -> Var<'g> {
        self.scatter_along("scatter_slices", [updates, indices], axis, mode, false)
    }

    #[track_caller]
    fn scatter_along(
        self,
        name: &str,
        [updates, indices]: [Var<'g>; 2],
        axis: i64,
        mode: Scatter,
        own: bool,
    ) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        let rank = self.rank() as i64;
        let at = if axis < 0 { axis.saturating_add(rank) } else { axis };
        if !(0..rank).contains(&at) {
            return self.g.fail(Kind::Shape, format!("{name}({self:?}): axis {axis} is outside rank {rank}"));
        }
        let attrs = [Attr::Int(at), Attr::Choice(mode as u32), Attr::Bool(own)];
        self.g.emit1(Op::SCATTER, &[self, updates, indices], &attrs)
    }

    /// Slices at coordinates: `indices` `[.., m]` names places along the first m axes, and the result has shape `[..]`
    /// and then the axes after those.
    #[track_caller]
    pub fn gather_nd(self, indices: Var<'g>) -> Var<'g> {
        match self.places("gather_nd", indices) {
            Some((rows, at)) => {
                let (d, lead, m) = (self.dims(), at.dims(), indices.dims().last().copied().unwrap_or(0));
                let inner: usize = d[m..].iter().product();
                self.reshape([rows, inner]).gather(at, 0).reshape([&lead[..], &d[m..]].concat())
            }
            None => self.g.var(Value::NONE),
        }
    }

    /// This tensor with slices of `updates` joined at coordinates: the counterpart of [`Var::gather_nd`], whose result
    /// has the shape of the updates.
    #[track_caller]
    pub fn scatter_nd(self, indices: Var<'g>, updates: Var<'g>, mode: Scatter) -> Var<'g> {
        let Some((rows, at)) = self.places("scatter_nd", indices) else { return self.g.var(Value::NONE) };
        let (d, lead, m) = (self.dims(), at.dims(), indices.dims().last().copied().unwrap_or(0));
        let (want, got) = ([&lead[..], &d[m..]].concat(), updates.dims());
        if updates.is_some() && *got != *want {
            let want = crate::nodes::ir::infer::show(&want);
            return self.g.fail(Kind::Shape, format!("scatter_nd: updates have shape {got}; {want} is needed"));
        }
        let inner: usize = d[m..].iter().product();
        let (base, updates) = (self.reshape([rows, inner]), updates.reshape([lead.numel(), inner]));
        let attrs = [Attr::Int(0), Attr::Choice(mode as u32), Attr::Bool(false)];
        let flat = at.reshape([lead.numel()]);
        self.g.emit1(Op::SCATTER, &[base, updates, flat], &attrs).reshape(d)
    }

    /// The number of places along the leading axes that `indices` has coordinates for, and the places that it names.
    #[track_caller]
    fn places(self, name: &str, indices: Var<'g>) -> Option<(usize, Var<'g>)> {
        if !self.g.owns(name, &[indices]) || !self.is_some() || !indices.is_some() {
            return None;
        }
        let (d, idx) = (self.dims(), indices.dims());
        let m = idx.last().copied().filter(|&m| m <= d.len());
        let Some(m) = m else {
            let text = format!("{name}({self:?}): indices of shape {idx} have no coordinates for rank {}", d.len());
            self.g.fail(Kind::Shape, text);
            return None;
        };
        let sizes: Vec<i64> = d[..m].iter().map(|&n| n as i64).collect();
        let at = self.g.emit1(Op::RAVEL_INDEX, &[indices], &[Attr::Ints(&sizes)]);
        at.is_some().then(|| (d[..m].iter().product(), at))
    }

    /// The rows `indices` of this table (axis 0), as `torch.nn.functional.embedding`: row `padding` gets no gradient.
    #[track_caller]
    pub fn embedding(self, indices: Var<'g>, padding: Option<usize>) -> Var<'g> {
        let y = self.gather(indices, 0);
        let (Some(row), true) = (padding, y.is_some()) else { return y };
        let (d, idx) = (self.dims(), indices.dims());
        if row >= d[0] {
            let text = format!("embedding({self:?}): the padding row is {row}, and there are {}", d[0]);
            return self.g.fail(Kind::Shape, text);
        }
        let column = [&idx[..], &vec![1; d.len() - 1]].concat();
        let hidden = indices.equal(row as f64).reshape(column).broadcast(y.dims());
        hidden.select(y.stop_gradient(), y)
    }

    /// How many elements fall into each of `bins` equal parts of `min..=max`, in this one's type, as `torch.histc`: the
    /// least and the largest element stand for `min` and `max` if those are equal, other elements count for nothing.
    /// It has no gradient.
    #[track_caller]
    pub fn histogram(self, bins: usize, min: f64, max: f64) -> Var<'g> {
        // All nodes come from the line that asks for it.
        self.g.with_caller(|| {
            if !self.is_some() {
                return self;
            }
            if min.partial_cmp(&max).is_none_or(std::cmp::Ordering::is_gt) || !(max - min).is_finite() {
                return self.g.fail(Kind::Shape, format!("histogram({self:?}): the range {min} to {max} is none"));
            }
            let flat = self.reshape([self.numel()]);
            let full = |x| self.g.full(x, [], self.dtype());
            let (low, high) = match (min < max, self.numel()) {
                (true, _) => (full(min), full(max)),
                // Nothing falls anywhere.
                (false, 0) => (full(0.0), full(1.0)),
                (false, _) => (flat.amin(0), flat.amax(0)),
            };
            let bins = i64::try_from(bins).unwrap_or(-1);
            self.g.emit1(Op::HISTOGRAM, &[flat, low, high], &[Attr::Int(bins)])
        })
    }

    /// How often each of 0 … n − 1 stands among these integers, as i64; another integer is an error when the step runs.
    #[track_caller]
    pub fn bin_count(self, n: usize) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        let flat = self.reshape([self.numel()]);
        self.g.full(1.0, flat.dims(), DType::I64).scatter_add(flat, 0, n)
    }
}

impl<'g> Var<'g> {
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
}
