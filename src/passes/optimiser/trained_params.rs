//! The params that a training step trains, once all that the user gave is checked.

use super::groups::{self, Settings};
use super::{Optimiser, Rule, projection};
use crate::error::Result;
use crate::nodes::Graph;
use crate::passes::ad::grad::GradOptions;
use crate::passes::signature::loss_by_name;

/// The params that a step trains, with the settings of each.
pub(super) struct TrainedParams {
    leaves: Vec<String>,
    pub(super) settings: Settings,
}

impl TrainedParams {
    /// Those of `g`, once everything that the user gave is checked.
    pub(super) fn new(g: Graph<'_>, loss: &str, opt: &Optimiser) -> Result<TrainedParams> {
        opt.validate()?;
        groups::check_leaf_names(g)?;
        let leaves = grad_options(opt).leaves(g)?;
        let names: Vec<&str> = leaves.iter().map(String::as_str).collect();
        loss_by_name(g, loss)?;
        groups::refuse_code_params(g, &names)?;
        let settings = groups::group_settings(g, opt, &names)?;
        projection::check_projections(&opt.projections, &names)?;
        if opt.moving_momentum {
            settings.check_moving(&names)?;
        }
        Ok(TrainedParams { leaves, settings })
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.leaves.iter().map(String::as_str).collect()
    }

    /// The rule of each param.
    pub(super) fn rules(&self) -> Vec<Rule> {
        self.settings.kind_of.iter().map(|&i| self.settings.kinds[i].rule).collect()
    }
}

/// How the gradients of a step are taken.
pub(super) fn grad_options(opt: &Optimiser) -> GradOptions {
    GradOptions { frozen: opt.frozen.clone(), ..Default::default() }
}
