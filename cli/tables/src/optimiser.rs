//! The table `[optimiser]`: kinds, hyper-parameters, and groups of params.
//!
//! Invariant: a key that the kind does not read is an error, and so is a number outside its formula's domain.

use crate::fault::{KeyRun, key_fault, table_fault};
use crate::kind_key::{KindKey, given_kind_keys, kind_key, kind_key_by, refuse_keys_of_other_kind};
use crate::number_list::{read_norm_order, read_number_pair_list, read_number_triple_list};
use crate::{key_types, table};
use arenagrad::optim::{Group, LossScale, MuonScale, Optimiser, Rule};
use serde::{Deserialize, Serialize};

/// The kinds of optimisers.
#[derive(Deserialize, Serialize, Debug, Clone, Copy, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "each is the rule of its name")]
#[non_exhaustive]
pub enum OptimiserKind {
    Sgd,
    Adam,
    #[default]
    AdamW,
    SparseAdam,
    Adamax,
    RAdam,
    Lbfgs,
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

key_types! { OptimiserKind = "name", AdjustLr = "name", }

table! {
    /// The table as it stands in the file.
    #[derive(Deserialize, Serialize, Debug, Default, Clone)]
    #[serde(deny_unknown_fields, default, expecting = "a table of an optimiser")]
    pub struct OptimiserTable {
        /// the update rule, with torch's formula
        kind: OptimiserKind = Value("\"adamw\""), "\"sgd\"";
        /// learning rate; the peak, if the schedule varies it
        pub lr: Option<f64> = ByTask { images: "0.004", chargpt: "0.001" }, "0.5";
        /// weight decay, from 0
        weight_decay: Option<f64> = ByKind, "0.25";
        /// momentum
        momentum: Option<f64> = ByKind, "0.7";
        /// the share of the gradient that the momentum leaves out
        dampening: Option<f64> = ByKind, "0.1";
        /// Nesterov momentum; sgd: it needs a momentum and no dampening
        nesterov: Option<bool> = ByKind, "false";
        /// decays of the two moments, each in [0, 1)
        betas: Option<(f64, f64)> = ByKind, "[0.5, 0.6]", #[serde(deserialize_with = "read_number_pair_list")];
        /// term added to the denominator, from 0
        eps: Option<f64> = ByKind, "0.5";
        /// divide by the root of the largest second moment so far
        amsgrad: Option<bool> = ByKind, "true";
        /// the weight decay shrinks the param and does not join the gradient
        decoupled_weight_decay: Option<bool> = ByKind, "true";
        /// past steps that shape the update, from 1 to 10000; each takes twice the memory of the params
        history_size: Option<usize> = ByKind, "7" in "steps";
        /// decay of the mean of squares, in [0, 1)
        alpha: Option<f64> = ByKind, "0.5";
        /// divide by an estimate of the deviation
        centered: Option<bool> = ByKind, "true";
        /// decay of the rate: lr / (1 + (t − 1)·lr_decay), from 0
        lr_decay: Option<f64> = ByKind, "0.5";
        /// the sum of squares before the first step, from 0
        initial_accumulator_value: Option<f64> = ByKind, "0.5";
        /// decay of both means of squares, in [0, 1)
        rho: Option<f64> = ByKind, "0.5";
        /// decay of the momentum's schedule, from 0
        momentum_decay: Option<f64> = ByKind, "0.5";
        /// exponent of the decay of second moments, not above 0
        beta2_decay: Option<f64> = ByKind, "-0.5";
        /// least mean of squares, from 0
        eps1: Option<f64> = ByKind, "0.5";
        /// least root mean square of a param, from 0
        eps2: Option<f64> = ByKind, "0.5";
        /// largest root mean square of an update, from 1
        d: Option<f64> = ByKind, "2.0";
        /// rounds of the Newton–Schulz iteration, up to 99
        ns_steps: Option<u32> = ByKind, "3" in "rounds";
        /// coefficients of the Newton–Schulz iteration
        ns_coefficients: Option<(f64, f64, f64)> =
            ByKind, "[1.0, 2.0, 3.0]", #[serde(deserialize_with = "read_number_triple_list")];
        /// how the rate depends on the sides of a matrix: `original`, `match_rms_adamw`, `spectral_unclamped`
        adjust_lr: Option<AdjustLr> = ByKind, "\"match_rms_adamw\"";
        /// largest size of an element of a gradient, above 0; before norms are clipped
        clip_value: Option<f64> = Text("no limit"), "0.5";
        /// largest norm of all gradients together, above 0
        clip_norm: Option<f64> = Text("no limit"), "0.5";
        /// order of the norm that `clip_norm` limits, above 0, or `inf` for the largest element
        norm_type: Option<f64> = Value("2.0"), "inf", #[serde(deserialize_with = "read_norm_order")];
        /// `clip_norm` limits the norm of the gradient of each param
        clip_each: Option<bool> = Value("false"), "true";
        /// decay of a moving average of the weights, in [0, 1); weights_ema.safetensors has it
        ema: Option<f64> = Text("no average"), "0.5";
        /// first scale of the loss, above 0; doubled after 2000 steps with finite gradients, halved after a step
        /// without
        loss_scale: Option<f64> = Text("no scale"), "1024.0";
        /// micro-batches of a step
        pub accumulate: Option<usize> = Value("1"), "3" in "micro-batches";
        /// the weight decay is for params of this many axes or more
        decay_from_rank: Option<usize> = Value("0"), "2" in "axes";
        /// groups of params with settings of their own; a param belongs to the first that matches
        group: Vec<OptimiserGroupTable> =
            Text("no groups"), "[{ pattern = \"*.bias\" }]", #[serde(skip_serializing_if = "Vec::is_empty")];
    }
}

table! {
    /// A group: the settings of the params whose names match a pattern.
    #[derive(Deserialize, Serialize, Debug, Default, Clone)]
    #[serde(deny_unknown_fields, default, expecting = "a table of a group")]
    pub struct OptimiserGroupTable {
        /// names of params; `*` is any text
        pattern: String = Required, "\"*.bias\"";
        /// factor of the learning rate, from 0
        lr_scale: Option<f64> = Value("1.0"), "0.5";
        /// weight decay of these params
        weight_decay: Option<f64> = Text("that of the rule"), "0.5";
        /// rule of these params: `kind` and the keys that it reads, as in `[optimiser]`
        rule: Option<Box<OptimiserTable>> = Text("the optimiser's"), "{ kind = \"sgd\" }";
    }
}

/// The keys of the whole optimiser, which a group's rule must not have.
pub const WHOLE: [&str; 10] = [
    "lr",
    "clip_value",
    "clip_norm",
    "norm_type",
    "clip_each",
    "ema",
    "loss_scale",
    "accumulate",
    "decay_from_rank",
    "group",
];

const EPS: KindKey = kind_key("eps", "1e-8");
const BETAS: KindKey = kind_key("betas", "[0.9, 0.999]");
const AMSGRAD: KindKey = kind_key("amsgrad", "false");
const MOMENTUM_DECAY: KindKey = kind_key("momentum_decay", "0.004");
const PLAIN: KindKey = kind_key("weight_decay", "0.0");
const DECAYS: KindKey = kind_key("weight_decay", "0.01");
const DECAYS_MORE: KindKey = kind_key("weight_decay", "0.1");
const NO_MOMENTUM: KindKey = kind_key("momentum", "0.0");

impl OptimiserKind {
    /// All kinds, in the order of the reference page.
    pub const ALL: &[OptimiserKind] = &[
        OptimiserKind::Sgd,
        OptimiserKind::Adam,
        OptimiserKind::AdamW,
        OptimiserKind::SparseAdam,
        OptimiserKind::Adamax,
        OptimiserKind::RAdam,
        OptimiserKind::RmsProp,
        OptimiserKind::Adagrad,
        OptimiserKind::Adadelta,
        OptimiserKind::NAdam,
        OptimiserKind::NAdamW,
        OptimiserKind::Lion,
        OptimiserKind::Lamb,
        OptimiserKind::Adafactor,
        OptimiserKind::Muon,
        OptimiserKind::Lbfgs,
    ];

    /// The kind's name in a file, and the keys of hyper-parameters that it reads.
    pub fn reads(self) -> (&'static str, &'static [KindKey]) {
        match self {
            OptimiserKind::Sgd => (
                "sgd",
                &[NO_MOMENTUM, const { kind_key("dampening", "0.0") }, const { kind_key("nesterov", "false") }, PLAIN],
            ),
            OptimiserKind::Adam => ("adam", &[BETAS, EPS, AMSGRAD, PLAIN]),
            OptimiserKind::AdamW => ("adamw", &[BETAS, EPS, AMSGRAD, DECAYS]),
            OptimiserKind::SparseAdam => ("sparseadam", &[BETAS, EPS, PLAIN]),
            OptimiserKind::Adamax => ("adamax", &[BETAS, EPS, PLAIN]),
            OptimiserKind::RAdam => {
                ("radam", &[BETAS, EPS, const { kind_key("decoupled_weight_decay", "false") }, PLAIN])
            }
            OptimiserKind::Lbfgs => ("lbfgs", &[const { kind_key("history_size", "100") }, PLAIN]),
            OptimiserKind::RmsProp => (
                "rmsprop",
                &[
                    const { kind_key("alpha", "0.99") },
                    EPS,
                    NO_MOMENTUM,
                    const { kind_key("centered", "false") },
                    PLAIN,
                ],
            ),
            OptimiserKind::Adagrad => (
                "adagrad",
                &[
                    const { kind_key("lr_decay", "0.0") },
                    const { kind_key("initial_accumulator_value", "0.0") },
                    const { kind_key("eps", "1e-10") },
                    PLAIN,
                ],
            ),
            OptimiserKind::Adadelta => {
                ("adadelta", &[const { kind_key("rho", "0.9") }, const { kind_key("eps", "1e-6") }, PLAIN])
            }
            OptimiserKind::NAdam => ("nadam", &[BETAS, EPS, MOMENTUM_DECAY, PLAIN]),
            OptimiserKind::NAdamW => ("nadamw", &[BETAS, EPS, MOMENTUM_DECAY, DECAYS]),
            OptimiserKind::Lion => ("lion", &[const { kind_key("betas", "[0.9, 0.99]") }, PLAIN]),
            OptimiserKind::Lamb => ("lamb", &[BETAS, const { kind_key("eps", "1e-6") }, DECAYS]),
            OptimiserKind::Adafactor => (
                "adafactor",
                &[
                    const { kind_key("beta2_decay", "-0.8") },
                    const { kind_key_by("eps1", "the spacing of the param's type at 1") },
                    const { kind_key("eps2", "0.001") },
                    const { kind_key("d", "1.0") },
                    PLAIN,
                ],
            ),
            OptimiserKind::Muon => (
                "muon",
                &[
                    const { kind_key("momentum", "0.95") },
                    const { kind_key("nesterov", "true") },
                    const { kind_key("ns_steps", "5") },
                    const { kind_key("ns_coefficients", "[3.4445, -4.775, 2.0315]") },
                    const { kind_key("eps", "1e-7") },
                    const { kind_key("adjust_lr", "\"original\"") },
                    DECAYS_MORE,
                ],
            ),
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

    /// The rule, with torch's defaults for absent keys. `at` is the path of this table.
    fn rule(&self, at: &str) -> KeyRun<Rule> {
        let (kind, reads) = self.kind.reads();
        let given = given_kind_keys(self);
        refuse_keys_of_other_kind(at, kind, &given, &[&["kind"], &WHOLE[..]].concat(), reads)?;
        let rule = self.filled(at, self.default_rule())?;
        let rule = self.weight_decay.map_or(rule, |d| rule.with_weight_decay(d));
        rule.validate().map_err(|e| table_fault(at, &given, &e))?;
        Ok(rule)
    }

    /// The kind's rule with torch's defaults.
    fn default_rule(&self) -> Rule {
        match self.kind {
            OptimiserKind::Sgd => Rule::SGD,
            OptimiserKind::Adam => Rule::ADAM,
            OptimiserKind::AdamW => Rule::ADAMW,
            OptimiserKind::SparseAdam => Rule::SPARSE_ADAM,
            OptimiserKind::Adamax => Rule::ADAMAX,
            OptimiserKind::RAdam => Rule::RADAM,
            OptimiserKind::Lbfgs => Rule::LBFGS,
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

    /// `rule` with the given hyper-parameters. `at` is the path of this table.
    fn filled(&self, at: &str, mut rule: Rule) -> KeyRun<Rule> {
        fn put<T: Copy>(to: &mut T, from: Option<T>) {
            *to = from.unwrap_or(*to);
        }
        match &mut rule {
            Rule::Sgd { momentum, dampening, nesterov, .. } => {
                put(momentum, self.momentum);
                put(dampening, self.dampening);
                put(nesterov, self.nesterov);
            }
            Rule::Adam { betas, eps, amsgrad, .. } => {
                put(betas, self.betas);
                put(eps, self.eps);
                put(amsgrad, self.amsgrad);
            }
            Rule::SparseAdam { betas, eps, .. } | Rule::Adamax { betas, eps, .. } | Rule::Lamb { betas, eps, .. } => {
                put(betas, self.betas);
                put(eps, self.eps);
            }
            Rule::RAdam { betas, eps, decoupled_weight_decay, .. } => {
                put(betas, self.betas);
                put(eps, self.eps);
                put(decoupled_weight_decay, self.decoupled_weight_decay);
            }
            Rule::Lbfgs { history_size, .. } => put(history_size, self.history_size),
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
            other => return Err(key_fault(at, format!("{at}: there are no keys for the rule {}", other.name()))),
        }
        Ok(rule)
    }

    /// The optimiser with learning rate `lr`.
    pub fn build(&self, lr: f64) -> KeyRun<Optimiser> {
        let at = "optimiser";
        let mut o = Optimiser::new(self.rule(at)?, lr);
        let of_norm = [("norm_type", self.norm_type.is_some()), ("clip_each", self.clip_each.is_some())];
        if let (None, Some((key, _))) = (self.clip_norm, of_norm.into_iter().find(|(_, given)| *given)) {
            let path = format!("{at}.{key}");
            return Err(key_fault(&path, format!("{path}: {key} is given without clip_norm")));
        }
        o.clip_value = self.clip_value;
        o.clip_norm = self.clip_norm;
        o.norm_type = self.norm_type.unwrap_or(2.0);
        o.clip_each = self.clip_each.unwrap_or(false);
        o.ema = self.ema;
        o.loss_scale = self.loss_scale.map(|init| LossScale::dynamic().init_scale(init));
        o.accumulate = self.accumulate.unwrap_or(1);
        o.decay_from_rank = self.decay_from_rank.unwrap_or(0);
        o.validate().map_err(|e| table_fault(at, &given_kind_keys(self), &e))?;
        for (i, g) in self.group.iter().enumerate() {
            let at = format!("{at}.group[{i}]");
            o = o.group(&g.pattern, g.build(&at)?);
            o.validate().map_err(|e| table_fault(&at, &given_kind_keys(g), &e))?;
        }
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

impl OptimiserGroupTable {
    /// The group, checked. `at` is the path of this table.
    fn build(&self, at: &str) -> KeyRun<Group> {
        if self.pattern.is_empty() {
            return Err(key_fault(at, format!("{at}.pattern is missing; it is a name in quotes, where * is any text")));
        }
        let rule = self.rule.as_deref();
        if let Some(key) = rule.and_then(|r| given_kind_keys(r).into_iter().find(|key| WHOLE.contains(&key.as_str()))) {
            let path = format!("{at}.rule.{key}");
            let text = format!("{path} belongs to the optimiser, not to a group");
            return Err(key_fault(path, text));
        }
        let rule = rule.map(|r| r.rule(&format!("{at}.rule"))).transpose()?;
        Ok(Group::default().lr_scale(self.lr_scale.unwrap_or(1.0)).weight_decay(self.weight_decay).rule(rule))
    }
}
