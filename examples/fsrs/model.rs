//! FSRS-6 as a graph: a training step on the cards of one batch.
//!
//! All cards of a batch are walked side by side: a scan over the reviews, whose carries are the stability and the
//! difficulty of each card. Weights enter the scan as one number for each card, so that their gradients are summed over
//! the cards once, after the scan.

use super::memory::{DIFFICULTY, STABILITY, WEIGHTS};
use arenagrad::prelude::*;

/// Bounds of the weights, which hold after each step.
#[rustfmt::skip]
const BOUNDS: [[f32; 2]; WEIGHTS] = [
    [0.001, 100.0], [0.001, 100.0], [0.001, 100.0], [0.001, 100.0], [1.0, 10.0], [0.001, 4.0], [0.001, 4.0],
    [0.001, 0.75], [0.0, 4.5], [0.0, 0.8], [0.001, 3.5], [0.001, 5.0], [0.001, 0.25], [0.001, 0.9],
    [0.0, 4.0], [0.0, 1.0], [1.0, 6.0], [0.0, 2.0], [0.0, 2.0], [0.01, 0.8], [0.1, 0.8],
];
/// Spread of each weight among people: a weight is drawn towards its start, the more so the less people differ.
#[rustfmt::skip]
const SPREAD: [f32; WEIGHTS] = [
    6.43, 9.66, 17.58, 27.85, 0.57, 0.28, 0.6, 0.12, 0.39, 0.18, 0.33, 0.3, 0.09, 0.16, 0.57, 0.25, 1.03, 0.31, 0.32,
    0.14, 0.27,
];

/// The size of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Reviews of a card.
    pub reviews: usize,
    /// Cards.
    pub cards: usize,
}

/// The weights in a graph, and the number of cards that they are for.
#[derive(Clone, Copy)]
struct Weights<'g> {
    all: Var<'g>,
    cards: usize,
}

impl<'g> Weights<'g> {
    /// Weight `i`, `[1]`.
    fn one(self, i: usize) -> Var<'g> {
        self.all.narrow(0, i, 1)
    }

    /// `x`, `[1]`, as a number for each card, `[cards]`.
    fn each(self, x: Var<'g>) -> Var<'g> {
        x.broadcast([self.cards])
    }

    /// The difficulty after a first review.
    fn first_difficulty(self, rating: Var<'g>) -> Var<'g> {
        (self.one(4) - (self.one(5) * (rating - 1.0)).exp() + 1.0).clamp(DIFFICULTY[0], DIFFICULTY[1])
    }

    /// The stability after a first review, `[cards]`.
    fn first_stability(self, rating: Var<'g>) -> Var<'g> {
        let [again, hard, good, easy] = [0, 1, 2, 3].map(|i| self.each(self.one(i)));
        let passed = rating.equal(2.0).select(hard, rating.equal(3.0).select(good, easy));
        rating.equal(1.0).select(again, passed).clamp(STABILITY[0], STABILITY[1])
    }
}

/// What a review does to the memories of the cards of a batch. All fields are `[cards]`.
#[derive(Clone, Copy)]
struct Rule<'g> {
    w9: Var<'g>,
    w10: Var<'g>,
    w11: Var<'g>,
    w12: Var<'g>,
    w13: Var<'g>,
    w14: Var<'g>,
    w19: Var<'g>,
    w20: Var<'g>,
    /// The days that have passed times `spent` are as large as the stability when the chance is 0.9.
    spent: Var<'g>,
    /// The growth of the stability after the ratings hard, good and easy.
    growth: [Var<'g>; 3],
    /// The logarithm of the growth within a day: the rating times `repeated[0]`, plus `repeated[1]`.
    repeated: [Var<'g>; 2],
    /// The stability after forgetting, over that before, at most.
    most: Var<'g>,
    /// How far a rating moves the difficulty.
    moved: Var<'g>,
    /// The new difficulty is the moved one times `stays`, plus `easy`.
    stays: Var<'g>,
    easy: Var<'g>,
}

impl<'g> Rule<'g> {
    fn new(w: Weights<'g>) -> Rule<'g> {
        let each = |i| w.each(w.one(i));
        let good = w.one(8).exp();
        Rule {
            w9: each(9),
            w10: each(10),
            w11: each(11),
            w12: each(12),
            w13: each(13),
            w14: each(14),
            w19: each(19),
            w20: each(20),
            spent: w.each((0.9f64.ln() / -w.one(20)).exp() - 1.0),
            growth: [good * w.one(15), good, good * w.one(16)].map(|x| w.each(x)),
            repeated: [w.one(17), w.one(17) * (w.one(18) - 3.0)].map(|x| w.each(x)),
            most: w.each((-(w.one(17) * w.one(18))).exp()),
            moved: w.each(w.one(6) / -9.0),
            stays: w.each(1.0 - w.one(7)),
            easy: w.each(w.one(7) * (w.one(4) - (w.one(5) * 3.0).exp() + 1.0)),
        }
    }

    /// The stability and the difficulty after a review, and the chance that the card was remembered at it.
    fn apply(&self, [s, d]: [Var<'g>; 2], days: Var<'g>, rating: Var<'g>) -> ([Var<'g>; 2], Var<'g>) {
        let r = (-(self.w20 * (days * self.spent / s + 1.0).log())).exp();
        let (lost, log_s) = (1.0 - r, s.log());

        let [hard, good, easy] = self.growth;
        let growth = rating.equal(2.0).select(hard, rating.equal(4.0).select(easy, good));
        let gained = growth * (11.0 - d) * (-(self.w9 * log_s)).exp() * ((lost * self.w10).exp() - 1.0);
        let left = ((self.w13 * (s + 1.0).log()).exp() - 1.0) * (lost * self.w14 - self.w12 * d.log()).exp() * self.w11;
        let repeated = (rating * self.repeated[0] + self.repeated[1] - self.w19 * log_s).exp();
        let same_day = s * repeated.maximum(rating.greater_equal(2.0).select(rating.full_like(1.0), 0.0));
        let other_day = rating.equal(1.0).select(left.minimum(s * self.most), s * (gained + 1.0));
        let stability = days.equal(0.0).select(same_day, other_day).clamp(STABILITY[0], STABILITY[1]);

        let moved = d + (10.0 - d) * ((rating - 3.0) * self.moved);
        let difficulty = (moved * self.stays + self.easy).clamp(DIFFICULTY[0], DIFFICULTY[1]);
        ([stability, difficulty], r)
    }
}

/// The chance that each card was remembered at each review after its first, `[reviews − 1, cards]`, from the rating of
/// the first review, `[cards]`, and the days and ratings of the others.
fn chances<'g>(w: Weights<'g>, first: Var<'g>, days: Var<'g>, rating: Var<'g>) -> Var<'g> {
    let (start, rule) = ([w.first_stability(first), w.first_difficulty(first)], Rule::new(w));
    let (_, r) = w.all.builder().scan(&start, &[days, rating], |memory, x| {
        let (next, r) = rule.apply([memory[0], memory[1]], x[0], x[1]);
        (next.to_vec(), vec![r])
    });
    r[0]
}

/// The training step of a batch of `size`, from weights `start`. Inputs: `days`, `rating` and `weight` of each review
/// (the weight of a first review, and of one that is not predicted, is 0), and the `share` of all predictions that are
/// in the batch.
pub fn step(start: &[f32; WEIGHTS], size: Size, lr: f64) -> Result<GraphBuf> {
    let Size { reviews, cards } = size;
    let g = Builder::new("fsrs");
    let [days, rating, weight] = ["days", "rating", "weight"].map(|name| g.input(name, [reviews, cards], DType::F32));
    let share = g.input("share", [], DType::F32);
    let w = Weights { all: g.param("w", [WEIGHTS], DType::F32, Init::Zeros), cards };

    let [later_days, later_rating, later_weight] = [days, rating, weight].map(|x| x.narrow(0, 1, reviews - 1));
    let first = rating.narrow(0, 0, 1).reshape([cards]);
    let r = chances(w, first, later_days, later_rating).clamp(1e-7, 1.0 - 1e-7);
    let shown = later_rating.greater(1.0).select(r, 1.0 - r);
    let from_start = (w.all - g.constant(start, [WEIGHTS])) / g.constant(&SPREAD, [WEIGHTS]);
    let loss = (from_start * from_start).sum(..) * share - (later_weight * shown.log()).sum(..);
    let adam = optim::Adam::new(lr).project("w", |w| {
        let [low, high] = [0, 1].map(|end| w.builder().constant(&BOUNDS.map(|b| b[end]), [WEIGHTS]));
        w.maximum(low).minimum(high)
    });
    train(&g.finish([loss.named("loss")])?, "loss", adam)
}
