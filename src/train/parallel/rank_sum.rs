//! Sums over ranks whose bits depend on the number of ranks alone.
//!
//! MPI's own reductions add in an order that depends on library, size and network. Here every rank sends part `i` of
//! its numbers to rank `i`, each rank adds the parts that it received in the order of ranks, and all gather the sums.
//! Invariant: an element's sum is ((x₀ + x₁) + x₂) + …, wherever it lies, so neither the size of a bucket nor the place
//! of a param changes a bit.

use super::comm::Comm;
use crate::error::Result;
use bytemuck::Pod;
use std::ops::{AddAssign, DivAssign};

/// `f32` or `f64`.
pub trait Summed: Pod + AddAssign + DivAssign {
    /// A number of ranks as this type.
    fn of_ranks(n: usize) -> Self;
}

impl Summed for f32 {
    fn of_ranks(n: usize) -> f32 {
        n as f32
    }
}

impl Summed for f64 {
    fn of_ranks(n: usize) -> f64 {
        n as f64
    }
}

/// What becomes of the gradients of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reduce {
    /// Their mean: for losses that are means over the batch, where all ranks have batches of one size.
    #[default]
    Mean,
    /// Their sum: for losses that are sums over the batch.
    Sum,
}

/// The buffers of sums of up to a number of bytes.
pub struct RankSum {
    /// Words of 8 bytes, so that both types of numbers are aligned.
    send: Vec<u64>,
    receive: Vec<u64>,
}

impl RankSum {
    /// Buffers for sums of at most `bytes` bytes over `ranks` ranks.
    pub fn new(bytes: usize, ranks: usize) -> RankSum {
        // A part is at most one element longer than an equal share.
        let lines = bytes.div_ceil(8) + ranks;
        RankSum { send: vec![0; lines], receive: vec![0; lines] }
    }

    /// Most elements of type `T` that one sum takes.
    fn capacity<T: Summed>(&self, ranks: usize) -> usize {
        (self.send.len() - ranks) * 8 / size_of::<T>()
    }

    /// Replaces `values` by their sum over all ranks, or by their mean. All ranks give equally many.
    ///
    /// # Errors
    /// Those of `comm`.
    pub fn reduce<T: Summed>(&mut self, comm: &dyn Comm, values: &mut [T], how: Reduce) -> Result<()> {
        let ranks = comm.size();
        if ranks == 1 {
            return Ok(());
        }
        let most = self.capacity::<T>(ranks).max(1);
        values.chunks_mut(most).try_for_each(|chunk| self.reduce_chunk(comm, chunk, how))
    }

    fn reduce_chunk<T: Summed>(&mut self, comm: &dyn Comm, values: &mut [T], how: Reduce) -> Result<()> {
        let (ranks, n) = (comm.size(), values.len());
        let part = n.div_ceil(ranks);
        let send = &mut bytemuck::cast_slice_mut::<u64, T>(&mut self.send)[..part * ranks];
        let receive = &mut bytemuck::cast_slice_mut::<u64, T>(&mut self.receive)[..part * ranks];
        send[..n].copy_from_slice(values);
        send[n..].fill(T::zeroed());
        comm.all_to_all(bytemuck::cast_slice(send), bytemuck::cast_slice_mut(receive))?;
        let sums = &mut send[..part];
        sums.copy_from_slice(&receive[..part]);
        for other in receive[part..].chunks_exact(part) {
            sums.iter_mut().zip(other).for_each(|(sum, x)| *sum += *x);
        }
        if how == Reduce::Mean {
            let ranks = T::of_ranks(ranks);
            sums.iter_mut().for_each(|sum| *sum /= ranks);
        }
        comm.all_gather(bytemuck::cast_slice(sums), bytemuck::cast_slice_mut(receive))?;
        values.copy_from_slice(&receive[..n]);
        Ok(())
    }
}
