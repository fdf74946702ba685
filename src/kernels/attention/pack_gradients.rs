//! Joins the gradients of q, k and v into rows, in the layout of an operand that has q, k and v in one row.
//!
//! Invariant: elements only move. Used by the lowering of the backward op of attention whose q, k and v are one
//! operand.

use super::attention_shape::{AttentionShape, Element, PACK_ROWS};
use crate::abi::Args;
use crate::by_dtype::by_dtype;

/// Row (b, i) of the result is the rows of q's heads, of k's heads, of v's heads. There are as many keys as queries.
///
/// Reads `[batch, heads, queries, width]`, `[batch, kv_heads, queries, width]`, `[batch, kv_heads, queries,
/// value_width]`; writes `[batch, queries, heads·width + kv_heads·(width + value_width)]`,
/// [`AttentionShape::pack_gradients_per_unit`]; params
/// [`AttentionShape`].
pub fn pack_gradients_kernel<T: Element>(args: &mut Args<'_>) {
    let p = AttentionShape::from_words(args.params());
    let from = [0, 1, 2].map(|i| args.read::<T>(i));
    let parts = [(p.heads, p.width), (p.kv_heads, p.width), (p.kv_heads, p.value_width)];
    let first = args.units().start * PACK_ROWS;
    for (r, row) in args.write::<T>(0).chunks_exact_mut(p.packed_row().max(1)).enumerate() {
        let (b, i) = ((first + r) / p.queries, (first + r) % p.queries);
        let mut rest = row;
        for (from, (heads, width)) in from.iter().zip(parts) {
            let (part, later) = rest.split_at_mut(heads * width);
            rest = later;
            for (h, to) in part.chunks_exact_mut(width).enumerate() {
                to.copy_from_slice(&from[((b * heads + h) * p.queries + i) * width..][..width]);
            }
        }
    }
}

by_dtype!(pack_gradients_kernel_for = pack_gradients_kernel::<floats>);
