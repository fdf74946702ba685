//! A mixture of experts.

use super::init::uniform_by_fan_in;
use super::linear_layers::linear_width;
use super::linear_no_bias;
use crate::error::Kind;
use crate::kernels::gguf::BlockType;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, DType, Init, Var};

/// Options of [`moe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moe {
    /// Number of experts.
    pub experts: usize,
    /// Experts of each token, from 1 to `experts`.
    pub top_k: usize,
    /// Width of an expert's hidden layer.
    pub hidden: usize,
    /// Whether the weights of a token's experts are divided by their sum, so that they sum to 1.
    pub renormalise: bool,
    /// The most tokens of an expert. Those beyond are dropped: the expert adds nothing to them. First choices of all
    /// tokens come before second ones, and earlier tokens before later ones. `None`: no token is dropped.
    pub capacity: Option<usize>,
    /// The block type of the experts' weights if they are kept as blocks of a GGUF file, which are not trained. `None`:
    /// they are params.
    pub blocks: Option<BlockType>,
}

impl Moe {
    /// `experts` experts with a hidden layer of `hidden` elements, of which each token takes `top_k`; weights sum to 1,
    /// and no token is dropped.
    pub fn new(experts: usize, top_k: usize, hidden: usize) -> Moe {
        Moe { experts, top_k, hidden, renormalise: true, capacity: None, blocks: None }
    }
}

setters! {
    [] Moe {
        experts: usize,
        top_k: usize,
        hidden: usize,
        renormalise: bool,
        capacity: impl Into<Option<usize>> => capacity.into(),
        blocks: impl Into<Option<BlockType>> => blocks.into(),
    }
}

/// A mixture of experts over `x` `[.., width]` (Shazeer et al. 2017, "Outrageously large neural networks"): each token
/// goes through the `top_k` experts that a router finds likeliest, and gets the sum of their results, weighted by the
/// router's probabilities. An expert is a gated feed-forward layer, `(silu(x·Gᵀ) · (x·Uᵀ))·Dᵀ`, as [`swiglu`].
///
/// Results: y, of the shape of `x`; and the load-balance loss E·Σₑ fₑ·pₑ (Fedus et al. 2021, "Switch Transformers"),
/// where fₑ is the share of all choices that fell on expert e, before any are dropped, and pₑ is its mean probability.
/// It is 1 if both are even. Add a small multiple of it to the loss.
///
/// Of equal probabilities the first expert counts. Gradients reach the router by the weights and by the probabilities
/// of the balance loss; the choice itself is constant. Params: `name.router.weight` `[experts, width]`,
/// `name.gate.weight` and `name.up.weight` `[experts, hidden, width]`, `name.down.weight` `[experts, width, hidden]`,
/// each starting uniform in ±1/√inputs.
///
/// With [`Moe::blocks`] the last three are frozen `u8` params of rank 1, which hold these matrices as blocks
/// ([`Program::load_gguf`](crate::session::Program::load_gguf) fills them) and are never decoded as a whole. Gradients
/// pass through them to x and to the router. Their rows, of `width` and of `hidden` elements, must be whole blocks.
///
/// ```
/// use arenagrad::prelude::*;
///
/// let g = Builder::new("net");
/// let x = g.input("x", [32, 16], DType::F32);
/// let [y, balance] = nn::moe(&g, "moe", x, nn::Moe::new(8, 2, 64));
/// let loss = (y * y).mean(..) + balance * 0.01;
/// assert!(g.finish([loss.named("loss")]).is_ok());
/// ```
///
/// [`swiglu`]: super::swiglu
#[track_caller]
pub fn moe<'g>(g: &'g Builder, name: &str, x: Var<'g>, o: Moe) -> [Var<'g>; 2] {
    g.layer_scope(name, || {
        let (dims, width) = (x.dims(), linear_width(x));
        if (x.is_some() && dims.is_empty()) || o.top_k == 0 || o.top_k > o.experts {
            let text = format!("moe({x:?}): {} of {} experts for each token of [.., width]", o.top_k, o.experts);
            return [g.fail(Kind::Shape, text); 2];
        }
        let tokens: usize = dims.iter().rev().skip(1).product();
        let rows = x.reshape([tokens, width]);
        let p = linear_no_bias(g, &format!("{name}.router"), rows, o.experts).softmax(-1);
        let routes = route_tokens(p, &o);
        let through = |x: Var<'g>, what: &str, outputs: usize, inputs: usize| {
            let name = format!("{name}.{what}.weight");
            let Some(t) = o.blocks else {
                let w = g.param(&name, [o.experts, outputs, inputs], x.dtype(), uniform_by_fan_in(inputs));
                return x.sorted_grouped_matmul(w, routes.sizes, true);
            };
            let Some(bytes) = count_expert_bytes(t, [o.experts, outputs, inputs]) else {
                let text = format!("{name}: rows of {inputs} elements are no whole {} blocks", t.name());
                return g.fail(Kind::Shape, text);
            };
            let blocks = g.frozen_param(&name, [bytes], DType::U8, Init::Zeros);
            x.sorted_gguf_grouped_matmul(blocks, t, routes.sizes, [o.experts, outputs])
        };
        let sorted = rows.gather(routes.token, 0);
        let gate = through(sorted, "gate", o.hidden, width).silu();
        let hidden = gate * through(sorted, "up", o.hidden, width);
        let out = through(hidden, "down", width, o.hidden) * routes.weight.unsqueeze(1);
        let out = routes.kept.map_or(out, |kept| kept.unsqueeze(1).select(out, out.full_like(0.0)));
        let y = out.scatter_add(routes.token, 0, tokens).reshape(dims);
        let share = routes.sizes.cast(x.dtype()) / (tokens * o.top_k).max(1) as f64;
        [y, (share * p.mean(0)).sum(..) * o.experts as f64]
    })
}

/// Bytes of the blocks of all experts' matrices of these sizes; `None` if a row is no whole blocks.
fn count_expert_bytes(t: BlockType, [experts, outputs, inputs]: [usize; 3]) -> Option<usize> {
    t.bytes_of(inputs)?.checked_mul(outputs)?.checked_mul(experts)
}

/// The choices of all tokens in the order of the experts, those of one expert by choice and then by token.
struct Routes<'g> {
    /// The token of each.
    token: Var<'g>,
    /// The weight of the expert in the token's sum.
    weight: Var<'g>,
    /// Whether the expert takes the token; `None` if it takes all.
    kept: Option<Var<'g>>,
    /// How many choices fell on each expert, `i64[experts]`.
    sizes: Var<'g>,
}

/// The routes of tokens whose router has probabilities `p` `[tokens, experts]`.
fn route_tokens<'g>(p: Var<'g>, o: &Moe) -> Routes<'g> {
    let (g, tokens, all) = (p.g, p.dims().first().copied().unwrap_or(0), p.numel() / o.experts * o.top_k);
    let (top, chosen) = p.top_k(o.top_k, -1);
    let top = if o.renormalise { top / top.sum(-1).unsqueeze(-1) } else { top };
    let by_choice = |x: Var<'g>| x.transpose(&[1, 0]).reshape([all]);
    let expert = by_choice(chosen);
    let order = expert.arg_sort(0, false);
    let sizes = expert.bin_count(o.experts);
    let kept = o.capacity.map(|most| {
        let first = sizes.cumsum(0, true, false).gather(expert.gather(order, 0), 0);
        (g.iota(0, [all], DType::I64) - first).less(most as f64)
    });
    let token = g.iota(1, [o.top_k, tokens], DType::I32).reshape([all]).gather(order, 0);
    Routes { token, weight: by_choice(top).gather(order, 0), kept, sizes }
}
