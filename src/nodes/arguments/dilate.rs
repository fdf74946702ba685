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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Value;
    use crate::nodes::{Builder, DType};

    #[test]
    fn only_axes_of_several_elements_grow() {
        let g = Builder::new("dilate");
        for (from, steps, to) in
            [([2, 1, 3], [3, 2, 1], [4, 1, 3]), ([1, 3, 2], [2, 2, 4], [1, 5, 5]), ([0, 2, 1], [2, 3, 1], [0, 4, 1])]
        {
            assert_eq!(dilate(g.full(1.0, from, DType::F32), &steps).dims()[..], to, "{from:?} {steps:?}");
        }
        let x = g.input("x", [1, 3], DType::F32);
        for steps in [[1, 1], [7, 1]] {
            assert_eq!(dilate(x, &steps).v, x.v, "nothing is written for {steps:?}");
        }
        assert_eq!(g.error(), None);
        // What an error left has no axes.
        assert!(!dilate(g.var(Value::NONE), &[2, 2]).is_some());
    }
}
