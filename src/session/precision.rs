//! The precision of products, as a session's choice.

use super::Session;
use crate::error::{Error, Kind, Result};
use crate::kernels::gemm::{Precision, bf16_engine};
use crate::kernels::simd::isa_choice;
use crate::nodes::Graph;
use crate::passes::precision::{Precisions, precisions};

impl Session {
    /// How matrix products of `f32` are computed (`f32` ones if nothing is said): `matmul`, `dot_general`,
    /// `matmul_bias_act`, `matmul_dact` and `lora_matmul`, forward and in gradients. Params, optimisers and all else
    /// stay `f32`, and so do products that are faster so ([`Precision::here`]). Results do not depend on the number of
    /// threads; they do on the units that the CPU has ([`bf16_engine`]).
    pub fn precision(mut self, p: Precision) -> Session {
        self.precision.base = p;
        self
    }

    /// As [`Session::precision`], for the products of the params whose names match `pattern` (`*` for anything), with
    /// those of their gradients. [`Session::compile`] fails if no param does.
    pub fn precision_of(mut self, pattern: &str, p: Precision) -> Session {
        self.precision.groups.push((pattern.to_string(), p));
        self
    }
}

/// The precision of each node of `g`, where any is not the usual one.
pub fn assign(g: Graph<'_>, choice: &Precisions) -> Result<Vec<Precision>> {
    isa_choice().map_err(|why| Error::new(Kind::Plan, why))?;
    if *choice == Precisions::default() {
        return Ok(Vec::new());
    }
    bf16_engine().map_err(|why| Error::new(Kind::Plan, why))?;
    Ok(precisions(g, choice)?.into_iter().map(Precision::here).collect())
}
