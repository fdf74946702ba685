//! Dilation: zeros between neighbours, written in reshapes, pads and slices.

use crate::nodes::ir::builder::Var;

/// Puts `steps[i] − 1` zeros between neighbours along axis `i`. An axis of length 1 stays as it is.
pub fn dilate<'g>(x: Var<'g>, steps: &[usize]) -> Var<'g> {
    let mut x = x;
    for (i, &p) in steps.iter().enumerate().filter(|(_, p)| **p > 1) {
        let d = x.dims();
        if d.get(i).is_none_or(|&n| n <= 1) {
            continue;
        }
        // [.., n, ..] → [.., n, 1, ..] → pad to [.., n, p, ..] → [.., n·p, ..] → cut the zeros after the last.
        let mut split = d.to_vec();
        split.insert(i + 1, 1);
        let mut high = vec![0; split.len()];
        high[i + 1] = p - 1;
        let mut joined = d.to_vec();
        joined[i] = d[i] * p;
        let wide = x.reshape(&split).pad(&vec![0; split.len()], &high, 0.0).reshape(&joined);
        x = wide.narrow(i as i64, 0, d[i] * p - (p - 1));
    }
    x
}
