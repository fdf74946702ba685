//! Sums over ranks whose bits depend on the number of ranks alone.
//!
//! MPI's own reductions add in an order that depends on library, size and network. Here every rank sends part `i` of
//! its numbers to rank `i`, each rank adds the parts that it received in the order of ranks, and all gather the sums.
//! Invariant: an element's sum is ((x₀ + x₁) + x₂) + …, wherever it lies, so neither the size of a bucket nor the place
//! of a param changes a bit.

use super::comm::Comm;
use crate::error::Result;
use crate::nodes::DType;
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

/// The buffer of sums of up to a number of bytes.
pub struct RankSum {
    /// Words of 8 bytes, so that both types of numbers are aligned.
    receive: Vec<u64>,
}

impl RankSum {
    /// A buffer for sums of at most `bytes` bytes over `ranks` ranks.
    pub fn new(bytes: usize, ranks: usize) -> RankSum {
        // What is left of equal shares, fewer elements than ranks, comes from each rank.
        RankSum { receive: vec![0; bytes.div_ceil(8).max(ranks * ranks)] }
    }

    /// As [`RankSum::reduce`], of numbers of `dtype`, `f32` or `f64`.
    pub fn reduce_bytes(&mut self, comm: &dyn Comm, dtype: DType, bytes: &mut [u8], how: Reduce) -> Result<()> {
        match dtype {
            DType::F64 => self.reduce::<f64>(comm, bytemuck::cast_slice_mut(bytes), how),
            _ => self.reduce::<f32>(comm, bytemuck::cast_slice_mut(bytes), how),
        }
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
        let receive = bytemuck::cast_slice_mut::<u64, T>(&mut self.receive);
        let most = receive.len() / ranks * ranks;
        for chunk in values.chunks_mut(most) {
            let (shares, rest) = chunk.split_at_mut(chunk.len() / ranks * ranks);
            if !shares.is_empty() {
                // The parts of all ranks come to the buffer, and the sums from its first part: nothing is copied here.
                let receive = &mut receive[..shares.len()];
                comm.all_to_all(bytemuck::cast_slice(shares), bytemuck::cast_slice_mut(receive))?;
                let sums = sum_parts(receive, ranks, how);
                comm.all_gather(bytemuck::cast_slice(sums), bytemuck::cast_slice_mut(shares))?;
            }
            if !rest.is_empty() {
                let receive = &mut receive[..rest.len() * ranks];
                comm.all_gather(bytemuck::cast_slice(rest), bytemuck::cast_slice_mut(receive))?;
                rest.copy_from_slice(sum_parts(receive, ranks, how));
            }
        }
        Ok(())
    }
}

/// Adds the equal parts of `all`, one of each rank, into the first, in the order of ranks. Returns their sum or mean.
fn sum_parts<T: Summed>(all: &mut [T], ranks: usize, how: Reduce) -> &[T] {
    let (sums, others) = all.split_at_mut(all.len() / ranks);
    let (n, last) = (T::of_ranks(ranks), ranks - 2);
    for (k, other) in others.chunks_exact(sums.len()).enumerate() {
        let pairs = sums.iter_mut().zip(other);
        if k == last && how == Reduce::Mean {
            pairs.for_each(|(sum, x)| {
                *sum += *x;
                *sum /= n;
            });
        } else {
            pairs.for_each(|(sum, x)| *sum += *x);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::LocalComm;

    /// The numbers of a rank: sums in another order have other bits.
    fn own(rank: usize, n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7 + rank * 13) as f32).sin() * 10f32.powi((i + rank) as i32 % 9)).collect()
    }

    /// Lengths with and without equal shares, in buffers that hold them and in smaller ones.
    #[test]
    fn sums_are_in_the_order_of_ranks() {
        for (ranks, n, bytes) in [(2, 8, 64), (2, 7, 64), (3, 32, 40), (4, 3, 64), (5, 23, 1)] {
            for how in [Reduce::Sum, Reduce::Mean] {
                let mut want = own(0, n);
                (1..ranks).for_each(|r| want.iter_mut().zip(own(r, n)).for_each(|(sum, x)| *sum += x));
                if how == Reduce::Mean {
                    want.iter_mut().for_each(|x| *x /= ranks as f32);
                }
                let (want, text) = (&want, format!("{ranks} ranks, {n} numbers, {how:?}"));
                std::thread::scope(|s| {
                    for comm in LocalComm::group(ranks) {
                        let text = text.clone();
                        s.spawn(move || {
                            let mut values = own(comm.rank(), n);
                            RankSum::new(bytes, ranks).reduce(&comm, &mut values, how).unwrap();
                            let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                            assert_eq!(bits(&values), bits(want), "{text}");
                        });
                    }
                });
            }
        }
    }
}
