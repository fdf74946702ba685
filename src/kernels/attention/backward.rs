//! The backward kernel: the gradients of q, k, v and the bias in one sweep over blocks of keys × queries.
//!
//! With P = exp(s − lse), dP = dy·vᵀ and δ = Σ dy·y − dlse of each row: dS = P ⊙ (dP − δ), dv = Pᵀ·dy, and dq, dk from
//! dS times the derivative of the softcap (Dao et al., "FlashAttention", algorithm 4; the term of `lse` because
//! ∂lse/∂s = P). With dropout, P·M in the place of P makes y: dv = (P ⊙ M)ᵀ·dy and dP = (dy·vᵀ) ⊙ M, and δ is what it was.
//!
//! Invariant: a unit is one head of k with the heads of q that share it. It alone writes their gradients, and adds
//! over blocks of keys, then heads, then blocks of queries, in ascending order.

use super::drop::Room;
use super::forward::Inputs;
use super::rows::{self, Row};
use super::{Attention, BLOCK_KEYS, BLOCK_QUERIES, Element, Rows, cut, inside};
use crate::kernels::abi::Args;
use crate::kernels::gemm::gemm;
use crate::kernels::tree;
use std::ops::Range;

/// What only the backward kernel reads.
struct Saved<'a, T> {
    dy: &'a [T],
    y: &'a [T],
    lse: &'a [T],
    /// Empty if there is none.
    dlse: &'a [T],
}

/// The results of one unit; `dbias` is empty if nobody reads it.
struct Grads<'a, T> {
    dq: &'a mut [T],
    dk: &'a mut [T],
    dv: &'a mut [T],
    dbias: &'a mut [T],
}

/// One block of keys on its way over the queries.
struct Keys<'a, T> {
    b: usize,
    kv: usize,
    /// First key, and how many.
    j: usize,
    n: usize,
    /// k and v of the block, transposed.
    k: &'a [T],
    v: &'a [T],
    keep: &'a [T],
}

/// The gradients of [`forward`](super::forward()) in q, k, v and the bias.
///
/// Reads dy, q, k, v, y, lse `[batch, heads, queries]`, its gradient if there is one, the mask of keys, the bias and the random key as
/// [`Attention`] says. Writes dq `[batch, heads, queries, width]`, dk `[batch, kv_heads, keys, width]` and dv
/// `[batch, kv_heads, keys, value_width]`, in this order of axes always, scratch ([`Attention::backward_scratch`]),
/// and, if there is a fifth result, the gradient of the bias `[batch, heads, queries, keys]` in it. Unit `u` owns the
/// elements of its head or group of heads.
pub fn backward<T: Element>(args: &mut Args<'_>) {
    let p = Attention::from_words(args.params());
    let units = args.units();
    let inputs = Inputs::read(&p, args, 1, 6 + usize::from(p.dlse));
    let [dy, y, lse] = [0, 4, 5].map(|i| args.read::<T>(i));
    let saved = Saved { dy, y, lse, dlse: if p.dlse { args.read::<T>(6) } else { &[] } };
    let rows = p.group() * p.queries;
    let sizes = [rows * p.width, p.keys * p.width, p.keys * p.value_width, rows * p.keys];
    let [dq, dk, dv] = [0, 1, 2].map(|i| args.write::<T>(i));
    let scratch = args.write::<T>(3);
    let dbias = if args.writes() > 4 { args.write::<T>(4) } else { &mut [] };
    let mut scratch = cut(scratch, p.backward_pieces::<T>());
    for (u, unit) in units.enumerate() {
        let part = |i: usize| u * sizes[i]..(u + 1) * sizes[i];
        let dbias = if dbias.is_empty() { &mut *dbias } else { &mut dbias[part(3)] };
        let mut grads = Grads { dq: &mut dq[part(0)], dk: &mut dk[part(1)], dv: &mut dv[part(2)], dbias };
        sweep(&p, &inputs, &saved, (unit / p.kv_heads, unit % p.kv_heads), &mut grads, &mut scratch);
    }
}

/// All gradients of one unit.
fn sweep<T: Element>(
    p: &Attention,
    x: &Inputs<'_, T>,
    saved: &Saved<'_, T>,
    (b, kv): (usize, usize),
    to: &mut Grads<'_, T>,
    scratch: &mut [&mut [T]; 7],
) {
    for g in [&mut *to.dq, &mut *to.dk, &mut *to.dv, &mut *to.dbias] {
        g.fill(T::ZERO);
    }
    let [scores, grads, k, v, delta, keep, product] = scratch;
    deltas(p, saved, b, kv * p.group(), delta);
    for j in (0..p.keys).step_by(BLOCK_KEYS) {
        let n = BLOCK_KEYS.min(p.keys - j);
        transpose(x.k, p.k(b, kv), j, n, p.width, k);
        transpose(x.v, p.v(b, kv), j, n, p.value_width, v);
        let keep = x.keep.write(b * p.keys + j, &mut keep[..n]);
        let keys = Keys { b, kv, j, n, k, v, keep };
        for group in 0..p.group() {
            for i in (0..p.queries).step_by(BLOCK_QUERIES) {
                let queries = i..(i + BLOCK_QUERIES).min(p.queries);
                let seen = p.visible(i).start..p.visible(queries.end - 1).end;
                if !inside(&seen, j, n).is_empty() {
                    let pieces = (&mut **scores, &mut **grads, &**delta, &mut **product);
                    block(p, x, saved, &keys, (group, queries), to, pieces);
                }
            }
        }
    }
}

/// Σ dy·y − dlse of each row of the heads from `first` on that share one of k.
fn deltas<T: Element>(p: &Attention, saved: &Saved<'_, T>, b: usize, first: usize, delta: &mut [T]) {
    let w = p.value_width;
    for g in 0..p.group() {
        let (at, y) = ((b * p.heads + first + g) * p.queries, p.y(b, first + g));
        for i in 0..p.queries {
            let row = y.row(i);
            let d = tree::dot(&saved.dy[row..][..w], &saved.y[row..][..w]);
            delta[g * p.queries + i] = saved.dlse.get(at + i).map_or(d, |dlse| d - *dlse);
        }
    }
}

/// `to[c][r]` = element c of row `j + r`.
fn transpose<T: Element>(from: &[T], rows: Rows, j: usize, n: usize, width: usize, to: &mut [T]) {
    for r in 0..n {
        let row = &from[rows.row(j + r)..][..width];
        to[r..].iter_mut().step_by(n).zip(row).for_each(|(to, x)| *to = *x);
    }
}

/// What one block of keys and one of queries add to the gradients.
fn block<T: Element>(
    p: &Attention,
    x: &Inputs<'_, T>,
    saved: &Saved<'_, T>,
    keys: &Keys<'_, T>,
    (group, queries): (usize, Range<usize>),
    to: &mut Grads<'_, T>,
    (scores, grads, delta, product): (&mut [T], &mut [T], &[T], &mut [T]),
) {
    let (m, n, i, b, h) = (queries.len(), keys.n, queries.start, keys.b, keys.kv * p.group() + group);
    let [score, dp, dv, dq, dk] = p.backward_products(m, n);
    let (s, g) = (&mut scores[..m * n], &mut grads[..m * n]);
    let (q, dy) = (&x.q[p.q(b, h).row(i)..], &saved.dy[p.y(b, h).row(i)..]);
    gemm(&score, q, keys.k, None, s, 0..score.units(), product);
    gemm(&dp, dy, keys.v, None, g, 0..dp.units(), product);
    let (scale, cap, mut room) = (T::from_f64(p.scale), T::from_f64(p.cap), Room::new());
    for (r, (s, g)) in s.chunks_exact_mut(n).zip(g.chunks_exact_mut(n)).enumerate() {
        let (i, lse) = (i + r, saved.lse[(b * p.heads + h) * p.queries + i + r]);
        let seen = inside(&p.visible(i), keys.j, n);
        // A row that saw no key has no gradient.
        let seen = if lse == -T::INFINITY { 0..0 } else { seen };
        for x in [&mut *s, &mut *g] {
            x[..seen.start].fill(T::ZERO);
            x[seen.end..].fill(T::ZERO);
        }
        let span = keys.j + seen.start..keys.j + seen.end;
        let row = Row { scale, cap, lse, delta: delta[group * p.queries + i] };
        let at = (group * p.queries + i) * p.keys;
        let dbias = if to.dbias.is_empty() { &mut [] } else { &mut to.dbias[at + span.start..at + span.end] };
        let bias = x.bias(p, (b, h, i), &span);
        let keep = if keys.keep.is_empty() { keys.keep } else { &keys.keep[seen.clone()] };
        let (s, g) = (&mut s[seen.clone()], &mut g[seen]);
        let kept = x.drop.map(|d| d.factors(p.place((b, h, i), span.start), span.len(), &mut room));
        if let Some(kept) = kept {
            rows::dropped(g, kept);
        }
        rows::gradients(s, g, row, bias, keep, dbias);
        if let Some(kept) = kept {
            rows::dropped(s, kept);
        }
    }
    let (from, w, vw) = (keys.j, p.width, p.value_width);
    gemm(&dv, s, dy, None, &mut to.dv[from * vw..(from + n) * vw], 0..dv.units(), product);
    let at = (group * p.queries + i) * w;
    let k = &x.k[p.k(b, keys.kv).row(from)..];
    gemm(&dq, g, k, None, &mut to.dq[at..at + m * w], 0..dq.units(), product);
    gemm(&dk, g, q, None, &mut to.dk[from * w..(from + n) * w], 0..dk.units(), product);
}
