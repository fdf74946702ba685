"""Kinds of recurrent networks."""

from __future__ import annotations

from typing import Any

from .. import nn
from .._arenagrad import Var
from ._kinds import Refused, Site, kind


def _projected(s: Site, x: Var, first: list[Any], weights: list[Var], layers: int, both: bool, dropout: float) -> Any:
    """An LSTM whose state is a product of what its cells give (proj_size), over sequences [steps, batch, inputs]."""
    runs = layers * (1 + both)
    each = len(weights) // runs
    last: tuple[list[Var], list[Var]] = ([], [])
    for layer in range(layers):
        ys = []
        for back in range(1 + both):
            i = len(last[0])
            w_in, w_state, *biases, w_out = weights[i * each : (i + 1) * each]
            rows = sum((b for b in biases), x @ w_in.t())

            def step(h: Var, c: Var, z: Var, w_state: Var = w_state, w_out: Var = w_out) -> tuple[Var, ...]:
                gates = (z + h @ w_state.t()).chunk(4, 1)
                keep_in, keep, new, out = gates[0].sigmoid(), gates[1].sigmoid(), gates[2].tanh(), gates[3].sigmoid()
                c = keep * c + keep_in * new
                h = (out * c.tanh()) @ w_out.t()
                return h, c, h

            starts = [s.var(x0).narrow(0, i, 1).squeeze(0) for x0 in first]
            h, c, y = s.b.scan(starts, rows, step, None, bool(back))
            ys.append(y)
            last[0].append(h)
            last[1].append(c)
        x = ys[0].concat(ys[1:], 2) if both else ys[0]
        x = nn.dropout(x, dropout) if dropout and layer + 1 < layers else x
    return (x, *(states[0].stack(states[1:], 0) for states in last))


def recurrent(name: str) -> Any:
    """The rule of a recurrent network; with `lengths`, sequences [steps, batch, inputs] end after so many steps."""

    def rule(
        s: Site,
        x: Any,
        first: Any,
        weights: list[Any],
        bias: bool,
        layers: int,
        dropout: float,
        training: bool,
        both: bool,
        batch_first: bool,
        lengths: Any = None,
    ) -> Any:
        x, first = s.var(x), first if isinstance(first, list) else [first]
        if len(weights) != (1 + both) * layers * (4 if bias else 2):
            if lengths is not None:
                raise Refused("packed sequences through an LSTM with a projection of its state (proj_size)")
            x = x.movedim([0], [1]) if batch_first else x
            y, *last = _projected(s, x, first, [s.var(w) for w in weights], layers, both, dropout if training else 0.0)
            return y.movedim([0], [1]) if batch_first else y, *last
        starts: dict[str, Any] = {"h0": s.var(first[0]), "lengths": lengths}
        if name == "lstm":
            starts["c0"] = s.var(first[1])
        if name.startswith("rnn"):
            starts["nonlinearity"] = name.removeprefix("rnn_")
        run: Any = getattr(nn, f"{name.split('_')[0]}_of")
        dropout = dropout if training else 0.0
        return run(x, [s.var(w) for w in weights], layers, both, bias, batch_first, dropout, **starts)

    return rule


for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    kind(f"{_name}.input")(recurrent(_name))
