//! Params of the kernels of the selective scan, and what follows from them: units, scratch, kept states.

use super::lanes::LANES;
use super::sequence_units::{SequenceUnits, sequence_stretch};
use crate::params::params;
use crate::scratch::scratch;
use std::ops::Range;

/// The most runs of channels: a sum over the channels has no more parts.
const RUNS: usize = 32;

/// A unit has whole groups of vectors if this many runs remain.
const ENOUGH_RUNS: usize = 8;

/// Steps whose rows a vector copies at a time.
pub(super) const BLOCK: usize = 16;

/// Vectors of a step of the forward kernel.
pub(super) const FORWARD_ROW: usize = 5;
/// Vectors of a step of the backward kernel.
pub(super) const BACKWARD_ROW: usize = 8;

/// Neighbouring vectors that a kernel takes through the steps together: their rows are in neighbouring cache lines.
pub(super) const GROUP: usize = 2;

params! {
    /// Params of the kernels of the selective scan.
    pub struct SelectiveScan {
        /// Sequences.
        pub batch: usize,
        /// Steps of each.
        pub steps: usize,
        /// Channels, at least 1.
        pub channels: usize,
        /// Numbers of the state of a channel, at least 1.
        pub states: usize,
        /// Whether D is an operand.
        pub d: bool,
        /// Whether h_0 is an operand; else it is 0.
        pub h0: bool,
        /// Whether the backward kernel reads the gradient of the last state.
        pub last: bool,
        /// Steps between two states that a result or an operand keeps; 0 if none does.
        pub keep: usize,
    }
}

scratch! {
    /// The scratch of a vector of channels, in vectors.
    pub(super) struct VectorScratch(p: &SelectiveScan) {
        rates: p.states,
        /// The state.
        h: p.states,
        /// The steps of a block.
        rows: BLOCK * FORWARD_ROW,
    }
}

scratch! {
    /// The scratch of a group of vectors.
    pub(super) struct GroupScratch(p: &SelectiveScan) {
        vectors: (p.group_vectors() * LANES).saturating_mul(VectorScratch::len(p)),
        /// B and C of a block.
        numbers: (2 * BLOCK).saturating_mul(p.states),
    }
}

impl SelectiveScan {
    /// How units divide the channels.
    pub fn units(&self) -> SequenceUnits {
        let vectors = self.channels.div_ceil(LANES);
        let width = match vectors / GROUP >= ENOUGH_RUNS {
            true => vectors.div_ceil(RUNS).next_multiple_of(GROUP),
            false => 1,
        };
        SequenceUnits { batch: self.batch, channels: self.channels, width: width * LANES }
    }

    /// Vectors of the largest group.
    pub(super) fn group_vectors(&self) -> usize {
        let units = self.units();
        let channels = if units.by_batch() { self.channels } else { units.width };
        channels.div_ceil(LANES).min(GROUP)
    }

    /// Elements of scratch for each thread of the forward kernel.
    pub fn scratch(&self) -> usize {
        GroupScratch::len(self)
    }

    /// Steps between two states that are kept. If only the backward kernel keeps them, there are at least those of a
    /// block.
    pub fn stretch(&self) -> usize {
        if self.keep > 0 { self.keep } else { steps_between_states(self.steps).max(BLOCK) }
    }

    /// States that are kept: those before each stretch.
    pub fn stretches(&self) -> usize {
        self.steps.div_ceil(self.stretch())
    }

    /// The steps of each stretch.
    pub fn stretches_of_steps(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + ExactSizeIterator + use<> {
        let (steps, stretch) = (self.steps, self.stretch());
        (0..self.stretches()).map(move |k| k * stretch..((k + 1) * stretch).min(steps))
    }

    /// Elements of B̄ and of C̄ that a unit of the backward kernel writes.
    pub fn sums_per_unit(&self) -> usize {
        let member = self.steps * self.states;
        if self.units().by_batch() { member } else { self.batch * member }
    }
}

/// The number of steps between two states that are kept for a gradient: half of the root of the steps, at least 1;
/// whole blocks if it is more than one. With the whole root fewer states would be kept, but the rows of a stretch would
/// not fit into a cache.
pub fn steps_between_states(steps: usize) -> usize {
    match sequence_stretch(steps).div_ceil(2) {
        few @ ..=BLOCK => few,
        many => many.next_multiple_of(BLOCK),
    }
}

impl SelectiveScan {
    /// Steps for which there is room: those of a stretch, and a few so that sums are whole vectors.
    pub(super) fn backward_padded_stretch(&self) -> usize {
        self.stretch().next_multiple_of(LANES)
    }

    /// Numbers of the states of a stretch.
    fn backward_numbers(&self) -> usize {
        self.backward_padded_stretch().saturating_mul(self.states)
    }

    /// Elements of scratch for each thread of the backward kernel.
    pub fn backward_scratch(&self) -> usize {
        ScanBackwardGroupScratch::len(self)
    }
}

scratch! {
    /// The scratch of a vector of channels, in vectors.
    pub(super) struct ScanBackwardVectorScratch(p: &SelectiveScan) {
        rates: p.states,
        before: p.states,
        carry: p.states,
        da: p.states,
        rows: BACKWARD_ROW * p.stretch(),
        kept: if p.keep > 0 { 0 } else { p.stretches() }.saturating_mul(p.states),
    }
}

scratch! {
    /// The scratch of a group of vectors.
    pub(super) struct ScanBackwardGroupScratch(p: &SelectiveScan) {
        vectors: (p.group_vectors() * LANES).saturating_mul(ScanBackwardVectorScratch::len(p)),
        terms: p.backward_padded_stretch().saturating_mul(LANES),
        turned: p.backward_numbers(),
        sums_b: p.backward_numbers(),
        sums_c: p.backward_numbers(),
        /// B and C of a stretch.
        numbers: p.backward_numbers().saturating_mul(2),
    }
}
