//! Recurrences along a sequence whose state is a matrix, each with a backward op that computes all gradients in one
//! sweep.
//!
//! Invariant: a backward op reads no state of the forward op. It computes the states again from the operands, and its
//! scratch grows with the square root of the number of steps. The fused ops of `selective_scan_kept` are exceptions.
//! Decompositions are scans. `ssd` is made of other ops.

pub mod attrs;
pub mod gated_delta;
mod gated_delta_steps;
pub mod lower;
pub mod selective_scan;
pub mod selective_scan_kept;
mod selective_scan_steps;
pub mod ssd;
pub mod var;

use crate::kernels::cost_model::CostClass;
use crate::nodes::ir::pack::Pack;

/// Recurrences with a state of their own, and their gradients. An estimate: half the rate of convolutions and less.
pub const SWEEP: CostClass = CostClass::new(250, 60_000, 30_000);

/// What the engine knows of the family beside its definitions.
pub static PACK: Pack = Pack::new("recurrent").costs(&[("RECURRENT", SWEEP)]);
