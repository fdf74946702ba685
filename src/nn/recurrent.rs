//! Recurrent cells and layers, with torch's parameter names, layouts, gate orders and start values: of one direction,
//! and networks of several layers and both directions, over sequences of several lengths.
//!
//! Each direction of each layer is one scan. The products with the input do not depend on the state, so one product
//! before the loop computes them for all steps. After the end of a sequence, its state stays as it is and its output
//! is 0. So the last state is the one at the end of the sequence, and the reverse direction starts there.

use super::dropout::dropout;
use super::lengths::sequence_mask;
use super::linear_layers::linear_width;
use super::recurrent_params::{
    RecurrentMap, RecurrentSizes, RecurrentSource, first_layer_params, given_params, suffixed_params,
};
use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, DType, Loop, Var};
use std::panic::Location;

/// `x·Wᵀ + b` for all steps: `x` is `[steps, batch, inputs]`.
#[track_caller]
fn project_steps<'g>(x: Var<'g>, map: RecurrentMap<'g>) -> Var<'g> {
    let d = x.dims();
    let [steps, batch, inputs] = d[..] else {
        return x.g.fail(Kind::Shape, format!("a recurrent layer takes [steps, batch, inputs], not {d}"));
    };
    let rows = map.w.dims().first().copied().unwrap_or(0);
    map.apply(x.reshape([steps * batch, inputs])).reshape([steps, batch, rows])
}

/// Gate `i` of `n` along the last axis of `x` `[batch, n·hidden]`.
#[track_caller]
fn take_gate<'g>(x: Var<'g>, i: usize, hidden: usize) -> Var<'g> {
    let batch = x.dims().first().copied().unwrap_or(0);
    x.slice(&[0, i * hidden], &[batch, (i + 1) * hidden], &[1, 1])
}

/// A GRU's next state, from `x·W_ihᵀ + b_ih` and the previous state.
#[track_caller]
fn gru_step<'g>(of_x: Var<'g>, h: Var<'g>, map: RecurrentMap<'g>) -> Var<'g> {
    let hidden = linear_width(h);
    let of_h = map.apply(h);
    let both = |i: usize| (take_gate(of_x, i, hidden) + take_gate(of_h, i, hidden)).sigmoid();
    let (r, z) = (both(0), both(1));
    let n = (take_gate(of_x, 2, hidden) + r * take_gate(of_h, 2, hidden)).tanh();
    n + z * (h - n)
}

/// An LSTM's next state and cell, from `x·W_ihᵀ + b_ih` and the previous state and cell.
#[track_caller]
fn lstm_step<'g>(of_x: Var<'g>, h: Var<'g>, c: Var<'g>, map: RecurrentMap<'g>) -> [Var<'g>; 2] {
    let hidden = linear_width(h);
    let all = of_x + map.apply(h);
    let part = |i: usize| take_gate(all, i, hidden);
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
    let p = g.layer_scope(name, || suffixed_params(g, name, "", dtype, sizes));
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
    let p = g.layer_scope(name, || suffixed_params(g, name, "", dtype, sizes));
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
    let p = g.layer_scope(name, || suffixed_params(g, name, "", dtype, sizes));
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
        let p = first_layer_params(g, name, x, 1, hidden);
        let (h, y) = g.scan(&[h0], &[project_steps(x, p.of_x)], |h, x| {
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
        let p = first_layer_params(g, name, x, 3, hidden);
        let (h, y) = g.scan(&[h0], &[project_steps(x, p.of_x)], |h, x| {
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
        let p = first_layer_params(g, name, x, 4, hidden);
        let (last, y) = g.scan(&[h0, c0], &[project_steps(x, p.of_x)], |s, x| {
            let [h, c] = lstm_step(x[0], s[0], s[1], p.of_h);
            (vec![h, c], vec![h])
        });
        (y[0], last[0], last[1])
    })
}

/// The activation of [`rnn_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Nonlinearity {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
    /// max(0, x).
    Relu,
}

/// Options of [`rnn_with`], [`gru_with`] and [`lstm_with`], with torch's defaults.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Recurrent<'g> {
    /// Number of layers. Each reads the outputs of the one before.
    pub layers: usize,
    /// Whether each layer also runs from the end to the start; its outputs are those of both directions, one after the
    /// other along the last axis.
    pub bidirectional: bool,
    /// Adds the params `bias_ih` and `bias_hh`.
    pub bias: bool,
    /// Whether x and the outputs are `[batch, steps, …]`, instead of `[steps, batch, …]`.
    pub batch_first: bool,
    /// Dropout probability of the outputs of each layer but the last, while training ([`Builder::training`]).
    pub dropout: f64,
    /// The first states, `[layers·directions, batch, hidden]`; zeros without them.
    pub h0: Option<Var<'g>>,
    /// The first cells of an LSTM, of the shape of `h0`; zeros without them.
    pub c0: Option<Var<'g>>,
    /// The number of steps of each sequence, `[batch]`, `i32` or `i64`. Steps after the end of a sequence are not read,
    /// and their outputs are 0. The last state of a sequence is that of its last step, and its reverse direction begins
    /// there: torch's packed sequences, in any order. A length of 0 gives the first state; one above the number of
    /// steps is an error of the step.
    pub lengths: Option<Var<'g>>,
    /// The activation of [`rnn_with`].
    pub nonlinearity: Nonlinearity,
}

impl Default for Recurrent<'_> {
    fn default() -> Self {
        Recurrent {
            layers: 1,
            bidirectional: false,
            bias: true,
            batch_first: false,
            dropout: 0.0,
            h0: None,
            c0: None,
            lengths: None,
            nonlinearity: Nonlinearity::Tanh,
        }
    }
}

setters! {
    ['g] Recurrent<'g> {
        layers: usize,
        bidirectional: bool,
        bias: bool,
        batch_first: bool,
        dropout: f64,
        h0: impl Into<Option<Var<'g>>> => h0.into(),
        c0: impl Into<Option<Var<'g>>> => c0.into(),
        lengths: impl Into<Option<Var<'g>>> => lengths.into(),
        nonlinearity: Nonlinearity,
    }
}

/// The results of [`rnn_with`] and [`gru_with`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecurrentRun<'g> {
    /// The states of the last layer at all steps, `[steps, batch, directions·hidden]`.
    pub output: Var<'g>,
    /// The last state of each layer and direction, `[layers·directions, batch, hidden]`.
    pub h_n: Var<'g>,
}

/// The results of [`lstm_with`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LstmRun<'g> {
    /// As in [`RecurrentRun`].
    pub output: Var<'g>,
    /// As in [`RecurrentRun`].
    pub h_n: Var<'g>,
    /// The last cell of each layer and direction, `[layers·directions, batch, hidden]`.
    pub c_n: Var<'g>,
}

/// The kind of a recurrent network.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum RecurrentKind {
    Rnn(Nonlinearity),
    Gru,
    Lstm,
}

impl RecurrentKind {
    pub(super) fn gates(self) -> usize {
        match self {
            RecurrentKind::Rnn(_) => 1,
            RecurrentKind::Gru => 3,
            RecurrentKind::Lstm => 4,
        }
    }

    pub(super) fn function(self) -> &'static str {
        match self {
            RecurrentKind::Rnn(_) => "rnn_with",
            RecurrentKind::Gru => "gru_with",
            RecurrentKind::Lstm => "lstm_with",
        }
    }
}

/// Elman network of one or more layers, as in `torch.nn.RNN`: see [`rnn`] for the formula. `x` is
/// `[steps, batch, inputs]`. Params of layer k: `name.weight_ih_lk`, `name.weight_hh_lk`, `name.bias_ih_lk`,
/// `name.bias_hh_lk`, and the same with the suffix `_reverse`.
///
/// ```
/// use arenagrad::prelude::*;
///
/// let g = Builder::new("tagger");
/// let x = g.input("x", [8, 20, 16], DType::F32); // 8 sequences of up to 20 steps
/// let lengths = g.input("lengths", [8], DType::I32);
/// let o = nn::Recurrent::default().layers(2).bidirectional(true).batch_first(true).dropout(0.1).lengths(lengths);
/// let run = nn::lstm_with(&g, "lstm", x, 32, o);
/// assert_eq!(*run.output.dims(), [8, 20, 64]);
/// assert_eq!(*run.h_n.dims(), [4, 8, 32]);
/// ```
#[track_caller]
pub fn rnn_with<'g>(g: &'g Builder, name: &str, x: Var<'g>, hidden: usize, o: Recurrent<'g>) -> RecurrentRun<'g> {
    let LstmRun { output, h_n, .. } = run_named(g, name, x, hidden, RecurrentKind::Rnn(o.nonlinearity), o);
    RecurrentRun { output, h_n }
}

/// Gated recurrent units of one or more layers, as in `torch.nn.GRU`: see [`gru`] for the formula and
/// [`rnn_with`] for shapes and names.
#[track_caller]
pub fn gru_with<'g>(g: &'g Builder, name: &str, x: Var<'g>, hidden: usize, o: Recurrent<'g>) -> RecurrentRun<'g> {
    let LstmRun { output, h_n, .. } = run_named(g, name, x, hidden, RecurrentKind::Gru, o);
    RecurrentRun { output, h_n }
}

/// Long short-term memory of one or more layers, as in `torch.nn.LSTM`: see [`lstm`] for the formula and
/// [`rnn_with`] for shapes and names.
#[track_caller]
pub fn lstm_with<'g>(g: &'g Builder, name: &str, x: Var<'g>, hidden: usize, o: Recurrent<'g>) -> LstmRun<'g> {
    run_named(g, name, x, hidden, RecurrentKind::Lstm, o)
}

/// Runs layers whose params are made under `name`.
#[track_caller]
fn run_named<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    hidden: usize,
    kind: RecurrentKind,
    o: Recurrent<'g>,
) -> LstmRun<'g> {
    g.layer_scope(name, || run_layers(g, RecurrentSource::Named(name), x, hidden, kind, o))
}

/// Why the operands do not fit, if they do not.
fn check_layers(x: Var<'_>, hidden: usize, kind: RecurrentKind, o: &Recurrent<'_>) -> Result<(), String> {
    let d = x.dims();
    if d.len() != 3 || !x.dtype().is_float() {
        let order = if o.batch_first { "[batch, steps, inputs]" } else { "[steps, batch, inputs]" };
        return Err(format!("x is {}{d}; floats {order} are needed", x.dtype()));
    }
    if o.layers == 0 {
        return Err("0 layers; 1 is the least".into());
    }
    if kind != RecurrentKind::Lstm && o.c0.is_some() {
        return Err("c0 is given; only an LSTM has cells".into());
    }
    let batch = if o.batch_first { d[0] } else { d[1] };
    let want = [o.layers.saturating_mul(1 + usize::from(o.bidirectional)), batch, hidden];
    for (what, first) in [("h0", o.h0), ("c0", o.c0)] {
        if let Some(v) = first.filter(|v| v.is_some() && (v.dtype() != x.dtype() || v.dims()[..] != want)) {
            return Err(format!("{what} is {}{}; {}{want:?} is needed", v.dtype(), v.dims(), x.dtype()));
        }
    }
    match o.lengths.filter(|l| l.is_some()) {
        Some(l) if l.dims()[..] != [batch] || !matches!(l.dtype(), DType::I32 | DType::I64) => {
            Err(format!("lengths are {}{}; i32 or i64 [{batch}] is needed", l.dtype(), l.dims()))
        }
        _ => Ok(()),
    }
}

#[track_caller]
pub(super) fn run_layers<'g>(
    g: &'g Builder,
    source: RecurrentSource<'_, 'g>,
    x: Var<'g>,
    hidden: usize,
    kind: RecurrentKind,
    o: Recurrent<'g>,
) -> LstmRun<'g> {
    let none = g.var(Value::NONE);
    let none = LstmRun { output: none, h_n: none, c_n: none };
    let given: Vec<Var<'g>> = [Some(x), o.h0, o.c0, o.lengths].into_iter().flatten().collect();
    if !g.owns(kind.function(), &given) || given.iter().any(|v| !v.is_some()) {
        return none;
    }
    if let Err(why) = check_layers(x, hidden, kind, &o) {
        g.fail(Kind::Shape, format!("{}: {why}", kind.function()));
        return none;
    }
    let x = if o.batch_first { x.transpose(&[1, 0, 2]) } else { x };
    let live = o.lengths.map(|l| sequence_mask(l, x.dims()[0]).transpose(&[1, 0]).unsqueeze(2));
    // What is behind a sequence's end has no part in any product, not even as 0·NaN.
    let mut x = live.map_or(x, |live| live.select(x, 0.0));
    let (mut states, mut cells) = (Vec::new(), Vec::new());
    for layer in 0..o.layers {
        let mut outputs = Vec::new();
        for reverse in [false, true].into_iter().take(1 + usize::from(o.bidirectional)) {
            let direction = RecurrentDirection { layer, reverse, hidden, kind, live, at: states.len() };
            let run = direction.run(g, source, x, &o);
            outputs.push(run.output);
            states.push(run.h_n);
            cells.push(run.c_n);
        }
        // After an error, such as one layer too many, no further layers are built.
        if g.error().is_some() {
            return none;
        }
        x = outputs[0].concat(&outputs[1..], -1);
        if layer + 1 < o.layers {
            x = dropout(x, o.dropout);
        }
    }
    let output = if o.batch_first { x.transpose(&[1, 0, 2]) } else { x };
    let stacked = |all: &[Var<'g>]| all[0].stack(&all[1..], 0);
    let c_n = if kind == RecurrentKind::Lstm { stacked(&cells) } else { output };
    LstmRun { output, h_n: stacked(&states), c_n }
}

/// One direction of one layer.
struct RecurrentDirection<'g> {
    layer: usize,
    reverse: bool,
    hidden: usize,
    kind: RecurrentKind,
    /// Where sequences have not ended, `[steps, batch, 1]`.
    live: Option<Var<'g>>,
    /// Its place among the directions of all layers.
    at: usize,
}

impl<'g> RecurrentDirection<'g> {
    /// Runs over `x` `[steps, batch, inputs]`. `h_n` and `c_n` are `[batch, hidden]`.
    fn run(&self, g: &'g Builder, source: RecurrentSource<'_, 'g>, x: Var<'g>, o: &Recurrent<'g>) -> LstmRun<'g> {
        let d = x.dims();
        let p = match source {
            RecurrentSource::Named(name) => {
                let suffix = format!("_l{}{}", self.layer, if self.reverse { "_reverse" } else { "" });
                let inputs = d.last().copied().unwrap_or(0);
                let sizes = RecurrentSizes { gates: self.kind.gates(), inputs, hidden: self.hidden, bias: o.bias };
                suffixed_params(g, name, &suffix, x.dtype(), sizes)
            }
            RecurrentSource::Given(all) => given_params(all, self.at, o.bias),
        };
        let first = |given: Option<Var<'g>>| match given {
            Some(all) => all.narrow(0, self.at, 1).squeeze(0),
            None => g.full(0.0, [d.get(1).copied().unwrap_or(0), self.hidden], x.dtype()),
        };
        let lstm = self.kind == RecurrentKind::Lstm;
        let mut starts = vec![first(o.h0)];
        starts.extend(lstm.then(|| first(o.c0)));
        let mut xs = vec![project_steps(x, p.of_x)];
        xs.extend(self.live);
        let (last, y) = g.scan_with(Loop::default().reverse(self.reverse), &starts, &xs, |s, now| {
            let next = match self.kind {
                RecurrentKind::Rnn(Nonlinearity::Tanh) => vec![(p.of_h.apply(s[0]) + now[0]).tanh()],
                RecurrentKind::Rnn(Nonlinearity::Relu) => vec![(p.of_h.apply(s[0]) + now[0]).relu()],
                RecurrentKind::Gru => vec![gru_step(now[0], s[0], p.of_h)],
                RecurrentKind::Lstm => lstm_step(now[0], s[0], s[1], p.of_h).to_vec(),
            };
            let Some(&live) = now.get(1) else { return (next.clone(), vec![next[0]]) };
            let kept = next.iter().zip(s).map(|(&next, &before)| live.select(next, before)).collect();
            (kept, vec![live.select(next[0], 0.0)])
        });
        LstmRun { output: y[0], h_n: last[0], c_n: last.get(1).copied().unwrap_or(last[0]) }
    }
}
