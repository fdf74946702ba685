//! Cards of a made-up person: their memory follows FSRS-6 with weights of its own, and a scheduler that knows only the
//! default weights chooses when to ask.

use super::memory::{DEFAULTS, Memory, WEIGHTS, chance};

/// The most reviews of a card.
pub const MOST: usize = 64;
/// Days from the first review of the first card to the last review.
const DAYS: f64 = 3.0 * 365.0;

/// The weights of the person's memory.
#[rustfmt::skip]
pub const TRUE: [f64; WEIGHTS] = [
    0.45, 1.8, 4.2, 14.0, 6.9, 0.62, 2.4, 0.02, 1.55, 0.24, 1.05, 1.15, 0.09, 0.36,
    1.25, 0.45, 2.3, 0.4, 0.25, 0.11, 0.28,
];

/// One review.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Review {
    /// Whole days since the review before; 0 for the first one.
    pub days: f64,
    /// 1 (again: forgotten), 2 (hard), 3 (good) or 4 (easy).
    pub rating: u8,
    /// The day of the review, from 0.
    pub day: f64,
}

impl Review {
    /// Whether the card was remembered.
    pub fn remembered(&self) -> bool {
        self.rating > 1
    }

    /// Whether the review is predicted: on the day of the review before, the chance is 1, which tells nothing.
    pub fn counts(&self) -> bool {
        self.days > 0.0
    }
}

/// The reviews of one card, in order: at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// All reviews; no more than [`MOST`].
    pub reviews: Vec<Review>,
}

/// Numbers in [0, 1), from SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn number(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The first number whose running sum of `chances` is above a draw.
    fn pick<const N: usize>(&mut self, chances: [(u8, f64); N]) -> u8 {
        let mut left = self.number();
        let found = chances.iter().find(|(_, p)| {
            left -= p;
            left < 0.0
        });
        found.or(chances.last()).map_or(1, |c| c.0)
    }

    /// A whole number from 0 to `n` − 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.number() * n as f64) as usize
    }
}

/// Days until the chance is `target`, by the scheduler's weights.
fn interval(memory: Memory, target: f64) -> f64 {
    let w = &DEFAULTS;
    memory.stability * (target.powf(-1.0 / w[20]) - 1.0) / (0.9f64.powf(-1.0 / w[20]) - 1.0)
}

/// A card that is reviewed from day `start` on.
fn card(start: f64, draw: &mut Random) -> Card {
    let rating = draw.pick([(1, 0.25), (2, 0.1), (3, 0.5), (4, 0.15)]);
    let (mut real, mut planned) = (Memory::first(&TRUE, rating), Memory::first(&DEFAULTS, rating));
    let mut reviews = vec![Review { days: 0.0, rating, day: start }];
    // Some people keep a card well, others let it slip.
    let target = 0.85 + 0.13 * draw.number();
    while let Some(&last) = reviews.last().filter(|_| reviews.len() < MOST) {
        let again = last.rating == 1 && draw.number() < 0.3;
        let days = match again {
            true => 0.0,
            false => (interval(planned, target) * (0.8 + 0.4 * draw.number())).round().clamp(1.0, 300.0),
        };
        if last.day + days > DAYS {
            break;
        }
        let rating = match draw.number() < chance(&TRUE, days, real.stability) {
            true => draw.pick([(2, 0.12), (3, 0.76), (4, 0.12)]),
            false => 1,
        };
        (real, planned) = (real.next(&TRUE, days, rating), planned.next(&DEFAULTS, days, rating));
        reviews.push(Review { days, rating, day: last.day + days });
    }
    Card { reviews }
}

/// `count` cards that follow from `seed`, started at random days.
pub fn cards(count: usize, seed: u64) -> Vec<Card> {
    let mut draw = Random(seed);
    (0..count).map(|_| card((draw.number() * 0.9 * DAYS).floor(), &mut draw)).collect()
}
