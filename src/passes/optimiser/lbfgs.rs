//! L-BFGS: the two-loop recursion over a history that lives in states.
//!
//! All params of L-BFGS are one vector, as in torch. The history is a ring of `history_size` rows, so a step writes one
//! row of it, in place. Row indices are clamped, so that lowering knows that no look-up can stop the step. Otherwise
//! states could not change in place, because a step that may still stop changes no state. `opt.ro` holds 1/(y·s) of
//! each row, and 0 for rows without a pair. Such a row adds nothing to either loop, so both loops run over all rows,
//! the first from the newest to the oldest, the second from the oldest to the newest. Before the first step all states
//! are 0 (H is 1): y·s is 0, no pair is kept, and the direction is −g.

use super::groups::Settings;
use super::rule::Rule;
use super::update_target::{UpdateTarget, add_weight_decay};
use crate::nodes::ops::control::scan::Loop;
use crate::nodes::ops::index::attrs::Scatter;
use crate::nodes::{Builder, DType, Init, Var};

/// The least y·s of a pair that is kept, as in torch.
const LEAST_CURVATURE: f64 = 1e-10;

/// The rate and the number of the step.
#[derive(Clone, Copy)]
pub(super) struct Step<'g> {
    /// The learning rate, in f64.
    pub lr: Var<'g>,
    /// The number of this step, from 1, an `i64`.
    pub t: Var<'g>,
}

/// The states of L-BFGS, as they are before the step. N is the number of elements of all params, m the history.
struct LbfgsHistory<'g> {
    /// y of each row: \[m, N\].
    dirs: Var<'g>,
    /// s of each row: \[m, N\].
    steps: Var<'g>,
    /// 1/(y·s) of each row, or 0: \[m\].
    ro: Var<'g>,
    /// The row that the next pair takes, an `i64`.
    head: Var<'g>,
    /// The factor of the first approximation of H.
    scale: Var<'g>,
    /// Number of rows.
    rows: usize,
}

/// For each of `params`, what a step of L-BFGS adds to it; `None` for params of other rules.
pub(super) fn compute_moves<'g>(
    b: &'g Builder,
    settings: &Settings,
    params: &[Var<'g>],
    grads: &[Var<'g>],
    step: impl FnOnce(usize) -> Step<'g>,
) -> Vec<Option<Var<'g>>> {
    let mut moves = vec![None; params.len()];
    let rule_of = |i: usize| settings.kinds[settings.kind_of[i]].rule;
    let mine: Vec<usize> = (0..params.len()).filter(|&i| matches!(rule_of(i), Rule::Lbfgs { .. })).collect();
    let Some(Rule::Lbfgs { history_size, .. }) = mine.first().map(|&i| rule_of(i)) else { return moves };
    let same = mine.iter().all(|&i| params[i].dtype() == params[mine[0]].dtype());
    let dtype = if same { params[mine[0]].dtype() } else { DType::F64 };
    let flat: Vec<Var<'g>> = mine
        .iter()
        .map(|&i| add_weight_decay(grads[i], params[i], rule_of(i).weight_decay()).cast(dtype))
        .map(|g| g.reshape([g.numel()]))
        .collect();
    let moved = compute_move(b, flat[0].concat(&flat[1..], 0), history_size, step(mine[0]));
    let mut start = 0;
    for i in mine {
        let p = params[i];
        moves[i] = Some(moved.narrow(0, start, p.numel()).reshape(p.dims()).cast(p.dtype()));
        start += p.numel();
    }
    moves
}

/// What a step adds to the vector of all params, whose gradient is `g`.
fn compute_move<'g>(b: &'g Builder, g: Var<'g>, rows: usize, step: Step<'g>) -> Var<'g> {
    let (n, dtype) = (g.numel(), g.dtype());
    let state = |name: &str, dims: &[usize]| b.state(&format!("opt.{name}"), dims, dtype, Init::Zeros);
    let (last_grad, last_move) = (state("prev_flat_grad", &[n]), state("prev_step", &[n]));
    let history = LbfgsHistory {
        dirs: state("old_dirs", &[rows, n]),
        steps: state("old_stps", &[rows, n]),
        ro: state("ro", &[rows]),
        head: b.state("opt.history_head", [], DType::I64, Init::Zeros),
        scale: b.state("opt.h_diag", [], dtype, Init::Ones),
        rows,
    };
    let direction = history.with_pair(b, g - last_grad, last_move).direction(b, g);
    // min(1, 1/Σ|g|), without a division by 0.
    let first = 1.0 / g.abs().sum(..).cast(DType::F64).maximum(1.0);
    let size = step.t.equal(1.0).select(first * step.lr, step.lr);
    let moved = direction * size.cast(dtype);
    b.update(last_grad, g);
    b.update(last_move, moved);
    moved
}

/// a·b in f64.
fn dot_product<'g>(a: Var<'g>, b: Var<'g>) -> Var<'g> {
    (a * b).sum(..).cast(DType::F64)
}

/// Row `at`, an `i64[1]`, of a history.
fn take_history_row<'g>(history: Var<'g>, at: Var<'g>) -> Var<'g> {
    let row = history.gather(at, 0);
    row.reshape([row.numel()])
}

/// `at` as numbers of rows of a history of `rows`, which are in range already.
fn row_numbers(at: Var<'_>, rows: usize) -> Var<'_> {
    at.clamp(0.0, rows.saturating_sub(1) as f64)
}

impl<'g> LbfgsHistory<'g> {
    /// The history after this step: with the pair (y, s), if it is curved enough. Adds the updates of the states.
    fn with_pair(self, b: &'g Builder, y: Var<'g>, s: Var<'g>) -> LbfgsHistory<'g> {
        let dtype = y.dtype();
        let (curvature, square) = (dot_product(y, s), dot_product(y, y));
        let kept = curvature.greater(LEAST_CURVATURE).logical_and(square.greater(0.0));
        let one = curvature.full_like(1.0);
        let (curvature, square) = (kept.select(curvature, one), kept.select(square, one));
        let at = row_numbers(self.head, self.rows).reshape([1]);
        let write = |history: Var<'g>, row: Var<'g>| {
            let now = kept.broadcast(row.dims()).select(row, take_history_row(history, at));
            let dims = [&[1], &history.dims()[1..]].concat();
            let next = history.scatter_slices(at, now.reshape(dims), 0, Scatter::Set);
            b.update(history, next);
            next
        };
        let (dirs, steps) = (write(self.dirs, y), write(self.steps, s));
        let old = self.ro.gather(at, 0).reshape([]);
        let ro =
            self.ro.scatter_slices(at, kept.select((1.0 / curvature).cast(dtype), old).reshape([1]), 0, Scatter::Set);
        let scale = kept.select((curvature / square).cast(dtype), self.scale);
        let following = (self.head + 1.0).remainder(self.head.full_like(self.rows as f64));
        let head = kept.select(following, self.head);
        b.update(self.ro, ro);
        b.update(self.scale, scale);
        b.update(self.head, head);
        LbfgsHistory { dirs, steps, ro, head, scale, rows: self.rows }
    }

    /// −H·g.
    fn direction(&self, b: &'g Builder, g: Var<'g>) -> Var<'g> {
        // Rows from the oldest to the newest: the oldest is the one that the next pair takes.
        let order = self.head.broadcast([self.rows]) + b.iota(0, [self.rows], DType::I64);
        let order = row_numbers(order.remainder(order.full_like(self.rows as f64)), self.rows);
        let ro = self.ro.gather(order, 0);
        let back = Loop { reverse: true, ..Loop::default() };
        let (q, alphas) = b.scan_with(back, &[-g], &[order, ro], |q, x| {
            let (q, at, ro) = (q[0], row_numbers(x[0], self.rows).reshape([1]), x[1]);
            let alpha = (take_history_row(self.steps, at) * q).sum(..) * ro;
            (vec![q - take_history_row(self.dirs, at) * alpha], vec![alpha])
        });
        let (r, _) = b.scan(&[q[0] * self.scale], &[order, ro, alphas[0]], |r, x| {
            let (r, at, ro, alpha) = (r[0], row_numbers(x[0], self.rows).reshape([1]), x[1], x[2]);
            let beta = (take_history_row(self.dirs, at) * r).sum(..) * ro;
            (vec![r + take_history_row(self.steps, at) * (alpha - beta)], Vec::new())
        });
        r[0]
    }
}

impl<'g> UpdateTarget<'_, 'g> {
    /// The param after a step of L-BFGS.
    pub fn moved_by_lbfgs(&self) -> Var<'g> {
        let Some(by) = self.lbfgs else { return self.p };
        self.hold(&[self.p], &[self.p + by])
    }
}
