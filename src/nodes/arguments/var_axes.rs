//! Axes of a [`Var`] as methods take them: resolved, or an error of the graph.

use crate::error::Kind;
use crate::nodes::arguments::axes::Axes;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

impl<'g> Var<'g> {
    /// The axes of `self`, resolved. An axis out of range is an error of `op`.
    #[track_caller]
    pub(in crate::nodes) fn axes_for_op(self, op: Op, axes: impl Axes) -> Option<Vec<i64>> {
        match axes.resolve(self.rank()) {
            Ok(a) => Some(a),
            Err(bad) => {
                let name = self.g.op_name(op);
                self.g.fail(Kind::Shape, format!("{name}({:?}): axis {bad} is outside rank {}", self, self.rank()));
                None
            }
        }
    }

    /// `axis` of `self`, counted from the front. `None` without a value, and, with an error of `what`, if there is no
    /// such axis.
    #[track_caller]
    pub(in crate::nodes) fn axis_at(self, what: &str, axis: i64) -> Option<usize> {
        self.axes_at(what, axis).map(|axes| axes[0])
    }

    /// `axes` of `self`, counted from the front. `None` without a value, and, with an error of `what`, if there is no
    /// such axis or one is named twice.
    #[track_caller]
    pub(in crate::nodes) fn axes_at(self, what: &str, axes: impl Axes) -> Option<Vec<usize>> {
        if !self.is_some() {
            return None;
        }
        let found = match axes.resolve(self.rank()) {
            Ok(found) => found,
            Err(bad) => {
                self.g.fail(Kind::Shape, format!("{what}({self:?}): axis {bad} is outside rank {}", self.rank()));
                return None;
            }
        };
        let twice = found.iter().enumerate().find(|(i, a)| found[..*i].contains(a));
        if let Some((_, axis)) = twice {
            self.g.fail(Kind::Shape, format!("{what}({self:?}): axis {axis} is named twice"));
            return None;
        }
        Some(found.iter().map(|&a| a as usize).collect())
    }

    /// Calls `f` with the resolved `axis`. An axis out of range is an error of `op`.
    #[track_caller]
    pub(in crate::nodes) fn on_axis(self, op: Op, axis: i64, f: impl FnOnce(i64) -> Var<'g>) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        match self.axes_for_op(op, axis) {
            Some(a) => self.g.with_caller(|| f(a[0])),
            None => self.g.var(crate::arena::Value::NONE),
        }
    }

    /// The length of `axis`; `None` if there is no such axis.
    pub(in crate::nodes) fn axis_len(self, axis: i64) -> Option<usize> {
        let r = self.rank() as i64;
        let at = if axis < 0 { axis + r } else { axis };
        usize::try_from(at).ok().and_then(|a| self.dims().get(a).copied())
    }
}
