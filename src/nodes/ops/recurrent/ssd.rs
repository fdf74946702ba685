//! State-space duality (Mamba2): the selective scan with one decay for each head, as products of matrices over chunks
//! of the sequence. It is made of other ops.
//!
//! Invariant: a decay e^(l_i − l_j) between two steps has an exponent that is a difference of running sums of Δ·A
//! inside of one chunk. The exponent is masked before the exponential is computed, so no exponential overflows.

use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::Var;

/// Options of [`Var::ssd`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ssd<'g> {
    /// Steps of a chunk, 64 by default. Memory and time of the products inside of chunks grow with it; the number of
    /// steps from chunk to chunk shrinks.
    pub chunk: usize,
    /// The factor of x in y, `[heads]`; without it y has no such term.
    pub d: Option<Var<'g>>,
    /// The state before the first step, `[batch, heads, width, states]`; without it 0.
    pub h0: Option<Var<'g>>,
}

impl Default for Ssd<'_> {
    fn default() -> Self {
        Ssd { chunk: 64, d: None, h0: None }
    }
}

setters! {
    ['g] Ssd<'g> {
        chunk: usize,
        d: impl Into<Option<Var<'g>>> => d.into(),
        h0: impl Into<Option<Var<'g>>> => h0.into(),
    }
}

/// The sizes of a scan in chunks.
#[derive(Clone, Copy)]
struct SsdShape {
    batch: usize,
    steps: usize,
    heads: usize,
    width: usize,
    groups: usize,
    states: usize,
    /// Steps of a chunk.
    chunk: usize,
}

impl SsdShape {
    fn of(x: Var<'_>, [delta, a, b, c]: [Var<'_>; 4], opt: &Ssd<'_>) -> Result<SsdShape, String> {
        let (&[batch, steps, heads, width], &[_, _, groups, states]) = (&x.dims()[..], &b.dims()[..]) else {
            return Err(format!("x has shape {} and b has shape {}; both need rank 4", x.dims(), b.dims()));
        };
        let fits = groups > 0 && heads.is_multiple_of(groups);
        let given = [
            ("delta", Some(delta), vec![batch, steps, heads]),
            ("a", Some(a), vec![heads]),
            ("b", Some(b), vec![batch, steps, groups, states]),
            ("c", Some(c), vec![batch, steps, groups, states]),
            ("d", opt.d, vec![heads]),
            ("h0", opt.h0, vec![batch, heads, width, states]),
        ];
        for (what, x, want) in given.iter().filter_map(|(what, x, want)| Some((what, (*x)?, want))) {
            if x.dims()[..] != want[..] {
                return Err(format!("{what} has shape {}; {want:?} is needed", x.dims()));
            }
        }
        match (fits, opt.chunk) {
            (false, _) => Err(format!("{groups} groups of b and c do not divide {heads} heads")),
            (_, 0) => Err("chunk is 0; it must be at least 1".to_string()),
            _ => Ok(SsdShape { batch, steps, heads, width, groups, states, chunk: opt.chunk.min(steps.max(1)) }),
        }
    }

    /// Number of chunks.
    fn chunks(&self) -> usize {
        self.steps.div_ceil(self.chunk)
    }

    /// `x` `[batch, steps, groups·each, width]` as `[batch, chunks, groups, each, chunk, width]`. Steps behind the last
    /// one are 0: there Δ is 0, so the state stays.
    fn cut<'g>(&self, x: Var<'g>, each: usize, width: usize) -> Var<'g> {
        let x = x.reshape([self.batch, self.steps, self.groups, each, width]);
        let x = x.pad(&[0; 5], &[0, self.chunks() * self.chunk - self.steps, 0, 0, 0], 0.0);
        let x = x.reshape([self.batch, self.chunks(), self.chunk, self.groups, each, width]);
        x.transpose(&[0, 1, 3, 4, 2, 5])
    }

    /// The inverse of `cut`, for y.
    fn joined<'g>(&self, y: Var<'g>) -> Var<'g> {
        let y = y.transpose(&[0, 1, 4, 2, 3, 5]);
        let y = y.reshape([self.batch, self.chunks() * self.chunk, self.heads, self.width]);
        y.narrow(1, 0, self.steps)
    }
}

/// e^(l_i − l_j) for j ≤ i, else 0, from running sums l in the last axis.
fn decay_matrix<'g>(sums: Var<'g>) -> Var<'g> {
    (sums.unsqueeze(-1) - sums.unsqueeze(-2)).tril(0).exp().tril(0)
}

impl<'g> Var<'g> {
    /// The scan of a Mamba2 layer with this as x, `[batch, steps, heads, width]`: y of the same shape, and the last
    /// state, `[batch, heads, width, states]`. h ← e^(Δ·A)·h + Δ·x·Bᵀ and y = h·C + D·x at each step, with one number
    /// A for each head: `delta` is `[batch, steps, heads]`, `a` is `[heads]` and finite, and `b` and `c` are `[batch,
    /// steps, groups, states]`; neighbouring heads share a group.
    ///
    /// Chunks of the sequence are products of matrices; only the state between chunks is a loop. Source: Dao and Gu,
    /// "Transformers are SSMs".
    #[track_caller]
    pub fn ssd(self, delta: Var<'g>, a: Var<'g>, b: Var<'g>, c: Var<'g>, opt: Ssd<'g>) -> [Var<'g>; 2] {
        let g = self.g;
        let given = [Some(self), Some(delta), Some(a), Some(b), Some(c), opt.d, opt.h0];
        let given: Vec<Var<'g>> = given.into_iter().flatten().collect();
        if !g.owns("ssd", &given) || given.iter().any(|x| !x.is_some()) {
            return [g.var(crate::arena::Value::NONE); 2];
        }
        match SsdShape::of(self, [delta, a, b, c], &opt) {
            Ok(shape) => g.with_caller(|| scan_in_chunks(&shape, self, [delta, a, b, c], &opt)),
            Err(why) => [g.fail(Kind::Shape, format!("ssd({self:?}): {why}")); 2],
        }
    }
}

/// The scan of checked operands.
fn scan_in_chunks<'g>(s: &SsdShape, x: Var<'g>, [delta, a, b, c]: [Var<'g>; 4], opt: &Ssd<'g>) -> [Var<'g>; 2] {
    let each = s.heads / s.groups;
    // [batch, chunks, groups, heads of a group or 1, chunk, …].
    let [b, c] = [b, c].map(|x| s.cut(x, 1, s.states));
    let [steps, rates] = [delta, delta * a].map(|x| s.cut(x, each, 1));
    let inflow = s.cut(x, each, s.width) * steps;
    let sums = rates.squeeze(5).cumsum(4, false, false);
    let inside = (c.matmul(b.t()) * decay_matrix(sums)).matmul(inflow);
    // What a chunk adds to the state, and what it leaves of the state before it.
    let total = sums.narrow(4, s.chunk - 1, 1);
    let left = (total - sums).exp().unsqueeze(5);
    let added = (inflow * left).t().matmul(b);
    let first = opt.h0.unwrap_or_else(|| x.g.full(0.0, [s.batch, s.heads, s.width, s.states], x.dtype()));
    let first = first.reshape([s.batch, s.groups, each, s.width, s.states]);
    let by_chunk = [added, total.unsqueeze(5).exp()].map(|x| x.movedim(&[1], &[0]));
    let (last, before) = x.g.scan(&[first], &by_chunk, |h, chunk| (vec![h[0] * chunk[1] + chunk[0]], vec![h[0]]));
    let before = before[0].movedim(&[0], &[1]);
    let across = (c * sums.exp().unsqueeze(5)).matmul(before.t());
    let y = s.joined(inside + across);
    let y = opt.d.map_or(y, |d| y + x * d.unsqueeze(1));
    [y, last[0].reshape([s.batch, s.heads, s.width, s.states])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::builder::Builder;
    use crate::nodes::ir::dtype::DType;

    /// The shape of a scan with these numbers of steps, heads and groups, in chunks of `chunk`.
    fn shape(steps: usize, [heads, groups]: [usize; 2], chunk: usize) -> Result<SsdShape, String> {
        let g = Builder::new("ssd");
        let input = |name: &str, dims: &[usize]| g.input(name, dims, DType::F32);
        let x = input("x", &[2, steps, heads, 3]);
        let (delta, a) = (input("delta", &[2, steps, heads]), input("a", &[heads]));
        let [b, c] = ["b", "c"].map(|name| input(name, &[2, steps, groups, 5]));
        SsdShape::of(x, [delta, a, b, c], &Ssd::default().chunk(chunk))
    }

    #[test]
    fn a_chunk_is_no_longer_than_the_sequence() {
        assert_eq!(Ssd::default().chunk, 64);
        for (steps, chunk, want) in [(11, 4, [4, 3]), (8, 4, [4, 2]), (3, 64, [3, 1]), (1, 64, [1, 1]), (0, 64, [1, 0])]
        {
            let s = shape(steps, [4, 2], chunk).ok();
            assert_eq!(s.map(|s| [s.chunk, s.chunks()]), Some(want), "{steps} steps in chunks of {chunk}");
        }
    }

    #[test]
    fn groups_divide_the_heads_and_there_is_one() {
        assert!(shape(4, [4, 1], 2).is_ok() && shape(4, [4, 4], 2).is_ok());
        for (heads, groups) in [(4, 3), (4, 0), (0, 0)] {
            let want = format!("{groups} groups of b and c do not divide {heads} heads");
            assert_eq!(shape(4, [heads, groups], 2).err(), Some(want));
        }
    }
}
