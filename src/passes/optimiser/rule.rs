//! Update rules and their hyperparameters, with torch's names and defaults.
//!
//! `rule_ranges` has the range of each hyperparameter; `update_target`, `adam_family`, `matrix` and `lbfgs` write the
//! formulas.

/// An update rule, with torch's names, formulas and defaults. All rules give torch's numbers, except [`Rule::Lion`] and
/// [`Rule::Lamb`], which torch does not have. [`Rule::Lbfgs`] gives those of one iteration of torch's.
///
/// A rule with other numbers than the defaults is that of an optimiser.
///
/// ```
/// use arenagrad::optim::{NAdamW, Rule};
/// let rule = NAdamW::new(1e-3).eps(1e-6).rule();
/// assert_ne!(rule, Rule::NADAMW);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Rule {
    /// `g += wd·p; buf = μ·buf + (1 − damp)·g (g at the first step); p −= lr·(buf, or g + μ·buf with nesterov)`.
    #[non_exhaustive]
    Sgd {
        /// μ.
        momentum: f64,
        /// damp.
        dampening: f64,
        /// Nesterov momentum.
        nesterov: bool,
        /// wd.
        weight_decay: f64,
    },
    /// `m += (1 − β₁)(g − m); v = β₂v + (1 − β₂)g²; p −= lr/(1 − β₁ᵗ)·m / (√v/√(1 − β₂ᵗ) + ε)`. With amsgrad it is the
    /// largest v so far that stands under the root.
    #[non_exhaustive]
    Adam {
        /// β₁ and β₂.
        betas: (f64, f64),
        /// ε.
        eps: f64,
        /// Weight decay.
        weight_decay: f64,
        /// AdamW: `p *= 1 − lr·wd` before the update, instead of `g += wd·p`.
        decoupled: bool,
        /// Divide by the root of the largest second moment so far (Reddi et al., arXiv:1904.09237).
        amsgrad: bool,
    },
    /// Adam on the rows that a step has read, as in `torch.optim.SparseAdam`:
    /// `m += (1 − β₁)(g − m); v += (1 − β₂)(g² − v); p = (1 − lr·wd)p − lr·√(1 − β₂ᵗ)/(1 − β₁ᵗ)·m/(√v + ε)`. Where the
    /// loss reads a table by gathers alone (embeddings), rows that no index of the step names, and their moments, stay
    /// as they are. Any other param is updated whole.
    #[non_exhaustive]
    SparseAdam {
        /// β₁ and β₂.
        betas: (f64, f64),
        /// ε.
        eps: f64,
        /// wd: lazy AdamW. torch has none.
        weight_decay: f64,
    },
    /// `g += wd·p; m += (1 − β₁)(g − m); u = max(β₂u, |g| + ε); p −= lr/(1 − β₁ᵗ)·m/u` (Kingma and Ba, arXiv:1412.6980,
    /// section 7.1), as in `torch.optim.Adamax`.
    #[non_exhaustive]
    Adamax {
        /// β₁ and β₂.
        betas: (f64, f64),
        /// ε.
        eps: f64,
        /// wd.
        weight_decay: f64,
    },
    /// Adam whose rate follows the variance of its moments (Liu et al., arXiv:1908.03265), as in `torch.optim.RAdam`.
    /// With `ρ∞ = 2/(1 − β₂) − 1` and `ρ = ρ∞ − 2tβ₂ᵗ/(1 − β₂ᵗ)`, `p −= lr·m/(1 − β₁ᵗ)·r·√(1 − β₂ᵗ)/(√v + ε)` where
    /// `r = √((ρ − 4)(ρ − 2)ρ∞ / ((ρ∞ − 4)(ρ∞ − 2)ρ))`. While ρ is at most 5, `p −= lr·m/(1 − β₁ᵗ)`.
    #[non_exhaustive]
    RAdam {
        /// β₁ and β₂.
        betas: (f64, f64),
        /// ε.
        eps: f64,
        /// wd.
        weight_decay: f64,
        /// `p *= 1 − lr·wd` before the update, instead of `g += wd·p`.
        decoupled_weight_decay: bool,
    },
    /// L-BFGS with a fixed rate, as in `torch.optim.LBFGS` without line search, one iteration a step:
    /// `g += wd·p; y = g − g₋₁; s = p − p₋₁`; the pair (y, s) joins the history if `y·s > 1e-10`, and the oldest pair
    /// leaves a full one; then `p −= t·H·g`, where H is the two-loop recursion over the history from `y·s/(y·y)·I`
    /// (the newest pair's), and t is lr, in the first step `lr·min(1, 1/Σ|g|)`. All params of L-BFGS are one vector.
    #[non_exhaustive]
    Lbfgs {
        /// Number of pairs (y, s) that are kept: twice as many times the memory of the params.
        history_size: usize,
        /// wd.
        weight_decay: f64,
    },
    /// `g += wd·p; v = αv + (1 − α)g²; d = √v + ε (centered: √(v − ḡ²) + ε, ḡ += (1 − α)(g − ḡ)); p −= lr·g/d, with
    /// momentum buf = μ·buf + g/d; p −= lr·buf`.
    #[non_exhaustive]
    RmsProp {
        /// α.
        alpha: f64,
        /// ε.
        eps: f64,
        /// μ.
        momentum: f64,
        /// Divide by the estimated standard deviation instead of the root mean square.
        centered: bool,
        /// wd.
        weight_decay: f64,
    },
    /// `g += wd·p; s += g²; p −= lr/(1 + (t − 1)·decay)·g / (√s + ε)`.
    #[non_exhaustive]
    Adagrad {
        /// decay.
        lr_decay: f64,
        /// s before the first step.
        initial_accumulator_value: f64,
        /// ε.
        eps: f64,
        /// wd.
        weight_decay: f64,
    },
    /// `g += wd·p; v = ρv + (1 − ρ)g²; Δ = √(u + ε)/√(v + ε)·g; u = ρu + (1 − ρ)Δ²; p −= lr·Δ`.
    #[non_exhaustive]
    Adadelta {
        /// ρ.
        rho: f64,
        /// ε.
        eps: f64,
        /// wd.
        weight_decay: f64,
    },
    /// Adam with Nesterov momentum: with `μₜ = β₁(1 − 0.96^(t·ψ)/2)` and `Π = μ₁⋯μₜ`,
    /// `p −= lr·((1 − μₜ)/(1 − Π)·g + μₜ₊₁/(1 − Π·μₜ₊₁)·m) / (√(v/(1 − β₂ᵗ)) + ε)`.
    #[non_exhaustive]
    NAdam {
        /// β₁ and β₂.
        betas: (f64, f64),
        /// ε.
        eps: f64,
        /// ψ.
        momentum_decay: f64,
        /// Weight decay.
        weight_decay: f64,
        /// NAdamW: `p *= 1 − lr·wd` before the update, instead of `g += wd·p`.
        decoupled: bool,
    },
    /// `p −= lr·(sign(β₁m + (1 − β₁)g) + wd·p); m = β₂m + (1 − β₂)g` (Chen et al., arXiv:2302.06675, algorithm 2).
    #[non_exhaustive]
    Lion {
        /// β₁ and β₂.
        betas: (f64, f64),
        /// wd.
        weight_decay: f64,
    },
    /// Adam's moments, bias-corrected; `u = m̂/(√v̂ + ε) + wd·p; p −= lr·‖p‖/‖u‖·u` (You et al., arXiv:1904.00962,
    /// algorithm 2, with φ(z) = z). The factor is 1 where ‖p‖ is 0, or ‖u‖ is so
    /// small that its squares underflow.
    #[non_exhaustive]
    Lamb {
        /// β₁ and β₂.
        betas: (f64, f64),
        /// ε.
        eps: f64,
        /// wd.
        weight_decay: f64,
    },
    /// Second moments of matrices as an outer product of row and column means, as in `torch.optim.Adafactor`:
    /// `w = t^decay; r += w(mean g² by row − r); c likewise; u = g/√(max(r·c/max(mean r, ε₁), ε₁²));
    /// α = max(ε₂, rms p)·min(lr, 1/√t); p = (1 − lr·wd)p − α·u/max(1, rms u/d)`. Params of
    /// fewer than two axes keep an unfactored second moment.
    #[non_exhaustive]
    Adafactor {
        /// decay, not above 0.
        beta2_decay: f64,
        /// ε₁ (`None`: the spacing of the param's type at 1) and ε₂.
        eps: (Option<f64>, f64),
        /// d.
        d: f64,
        /// wd.
        weight_decay: f64,
    },
    /// Orthogonalised momentum, for matrices only, as in `torch.optim.Muon`: `m += (1 − μ)(g − m)`, `u = m` (nesterov:
    /// `g + μ(m − g)`), `X = u/max(‖u‖, ε)`, `ns_steps` times `A = XXᵀ, X = aX + (bA + cAA)X`,
    /// `p = (1 − lr·wd)p − lr·scale·X`. X is computed in the param's type (torch rounds it to bf16).
    #[non_exhaustive]
    Muon {
        /// μ.
        momentum: f64,
        /// Nesterov momentum.
        nesterov: bool,
        /// a, b and c.
        ns_coefficients: (f64, f64, f64),
        /// Rounds of the Newton–Schulz iteration.
        ns_steps: u32,
        /// ε.
        eps: f64,
        /// wd.
        weight_decay: f64,
        /// The factor of the learning rate for the sides of the matrix.
        scale: MuonScale,
    },
}

impl Rule {
    /// Gradient descent without momentum.
    pub const SGD: Rule = Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0 };
    /// Adam with β = (0.9, 0.999), ε = 1e-8.
    pub const ADAM: Rule =
        Rule::Adam { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, decoupled: false, amsgrad: false };
    /// AdamW with β = (0.9, 0.999), ε = 1e-8, weight decay 1e-2.
    pub const ADAMW: Rule =
        Rule::Adam { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 1e-2, decoupled: true, amsgrad: false };
    /// SparseAdam with β = (0.9, 0.999), ε = 1e-8.
    pub const SPARSE_ADAM: Rule = Rule::SparseAdam { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0 };
    /// Adamax with β = (0.9, 0.999), ε = 1e-8.
    pub const ADAMAX: Rule = Rule::Adamax { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0 };
    /// RAdam with β = (0.9, 0.999), ε = 1e-8.
    pub const RADAM: Rule =
        Rule::RAdam { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, decoupled_weight_decay: false };
    /// L-BFGS with a history of 100.
    pub const LBFGS: Rule = Rule::Lbfgs { history_size: 100, weight_decay: 0.0 };
    /// RMSprop with α = 0.99, ε = 1e-8, no momentum, not centered.
    pub const RMSPROP: Rule =
        Rule::RmsProp { alpha: 0.99, eps: 1e-8, momentum: 0.0, centered: false, weight_decay: 0.0 };
    /// Adagrad with ε = 1e-10.
    pub const ADAGRAD: Rule =
        Rule::Adagrad { lr_decay: 0.0, initial_accumulator_value: 0.0, eps: 1e-10, weight_decay: 0.0 };
    /// Adadelta with ρ = 0.9, ε = 1e-6.
    pub const ADADELTA: Rule = Rule::Adadelta { rho: 0.9, eps: 1e-6, weight_decay: 0.0 };
    /// NAdam with β = (0.9, 0.999), ε = 1e-8, ψ = 4e-3.
    pub const NADAM: Rule =
        Rule::NAdam { betas: (0.9, 0.999), eps: 1e-8, momentum_decay: 4e-3, weight_decay: 0.0, decoupled: false };
    /// NAdamW: NAdam with a decoupled weight decay of 1e-2.
    pub const NADAMW: Rule =
        Rule::NAdam { betas: (0.9, 0.999), eps: 1e-8, momentum_decay: 4e-3, weight_decay: 1e-2, decoupled: true };
    /// Lion with β = (0.9, 0.99).
    pub const LION: Rule = Rule::Lion { betas: (0.9, 0.99), weight_decay: 0.0 };
    /// LAMB with β = (0.9, 0.999), ε = 1e-6, weight decay 1e-2.
    pub const LAMB: Rule = Rule::Lamb { betas: (0.9, 0.999), eps: 1e-6, weight_decay: 1e-2 };
    /// Adafactor as torch has it.
    pub const ADAFACTOR: Rule = Rule::Adafactor { beta2_decay: -0.8, eps: (None, 1e-3), d: 1.0, weight_decay: 0.0 };
    /// Muon as torch has it: μ = 0.95, nesterov, 5 rounds, weight decay 0.1.
    pub const MUON: Rule = Rule::Muon {
        momentum: 0.95,
        nesterov: true,
        ns_coefficients: (3.4445, -4.7750, 2.0315),
        ns_steps: 5,
        eps: 1e-7,
        weight_decay: 0.1,
        scale: MuonScale::Original,
    };

    /// The rule's name.
    pub fn name(&self) -> &'static str {
        match self {
            Rule::Sgd { .. } => "sgd",
            Rule::Adam { decoupled: false, .. } => "adam",
            Rule::Adam { .. } => "adamw",
            Rule::SparseAdam { .. } => "sparseadam",
            Rule::Adamax { .. } => "adamax",
            Rule::RAdam { .. } => "radam",
            Rule::Lbfgs { .. } => "lbfgs",
            Rule::RmsProp { .. } => "rmsprop",
            Rule::Adagrad { .. } => "adagrad",
            Rule::Adadelta { .. } => "adadelta",
            Rule::NAdam { decoupled: false, .. } => "nadam",
            Rule::NAdam { .. } => "nadamw",
            Rule::Lion { .. } => "lion",
            Rule::Lamb { .. } => "lamb",
            Rule::Adafactor { .. } => "adafactor",
            Rule::Muon { .. } => "muon",
        }
    }

    /// The weight decay.
    pub fn weight_decay(self) -> f64 {
        let mut rule = self;
        *rule.decay()
    }

    /// The same rule with another weight decay.
    pub fn with_weight_decay(mut self, decay: f64) -> Rule {
        *self.decay() = decay;
        self
    }

    fn decay(&mut self) -> &mut f64 {
        match self {
            Rule::Sgd { weight_decay, .. }
            | Rule::Adam { weight_decay, .. }
            | Rule::SparseAdam { weight_decay, .. }
            | Rule::Adamax { weight_decay, .. }
            | Rule::RAdam { weight_decay, .. }
            | Rule::Lbfgs { weight_decay, .. }
            | Rule::RmsProp { weight_decay, .. }
            | Rule::Adagrad { weight_decay, .. }
            | Rule::Adadelta { weight_decay, .. }
            | Rule::NAdam { weight_decay, .. }
            | Rule::Lion { weight_decay, .. }
            | Rule::Lamb { weight_decay, .. }
            | Rule::Adafactor { weight_decay, .. }
            | Rule::Muon { weight_decay, .. } => weight_decay,
        }
    }

    /// True if the formula reads the number of the step.
    pub(super) fn counts(&self) -> bool {
        match self {
            Rule::Sgd { momentum, .. } => *momentum != 0.0,
            Rule::Adagrad { lr_decay, initial_accumulator_value, .. } => {
                *lr_decay != 0.0 || *initial_accumulator_value != 0.0
            }
            Rule::RmsProp { .. } | Rule::Adadelta { .. } | Rule::Lion { .. } | Rule::Muon { .. } => false,
            Rule::Adam { .. } | Rule::Adamax { .. } | Rule::RAdam { .. } | Rule::NAdam { .. } => true,
            Rule::SparseAdam { .. } | Rule::Lamb { .. } | Rule::Adafactor { .. } | Rule::Lbfgs { .. } => true,
        }
    }
}

/// How Muon's rate depends on the sides A and B of the matrix, as in torch's `adjust_lr_fn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MuonScale {
    /// √max(1, A/B).
    #[default]
    Original,
    /// 0.2·√max(A, B). Learning rates and decays found for AdamW can be kept.
    MatchRmsAdamw,
    /// √(A/B).
    SpectralUnclamped,
}

impl MuonScale {
    /// The factor for a matrix of `rows`×`columns`.
    pub fn factor(self, rows: usize, columns: usize) -> f64 {
        let (a, b) = (rows as f64, columns as f64);
        match self {
            MuonScale::Original => (a / b).max(1.0).sqrt(),
            MuonScale::MatchRmsAdamw => 0.2 * a.max(b).sqrt(),
            MuonScale::SpectralUnclamped => (a / b).sqrt(),
        }
    }
}
