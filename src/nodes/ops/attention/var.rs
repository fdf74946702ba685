//! Attention and rotary position embedding as methods of [`Var`].

use crate::arena::Value;
use crate::nodes::arguments::setters::setters;
use crate::nodes::arguments::size_attrs::size_attr_to_i64;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::attention::attrs::{AttentionAttrs, Layout, Mask, Pairing, RopeAttrs};

/// Options of [`Var::attention`]; the defaults are those of torch's `scaled_dot_product_attention`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Attention<'g> {
    /// The order of axes of q, k, v and the result.
    pub layout: Layout,
    /// Number of heads of q. 0 takes it from the shape of q; [`Layout::Bsd`] has no axis of heads, so there 0 means 1.
    pub heads: usize,
    /// Number of heads of k and v. It divides `heads`: each is shared by `heads / kv_heads` neighbouring heads of q. 0
    /// takes it from the shape of k, or for [`Layout::Bsd`] from `heads`.
    pub kv_heads: usize,
    /// Whether query i sees only keys up to i + keys − queries: both sequences end together. See `top_left`.
    pub causal: bool,
    /// Sliding window: a query sees the key at its own place (the last that `causal` allows), this many keys before it,
    /// and `ahead` keys after it.
    pub window: Option<usize>,
    /// Later keys that a query of a sliding window sees. With `causal` or without a window it must be 0.
    pub ahead: usize,
    /// Whether query i stands at key i, as torch's `is_causal` counts, instead of at i + keys − queries. Without
    /// `causal` or a window it changes nothing.
    pub top_left: bool,
    /// The factor of the scores; 0 means 1/√width.
    pub scale: f64,
    /// Scores s become softcap·tanh(s / softcap) before masks and bias; 0 for none.
    pub softcap: f64,
    /// Which keys are seen, bool `[batch, keys]`: those where it is true. Terms of the scores, such as 0 and −∞, go
    /// into `bias`.
    pub padding: Option<Var<'g>>,
    /// A term of the scores, `[batch or 1, heads or 1, queries or 1, keys or 1]`; the first axes may be missing, as in
    /// `[queries, keys]`. A bool is a mask, as in torch: true where a query sees a key. It is read as it is, a byte for
    /// each score.
    pub bias: Option<Var<'g>>,
    /// The probability p that a weight is dropped, as torch's `dropout_p`; the others are divided by 1 − p. The seed,
    /// the step, this call and the weight's position decide which weights are dropped; f32 and f64 drop the same ones.
    /// None is dropped while the builder builds for evaluation
    /// ([`Builder::training`](crate::graph::Builder::training)).
    pub dropout: f64,
}

setters! {
    ['g] Attention<'g> {
        layout: Layout,
        heads: usize,
        kv_heads: usize,
        causal: bool,
        window: impl Into<Option<usize>> => window.into(),
        ahead: usize,
        top_left: bool,
        scale: f64,
        softcap: f64,
        padding: impl Into<Option<Var<'g>>> => padding.into(),
        bias: impl Into<Option<Var<'g>>> => bias.into(),
        dropout: f64,
    }
}

/// Options of [`Var::rope`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rope {
    /// The order of axes of x.
    pub layout: Layout,
    /// Number of heads. 0 takes it from the shape of x; [`Layout::Bsd`] has no axis of heads, so there 0 means 1.
    pub heads: usize,
    /// Which elements of a head make a pair.
    pub pairing: Pairing,
    /// Whether the angles are negated.
    pub inverse: bool,
}

setters! {
    [] Rope { layout: Layout, heads: usize, pairing: Pairing, inverse: bool }
}

/// `bias` with four axes, the last two of `lens` where they are 1.
#[track_caller]
fn attention_bias<'g>(bias: Var<'g>, lens: [usize; 2]) -> Var<'g> {
    let d = bias.dims();
    if !bias.is_some() || d.len() > 4 || d.is_empty() {
        return bias;
    }
    let mut all = [1; 4];
    all[4 - d.len()..].copy_from_slice(&d);
    let mut full = all;
    for (own, len) in full[2..].iter_mut().zip(lens).filter(|(own, _)| **own == 1) {
        *own = len;
    }
    let bias = if d.len() < 4 { bias.reshape(all) } else { bias };
    if full == all { bias } else { bias.broadcast(full) }
}

impl<'g> Var<'g> {
    /// Scaled dot-product attention with this as the queries: softmax(scale·q·kᵀ + bias)·v for each head. [`Layout`]
    /// says the shapes; all of q, k and v are `f32` or all `f64`. A query that sees no key gets zeros. The values of
    /// masked keys must be finite: their weight is 0, and 0·∞ is NaN. Memory grows with the sum of the
    /// lengths, not with their product. Source: Dao et al., "FlashAttention".
    #[track_caller]
    pub fn attention(self, k: Var<'g>, v: Var<'g>, opt: Attention<'g>) -> Var<'g> {
        self.attention_with_lse(k, v, opt)[0]
    }

    /// [`Var::attention`], and ln Σ exp(score) of each query: `[batch, heads, queries]`, −∞ where a query sees no key.
    #[track_caller]
    pub fn attention_with_lse(self, k: Var<'g>, v: Var<'g>, opt: Attention<'g>) -> [Var<'g>; 2] {
        if !self.g.owns("attention", &[k, v]) || !self.is_some() || !k.is_some() || !v.is_some() {
            return [self.g.var(Value::NONE); 2];
        }
        let axis = if opt.layout == Layout::Bhsd { 1 } else { 2 };
        let of = |given: usize, x: Var<'g>, packed: usize| match (given, opt.layout) {
            (0, Layout::Bsd) => packed,
            (0, _) => x.dims().get(axis).copied().unwrap_or(1),
            _ => given,
        };
        let heads = of(opt.heads, self, 1);
        let kv_heads = of(opt.kv_heads, k, heads);
        if opt.causal && opt.ahead > 0 {
            let none =
                self.refuse("attention", format!("causal attention sees no later key, and ahead is {}", opt.ahead));
            return [none; 2];
        }
        if let Some(d) = opt.padding.filter(|m| m.is_some() && m.dtype() != DType::Bool).map(Var::dtype) {
            let text = format!("the padding mask is {d}; bool is needed, and terms of the scores (0, −∞) are a bias");
            return [self.refuse("attention", text); 2];
        }
        let mask = match opt.window {
            Some(_) => Mask::Window,
            None if opt.causal => Mask::Causal,
            None => Mask::None,
        };
        let dropout = self.g.dropout_now(opt.dropout);
        let key = (dropout != 0.0).then(|| self.g.rng());
        let stream = if key.is_some() { self.g.fresh_stream() } else { 0 };
        let attrs = AttentionAttrs {
            layout: opt.layout,
            heads: heads as i64,
            kv_heads: kv_heads as i64,
            mask,
            window: size_attr_to_i64(opt.window.unwrap_or(0)),
            ahead: size_attr_to_i64(opt.ahead),
            top_left: opt.top_left && mask != Mask::None,
            scale: opt.scale,
            softcap: opt.softcap,
            padding: opt.padding.is_some(),
            bias: opt.bias.is_some(),
            dropout,
            stream,
        };
        let at = if opt.layout == Layout::Bhsd { 2 } else { 1 };
        let len = |x: Var<'g>| x.dims().get(at).copied().unwrap_or(1);
        let bias = opt.bias.map(|bias| attention_bias(bias, [len(self), len(k)]));
        let args = [Some(self), Some(k), Some(v), opt.padding, bias, key];
        let args: Vec<Var<'g>> = args.into_iter().flatten().collect();
        let all = self.g.emit(Op::ATTENTION, &args, &attrs.list());
        [all[0], all[1]]
    }

    /// Rotates each pair (a, b) of each head into (a·cos − b·sin, b·cos + a·sin) of its position.
    ///
    /// `cos` and `sin` have shape `[positions, n/2]`, one row for each position of the sequence, or
    /// `[batch, positions, n/2]`, one row for each element of each sequence; n of the head's elements are rotated, and
    /// the rest passes through. For positions that are not 0, 1, 2 …, gather the rows: `cos.gather(positions, 0)`.
    #[track_caller]
    pub fn rope(self, cos: Var<'g>, sin: Var<'g>, opt: Rope) -> Var<'g> {
        let axis = if opt.layout == Layout::Bhsd { 1 } else { 2 };
        let heads = match (opt.heads, opt.layout) {
            (0, Layout::Bsd) => 1,
            (0, _) => self.dims().get(axis).copied().unwrap_or(1),
            (heads, _) => heads,
        };
        let attrs = RopeAttrs {
            layout: opt.layout,
            heads: i64::try_from(heads).unwrap_or(i64::MAX),
            pairing: opt.pairing,
            inverse: opt.inverse,
        };
        self.g.emit1(Op::ROPE, &[self, cos, sin], &attrs.list())
    }
}
