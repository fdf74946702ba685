//! Ops of the other domains: the few of classical learning that are tensors, and steps of optimisers.

use super::{Entry, moved, same};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use arenagrad::graph::{DType, Var};

pub const OPS: &[Entry] = &[
    same("Binarizer", |c| {
        let x = c.x(0)?;
        one(x.greater(c.float("threshold", 0.0)).cast(x.dtype()))
    }),
    moved("ArrayFeatureExtractor", |c| {
        let (x, at) = (c.x(0)?, c.x(1)?);
        one(x.gather(at.reshape([at.numel()]), -1))
    }),
];

pub const TRAINING: &[Entry] = &[
    same("Adagrad", |c| {
        steps(c, 2, |p, r| {
            let [x, g, h] = [p[0], p[1], p[2]];
            let rate = r / (1.0 + c.x(1)?.cast(x.dtype()) * c.float("decay_factor", 0.0));
            let g = g + x * c.float("norm_coefficient", 0.0);
            let h = h + g * g;
            Ok(vec![x - rate * g / (h.sqrt() + c.float("epsilon", 0.0)), h])
        })
    }),
    same("Momentum", |c| {
        steps(c, 2, |p, r| {
            let [x, g, v] = [p[0], p[1], p[2]];
            let (alpha, beta) = (c.float("alpha", 0.9), c.float("beta", 1.0));
            let g = g + x * c.float("norm_coefficient", 0.0);
            let first = c.x(1)?.equal(0.0);
            let factor = first.select(x.builder().full(1.0, [], x.dtype()), x.builder().full(beta, [], x.dtype()));
            let v = v * alpha + g * factor;
            let way = if c.text("mode", "standard") == "nesterov" { g + v * alpha } else { v };
            Ok(vec![x - r * way, v])
        })
    }),
    same("Adam", |c| {
        steps(c, 3, |p, r| {
            let [x, g, v, h] = [p[0], p[1], p[2], p[3]];
            let (a, b) = (c.float("alpha", 0.9), c.float("beta", 0.999));
            let g = g + x * c.float("norm_coefficient", 0.0);
            let (v, h) = (v * a + g * (1.0 - a), h * b + g * g * (1.0 - b));
            let t = c.x(1)?.cast(DType::F64);
            let power = |k: f64| 1.0 - x.builder().full(k, [], DType::F64).pow(t);
            let ratio = (power(b).sqrt() / power(a)).cast(x.dtype());
            let rate = c.x(1)?.greater(0.0).select(r * ratio, r);
            let x =
                (x - rate * v / (h.sqrt() + c.float("epsilon", 0.0))) * (1.0 - c.float("norm_coefficient_post", 0.0));
            Ok(vec![x, v, h])
        })
    }),
];

/// Steps of all tensors: operands are the rate, the number of steps, and then `x`, gradients and `states − 1` more for
/// each tensor, kind by kind.
fn steps<'g>(c: &Cx<'_, 'g>, states: usize, f: impl Fn(&[Var<'g>], Var<'g>) -> Result<Vec<Var<'g>>>) -> Out<'g> {
    let kinds = states + 1;
    let all = c.args.len().saturating_sub(2);
    if all == 0 || !all.is_multiple_of(kinds) {
        return c.wrong(format!("{all} tensors are no multiple of {kinds}"));
    }
    let (n, rate) = (all / kinds, c.x(0)?.reshape([]));
    let mut outs: Vec<Vec<Var<'g>>> = vec![Vec::new(); states];
    for i in 0..n {
        let of_one = (0..kinds).map(|k| c.x(2 + k * n + i)).collect::<Result<Vec<_>>>()?;
        outs.iter_mut().zip(f(&of_one, rate)?).for_each(|(list, v)| list.push(v));
    }
    Ok(outs.concat())
}
