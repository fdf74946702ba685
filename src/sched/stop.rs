//! Why a step stopped: the instruction, what a kernel found, and whether leaves may have changed.

use crate::kernels::fault::Bad;
use std::fmt;

/// Why a step stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The instruction that stopped it, as an index into [`Exec::nodes`](super::exec::Exec::nodes).
    pub instr: usize,
    /// The bad index or matrix; `None` if the kernel panicked.
    pub bad: Option<Bad>,
    /// The iteration of the innermost loop around the instruction, if there is one.
    pub iteration: Option<usize>,
    /// True if params or states may have changed. After a bad one it is false if the lowering declared the check:
    /// declared checks come before all changes.
    pub changed: bool,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bad {
            Some(bad) => (bad.cause.text)(&bad, f)?,
            None => f.write_str("the kernel panicked")?,
        }
        if let Some(i) = self.iteration {
            write!(f, ", in iteration {i} of its loop")?;
        }
        match self.changed {
            true => f.write_str("; params and states may be changed in part: initialise or load them again"),
            false => Ok(()),
        }
    }
}
