//! Counts of steps, and the schedules of NAdam, which follow from them.
//!
//! Invariant: a count that no rule and no moving average reads is no state.

use super::adam_family::nadam_schedule;
use super::groups::Settings;
use super::rule::Rule;
use super::{Optimiser, STEP};
use crate::arena::Value;
use crate::nodes::{Builder, DType, Init, Op, Var};

/// The number of this step, from 1, as each kind of settings counts it.
pub(super) fn count_steps<'g>(b: &'g Builder, opt: &Optimiser, settings: &Settings) -> Vec<Var<'g>> {
    let mut known: Vec<(Option<u32>, Var<'g>)> = Vec::new();
    let mut count_of = |number: Option<u32>| match known.iter().find(|k| k.0 == number) {
        Some(count) => count.1,
        None => {
            let is_read = |k: &super::groups::Of| k.count == number && (opt.ema.is_some() || k.rule.counts());
            let count = match settings.kinds.iter().any(is_read) {
                true => count_step(b, &number.map_or(STEP.to_string(), |n| format!("{STEP}.{n}"))),
                false => b.var(Value::NONE),
            };
            known.push((number, count));
            count
        }
    };
    settings.kinds.iter().map(|kind| count_of(kind.count)).collect()
}

/// The step counter `name` after this step, 1-based.
fn count_step<'g>(b: &'g Builder, name: &str) -> Var<'g> {
    let t = b.state(name, [], DType::I64, Init::Zeros);
    let next = t.pair(Op::ADD, t.full_like(1.0));
    b.update(t, next);
    next
}

/// The NAdam schedule of each kind of settings that has one, by the counts `t`. Equal schedules share a state.
pub(super) fn nadam_schedules<'g>(b: &'g Builder, settings: &Settings, t: &[Var<'g>]) -> Vec<Option<[Var<'g>; 3]>> {
    let mut known: Vec<((f64, f64, Option<u32>), [Var<'g>; 3])> = Vec::new();
    let mut all = Vec::new();
    for (kind, &t) in settings.kinds.iter().zip(t) {
        let Rule::NAdam { betas, momentum_decay, .. } = kind.rule else {
            all.push(None);
            continue;
        };
        let key = (betas.0, momentum_decay, kind.count);
        if !known.iter().any(|k| k.0 == key) {
            let name = match known.len() {
                0 => "opt.mu_product".to_string(),
                n => format!("opt.mu_product.{}", n + 1),
            };
            known.push((key, nadam_schedule(b, &name, t, key.0, key.1)));
        }
        all.push(known.iter().find(|k| k.0 == key).map(|k| k.1));
    }
    all
}
