//! Gives an output, an input or a state of a graph another name: see [`rename`].

use super::copier::Copier;
use super::rebuild::{finish_rebuild, rebuilt_by_pass};
use super::signature::{check_free_names, output_by_name};
use crate::arena::ids::Id;
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::leaf::is_leaf_name;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op};

/// `g` with its output, input or state `old` called `new`. So the first of two derivatives by one leaf makes place for
/// the second, and one of two optimisers in a program gets a count of steps of its own.
///
/// # Errors
/// No output, no input and no state is called `old`; an output or a leaf is called `new`; a leaf cannot be called so.
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
    let leaf = g.find_leaf(old).filter(|l| matches!(g.op[g.def[l.0.at()].at()], Op::INPUT | Op::STATE)).map(|l| l.0);
    if leaf.is_none() {
        output_by_name(g, old)?;
    } else if !is_leaf_name(new) {
        return Err(Error::new(Kind::Name, format!("rename: a leaf cannot be called {new:?}")));
    }
    check_free_names(g, "rename", [new.to_string()])?;
    rebuilt_by_pass("rename", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        if let Some(v) = leaf {
            c = c.renaming(v, new);
        }
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
