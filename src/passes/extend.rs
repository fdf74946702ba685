//! Extends a graph by nodes that a user writes: see [`extend`].

use super::copier::Copier;
use super::signature::{leaf_by_name, output_by_name};
use crate::arena::{Node, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Var};

/// The values of a graph by name, for [`extend`]: the output of that name, else the leaf. An unknown name is an error
/// of [`extend`].
pub type GraphValues<'v, 'g> = &'v dyn Fn(&str) -> Var<'g>;

/// `g` with more nodes: `f` gets a builder that holds all of `g`, and the values of `g` by name, and returns further
/// outputs. It may add leaves and updates too. So a loss may be made of derivatives: `f` reads the outputs of [`grad`]
/// or [`jvp`], and the new graph is differentiated again.
///
/// [`grad`]: crate::graph::grad
/// [`jvp`]: crate::graph::jvp
///
/// # Errors
/// A name that no output and no leaf has; those of [`Builder::finish`].
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// // u = w·x³, and a loss that pulls u'' to 12x.
/// let g = Builder::new("u");
/// let (x, w) = (g.input("x", [4], DType::F64), g.param("w", [], DType::F64, Init::Ones));
/// let graph = g.finish([(w * x * x * x).sum(..).named("u")])?;
/// let graph = graph.grad("u", &GradOptions::wrt(&["x"]))?.rename("grad.x", "u_x")?;
/// let graph = graph.extend(|_, value| vec![value("u_x").sum(..).named("slope")])?;
/// let graph = graph.grad("slope", &GradOptions::wrt(&["x"]))?;
/// let graph = graph.extend(|_, value| vec![(value("grad.x") - value("x") * 12.0).square().mean(..).named("loss")])?;
/// let mut p = Session::new().compile(&train(&graph, "loss", optim::Sgd::new(0.01))?)?;
/// p.init(0)?;
/// p.values_mut::<f64>("x")?.copy_from_slice(&[0.5, 1.0, -0.5, 0.8]);
/// (0..100).try_for_each(|_| p.step())?;
/// assert!((p.values::<f64>("w")?[0] - 2.0).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn extend<'a>(
    g: impl Into<Graph<'a>>,
    f: impl for<'g> FnOnce(&'g Builder, GraphValues<'_, 'g>) -> Vec<Var<'g>>,
) -> Result<GraphBuf> {
    let g = g.into();
    let b = continued(g)?;
    let mut copy = Copier::new(g, &b);
    copy.run(&mut |_| None);
    copy.signature();
    let value = |name: &str| match output_by_name(g, name).or_else(|e| leaf_by_name(g, name).map_err(|_| e)) {
        Ok(v) => copy.map[v],
        Err(e) => b.fail(e.kind, e.message),
    };
    b.finish(f(&b, &value))
}

/// An empty builder for what extends `g`. Its random draws are none of `g`'s.
pub fn continued(g: Graph<'_>) -> Result<Builder> {
    Ok(Builder::continuing(Emit::like(&g), first_free_stream(g)?))
}

/// A number above those of all random draws of `g`. An error if there is none.
fn first_free_stream(g: Graph<'_>) -> Result<i64> {
    let stream = |n: Node| {
        let at = g.def_of(n).attrs.iter().position(|f| f.name == "stream")?;
        g.attrs(n).has(at).then(|| g.attrs(n).int(at))
    };
    let last = (0..g.nodes()).map(Node::new).filter_map(|n| Some((stream(n)?, n))).max();
    let Some((last, n)) = last else { return Ok(0) };
    last.checked_add(1).ok_or_else(|| {
        let text = format!("extend: {} has stream {last}, above which new draws have none", g.def_of(n).name);
        Error::new(Kind::Data, text).at(g.location(n))
    })
}

impl GraphBuf {
    /// See [`extend`].
    #[track_caller]
    pub fn extend(&self, f: impl for<'g> FnOnce(&'g Builder, GraphValues<'_, 'g>) -> Vec<Var<'g>>) -> Result<GraphBuf> {
        extend(self, f)
    }
}
