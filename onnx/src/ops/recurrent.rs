//! Recurrent layers, with one direction or two.

use super::{Entry, same};
use crate::error::Result;
use crate::import::{Cx, Out};
use arenagrad::graph::{DType, Loop, Var};

pub const OPS: &[Entry] = &[
    same("RNN", |c| layer(c, Kind::Rnn)),
    same("GRU", |c| layer(c, Kind::Gru)),
    same("LSTM", |c| layer(c, Kind::Lstm)),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Rnn,
    Gru,
    Lstm,
}

impl Kind {
    fn gates(self) -> usize {
        match self {
            Kind::Rnn => 1,
            Kind::Gru => 3,
            Kind::Lstm => 4,
        }
    }

    /// The activations of one direction, if none are named.
    fn activations(self) -> &'static [&'static str] {
        match self {
            Kind::Rnn => &["Tanh"],
            Kind::Gru => &["Sigmoid", "Tanh"],
            Kind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// An activation with its numbers.
#[derive(Clone, Copy)]
struct Act<'n> {
    name: &'n str,
    alpha: Option<f64>,
    beta: Option<f64>,
}

impl Act<'_> {
    fn of<'g>(&self, x: Var<'g>) -> Option<Var<'g>> {
        let (alpha, beta) = (|d: f64| self.alpha.unwrap_or(d), |d: f64| self.beta.unwrap_or(d));
        Some(match self.name.to_ascii_lowercase().as_str() {
            "sigmoid" => x.sigmoid(),
            "tanh" => x.tanh(),
            "relu" => x.relu(),
            "affine" => x * alpha(1.0) + beta(0.0),
            "leakyrelu" => x.leaky_relu(alpha(0.01)),
            "thresholdedrelu" => x.threshold(alpha(1.0), 0.0),
            "scaledtanh" => (x * beta(1.0)).tanh() * alpha(1.0),
            "hardsigmoid" => (x * alpha(0.2) + beta(0.5)).clamp(0.0, 1.0),
            "elu" => x.elu(alpha(1.0)),
            "softsign" => x.softsign(),
            "softplus" => x.softplus(),
            _ => return None,
        })
    }
}

/// One direction of a layer.
struct Direction<'n, 'g> {
    kind: Kind,
    hidden: usize,
    acts: Vec<Act<'n>>,
    clip: Option<f64>,
    reset_first: bool,
    input_forget: bool,
    /// Weights of the state, `[gates·hidden, hidden]`, and biases of input and state.
    of_h: Var<'g>,
    bias: Option<[Var<'g>; 2]>,
    peephole: Option<Var<'g>>,
}

impl<'g> Direction<'_, 'g> {
    fn act(&self, i: usize, x: Var<'g>) -> Var<'g> {
        let x = self.clip.map_or(x, |c| x.clamp(-c, c));
        self.acts[i].of(x).unwrap_or(x)
    }

    /// Gate `i` of a value that has all gates along its last axis.
    fn gate(&self, all: Var<'g>, i: usize) -> Var<'g> {
        all.narrow(-1, i * self.hidden, self.hidden)
    }

    /// The next state, and the next cell, from the projected input.
    fn step(&self, x: Var<'g>, h: Var<'g>, cell: Option<Var<'g>>) -> (Var<'g>, Option<Var<'g>>) {
        let of_state = |v: Var<'g>| {
            let y = v.matmul_t(self.of_h, false, true);
            self.bias.map_or(y, |[_, b]| y + b)
        };
        match (self.kind, cell) {
            (Kind::Lstm, Some(cell)) => {
                let all = x + of_state(h);
                let seen = |i: usize, at: usize, c: Var<'g>| {
                    let gate = self.gate(all, i);
                    self.peephole.map_or(gate, |p| gate + self.gate(p, at) * c)
                };
                let i = self.act(0, seen(0, 0, cell));
                let f = if self.input_forget { 1.0 - i } else { self.act(0, seen(2, 2, cell)) };
                let next = f * cell + i * self.act(1, self.gate(all, 3));
                let o = self.act(0, seen(1, 1, next));
                (o * self.acts[2].of(next).unwrap_or(next), Some(next))
            }
            (Kind::Gru, _) => {
                let state = of_state(h);
                let z = self.act(0, self.gate(x, 0) + self.gate(state, 0));
                let r = self.act(0, self.gate(x, 1) + self.gate(state, 1));
                let of_reset = match self.reset_first {
                    true => {
                        let rows = self.of_h.narrow(0, 2 * self.hidden, self.hidden);
                        let y = (r * h).matmul_t(rows, false, true);
                        self.bias.map_or(y, |[_, b]| y + self.gate(b, 2))
                    }
                    false => r * self.gate(state, 2),
                };
                let n = self.act(1, self.gate(x, 2) + of_reset);
                ((1.0 - z) * n + z * h, None)
            }
            _ => (self.act(0, x + of_state(h)), None),
        }
    }
}

fn layer<'g>(c: &Cx<'_, 'g>, kind: Kind) -> Out<'g> {
    let lstm = kind == Kind::Lstm;
    let batch_first = c.flag("layout", false);
    let directions = match c.text("direction", "forward") {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => return c.wrong(format!("the direction is {other:?}")),
    };
    let turned = |v: Var<'g>| if batch_first { v.movedim(&[1], &[0]) } else { v };
    let x = turned(c.x(0)?);
    let d = x.dims();
    let [steps, batch, _] = d[..] else { return c.wrong(format!("x has shape {d}; rank 3 is needed")) };
    let hidden = c.dims(2)?.last().copied().unwrap_or(0);
    let live = match c.has(4) {
        true => Some(arenagrad::nn::sequence_mask(c.stored(4)?, steps).transpose(&[1, 0]).unsqueeze(2)),
        false => None,
    };
    let (mut ys, mut hs, mut cs): (Vec<Var<'g>>, Vec<Var<'g>>, Vec<Var<'g>>) = Default::default();
    for (k, &reverse) in directions.iter().enumerate() {
        let part = |v: Var<'g>| v.narrow(0, k, 1).squeeze(0);
        let one = direction(c, kind, hidden, (k, directions.len()))?;
        let first = |i: usize| match c.opt(i)? {
            Some(all) => Ok::<_, crate::Error>(part(turned(all))),
            None => Ok(c.g.full(0.0, [batch, hidden], x.dtype())),
        };
        let mut starts = vec![first(5)?];
        if lstm {
            starts.push(first(6)?);
        }
        let projected = x.matmul_t(part(c.x(1)?), false, true);
        let projected = one.bias.map_or(projected, |[b, _]| projected + b);
        let xs: Vec<Var<'g>> = [projected].into_iter().chain(live).collect();
        let (last, y) = c.g.scan_with(Loop::default().reverse(reverse), &starts, &xs, |s, now| {
            let (h, cell) = one.step(now[0], s[0], s.get(1).copied());
            let next: Vec<Var<'g>> = [h].into_iter().chain(cell).collect();
            let Some(&live) = now.get(1) else { return (next.clone(), vec![h]) };
            let kept = next.iter().zip(s).map(|(&next, &old)| live.select(next, old)).collect();
            (kept, vec![live.select(h, h.full_like(0.0))])
        });
        if let Some(e) = c.g.error() {
            return Err(e.into());
        }
        ys.push(y[0]);
        hs.push(last[0]);
        cs.extend(last.get(1));
    }
    let back = |v: Var<'g>| if batch_first { v.movedim(&[0], &[1]) } else { v };
    let y = ys[0].stack(&ys[1..], 1);
    let y = if batch_first { y.transpose(&[2, 0, 1, 3]) } else { y };
    let mut outs = vec![y, back(hs[0].stack(&hs[1..], 0))];
    if lstm {
        outs.push(back(cs[0].stack(&cs[1..], 0)));
    }
    Ok(outs)
}

/// Direction `k` of `n` of the node.
fn direction<'c, 'g>(
    c: &'c Cx<'_, 'g>,
    kind: Kind,
    hidden: usize,
    (k, n): (usize, usize),
) -> Result<Direction<'c, 'g>> {
    let names: Vec<&str> = match c.attr("activations") {
        Some(a) => a.strings.iter().map(|s| std::str::from_utf8(s).unwrap_or("?")).collect(),
        None => kind.activations().repeat(n),
    };
    let each = kind.activations().len();
    if names.len() != each * n {
        return c.wrong(format!("{} activations; {} are needed", names.len(), each * n));
    }
    let numbers = |name: &str| c.attr(name).map_or(&[][..], |a| &a.floats);
    let act = |i: usize| {
        let at = |list: &[f32]| list.get(k * each + i).map(|&x| f64::from(x));
        Act { name: names[k * each + i], alpha: at(numbers("activation_alpha")), beta: at(numbers("activation_beta")) }
    };
    let acts: Vec<Act<'c>> = (0..each).map(act).collect();
    if let Some(bad) = acts.iter().find(|a| a.of(c.g.full(0.0, [], DType::F32)).is_none()) {
        return c.refuse(format!("the activation {:?} is not supported", bad.name));
    }
    let part = |v: Var<'g>| v.narrow(0, k, 1).squeeze(0);
    let width = kind.gates() * hidden;
    let bias = c.opt(3)?.map(|b| [part(b).narrow(0, 0, width), part(b).narrow(0, width, width)]);
    let peephole = if kind == Kind::Lstm { c.opt(7)?.map(part) } else { None };
    Ok(Direction {
        kind,
        hidden,
        acts,
        clip: c.attr("clip").map(|_| c.float("clip", 0.0)),
        reset_first: !c.flag("linear_before_reset", false),
        input_forget: c.flag("input_forget", false),
        of_h: part(c.x(2)?),
        bias,
        peephole,
    })
}
