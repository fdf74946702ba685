//! Where a fit starts: cards with unusual first intervals are left out, and the stability after a first review is
//! searched for each rating by itself.

use super::cards::Card;
use super::memory::{DEFAULTS, WEIGHTS, chance};
use std::collections::BTreeMap;

/// The least and the greatest start value of a stability, in days.
const RANGE: [f64; 2] = [0.001, 100.0];

/// What was remembered at the first interval of one length.
#[derive(Clone, Copy, Default)]
struct Recall {
    asked: f64,
    remembered: f64,
}

/// First ratings (0 stands for 1, *again*), each with its first intervals in days.
type First = [BTreeMap<u32, Recall>; 4];

/// The first rating and the first interval of a card that was seen on two days.
fn first_interval(card: &Card) -> Option<(usize, u32, bool)> {
    let review = card.reviews.iter().find(|r| r.counts())?;
    Some((usize::from(card.reviews[0].rating) - 1, review.days as u32, review.remembered()))
}

/// Removes the rarest first intervals of each rating, until a twentieth of its cards is gone (20 at least). Rare ones
/// among the others go, too.
fn usual(first: &mut First) {
    for (rating, intervals) in first.iter_mut().enumerate() {
        let total: f64 = intervals.values().map(|r| r.asked).sum();
        let most = (total / 20.0).floor().max(20.0);
        let mut by_count: Vec<(u32, f64)> = intervals.iter().map(|(&days, r)| (days, r.asked)).collect();
        by_count.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut removed = 0.0;
        for (days, count) in by_count {
            if removed + count < most {
                removed += count;
                intervals.remove(&days);
            } else if count < 6.0 || days > if rating == 3 { 365 } else { 100 } {
                intervals.remove(&days);
            }
        }
    }
}

/// The stability under which `intervals` are most likely, drawn a little towards `default`.
fn likeliest(intervals: &BTreeMap<u32, Recall>, average: f64, default: f64) -> f64 {
    let loss = |s: f64| {
        let of = |(&days, r): (&u32, &Recall)| {
            let (seen, p) = ((r.remembered + average) / (r.asked + 1.0), chance(&DEFAULTS, f64::from(days), s));
            -(seen * p.ln() + (1.0 - seen) * (1.0 - p).ln()) * r.asked
        };
        intervals.iter().map(of).sum::<f64>() + (s - default).abs() / 16.0
    };
    let [mut low, mut high] = RANGE;
    for _ in 0..200 {
        let third = (high - low) / 3.0;
        match loss(low + third) < loss(high - third) {
            true => high -= third,
            false => low += third,
        }
    }
    (low + high) / 2.0
}

/// A better first rating must not give a smaller stability: of a pair that does, the one with more cards stands.
pub fn rising(stability: &mut [f64; 4], cards: [f64; 4]) {
    for (low, high) in [(0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3)] {
        if stability[low] > stability[high] {
            let stands = if cards[low] > cards[high] { low } else { high };
            (stability[low], stability[high]) = (stability[stands], stability[stands]);
        }
    }
    stability.iter_mut().for_each(|s| *s = s.clamp(RANGE[0], RANGE[1]));
}

/// What a fit starts from.
pub struct Start<'c> {
    /// The cards to learn from.
    pub cards: Vec<&'c Card>,
    /// The start values.
    pub weights: [f64; WEIGHTS],
    /// Number of cards by first rating, for [`rising`].
    pub counts: [f64; 4],
}

/// The start of a fit to `cards`. A rating that no card starts with keeps the default stability.
pub fn start(cards: &[Card]) -> Start<'_> {
    let mut first = First::default();
    for (rating, days, remembered) in cards.iter().filter_map(first_interval) {
        let recall = first[rating].entry(days).or_default();
        recall.asked += 1.0;
        recall.remembered += f64::from(u8::from(remembered));
    }
    usual(&mut first);
    let kept = |c: &&Card| first_interval(c).is_some_and(|(rating, days, _)| first[rating].contains_key(&days));
    let cards: Vec<&Card> = cards.iter().filter(kept).collect();

    let predicted = || cards.iter().flat_map(|c| &c.reviews).filter(|r| r.counts());
    let average = predicted().filter(|r| r.remembered()).count() as f64 / predicted().count().max(1) as f64;
    let counts = std::array::from_fn(|i| first[i].values().map(|r| r.asked).sum());
    let mut stability = std::array::from_fn(|i| match first[i].is_empty() {
        true => DEFAULTS[i],
        false => likeliest(&first[i], average, DEFAULTS[i]),
    });
    rising(&mut stability, counts);
    let mut weights = DEFAULTS;
    weights[..4].copy_from_slice(&stability);
    Start { cards, weights, counts }
}
