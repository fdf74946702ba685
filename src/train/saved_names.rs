//! Names of what a trainer adds to a checkpoint, and their bounds.

/// Name of the checkpoint's tensor of counters, `i64[6]`: version, step, epoch, position, seed, batch. Of a stream the
/// position counts batches, and the batch is 0.
pub const CURSOR: &str = "train.cursor";
/// Number of examples of which batches are made, `i64[1]`. Absent of a stream.
pub const EXAMPLES: &str = "train.examples";
/// The rate of the last step, `f64[1]`. Absent before the first.
pub const LAST_RATE: &str = "train.last_rate";
/// Number of batches that were taken of a stream, `i64[1]`.
pub const STREAM: &str = "train.stream";
/// What becomes of partial batches, `i64[1]`: 1 for padded ones, 2 for short ones. Absent if they are dropped.
pub const PARTIAL: &str = "train.partial";
/// What the rate depends on, `f64[2]`: last loss, last metric; with a plateau `f64[6]`: also its rate, the best metric,
/// the bad reports and those left of the cooldown. Absent if the rate depends on the step alone.
pub const RATE: &str = "train.rate";
/// Number of ranks whose gradients were summed, `i64[1]`. Absent of a run of one process.
pub const RANKS: &str = "train.ranks";
/// Begins the name of numbers of [`Trainer::kept`](crate::train::Trainer::kept).
pub const KEPT: &str = "train.kept.";

/// Largest number of steps of a run: 2⁵³, up to which an f64 is exact. Rates are computed in f64.
pub const MAX_STEPS: u64 = 1 << 53;

/// Whether a checkpoint's tensor of this name is the trainer's, not the program's.
pub(in crate::train) fn is_saved_trainer_tensor(name: &str) -> bool {
    [CURSOR, EXAMPLES, LAST_RATE, STREAM, PARTIAL, RATE, RANKS].contains(&name) || name.starts_with(KEPT)
}
