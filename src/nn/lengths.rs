//! Sequences of several lengths in one batch: masks of the steps that count.

use crate::error::Kind;
use crate::nodes::{DType, Var};

/// `lengths`, each of which lies in 0..=`most` when it is read: another is an error of the step.
pub(super) fn check_at_most<'g>(lengths: Var<'g>, most: usize) -> Var<'g> {
    lengths.g.iota(0, [most.saturating_add(1)], DType::I64).gather(lengths, 0)
}

/// Whether each of `max` places of a sequence is before the sequence's end: bool `[batch, max]`, true where place <
/// length, of `lengths` `[batch]`, `i32` or `i64`. A length outside of 0..=`max` is an error of the step.
///
/// ```
/// use arenagrad::prelude::*;
///
/// let g = Builder::new("mask");
/// let lengths = g.input("lengths", [3], DType::I32);
/// nn::sequence_mask(lengths, 4).cast(DType::I32).tap("mask");
/// let mut p = Session::new().compile(&g.finish([])?)?;
/// p.values_mut::<i32>("lengths")?.copy_from_slice(&[2, 0, 4]);
/// p.step()?;
/// assert_eq!(p.values::<i32>("mask")?, [1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn sequence_mask(lengths: Var<'_>, max: usize) -> Var<'_> {
    let g = lengths.g;
    g.with_caller(|| {
        if lengths.rank() != 1 || !matches!(lengths.dtype(), DType::I32 | DType::I64) {
            return g.fail(Kind::Shape, format!("sequence_mask({lengths:?}): lengths are i32 or i64 [batch]"));
        }
        let batch = lengths.numel();
        g.iota(1, [batch, max], DType::I64).less(check_at_most(lengths, max).unsqueeze(1))
    })
}
