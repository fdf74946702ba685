//! Recurrent networks on weights that are values of the graph: those of another program's model, or shared ones.

use super::recurrent::{LstmRun, Recurrent, RecurrentKind, RecurrentRun, run_layers};
use super::recurrent_params::RecurrentSource;
use crate::error::Kind;
use crate::nodes::Var;

/// Why the weights do not fit, if they do not; else the width of the state.
fn check_weights<'g>(x: Var<'g>, all: &[Var<'g>], kind: RecurrentKind, o: &Recurrent<'g>) -> Result<usize, String> {
    let (directions, own) = (1 + usize::from(o.bidirectional), if o.bias { 4 } else { 2 });
    let count = o.layers.saturating_mul(directions).saturating_mul(own);
    if all.len() != count || all.len() < 2 {
        let text =
            format!("{} weights are given; {} layers of {directions} directions have {count}", all.len(), o.layers);
        return Err(text);
    }
    let hidden = all[1].dims().last().copied().unwrap_or(0);
    let rows = kind.gates().saturating_mul(hidden);
    for (i, w) in all.iter().enumerate() {
        let inputs = match i / own / directions {
            0 => x.dims().last().copied().unwrap_or(0),
            _ => directions.saturating_mul(hidden),
        };
        let want = [vec![rows, inputs], vec![rows, hidden], vec![rows], vec![rows]];
        if *w.dims() != *want[i % own] || w.dtype() != x.dtype() {
            let (t, d, want) = (w.dtype(), w.dims(), &want[i % own]);
            return Err(format!("weight {i} is {t}{d}; {}{want:?} is needed", x.dtype()));
        }
    }
    Ok(hidden)
}

#[track_caller]
fn run_of<'g>(x: Var<'g>, weights: &[Var<'g>], kind: RecurrentKind, o: Recurrent<'g>) -> LstmRun<'g> {
    let g = x.g;
    let fault = || {
        if !g.owns(kind.function(), weights) || !x.is_some() || weights.iter().any(|w| !w.is_some()) {
            return Err(None);
        }
        check_weights(x, weights, kind, &o).map_err(Some)
    };
    match fault() {
        Ok(hidden) => g.with_caller(|| run_layers(g, RecurrentSource::Given(weights), x, hidden, kind, o)),
        Err(why) => {
            let none = match why {
                Some(why) => g.fail(Kind::Shape, format!("{}: {why}", kind.function().replace("with", "of"))),
                None => g.var(crate::arena::Value::NONE),
            };
            LstmRun { output: none, h_n: none, c_n: none }
        }
    }
}

/// [`rnn_with`](super::rnn_with) on weights that are values: for each layer and direction `weight_ih`, `weight_hh` and,
/// with `o.bias`, `bias_ih` and `bias_hh`, the order of torch's flat weights. The width of the state is that of
/// `weight_hh`.
///
/// ```
/// use arenagrad::prelude::*;
///
/// let g = Builder::new("shared");
/// let x = g.input("x", [20, 8, 16], DType::F32);
/// let weight = |name: &str, width: usize| g.param(name, [32, width], DType::F32, Init::Zeros);
/// let [of_x, of_h] = [weight("w_x", 16), weight("w_h", 32)];
/// let run = nn::rnn_of(x, &[of_x, of_h], nn::Recurrent::default().bias(false));
/// assert_eq!(*run.output.dims(), [20, 8, 32]);
/// ```
#[track_caller]
pub fn rnn_of<'g>(x: Var<'g>, weights: &[Var<'g>], o: Recurrent<'g>) -> RecurrentRun<'g> {
    let LstmRun { output, h_n, .. } = run_of(x, weights, RecurrentKind::Rnn(o.nonlinearity), o);
    RecurrentRun { output, h_n }
}

/// [`gru_with`](super::gru_with) on weights that are values, in the order of [`rnn_of`].
#[track_caller]
pub fn gru_of<'g>(x: Var<'g>, weights: &[Var<'g>], o: Recurrent<'g>) -> RecurrentRun<'g> {
    let LstmRun { output, h_n, .. } = run_of(x, weights, RecurrentKind::Gru, o);
    RecurrentRun { output, h_n }
}

/// [`lstm_with`](super::lstm_with) on weights that are values, in the order of [`rnn_of`].
#[track_caller]
pub fn lstm_of<'g>(x: Var<'g>, weights: &[Var<'g>], o: Recurrent<'g>) -> LstmRun<'g> {
    run_of(x, weights, RecurrentKind::Lstm, o)
}
