//! Text from a GPT: a loop with kept keys and values gives the tokens of whole windows, beyond the context too.

use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::nn::{self, Gpt};
use arenagrad::op::Op;
use arenagrad::session::{Program, Session};
use arenagrad::train::Sampling;

const CONTEXT: usize = 12;
const MOST: usize = 5;

fn net() -> Gpt {
    Gpt::default().vocabulary(11).context(CONTEXT).layers(2).heads(2).width(8).bias(true).dropout(0.5).gelu_tanh(false)
}

/// A program of both methods.
fn program(dtype: DType, how: Sampling, threads: usize) -> Program {
    let (g, h) = (Builder::new("one"), Builder::new("many"));
    let one = g.finish([nn::gpt_next_token(&g, dtype, net(), how).named("token")]).unwrap();
    let many = h.finish([nn::gpt_next_tokens(&h, dtype, net(), MOST, how).named("token")]).unwrap();
    let mut p = Session::new().threads(threads).compile_all(&[("one", &one), ("many", &many)]).unwrap();
    fill(&mut p, dtype);
    p
}

/// Gives `p` weights that are far from uniform choices.
fn fill(p: &mut Program, dtype: DType) {
    p.init(3).unwrap();
    let names: Vec<String> = p.bindings().iter().map(|b| b.name.clone()).collect();
    for (i, name) in names.iter().enumerate().filter(|(_, name)| name.ends_with("weight")) {
        let value = |k: usize| ((k * 7919 + i * 31) % 997) as f64 / 500.0 - 1.0;
        match dtype {
            DType::F32 => {
                p.values_mut::<f32>(name).unwrap().iter_mut().enumerate().for_each(|(k, x)| *x = value(k) as f32)
            }
            _ => p.values_mut::<f64>(name).unwrap().iter_mut().enumerate().for_each(|(k, x)| *x = value(k)),
        }
    }
}

fn start(p: &mut Program, prompt: &[i32], seed: u32) {
    let window = p.values_mut::<i32>(nn::GENERATE_WINDOW).unwrap();
    window.fill(7);
    window[..prompt.len()].copy_from_slice(prompt);
    p.values_mut::<i64>(nn::GENERATE_LENGTH).unwrap()[0] = prompt.len() as i64;
    p.values_mut::<i64>(nn::GENERATE_KEPT).unwrap()[0] = 0;
    p.values_mut::<i64>(nn::GENERATE_DRAWN).unwrap()[0] = 0;
    p.values_mut::<u32>(nn::GENERATE_KEY).unwrap().copy_from_slice(&[seed, 0, 0, 0]);
}

/// `n` tokens, each from its whole window.
fn by_windows(p: &mut Program, n: usize) -> Vec<i32> {
    let one = p.method("one").unwrap();
    let token = p.output_of::<i32>(one, "token").unwrap();
    let mut draw = || {
        p.run(one).unwrap();
        p.get(token).unwrap()[0]
    };
    (0..n).map(|_| draw()).collect()
}

/// `n` tokens, with kept keys and values wherever there are some.
fn by_cache(p: &mut Program, n: usize) -> Vec<i32> {
    let (one, many) = (p.method("one").unwrap(), p.method("many").unwrap());
    let (token, tokens) = (p.output_of::<i32>(one, "token").unwrap(), p.output_of::<i32>(many, "token").unwrap());
    let count = p.input_of::<i64>(many, nn::GENERATE_COUNT).unwrap();
    let mut all = Vec::new();
    while all.len() < n {
        let [length, kept] =
            [nn::GENERATE_LENGTH, nn::GENERATE_KEPT].map(|name| p.values::<i64>(name).unwrap()[0] as usize);
        if kept + 1 < length {
            p.run(one).unwrap();
            all.push(p.get(token).unwrap()[0]);
            continue;
        }
        let now = MOST.min(n - all.len()).min(CONTEXT + 1 - length);
        p.get_mut(count).unwrap()[0] = now as i64;
        p.run(many).unwrap();
        all.extend_from_slice(&p.get(tokens).unwrap()[..now]);
    }
    all
}

#[test]
fn kept_keys_and_values_give_the_tokens_of_whole_windows() {
    let settings = [
        Sampling::default(),
        Sampling::default().temperature(0.0),
        Sampling::default().temperature(0.7).top_k(4).top_p(0.9),
    ];
    for how in settings {
        let mut p = program(DType::F64, how, 1);
        for prompt in [&[3][..], &[1, 2, 3, 4, 5], &[9; CONTEXT]] {
            start(&mut p, prompt, 8);
            let want = by_windows(&mut p, 30);
            // The likeliest token may be the same throughout.
            assert!(how.temperature == 0.0 || want.iter().any(|t| *t != want[0]), "{want:?}");
            start(&mut p, prompt, 8);
            assert_eq!(by_cache(&mut p, 30), want, "{how:?}, {} tokens of prompt", prompt.len());
        }
    }
}

/// Token number i is drawn by the key that the text's key and i make.
#[test]
fn a_token_is_a_draw_from_the_logits_of_its_window() {
    let (g, how) = (Builder::new("both"), Sampling::default());
    let token = g.reuse(|| {
        let number = |name: &str| g.state(name, [], DType::I64, Init::Zeros);
        let window = g.state(nn::GENERATE_WINDOW, [CONTEXT], DType::I32, Init::Zeros);
        let logits = nn::gpt(&g, window.unsqueeze(0), DType::F64, net().dropout(0.0)).squeeze(0);
        let last = logits.gather((number(nn::GENERATE_LENGTH) - 1.0).reshape([1]), 0);
        let key = g.state(nn::GENERATE_KEY, [4], DType::U32, Init::Zeros);
        let key = g.emit1(Op::RNG_FOLD, &[key, number(nn::GENERATE_DRAWN).cast(DType::U32)], &[]);
        last.sample_with_key(how, key, 0).tap("want");
        nn::gpt_next_token(&g, DType::F64, net(), how)
    });
    let mut p = Session::new().compile(&g.finish([token.named("token")]).unwrap()).unwrap();
    fill(&mut p, DType::F64);
    start(&mut p, &[3, 1, 4], 8);
    for i in 0..20 {
        p.step().unwrap();
        assert_eq!(p.values::<i32>("token").unwrap(), p.values::<i32>("want").unwrap(), "token {i}");
    }
}

#[test]
fn the_states_tell_the_text_so_far() {
    let mut p = program(DType::F64, Sampling::default(), 1);
    for draw in [by_windows as fn(&mut Program, usize) -> Vec<i32>, by_cache] {
        let mut text = vec![3, 1, 4];
        start(&mut p, &text, 8);
        for drawn in 1..=14 {
            text.extend(draw(&mut p, 1));
            let length = text.len().min(CONTEXT);
            assert_eq!(p.values::<i32>(nn::GENERATE_WINDOW).unwrap()[..length], text[text.len() - length..]);
            // All tokens but the last have kept keys and values, until the window moves.
            let kept = if text.len() > CONTEXT { 0 } else { length - 1 };
            let numbers = [nn::GENERATE_LENGTH, nn::GENERATE_KEPT, nn::GENERATE_DRAWN];
            let numbers = numbers.map(|name| p.values::<i64>(name).unwrap()[0]);
            assert_eq!(numbers, [length as i64, kept as i64, drawn], "{} tokens", text.len());
        }
    }
}

#[test]
fn a_window_of_one_token_is_the_last_one() {
    let g = Builder::new("one");
    let token = nn::gpt_next_token(&g, DType::F32, net().context(1), Sampling::default());
    let mut p = Session::new().compile(&g.finish([token.named("token")]).unwrap()).unwrap();
    fill(&mut p, DType::F32);
    start(&mut p, &[3], 8);
    for _ in 0..5 {
        p.step().unwrap();
        assert_eq!(p.values::<i32>(nn::GENERATE_WINDOW).unwrap(), p.values::<i32>("token").unwrap());
        assert_eq!(p.values::<i64>(nn::GENERATE_LENGTH).unwrap(), [1]);
    }
}

#[test]
fn tokens_behind_those_that_are_drawn_are_zeros() {
    let mut p = program(DType::F32, Sampling::default(), 1);
    start(&mut p, &[3], 0);
    let many = p.method("many").unwrap();
    let count = p.input_of::<i64>(many, nn::GENERATE_COUNT).unwrap();
    p.get_mut(count).unwrap()[0] = 2;
    p.run(many).unwrap();
    let tokens = p.output_of::<i32>(many, "token").unwrap();
    assert_eq!(p.get(tokens).unwrap()[2..], [0; MOST - 2]);
}

#[test]
fn a_seed_gives_one_text_on_any_number_of_threads() {
    let text = |seed: u32, threads: usize| {
        let mut p = program(DType::F32, Sampling::default(), threads);
        start(&mut p, &[3, 1], seed);
        by_cache(&mut p, 40)
    };
    let one = text(1, 1);
    assert_eq!(text(1, 1), one);
    assert_eq!(text(1, 3), one);
    assert_ne!(text(2, 1), one);
}

/// Tokens whose keys and values are not kept would be read as zeros.
#[test]
fn a_text_without_kept_keys_ends_the_step() {
    let mut p = program(DType::F32, Sampling::default(), 1);
    start(&mut p, &[3, 1, 4], 0);
    let many = p.method("many").unwrap();
    let count = p.input_of::<i64>(many, nn::GENERATE_COUNT).unwrap();
    p.get_mut(count).unwrap()[0] = 1;
    let e = p.run(many).unwrap_err();
    assert!(e.kind == Kind::Data && e.to_string().contains("0..12"), "{e}");
    // The states are as before.
    assert_eq!(p.values::<i64>(nn::GENERATE_LENGTH).unwrap(), [3]);
    // More tokens than the window has room for, and one that moves it.
    start(&mut p, &[3], 0);
    by_cache(&mut p, CONTEXT - 1);
    p.get_mut(count).unwrap()[0] = 2;
    assert!(p.run(many).unwrap_err().to_string().contains("0..12"));
}
