//! The checkpoint of a trainer: its entries beside the program's params and states, and how they are read back.
//!
//! Invariant: everything of a file is checked before anything of the trainer changes.

use super::kept::{KEPT_LIMIT, Kept, read_saved_numbers};
use super::{Feed, Trainer};
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use crate::train::Partial;
use crate::train::checkpoint::{self, Digest, Entry, Loaded, Tensor};
use crate::train::parallel::files::{Part, unknown_saved_tensor};
use crate::train::plateau::PlateauState;
use crate::train::saved_names::{CURSOR, EXAMPLES, KEPT, LAST_RATE, MAX_STEPS, PARTIAL, RANKS, RATE, STREAM};
use crate::train::stream_source::StreamPosition;
use std::path::Path;

/// Version of the cursor.
const VERSION: u64 = 1;

/// The counters of a checkpoint: the elements of [`CURSOR`], in order.
#[derive(Clone, Copy)]
struct SavedTrainerCursor {
    version: u64,
    /// Steps done.
    step: u64,
    epoch: u64,
    /// Examples of the epoch that were taken, or batches of a stream's epoch.
    position: u64,
    seed: u64,
    batch: u64,
}

impl SavedTrainerCursor {
    fn to_words(self) -> [u64; 6] {
        [self.version, self.step, self.epoch, self.position, self.seed, self.batch]
    }

    fn from_words([version, step, epoch, position, seed, batch]: [u64; 6]) -> SavedTrainerCursor {
        SavedTrainerCursor { version, step, epoch, position, seed, batch }
    }
}

/// What the rate of a checkpoint depends on.
struct SavedTrainerRate {
    loss: f64,
    metric: f64,
    plateau: PlateauState,
}

impl SavedTrainerRate {
    fn to_words(&self) -> [f64; 6] {
        let p = &self.plateau;
        // The counts are exact: a run has fewer reports than an f64 has integers.
        [self.loss, self.metric, p.lr, p.best, p.bad as f64, p.cooldown as f64]
    }

    fn from_words([loss, metric, lr, best, bad, cooldown]: [f64; 6]) -> Result<SavedTrainerRate> {
        let count = |x: f64| x >= 0.0 && x.fract() == 0.0 && x <= MAX_STEPS as f64;
        if !(lr.is_finite() && lr >= 0.0 && !best.is_nan() && count(bad) && count(cooldown)) {
            let text = format!("{RATE} has rate {lr}, best metric {best}, {bad} bad reports, cooldown {cooldown}");
            return Err(Error::new(Kind::Data, text));
        }
        let plateau = PlateauState { lr, best, bad: bad as u64, cooldown: cooldown as u64 };
        Ok(SavedTrainerRate { loss, metric, plateau })
    }
}

/// The number of a choice in [`PARTIAL`].
fn saved_trainer_partial(p: Partial) -> u64 {
    match p {
        Partial::Drop => 0,
        Partial::Pad => 1,
        Partial::Short => 2,
    }
}

/// What a file says of the trainer, checked.
struct RestoredTrainer {
    cursor: SavedTrainerCursor,
    taken: u64,
    rate: Option<SavedTrainerRate>,
    last_rate: Option<f64>,
    kept: Vec<Kept>,
}

impl Trainer {
    /// The present counters.
    fn saved_cursor(&self) -> SavedTrainerCursor {
        let (epoch, position, batch) = match &self.feed {
            Feed::Shuffled(b) => (b.cursor().0, b.cursor().1, b.batch() as u64),
            Feed::Stream(s) => (s.at.epoch, s.at.batch, 0),
        };
        SavedTrainerCursor { version: VERSION, step: self.step, epoch, position, seed: self.seed, batch }
    }

    /// The present choice for partial batches, as a number.
    fn saved_partial(&self) -> u64 {
        match &self.feed {
            Feed::Shuffled(b) => saved_trainer_partial(b.partial_choice()),
            Feed::Stream(_) => 0,
        }
    }

    /// Number of examples of which batches are made; 0 of a stream.
    fn saved_examples(&self) -> u64 {
        match &self.feed {
            Feed::Shuffled(b) => b.examples() as u64,
            Feed::Stream(_) => 0,
        }
    }

    /// Number of elements of [`RATE`].
    fn saved_rate_words(&self) -> usize {
        if self.rate.plateau().is_some() { 6 } else { 2 }
    }

    /// Writes params, states and what the trainer counts and keeps to `path`, as a whole or not at all. Of several
    /// ranks the first one writes its values; all call this, and an error of one is an error of all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.save_after(path.as_ref(), Ok(()))
    }

    /// Writes the file of [`Trainer::save`]; `owned` are the states that only one rank has.
    pub(super) fn write_file(&self, path: &Path, owned: &[Tensor]) -> Result<()> {
        let (cursor, partial, taken) = (self.saved_cursor().to_words(), [self.saved_partial()], [self.batches_taken()]);
        let rate = SavedTrainerRate { loss: self.last_loss, metric: self.metric, plateau: self.plateau }.to_words();
        let rate_words = [self.saved_rate_words()];
        let (examples, last_rate) = ([self.saved_examples()], [self.last_rate.unwrap_or_default()]);
        let names: Vec<String> = self.kept.iter().map(|k| format!("{KEPT}{}", k.name)).collect();
        let sizes: Vec<[usize; 1]> = self.kept.iter().map(|k| [k.numbers.len()]).collect();
        let ranks = [self.ranks() as u64];
        // No step reads the gradients of the one before.
        let mut all = self.part().entries(&self.program, owned)?;
        let mut put = |name, dtype, dims, bytes| all.push(Entry { name, dtype, dims, bytes });
        put(CURSOR, DType::I64, &[6], bytemuck::cast_slice(&cursor));
        if examples != [0] {
            put(EXAMPLES, DType::I64, &[1], bytemuck::cast_slice(&examples));
        }
        if self.last_rate.is_some() {
            put(LAST_RATE, DType::F64, &[1], bytemuck::cast_slice(&last_rate));
        }
        if ranks != [1] {
            put(RANKS, DType::I64, &[1], bytemuck::cast_slice(&ranks));
        }
        if partial != [0] {
            put(PARTIAL, DType::I64, &[1], bytemuck::cast_slice(&partial));
        }
        if matches!(self.feed, Feed::Stream(_)) {
            put(STREAM, DType::I64, &[1], bytemuck::cast_slice(&taken));
        }
        if self.rate.has_state() {
            put(RATE, DType::F64, &rate_words, bytemuck::cast_slice(&rate[..rate_words[0]]));
        }
        for ((name, dims), k) in names.iter().zip(&sizes).zip(&self.kept) {
            put(name, DType::F64, dims, bytemuck::cast_slice(&k.numbers));
        }
        checkpoint::save(path, &all)
    }

    /// Continues from a checkpoint of the same graph, seed, batch and number of examples, and returns whether the file
    /// holds a digest.
    /// Fails if the file is damaged, belongs to another run, or has counters that no run reaches. A failure changes
    /// nothing. Of several ranks each reads the file, and an error of one is an error of all.
    pub fn restore(&mut self, path: impl AsRef<Path>) -> Result<Digest> {
        let read = self.read_file(path.as_ref());
        self.share_result(read)
    }

    fn read_file(&mut self, path: &Path) -> Result<Digest> {
        let most = self.part().most_bytes(&self.program, 8 * KEPT_LIMIT as u64);
        let file = Loaded::open_within(path, most)?;
        self.restore_from(&file).map_err(|e| e.context(path.display()))?;
        Ok(file.digest())
    }

    fn restore_from(&mut self, file: &Loaded) -> Result<()> {
        let RestoredTrainer { cursor, taken, rate, last_rate, kept } = self.check_trainer_tensors(file)?;
        self.part().check(&self.program, file)?;
        match &mut self.feed {
            // A position that no epoch comes to is refused before anything moves.
            Feed::Shuffled(b) => b.seek(cursor.epoch, cursor.position)?,
            Feed::Stream(s) => {
                (s.at, s.taken) = (StreamPosition { epoch: cursor.epoch, batch: cursor.position }, taken);
                s.there = false;
            }
        }
        (self.step, self.last_rate, self.kept) = (cursor.step, last_rate, kept);
        if let Some(r) = rate {
            (self.last_loss, self.metric, self.plateau) = (r.loss, r.metric, r.plateau);
        }
        let part = self.parallel.as_ref().map_or(Part { rank: 0, split: false, owned: &[] }, |p| p.part());
        part.copy(&mut self.program, file)
    }

    /// Reads and checks what the file says of the trainer.
    fn check_trainer_tensors(&self, file: &Loaded) -> Result<RestoredTrainer> {
        let words: [u64; 6] = bytemuck::pod_read_unaligned(file.expect(CURSOR, DType::I64, &[6])?.bytes);
        let (read, own) = (SavedTrainerCursor::from_words(words), self.saved_cursor());
        let same = |what: &str, theirs: u64, ours: u64| {
            let text = || format!("the checkpoint has {what} {theirs}, this run has {ours}");
            if theirs == ours { Ok(()) } else { Err(Error::new(Kind::Data, text())) }
        };
        same("version", read.version, own.version)?;
        if !self.rescale {
            let ranks = match file.find(RANKS) {
                Some(_) => bytemuck::pod_read_unaligned(file.expect(RANKS, DType::I64, &[1])?.bytes),
                None => 1,
            };
            same("number of ranks", ranks, self.ranks() as u64)?;
        }
        same("seed", read.seed, own.seed)?;
        if (read.batch == 0) != (own.batch == 0) {
            let kind = |batch| if batch == 0 { "a stream" } else { "shuffled batches" };
            let text = format!("the checkpoint is of {}, this run is of {}", kind(read.batch), kind(own.batch));
            return Err(Error::new(Kind::Data, text));
        }
        same("batch", read.batch, own.batch)?;
        // Files of older versions do not say it.
        if file.find(EXAMPLES).is_some() {
            let read = bytemuck::pod_read_unaligned(file.expect(EXAMPLES, DType::I64, &[1])?.bytes);
            same("number of examples", read, self.saved_examples())?;
        }
        let last_rate = match file.find(LAST_RATE) {
            Some(_) => Some(bytemuck::pod_read_unaligned(file.expect(LAST_RATE, DType::F64, &[1])?.bytes)),
            None => None,
        };
        let partial = match file.find(PARTIAL) {
            Some(_) => bytemuck::pod_read_unaligned(file.expect(PARTIAL, DType::I64, &[1])?.bytes),
            None => 0,
        };
        same("kind of partial batches", partial, self.saved_partial())?;
        let taken = match &self.feed {
            Feed::Shuffled(b) => b.before((read.epoch, read.position)),
            Feed::Stream(_) => bytemuck::pod_read_unaligned(file.expect(STREAM, DType::I64, &[1])?.bytes),
        };
        let SavedTrainerCursor { step, epoch, position, .. } = read;
        let beyond = matches!(self.feed, Feed::Stream(_)) && (position > taken || epoch > MAX_STEPS);
        // Each step takes one batch, so no run has taken fewer batches than steps.
        if step > taken || taken > MAX_STEPS || beyond {
            let text = format!(
                "the checkpoint has step {step} at epoch {epoch}, position {position}, before which are {taken} batches of \
                 this data; there is one a step, and {MAX_STEPS} at most"
            );
            return Err(Error::new(Kind::Data, text));
        }
        let rate = match self.rate.has_state() {
            true => {
                let read = file.expect(RATE, DType::F64, &[self.saved_rate_words()])?.bytes;
                let now = SavedTrainerRate { loss: self.last_loss, metric: self.metric, plateau: self.plateau };
                let mut words = now.to_words();
                words[..self.saved_rate_words()].copy_from_slice(&bytemuck::pod_collect_to_vec::<u8, f64>(read));
                Some(SavedTrainerRate::from_words(words)?)
            }
            false => None,
        };
        let stray = |name: &str| match name {
            STREAM => !matches!(self.feed, Feed::Stream(_)),
            RATE => !self.rate.has_state(),
            _ => false,
        };
        if let Some(e) = file.entries().find(|e| stray(e.name)) {
            return Err(unknown_saved_tensor(e.name));
        }
        Ok(RestoredTrainer { cursor: read, taken, rate, last_rate, kept: read_saved_numbers(file)? })
    }
}
