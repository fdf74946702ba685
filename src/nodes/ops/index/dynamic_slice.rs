//! Slices at positions that the graph computes, as methods of [`Var`].

use crate::nodes::arguments::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::index::attrs::{RavelIndexAttrs, Scatter};

impl<'g> Var<'g> {
    /// `sizes[i]` elements from `starts[i]` on along each axis i, as `jax.lax.dynamic_slice`, except for starts out of
    /// range. Each start is an `i64[]` value, known when the step runs. A start outside of 0..=n − size of an axis of n
    /// is an error of the step that names the axis (as the element of the index operand), the start and the bound.
    /// Gradients go to this tensor.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("window");
    /// let (x, at) = (g.input("x", [10, 3], DType::F32), g.input("at", [], DType::I64));
    /// let y = x.dynamic_slice(&[at, g.full(0.0, [], DType::I64)], &[2, 3]); // rows at and at + 1
    /// let mut p = Session::new().compile(&g.finish([y.named("y")])?)?;
    /// p.values_mut::<f32>("x")?.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
    /// p.values_mut::<i64>("at")?[0] = 4;
    /// p.step()?;
    /// assert_eq!(p.values::<f32>("y")?, [12.0, 13.0, 14.0, 15.0, 16.0, 17.0]);
    /// p.values_mut::<i64>("at")?[0] = 9; // rows 9 and 10: "… element 0 of the index operand is 9; it must be in 0..9"
    /// assert!(p.step().is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn dynamic_slice(self, starts: &[Var<'g>], sizes: &[usize]) -> Var<'g> {
        self.g.with_caller(|| {
            let Some(starts) = self.checked_starts("dynamic_slice", starts, sizes) else { return self.none() };
            let moving = self.dynamic_index_axes(sizes);
            moving
                .iter()
                .fold(self, |x, &a| x.gather(dynamic_index_positions(starts[a], sizes[a]), size_attr_to_i64(a)))
        })
    }

    /// This with `update` written at `starts`, one `i64[]` value for each axis, as `jax.lax.dynamic_update_slice`,
    /// except for starts out of range: see [`Var::dynamic_slice`]. `update` has the type and the rank of this.
    /// Gradients go to this tensor, where it is not overwritten, and to the update.
    #[track_caller]
    pub fn dynamic_update_slice(self, update: Var<'g>, starts: &[Var<'g>]) -> Var<'g> {
        self.g.with_caller(|| {
            if !self.g.owns("dynamic_update_slice", &[update]) || !self.is_some() || !update.is_some() {
                return self.none();
            }
            let sizes = update.dims();
            if sizes.len() != self.rank() || update.dtype() != self.dtype() {
                let why = format!("an update of {}{sizes} does not fit", update.dtype());
                return self.refuse("dynamic_update_slice", why);
            }
            let Some(starts) = self.checked_starts("dynamic_update_slice", starts, &sizes) else { return self.none() };
            match &self.dynamic_index_axes(&sizes)[..] {
                [] => update,
                moving => dynamic_index_write(self, update, &starts, moving),
            }
        })
    }

    /// The axes along which a part of these sizes may move; the first axis if there is none, so that its start is
    /// checked.
    fn dynamic_index_axes(self, sizes: &[usize]) -> Vec<usize> {
        let d = self.dims();
        let moving: Vec<usize> = (0..d.len()).filter(|&a| sizes[a] != d[a]).collect();
        if moving.is_empty() { (0..d.len().min(1)).collect() } else { moving }
    }

    /// The starts, each of which is in range when it is read. They are joined into one number, which checks them all.
    #[track_caller]
    fn checked_starts(self, what: &str, starts: &[Var<'g>], sizes: &[usize]) -> Option<Vec<Var<'g>>> {
        if !self.g.owns(what, starts) || !self.is_some() || starts.iter().any(|s| !s.is_some()) {
            return None;
        }
        let d = self.dims();
        if starts.len() != d.len() || sizes.len() != d.len() {
            self.refuse(what, format!("{} starts and {} sizes for rank {}", starts.len(), sizes.len(), d.len()));
            return None;
        }
        if let Some(a) = (0..d.len()).find(|&a| sizes[a] > d[a]) {
            self.refuse(what, format!("{} elements along axis {a} of length {}", sizes[a], d[a]));
            return None;
        }
        if let Some((a, s)) = starts.iter().enumerate().find(|(_, s)| s.dtype() != DType::I64 || s.rank() != 0) {
            self.refuse(what, format!("the start of axis {a} is {}{}; i64[] is needed", s.dtype(), s.dims()));
            return None;
        }
        let Some((first, rest)) = starts.split_first() else { return Some(Vec::new()) };
        let places: Vec<usize> = (0..d.len()).map(|a| d[a] - sizes[a] + 1).collect();
        let attrs = RavelIndexAttrs { sizes: size_attrs_to_i64(&places) };
        let mut joined = self.g.emit1(Op::RAVEL_INDEX, &[first.stack(rest, 0)], &attrs.list());
        let mut checked = Vec::new();
        for &n in places.iter().rev() {
            let quotient = joined / n as f64;
            checked.push(joined - quotient * n as f64);
            joined = quotient;
        }
        checked.reverse();
        Some(checked)
    }
}

/// `start`, `start` + 1 … as `[len]`.
fn dynamic_index_positions(start: Var<'_>, len: usize) -> Var<'_> {
    start.broadcast([len]) + start.g.iota(0, [len], DType::I64)
}

/// `x` with `update` written at `starts` along the axes `moving`.
fn dynamic_index_write<'g>(x: Var<'g>, update: Var<'g>, starts: &[Var<'g>], moving: &[usize]) -> Var<'g> {
    let Some((&axis, rest)) = moving.split_first() else { return update };
    let at = dynamic_index_positions(starts[axis], update.dims()[axis]);
    let part = match rest {
        [] => update,
        _ => dynamic_index_write(x.gather(at, size_attr_to_i64(axis)), update, starts, rest),
    };
    x.scatter_slices(at, part, size_attr_to_i64(axis), Scatter::Set)
}
