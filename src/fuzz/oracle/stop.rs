//! Why the oracle has no reference for a graph.

use crate::arena::Node;
use crate::error::{Error, Kind, Location};
use crate::nodes::Graph;
use std::fmt;

/// Why there is no reference for a graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The oracle does not know an op, which has no decomposition either.
    Unsupported(&'static str),
    /// The step fails: an index is out of range, or an integer is divided by 0.
    Fault(Error),
    /// The graph takes more work than the oracle may do.
    TooLarge,
    /// The graph is broken, or a decomposition is.
    Broken(Error),
}

impl Stop {
    /// A fault of the step.
    pub(super) fn fault(why: impl Into<String>) -> Stop {
        Stop::Fault(Error::new(Kind::Data, why))
    }

    /// The same, a fault with the op and the place of its node.
    pub(super) fn located(self, g: Graph<'_>, n: Node) -> Stop {
        match self {
            Stop::Fault(e) if e.location == Location::Nowhere => {
                Stop::Fault(e.context(g.def_of(n).name).at(g.location(n)))
            }
            other => other,
        }
    }

    /// A broken graph.
    pub(super) fn broken(why: impl Into<String>) -> Stop {
        Stop::Broken(Error::new(Kind::Verify, why))
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Unsupported(op) => write!(f, "the oracle does not know op {op}, and it has no decomposition"),
            Stop::Fault(e) | Stop::Broken(e) => e.fmt(f),
            Stop::TooLarge => write!(f, "the graph takes more work than the oracle may do"),
        }
    }
}

impl std::error::Error for Stop {}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Broken(e)
    }
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Error {
        match stop {
            Stop::Fault(e) | Stop::Broken(e) => e,
            other => Error::new(Kind::Verify, other.to_string()),
        }
    }
}
