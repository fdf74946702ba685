//! Methods of [`Var`] that order elements, cut triangles, and continue tensors beyond their edges. All of them are
//! written in ops whose derivatives are there already.

use super::attrs::Attr;
use super::builder::Var;
use super::dtype::DType;
use super::opdef::Op;
use super::shaping::around;
use crate::error::Kind;

/// The longest axis that padding with the tensor's own elements makes: positions are i32.
const LONGEST: usize = 1 << 28;

/// How a tensor goes on beyond its edges, as `torch.nn.functional.pad` calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadMode {
    /// Mirrored at the edge element, which is not repeated: `c b | a b c | b a`.
    Reflect,
    /// The edge element again and again: `a a | a b c | c c`.
    Replicate,
    /// From the other end: `b c | a b c | a b`.
    Circular,
}

impl PadMode {
    /// The element that stands at `i` (from −low to n + high) of an axis of `n`.
    fn source(self, i: i64, n: i64) -> i64 {
        match self {
            PadMode::Reflect if i < 0 => -i,
            PadMode::Reflect if i >= n => 2 * (n - 1) - i,
            PadMode::Reflect => i,
            PadMode::Replicate => i.clamp(0, n - 1),
            PadMode::Circular => i.rem_euclid(n),
        }
    }

    /// The most that may be added to one side of an axis of `n`.
    fn most(self, n: usize) -> usize {
        match self {
            PadMode::Reflect => n.saturating_sub(1),
            PadMode::Replicate if n == 0 => 0,
            PadMode::Replicate => usize::MAX,
            PadMode::Circular => n,
        }
    }
}

impl<'g> Var<'g> {
    /// Positions (i32) of the elements along `axis` in sorted order. Equal elements keep their order; NaN stand last.
    #[track_caller]
    pub fn arg_sort(self, axis: i64, descending: bool) -> Var<'g> {
        self.with_axis_last("arg_sort", axis, |x| x.g.emit1(Op::ARG_SORT, &[x], &[Attr::Bool(descending)]))
    }

    /// The elements along `axis` in sorted order, and their positions (i32). Gradients go back to where the values
    /// were.
    #[track_caller]
    pub fn sort(self, axis: i64, descending: bool) -> (Var<'g>, Var<'g>) {
        let positions = self.arg_sort(axis, descending);
        (self.take_along_axis(positions, axis), positions)
    }

    /// The `k` largest elements along `axis`, largest first, and their positions (i32); the first of equals.
    #[track_caller]
    pub fn top_k(self, k: usize, axis: i64) -> (Var<'g>, Var<'g>) {
        let n = self.axis_len(axis).unwrap_or(k);
        if self.is_some() && k > n {
            let none = self.g.fail(Kind::Shape, format!("top_k({self:?}): axis {axis} has {n} elements, k is {k}"));
            return (none, none);
        }
        let positions = self.arg_sort(axis, true).narrow(axis, 0, k);
        (self.take_along_axis(positions, axis), positions)
    }

    /// Zero above diagonal `k` of the last two axes (0: the main one, 1: the one above it).
    #[track_caller]
    pub fn tril(self, k: i64) -> Var<'g> {
        self.triangle(Op::LE, k)
    }

    /// Zero below diagonal `k` of the last two axes.
    #[track_caller]
    pub fn triu(self, k: i64) -> Var<'g> {
        self.triangle(Op::GE, k)
    }

    /// The elements whose column is `side` of their row + `k`: `LE` or `GE`.
    #[track_caller]
    fn triangle(self, side: Op, k: i64) -> Var<'g> {
        // All nodes come from the line that asks for it.
        self.g.held(|| {
            let name = if side == Op::LE { "tril" } else { "triu" };
            let (d, r) = (self.dims(), self.rank());
            if !self.is_some() || r < 2 {
                return match self.is_some() {
                    true => self.g.fail(Kind::Shape, format!("{name}({self:?}): rank 2 or more is needed")),
                    false => self,
                };
            }
            let place = |axis| self.g.iota(axis, [d[r - 2], d[r - 1]], DType::I64);
            // Further diagonals than the corners are as the one beyond them, and its number is exact.
            let k = k.clamp(-(d[r - 2] as i64) - 1, d[r - 1] as i64 + 1);
            let (row, col) = (place(0), place(1));
            let keep = col.pair(side, row + k as f64);
            keep.broadcast(d).select(self, self.full_like(0.0))
        })
    }

    /// The elements moved by `shift` places along `axis`; those that leave at one end come in at the other.
    #[track_caller]
    pub fn roll(self, shift: i64, axis: i64) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        let Some(n) = self.axis_len(axis) else {
            return self.g.fail(Kind::Shape, format!("roll({self:?}): axis {axis} is outside rank {}", self.rank()));
        };
        if n == 0 {
            return self;
        }
        let cut = n - shift.rem_euclid(n as i64) as usize;
        if cut == n {
            return self;
        }
        self.narrow(axis, cut, n - cut).concat(&[self.narrow(axis, 0, cut)], axis)
    }

    /// The tensor `times[i]` times in a row along axis `i`.
    #[track_caller]
    pub fn tile(self, times: &[usize]) -> Var<'g> {
        let d = self.dims();
        if !self.is_some() {
            return self;
        }
        if times.len() != d.len() {
            return self.g.fail(Kind::Shape, format!("tile({self:?}): {} counts for rank {}", times.len(), d.len()));
        }
        let mut y = self;
        for (axis, &t) in times.iter().enumerate().filter(|(_, t)| **t != 1) {
            // One axis at a time: all at once would double the rank.
            let (now, (outer, n, inner)) = (y.dims(), around(&y.dims(), axis));
            let mut all = now.to_vec();
            all[axis] = n.saturating_mul(t);
            y = y.reshape([outer, 1, n * inner]).broadcast([outer, t, n * inner]).reshape(all);
            if !y.is_some() {
                return y;
            }
        }
        y
    }

    /// Adds `low[i]` elements before and `high[i]` after axis `i`, continuing the tensor as `mode` says.
    #[track_caller]
    pub fn pad_with(self, low: &[usize], high: &[usize], mode: PadMode) -> Var<'g> {
        let d = self.dims();
        if !self.is_some() {
            return self;
        }
        if low.len() != d.len() || high.len() != d.len() {
            let text = format!("pad({self:?}): {} and {} widths for rank {}", low.len(), high.len(), d.len());
            return self.g.fail(Kind::Shape, text);
        }
        let mut y = self;
        for (axis, &n) in d.iter().enumerate() {
            let (a, b) = (low[axis], high[axis]);
            let most = mode.most(n);
            if a > most || b > most || a.saturating_add(b).saturating_add(n) > LONGEST {
                let text =
                    format!("pad({self:?}): {a} and {b} elements beyond axis {axis} of {n}, {mode:?} gives {most}");
                return self.g.fail(Kind::Shape, text);
            }
            if a + b > 0 {
                let from: Vec<u8> = (-(a as i64)..(n + b) as i64)
                    .flat_map(|i| (mode.source(i, n as i64) as i32).to_le_bytes())
                    .collect();
                let from = self.g.constant_bytes(&from, [a + n + b], DType::I32);
                y = y.gather(from, axis as i64);
            }
        }
        y
    }

    /// The length of `axis`; `None` if there is no such axis.
    fn axis_len(self, axis: i64) -> Option<usize> {
        let r = self.rank() as i64;
        let at = if axis < 0 { axis + r } else { axis };
        usize::try_from(at).ok().and_then(|a| self.dims().get(a).copied())
    }

    /// `f` of this with `axis` moved last, moved back.
    #[track_caller]
    fn with_axis_last(self, name: &str, axis: i64, f: impl FnOnce(Var<'g>) -> Var<'g>) -> Var<'g> {
        // All nodes come from the line that asks for it.
        self.g.held(|| {
            if !self.is_some() {
                return self;
            }
            if self.axis_len(axis).is_none() {
                let text = format!("{name}({self:?}): axis {axis} is outside rank {}", self.rank());
                return self.g.fail(Kind::Shape, text);
            }
            let r = self.rank();
            let at = axis.rem_euclid(r as i64) as usize;
            if at == r - 1 {
                return f(self);
            }
            let mut perm: Vec<usize> = (0..r).collect();
            perm.swap(at, r - 1);
            f(self.transpose(&perm)).transpose(&perm)
        })
    }
}
