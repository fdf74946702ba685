//! The table `[optimiser]`: kinds, hyper-parameters, and groups of params.
//!
//! Invariant: a key that the kind does not read is an error, and so is a number outside its formula's domain.

use crate::fail::{Run, fail_bad_input};
use arenagrad::optim::{Group, MuonScale, Optimiser, Rule};
use serde::{Deserialize, Serialize};

#[derive(Deserialize, Serialize, Debug, Clone, Copy, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum OptimiserKind {
    Sgd,
    Adam,
    #[default]
    AdamW,
    RmsProp,
    Adagrad,
    Adadelta,
    NAdam,
    NAdamW,
    Lion,
    Lamb,
    Adafactor,
    Muon,
}

#[derive(Deserialize, Serialize, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum AdjustLr {
    Original,
    MatchRmsAdamw,
    SpectralUnclamped,
}

/// The table as it stands in the file.
#[derive(Deserialize, Serialize, Debug, Default, Clone)]
#[serde(deny_unknown_fields, default)]
pub struct OptimiserTable {
    kind: OptimiserKind,
    pub(super) lr: Option<f64>,
    weight_decay: Option<f64>,
    momentum: Option<f64>,
    dampening: Option<f64>,
    nesterov: Option<bool>,
    betas: Option<(f64, f64)>,
    eps: Option<f64>,
    alpha: Option<f64>,
    centered: Option<bool>,
    lr_decay: Option<f64>,
    initial_accumulator_value: Option<f64>,
    rho: Option<f64>,
    momentum_decay: Option<f64>,
    beta2_decay: Option<f64>,
    eps1: Option<f64>,
    eps2: Option<f64>,
    d: Option<f64>,
    ns_steps: Option<u32>,
    ns_coefficients: Option<(f64, f64, f64)>,
    adjust_lr: Option<AdjustLr>,
    clip_norm: Option<f64>,
    ema: Option<f64>,
    pub(super) accumulate: Option<usize>,
    decay_from_rank: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    group: Vec<GroupTable>,
}

/// A group: the settings of the params whose names match a pattern.
#[derive(Deserialize, Serialize, Debug, Default, Clone)]
#[serde(deny_unknown_fields, default)]
struct GroupTable {
    pattern: String,
    lr_scale: Option<f64>,
    weight_decay: Option<f64>,
    rule: Option<Box<OptimiserTable>>,
}

impl OptimiserKind {
    /// The kind's name in a file, and the keys that it reads besides `weight_decay`.
    fn reads(self) -> (&'static str, &'static [&'static str]) {
        match self {
            OptimiserKind::Sgd => ("sgd", &["momentum", "dampening", "nesterov"]),
            OptimiserKind::Adam => ("adam", &["betas", "eps"]),
            OptimiserKind::AdamW => ("adamw", &["betas", "eps"]),
            OptimiserKind::RmsProp => ("rmsprop", &["alpha", "eps", "momentum", "centered"]),
            OptimiserKind::Adagrad => ("adagrad", &["lr_decay", "initial_accumulator_value", "eps"]),
            OptimiserKind::Adadelta => ("adadelta", &["rho", "eps"]),
            OptimiserKind::NAdam => ("nadam", &["betas", "eps", "momentum_decay"]),
            OptimiserKind::NAdamW => ("nadamw", &["betas", "eps", "momentum_decay"]),
            OptimiserKind::Lion => ("lion", &["betas"]),
            OptimiserKind::Lamb => ("lamb", &["betas", "eps"]),
            OptimiserKind::Adafactor => ("adafactor", &["beta2_decay", "eps1", "eps2", "d"]),
            OptimiserKind::Muon => {
                ("muon", &["momentum", "nesterov", "ns_steps", "ns_coefficients", "eps", "adjust_lr"])
            }
        }
    }
}

impl OptimiserTable {
    /// AdamW with this weight decay.
    pub fn decaying(weight_decay: f64) -> OptimiserTable {
        OptimiserTable { weight_decay: Some(weight_decay), ..OptimiserTable::default() }
    }

    /// nanoGPT's optimiser: AdamW with β₂ = 0.99, a weight decay of 0.1 for matrices only, and gradients clipped to
    /// norm 1.
    pub fn nano_gpt() -> OptimiserTable {
        OptimiserTable {
            betas: Some((0.9, 0.99)),
            clip_norm: Some(1.0),
            decay_from_rank: Some(2),
            ..OptimiserTable::decaying(0.1)
        }
    }

    /// The keys of hyper-parameters, and whether each is given.
    fn given(&self) -> [(&'static str, bool); 18] {
        [
            ("momentum", self.momentum.is_some()),
            ("dampening", self.dampening.is_some()),
            ("nesterov", self.nesterov.is_some()),
            ("betas", self.betas.is_some()),
            ("eps", self.eps.is_some()),
            ("alpha", self.alpha.is_some()),
            ("centered", self.centered.is_some()),
            ("lr_decay", self.lr_decay.is_some()),
            ("initial_accumulator_value", self.initial_accumulator_value.is_some()),
            ("rho", self.rho.is_some()),
            ("momentum_decay", self.momentum_decay.is_some()),
            ("beta2_decay", self.beta2_decay.is_some()),
            ("eps1", self.eps1.is_some()),
            ("eps2", self.eps2.is_some()),
            ("d", self.d.is_some()),
            ("ns_steps", self.ns_steps.is_some()),
            ("ns_coefficients", self.ns_coefficients.is_some()),
            ("adjust_lr", self.adjust_lr.is_some()),
        ]
    }

    /// The keys that a group's rule must not have, and whether each is given.
    fn of_whole_optimiser(&self) -> [(&'static str, bool); 6] {
        [
            ("lr", self.lr.is_some()),
            ("clip_norm", self.clip_norm.is_some()),
            ("ema", self.ema.is_some()),
            ("accumulate", self.accumulate.is_some()),
            ("decay_from_rank", self.decay_from_rank.is_some()),
            ("group", !self.group.is_empty()),
        ]
    }

    /// The rule, with torch's defaults for absent keys.
    fn rule(&self) -> Run<Rule> {
        let (kind, reads) = self.kind.reads();
        if let Some((key, _)) = self.given().iter().find(|(key, given)| *given && !reads.contains(key)) {
            return Err(fail_bad_input(format!(
                "optimiser.{key} means nothing to {kind}; it reads {}",
                reads.join(", ")
            )));
        }
        let rule = self.filled(self.default_rule());
        let rule = self.weight_decay.map_or(rule, |d| rule.with_weight_decay(d));
        rule.validate().map_err(|e| fail_bad_input(format!("optimiser: {}", e.message)))?;
        Ok(rule)
    }

    /// The kind's rule with torch's defaults.
    fn default_rule(&self) -> Rule {
        match self.kind {
            OptimiserKind::Sgd => Rule::SGD,
            OptimiserKind::Adam => Rule::ADAM,
            OptimiserKind::AdamW => Rule::ADAMW,
            OptimiserKind::RmsProp => Rule::RMSPROP,
            OptimiserKind::Adagrad => Rule::ADAGRAD,
            OptimiserKind::Adadelta => Rule::ADADELTA,
            OptimiserKind::NAdam => Rule::NADAM,
            OptimiserKind::NAdamW => Rule::NADAMW,
            OptimiserKind::Lion => Rule::LION,
            OptimiserKind::Lamb => Rule::LAMB,
            OptimiserKind::Adafactor => Rule::ADAFACTOR,
            OptimiserKind::Muon => Rule::MUON,
        }
    }

    /// `rule` with the given hyper-parameters.
    fn filled(&self, mut rule: Rule) -> Rule {
        fn put<T: Copy>(to: &mut T, from: Option<T>) {
            *to = from.unwrap_or(*to);
        }
        match &mut rule {
            Rule::Sgd { momentum, dampening, nesterov, .. } => {
                put(momentum, self.momentum);
                put(dampening, self.dampening);
                put(nesterov, self.nesterov);
            }
            Rule::Adam { betas, eps, .. } | Rule::Lamb { betas, eps, .. } => {
                put(betas, self.betas);
                put(eps, self.eps);
            }
            Rule::RmsProp { alpha, eps, momentum, centered, .. } => {
                put(alpha, self.alpha);
                put(eps, self.eps);
                put(momentum, self.momentum);
                put(centered, self.centered);
            }
            Rule::Adagrad { lr_decay, initial_accumulator_value, eps, .. } => {
                put(lr_decay, self.lr_decay);
                put(initial_accumulator_value, self.initial_accumulator_value);
                put(eps, self.eps);
            }
            Rule::Adadelta { rho, eps, .. } => {
                put(rho, self.rho);
                put(eps, self.eps);
            }
            Rule::NAdam { betas, eps, momentum_decay, .. } => {
                put(betas, self.betas);
                put(eps, self.eps);
                put(momentum_decay, self.momentum_decay);
            }
            Rule::Lion { betas, .. } => put(betas, self.betas),
            Rule::Adafactor { beta2_decay, eps, d, .. } => {
                put(beta2_decay, self.beta2_decay);
                *eps = (self.eps1.or(eps.0), self.eps2.unwrap_or(eps.1));
                put(d, self.d);
            }
            Rule::Muon { momentum, nesterov, ns_coefficients, ns_steps, eps, scale, .. } => {
                put(momentum, self.momentum);
                put(nesterov, self.nesterov);
                put(ns_coefficients, self.ns_coefficients);
                put(ns_steps, self.ns_steps);
                put(eps, self.eps);
                put(scale, self.adjust_lr.map(AdjustLr::scale));
            }
        }
        rule
    }

    /// The optimiser with learning rate `lr`.
    pub fn build(&self, lr: f64) -> Run<Optimiser> {
        let mut o = Optimiser::new(self.rule()?, lr);
        o.clip_norm = self.clip_norm;
        o.ema = self.ema;
        o.accumulate = self.accumulate.unwrap_or(1);
        o.decay_from_rank = self.decay_from_rank.unwrap_or(0);
        for g in &self.group {
            o = o.group(&g.pattern, g.build()?);
        }
        o.validate().map_err(|e| fail_bad_input(format!("optimiser: {}", e.message)))?;
        Ok(o)
    }
}

impl AdjustLr {
    fn scale(self) -> MuonScale {
        match self {
            AdjustLr::Original => MuonScale::Original,
            AdjustLr::MatchRmsAdamw => MuonScale::MatchRmsAdamw,
            AdjustLr::SpectralUnclamped => MuonScale::SpectralUnclamped,
        }
    }
}

impl GroupTable {
    /// The group, checked.
    fn build(&self) -> Run<Group> {
        if self.pattern.is_empty() {
            return Err(fail_bad_input("optimiser.group: the pattern is missing"));
        }
        let rule = self.rule.as_deref();
        if let Some((key, _)) = rule.and_then(|r| r.of_whole_optimiser().into_iter().find(|(_, given)| *given)) {
            return Err(fail_bad_input(format!(
                "optimiser.group {:?}: rule.{key} belongs to the optimiser, not to a group",
                self.pattern
            )));
        }
        let rule = rule.map(OptimiserTable::rule).transpose()?;
        Ok(Group { lr_scale: self.lr_scale.unwrap_or(1.0), weight_decay: self.weight_decay, rule })
    }
}
