//! Ranks of MPI as a [`Comm`] of the library: `mpirun -n 4 PROGRAM` starts four processes, and each
//! [joins](MpiComm::join).
//!
//! Invariant: no rank waits for one that has ended. A rank that gives up, panics, exits or drops its communicator
//! before the run is finished calls `MPI_Abort`, which ends all of them; one that is killed is noticed by `mpirun`.
//!
//! Collectives move bytes only: `MPI_Alltoall`, `MPI_Allgather`, `MPI_Bcast`. MPI's reductions are not used, because
//! the order in which they add depends on library, size and network.
//!
//! ```no_run
//! use arenagrad::prelude::*;
//! use arenagrad::train::Parallel;
//! use arenagrad_mpi::MpiComm;
//!
//! fn main() -> Result<()> {
//!     let comm = MpiComm::join()?;
//!     let rows = 32 / arenagrad::train::Comm::size(&comm);
//!     let g = Builder::new("line");
//!     let (x, y) = (g.input("x", [rows, 1], DType::F32), g.input("y", [rows, 1], DType::F32));
//!     let graph = g.finish([nn::linear(&g, "fc", x, 1).mse(y).named("loss")])?;
//!     let split = optim::train_split(&graph, "loss", optim::Sgd::new(0.1))?;
//!     let program = Session::new().compile_all(&split.methods())?;
//!     let parallel = Parallel::new(&program, comm.clone(), &split)?;
//!     let batches = Batches::new(1024, 32, 0)?;
//!     let mut trainer = Trainer::parallel(program, parallel, Schedule::Constant { lr: 0.1 }, batches, 0)?;
//!     for _ in 0..100 {
//!         trainer.step(&mut |p, which| {
//!             for (k, &i) in which.iter().enumerate() {
//!                 p.values_mut::<f32>("x")?[k] = i as f32 / 512.0 - 1.0;
//!                 p.values_mut::<f32>("y")?[k] = i as f32 / 256.0;
//!             }
//!             Ok(())
//!         })?;
//!     }
//!     comm.finish()
//! }
//! ```

mod exit;

use arenagrad::error::{Error, Kind, Result};
use arenagrad::train::Comm;
use arenagrad::train::parallel::{block_bytes, check_gathered_bytes, check_root};
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Root};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// True while this process may exit without MPI_Abort: before it has joined, and after all ranks have finished.
static MAY_EXIT: AtomicBool = AtomicBool::new(true);

/// The exit code of a run that a rank ends.
pub const ABORTED: i32 = 1;

/// All ranks that `mpirun` has started. Its clones are the same rank; when the last one is dropped before
/// [`MpiComm::finish`], all ranks end.
#[derive(Clone)]
pub struct MpiComm(Arc<World>);

struct World {
    rank: usize,
    size: usize,
    /// `MPI_Finalize` is called when it is dropped.
    _universe: Universe,
}

impl MpiComm {
    /// Joins the ranks of this run: `MPI_Init`. A process that no `mpirun` has started is one rank of one.
    ///
    /// From here on the process ends all ranks if it panics or exits before [`MpiComm::finish`].
    ///
    /// # Errors
    /// MPI was initialised before.
    pub fn join() -> Result<MpiComm> {
        let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Serialized)
            .ok_or_else(|| Error::new(Kind::Data, "MPI was initialised before in this process"))?;
        let world = universe.world();
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        MAY_EXIT.store(false, Ordering::SeqCst);
        exit::guard_exit();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            let text = panic.payload().downcast_ref::<&str>().map(|s| (*s).to_string());
            let text = text.or_else(|| panic.payload().downcast_ref::<String>().cloned()).unwrap_or_default();
            abort_if_running(&format!("it panicked: {text}"));
        }));
        Ok(MpiComm(Arc::new(World { rank, size, _universe: universe })))
    }

    /// Waits for all ranks. After this a rank may end on its own.
    ///
    /// # Errors
    /// None with MPI, which ends all ranks instead.
    pub fn finish(&self) -> Result<()> {
        self.barrier()?;
        MAY_EXIT.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// Ends all ranks, unless the run has not begun or is finished. The reason is printed first.
fn abort_if_running(why: &str) {
    if !MAY_EXIT.swap(true, Ordering::SeqCst) {
        let world = SimpleCommunicator::world();
        let line = format!("arenagrad: rank {} of {} ended: {}\n", world.rank(), world.size(), why.replace('\n', "; "));
        // One write, so that lines of several ranks do not mix. A failure has no other place to be reported.
        let _ = std::io::stderr().write_all(line.as_bytes());
        world.abort(ABORTED);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        abort_if_running("it left before the run was finished");
    }
}

/// Fails if a message is too long for MPI, which counts bytes in 32 bits.
fn check_count(bytes: usize) -> Result<()> {
    match i32::try_from(bytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::new(Kind::Data, format!("{bytes} bytes are more than MPI moves in one call"))),
    }
}

impl Comm for MpiComm {
    fn rank(&self) -> usize {
        self.0.rank
    }

    fn size(&self) -> usize {
        self.0.size
    }

    fn all_to_all(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        block_bytes(self.size(), send.len(), receive.len())?;
        check_count(receive.len())?;
        SimpleCommunicator::world().all_to_all_into(send, receive);
        Ok(())
    }

    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        check_gathered_bytes(self.size(), send.len(), receive.len())?;
        check_count(receive.len())?;
        SimpleCommunicator::world().all_gather_into(send, receive);
        Ok(())
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        check_root(self.size(), root)?;
        let world = SimpleCommunicator::world();
        for part in bytes.chunks_mut(1 << 30) {
            world.process_at_rank(root as i32).broadcast_into(part);
        }
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        SimpleCommunicator::world().barrier();
        Ok(())
    }

    fn abort(&self, why: &str) -> ! {
        abort_if_running(why);
        std::process::exit(ABORTED)
    }
}
