//! The backward kernel: the gradients of q, k, v and the bias in one sweep over blocks of keys × queries.
//!
//! With P = exp(s − lse), dP = dy·vᵀ and δ = Σ dy·y − dlse of each row: dS = P ⊙ (dP − δ), dv = Pᵀ·dy, and dq, dk
//! follow from dS times the derivative of the softcap (Dao et al., "FlashAttention", algorithm 4; the dlse term is
//! there because ∂lse/∂s = P). With dropout mask M, y comes from P ⊙ M: dv = (P ⊙ M)ᵀ·dy and dP = (dy·vᵀ) ⊙ M; δ does
//! not change.
//!
//! Σ dy·y is summed by the same chains as dP. So dP and δ cancel exactly in a row in which one probability is 1.
//!
//! Invariant: dq is summed over blocks of keys; dk and dv are summed over the heads of q that share a head of k, then
//! over blocks of queries. Both orders ascend. The blocks do not depend on how the work is divided.
//! [`attention_backward_kernel`] has a unit for each head of k, with the heads of q that share it, and computes scores
//! once. [`attention_backward_keys_kernel`] and [`attention_backward_queries_kernel`] have many units and compute
//! scores twice. All give the same bits.

use super::attention_shape::{
    AttentionShape, AttentionShapeRows, BLOCK_KEYS, BackwardScratch, CHUNK_QUERIES, Element, Query,
};
use super::dropout::DropoutBuffer;
use super::inputs::{AttentionBiasBuffer, AttentionInputs};
use super::keys::{clip_to_block, range_within, widen_to_chunks};
use super::score_rows::{self, Row, SIDE};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::gemm::{self, gemm};
use std::ops::Range;

/// Terms of the row sums that are transposed together.
const TERMS: usize = 32;

/// The reads of the backward kernel only.
struct Saved<'a, T> {
    dy: &'a [T],
    y: &'a [T],
    lse: &'a [T],
    /// Empty if there is none.
    dlse: &'a [T],
}

/// The results of one unit. Each is empty if it is not computed; dk and dv are computed together.
struct Grads<'a, T> {
    dq: &'a mut [T],
    dk: &'a mut [T],
    dv: &'a mut [T],
    dbias: &'a mut [T],
}

/// The work of a unit: keys of one head of k, and queries of some heads of q that share it. Both ranges start with a
/// block.
struct AttentionBackwardJob {
    b: usize,
    kv: usize,
    group: Range<usize>,
    queries: Range<usize>,
    keys: Range<usize>,
}

impl AttentionBackwardJob {
    /// All keys and queries of one head of k.
    fn whole(p: &AttentionShape, b: usize, kv: usize) -> AttentionBackwardJob {
        AttentionBackwardJob { b, kv, group: 0..p.group(), queries: 0..p.queries, keys: 0..p.keys }
    }

    /// Row of query `i` of a head among the rows of the unit.
    fn row(&self, group: usize, i: usize) -> usize {
        (group - self.group.start) * self.queries.len() + i - self.queries.start
    }
}

/// A block of keys during the pass over the queries.
struct Keys<'a, T> {
    /// First key and number of keys.
    j: usize,
    n: usize,
    /// k and v of the block, transposed.
    k: &'a [T],
    v: &'a [T],
    keep: &'a [T],
}

/// The reads of all backward kernels.
fn read_operands<'a, T: Element>(p: &AttentionShape, args: &Args<'a>) -> (AttentionInputs<'a, T>, Saved<'a, T>) {
    let inputs = AttentionInputs::read(p, args, 1, 6 + usize::from(p.dlse));
    let [dy, y, lse] = [0, 4, 5].map(|i| args.read::<T>(i));
    (inputs, Saved { dy, y, lse, dlse: if p.dlse { args.read::<T>(6) } else { &[] } })
}

/// Elements `u * per..(u + 1) * per` of a result, clipped.
fn unit_elements<T>(x: &mut [T], u: usize, per: usize) -> &mut [T] {
    let (from, to) = ((u * per).min(x.len()), ((u + 1) * per).min(x.len()));
    &mut x[from..to]
}

/// The gradients of [`attention_forward_kernel`](super::attention_forward_kernel) by q, k, v and the bias.
///
/// Reads dy, q, k, v, y, lse `[batch, heads, queries]`, the gradient of lse if it exists, the mask of keys, the bias
/// and the random key as [`AttentionShape`] says. Writes dq `[batch, heads, queries, width]`, dk `[batch, kv_heads,
/// keys, width]` and dv `[batch, kv_heads, keys, value_width]`, with this order of axes even if `seq_major`; scratch
/// ([`AttentionShape::backward_scratch`]); and, as an optional fifth write, the gradient of the bias `[batch, heads,
/// queries, keys]`. Unit `u` owns the elements of its head or group of heads.
pub fn attention_backward_kernel<T: Element>(args: &mut Args<'_>) {
    let p = AttentionShape::from_words(args.params());
    let (units, (inputs, saved)) = (args.units(), read_operands::<T>(&p, args));
    let rows = p.group() * p.queries;
    let [dq, dk, dv, scratch] = [0, 1, 2, 3].map(|i| args.write::<T>(i));
    let dbias = if args.writes() > 4 { args.write::<T>(4) } else { &mut [] };
    let mut scratch = BackwardScratch::cut(&p, scratch);
    for (u, unit) in units.enumerate() {
        let mut grads = Grads {
            dq: unit_elements(dq, u, rows * p.width),
            dk: unit_elements(dk, u, p.keys * p.width),
            dv: unit_elements(dv, u, p.keys * p.value_width),
            dbias: unit_elements(dbias, u, rows * p.keys),
        };
        sweep_unit(
            &p,
            &inputs,
            &saved,
            &AttentionBackwardJob::whole(&p, unit / p.kv_heads, unit % p.kv_heads),
            &mut grads,
            &mut scratch,
        );
    }
}

by_dtype!(attention_backward_kernel_for = attention_backward_kernel::<floats>);

/// The gradients of k and v only, with the bits of [`attention_backward_kernel`]. Writes dk, dv and scratch; a unit is
/// [`BLOCK_KEYS`] keys of one head.
pub fn attention_backward_keys_kernel<T: Element>(args: &mut Args<'_>) {
    let p = AttentionShape::from_words(args.params());
    let (units, (inputs, saved)) = (args.units(), read_operands::<T>(&p, args));
    let [dk, dv, scratch] = [0, 1, 2].map(|i| args.write::<T>(i));
    let mut scratch = BackwardScratch::cut(&p, scratch);
    let each = p.keys.div_ceil(BLOCK_KEYS);
    for (u, unit) in units.enumerate() {
        let (head, from) = (unit / each, unit % each * BLOCK_KEYS);
        let keys = from..(from + BLOCK_KEYS).min(p.keys);
        let (dk, dv) = (unit_elements(dk, u, BLOCK_KEYS * p.width), unit_elements(dv, u, BLOCK_KEYS * p.value_width));
        let mut grads = Grads { dq: &mut [], dk, dv, dbias: &mut [] };
        let job =
            AttentionBackwardJob { keys, ..AttentionBackwardJob::whole(&p, head / p.kv_heads, head % p.kv_heads) };
        sweep_unit(&p, &inputs, &saved, &job, &mut grads, &mut scratch);
    }
}

by_dtype!(attention_backward_keys_kernel_for = attention_backward_keys_kernel::<floats>);

/// The gradients of q and the bias only, with the bits of [`attention_backward_kernel`]. Writes dq, scratch and,
/// optionally, dbias; a unit is [`CHUNK_QUERIES`] queries of one head.
pub fn attention_backward_queries_kernel<T: Element>(args: &mut Args<'_>) {
    let p = AttentionShape::from_words(args.params());
    let (units, (inputs, saved)) = (args.units(), read_operands::<T>(&p, args));
    let [dq, scratch] = [0, 1].map(|i| args.write::<T>(i));
    let dbias = if args.writes() > 2 { args.write::<T>(2) } else { &mut [] };
    let mut scratch = BackwardScratch::cut(&p, scratch);
    let each = p.queries.div_ceil(CHUNK_QUERIES);
    for (u, unit) in units.enumerate() {
        let (head, from) = (unit / each, unit % each * CHUNK_QUERIES);
        let (b, h) = (head / p.heads, head % p.heads);
        let queries = from..(from + CHUNK_QUERIES).min(p.queries);
        let (dq, dbias) =
            (unit_elements(dq, u, CHUNK_QUERIES * p.width), unit_elements(dbias, u, CHUNK_QUERIES * p.keys));
        let mut grads = Grads { dq, dk: &mut [], dv: &mut [], dbias };
        let group = h % p.group()..h % p.group() + 1;
        let job = AttentionBackwardJob { group, queries, ..AttentionBackwardJob::whole(&p, b, h / p.group()) };
        sweep_unit(&p, &inputs, &saved, &job, &mut grads, &mut scratch);
    }
}

by_dtype!(attention_backward_queries_kernel_for = attention_backward_queries_kernel::<floats>);

/// Computes all gradients of one unit.
fn sweep_unit<T: Element>(
    p: &AttentionShape,
    x: &AttentionInputs<'_, T>,
    saved: &Saved<'_, T>,
    job: &AttentionBackwardJob,
    to: &mut Grads<'_, T>,
    scratch: &mut BackwardScratch<'_, T>,
) {
    for g in [&mut *to.dq, &mut *to.dk, &mut *to.dv, &mut *to.dbias] {
        g.fill(T::ZERO);
    }
    let BackwardScratch { scores, grads, k, v, delta, keep, product } = scratch;
    let most = p.block_queries();
    fill_query_deltas(p, saved, job, delta);
    for j in job.keys.clone().step_by(BLOCK_KEYS) {
        let n = BLOCK_KEYS.min(p.keys - j);
        transpose_rows(x.k, p.k(job.b, job.kv), j, n, p.width, k);
        transpose_rows(x.v, p.v(job.b, job.kv), j, n, p.value_width, v);
        let keep = x.keep.write(job.b * p.keys + j, &mut keep[..n]);
        let keys = Keys { j, n, k, v, keep };
        for group in job.group.clone() {
            for i in job.queries.clone().step_by(most) {
                let queries = i..(i + most).min(job.queries.end);
                let seen = p.visible(i).start..p.visible(queries.end - 1).end;
                if !clip_to_block(&seen, j, n).is_empty() {
                    let scratch = BlockScratch { scores, grads, delta, product };
                    add_block_gradients(p, x, saved, job, &keys, (group, queries), to, scratch);
                }
            }
        }
    }
}

/// Σ dy·y − dlse of each query of a unit.
fn fill_query_deltas<T: Element>(
    p: &AttentionShape,
    saved: &Saved<'_, T>,
    job: &AttentionBackwardJob,
    delta: &mut [T],
) {
    if job.queries.is_empty() {
        return;
    }
    for group in job.group.clone() {
        let h = job.kv * p.group() + group;
        let (at, y) = ((job.b * p.heads + h) * p.queries, p.y(job.b, h));
        let to = &mut delta[job.row(group, job.queries.start)..][..job.queries.len()];
        let from = y.row(job.queries.start);
        multiply_row_pairs((&saved.dy[from..], y.step), (&saved.y[from..], y.step), p.value_width, to);
        if !saved.dlse.is_empty() {
            to.iter_mut().zip(&saved.dlse[at + job.queries.start..]).for_each(|(d, dlse)| *d -= *dlse);
        }
    }
}

/// Σ a·b of pairs of rows of `width` elements, in the chains that tiles of a product compute. So in a row whose only
/// probability is 1, dy·y equals dy·v bit for bit, and the gradient is 0.
fn multiply_row_pairs<T: Element>((a, a_step): (&[T], usize), (b, b_step): (&[T], usize), width: usize, to: &mut [T]) {
    let mut transposed = [[[T::ZERO; SIDE]; TERMS]; 2];
    for (k, to) in to.chunks_mut(SIDE).enumerate() {
        let mut sums = [T::ZERO; SIDE];
        for c in (0..width).step_by(TERMS) {
            let (n, [x, y]) = (TERMS.min(width - c), &mut transposed);
            let (rows_a, rows_b) = (&a[k * SIDE * a_step + c..], &b[k * SIDE * b_step + c..]);
            gemm::transpose(rows_a, a_step, x.as_flattened_mut(), SIDE, n, to.len());
            gemm::transpose(rows_b, b_step, y.as_flattened_mut(), SIDE, n, to.len());
            score_rows::score_row_chains(&x[..n], &y[..n], &mut sums);
        }
        to.copy_from_slice(&sums[..to.len()]);
    }
}

/// `to[c][r]` = element c of row `j + r`.
fn transpose_rows<T: Element>(from: &[T], rows: AttentionShapeRows, j: usize, n: usize, width: usize, to: &mut [T]) {
    gemm::transpose(&from[rows.row(j)..], rows.step, to, n, width, n);
}

/// Scratch of one block of keys and one of queries.
struct BlockScratch<'a, T> {
    /// Scores, then probabilities.
    scores: &'a mut [T],
    /// Gradients of probabilities, then of scores.
    grads: &'a mut [T],
    /// δ of each row of the unit.
    delta: &'a [T],
    /// Scratch of products.
    product: &'a mut [T],
}

/// Adds the contributions of one block of keys and one of queries to the gradients.
#[allow(clippy::too_many_arguments)] // One caller; a struct would name what these names say.
fn add_block_gradients<T: Element>(
    p: &AttentionShape,
    x: &AttentionInputs<'_, T>,
    saved: &Saved<'_, T>,
    job: &AttentionBackwardJob,
    keys: &Keys<'_, T>,
    (group, queries): (usize, Range<usize>),
    to: &mut Grads<'_, T>,
    scratch: BlockScratch<'_, T>,
) {
    let BlockScratch { scores, grads, delta, product } = scratch;
    let (m, i, b, h) = (queries.len(), queries.start, job.b, job.kv * p.group() + group);
    let n = p.keys_before(keys.j, p.visible(queries.end - 1).end);
    let [score, dp, dv, dq, dk] = p.backward_products(m, n, keys.n);
    let (s, g) = (&mut scores[..m * n], &mut grads[..m * n]);
    let (q, dy) = (&x.q[p.q(b, h).row(i)..], &saved.dy[p.y(b, h).row(i)..]);
    gemm(&score, q, keys.k, None, s, 0..score.units(), product);
    // The product with a single key would be summed in another order.
    match n {
        1 => multiply_row_pairs((dy, p.y(b, h).step), (keys.v, 0), p.value_width, g),
        _ => gemm(&dp, dy, keys.v, None, g, 0..dp.units(), product),
    }
    let (scale, cap) = (T::from_f64(p.scale), T::from_f64(p.cap));
    let (mut dropped, mut masked) = (DropoutBuffer::new(), AttentionBiasBuffer::new());
    for (r, (s, g)) in s.chunks_exact_mut(n).zip(g.chunks_exact_mut(n)).enumerate() {
        let (i, lse) = (i + r, saved.lse[(b * p.heads + h) * p.queries + i + r]);
        let seen = clip_to_block(&p.visible(i), keys.j, n);
        // A row that sees no key has no gradient.
        let seen = if lse == -T::INFINITY { 0..0 } else { seen };
        let wide = widen_to_chunks(&seen, n);
        for x in [&mut *s, &mut *g] {
            x[..wide.start].fill(T::ZERO);
            x[wide.end..].fill(T::ZERO);
        }
        let (span, seen) = (keys.j + wide.start..keys.j + wide.end, range_within(&seen, &wide));
        let row = Row { scale, cap, lse, delta: delta[job.row(group, i)] };
        let at = job.row(group, i) * p.keys;
        let dbias = if to.dbias.is_empty() { &mut [] } else { &mut to.dbias[at + span.start..at + span.end] };
        let query = Query { b, h, i };
        let bias = x.bias(p, query, &span, &mut masked);
        let keep = if keys.keep.is_empty() { keys.keep } else { &keys.keep[wide.clone()] };
        let (s, g) = (&mut s[wide.clone()], &mut g[wide]);
        let kept = x.drop.map(|d| d.factors(p.probability(query, span.start), span.len(), &mut dropped));
        if let Some(kept) = kept {
            score_rows::scale_score_row_by_elements(g, kept);
        }
        score_rows::score_row_gradients(s, g, &seen, row, (bias, keep), dbias);
        if let Some(kept) = kept {
            score_rows::scale_score_row_by_elements(s, kept);
        }
    }
    let (from, w, vw) = (keys.j - job.keys.start, p.width, p.value_width);
    if !to.dq.is_empty() {
        let at = job.row(group, i) * w;
        let k = &x.k[p.k(b, job.kv).row(keys.j)..];
        gemm(&dq, g, k, None, &mut to.dq[at..at + m * w], 0..dq.units(), product);
    }
    if !to.dk.is_empty() {
        gemm(&dv, s, dy, None, &mut to.dv[from * vw..(from + n) * vw], 0..dv.units(), product);
        gemm(&dk, g, q, None, &mut to.dk[from * w..(from + n) * w], 0..dk.units(), product);
    }
}
