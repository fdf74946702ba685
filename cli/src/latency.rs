//! What `--pin`, `--spin`, `--prefault` and `--lock-memory` do.

use crate::args::LatencyArgs;
use crate::fail::{Run, fail_bad_input};
use arenagrad::session::{Program, Session};

impl LatencyArgs {
    /// `session`, whose programs run on the chosen cores.
    pub fn pinned(&self, session: Session) -> Session {
        match &self.pin {
            Some(cores) => session.pin(cores.iter().copied()),
            None => session,
        }
    }

    /// Settles `p`, a program of a [`LatencyArgs::pinned`] session, whose steps this process runs as one of `ranks`.
    pub fn settle(&self, p: &mut Program, ranks: usize) -> Run {
        if ranks > 1 && self.pin.is_some() {
            return Err(fail_bad_input("--pin is for one process; mpirun has --bind-to core for ranks"));
        }
        self.spin.into_iter().for_each(|time| p.spin(time));
        if self.prefault {
            p.prefault();
        }
        if self.lock_memory {
            p.lock_memory()?;
        }
        Ok(())
    }
}
