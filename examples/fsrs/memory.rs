//! FSRS-6 in plain Rust and f64: how the memory of a card changes with a review. It draws the cards and it measures a
//! fit, so the graph of `model.rs` is never measured by itself.

use super::cards::{Card, Review};

/// Number of weights.
pub const WEIGHTS: usize = 21;
/// Bounds of the stability, in days.
pub const STABILITY: [f64; 2] = [0.001, 36_500.0];
/// Bounds of the difficulty.
pub const DIFFICULTY: [f64; 2] = [1.0, 10.0];

/// The weights that a scheduler starts with, fitted to many people.
#[rustfmt::skip]
pub const DEFAULTS: [f64; WEIGHTS] = [
    0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796, 1.4835, 0.0614, 0.2629,
    1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542,
];

/// What a person remembers of a card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Days after which the chance to remember is 0.9.
    pub stability: f64,
    /// How slowly stability grows, from 1 to 10.
    pub difficulty: f64,
}

fn within(x: f64, [low, high]: [f64; 2]) -> f64 {
    x.clamp(low, high)
}

/// The chance to remember after `days`: `(1 + days/s·f)^−w₂₀`, where `f` makes it 0.9 after `s` days.
pub fn chance(w: &[f64; WEIGHTS], days: f64, stability: f64) -> f64 {
    (1.0 + days / stability * (0.9f64.powf(-1.0 / w[20]) - 1.0)).powf(-w[20])
}

fn first_difficulty(w: &[f64; WEIGHTS], rating: u8) -> f64 {
    w[4] - (w[5] * f64::from(rating - 1)).exp() + 1.0
}

impl Memory {
    /// The memory after the first review, rated 1 (again) to 4 (easy).
    pub fn first(w: &[f64; WEIGHTS], rating: u8) -> Memory {
        let stability = within(w[usize::from(rating) - 1], STABILITY);
        Memory { stability, difficulty: within(first_difficulty(w, rating), DIFFICULTY) }
    }

    /// The memory after a review `days` after the one before.
    pub fn next(self, w: &[f64; WEIGHTS], days: f64, rating: u8) -> Memory {
        let Memory { stability: s, difficulty: d } = self;
        let r = chance(w, days, s);
        let rated = f64::from(rating);
        let stability = if days == 0.0 {
            let factor = (w[17] * (rated - 3.0 + w[18])).exp() * s.powf(-w[19]);
            s * if rating >= 2 { factor.max(1.0) } else { factor }
        } else if rating == 1 {
            let forgot = w[11] * d.powf(-w[12]) * ((s + 1.0).powf(w[13]) - 1.0) * ((1.0 - r) * w[14]).exp();
            forgot.min(s / (w[17] * w[18]).exp())
        } else {
            let bonus = [1.0, 1.0, w[15], 1.0, w[16]][usize::from(rating)];
            let growth = w[8].exp() * (11.0 - d) * s.powf(-w[9]) * (((1.0 - r) * w[10]).exp() - 1.0);
            s * (growth * bonus + 1.0)
        };
        let moved = d - (10.0 - d) / 9.0 * w[6] * (rated - 3.0);
        let difficulty = w[7] * (first_difficulty(w, 4) - moved) + moved;
        Memory { stability: within(stability, STABILITY), difficulty: within(difficulty, DIFFICULTY) }
    }
}

/// The loss of predicting the chance `r` of what `review` shows.
fn log_loss_of(review: &Review, r: f64) -> f64 {
    let r = r.clamp(1e-7, 1.0 - 1e-7);
    if review.remembered() { -r.ln() } else { -(1.0 - r).ln() }
}

/// The mean log loss of the predictions that weights `w` make of all reviews that count; see [`Review::counts`].
pub fn log_loss(w: &[f64; WEIGHTS], cards: &[Card]) -> f64 {
    let (mut sum, mut count) = (0.0, 0u64);
    for card in cards {
        let mut memory = Memory::first(w, card.reviews[0].rating);
        for review in &card.reviews[1..] {
            if review.counts() {
                sum += log_loss_of(review, chance(w, review.days, memory.stability));
                count += 1;
            }
            memory = memory.next(w, review.days, review.rating);
        }
    }
    sum / count.max(1) as f64
}
