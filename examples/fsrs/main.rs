//! The fit of a spaced-repetition scheduler (FSRS-6): 21 weights that say how a person forgets, learnt from the reviews
//! of 10,000 cards, as flashcard programs do on the user's machine.
//!
//! Cards have from 2 to 64 reviews. Each bucket of lengths is a method of one program, so all share the weights and the
//! state of the optimiser. Start, loss, bounds, and the draw towards the start are those of the crate `fsrs`.
//! Run it with `cargo run --release --example fsrs`.

pub mod cards;
pub mod memory;
pub mod model;
pub mod start;

use arenagrad::prelude::*;
use arenagrad::session::Method;
use cards::{Card, Random, TRUE};
use memory::{DEFAULTS, WEIGHTS, log_loss};
use model::Size;
use start::{Start, rising, start};
use std::time::Instant;

/// The most reviews of the cards of each bucket.
pub const LENGTHS: &[usize] = &[8, 16, 30, 64];

/// How a fit runs.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Epochs: each shows all cards once.
    pub epochs: usize,
    /// Batches of each bucket.
    pub batches: usize,
    /// The first learning rate; it falls to 0 by half a cosine.
    pub lr: f64,
    /// Seed of the order of batches.
    pub seed: u64,
}

impl Default for How {
    fn default() -> How {
        How { epochs: 5, batches: 12, lr: 4e-2, seed: 1 }
    }
}

/// The reviews of some cards of one bucket, card by card in each row; a card that ends early is filled with zeros.
struct Batch {
    bucket: usize,
    days: Vec<f32>,
    rating: Vec<f32>,
    weight: Vec<f32>,
    share: f32,
}

/// The weight of each review of each card: 0 if it is not predicted, else from 0.25 for the oldest to 1 for the newest.
pub fn recency(cards: &[&Card]) -> Vec<Vec<f32>> {
    let mut all: Vec<(f64, usize, usize)> = Vec::new();
    for (c, card) in cards.iter().enumerate() {
        all.extend(card.reviews.iter().enumerate().filter(|(_, r)| r.counts()).map(|(k, r)| (r.day, c, k)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut weights: Vec<Vec<f32>> = cards.iter().map(|c| vec![0.0; c.reviews.len()]).collect();
    let last = all.len().saturating_sub(1).max(1) as f32;
    for (i, &(_, c, k)) in all.iter().enumerate() {
        weights[c][k] = 0.25 + 0.75 * (i as f32 / last).powi(3);
    }
    weights
}

/// The cards of each length, with the size of their batches; only lengths that some card has.
fn buckets(cards: &[&Card], how: &How) -> Vec<(Size, Vec<usize>)> {
    let mut all: Vec<(Size, Vec<usize>)> =
        LENGTHS.iter().map(|&reviews| (Size { reviews, cards: 0 }, Vec::new())).collect();
    for (c, card) in cards.iter().enumerate() {
        let bucket = LENGTHS.partition_point(|&most| most < card.reviews.len());
        all[bucket].1.push(c);
    }
    all.retain(|(_, members)| !members.is_empty());
    for (size, members) in &mut all {
        size.cards = members.len().div_ceil(how.batches.max(1));
    }
    all
}

/// All cards in batches of their bucket.
fn batches(cards: &[&Card], buckets: &[(Size, Vec<usize>)]) -> Vec<Batch> {
    let weights = recency(cards);
    let total: usize = cards.iter().flat_map(|c| &c.reviews).filter(|r| r.counts()).count();
    let mut all = Vec::new();
    for (bucket, (Size { reviews, cards: columns }, members)) in buckets.iter().enumerate() {
        for some in members.chunks(*columns) {
            let empty = || vec![0.0; reviews * columns];
            let mut batch = Batch { bucket, days: empty(), rating: empty(), weight: empty(), share: 0.0 };
            for (column, &c) in some.iter().enumerate() {
                for (k, review) in cards[c].reviews.iter().enumerate() {
                    let at = k * columns + column;
                    batch.days[at] = review.days as f32;
                    batch.rating[at] = f32::from(review.rating);
                    batch.weight[at] = weights[c][k];
                    batch.share += f32::from(u8::from(review.counts())) / total as f32;
                }
            }
            all.push(batch);
        }
    }
    all
}

/// An order of all batches: random within a bucket, and the batches of each bucket are spread over the whole epoch, so
/// that any few steps in a row see all lengths.
fn spread(batches: &[Batch], draw: &mut Random) -> Vec<usize> {
    let mut at = Vec::new();
    for bucket in batches.chunk_by(|a, b| a.bucket == b.bucket) {
        let mut order: Vec<usize> = (at.len()..at.len() + bucket.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, draw.below(i + 1));
        }
        let shift = draw.number();
        at.extend(order.iter().enumerate().map(|(k, &i)| ((k as f64 + shift) / bucket.len() as f64, i)));
    }
    at.sort_by(|a, b| a.0.total_cmp(&b.0));
    at.into_iter().map(|(_, i)| i).collect()
}

/// One bucket's method and its tensors.
struct Tensors {
    method: Method,
    days: Handle<f32>,
    rating: Handle<f32>,
    weight: Handle<f32>,
    share: Handle<f32>,
    lr: Handle<f32>,
    loss: Handle<f32>,
}

impl Tensors {
    fn find(p: &Program, name: &str) -> Result<Tensors> {
        let method = p.method(name)?;
        let input = |name| p.input_of::<f32>(method, name);
        Ok(Tensors {
            method,
            days: input("days")?,
            rating: input("rating")?,
            weight: input("weight")?,
            share: input("share")?,
            lr: input(optim::LR)?,
            loss: p.output_of(method, "loss")?,
        })
    }

    /// One step of training. Returns the loss before it.
    fn step(&self, p: &mut Program, batch: &Batch, lr: f64) -> Result<f32> {
        p[self.days].copy_from_slice(&batch.days);
        p[self.rating].copy_from_slice(&batch.rating);
        p[self.weight].copy_from_slice(&batch.weight);
        p[self.share][0] = batch.share;
        p[self.lr][0] = lr as f32;
        p.run(self.method)?;
        Ok(p[self.loss][0])
    }
}

/// A fit.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The weights.
    pub weights: [f64; WEIGHTS],
    /// Seconds of compiling, then of each epoch.
    pub seconds: Vec<f64>,
    /// The loss of the first epoch, and of the last one: sums over the batches.
    pub losses: Vec<f32>,
}

/// Fits the weights to the reviews of `cards`.
pub fn fit(cards: &[Card], how: &How) -> Result<Fit> {
    let Start { cards, weights, counts } = start(cards);
    let first = weights.map(|w| w as f32);
    let clock = Instant::now();
    let buckets = buckets(&cards, how);
    let batches = batches(&cards, &buckets);
    let graphs = buckets.iter().map(|b| model::step(&first, b.0, how.lr)).collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = buckets.iter().map(|b| format!("up to {}", b.0.reviews)).collect();
    let methods: Vec<(&str, &GraphBuf)> = names.iter().map(String::as_str).zip(&graphs).collect();
    let mut p = Session::new().compile_all(&methods)?;
    let tensors = names.iter().map(|name| Tensors::find(&p, name)).collect::<Result<Vec<_>>>()?;
    p.init(how.seed)?;
    p.values_mut::<f32>("w")?.copy_from_slice(&first);

    let mut seconds = vec![clock.elapsed().as_secs_f64()];
    let schedule = Schedule::cosine(how.lr, 0, (batches.len() * how.epochs) as u64);
    let mut draw = Random(how.seed);
    let mut losses = Vec::new();
    for epoch in 0..how.epochs {
        let clock = Instant::now();
        let order = spread(&batches, &mut draw);
        let mut loss = 0.0;
        for (k, batch) in order.iter().map(|&i| &batches[i]).enumerate() {
            let lr = schedule.lr((epoch * batches.len() + k) as u64);
            loss += tensors[batch.bucket].step(&mut p, batch, lr)?;
        }
        losses.push(loss);
        seconds.push(clock.elapsed().as_secs_f64());
    }

    let mut weights = DEFAULTS;
    weights.iter_mut().zip(p.values::<f32>("w")?).for_each(|(to, &w)| *to = f64::from(w));
    let mut stability = [weights[0], weights[1], weights[2], weights[3]];
    rising(&mut stability, counts);
    weights[..4].copy_from_slice(&stability);
    Ok(Fit { weights, seconds, losses })
}

#[allow(dead_code, reason = "a test includes this file")]
fn main() -> Result<()> {
    let cards = cards::cards(10_000, 7);
    let reviews: usize = cards.iter().map(|c| c.reviews.len()).sum();
    println!("{} cards, {reviews} reviews", cards.len());
    let fit = fit(&cards, &How::default())?;
    println!("compiled in {:.1} ms", 1e3 * fit.seconds[0]);
    for (i, s) in fit.seconds[1..].iter().enumerate() {
        println!("epoch {}: {:.1} ms, loss {:.1}", i + 1, 1e3 * s, fit.losses[i]);
    }
    println!("log loss of the default weights: {:.5}", log_loss(&DEFAULTS, &cards));
    println!("log loss of the fitted weights:  {:.5}", log_loss(&fit.weights, &cards));
    println!("log loss of the true weights:    {:.5}", log_loss(&TRUE, &cards));
    println!("weights {:.4?}", fit.weights);
    Ok(())
}
