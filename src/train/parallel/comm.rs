//! What a step needs of a group of processes: the primitives of MPI, on bytes.

use crate::error::{Error, Kind, Result};

/// A group of ranks that run the same program: processes on one machine or on many, or threads ([`LocalComm`]).
///
/// All ranks call the same functions in the same order; each call waits for the others. A rank that stops calling
/// leaves the others waiting, so an implementation must end them: [`LocalComm`] gives them an error, MPI ends their
/// processes.
///
/// [`LocalComm`]: super::LocalComm
///
/// Calls come one after another, but perhaps from two threads: see [`Comm::works_beside`].
pub trait Comm: Send {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks, at least 1.
    fn size(&self) -> usize;

    /// Sends block `i` of `send` to rank `i`, and receives into block `i` of `receive` what rank `i` sends here. Both
    /// are divided into as many equal blocks as there are ranks.
    ///
    /// # Errors
    /// The lengths differ, or are no multiple of the number of ranks; a rank has ended.
    fn all_to_all(&self, send: &[u8], receive: &mut [u8]) -> Result<()>;

    /// Receives the bytes that every rank sends, in the order of ranks.
    ///
    /// # Errors
    /// `receive` has not [`Comm::size`] times the length of `send`; a rank has ended.
    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()>;

    /// Gives `bytes` the contents that they have on rank `root`.
    ///
    /// # Errors
    /// There is no such rank; the lengths differ; a rank has ended.
    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()>;

    /// Waits for all ranks.
    ///
    /// # Errors
    /// A rank has ended.
    fn barrier(&self) -> Result<()>;

    /// Whether calls may come from another thread than the one that computes, while that one computes. Then a step
    /// exchanges gradients beside its other work.
    fn works_beside(&self) -> bool {
        false
    }

    /// Says whose turn the calls that follow are. Only if [`Comm::works_beside`], and on all ranks before the same
    /// calls, but that of two ranks one may be [beside](Turn::Beside) and the other [late](Turn::Late).
    fn turn(&self, _whose: Turn) {}

    /// Ends this rank and all others, for the reason `why`.
    fn abort(&self, why: &str) -> !;
}

/// Which thread calls a [`Comm`], and what else the process does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The one that computes.
    Own,
    /// Another one, while that one computes: a call that waits should leave it the core.
    Beside,
    /// Another one, which that one waits for.
    Late,
}

/// The bytes of one block of [`Comm::all_to_all`].
///
/// # Errors
/// Those of that function.
pub fn block_bytes(size: usize, send: usize, receive: usize) -> Result<usize> {
    if send == receive && send.is_multiple_of(size) {
        return Ok(send / size);
    }
    let text =
        format!("all_to_all: {send} bytes are sent and {receive} received; both are equal blocks of {size} ranks");
    Err(Error::new(Kind::Data, text))
}

/// Checks the lengths of [`Comm::all_gather`].
///
/// # Errors
/// Those of that function.
pub fn check_gathered_bytes(size: usize, send: usize, receive: usize) -> Result<()> {
    if send.checked_mul(size) == Some(receive) {
        return Ok(());
    }
    let text = format!("all_gather: {size} ranks send {send} bytes each, and {receive} are received");
    Err(Error::new(Kind::Data, text))
}

/// Checks the root of [`Comm::broadcast`].
///
/// # Errors
/// There is no such rank.
pub fn check_root(size: usize, root: usize) -> Result<()> {
    if root < size {
        return Ok(());
    }
    Err(Error::new(Kind::Data, format!("broadcast: there is no rank {root}; ranks go from 0 to {}", size - 1)))
}
