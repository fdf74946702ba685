//! The signature of a graph: its leaves and outputs by name, and the errors about names that it does not have.

use crate::arena::{Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::Graph;
use crate::nodes::ir::leaf::is_leaf_name;
use hashbrown::{HashMap, HashSet};

/// The leaf called `name`, or an error that lists the names. For many names use [`Signature`].
pub fn leaf_by_name(g: Graph<'_>, name: &str) -> Result<Value> {
    g.find_leaf(name).map(|l| l.0).ok_or_else(|| unknown_leaf_error(g, name))
}

/// The output called `name`, or an error that lists the names. For many names use [`Signature`].
pub fn output_by_name(g: Graph<'_>, name: &str) -> Result<Value> {
    g.find_output(name).ok_or_else(|| unknown_output_error(g, name))
}

fn unknown_leaf_error(g: Graph<'_>, name: &str) -> Error {
    let known: Vec<&str> = g.leaves().map(|l| l.name).collect();
    Error::new(
        Kind::Name,
        format!("no leaf is called {name:?}{}", names::list_names_instead(name, known.iter().copied())),
    )
}

fn unknown_output_error(g: Graph<'_>, name: &str) -> Error {
    let known = g.output_names.iter().map(|&s| g.str(s));
    Error::new(Kind::Name, format!("no output is called {name:?}{}", names::list_names_instead(name, known)))
}

/// The leaves and outputs of a graph by name, found in one scan.
pub struct Signature<'x> {
    g: Graph<'x>,
    leaves: HashMap<&'x str, Value>,
    outputs: HashMap<&'x str, Value>,
    /// Names that [`Signature::unused`] returned.
    given: HashSet<String>,
}

impl<'x> Signature<'x> {
    /// The signature of `g`.
    pub fn new(g: Graph<'x>) -> Self {
        let outputs = g.output_names.iter().map(|&s| g.str(s)).zip(g.outputs().iter().copied());
        let leaves = g.leaves().map(|l| (l.name, l.value));
        Signature { g, leaves: leaves.collect(), outputs: outputs.collect(), given: HashSet::new() }
    }

    /// As [`leaf_by_name`].
    pub fn leaf(&self, name: &str) -> Result<Value> {
        self.leaves.get(name).copied().ok_or_else(|| unknown_leaf_error(self.g, name))
    }

    /// True if a leaf is called `name`.
    pub fn has_leaf(&self, name: &str) -> bool {
        self.leaves.contains_key(name)
    }

    /// As [`output_by_name`].
    pub fn output(&self, name: &str) -> Result<Value> {
        self.outputs.get(name).copied().ok_or_else(|| unknown_output_error(self.g, name))
    }

    /// A new name that no leaf and no output has: `name`, or `name.2`, `name.3` ….
    pub fn unused(&mut self, name: &str) -> String {
        let taken = |n: &str| self.leaves.contains_key(n) || self.outputs.contains_key(n) || self.given.contains(n);
        let numbered = (2..).map(|i| format!("{name}.{i}"));
        let free = std::iter::once(name.to_string()).chain(numbered).find(|n| !taken(n));
        let free = free.unwrap_or_else(|| name.to_string());
        self.given.insert(free.clone());
        free
    }
}

/// `name` with `_` for each character that the name of a leaf cannot have.
pub fn clean_leaf_name(name: &str) -> String {
    let fits = |c: char| is_leaf_name(c.encode_utf8(&mut [0; 4]));
    name.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

/// The output called `name` as a loss: a scalar of a dtype that carries a derivative. Else an error with its op and
/// location.
pub fn loss_by_name(g: Graph<'_>, name: &str) -> Result<Value> {
    let v = output_by_name(g, name)?;
    let complex = g.dtype[v.at()].is_complex();
    if g.dims(v).is_empty() && g.dtype[v.at()].is_differentiable() && !complex {
        return Ok(v);
    }
    let (op, ty) = (g.def_of(g.def[v.at()]).name, g.ty_text(v));
    let hint = match (complex, g.dims(v).is_empty()) {
        (true, _) => "a loss is real: take its real part, or |z|²",
        (false, true) => "cast what it is made of",
        (false, false) => "reduce it, as by its mean, or see vjp",
    };
    Err(underivable_error(
        g,
        v,
        format!("the loss {name:?}, made by {op}, is {ty}, not a scalar f32[] or f64[]; {hint}"),
    ))
}

/// An error of kind `Derivative` at the location of `v`.
pub fn underivable_error(g: Graph<'_>, v: Value, text: String) -> Error {
    Error::new(Kind::Derivative, text).at(g.location(g.def[v.at()]))
}

/// An error if an output or a leaf of `g` has one of `names`, which `what` gives to outputs. A second gradient by one
/// leaf must not hide behind a number while the name goes on meaning the first.
pub fn check_free_names(g: Graph<'_>, what: &str, names: impl IntoIterator<Item = String>) -> Result<()> {
    let signature = Signature::new(g);
    let taken = |n: &String| signature.outputs.contains_key(n.as_str()) || signature.has_leaf(n);
    let Some(name) = names.into_iter().find(taken) else { return Ok(()) };
    let text = format!(
        "{what}: {name:?} is in the graph already, from an earlier derivative perhaps; give that one another name \
         with rename({name:?}, …)"
    );
    Err(Error::new(Kind::Name, text))
}

/// A name that no leaf and no output of `g` has: `name`, or `name.2`, `name.3` ….
pub fn unused_name(g: Graph<'_>, name: &str) -> String {
    Signature::new(g).unused(name)
}
