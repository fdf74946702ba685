//! What ranks tell each other beside gradients: numbers that must be equal, and errors.
//!
//! Invariant: all ranks come to the same verdict, because all look at the same records.

use super::comm::Comm;
use crate::error::{Error, Kind, Result};

/// Bytes of a record: a flag, a length and a message, and a number. Ranks exchange two in each step.
pub const RECORD: usize = 512;
/// Where the message begins; before it are the number, the length and the kind.
const MESSAGE: usize = 16;

/// The buffers of [`Reports::exchange`].
pub struct Reports {
    mine: Vec<u8>,
    all: Vec<u8>,
}

impl Reports {
    pub fn new(ranks: usize) -> Reports {
        Reports { mine: vec![0; RECORD], all: vec![0; RECORD * ranks] }
    }

    /// Tells all ranks how this rank fared, with a number. Returns the mean of the numbers, added in the order of
    /// ranks.
    ///
    /// # Errors
    /// The error of the first rank that has one, on all ranks; those of `comm`.
    pub fn exchange(&mut self, comm: &dyn Comm, own: Result<f64>) -> Result<f64> {
        if comm.size() == 1 {
            return own;
        }
        self.mine.fill(0);
        match &own {
            Ok(x) => self.mine[..8].copy_from_slice(&x.to_le_bytes()),
            Err(e) => {
                let text = e.to_string();
                let text = &text.as_bytes()[..text.len().min(RECORD - MESSAGE)];
                self.mine[8..12].copy_from_slice(&(text.len() as u32).to_le_bytes());
                self.mine[12] = 1 + kind_number(e.kind);
                self.mine[MESSAGE..MESSAGE + text.len()].copy_from_slice(text);
            }
        }
        comm.all_gather(&self.mine, &mut self.all)?;
        let mut sum = 0.0;
        for (rank, record) in self.all.chunks_exact(RECORD).enumerate() {
            if record[12] != 0 {
                return Err(told_by(rank, record));
            }
            let number = record.first_chunk::<8>().copied().map_or(f64::NAN, f64::from_le_bytes);
            sum = if rank == 0 { number } else { sum + number };
        }
        Ok(sum / comm.size() as f64)
    }
}

/// Kinds that ranks tell each other; the first stands for all others.
const KINDS: [Kind; 5] = [Kind::Data, Kind::Diverged, Kind::Full, Kind::Memory, Kind::Io];

fn kind_number(kind: Kind) -> u8 {
    KINDS.iter().position(|k| *k == kind).unwrap_or(0) as u8
}

#[cold]
fn told_by(rank: usize, record: &[u8]) -> Error {
    let length = record[8..].first_chunk::<4>().map_or(0, |n| u32::from_le_bytes(*n) as usize);
    let text = String::from_utf8_lossy(&record[MESSAGE..][..length.min(RECORD - MESSAGE)]).into_owned();
    Error::new(KINDS[usize::from(record[12] - 1) % KINDS.len()], format!("rank {rank}: {text}"))
}

/// Checks that `own`, numbers with their names, are equal on all ranks.
///
/// # Errors
/// On all ranks, the first difference: it names the rank, what differs, and both numbers. Those of `comm`.
pub fn agree(comm: &dyn Comm, own: &[(&str, u64)]) -> Result<()> {
    let mine: Vec<u64> = own.iter().map(|x| x.1).collect();
    let mut all = vec![0u64; mine.len() * comm.size()];
    comm.all_gather(bytemuck::cast_slice(&mine), bytemuck::cast_slice_mut(&mut all))?;
    let first = all[..mine.len()].to_vec();
    for (rank, theirs) in all.chunks_exact(mine.len().max(1)).enumerate() {
        if let Some(i) = (0..first.len()).find(|&i| theirs[i] != first[i]) {
            // Counts as people write them, digests as they are compared.
            let shown = |x: u64| if x < 1 << 48 { x.to_string() } else { format!("{x:016x}") };
            let (what, a, b) = (own[i].0, shown(theirs[i]), shown(first[i]));
            let text = format!("rank {rank} of {} has another {what} than rank 0: {a} and {b}", comm.size());
            return Err(Error::new(Kind::Data, text));
        }
    }
    Ok(())
}

/// A digest of bytes: FNV-1a on words of 8 bytes. It tells accidents, not attacks.
#[derive(Clone, Copy)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of nothing.
    pub fn new() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }

    /// With `bytes`, and their number, behind what came before.
    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.mix(u64::from_le_bytes(*w)));
        rest.iter().for_each(|b| self.mix(u64::from(*b)));
        self.mix(bytes.len() as u64);
    }

    fn mix(&mut self, word: u64) {
        // The high bits of a product depend on all lower ones, the low bits on few: they are folded down.
        let x = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 = x ^ (x >> 29);
    }

    /// The digest.
    pub fn finish(self) -> u64 {
        self.0
    }
}

/// The digest of `bytes`: equal for equal bytes, on every machine.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let mut f = Fingerprint::new();
    f.add(bytes);
    f.finish()
}
