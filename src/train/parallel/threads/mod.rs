//! Ranks that are threads of one process: for tests, and to try a program before it runs on many machines.
//!
//! Invariant: no thread waits for one that has ended. What a rank sends lies in its slot from one meeting of all ranks
//! to the next.

use super::comm::{Comm, block_bytes, check_gathered_bytes, check_root};
use crate::error::{Error, Kind, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A rank of a group of threads. A rank that is dropped, by a panic for instance, ends the group: the calls of the
/// others give an error that names it.
///
/// ```
/// use arenagrad::train::{Comm, LocalComm};
/// # fn main() -> arenagrad::error::Result<()> {
/// std::thread::scope(|threads| {
///     for comm in LocalComm::group(3) {
///         threads.spawn(move || {
///             let mut all = [0; 3];
///             comm.all_gather(&[comm.rank() as u8], &mut all).unwrap();
///             assert_eq!(all, [0, 1, 2]);
///         });
///     }
/// });
/// # Ok(())
/// # }
/// ```
pub struct LocalComm {
    rank: usize,
    group: Arc<Group>,
}

struct Group {
    /// Of each rank: what it sends.
    slots: Vec<Mutex<Vec<u8>>>,
    meeting: Mutex<Meeting>,
    met: Condvar,
}

#[derive(Default)]
struct Meeting {
    arrived: usize,
    /// Meetings so far.
    number: u64,
    /// The first rank that ended, and why.
    ended: Option<(usize, String)>,
}

fn locked<T>(x: &Mutex<T>) -> MutexGuard<'_, T> {
    x.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LocalComm {
    /// A group of `size` ranks, at least one: each for a thread of its own.
    pub fn group(size: usize) -> Vec<LocalComm> {
        let slots = (0..size.max(1)).map(|_| Mutex::default()).collect();
        let group = Arc::new(Group { slots, meeting: Mutex::default(), met: Condvar::new() });
        (0..size.max(1)).map(|rank| LocalComm { rank, group: group.clone() }).collect()
    }

    fn end(&self, why: &str) {
        locked(&self.group.meeting).ended.get_or_insert_with(|| (self.rank, why.to_string()));
        self.group.met.notify_all();
    }

    /// Waits until all ranks are here.
    fn meet(&self) -> Result<()> {
        let ended = |m: &Meeting| {
            let (rank, why) = m.ended.as_ref()?;
            Some(Error::new(Kind::Data, format!("rank {rank} of {} ended: {why}", self.group.slots.len())))
        };
        let mut m = locked(&self.group.meeting);
        if let Some(e) = ended(&m) {
            return Err(e);
        }
        let number = m.number;
        m.arrived += 1;
        if m.arrived == self.group.slots.len() {
            (m.arrived, m.number) = (0, number + 1);
            self.group.met.notify_all();
            return Ok(());
        }
        while m.number == number {
            if let Some(e) = ended(&m) {
                return Err(e);
            }
            m = self.group.met.wait(m).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Sends `bytes`, and hands to `read` what each rank has sent.
    fn exchange(&self, bytes: Option<&[u8]>, mut read: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        if let Some(bytes) = bytes {
            let mut slot = locked(&self.group.slots[self.rank]);
            slot.clear();
            slot.extend_from_slice(bytes);
        }
        self.meet()?;
        let done = (0..self.size()).try_for_each(|rank| read(rank, &locked(&self.group.slots[rank])));
        self.meet()?;
        done
    }
}

/// `bytes`, if they are as many as `wanted`.
fn of_length(rank: usize, bytes: &[u8], wanted: usize) -> Result<&[u8]> {
    if bytes.len() == wanted {
        return Ok(bytes);
    }
    Err(Error::new(Kind::Data, format!("rank {rank} sends {} bytes, {wanted} are received", bytes.len())))
}

impl Comm for LocalComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.group.slots.len()
    }

    fn all_to_all(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        let block = block_bytes(self.size(), send.len(), receive.len())?;
        let (mine, whole) = (self.rank * block..(self.rank + 1) * block, send.len());
        self.exchange(Some(send), |rank, bytes| {
            let from = &of_length(rank, bytes, whole)?[mine.clone()];
            receive[rank * block..(rank + 1) * block].copy_from_slice(from);
            Ok(())
        })
    }

    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        let block = send.len();
        check_gathered_bytes(self.size(), block, receive.len())?;
        self.exchange(Some(send), |rank, bytes| {
            receive[rank * block..(rank + 1) * block].copy_from_slice(of_length(rank, bytes, block)?);
            Ok(())
        })
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        check_root(self.size(), root)?;
        if self.rank == root {
            return self.exchange(Some(bytes), |_, _| Ok(()));
        }
        let wanted = bytes.len();
        self.exchange(None, |rank, sent| {
            if rank == root {
                bytes.copy_from_slice(of_length(rank, sent, wanted)?);
            }
            Ok(())
        })
    }

    fn barrier(&self) -> Result<()> {
        self.meet()
    }

    fn works_beside(&self) -> bool {
        true
    }

    /// Ends this thread by unwinding, without a message of its own.
    fn abort(&self, why: &str) -> ! {
        self.end(why);
        std::panic::resume_unwind(Box::new(why.to_string()))
    }
}

impl Drop for LocalComm {
    fn drop(&mut self) {
        self.end(if std::thread::panicking() { "it panicked" } else { "it left the group" });
    }
}

#[cfg(test)]
mod tests;
