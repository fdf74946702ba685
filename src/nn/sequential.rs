//! Layers one after the other, numbered as torch numbers them.

use crate::nodes::{Builder, Var};

/// Layers one after the other, as in `torch.nn.Sequential`: layer `i` is called `name.i`. Layers without params count,
/// too.
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
    /// No layers yet; `x` is the input. An empty name gives names without a prefix.
    pub fn new(g: &'g Builder, name: &str, x: Var<'g>) -> Sequential<'g> {
        Sequential { g, name: name.to_string(), x, next: 0 }
    }

    /// Adds a layer: a function of the builder, the layer's name and the previous layer's output.
    #[track_caller]
    pub fn then(mut self, layer: impl FnOnce(&'g Builder, &str, Var<'g>) -> Var<'g>) -> Sequential<'g> {
        let dot = if self.name.is_empty() { "" } else { "." };
        let name = format!("{}{dot}{}", self.name, self.next);
        self.x = self.g.layer(&name, || layer(self.g, &name, self.x));
        self.next += 1;
        self
    }

    /// The last layer's output.
    pub fn output(self) -> Var<'g> {
        self.x
    }
}
