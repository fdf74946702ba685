//! Projections: functions that an optimiser applies to a param after its update, in the same step.
//!
//! A projection writes ordinary nodes between the rule's next value and the update of the param, so they are fused,
//! planned in place and proved like the rest of the step.

use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::{Builder, Var};
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
    pub(super) fn of<'g>(&self, b: &'g Builder, name: &str, next: Var<'g>) -> Var<'g> {
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
