//! The shapes of q, k and v in packed rows.

use super::attrs::{AttentionAttrs, Layout};
use super::geometry::attention_count;
use crate::arena::dims::Dims;
use crate::ensure;

/// The sizes along the last axis of q, k and v in packed rows of `d`.
pub fn packed_part_widths(d: &[usize], attrs: &AttentionAttrs) -> Result<[usize; 3], String> {
    ensure!(attrs.layout == Layout::Bsd, "packed q, k and v have layout bsd alone");
    let &[_, _, all] = d else { return Err(format!("packed q, k and v have rank 3, not {}", d.len())) };
    let (heads, kv_heads) = (attention_count("heads", attrs.heads)?, attention_count("kv_heads", attrs.kv_heads)?);
    let parts = kv_heads.checked_mul(2).and_then(|kv| kv.checked_add(heads)).ok_or("too many heads")?;
    ensure!(all.is_multiple_of(parts), "heads of q, k and v, {parts} together, do not divide a row of {all}");
    let width = all / parts;
    Ok([heads * width, kv_heads * width, kv_heads * width])
}

/// The shapes of q, k and v.
pub fn packed_parts(d: &Dims, attrs: &AttentionAttrs) -> Result<[Dims; 3], String> {
    let shape = |w| Dims::new(&[d[0], d[1], w]).ok_or("too many axes");
    let [q, k, v] = packed_part_widths(d, attrs)?;
    Ok([shape(q)?, shape(k)?, shape(v)?])
}
