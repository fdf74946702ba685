//! Reads and writes at indices, and counts, as methods of [`Var`]. Indices are `i32` or `i64`; each is checked when the
//! step runs, and one outside of its axis is an error of the step.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::arguments::axes::axis_from_front;
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::complex::forms::{complex_form_by_pairs, complex_form_by_parts};
use crate::nodes::ops::index::attrs::{
    GatherAttrs, HistogramAttrs, OneHotAttrs, RavelIndexAttrs, Scatter, ScatterAddAttrs, ScatterAttrs,
};

impl<'g> Var<'g> {
    /// This tensor with `updates[.., i, ..]` written at `indices[.., i, ..]` along `axis`: the counterpart of
    /// [`Var::take_along_axis`], as in `torch.scatter` and `torch.scatter_reduce` (with `include_self`). `mode` says
    /// how an update combines with the old element. Indices and updates have one shape; it may differ from this
    /// tensor's along `axis` only.
    ///
    /// Gradients go to this tensor and to the updates. If several updates set one element, the last gets the gradient.
    /// Tied maxima or minima share it evenly.
    #[track_caller]
    pub fn scatter(self, indices: Var<'g>, updates: Var<'g>, axis: i64, mode: Scatter) -> Var<'g> {
        self.scatter_along("scatter", [updates, indices], axis, mode, true)
    }

    /// This tensor with slices of `updates` written at `indices` along `axis`, combined as `mode` says; as in
    /// `torch.index_copy`, `index_add` and `index_reduce`. It is the counterpart of [`Var::gather`], whose result has
    /// the shape of the updates. Gradients are those of [`Var::scatter`].
    #[track_caller]
    pub fn scatter_slices(self, indices: Var<'g>, updates: Var<'g>, axis: i64, mode: Scatter) -> Var<'g> {
        self.scatter_along("scatter_slices", [updates, indices], axis, mode, false)
    }

    /// These updates added into zeros by `op`: `SCATTER_ADD` or `SCATTER_ALONG_AXIS`.
    #[track_caller]
    pub(super) fn scatter_into_zeros(self, op: Op, indices: Var<'g>, attrs: &ScatterAddAttrs) -> Var<'g> {
        let real = |x: Var<'g>| x.g.emit1(op, &[x, indices], &attrs.list());
        match complex_form_by_parts(self, real) {
            Some(y) => y,
            None => self.g.emit1(op, &[self, indices], &attrs.list()),
        }
    }

    /// `SCATTER` of `updates` into this.
    #[track_caller]
    pub(super) fn scattered(self, updates: Var<'g>, indices: Var<'g>, attrs: &ScatterAttrs) -> Var<'g> {
        let real = |x: Var<'g>, u: Var<'g>| x.g.emit1(Op::SCATTER, &[x, u, indices], &attrs.list());
        let sums =
            if attrs.mode == Scatter::Add { complex_form_by_pairs(Op::SCATTER, self, updates, real) } else { None };
        match sums {
            Some(y) => y,
            None => self.g.emit1(Op::SCATTER, &[self, updates, indices], &attrs.list()),
        }
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
        self.scattered(updates, indices, &ScatterAttrs { axis: at, mode, own })
    }

    /// Slices at coordinates. `indices` has shape `[.., m]`: its last axis holds coordinates along the first m axes of
    /// this. The result has shape `[..]`, then the other axes of this.
    #[track_caller]
    pub fn gather_nd(self, indices: Var<'g>) -> Var<'g> {
        match self.ravel_coordinates("gather_nd", indices) {
            Some((m, rows, at)) => {
                let (d, lead) = (self.dims(), at.dims());
                let inner: usize = d[m..].iter().product();
                self.reshape([rows, inner]).gather(at, 0).reshape([&lead[..], &d[m..]].concat())
            }
            None => self.g.var(Value::NONE),
        }
    }

    /// This tensor with slices of `updates` written at coordinates, combined as `mode` says: the counterpart of
    /// [`Var::gather_nd`], whose result has the shape of the updates.
    #[track_caller]
    pub fn scatter_nd(self, indices: Var<'g>, updates: Var<'g>, mode: Scatter) -> Var<'g> {
        let Some((m, rows, at)) = self.ravel_coordinates("scatter_nd", indices) else {
            return self.g.var(Value::NONE);
        };
        let (d, lead) = (self.dims(), at.dims());
        let (want, got) = ([&lead[..], &d[m..]].concat(), updates.dims());
        if updates.is_some() && *got != *want {
            let want = crate::nodes::ir::infer::Infer::show_dims(&want);
            return self.g.fail(Kind::Shape, format!("scatter_nd: updates have shape {got}; {want} is needed"));
        }
        let inner: usize = d[m..].iter().product();
        let (base, updates) = (self.reshape([rows, inner]), updates.reshape([lead.numel(), inner]));
        let attrs = ScatterAttrs { axis: 0, mode, own: false };
        let flat = at.reshape([lead.numel()]);
        base.scattered(updates, flat, &attrs).reshape(d)
    }

    /// The number of leading axes that `indices` count along, the number of their elements, and the coordinates as one
    /// number each.
    #[track_caller]
    fn ravel_coordinates(self, name: &str, indices: Var<'g>) -> Option<(usize, usize, Var<'g>)> {
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
        let at =
            self.g.emit1(Op::RAVEL_INDEX, &[indices], &RavelIndexAttrs { sizes: size_attrs_to_i64(&d[..m]) }.list());
        at.is_some().then(|| (m, d[..m].iter().product(), at))
    }

    /// The rows `indices` of this table `[rows, ..]`, as in `torch.nn.functional.embedding`: shape `indices ++ [..]`.
    /// Row `padding` gets no gradient. A `padding` that is no row of the table is an error.
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

    /// The number of elements in each of `bins` equal parts of `min..=max`, `[bins]`, in the type of this, as in
    /// `torch.histc`. If `min` and `max` are equal, the least and the largest element take their place. Elements
    /// outside are not counted. The derivative is 0. A range that is not finite, or whose `min` is above `max`, is an
    /// error; so is one whose ends or width are not distinct finite numbers of this type.
    #[track_caller]
    pub fn histogram(self, bins: usize, min: f64, max: f64) -> Var<'g> {
        // All nodes get the caller's location.
        self.g.with_caller(|| {
            if !self.is_some() {
                return self;
            }
            let held = |x: f64| if self.dtype() == DType::F32 { f64::from(x as f32) } else { x };
            let lost = min < max && held(min) == held(max);
            let ordered = min.partial_cmp(&max).is_some_and(std::cmp::Ordering::is_le);
            if !ordered || lost || !held(held(max) - held(min)).is_finite() {
                let text = format!("histogram({self:?}): the range {min} to {max} is none of {}", self.dtype());
                return self.g.fail(Kind::Shape, text);
            }
            let flat = self.reshape([self.numel()]);
            let full = |x| self.g.full(x, [], self.dtype());
            let (low, high) = match (min < max, self.numel()) {
                (true, _) => (full(min), full(max)),
                // There is nothing to count.
                (false, 0) => (full(0.0), full(1.0)),
                (false, _) => (flat.amin(0), flat.amax(0)),
            };
            let bins = size_attr_to_i64(bins);
            self.g.emit1(Op::HISTOGRAM, &[flat, low, high], &HistogramAttrs { bins }.list())
        })
    }

    /// How often each of 0 … n − 1 occurs among these integers (`i32` or `i64`), as `i64[n]`. Another integer is an
    /// error when the step runs.
    #[track_caller]
    pub fn bin_count(self, n: usize) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        let flat = self.reshape([self.numel()]);
        self.g.full(1.0, flat.dims(), DType::I64).scatter_add(flat, 0, n)
    }

    /// The slices at positions `indices`, `i32` or `i64`, along `axis`. The result has the shape of this, with the
    /// shape of `indices` in the place of `axis`. Elements may have any type. An index outside of the axis is an error
    /// when the step runs.
    #[track_caller]
    pub fn gather(self, indices: Var<'g>, axis: i64) -> Var<'g> {
        self.on_axis(Op::GATHER, axis, |axis| self.g.emit1(Op::GATHER, &[self, indices], &GatherAttrs { axis }.list()))
    }

    /// Element `indices[.., i, ..]` along `axis`, in the shape of `indices`, as in `torch.take_along_dim`. The shape of
    /// the indices may differ from this tensor's along `axis` only.
    #[track_caller]
    pub fn take_along_axis(self, indices: Var<'g>, axis: i64) -> Var<'g> {
        self.on_axis(Op::TAKE_ALONG_AXIS, axis, |axis| {
            self.g.emit1(Op::TAKE_ALONG_AXIS, &[self, indices], &GatherAttrs { axis }.list())
        })
    }

    /// Slices of this (the updates) added at `indices` along `axis` of a tensor of zeros: the transpose of
    /// [`Var::gather`]. `axis` is an axis of the result and has length `size`; this has shape `[..axis] ++ indices ++
    /// [axis + 1..]`. The type is `f32`, `f64`, `i32` or `i64`.
    #[track_caller]
    pub fn scatter_add(self, indices: Var<'g>, axis: i64, size: usize) -> Var<'g> {
        let rank = (self.rank() + 1).saturating_sub(indices.rank());
        let attrs = ScatterAddAttrs { axis: axis_from_front(axis, rank), size: size_attr_to_i64(size) };
        self.scatter_into_zeros(Op::SCATTER_ADD, indices, &attrs)
    }

    /// 1 at the index along a new last axis of length `depth`, 0 elsewhere, as `dtype`. An index outside of it gives
    /// zeros.
    #[track_caller]
    pub fn one_hot(self, depth: usize, dtype: DType) -> Var<'g> {
        self.g.emit1(Op::ONE_HOT, &[self], &OneHotAttrs { depth: size_attr_to_i64(depth), dtype }.list())
    }
}
