//! Transforms as methods of [`GraphBuf`]: `graph.grad("loss", &options)` is `grad(&graph, "loss", &options)`.

use super::grad::{GradOptions, Missing, grad, vjp};
use super::higher_derivatives::{directional_nth_grad, hvp, nth_grad};
use super::jacobian::jacobian;
use super::jvp::jvp;
use super::split_vjp::{SplitVjp, split_vjp};
use crate::error::Result;
use crate::nodes::GraphBuf;
use crate::passes::batch::Vmap;
use crate::passes::batch::vmap;

/// Transforms; each is the function of the same name in [`graph`](crate::graph).
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("square");
/// let x = g.input("x", [3], DType::F64);
/// let graph = g.finish([(x * x).sum(..).named("loss")])?;
/// let gradient = graph.grad("loss", &GradOptions::wrt(&["x"]))?;
/// let hessian = gradient.jacobian("grad.x", "x")?; // has the output `jacobian.x`, 3 by 3
/// # Ok(())
/// # }
/// ```
impl GraphBuf {
    /// See [`grad`].
    pub fn grad(&self, loss: &str, options: &GradOptions) -> Result<GraphBuf> {
        grad(self, loss, options)
    }

    /// See [`jvp`].
    pub fn jvp(&self, outputs: &[&str], wrt: &[&str]) -> Result<GraphBuf> {
        jvp(self, outputs, wrt)
    }

    /// See [`vjp`].
    pub fn vjp(&self, outputs: &[&str], wrt: &[&str], missing: Missing) -> Result<GraphBuf> {
        vjp(self, outputs, wrt, missing)
    }

    /// See [`split_vjp`].
    pub fn split_vjp(&self, outputs: &[&str], wrt: &[&str], missing: Missing) -> Result<SplitVjp> {
        split_vjp(self, outputs, wrt, missing)
    }

    /// See [`hvp`].
    pub fn hvp(&self, loss: &str, wrt: &[&str]) -> Result<GraphBuf> {
        hvp(self, loss, wrt)
    }

    /// See [`jacobian`].
    pub fn jacobian(&self, output: &str, leaf: &str) -> Result<GraphBuf> {
        jacobian(self, output, leaf)
    }

    /// See [`nth_grad`].
    pub fn nth_grad(&self, output: &str, leaf: &str, n: usize) -> Result<GraphBuf> {
        nth_grad(self, output, leaf, n)
    }

    /// See [`vmap`].
    pub fn vmap(&self, map: &Vmap<'_>) -> Result<GraphBuf> {
        vmap(self, map)
    }

    /// See [`directional_nth_grad`].
    pub fn directional_nth_grad(&self, output: &str, leaf: &str, n: usize) -> Result<GraphBuf> {
        directional_nth_grad(self, output, leaf, n)
    }
}
