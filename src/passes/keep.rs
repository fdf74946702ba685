//! Makes inner values outputs, by name: see [`keep`].

use super::rebuild::rebuild_buf;
use crate::arena::{Sym, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::{Graph, GraphBuf};

/// `g` with one more output for each named value that a pattern matches, under the value's name
/// ([`Var::named`](crate::graph::Var::named)). A pattern is a name; its first `*` is any run of characters
/// (`layers.*`). Values that are outputs under their name already stay as they are. Leaves are no such values: programs
/// read them by name anyway. To make one value an output while building, see [`Var::tap`](crate::graph::Var::tap).
///
/// # Errors
/// A pattern that matches no named value, or only values inside loops; two values of one name.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("net");
/// let x = g.input("x", [2], DType::F32);
/// let h = (x * 2.0).named("layers.0");
/// let graph = g.finish([(h + 1.0).named("layers.1").sum(..).named("loss")])?;
/// let mut p = Session::new().compile(&graph.keep(&["layers.*"])?)?;
/// p.values_mut::<f32>("x")?.copy_from_slice(&[1.0, 3.0]);
/// p.step()?;
/// assert_eq!((p.values::<f32>("layers.0")?, p.values::<f32>("layers.1")?), (&[2.0, 6.0][..], &[3.0, 7.0][..]));
/// # Ok(())
/// # }
/// ```
pub fn keep<'a>(g: impl Into<Graph<'a>>, patterns: &[&str]) -> Result<GraphBuf> {
    let g = g.into();
    let first = g.region_values(g.entry()).start;
    let is_named = |v: &Value| g.names[v.at()].is_some() && g.leaf(*v).is_none();
    let named: Vec<Value> = g.region_values(g.entry()).map(Value).filter(is_named).collect();
    let name = |v: Value| g.str(g.names[v.at()]);
    for pattern in patterns {
        let outputs = || g.output_names.iter().map(|&s| g.str(s));
        if named.iter().map(|&v| name(v)).chain(outputs()).any(|n| names::matches_name(pattern, n)) {
            continue;
        }
        let inside = (0..first).map(Value).filter(is_named).any(|v| names::matches_name(pattern, name(v)));
        let text = match inside {
            true => format!("keep: {pattern:?} matches only values inside loops or calls; yield them"),
            false => {
                let known: Vec<&str> = named.iter().map(|&v| name(v)).collect();
                format!(
                    "keep: {pattern:?} matches no named value{}",
                    names::list_names_instead(pattern, known.iter().copied())
                )
            }
        };
        return Err(Error::new(Kind::Name, text));
    }
    let mut kept: Vec<(Sym, Value)> = Vec::new();
    for &v in named.iter().filter(|&&v| patterns.iter().any(|p| names::matches_name(p, name(v)))) {
        let other = g.find_output(name(v)).or(kept.iter().find(|k| k.0 == g.names[v.at()]).map(|k| k.1));
        match other {
            Some(old) if old == v => {}
            Some(old) => {
                let (a, b) = (old.0 - first.min(old.0), v.0 - first);
                let text = format!("keep: two values are called {:?}, %{a} and %{b}; name them apart", name(v));
                return Err(Error::new(Kind::Name, text).at(g.location(g.def[v.at()])));
            }
            None => kept.push((g.names[v.at()], v)),
        }
    }
    let (names, values): (Vec<Sym>, Vec<Value>) = kept.into_iter().unzip();
    // The entry is the last region, so its yields are the last ones.
    let yields = [g.yields, &values].concat();
    let mut yields_at = g.yields_at.to_vec();
    yields_at.last_mut().into_iter().for_each(|end| *end += values.len() as u32);
    let output_names = [g.output_names, &names].concat();
    let more = Graph { yields: &yields, yields_at: &yields_at, output_names: &output_names, ..g };
    rebuild_buf(more, &mut |_| None)
}

impl GraphBuf {
    /// See [`keep`].
    pub fn keep(&self, patterns: &[&str]) -> Result<GraphBuf> {
        keep(self, patterns)
    }
}
