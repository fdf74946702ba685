//! Gives an output of a graph another name: see [`rename`].

use super::copier::Copier;
use super::rebuild::{finish_rebuild, rebuilt_by_pass};
use super::signature::{check_free_signature_names, signature_output};
use crate::error::Result;
use crate::nodes::{Builder, Emit, Graph, GraphBuf};

/// `g` with its output `old` called `new`. So the first of two gradients by one leaf makes place for the second.
///
/// # Errors
/// No output is called `old`; an output or a leaf is called `new`.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("cubes");
/// let x = g.input("x", [2], DType::F64);
/// let graph = g.finish([(x * x * x).sum(..).named("u")])?;
/// let graph = graph.grad("u", &GradOptions::wrt(&["x"]))?.rename("grad.x", "u_x")?;
/// let graph = graph.extend(|_, value| vec![value("u_x").sum(..).named("slope")])?;
/// let mut p = Session::new().compile(&graph.grad("slope", &GradOptions::wrt(&["x"]))?)?;
/// p.values_mut::<f64>("x")?.copy_from_slice(&[1.0, 2.0]);
/// p.step()?;
/// assert_eq!(p.values::<f64>("u_x")?, [3.0, 12.0]); // 3x²
/// assert_eq!(p.values::<f64>("grad.x")?, [6.0, 12.0]); // 6x
/// # Ok(())
/// # }
/// ```
pub fn rename<'a>(g: impl Into<Graph<'a>>, old: &str, new: &str) -> Result<GraphBuf> {
    let g = g.into();
    signature_output(g, old)?;
    check_free_signature_names(g, "rename", [new.to_string()])?;
    rebuilt_by_pass("rename", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        for (&v, &name) in g.outputs().iter().zip(g.output_names) {
            b.output(if g.str(name) == old { new } else { g.str(name) }, c.map[v]);
        }
        c.updates();
        drop(c);
        finish_rebuild(b, bump)
    })
}

impl GraphBuf {
    /// See [`rename`].
    pub fn rename(&self, old: &str, new: &str) -> Result<GraphBuf> {
        rename(self, old, new)
    }
}
