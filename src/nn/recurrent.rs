//! Recurrent layers with torch's parameter names, layouts, gate orders and start values. Each layer is one scan.
//!
//! The products with the input do not depend on the state, so one product before the loop computes them for all steps.

use super::dense::dense_width;
use super::init::init_by_fan_in;
use crate::nodes::{Builder, DType, Var};

/// The params of a layer of `gates` gates of `hidden` units on `inputs` inputs: weights and biases of input and state.
/// `suffix` is `_l0` for a layer, as in torch, and empty for a cell.
#[track_caller]
fn recurrent_params<'g>(
    g: &'g Builder,
    name: &str,
    suffix: &str,
    dtype: DType,
    gates: usize,
    [inputs, hidden]: [usize; 2],
) -> [Var<'g>; 4] {
    let init = init_by_fan_in(hidden);
    let rows = gates.saturating_mul(hidden);
    [
        g.param(&format!("{name}.weight_ih{suffix}"), [rows, inputs], dtype, init),
        g.param(&format!("{name}.weight_hh{suffix}"), [rows, hidden], dtype, init),
        g.param(&format!("{name}.bias_ih{suffix}"), [rows], dtype, init),
        g.param(&format!("{name}.bias_hh{suffix}"), [rows], dtype, init),
    ]
}

/// The params of a layer. Their names end in `_l0`, as those of torch's first layer.
#[track_caller]
fn recurrent_layer<'g>(g: &'g Builder, name: &str, x: Var<'g>, gates: usize, hidden: usize) -> [Var<'g>; 4] {
    recurrent_params(g, name, "_l0", x.dtype(), gates, [dense_width(x), hidden])
}

/// `x·Wᵀ + b` for all steps: `x` is `[steps, batch, inputs]`.
#[track_caller]
fn recurrent_project<'g>(x: Var<'g>, w: Var<'g>, b: Var<'g>) -> Var<'g> {
    let d = x.dims();
    let [steps, batch, inputs] = d[..] else {
        return x.g.fail(crate::error::Kind::Shape, format!("a recurrent layer takes [steps, batch, inputs], not {d}"));
    };
    let rows = b.numel();
    (x.reshape([steps * batch, inputs]).matmul_t(w, false, true) + b).reshape([steps, batch, rows])
}

/// Gate `i` of `n` along the last axis of `x` `[batch, n·hidden]`.
#[track_caller]
fn recurrent_gate<'g>(x: Var<'g>, i: usize, hidden: usize) -> Var<'g> {
    let batch = x.dims().first().copied().unwrap_or(0);
    x.slice(&[0, i * hidden], &[batch, (i + 1) * hidden], &[1, 1])
}

/// A GRU's next state, from `x·W_ihᵀ + b_ih` and the previous state.
#[track_caller]
fn gru_step<'g>(of_x: Var<'g>, h: Var<'g>, wh: Var<'g>, bh: Var<'g>) -> Var<'g> {
    let hidden = dense_width(h);
    let of_h = h.matmul_t(wh, false, true) + bh;
    let both = |i: usize| (recurrent_gate(of_x, i, hidden) + recurrent_gate(of_h, i, hidden)).sigmoid();
    let (r, z) = (both(0), both(1));
    let n = (recurrent_gate(of_x, 2, hidden) + r * recurrent_gate(of_h, 2, hidden)).tanh();
    n + z * (h - n)
}

/// An LSTM's next state and cell, from `x·W_ihᵀ + b_ih` and the previous state and cell.
#[track_caller]
fn lstm_step<'g>(of_x: Var<'g>, h: Var<'g>, c: Var<'g>, wh: Var<'g>, bh: Var<'g>) -> [Var<'g>; 2] {
    let hidden = dense_width(h);
    let all = of_x + (h.matmul_t(wh, false, true) + bh);
    let part = |i: usize| recurrent_gate(all, i, hidden);
    let c = part(1).sigmoid() * c + part(0).sigmoid() * part(2).tanh();
    [part(3).sigmoid() * c.tanh(), c]
}

/// One step of [`rnn`], as `torch.nn.RNNCell`: a function from `x` `[batch, inputs]` and the state `[batch, hidden]` to
/// the next state. Its calls share the params `name.weight_ih`, `name.weight_hh`, `name.bias_ih` and `name.bias_hh`, so
/// calling it several times unrolls a network.
#[track_caller]
pub fn rnn_cell<'g>(
    g: &'g Builder,
    name: &str,
    [inputs, hidden]: [usize; 2],
    dtype: DType,
) -> impl Fn(Var<'g>, Var<'g>) -> Var<'g> + use<'g> {
    let [wi, wh, bi, bh] = recurrent_params(g, name, "", dtype, 1, [inputs, hidden]);
    move |x, h| (x.matmul_t(wi, false, true) + bi + (h.matmul_t(wh, false, true) + bh)).tanh()
}

/// One step of [`gru`], as `torch.nn.GRUCell`; see [`rnn_cell`].
#[track_caller]
pub fn gru_cell<'g>(
    g: &'g Builder,
    name: &str,
    [inputs, hidden]: [usize; 2],
    dtype: DType,
) -> impl Fn(Var<'g>, Var<'g>) -> Var<'g> + use<'g> {
    let [wi, wh, bi, bh] = recurrent_params(g, name, "", dtype, 3, [inputs, hidden]);
    move |x, h| gru_step(x.matmul_t(wi, false, true) + bi, h, wh, bh)
}

/// One step of [`lstm`], as `torch.nn.LSTMCell`, from state and cell to the next state and cell; see [`rnn_cell`].
#[track_caller]
pub fn lstm_cell<'g>(
    g: &'g Builder,
    name: &str,
    [inputs, hidden]: [usize; 2],
    dtype: DType,
) -> impl Fn(Var<'g>, Var<'g>, Var<'g>) -> [Var<'g>; 2] + use<'g> {
    let [wi, wh, bi, bh] = recurrent_params(g, name, "", dtype, 4, [inputs, hidden]);
    move |x, h, c| lstm_step(x.matmul_t(wi, false, true) + bi, h, c, wh, bh)
}

/// Elman network over `x` `[steps, batch, inputs]` from state `h0` `[batch, hidden]`:
/// `h ← tanh(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh)`. Returns the states of all steps and the last.
#[track_caller]
pub fn rnn<'g>(g: &'g Builder, name: &str, x: Var<'g>, h0: Var<'g>) -> (Var<'g>, Var<'g>) {
    // All nodes have the caller's line as their location.
    g.with_caller(|| {
        let hidden = dense_width(h0);
        let [wi, wh, bi, bh] = recurrent_layer(g, name, x, 1, hidden);
        let (h, y) = g.scan(&[h0], &[recurrent_project(x, wi, bi)], |h, x| {
            let h = (h[0].matmul_t(wh, false, true) + bh + x[0]).tanh();
            (vec![h], vec![h])
        });
        (y[0], h[0])
    })
}

/// Gated recurrent unit over `x` `[steps, batch, inputs]` from state `h0` `[batch, hidden]`, gates in torch's order:
/// `r, z = σ(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh)`, `n = tanh(x·W_inᵀ + b_in + r·(h·W_hnᵀ + b_hn))`,
/// `h ← (1 − z)·n + z·h`. Returns the states of all steps and the last.
#[track_caller]
pub fn gru<'g>(g: &'g Builder, name: &str, x: Var<'g>, h0: Var<'g>) -> (Var<'g>, Var<'g>) {
    // All nodes have the caller's line as their location.
    g.with_caller(|| {
        let hidden = dense_width(h0);
        let [wi, wh, bi, bh] = recurrent_layer(g, name, x, 3, hidden);
        let (h, y) = g.scan(&[h0], &[recurrent_project(x, wi, bi)], |h, x| {
            let h = gru_step(x[0], h[0], wh, bh);
            (vec![h], vec![h])
        });
        (y[0], h[0])
    })
}

/// Long short-term memory over `x` `[steps, batch, inputs]` from state `h0` and cell `c0` `[batch, hidden]`, gates in
/// torch's order i, f, g, o of `x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh`: `c ← σ(f)·c + σ(i)·tanh(g)`, `h ← σ(o)·tanh(c)`.
/// Returns the states of all steps, the last state and the last cell.
#[track_caller]
pub fn lstm<'g>(g: &'g Builder, name: &str, x: Var<'g>, h0: Var<'g>, c0: Var<'g>) -> (Var<'g>, Var<'g>, Var<'g>) {
    // All nodes have the caller's line as their location.
    g.with_caller(|| {
        let hidden = dense_width(h0);
        let [wi, wh, bi, bh] = recurrent_layer(g, name, x, 4, hidden);
        let (last, y) = g.scan(&[h0, c0], &[recurrent_project(x, wi, bi)], |s, x| {
            let [h, c] = lstm_step(x[0], s[0], s[1], wh, bh);
            (vec![h, c], vec![h])
        });
        (y[0], last[0], last[1])
    })
}
