//! Projections: functions that an optimiser applies to a param after its update, in the same step.
//!
//! A projection writes ordinary nodes between the rule's next value and the update of the param, so they are fused,
//! planned in place and proved like the rest of the step.

use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::{Builder, Var};
use crate::passes::optimiser::Optimiser;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// From the value that the rule gives a param to the value that the param has after the step.
type Apply = dyn for<'g> Fn(Var<'g>) -> Var<'g> + Send + Sync;

/// See [`Optimiser::project`](super::Optimiser::project).
#[derive(Clone)]
pub struct Projection {
    /// The params that it is for.
    pub pattern: String,
    apply: Arc<Apply>,
    location: &'static Location<'static>,
}

impl Projection {
    pub(super) fn new(
        pattern: &str,
        location: &'static Location<'static>,
        apply: impl for<'g> Fn(Var<'g>) -> Var<'g> + Send + Sync + 'static,
    ) -> Projection {
        Projection { pattern: pattern.to_string(), apply: Arc::new(apply), location }
    }

    /// The projection of `next`, the value of param `name` after the rule. Another type is an error of `b`.
    pub(super) fn after_update<'g>(&self, b: &'g Builder, name: &str, next: Var<'g>) -> Var<'g> {
        let before = b.with(|e| e.loc_here());
        b.come_from(self.location);
        let y = (self.apply)(next);
        if y.is_some() && next.is_some() && y.ty() != next.ty() {
            let text = |x: Var<'_>| format!("{}{}", x.dtype(), x.dims());
            let (pattern, is, was) = (&self.pattern, text(y), text(next));
            b.fail(Kind::Shape, format!("projection {pattern:?}: param {name:?} is {was}, its projection {is}"));
        }
        b.with(|e| e.set_loc(before));
        y
    }
}

/// An error for a projection that is for none of the params `trained`.
pub(super) fn check_projections(all: &[Projection], trained: &[&str]) -> Result<()> {
    let idle = all.iter().find(|p| !trained.iter().any(|name| names::matches_name(&p.pattern, name)));
    idle.map_or(Ok(()), |p| {
        let instead = names::list_names_instead(&p.pattern, trained.iter().copied());
        Err(Error::new(Kind::Name, format!("projection {:?} matches no trained param{instead}", p.pattern)))
    })
}

/// Closures cannot be compared: two projections are equal if one is a clone of the other.
impl PartialEq for Projection {
    fn eq(&self, other: &Projection) -> bool {
        self.pattern == other.pattern && Arc::ptr_eq(&self.apply, &other.apply)
    }
}

impl fmt::Debug for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Projection({:?}, at {})", self.pattern, self.location)
    }
}

impl<R> Optimiser<R> {
    /// After each update, gives the params that match `pattern` the value `f(p)`, where `p` is what the rule gives: a
    /// clamp to a box, a unit norm. It is part of the step, and in place where the ops allow it. Patterns are those of
    /// [`Optimiser::group`]; several projections of a param apply in the order of the calls. Moving averages see
    /// projected params. The start values of params are not projected.
    ///
    /// Errors of [`train`](crate::optim::train): `f` gives another type than `p` has; the pattern matches no trained
    /// param; the rule of a param is [`Lbfgs`](crate::optim::Lbfgs), whose history would not see the projection.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let w = g.param("w", [2], DType::F32, Init::Zeros);
    /// let graph = g.finish([(w * g.constant(&[-3.0, 5.0], [2])).sum(..).named("loss")])?;
    /// let step = train(&graph, "loss", optim::Sgd::new(1.0).project("w", |w| w.clamp(-1.0, 1.0)))?;
    /// let mut p = Session::new().compile(&step)?;
    /// p.init(0)?;
    /// p.step()?;
    /// assert_eq!(p.values::<f32>("w")?, [1.0, -1.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn project(
        mut self,
        pattern: &str,
        f: impl for<'g> Fn(Var<'g>) -> Var<'g> + Send + Sync + 'static,
    ) -> Optimiser<R> {
        self.projections.push(Projection::new(pattern, Location::caller(), f));
        self
    }
}
