//! Layers in a row, numbered as torch numbers them.

use crate::nodes::{Builder, Var};

/// A row of layers under one name: layer `i` is called `name.i`, and each counts, with params or without.
///
/// ```
/// use arenagrad::prelude::*;
/// let g = Builder::new("net");
/// let x = g.input("x", [8, 4], DType::F32);
/// let y = nn::Sequential::new(&g, "net", x)
///     .then(|g, name, x| nn::linear(g, name, x, 16)) // net.0.weight, net.0.bias
///     .then(|_, _, x| x.relu())
///     .then(|g, name, x| nn::linear(g, name, x, 2)) // net.2.weight, net.2.bias
///     .output();
/// assert_eq!(*y.dims(), [8, 2]);
/// ```
#[derive(Clone)]
pub struct Sequential<'g> {
    g: &'g Builder,
    name: String,
    x: Var<'g>,
    next: usize,
}

impl<'g> Sequential<'g> {
    /// An empty row that `x` goes into; an empty name gives names without a prefix.
    pub fn new(g: &'g Builder, name: &str, x: Var<'g>) -> Sequential<'g> {
        Sequential { g, name: name.to_string(), x, next: 0 }
    }

    /// One more layer: a function of the builder, the layer's name and what came out of the last.
    #[track_caller]
    pub fn then(mut self, layer: impl FnOnce(&'g Builder, &str, Var<'g>) -> Var<'g>) -> Sequential<'g> {
        let dot = if self.name.is_empty() { "" } else { "." };
        self.x = layer(self.g, &format!("{}{dot}{}", self.name, self.next), self.x);
        self.next += 1;
        self
    }

    /// What comes out of the last layer.
    pub fn output(self) -> Var<'g> {
        self.x
    }
}
