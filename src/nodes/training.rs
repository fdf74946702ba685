//! Methods of [`Var`] for layers, losses and optimiser steps, with their options as torch names and defaults them.

use super::attrs::Attr;
use super::builder::Var;
use super::opdef::Op;
use super::ops::attention::Layout;
use crate::arena::Value;
use crate::error::Kind;

/// How the losses of the elements become one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// Not at all.
    None = 0,
    /// Their mean.
    #[default]
    Mean = 1,
    /// Their sum.
    Sum = 2,
}

/// Options of [`Var::cross_entropy_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossEntropy {
    /// Rows with this label count for nothing.
    pub ignore_index: i64,
    /// ε: the target is (1 − ε)·onehot + ε/classes.
    pub label_smoothing: f64,
    /// What is returned; the mean is over the rows that count, NaN if none does.
    pub reduction: Reduction,
}

impl CrossEntropy {
    /// The loss of each row. Where every label counts, its mean is the default's number, and it is cheaper to train on:
    /// the gradient weighs all rows alike, so that it is computed together with the loss.
    pub fn per_row() -> CrossEntropy {
        CrossEntropy { reduction: Reduction::None, ..CrossEntropy::default() }
    }
}

impl Default for CrossEntropy {
    fn default() -> CrossEntropy {
        CrossEntropy { ignore_index: -100, label_smoothing: 0.0, reduction: Reduction::Mean }
    }
}

/// Options of [`Var::sgd_step`] and [`Var::sgd_momentum_step`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sgd {
    /// μ.
    pub momentum: f64,
    /// What the gradient loses on its way into the buffer.
    pub dampening: f64,
    /// Whether the step looks ahead along the buffer.
    pub nesterov: bool,
    /// L2 penalty.
    pub weight_decay: f64,
}

/// Options of [`Var::adam_step`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Decays of the first and the second moment.
    pub betas: [f64; 2],
    /// Added to the denominator.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// Whether the decay shrinks the parameter (AdamW) and does not join the gradient.
    pub decoupled: bool,
}

impl Default for Adam {
    fn default() -> Adam {
        Adam { betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0, decoupled: false }
    }
}

/// Options of [`Var::attention`]; the defaults are those of torch's `scaled_dot_product_attention`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attention<'g> {
    /// The order of axes of q, k, v and the result.
    pub layout: Layout,
    /// Heads of q; 0 takes the number from its shape ([`Layout::Bsd`]: 1).
    pub heads: usize,
    /// Heads of k and v, each shared by as many neighbouring heads of q; 0 takes the number from k's shape
    /// ([`Layout::Bsd`]: that of `heads`).
    pub kv_heads: usize,
    /// Whether query i sees only keys up to i + keys − queries: both sequences end together.
    pub causal: bool,
    /// A causal query sees at most so many keys before its last one; implies `causal`.
    pub window: Option<usize>,
    /// What scores are multiplied by; 0 stands for 1/√width.
    pub scale: f64,
    /// Scores s become softcap·tanh(s / softcap) before masks and bias; 0 for none.
    pub softcap: f64,
    /// Which keys count, `[batch, keys]`: a bool, or a float that is at least one half.
    pub padding: Option<Var<'g>>,
    /// What is added to the scores, `[batch or 1, heads or 1, queries, keys]`.
    pub bias: Option<Var<'g>>,
    /// The part of the probabilities that is dropped, as torch's `dropout_p`; those that stay are divided by 1 − this.
    /// Which ones follows from the seed, the step, this call and their place, for f32 and f64 alike.
    pub dropout: f64,
}

impl<'g> Var<'g> {
    /// The mean of −ln softmax(x)\[label\] over the rows whose label is not −100: [`Var::cross_entropy_with`] as torch
    /// defaults it.
    #[track_caller]
    pub fn cross_entropy(self, labels: Var<'g>) -> Var<'g> {
        self.cross_entropy_with(labels, CrossEntropy::default())
    }

    /// Cross entropy of logits `[.., classes]` and integer labels `[..]`, as `torch.nn.functional.cross_entropy` on
    /// `[N, classes]`. The classes are always the last axis (torch has them second for rank above 2).
    #[track_caller]
    pub fn cross_entropy_with(self, labels: Var<'g>, opt: CrossEntropy) -> Var<'g> {
        if !self.g.owns("cross_entropy", &[labels]) || !self.is_some() || !labels.is_some() {
            return self.g.var(Value::NONE);
        }
        let (d, rows) = (self.dims(), labels.dims());
        if d.split_last().is_none_or(|(_, lead)| *lead != *rows) {
            let text = format!("cross_entropy: labels of shape {rows} do not fit logits of shape {d}, classes last");
            return self.g.fail(Kind::Shape, text);
        }
        let (n, classes) = (rows.numel(), d[d.len() - 1]);
        let attrs = [Attr::Int(opt.ignore_index), Attr::F64(opt.label_smoothing)];
        let flat = labels.reshape([n]);
        let loss = self.g.emit1(Op::SOFTMAX_CROSS_ENTROPY, &[self.reshape([n, classes]), flat], &attrs);
        match opt.reduction {
            Reduction::None => loss.reshape(rows),
            Reduction::Sum => loss.sum(..),
            Reduction::Mean => loss.sum(..) / flat.not_equal(opt.ignore_index as f64).cast(loss.dtype()).sum(..),
        }
    }

    /// The mean of (a − b)².
    #[track_caller]
    pub fn mse(self, b: Var<'g>) -> Var<'g> {
        self.mse_with(b, Reduction::Mean)
    }

    /// (a − b)², reduced.
    #[track_caller]
    pub fn mse_with(self, b: Var<'g>, reduction: Reduction) -> Var<'g> {
        self.g.emit1(Op::MSE_LOSS, &[self, b], &[Attr::Choice(reduction as u32)])
    }

    /// The mean of the binary cross entropy between σ(this) and `targets` in [0, 1].
    #[track_caller]
    pub fn bce_with_logits(self, targets: Var<'g>) -> Var<'g> {
        self.bce_with_logits_with(targets, Reduction::Mean)
    }

    /// The binary cross entropy between σ(this) and `targets`, reduced.
    #[track_caller]
    pub fn bce_with_logits_with(self, targets: Var<'g>, reduction: Reduction) -> Var<'g> {
        self.g.emit1(Op::BCE_WITH_LOGITS, &[self, targets], &[Attr::Choice(reduction as u32)])
    }

    /// Layer normalisation over the trailing axes that `gamma` and `beta` have, as `torch.nn.LayerNorm`.
    #[track_caller]
    pub fn layer_norm(self, gamma: Var<'g>, beta: Var<'g>, eps: f64) -> Var<'g> {
        self.trailing_norm(Op::LAYER_NORM, gamma, beta, eps)
    }

    /// Root-mean-square normalisation over the trailing axes that `gamma` and `beta` have, as `torch.nn.RMSNorm` with a
    /// bias.
    #[track_caller]
    pub fn rms_norm(self, gamma: Var<'g>, beta: Var<'g>, eps: f64) -> Var<'g> {
        self.trailing_norm(Op::RMS_NORM, gamma, beta, eps)
    }

    #[track_caller]
    fn trailing_norm(self, op: Op, gamma: Var<'g>, beta: Var<'g>, eps: f64) -> Var<'g> {
        let name = if op == Op::RMS_NORM { "rms_norm" } else { "layer_norm" };
        let own = self.g.owns(name, &[gamma, beta]);
        if !own || !self.is_some() || !gamma.is_some() || !beta.is_some() {
            return self.g.var(Value::NONE);
        }
        let (d, n) = (self.dims(), gamma.dims());
        if n.is_empty() || !d.ends_with(&n) || beta.dims() != n {
            let text = format!("{name}: gamma {n} and beta {} are not the last axes of {d}", beta.dims());
            return self.g.fail(Kind::Shape, text);
        }
        let flat = [&d[..d.len() - n.len()], &[n.numel()]].concat();
        let args = [self.reshape(flat), gamma.reshape([n.numel()]), beta.reshape([n.numel()])];
        self.g.emit1(op, &args, &[Attr::F64(eps)]).reshape(d)
    }

    /// Normalisation of `groups` runs of channels (axis 1) of each sample, as `torch.nn.GroupNorm`; `gamma` and `beta`
    /// have a value for each channel.
    #[track_caller]
    pub fn group_norm(self, groups: usize, gamma: Var<'g>, beta: Var<'g>, eps: f64) -> Var<'g> {
        let attrs = [Attr::Int(i64::try_from(groups).unwrap_or(i64::MAX)), Attr::F64(eps)];
        self.g.emit1(Op::GROUP_NORM, &[self, gamma, beta], &attrs)
    }

    /// Normalisation of each channel (axis 1) over the batch: y, the mean and the biased variance. See
    /// [`crate::nn::batch_norm`] for the layer.
    #[track_caller]
    pub fn batch_norm(self, gamma: Var<'g>, beta: Var<'g>, eps: f64) -> [Var<'g>; 3] {
        let all = self.g.emit(Op::BATCH_NORM, &[self, gamma, beta], &[Attr::F64(eps)]);
        [all[0], all[1], all[2]]
    }

    /// Scaled dot-product attention with this as the queries: softmax(scale·q·kᵀ)·v for each head. A query that sees no
    /// key gets zeros. Memory grows with the lengths, not with their product.
    #[track_caller]
    pub fn attention(self, k: Var<'g>, v: Var<'g>, opt: Attention<'g>) -> Var<'g> {
        self.attention_with_lse(k, v, opt)[0]
    }

    /// [`Var::attention`], and ln Σ exp(score) of each row: `[batch, heads, queries]`, −∞ where a query sees no key.
    #[track_caller]
    pub fn attention_with_lse(self, k: Var<'g>, v: Var<'g>, opt: Attention<'g>) -> [Var<'g>; 2] {
        if !self.g.owns("attention", &[k, v]) || !self.is_some() || !k.is_some() || !v.is_some() {
            return [self.g.var(Value::NONE); 2];
        }
        let axis = if opt.layout == Layout::Bhsd { 1 } else { 2 };
        let of = |given: usize, x: Var<'g>, packed: usize| match (given, opt.layout) {
            (0, Layout::Bsd) => packed,
            (0, _) => x.dims().get(axis).copied().unwrap_or(1),
            _ => given,
        };
        let heads = of(opt.heads, self, 1);
        let kv_heads = of(opt.kv_heads, k, heads);
        let mask = if opt.window.is_some() { 2 } else { u32::from(opt.causal) };
        let key = (opt.dropout != 0.0).then(|| self.g.rng());
        let stream = if key.is_some() { self.g.fresh_stream() } else { 0 };
        let attrs = [
            Attr::Choice(opt.layout as u32),
            Attr::Int(heads as i64),
            Attr::Int(kv_heads as i64),
            Attr::Choice(mask),
            Attr::Int(opt.window.unwrap_or(0) as i64),
            Attr::F64(opt.scale),
            Attr::F64(opt.softcap),
            Attr::Bool(opt.padding.is_some()),
            Attr::Bool(opt.bias.is_some()),
            Attr::F64(opt.dropout),
            Attr::Int(stream),
        ];
        let args = [Some(self), Some(k), Some(v), opt.padding, opt.bias, key];
        let args: Vec<Var<'g>> = args.into_iter().flatten().collect();
        let all = self.g.emit(Op::ATTENTION, &args, &attrs);
        [all[0], all[1]]
    }

    /// The parameter after a step along `g` at rate `lr` (a scalar), without momentum.
    #[track_caller]
    pub fn sgd_step(self, g: Var<'g>, lr: Var<'g>, opt: Sgd) -> Var<'g> {
        self.g.emit1(Op::SGD, &[self, g, lr], &[Attr::F64(opt.weight_decay)])
    }

    /// The parameter and the momentum buffer after step `t` (an `i64` scalar, from 1).
    #[track_caller]
    pub fn sgd_momentum_step(self, g: Var<'g>, buf: Var<'g>, lr: Var<'g>, t: Var<'g>, opt: Sgd) -> [Var<'g>; 2] {
        let attrs =
            [Attr::F64(opt.momentum), Attr::F64(opt.dampening), Attr::Bool(opt.nesterov), Attr::F64(opt.weight_decay)];
        let all = self.g.emit(Op::SGD_MOMENTUM, &[self, g, buf, lr, t], &attrs);
        [all[0], all[1]]
    }

    /// The parameter and both moments after step `t` (an `i64` scalar, from 1) of Adam or AdamW.
    #[track_caller]
    pub fn adam_step(self, g: Var<'g>, moments: [Var<'g>; 2], lr: Var<'g>, t: Var<'g>, opt: Adam) -> [Var<'g>; 3] {
        let [beta1, beta2] = opt.betas.map(Attr::F64);
        let attrs = [beta1, beta2, Attr::F64(opt.eps), Attr::F64(opt.weight_decay), Attr::Bool(opt.decoupled)];
        let all = self.g.emit(Op::ADAM, &[self, g, moments[0], moments[1], lr, t], &attrs);
        [all[0], all[1], all[2]]
    }
}
