//! The forward kernel: y = softmax(scores)·v and the log-sum-exp of each row.
//!
//! Invariant: see `mod.rs`. A unit is some rows of y. Each head in it is computed separately, in runs of rows.

use super::drop::{Drop, DropBuffer};
use super::rows;
use super::shape::{Attention, BLOCK_KEYS, Element, Keep, Query, cut, inside, rounded, within};
use crate::kernels::abi::Args;
use crate::kernels::gemm::gemm;
use std::ops::Range;

/// The reads of both kernels.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a, T> {
    pub q: &'a [T],
    pub k: &'a [T],
    pub v: &'a [T],
    pub keep: Keep<'a, T>,
    /// Empty if there is none.
    pub bias: &'a [T],
    /// Dropout, if any.
    pub drop: Option<Drop<T>>,
}

impl<'a, T: Element> Inputs<'a, T> {
    /// q, k and v are operands from `first` on. The mask of keys, the bias and the random key, as far as they exist,
    /// are operands from `rest` on.
    pub fn read(p: &Attention, args: &Args<'a>, first: usize, rest: usize) -> Inputs<'a, T> {
        let keep = match (p.padding, p.bytes) {
            (false, _) => Keep::All,
            (true, false) => Keep::Float(args.read::<T>(rest)),
            (true, true) => Keep::Bytes(args.read::<u8>(rest)),
        };
        let bias = if p.bias { args.read::<T>(rest + usize::from(p.padding)) } else { &[] };
        let drop = Drop::read(p, args, rest + usize::from(p.padding) + usize::from(p.bias));
        let [q, k, v] = [0, 1, 2].map(|i| args.read::<T>(first + i));
        Inputs { q, k, v, keep, bias, drop }
    }

    /// The bias of query `q` for the keys in `span`; empty if there is no bias.
    pub fn bias(&self, p: &Attention, q: Query, span: &Range<usize>) -> &'a [T] {
        if self.bias.is_empty() {
            return &[];
        }
        let row = q.b * p.bias_batch + q.h * p.bias_head + q.i * p.keys;
        &self.bias[row + span.start..row + span.end]
    }
}

/// A run of rows of one head, and its first row in this call's part of the results, counted in rows of one head.
struct Run {
    b: usize,
    h: usize,
    queries: Range<usize>,
    to: usize,
}

/// Attention: softmax(scores)·v, and the log-sum-exp of the scores.
///
/// Reads q, k, v, the mask of keys (`T` or bytes), the bias and the random key as [`Attention`] says; writes y
/// ([`Attention::per_unit`]), the log-sum-exp ([`Attention::stats_per_unit`]) and scratch
/// ([`Attention::forward_scratch`]); params [`Attention`]; [`Attention::units`] units.
pub fn forward<T: Element>(args: &mut Args<'_>) {
    let p = Attention::from_words(args.params());
    let units = args.units();
    let inputs = Inputs::read(&p, args, 0, 3);
    let (y, lse, scratch) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2));
    let (per, heads) = (p.rows_per_unit(), p.heads_per_row());
    let (first, all) = (units.start * per, p.outer() * p.queries);
    let ([scores, acc, top, sum, keep], product) = cut(scratch, p.forward_pieces());
    let mut scratch = [scores, acc, top, sum, keep, product];
    let most = p.block_queries();
    for unit in units {
        let (mut row, end) = (unit * per, ((unit + 1) * per).min(all));
        while row < end {
            let (outer, i) = (row / p.queries, row % p.queries);
            let len = (end - row).min(p.queries - i).min(most - i % most);
            for head in 0..heads {
                let (b, h) = if p.seq_major { (outer, head) } else { (outer / p.heads, outer % p.heads) };
                let run = Run { b, h, queries: i..i + len, to: (row - first) * heads + head };
                attend(&p, &inputs, &run, &mut scratch);
                store(&p, &run, &scratch, y, lse);
            }
            row += len;
        }
    }
}

/// Computes Σ weight·v (scratch piece 1), the largest scores (piece 2) and the sums of weights (piece 3).
fn attend<T: Element>(p: &Attention, x: &Inputs<'_, T>, run: &Run, scratch: &mut [&mut [T]; 6]) {
    let [scores, acc, top, sum, keep, product] = scratch;
    let (m, from) = (run.queries.len(), run.queries.start);
    acc[..m * p.value_width].fill(T::ZERO);
    top[..m].fill(-T::INFINITY);
    sum[..m].fill(T::ZERO);
    let (q, kv) = (p.q(run.b, run.h).row(from), run.h / p.group());
    let (k, v) = (p.k(run.b, kv), p.v(run.b, kv));
    let span = p.visible(from).start..p.visible(from + m - 1).end;
    let first = span.start / BLOCK_KEYS * BLOCK_KEYS;
    let mut dropped = DropBuffer::new();
    for j in (first..span.end).step_by(BLOCK_KEYS) {
        let n = p.keys_before(j, span.end);
        let [score, value] = p.forward_products(m, n);
        let block = &mut scores[..m * n];
        gemm(&score, &x.q[q..], &x.k[k.row(j)..], None, block, 0..score.units(), product);
        let keep = x.keep.write(run.b * p.keys + j, &mut keep[..n]);
        for (r, row) in block.chunks_exact_mut(n).enumerate() {
            let seen = inside(&p.visible(from + r), j, n);
            let wide = rounded(&seen, n);
            let query = Query { b: run.b, h: run.h, i: from + r };
            let bias = x.bias(p, query, &(j + wide.start..j + wide.end));
            let keep = if keep.is_empty() { keep } else { &keep[wide.clone()] };
            let shrink = soften(p, row, (&seen, wide), bias, keep, (&mut top[r], &mut sum[r]));
            if let Some(drop) = x.drop {
                // Dropout comes after the sum, which includes dropped weights.
                let first = p.probability(query, j + seen.start);
                rows::dropped(&mut row[seen.clone()], drop.factors(first, seen.len(), &mut dropped));
            }
            if shrink != T::ONE {
                rows::multiply(&mut acc[r * p.value_width..][..p.value_width], shrink);
            }
        }
        let acc = &mut acc[..m * p.value_width];
        gemm(&value, block, &x.v[v.row(j)..], None, acc, 0..value.units(), product);
    }
}

/// Replaces the products of one row by weights relative to the largest score so far, 0 for keys that are not `seen`.
/// Returns the factor of earlier sums. `wide` is the computed range: `seen` widened to whole chunks.
fn soften<T: Element>(
    p: &Attention,
    row: &mut [T],
    (seen, wide): (&Range<usize>, Range<usize>),
    bias: &[T],
    keep: &[T],
    (top, sum): (&mut T, &mut T),
) -> T {
    row[..wide.start].fill(T::ZERO);
    row[wide.end..].fill(T::ZERO);
    let seen = within(seen, &wide);
    let row = &mut row[wide];
    if row.is_empty() {
        return T::ONE;
    }
    let new = top.greater(rows::scores(row, &seen, T::from_f64(p.scale), T::from_f64(p.cap), bias, keep));
    if new == -T::INFINITY {
        row.fill(T::ZERO);
        return T::ONE;
    }
    let (added, shrink) = rows::weights(row, new, *top);
    *sum = *sum * shrink + added;
    *top = new;
    shrink
}

/// Divides by the sums of weights and writes the rows of a run.
fn store<T: Element>(p: &Attention, run: &Run, scratch: &[&mut [T]; 6], y: &mut [T], lse: &mut [T]) {
    let [_, acc, top, sum, ..] = scratch;
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
        rows::divide(acc, *sum, y);
        lse[at] = *sum;
        rows::log_sums(&[*top], &mut lse[at..=at]);
    }
}
