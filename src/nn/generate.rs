//! Text from a GPT, as graphs: the next token of a window, and many tokens in one loop that keeps keys and values.
//!
//! Both graphs share states, so they are methods of one program. A window of up to `context` tokens is a state. While
//! it grows, the keys and values of earlier tokens do not change, so each new token adds one row to each product. Once
//! the window is full, it moves by one token. This changes the position of every token, and so all keys and values.
//!
//! Invariant: token number i is drawn with a key that `rng_fold` makes from the text's key and i. So a text is a
//! function of params, window, settings and key, however its tokens are divided among the two graphs, up to the
//! rounding of the logits.

use super::attention::attend_causally;
use super::transformer::{Gpt, make_gpt_tables, run_gpt_blocks};
use crate::kernels::random::sample::Sampling;
use crate::nodes::{Attention, Builder, DType, Init, Layout, Op, Scatter, Var};
use std::cell::RefCell;

/// Name of the state of the window of tokens, `i32[context]`. Tokens behind the last one are ignored.
pub const GENERATE_WINDOW: &str = "generate.window";
/// Name of the state of the number of tokens in the window, `i64[]`, from 1 to the context.
pub const GENERATE_LENGTH: &str = "generate.length";
/// Name of the state of the number of leading tokens whose keys and values are kept, `i64[]`. Set it to 0 with a new
/// window.
pub const GENERATE_KEPT: &str = "generate.kept";
/// Name of the state of the number of the next token to draw, `i64[]`.
pub const GENERATE_DRAWN: &str = "generate.drawn";
/// Name of the state of the random key, `u32[4]`: two words of the seed, low first, and two of your choice.
pub const GENERATE_KEY: &str = "generate.key";
/// Name of the input of the number of tokens to draw, `i64[]`.
pub const GENERATE_COUNT: &str = "generate.count";

/// What changes with each token.
#[derive(Clone, Copy)]
struct GeneratedText<'g> {
    window: Var<'g>,
    length: Var<'g>,
    kept: Var<'g>,
    drawn: Var<'g>,
}

/// The states of a text.
struct GenerateStates<'g> {
    text: GeneratedText<'g>,
    key: Var<'g>,
    /// Keys and values of each block, `[context, width]`.
    caches: Vec<[Var<'g>; 2]>,
}

impl<'g> GenerateStates<'g> {
    fn new(g: &'g Builder, dtype: DType, o: &Gpt) -> GenerateStates<'g> {
        let number = |name: &str| g.state(name, [], DType::I64, Init::Zeros);
        let cache =
            |i: usize, what: &str| g.state(&format!("generate.{what}.{i}"), [o.context, o.width], dtype, Init::Zeros);
        GenerateStates {
            text: GeneratedText {
                window: g.state(GENERATE_WINDOW, [o.context], DType::I32, Init::Zeros),
                length: number(GENERATE_LENGTH),
                kept: number(GENERATE_KEPT),
                drawn: number(GENERATE_DRAWN),
            },
            key: g.state(GENERATE_KEY, [4], DType::U32, Init::Zeros),
            caches: (0..o.layers).map(|i| [cache(i, "keys"), cache(i, "values")]).collect(),
        }
    }

    fn update(&self, g: &'g Builder, next: GeneratedText<'g>, caches: &[[Var<'g>; 2]]) {
        let GeneratedText { window, length, kept, drawn } = self.text;
        let pairs = [(window, next.window), (length, next.length), (kept, next.kept), (drawn, next.drawn)];
        let all = self.caches.iter().flatten().zip(caches.iter().flatten());
        pairs.into_iter().chain(all.map(|(a, b)| (*a, *b))).for_each(|(leaf, next)| g.update(leaf, next));
    }
}

impl<'g> GeneratedText<'g> {
    /// Draws a token `i32[1]` from `logits` `[1, vocabulary]` and appends it.
    fn append(self, g: &'g Builder, logits: Var<'g>, how: Sampling, key: Var<'g>) -> (Var<'g>, GeneratedText<'g>) {
        let key = g.emit1(Op::RNG_FOLD, &[key, self.drawn.cast(DType::U32)], &[]);
        let token = logits.sample_with_key(how, key, 0);
        let context = self.window.numel();
        let full = self.length.greater_equal(context as f64);
        // The place behind the last token; in a full window, that of the last one.
        let place = self.length.minimum(context as f64 - 1.0).reshape([1]);
        let moved = self.window.narrow(0, 1.min(context), context.saturating_sub(1));
        let moved = moved.concat(&[self.window.narrow(0, 0, context.min(1))], 0);
        let window = full.select(moved, self.window).scatter_slices(place, token, 0, Scatter::Set);
        let next = GeneratedText {
            window,
            length: (self.length + 1.0).minimum(context as f64),
            kept: full.select(self.length.full_like(0.0), self.length),
            drawn: self.drawn + 1.0,
        };
        (token, next)
    }
}

/// The token that follows the window, `i32[]`, computed from the whole window. It is appended to the window, whose
/// first token leaves if it is full. The states are [`GENERATE_WINDOW`] and the others beside it; params are those of
/// [`gpt`](super::gpt), without dropout.
#[track_caller]
pub fn gpt_next_token<'g>(g: &'g Builder, dtype: DType, o: Gpt, how: Sampling) -> Var<'g> {
    g.with_caller(|| {
        let (o, states) = (o.dropout(0.0), GenerateStates::new(g, dtype, &o));
        let (wte, places) = make_gpt_tables(g, dtype, &o);
        let x = (g.layer("transformer.wte", || wte.gather(states.text.window, 0)) + places).unsqueeze(0);
        let caches = RefCell::new(Vec::new());
        let h = run_gpt_blocks(g, x, &o, &|[q, k, v]| {
            caches.borrow_mut().push([k.squeeze(0), v.squeeze(0)]);
            attend_causally([q, k, v], o.heads, 0.0)
        });
        let last = (states.text.length - 1.0).reshape([1]);
        let logits = h.squeeze(0).gather(last, 0).matmul_t(wte, false, true);
        let (token, next) = states.text.append(g, logits, how, states.key);
        states.update(g, next, &caches.into_inner());
        token.reshape([])
    })
}

/// The next tokens, `i32[most]`, of which the first [`GENERATE_COUNT`] (an input, at most `most`) are drawn, each from
/// one row of each product and the kept keys and values of the tokens before it; the others are 0. The states are those
/// of [`gpt_next_token`], which must have run on the window: all tokens but the last have kept keys and values. The
/// last token that is drawn may be the one that moves a full window; one more ends the step with an error, because
/// nothing is kept then.
#[track_caller]
pub fn gpt_next_tokens<'g>(g: &'g Builder, dtype: DType, o: Gpt, most: usize, how: Sampling) -> Var<'g> {
    g.with_caller(|| {
        let (o, states) = (o.dropout(0.0), GenerateStates::new(g, dtype, &o));
        let (wte, places) = make_gpt_tables(g, dtype, &o);
        let GeneratedText { window, length, kept, drawn } = states.text;
        let out = g.full(0.0, [most], DType::I32);
        let first = [window, length, kept, drawn, out];
        let carries: Vec<Var<'g>> = first.into_iter().chain(states.caches.iter().flatten().copied()).collect();
        let count = g.input(GENERATE_COUNT, [], DType::I64);
        let last = g.fori(count, most, &carries, |i, c| {
            let text = GeneratedText { window: c[0], length: c[1], kept: c[2], drawn: c[3] };
            let caches: Vec<[Var<'g>; 2]> = c[5..].chunks_exact(2).map(|c| [c[0], c[1]]).collect();
            let (token, next, caches) = draw_cached_token(g, &o, (wte, places), text, &caches, (how, states.key));
            let out = c[4].scatter_slices(i.reshape([1]), token, 0, Scatter::Set);
            let next = [next.window, next.length, next.kept, next.drawn, out];
            next.into_iter().chain(caches.into_iter().flatten()).collect()
        });
        let next = GeneratedText { window: last[0], length: last[1], kept: last[2], drawn: last[3] };
        let caches: Vec<[Var<'g>; 2]> = last[5..].chunks_exact(2).map(|c| [c[0], c[1]]).collect();
        states.update(g, next, &caches);
        last[4]
    })
}

/// A token `i32[1]` that is drawn after the last one of the window, the text with it, and the caches with the keys and
/// values of that last one.
fn draw_cached_token<'g>(
    g: &'g Builder,
    o: &Gpt,
    (wte, places): (Var<'g>, Var<'g>),
    text: GeneratedText<'g>,
    caches: &[[Var<'g>; 2]],
    (how, key): (Sampling, Var<'g>),
) -> (Var<'g>, GeneratedText<'g>, Vec<[Var<'g>; 2]>) {
    let at = text.length - 1.0;
    // Out of range, so that the step ends, unless all tokens before are kept.
    let wrong = text.kept.not_equal(at).cast(DType::I64) * o.context as f64;
    let row = (at + wrong).reshape([1]);
    let token = text.window.gather(row, 0);
    let x = (g.layer("transformer.wte", || wte.gather(token, 0)) + places.gather(row, 0)).unsqueeze(0);
    let seen = g.iota(1, [1, o.context], DType::I64).less_equal(at);
    let next = RefCell::new(Vec::new());
    let h = run_gpt_blocks(g, x, o, &|[q, k, v]| {
        let mut next = next.borrow_mut();
        let Some(cache) = caches.get(next.len()) else { return q };
        let written = |cache: Var<'g>, x: Var<'g>| cache.scatter_slices(row, x.squeeze(0), 0, Scatter::Set);
        let [keys, values] = [written(cache[0], k), written(cache[1], v)];
        next.push([keys, values]);
        let attend = Attention { layout: Layout::Bsd, heads: o.heads, padding: Some(seen), ..Attention::default() };
        q.attention(keys.unsqueeze(0), values.unsqueeze(0), attend)
    });
    let logits = h.squeeze(0).matmul_t(wte, false, true);
    let (token, text) = text.append(g, logits, how, key);
    (token, text, next.into_inner())
}
