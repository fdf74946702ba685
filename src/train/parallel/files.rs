//! Checkpoints of several ranks: rank 0 writes what all of them keep, and each reads its part of it.
//!
//! Invariant: a file is checked as a whole before anything of the program changes.

use super::Parallel;
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use crate::passes::optimiser::{OwnedState, STEP, is_kept_grad};
use crate::session::{Binding, Program};
use crate::train::checkpoint::{self, Entry, HEADER_LIMIT, Loaded, Tensor, check_values, entries};
use crate::train::saved_names::{MAX_STEPS, is_saved_trainer_tensor};
use std::path::Path;

/// Most bytes of what a file holds beside params and states.
const MORE: u64 = 1 << 20;

/// Which tensors of a checkpoint a program has, on this rank.
pub(in crate::train) struct Part<'s> {
    pub rank: usize,
    /// Whether the program keeps gradients, which no file has.
    pub split: bool,
    /// The states that one rank has alone.
    pub owned: &'s [OwnedState],
}

impl Part<'_> {
    fn in_files(&self, name: &str) -> bool {
        !(self.split && is_kept_grad(name))
    }

    /// The tensors of a file: those of `program`, with `gathered` in place of the states that one rank has alone. An
    /// error if one has no value yet.
    pub fn entries<'e>(&self, program: &'e Program, gathered: &'e [Tensor]) -> Result<Vec<Entry<'e>>> {
        let is_gathered = |name: &str| gathered.iter().any(|t| t.name == name);
        let own = |b: &Binding| self.in_files(&b.name) && !is_gathered(&b.name);
        check_values(program, own)?;
        let mut all = entries(program, own);
        all.extend(gathered.iter().map(Tensor::entry));
        Ok(all)
    }

    /// Most bytes of a file of `program` with `more` bytes of other tensors.
    pub fn most_bytes(&self, program: &Program, more: u64) -> u64 {
        let owned = self.owned.iter().map(|s| (s.dims.iter().product::<usize>() * s.dtype.size()) as u64);
        program.persistent().map(|(_, bytes)| bytes.len() as u64).chain(owned).sum::<u64>() + HEADER_LIMIT + more
    }

    /// Checks that the file has the params and states of the program and nothing else.
    pub fn check(&self, program: &Program, file: &Loaded) -> Result<()> {
        if let Some(t) = file.unusable().first() {
            return Err(t.error());
        }
        for (b, _) in program.persistent().filter(|(b, _)| self.in_files(&b.name)) {
            let e = file.expect(&b.name, b.dtype, &b.dims)?;
            if is_step_count(&b.name) && b.dtype == DType::I64 && b.bytes == 8 {
                check_saved_steps(&b.name, bytemuck::pod_read_unaligned(e.bytes))?;
            }
        }
        let mut known: Vec<&str> = program.persistent().map(|(b, _)| b.name.as_str()).collect();
        known.extend(self.owned.iter().map(|s| s.name.as_str()));
        known.sort_unstable();
        let mut entries = file.entries();
        match entries.find(|e| !is_saved_trainer_tensor(e.name) && known.binary_search(&e.name).is_err()) {
            Some(extra) => Err(unknown_saved_tensor(extra.name)),
            None => Ok(()),
        }
    }

    /// Gives the program the tensors of a file that was [checked](Part::check).
    pub fn copy(&self, program: &mut Program, file: &Loaded) -> Result<()> {
        let elsewhere = |name: &str| self.owned.iter().any(|s| s.name == name && s.owner != self.rank);
        for e in file.entries().filter(|e| !is_saved_trainer_tensor(e.name) && !elsewhere(e.name)) {
            program.persistent_mut(e.name)?.1.copy_from_slice(e.bytes);
        }
        Ok(())
    }
}

/// The error of a tensor that a run does not have.
pub(in crate::train) fn unknown_saved_tensor(name: &str) -> Error {
    Error::new(Kind::Name, format!("the checkpoint has {name:?}, which this run does not have"))
}

/// Whether a state is a count of the optimiser's steps: all, or those of a group.
fn is_step_count(name: &str) -> bool {
    name.strip_prefix(STEP).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Fails if the optimiser's count of steps is one that no run reaches.
fn check_saved_steps(name: &str, steps: i64) -> Result<()> {
    match u64::try_from(steps) {
        Ok(n) if n <= MAX_STEPS => Ok(()),
        _ => Err(Error::new(Kind::Data, format!("{name} is {steps}; it goes from 0 to {MAX_STEPS}"))),
    }
}

impl Parallel {
    /// What this rank has of a checkpoint.
    pub(in crate::train) fn part(&self) -> Part<'_> {
        Part { rank: self.comm.rank(), split: true, owned: self.owned_states() }
    }

    /// Writes params and states, also those that one rank has alone, and `more` to `path`, as a whole or not at all.
    /// All ranks call this, and rank 0 writes. Names in `more` begin with `train.kept.`. Gradients are left out.
    ///
    /// # Errors
    /// On all ranks: those of [`checkpoint::save`]; a rank has ended.
    pub fn save(&self, program: &Program, path: impl AsRef<Path>, more: &[Entry<'_>]) -> Result<()> {
        let gathered = self.gather_states(program)?;
        let mut written = Ok(());
        if self.is_first() {
            written = self.part().entries(program, &gathered).and_then(|mut all| {
                all.extend_from_slice(more);
                checkpoint::save(path, &all)
            });
        }
        self.share_result(written)
    }

    /// Gives params and states the values of a file of [`Parallel::save`], or of [`Program::save`] of the same step in
    /// one process. All ranks call this and read the file, which it returns. `accept` sees the file before anything
    /// changes.
    ///
    /// # Errors
    /// On all ranks, the first error of any: the file cannot be read, is damaged, has other tensors than the program,
    /// or is not accepted. Then nothing has changed.
    pub fn load(
        &mut self,
        program: &mut Program,
        path: impl AsRef<Path>,
        accept: impl FnOnce(&Loaded) -> Result<()>,
    ) -> Result<Loaded> {
        let path = path.as_ref();
        let checked = Loaded::open_within(path, self.part().most_bytes(program, MORE)).and_then(|file| {
            let fits = self.part().check(program, &file).and_then(|()| accept(&file));
            fits.map(|()| file).map_err(|e| e.context(path.display()))
        });
        let (done, file) = match checked {
            Ok(file) => (Ok(()), Some(file)),
            Err(e) => (Err(e), None),
        };
        self.share_result(done)?;
        let file = file.ok_or_else(|| super::refused("this rank read no file: a bug of arenagrad"))?;
        self.part().copy(program, &file)?;
        self.restart();
        Ok(file)
    }
}
