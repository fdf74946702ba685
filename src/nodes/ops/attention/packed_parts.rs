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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ops::attention::attrs::Mask;

    const ATTRS: AttentionAttrs = AttentionAttrs {
        layout: Layout::Bsd,
        heads: 4,
        kv_heads: 2,
        mask: Mask::None,
        window: 0,
        ahead: 0,
        top_left: false,
        scale: 0.0,
        softcap: 0.0,
        padding: false,
        bias: false,
        dropout: 0.0,
        stream: 0,
    };

    #[test]
    fn heads_of_q_k_and_v_have_one_width() {
        // 4 + 2 + 2 heads of 3.
        assert_eq!(packed_part_widths(&[2, 5, 24], &ATTRS), Ok([12, 6, 6]));
        assert_eq!(packed_part_widths(&[2, 5, 0], &ATTRS), Ok([0, 0, 0]));
        let parts = packed_parts(&Dims::new(&[2, 5, 24]).unwrap(), &ATTRS).unwrap();
        assert_eq!(parts.map(|d| d.to_vec()), [vec![2, 5, 12], vec![2, 5, 6], vec![2, 5, 6]]);
    }

    #[test]
    fn rows_that_heads_do_not_divide_are_refused() {
        let why = |d: &[usize], attrs: AttentionAttrs| packed_part_widths(d, &attrs).unwrap_err();
        let bhsd = AttentionAttrs { layout: Layout::Bhsd, ..ATTRS };
        assert_eq!(why(&[2, 5, 24], bhsd), "packed q, k and v have layout bsd alone");
        assert_eq!(why(&[5, 24], ATTRS), "packed q, k and v have rank 3, not 2");
        assert_eq!(why(&[2, 5, 23], ATTRS), "heads of q, k and v, 8 together, do not divide a row of 23");
        assert_eq!(why(&[2, 5, 24], AttentionAttrs { heads: 0, ..ATTRS }), "heads is 0; it must be at least 1");
        let many = AttentionAttrs { kv_heads: i64::MAX, heads: i64::MAX, ..ATTRS };
        assert_eq!(why(&[2, 5, 24], many), "too many heads");
    }
}
