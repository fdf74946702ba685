//! The precision of products, as a session's choice.

use super::Session;
use crate::error::{Error, Kind, Result};
use crate::kernels::gemm::{Precision, bf16_engine};
use crate::kernels::simd::isa_choice;
use crate::names;
use crate::nodes::{Graph, LeafKind};
use crate::passes::product_precision::{Precisions, product_precisions};

impl Session {
    /// Chooses how matrix products of `f32` are computed: `matmul`, `dot_general`, `matmul_bias_act`, `matmul_dact` and
    /// `lora_matmul`, forward and in gradients. The default is [`Precision::F32`]. Params, optimisers and all other ops
    /// stay `f32`. A product also stays `f32` where this CPU would compute it more slowly in `p` ([`Precision::here`]).
    /// Results depend on the CPU's bf16 instructions ([`bf16_engine`]), not on the number of threads.
    pub fn precision(mut self, p: Precision) -> Session {
        self.precision.base = p;
        self
    }

    /// As [`Session::precision`], but only for the products that read a param whose name matches `pattern`, forward and
    /// backward, and for the product that computes its gradient. The first `*` of a pattern matches any characters. The
    /// first pattern that matches decides. [`Session::compile`] fails if the pattern matches no param, or none that a
    /// product reads. Under [`Session::compile_all`], it must match a param of one of the graphs.
    pub fn precision_of(mut self, pattern: &str, p: Precision) -> Session {
        self.precision.groups.push((pattern.to_string(), p));
        self
    }
}

/// The choice for `g`, one of `all`: without the patterns that match params of other graphs only.
pub fn precisions_of_method(g: Graph<'_>, all: &[(&str, Graph<'_>)], choice: &Precisions) -> Precisions {
    let matches = |g: Graph<'_>, pattern: &str| {
        g.leaves().any(|l| l.kind == LeafKind::Param && names::matches_name(pattern, l.name))
    };
    let mut of = choice.clone();
    of.groups.retain(|(p, _)| matches(g, p) || !all.iter().any(|(_, other)| matches(*other, p)));
    of
}

/// The precision of each node of `g`; empty if all are the default.
pub fn session_precisions(g: Graph<'_>, choice: &Precisions) -> Result<Vec<Precision>> {
    isa_choice().map_err(|why| Error::new(Kind::Plan, why))?;
    if *choice == Precisions::default() {
        return Ok(Vec::new());
    }
    bf16_engine().map_err(|why| Error::new(Kind::Plan, why))?;
    Ok(product_precisions(g, choice)?.into_iter().map(Precision::here).collect())
}
