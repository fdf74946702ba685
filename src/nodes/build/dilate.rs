//! Zeros between neighbours, written in views, pads and slices.

use crate::nodes::ir::builder::Var;

/// Puts `steps − 1` zeros between neighbours along each axis. What has no neighbour has no zeros, whatever the step.
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
