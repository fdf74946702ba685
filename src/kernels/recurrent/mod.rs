//! Recurrences along a sequence whose state is a matrix: the selective scan and the gated delta rule, and their
//! adjoints.
//!
//! * `sequence_units`: how units divide a batch of sequences.
//! * `lanes`: sixteen neighbouring channels as one vector.
//! * [`selective_scan`], [`selective_scan_backward`]: a diagonal decay for each channel.
//! * [`selective_scan_params`], `selective_scan_rows`: what they share.
//! * [`gated_delta`], [`gated_delta_backward`]: a matrix for each head. In each step the matrix decays.
//!   Its product with the step's key is compared with the step's value, and the difference corrects the matrix.
//!
//! Invariants: a state is read and written by one unit alone, from the first step to the last, so bits do not depend on
//! threads. A backward kernel has a copy of the state before each stretch of steps, and computes the other states
//! again. The length of a stretch is of the order of √steps. So its memory grows with the square root of the number of
//! steps.

pub mod gated_delta;
pub mod gated_delta_backward;
mod lanes;
pub mod selective_scan;
pub mod selective_scan_backward;
pub mod selective_scan_params;
mod selective_scan_rows;
pub mod sequence_units;
#[cfg(test)]
mod tests;
