//! The range of each hyperparameter of a rule.
//!
//! Invariant: if [`Rule::validate`] accepts a rule, and params and gradients are finite, its update never fails.

use super::rule::Rule;
use crate::error::{Error, Kind, Result};

/// The range of a number.
#[derive(Clone, Copy)]
enum RuleRange {
    /// In [0, 1).
    Fraction,
    /// Finite and not below 0.
    Size,
    /// Finite and above 0.
    AboveZero,
    /// Finite and not below 1.
    AtLeastOne,
    /// Finite and not above 0.
    NotPositive,
    /// Finite.
    Any,
}

impl RuleRange {
    fn allows(self, x: f64) -> bool {
        x.is_finite()
            && match self {
                RuleRange::Fraction => (0.0..1.0).contains(&x),
                RuleRange::Size => x >= 0.0,
                RuleRange::AboveZero => x > 0.0,
                RuleRange::AtLeastOne => x >= 1.0,
                RuleRange::NotPositive => x <= 0.0,
                RuleRange::Any => true,
            }
    }

    fn text(self) -> &'static str {
        match self {
            RuleRange::Fraction => "it must lie in [0, 1)",
            RuleRange::Size => "it must be finite and not negative",
            RuleRange::AboveZero => "it must be finite and above 0",
            RuleRange::AtLeastOne => "it must be finite and not below 1",
            RuleRange::NotPositive => "it must be finite and not above 0",
            RuleRange::Any => "it must be finite",
        }
    }
}

/// The most rounds of a Newton–Schulz iteration, as in torch.
const MAX_NS_STEPS: u32 = 99;

/// The longest history of L-BFGS. A longer one is taken for a mistake.
const MAX_HISTORY: usize = 10_000;

impl Rule {
    /// The rule's numbers without the weight decay, and their ranges.
    fn number_ranges(&self) -> Vec<(&'static str, f64, RuleRange)> {
        let moments =
            |betas: (f64, f64)| [("beta1", betas.0, RuleRange::Fraction), ("beta2", betas.1, RuleRange::Fraction)];
        match *self {
            Rule::Sgd { momentum, dampening, .. } => {
                vec![("momentum", momentum, RuleRange::Size), ("dampening", dampening, RuleRange::Any)]
            }
            Rule::Adam { betas, eps, .. }
            | Rule::Adamax { betas, eps, .. }
            | Rule::RAdam { betas, eps, .. }
            | Rule::Lamb { betas, eps, .. } => [&moments(betas)[..], &[("eps", eps, RuleRange::Size)]].concat(),
            // As torch: with 0, a row whose gradients are all 0 would be NaN.
            Rule::SparseAdam { betas, eps, .. } => {
                [&moments(betas)[..], &[("eps", eps, RuleRange::AboveZero)]].concat()
            }
            Rule::Lbfgs { .. } => Vec::new(),
            Rule::Lion { betas, .. } => moments(betas).to_vec(),
            Rule::RmsProp { alpha, eps, momentum, .. } => {
                vec![
                    ("alpha", alpha, RuleRange::Fraction),
                    ("eps", eps, RuleRange::Size),
                    ("momentum", momentum, RuleRange::Size),
                ]
            }
            Rule::Adagrad { lr_decay, initial_accumulator_value, eps, .. } => vec![
                ("lr_decay", lr_decay, RuleRange::Size),
                ("initial_accumulator_value", initial_accumulator_value, RuleRange::Size),
                ("eps", eps, RuleRange::Size),
            ],
            Rule::Adadelta { rho, eps, .. } => vec![("rho", rho, RuleRange::Fraction), ("eps", eps, RuleRange::Size)],
            Rule::NAdam { betas, eps, momentum_decay, .. } => [
                &moments(betas)[..],
                &[("eps", eps, RuleRange::Size), ("momentum_decay", momentum_decay, RuleRange::Size)],
            ]
            .concat(),
            Rule::Adafactor { beta2_decay, eps, d, .. } => vec![
                ("beta2_decay", beta2_decay, RuleRange::NotPositive),
                ("eps1", eps.0.unwrap_or(0.0), RuleRange::Size),
                ("eps2", eps.1, RuleRange::Size),
                ("d", d, RuleRange::AtLeastOne),
            ],
            Rule::Muon { momentum, ns_coefficients: (a, b, c), eps, .. } => vec![
                ("momentum", momentum, RuleRange::Fraction),
                ("ns_coefficients: a", a, RuleRange::Any),
                ("ns_coefficients: b", b, RuleRange::Any),
                ("ns_coefficients: c", c, RuleRange::Any),
                ("eps", eps, RuleRange::Size),
            ],
        }
    }

    /// An error that names the first number out of its range.
    pub fn validate(&self) -> Result<()> {
        let decay = [("weight_decay", self.weight_decay(), RuleRange::Size)];
        if let Some((what, x, may)) = self.number_ranges().into_iter().chain(decay).find(|(_, x, may)| !may.allows(*x))
        {
            return Err(Error::new(Kind::Data, format!("{}: {what} is {x}; {}", self.name(), may.text())));
        }
        match *self {
            Rule::Sgd { momentum, dampening, nesterov: true, .. } if momentum <= 0.0 || dampening != 0.0 => {
                Err(Error::new(Kind::Data, "nesterov needs a momentum and no dampening"))
            }
            Rule::Lbfgs { history_size, .. } if !(1..=MAX_HISTORY).contains(&history_size) => {
                let text = format!("lbfgs: history_size is {history_size}; it goes from 1 to {MAX_HISTORY}");
                Err(Error::new(Kind::Data, text))
            }
            Rule::Muon { ns_steps, .. } if ns_steps > MAX_NS_STEPS => {
                let text = format!("muon: ns_steps is {ns_steps}; it goes to {MAX_NS_STEPS}");
                Err(Error::new(Kind::Data, text))
            }
            _ => Ok(()),
        }
    }
}
