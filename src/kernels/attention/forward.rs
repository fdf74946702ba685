//! The forward kernel: y = softmax(scores)·v and the log-sum-exp of each row.
//!
//! Invariant: see `mod.rs`. A unit is some rows of y. Each head of a unit is computed separately, some rows at a time.

use super::attention_shape::{AttentionShape, BLOCK_KEYS, Element, ForwardScratch, Query};
use super::dropout::DropoutBuffer;
use super::inputs::{AttentionBiasBuffer, AttentionInputs};
use super::keys::{clip_to_block, range_within, widen_to_chunks};
use super::score_rows;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::gemm::gemm;
use std::ops::Range;

/// A run of rows of one head, and its first row in this call's part of the results, counted in rows of one head.
struct ForwardRun {
    b: usize,
    h: usize,
    queries: Range<usize>,
    to: usize,
}

/// Attention: softmax(scores)·v, and the log-sum-exp of the scores.
///
/// Reads q, k, v, the mask of keys (`T` or bytes), the bias and the random key as [`AttentionShape`] says; writes y
/// ([`AttentionShape::per_unit`]), the log-sum-exp ([`AttentionShape::stats_per_unit`]) and scratch
/// ([`AttentionShape::forward_scratch`]); params [`AttentionShape`]; [`AttentionShape::units`] units.
pub fn attention_forward_kernel<T: Element>(args: &mut Args<'_>) {
    let p = AttentionShape::from_words(args.params());
    let units = args.units();
    let inputs = AttentionInputs::read(&p, args, 0, 3);
    let (y, lse, scratch) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2));
    let (per, heads) = (p.rows_per_unit(), p.heads_per_row());
    let (first, all) = (units.start * per, p.outer() * p.queries);
    let mut scratch = ForwardScratch::cut(&p, per, scratch);
    let most = p.block_queries();
    for unit in units {
        let (mut row, end) = (unit * per, ((unit + 1) * per).min(all));
        while row < end {
            let (outer, i) = (row / p.queries, row % p.queries);
            let len = (end - row).min(p.queries - i).min(most - i % most);
            for head in 0..heads {
                let (b, h) = if p.seq_major { (outer, head) } else { (outer / p.heads, outer % p.heads) };
                let run = ForwardRun { b, h, queries: i..i + len, to: (row - first) * heads + head };
                sum_weighted_values(&p, &inputs, &run, &mut scratch);
                store_rows(&p, &run, &scratch, y, lse);
            }
            row += len;
        }
    }
}

by_dtype!(attention_forward_kernel_for = attention_forward_kernel::<floats>);

/// Computes Σ weight·v (`acc`), the largest scores (`top`) and the sums of weights (`sum`).
fn sum_weighted_values<T: Element>(
    p: &AttentionShape,
    x: &AttentionInputs<'_, T>,
    run: &ForwardRun,
    scratch: &mut ForwardScratch<'_, T>,
) {
    let ForwardScratch { scores, acc, top, sum, keep, product } = scratch;
    let (m, from) = (run.queries.len(), run.queries.start);
    acc[..m * p.value_width].fill(T::ZERO);
    top[..m].fill(-T::INFINITY);
    sum[..m].fill(T::ZERO);
    let (q, kv) = (p.q(run.b, run.h).row(from), run.h / p.group());
    let (k, v) = (p.k(run.b, kv), p.v(run.b, kv));
    let span = p.visible(from).start..p.visible(from + m - 1).end;
    let first = span.start / BLOCK_KEYS * BLOCK_KEYS;
    let (mut dropped, mut masked) = (DropoutBuffer::new(), AttentionBiasBuffer::new());
    for j in (first..span.end).step_by(BLOCK_KEYS) {
        let n = p.keys_before(j, span.end);
        let [score, value] = p.forward_products(m, n);
        let block = &mut scores[..m * n];
        gemm(&score, &x.q[q..], &x.k[k.row(j)..], None, block, 0..score.units(), product);
        let keep = x.keep.write(run.b * p.keys + j, &mut keep[..n]);
        for (r, row) in block.chunks_exact_mut(n).enumerate() {
            let seen = clip_to_block(&p.visible(from + r), j, n);
            let wide = widen_to_chunks(&seen, n);
            let query = Query { b: run.b, h: run.h, i: from + r };
            let bias = x.bias(p, query, &(j + wide.start..j + wide.end), &mut masked);
            let keep = if keep.is_empty() { keep } else { &keep[wide.clone()] };
            let shrink = weigh_row(p, row, (&seen, wide), bias, keep, (&mut top[r], &mut sum[r]));
            if let Some(drop) = x.drop {
                // Dropout comes after the sum, which includes dropped weights.
                let first = p.probability(query, j + seen.start);
                score_rows::scale_score_row_by_elements(
                    &mut row[seen.clone()],
                    drop.factors(first, seen.len(), &mut dropped),
                );
            }
            if shrink != T::ONE {
                score_rows::multiply_score_row(&mut acc[r * p.value_width..][..p.value_width], shrink);
            }
        }
        let acc = &mut acc[..m * p.value_width];
        gemm(&value, block, &x.v[v.row(j)..], None, acc, 0..value.units(), product);
    }
}

/// Replaces the products of one row by weights relative to the largest score so far, 0 for keys that are not `seen`.
/// Returns the factor of earlier sums. `wide` is the computed range: `seen` widened to whole chunks.
fn weigh_row<T: Element>(
    p: &AttentionShape,
    row: &mut [T],
    (seen, wide): (&Range<usize>, Range<usize>),
    bias: &[T],
    keep: &[T],
    (top, sum): (&mut T, &mut T),
) -> T {
    row[..wide.start].fill(T::ZERO);
    row[wide.end..].fill(T::ZERO);
    let seen = range_within(seen, &wide);
    let row = &mut row[wide];
    if row.is_empty() {
        return T::ONE;
    }
    let new =
        top.greater(score_rows::products_to_scores(row, &seen, T::from_f64(p.scale), T::from_f64(p.cap), bias, keep));
    if new == -T::INFINITY {
        row.fill(T::ZERO);
        return T::ONE;
    }
    let (added, shrink) = score_rows::scores_to_weights(row, new, *top);
    *sum = *sum * shrink + added;
    *top = new;
    shrink
}

/// Divides by the sums of weights and writes the rows of a run.
fn store_rows<T: Element>(
    p: &AttentionShape,
    run: &ForwardRun,
    scratch: &ForwardScratch<'_, T>,
    y: &mut [T],
    lse: &mut [T],
) {
    let ForwardScratch { acc, top, sum, .. } = scratch;
    let (heads, w) = (p.heads_per_row(), p.value_width);
    for (r, (acc, (top, sum))) in acc.chunks_exact(w).zip(top.iter().zip(sum.iter())).enumerate() {
        if r == run.queries.len() {
            break;
        }
        let at = run.to + r * heads;
        let y = &mut y[at * w..][..w];
        if *top == -T::INFINITY {
            y.fill(T::ZERO);
            lse[at] = -T::INFINITY;
            continue;
        }
        score_rows::divide_score_row(acc, *sum, y);
        lse[at] = *sum;
        score_rows::score_row_log_sums(&[*top], &mut lse[at..=at]);
    }
}
