//! The ranks of a run under `mpirun`: one process each, of which rank 0 writes files and prints.
//!
//! Invariants: a failure of one rank ends all of them. Without the feature `mpi`, a run that `mpirun` has started
//! fails: it would be several equal runs.

use crate::config::Config;
use crate::fail::{Fail, Run, fail_bad_input};
use crate::sys::sys_launched_ranks;
use arenagrad::train::Comm;

#[cfg(feature = "mpi")]
pub type Joined = arenagrad_mpi::MpiComm;
#[cfg(not(feature = "mpi"))]
pub type Joined = arenagrad::train::LocalComm;

/// Time that a failed rank leaves rank 0, whose failure is most often the same, to report it first.
const HEAD_START: std::time::Duration = std::time::Duration::from_millis(300);

/// The ranks of this run; none of a run that no `mpirun` has started.
pub struct Ranks(Option<Joined>);

impl Ranks {
    /// Joins the ranks that `mpirun` has started.
    #[cfg(feature = "mpi")]
    pub fn join() -> Run<Ranks> {
        match sys_launched_ranks() {
            Some(_) => Ok(Ranks(Some(Joined::join()?))),
            None => Ok(Ranks(None)),
        }
    }

    /// Fails if `mpirun` has started more than one of this program.
    #[cfg(not(feature = "mpi"))]
    pub fn join() -> Run<Ranks> {
        match sys_launched_ranks() {
            Some(n) if n > 1 => Err(fail_bad_input(format!(
                "mpirun has started {n} of this program, which was built without MPI: each would be a run of its own; \
                 build it with `cargo build --release --bin arenagrad --features arenagrad-cli/mpi`"
            ))),
            _ => Ok(Ranks(None)),
        }
    }

    /// A run of one process.
    pub fn one() -> Ranks {
        Ranks(None)
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(1, |c| c.size())
    }

    /// Whether this process writes files and prints.
    pub fn is_first(&self) -> bool {
        self.0.as_ref().is_none_or(|c| c.rank() == 0)
    }

    /// The ranks, for the steps of this one.
    #[cfg(feature = "mpi")]
    pub fn comm(&self) -> Option<Joined> {
        self.0.clone()
    }

    /// There are none to take steps with.
    #[cfg(not(feature = "mpi"))]
    pub fn comm(&self) -> Option<Joined> {
        None
    }

    /// `c` for this rank: its share of each batch.
    pub fn divide(&self, c: &mut Config) -> Run {
        let ranks = self.size();
        if ranks > 1 && c.trace.is_some() {
            return Err(fail_bad_input("--trace records a step of one process, not of ranks under mpirun"));
        }
        if c.shard_states && (ranks == 1 || c.optimiser.ema.is_some()) {
            let why = if ranks == 1 { "there is one rank" } else { "moving averages stay whole" };
            return Err(fail_bad_input(format!("--shard-states shares states out over the ranks of mpirun; {why}")));
        }
        if !c.batch.is_multiple_of(ranks) {
            let text = format!("batch is {}, of which {ranks} ranks have no equal shares", c.batch);
            return Err(fail_bad_input(text));
        }
        c.batch /= ranks;
        Ok(())
    }

    /// The end of the run on this rank: waits for the others, or ends them if it failed.
    pub fn end(&self, done: Run) -> Run {
        let Some(comm) = &self.0 else { return done };
        match done {
            Ok(()) => Ok(self.finish(comm)?),
            Err(Fail { message, .. }) => {
                if comm.rank() > 0 {
                    std::thread::sleep(HEAD_START);
                }
                comm.abort(&message)
            }
        }
    }

    #[cfg(feature = "mpi")]
    fn finish(&self, comm: &Joined) -> arenagrad::Result<()> {
        comm.finish()
    }

    #[cfg(not(feature = "mpi"))]
    fn finish(&self, comm: &Joined) -> arenagrad::Result<()> {
        comm.barrier()
    }
}
