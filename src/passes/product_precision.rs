//! The precision of each product, chosen just before lowering.
//!
//! The result is a side table over the nodes of a graph that is ready to be lowered. Precision is not part of the
//! graph, so derivatives, simplification and fusion do not depend on it; the session leaves `contract` out if one is
//! chosen. Invariant: the table follows from the graph and the choice alone. Called by `session`.

use crate::arena::ids::Id;
use crate::arena::{Node, Value};
use crate::error::{Error, Kind, Result};
use crate::kernels::gemm::Precision;
use crate::names;
use crate::nodes::ir::opdef::Flags;
use crate::nodes::ops::optim::step_layout;
use crate::nodes::ops::optim::step_of_fused_form;
use crate::nodes::{DType, Graph, LeafKind, Op};
use crate::passes::moves::move_keeps_elements;

/// The precision of the products of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Precisions {
    /// The precision of all products that no group claims.
    pub base: Precision,
    /// Patterns of param names (`*` matches any characters). A group claims the products that read such a param, in the
    /// forward and in the backward half, and the products that compute its gradient. The first group that claims a
    /// product sets its precision.
    pub groups: Vec<(String, Precision)>,
}

/// Number of products of each precision, in the order of [`Precision::ALL`].
pub type Counts = [usize; Precision::ALL.len()];

/// True if `n` is an f32 product, or an optimiser step with one, whose precision can be chosen.
fn can_choose_precision(g: &Graph<'_>, n: Node) -> bool {
    let product = g.def_of(n).flags.has(Flags::PRODUCT) || step_of_fused_form(g.op[n.at()]).is_some();
    product && g.dtype[g.out(n).at()] == DType::F32
}

/// The precision of each node of `g`.
///
/// # Errors
/// A pattern that matches no param, or only params that no f32 product reads.
pub fn product_precisions(g: Graph<'_>, choice: &Precisions) -> Result<Vec<Precision>> {
    let mut of = vec![choice.base; g.nodes()];
    let mut claimed = vec![false; g.nodes()];
    for (pattern, precision) in &choice.groups {
        let params = || g.leaves().filter(|l| l.kind == LeafKind::Param);
        let (mut found, mut products) = (false, false);
        for l in params().filter(|l| names::matches_name(pattern, l.name)) {
            found = true;
            for n in products_of_param(&g, l.value) {
                products = true;
                if !std::mem::replace(&mut claimed[n.at()], true) {
                    of[n.at()] = *precision;
                }
            }
        }
        if !found {
            let known: Vec<&str> = params().map(|l| l.name).collect();
            let instead = names::list_names_instead(pattern, known.iter().copied());
            return Err(Error::new(Kind::Name, format!("precision: {pattern:?} matches no param{instead}")));
        }
        if !products {
            let text = format!("precision: {pattern:?} matches params, but none that a product of f32 matrices reads");
            return Err(Error::new(Kind::Name, text));
        }
    }
    Ok(of)
}

/// The products that read param `w`, reshaped or transposed or as it is, and the products that compute the gradient in
/// its update.
fn products_of_param(g: &Graph<'_>, w: Value) -> Vec<Node> {
    let size = g.numel(w);
    // Products in loops have the program's precision, and so has what takes their place behind a loop.
    let stands_for_loop = |n: Node| g.op[n.at()] == Op::MATMUL_ADD_STACK;
    let mut moved = vec![false; g.values()];
    moved[w.at()] = true;
    let mut found = Vec::new();
    for n in g.region_nodes(g.entry()) {
        if !g.args_of(n).iter().any(|v| moved[v.at()]) {
            continue;
        }
        if can_choose_precision(g, n) {
            found.extend(Some(n).filter(|_| !stands_for_loop(n)));
        } else if move_keeps_elements(*g, n) {
            g.outs_of(n).for_each(|v| moved[v.at()] = true);
        }
    }
    let mut asked = vec![false; g.values()];
    g.updates.iter().filter(|u| u.0 == w).for_each(|u| asked[u.1.at()] = true);
    // One reverse scan is enough: operands come before their users. A value as large as the param may be its gradient.
    for n in g.region_nodes(g.entry()).rev() {
        if !g.outs_of(n).any(|v| asked[v.at()]) {
            continue;
        }
        if can_choose_precision(g, n) {
            // If only the column sums of a `matmul_dact` are asked for, they are the gradient of a bias, not of a
            // product.
            let of_bias = g.op[n.at()] == Op::MATMUL_DACT && !asked[g.out(n).at()];
            if !of_bias && !stands_for_loop(n) {
                found.push(n);
            }
            continue;
        }
        let args = g.args_of(n);
        // A step of several params updates each param from its own group of operands.
        let own = step_layout(g.op[n.at()]).and_then(|(tensors, _)| {
            let result = g.outs_of(n).position(|v| asked[v.at()])?;
            args.get(result / (tensors - 1) * tensors..)?.get(..tensors)
        });
        own.unwrap_or(args).iter().filter(|v| g.numel(**v) == size).for_each(|v| asked[v.at()] = true);
    }
    found
}

/// The number of products of each precision. Nodes beyond the end of `of` have the default.
pub fn count_product_precisions(g: Graph<'_>, of: &[Precision]) -> Counts {
    let mut counts = Counts::default();
    let all = (0..g.nodes()).map(Node::new).filter(|&n| can_choose_precision(&g, n));
    all.for_each(|n| counts[of.get(n.at()).copied().unwrap_or_default() as usize] += 1);
    counts
}
