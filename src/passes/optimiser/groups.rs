//! Groups of params, frozen params, and the settings of each param.
//!
//! Params with equal settings share the values that depend on the settings alone (rates, the schedule of NAdam).

use super::rule::Rule;
use super::{LR, Optimiser};
use crate::arena::ids::Id;
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, DType, Graph, Var};
use crate::passes::ad::codes::Codes;
use crate::passes::signature::Signature;

/// Settings of a group of params that differ from the optimiser's.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// Factor of the learning rate.
    pub lr_scale: f64,
    /// A learning rate of its own, which schedules of the optimiser's do not move: the input `opt.lr.N`, which groups
    /// with the same number share. It is the optimiser's rate until the caller writes it.
    pub rate: Option<u32>,
    /// A count of steps of its own: the state `opt.step.N`, which groups with the same number share. It says how many
    /// updates params have had that are trained from a later step on, or again.
    pub count: Option<u32>,
    /// Weight decay instead of the rule's.
    pub weight_decay: Option<f64>,
    /// Rule instead of the optimiser's.
    pub rule: Option<Rule>,
}

impl Default for Group {
    fn default() -> Group {
        Group { lr_scale: 1.0, rate: None, count: None, weight_decay: None, rule: None }
    }
}

setters! {
    [] Group {
        lr_scale: f64,
        rate: impl Into<Option<u32>> => rate.into(),
        count: impl Into<Option<u32>> => count.into(),
        weight_decay: impl Into<Option<f64>> => weight_decay.into(),
        rule: impl Into<Option<Rule>> => rule.into(),
    }
}

impl Group {
    /// The rule of this group, if `rule` is the optimiser's.
    pub(super) fn rule_beside(&self, rule: Rule) -> Rule {
        let rule = self.rule.unwrap_or(rule);
        self.weight_decay.map_or(rule, |d| rule.with_weight_decay(d))
    }

    /// An error if a number is out of its range.
    pub(super) fn validate(&self, rule: Rule) -> Result<()> {
        if !self.lr_scale.is_finite() || self.lr_scale < 0.0 {
            return Err(Error::new(
                Kind::Data,
                format!("lr_scale is {}; it must be finite and not negative", self.lr_scale),
            ));
        }
        self.rule_beside(rule).validate()
    }
}

/// Settings that one or more params share.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Of {
    /// The rule, with the weight decay that applies.
    pub rule: Rule,
    /// Factor of the learning rate.
    pub lr_scale: f64,
    /// The number of the input that is the learning rate, if it is not the optimiser's.
    pub rate: Option<u32>,
    /// The number of the state that counts its steps, if that is not the optimiser's.
    pub count: Option<u32>,
}

/// The settings of all params.
pub(super) struct Settings {
    /// The distinct settings.
    pub kinds: Vec<Of>,
    /// For each param, the position of its settings in `kinds`.
    pub kind_of: Vec<usize>,
}

impl Settings {
    /// The learning rate of each kind: inputs, of which the first is the optimiser's.
    pub(super) fn rates<'g>(&self, b: &'g Builder, dtype: DType, lr: f64) -> Vec<Var<'g>> {
        let mut inputs = vec![(None, b.input_or(LR, [], dtype, lr))];
        let mut rate_of = |number: Option<u32>| match inputs.iter().find(|i| i.0 == number) {
            Some(known) => known.1,
            None => {
                let name = number.map_or(LR.to_string(), |n| format!("opt.{LR}.{n}"));
                inputs.push((number, b.input_or(&name, [], dtype, lr)));
                inputs[inputs.len() - 1].1
            }
        };
        self.kinds.iter().map(|kind| rate_of(kind.rate)).collect()
    }
}

/// The settings of the params `params` of `g`. A group without a param is an error.
pub(super) fn group_settings(g: Graph<'_>, opt: &Optimiser, params: &[&str]) -> Result<Settings> {
    let signature = Signature::new(g);
    let mut s = Settings { kinds: Vec::new(), kind_of: Vec::new() };
    let (mut flat, mut matched, mut claimed) =
        (Vec::new(), vec![false; opt.groups.len()], vec![false; opt.groups.len()]);
    for name in params {
        let mut matching = (0..opt.groups.len()).filter(|&i| names::matches_name(&opt.groups[i].0, name));
        let first = matching.next();
        first.into_iter().for_each(|i| claimed[i] = true);
        matching.for_each(|i| matched[i] = true);
        let group = first.map_or(Group::default(), |i| opt.groups[i].1);
        let v = signature.leaf(name)?;
        let rank = g.dims(v).len();
        let mut rule = group.rule_beside(opt.rule);
        if rank < opt.decay_from_rank && group.weight_decay.is_none() && group.rule.is_none() {
            rule = rule.with_weight_decay(0.0);
        }
        if matches!(rule, Rule::Muon { .. }) && (rank != 2 || g.dtype[v.at()].is_complex()) {
            flat.push(format!("{name:?} {}", g.ty_text(v)));
        }
        let of = Of { rule, lr_scale: group.lr_scale, rate: group.rate, count: group.count };
        let kind = s.kinds.iter().position(|k| *k == of).unwrap_or(s.kinds.len());
        if kind == s.kinds.len() {
            s.kinds.push(of);
        }
        s.kind_of.push(kind);
    }
    if let Some(i) = claimed.iter().position(|c| !c) {
        let pattern = &opt.groups[i].0;
        let text = match matched[i] {
            true => {
                format!("group {pattern:?} has no param: earlier groups have all that it matches; name it before them")
            }
            false => {
                let instead = names::list_names_instead(pattern, params.iter().copied());
                format!("group {pattern:?} matches no trained param{instead}")
            }
        };
        return Err(Error::new(Kind::Name, text));
    }
    check_single_history(&s, opt, params)?;
    if flat.is_empty() {
        return Ok(s);
    }
    let text = format!("muon updates real matrices only: put these into groups of another rule: {}", flat.join(", "));
    Err(Error::new(Kind::Shape, text))
}

/// An error unless all params of L-BFGS have one history, one rate and one count, and no projection.
fn check_single_history(s: &Settings, opt: &Optimiser, params: &[&str]) -> Result<()> {
    let mut history = None;
    for kind in &s.kinds {
        let Rule::Lbfgs { history_size, .. } = kind.rule else { continue };
        let first = *history.get_or_insert(history_size);
        if first != history_size {
            let text =
                format!("lbfgs: groups have history_size {first} and {history_size}; all params share one history");
            return Err(Error::new(Kind::Data, text));
        }
        if kind.lr_scale != 1.0 {
            let text = format!("lbfgs: a group has lr_scale {}; all params of lbfgs share one rate", kind.lr_scale);
            return Err(Error::new(Kind::Data, text));
        }
        if kind.rate.is_some() {
            let text = "lbfgs: a group has a rate of its own; all params of lbfgs share one rate";
            return Err(Error::new(Kind::Data, text));
        }
        if kind.count.is_some() {
            let text = "lbfgs: a group has a count of its own; all params of lbfgs share one history";
            return Err(Error::new(Kind::Data, text));
        }
    }
    let is_lbfgs = |&(i, _): &(usize, &&str)| matches!(s.kinds[s.kind_of[i]].rule, Rule::Lbfgs { .. });
    let projected = |name: &str| opt.projections.iter().any(|p| names::matches_name(&p.pattern, name));
    if let Some((_, name)) = params.iter().enumerate().filter(is_lbfgs).find(|(_, name)| projected(name)) {
        let text = format!("lbfgs: param {name:?} has a projection, which its history would not see");
        return Err(Error::new(Kind::Data, text));
    }
    Ok(())
}

/// An error if a leaf of `g` has a name that a training step adds.
pub(super) fn check_leaf_names(g: Graph<'_>) -> Result<()> {
    let Some(leaf) = g.leaves().find(|l| l.name == LR || l.name.starts_with("opt.")) else { return Ok(()) };
    let text = format!(
        "the graph has a leaf called {:?}, a name that a training step adds: rename it, or train the graph of the loss",
        leaf.name
    );
    Err(Error::new(Kind::Name, text).at(g.location(g.def[leaf.value.at()])))
}

/// An error if one of `params` holds codes: their gradient is that of real numbers, which no update of integers takes.
pub(super) fn refuse_code_params(g: Graph<'_>, params: &[&str]) -> Result<()> {
    let (codes, signature) = (Codes::of(g), Signature::new(g));
    let mut leaves = params.iter().filter_map(|name| Some((name, signature.leaf(name).ok()?)));
    let Some((name, v)) = leaves.find(|l| codes.is_code(l.1)) else { return Ok(()) };
    let text = format!("{name:?} is {}, codes of real numbers, which no optimiser steps: freeze it", g.ty_text(v));
    Err(Error::new(Kind::Derivative, text).at(g.location(g.def[v.at()])))
}

impl<R> Optimiser<R> {
    /// Leaves the params that match `pattern` as they are: a name, whose first `*` is any run of characters
    /// (`fc1.*`). They get no gradient. A pattern that matches no param is an error of [`train`](crate::optim::train).
    pub fn freeze(mut self, pattern: &str) -> Optimiser<R> {
        self.frozen.push(pattern.to_string());
        self
    }

    /// Gives the params that match `pattern` other settings. A pattern is a name; its first `*` is any run of
    /// characters (`fc1.*`, `*.bias`). A param belongs to the first group that matches it. A group without a param is
    /// an error of [`train`](crate::optim::train).
    pub fn group(mut self, pattern: &str, group: Group) -> Optimiser<R> {
        self.groups.push((pattern.to_string(), group));
        self
    }
}
