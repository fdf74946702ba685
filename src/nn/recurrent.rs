//! Recurrent layers: one scan each, with torch's parameter names, layouts, gate orders and initialisation.
//!
//! The products with the input do not depend on the state, so they are one product over all steps, before the loop.

use crate::nodes::{Builder, Init, Var};

/// The params of a layer of `gates` gates of `hidden` units on `inputs` inputs: weights and biases of input and state.
#[track_caller]
fn params<'g>(g: &'g Builder, name: &str, x: Var<'g>, gates: usize, hidden: usize) -> [Var<'g>; 4] {
    let inputs = x.dims().last().copied().unwrap_or(0);
    let init = Init::Uniform(if hidden == 0 { 0.0 } else { 1.0 / (hidden as f64).sqrt() });
    let rows = gates * hidden;
    [
        g.param(&format!("{name}.weight_ih_l0"), [rows, inputs], x.dtype(), init),
        g.param(&format!("{name}.weight_hh_l0"), [rows, hidden], x.dtype(), init),
        g.param(&format!("{name}.bias_ih_l0"), [rows], x.dtype(), init),
        g.param(&format!("{name}.bias_hh_l0"), [rows], x.dtype(), init),
    ]
}

/// `x·Wᵀ + b` for all steps: `x` is `[steps, batch, inputs]`.
#[track_caller]
fn project<'g>(x: Var<'g>, w: Var<'g>, b: Var<'g>) -> Var<'g> {
    let d = x.dims();
    let [steps, batch, inputs] = d[..] else {
        return x.g.fail(crate::error::Kind::Shape, format!("a recurrent layer takes [steps, batch, inputs], not {d}"));
    };
    let rows = b.numel();
    (x.reshape([steps * batch, inputs]).matmul_t(w, false, true) + b).reshape([steps, batch, rows])
}

/// Gate `i` of `n` along the last axis of `x` `[batch, n·hidden]`.
#[track_caller]
fn gate<'g>(x: Var<'g>, i: usize, hidden: usize) -> Var<'g> {
    let batch = x.dims().first().copied().unwrap_or(0);
    x.slice(&[0, i * hidden], &[batch, (i + 1) * hidden], &[1, 1])
}

/// Elman network over `x` `[steps, batch, inputs]` from state `h0` `[batch, hidden]`:
/// `h ← tanh(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh)`. Returns the states of all steps and the last.
#[track_caller]
pub fn rnn<'g>(g: &'g Builder, name: &str, x: Var<'g>, h0: Var<'g>) -> (Var<'g>, Var<'g>) {
    // All nodes come from the line that asks for the layer.
    g.held(|| {
        let hidden = h0.dims().last().copied().unwrap_or(0);
        let [wi, wh, bi, bh] = params(g, name, x, 1, hidden);
        let (h, y) = g.scan(&[h0], &[project(x, wi, bi)], |h, x| {
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
    // All nodes come from the line that asks for the layer.
    g.held(|| {
        let hidden = h0.dims().last().copied().unwrap_or(0);
        let [wi, wh, bi, bh] = params(g, name, x, 3, hidden);
        let (h, y) = g.scan(&[h0], &[project(x, wi, bi)], |h, x| {
            let (of_x, of_h) = (x[0], h[0].matmul_t(wh, false, true) + bh);
            let both = |i: usize| (gate(of_x, i, hidden) + gate(of_h, i, hidden)).sigmoid();
            let (r, z) = (both(0), both(1));
            let n = (gate(of_x, 2, hidden) + r * gate(of_h, 2, hidden)).tanh();
            let h = n + z * (h[0] - n);
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
    // All nodes come from the line that asks for the layer.
    g.held(|| {
        let hidden = h0.dims().last().copied().unwrap_or(0);
        let [wi, wh, bi, bh] = params(g, name, x, 4, hidden);
        let (last, y) = g.scan(&[h0, c0], &[project(x, wi, bi)], |s, x| {
            let all = x[0] + (s[0].matmul_t(wh, false, true) + bh);
            let part = |i: usize| gate(all, i, hidden);
            let c = part(1).sigmoid() * s[1] + part(0).sigmoid() * part(2).tanh();
            let h = part(3).sigmoid() * c.tanh();
            (vec![h, c], vec![h])
        });
        (y[0], last[0], last[1])
    })
}
