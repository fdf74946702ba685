//! Recurrent cells, and layers of one direction, with torch's parameter names, layouts, gate orders and start values.
//! Each layer is one scan.
//!
//! The products with the input do not depend on the state, so one product before the loop computes them for all steps.

use super::init::init_by_fan_in;
use super::linear_layers::linear_width;
use crate::nodes::{Builder, DType, Var};
use std::panic::Location;

/// The params of one direction of a layer: of the input and of the state.
#[derive(Clone, Copy)]
pub(super) struct RecurrentParams<'g> {
    pub of_x: RecurrentMap<'g>,
    pub of_h: RecurrentMap<'g>,
}

/// A weight, and maybe a bias.
#[derive(Clone, Copy)]
pub(super) struct RecurrentMap<'g> {
    pub w: Var<'g>,
    pub b: Option<Var<'g>>,
}

impl<'g> RecurrentMap<'g> {
    /// `x·wᵀ + b` for rows x.
    #[track_caller]
    pub fn apply(self, x: Var<'g>) -> Var<'g> {
        let y = x.matmul_t(self.w, false, true);
        self.b.map_or(y, |b| y + b)
    }
}

/// The sizes of a layer, and whether it has biases.
#[derive(Clone, Copy)]
pub(super) struct RecurrentSizes {
    pub gates: usize,
    pub inputs: usize,
    pub hidden: usize,
    pub bias: bool,
}

/// The params of a layer: weights and biases of input and state. `suffix` is `_l0` for a layer, as in torch, and empty
/// for a cell.
#[track_caller]
pub(super) fn recurrent_params<'g>(
    g: &'g Builder,
    name: &str,
    suffix: &str,
    dtype: DType,
    sizes: RecurrentSizes,
) -> RecurrentParams<'g> {
    let init = init_by_fan_in(sizes.hidden);
    let rows = sizes.gates.saturating_mul(sizes.hidden);
    let weight = |of: &str, width| g.param(&format!("{name}.weight_{of}{suffix}"), [rows, width], dtype, init);
    let bias = |of: &str| sizes.bias.then(|| g.param(&format!("{name}.bias_{of}{suffix}"), [rows], dtype, init));
    let weights = [weight("ih", sizes.inputs), weight("hh", sizes.hidden)];
    let biases = [bias("ih"), bias("hh")];
    let map = |i: usize| RecurrentMap { w: weights[i], b: biases[i] };
    RecurrentParams { of_x: map(0), of_h: map(1) }
}

/// The params of a layer. Their names end in `_l0`, as those of torch's first layer.
#[track_caller]
fn recurrent_layer<'g>(g: &'g Builder, name: &str, x: Var<'g>, gates: usize, hidden: usize) -> RecurrentParams<'g> {
    let sizes = RecurrentSizes { gates, inputs: linear_width(x), hidden, bias: true };
    recurrent_params(g, name, "_l0", x.dtype(), sizes)
}

/// `x·Wᵀ + b` for all steps: `x` is `[steps, batch, inputs]`.
#[track_caller]
pub(super) fn recurrent_project<'g>(x: Var<'g>, map: RecurrentMap<'g>) -> Var<'g> {
    let d = x.dims();
    let [steps, batch, inputs] = d[..] else {
        return x.g.fail(crate::error::Kind::Shape, format!("a recurrent layer takes [steps, batch, inputs], not {d}"));
    };
    let rows = map.w.dims().first().copied().unwrap_or(0);
    map.apply(x.reshape([steps * batch, inputs])).reshape([steps, batch, rows])
}

/// Gate `i` of `n` along the last axis of `x` `[batch, n·hidden]`.
#[track_caller]
fn recurrent_gate<'g>(x: Var<'g>, i: usize, hidden: usize) -> Var<'g> {
    let batch = x.dims().first().copied().unwrap_or(0);
    x.slice(&[0, i * hidden], &[batch, (i + 1) * hidden], &[1, 1])
}

/// A GRU's next state, from `x·W_ihᵀ + b_ih` and the previous state.
#[track_caller]
pub(super) fn gru_step<'g>(of_x: Var<'g>, h: Var<'g>, map: RecurrentMap<'g>) -> Var<'g> {
    let hidden = linear_width(h);
    let of_h = map.apply(h);
    let both = |i: usize| (recurrent_gate(of_x, i, hidden) + recurrent_gate(of_h, i, hidden)).sigmoid();
    let (r, z) = (both(0), both(1));
    let n = (recurrent_gate(of_x, 2, hidden) + r * recurrent_gate(of_h, 2, hidden)).tanh();
    n + z * (h - n)
}

/// An LSTM's next state and cell, from `x·W_ihᵀ + b_ih` and the previous state and cell.
#[track_caller]
pub(super) fn lstm_step<'g>(of_x: Var<'g>, h: Var<'g>, c: Var<'g>, map: RecurrentMap<'g>) -> [Var<'g>; 2] {
    let hidden = linear_width(h);
    let all = of_x + map.apply(h);
    let part = |i: usize| recurrent_gate(all, i, hidden);
    let c = part(1).sigmoid() * c + part(0).sigmoid() * part(2).tanh();
    [part(3).sigmoid() * c.tanh(), c]
}

/// One step of [`rnn`], as in `torch.nn.RNNCell`: a function from `x` `[batch, inputs]` and the state `[batch, hidden]`
/// to the next state. Its calls share the params `name.weight_ih`, `name.weight_hh`, `name.bias_ih` and `name.bias_hh`,
/// so calling it several times unrolls a network. All its nodes have the line of the call of `rnn_cell`.
#[track_caller]
pub fn rnn_cell<'g>(
    g: &'g Builder,
    name: &str,
    [inputs, hidden]: [usize; 2],
    dtype: DType,
) -> impl Fn(Var<'g>, Var<'g>) -> Var<'g> + use<'g> {
    let sizes = RecurrentSizes { gates: 1, inputs, hidden, bias: true };
    let p = g.layer_scope(name, || recurrent_params(g, name, "", dtype, sizes));
    let (at, name) = (Location::caller(), name.to_string());
    move |x, h| g.layer_at(at, &name, || (p.of_x.apply(x) + p.of_h.apply(h)).tanh())
}

/// One step of [`gru`], as in `torch.nn.GRUCell`; see [`rnn_cell`].
#[track_caller]
pub fn gru_cell<'g>(
    g: &'g Builder,
    name: &str,
    [inputs, hidden]: [usize; 2],
    dtype: DType,
) -> impl Fn(Var<'g>, Var<'g>) -> Var<'g> + use<'g> {
    let sizes = RecurrentSizes { gates: 3, inputs, hidden, bias: true };
    let p = g.layer_scope(name, || recurrent_params(g, name, "", dtype, sizes));
    let (at, name) = (Location::caller(), name.to_string());
    move |x, h| g.layer_at(at, &name, || gru_step(p.of_x.apply(x), h, p.of_h))
}

/// One step of [`lstm`], as in `torch.nn.LSTMCell`, from state and cell to the next state and cell; see [`rnn_cell`].
#[track_caller]
pub fn lstm_cell<'g>(
    g: &'g Builder,
    name: &str,
    [inputs, hidden]: [usize; 2],
    dtype: DType,
) -> impl Fn(Var<'g>, Var<'g>, Var<'g>) -> [Var<'g>; 2] + use<'g> {
    let sizes = RecurrentSizes { gates: 4, inputs, hidden, bias: true };
    let p = g.layer_scope(name, || recurrent_params(g, name, "", dtype, sizes));
    let (at, name) = (Location::caller(), name.to_string());
    move |x, h, c| g.layer_at(at, &name, || lstm_step(p.of_x.apply(x), h, c, p.of_h))
}

/// Elman network over `x` `[steps, batch, inputs]` from state `h0` `[batch, hidden]`:
/// `h ← tanh(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh)`. Returns the states of all steps and the last.
/// [`rnn_with`](super::rnn_with) has layers, directions and lengths.
#[track_caller]
pub fn rnn<'g>(g: &'g Builder, name: &str, x: Var<'g>, h0: Var<'g>) -> (Var<'g>, Var<'g>) {
    g.layer_scope(name, || {
        let hidden = linear_width(h0);
        let p = recurrent_layer(g, name, x, 1, hidden);
        let (h, y) = g.scan(&[h0], &[recurrent_project(x, p.of_x)], |h, x| {
            let h = (p.of_h.apply(h[0]) + x[0]).tanh();
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
    g.layer_scope(name, || {
        let hidden = linear_width(h0);
        let p = recurrent_layer(g, name, x, 3, hidden);
        let (h, y) = g.scan(&[h0], &[recurrent_project(x, p.of_x)], |h, x| {
            let h = gru_step(x[0], h[0], p.of_h);
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
    g.layer_scope(name, || {
        let hidden = linear_width(h0);
        let p = recurrent_layer(g, name, x, 4, hidden);
        let (last, y) = g.scan(&[h0, c0], &[recurrent_project(x, p.of_x)], |s, x| {
            let [h, c] = lstm_step(x[0], s[0], s[1], p.of_h);
            (vec![h, c], vec![h])
        });
        (y[0], last[0], last[1])
    })
}
