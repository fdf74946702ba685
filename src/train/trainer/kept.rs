//! The numbers that a trainer keeps for callbacks and for the caller's loop. Invariant: the checkpoint holds them.

use super::Trainer;
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use crate::train::checkpoint::Loaded;
use crate::train::saved_names::KEPT;

/// Most numbers that [`Trainer::kept`] keeps in all.
pub const KEPT_LIMIT: usize = 1 << 16;

/// Numbers that a callback or the caller's loop keeps in the checkpoint.
pub struct Kept {
    pub name: String,
    pub numbers: Vec<f64>,
}

impl Trainer {
    /// Numbers that the checkpoint keeps under `name`, for callbacks and for loops of your own: `start` until they are
    /// written, what a restored checkpoint holds after that.
    ///
    /// Errors, of kind [`Kind::Data`]: the numbers kept under this name are more or fewer than `start`; all names
    /// together keep more than [`KEPT_LIMIT`] numbers.
    ///
    /// ```
    /// # use arenagrad::prelude::*;
    /// # fn best(trainer: &mut Trainer, accuracy: f64) -> Result<()> {
    /// let best = trainer.kept("best accuracy", &[0.0])?;
    /// best[0] = best[0].max(accuracy);
    /// # Ok(())
    /// # }
    /// ```
    pub fn kept(&mut self, name: &str, start: &[f64]) -> Result<&mut [f64]> {
        let i = match self.kept.iter().position(|k| k.name == name) {
            Some(i) => i,
            None => {
                let all = self.kept.iter().map(|k| k.numbers.len()).sum::<usize>();
                if start.len() > KEPT_LIMIT - all.min(KEPT_LIMIT) {
                    let text = format!("{name:?} keeps {} numbers, {all} are kept; at most {KEPT_LIMIT}", start.len());
                    return Err(Error::new(Kind::Data, text));
                }
                self.kept.push(Kept { name: name.to_string(), numbers: start.to_vec() });
                self.kept.len() - 1
            }
        };
        let numbers = &mut self.kept[i].numbers;
        match numbers.len() == start.len() {
            true => Ok(numbers),
            false => {
                let text = format!("the checkpoint keeps {} numbers of {name:?}, not {}", numbers.len(), start.len());
                Err(Error::new(Kind::Data, text))
            }
        }
    }
}

/// The numbers of [`Trainer::kept`] in a file.
pub fn read_saved_numbers(file: &Loaded) -> Result<Vec<Kept>> {
    let mut kept = Vec::new();
    for e in file.entries() {
        let Some(name) = e.name.strip_prefix(KEPT) else { continue };
        if e.dtype != DType::F64 || e.dims.len() != 1 {
            let text = format!("{:?} is {}{:?} in the file; kept numbers are f64[n]", e.name, e.dtype, e.dims);
            return Err(Error::new(Kind::Shape, text));
        }
        kept.push(Kept { name: name.to_string(), numbers: bytemuck::pod_collect_to_vec(e.bytes) });
    }
    Ok(kept)
}
