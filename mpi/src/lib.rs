//! Ranks of MPI as a [`Comm`] of the library: `mpirun -n 4 PROGRAM` starts four processes, and each
//! [joins](MpiComm::join).
//!
//! Invariant: no rank waits for one that has ended. A rank that gives up, panics, exits or drops its communicator
//! before the run is finished calls `MPI_Abort`, which ends all of them; one that is killed is noticed by `mpirun`.
//!
//! Collectives move bytes only: `MPI_Alltoall`, `MPI_Allgather`, `MPI_Bcast`. MPI's reductions are not used, because
//! the order in which they add depends on library, size and network. Calls that come from another thread than the one
//! that computes are `MPI_Ialltoall` and `MPI_Iallgather`: the thread sleeps between looks at them, as MPI's own waits
//! would take half of a core from the one that computes.
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
use arenagrad::train::parallel::{Turn, block_bytes, check_gathered_bytes, check_root};
use mpi::environment::Universe;
use mpi::request::{Request, Scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Root};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// True while this process may exit without MPI_Abort: before it has joined, and after all ranks have finished.
static MAY_EXIT: AtomicBool = AtomicBool::new(true);

/// How long a thread beside one that computes sleeps between two looks at a call: at first, and at most.
const SLEEPS: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(200)];

/// The exit code of a run that a rank ends.
pub const ABORTED: i32 = 1;

/// All ranks that `mpirun` has started. Its clones are the same rank; when the last one is dropped before
/// [`MpiComm::finish`], all ranks end.
#[derive(Clone)]
pub struct MpiComm(Arc<World>);

struct World {
    rank: usize,
    size: usize,
    /// Whether MPI lets threads call it in turns.
    serialized: bool,
    /// A [`Turn`].
    turn: AtomicU8,
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
        let (universe, threading) = mpi::initialize_with_threading(mpi::Threading::Serialized)
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
        let (serialized, turn) = (threading >= mpi::Threading::Serialized, AtomicU8::new(Turn::Own as u8));
        Ok(MpiComm(Arc::new(World { rank, size, serialized, turn, _universe: universe })))
    }

    /// The turn of the next call; `None` if it is the computing thread's own.
    fn other_turn(&self) -> Option<Turn> {
        let turn = self.0.turn.load(Ordering::Relaxed);
        [Turn::Beside, Turn::Late].into_iter().find(|t| *t as u8 == turn)
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

/// Waits for a call.
fn wait_in_turn<'a, D: ?Sized, S: Scope<'a>>(mut call: Request<'a, D, S>, turn: Turn) {
    if turn == Turn::Late {
        call.wait_without_status();
        return;
    }
    let [mut sleep, most] = SLEEPS;
    loop {
        match call.test() {
            Ok(_) => return,
            Err(pending) => call = pending,
        }
        std::thread::sleep(sleep);
        sleep = (2 * sleep).min(most);
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
        let world = SimpleCommunicator::world();
        match self.other_turn() {
            None => world.all_to_all_into(send, receive),
            Some(turn) => {
                mpi::request::scope(|s| wait_in_turn(world.immediate_all_to_all_into(s, send, receive), turn));
            }
        }
        Ok(())
    }

    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        check_gathered_bytes(self.size(), send.len(), receive.len())?;
        check_count(receive.len())?;
        let world = SimpleCommunicator::world();
        match self.other_turn() {
            None => world.all_gather_into(send, receive),
            Some(turn) => {
                mpi::request::scope(|s| wait_in_turn(world.immediate_all_gather_into(s, send, receive), turn));
            }
        }
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

    fn works_beside(&self) -> bool {
        self.0.serialized && self.0.size > 1
    }

    fn turn(&self, whose: Turn) {
        self.0.turn.store(whose as u8, Ordering::Relaxed);
    }

    fn abort(&self, why: &str) -> ! {
        abort_if_running(why);
        std::process::exit(ABORTED)
    }
}
