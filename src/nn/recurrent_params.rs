//! Params of recurrent layers, with torch's names, shapes and start values; or given ones.

use super::init::uniform_by_fan_in;
use super::linear_layers::linear_width;
use crate::nodes::{Builder, DType, Var};

/// Where the params of a network come from.
#[derive(Clone, Copy)]
pub(super) enum RecurrentSource<'a, 'g> {
    /// They are made, under the name of the layer.
    Named(&'a str),
    /// They are given, in torch's order.
    Given(&'a [Var<'g>]),
}

/// The params of direction number `at`: those from `at` times 4 (or 2, without biases) on.
pub(super) fn given_params<'g>(all: &[Var<'g>], at: usize, bias: bool) -> RecurrentParams<'g> {
    let own = &all[at * if bias { 4 } else { 2 }..];
    let map = |i: usize| RecurrentMap { w: own[i], b: bias.then(|| own[i + 2]) };
    RecurrentParams { of_x: map(0), of_h: map(1) }
}

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
pub(super) fn suffixed_params<'g>(
    g: &'g Builder,
    name: &str,
    suffix: &str,
    dtype: DType,
    sizes: RecurrentSizes,
) -> RecurrentParams<'g> {
    let init = uniform_by_fan_in(sizes.hidden);
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
pub(super) fn first_layer_params<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    gates: usize,
    hidden: usize,
) -> RecurrentParams<'g> {
    let sizes = RecurrentSizes { gates, inputs: linear_width(x), hidden, bias: true };
    suffixed_params(g, name, "_l0", x.dtype(), sizes)
}
