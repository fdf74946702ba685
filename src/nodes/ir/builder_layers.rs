//! Layers of the builder: the layer that nodes belong to, and leaves that several uses of a layer share.

use super::builder::Builder;
use std::panic;

impl Builder {
    /// Calls `f`, which builds the layer called `name`: an error of its nodes begins with `layer "name": `. Inside
    /// nested layers, the error names the innermost one. All layers of [`nn`](crate::nn) do this.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    ///
    /// let g = Builder::new("net");
    /// let x = g.input("x", [2, 3], DType::F32);
    /// let y = g.layer("head", || x.matmul(x));
    /// let e = g.finish([y]).unwrap_err().to_string();
    /// assert!(e.starts_with("layer \"head\": matmul(f32[2,3], f32[2,3]): "), "{e}");
    /// ```
    pub fn layer<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        self.with(|e| e.enter_layer(name));
        let result = f();
        self.with(|e| e.leave_layer());
        result
    }

    /// [`Builder::layer`], all of whose nodes get the caller's line.
    #[track_caller]
    pub(crate) fn layer_scope<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        self.with_caller(|| self.layer(name, f))
    }

    /// [`Builder::layer`], all of whose nodes come from `at`: for a closure that a layer returns, because
    /// `track_caller` does not reach into closures.
    pub(crate) fn layer_at<R>(&self, at: &panic::Location<'_>, name: &str, f: impl FnOnce() -> R) -> R {
        self.with_location(at, || self.layer(name, f))
    }

    /// Calls `f`. In it, a leaf (input, param or state) whose name is taken is the leaf that has the name. So a layer
    /// may be applied to several values: the twins of a Siamese network, tied weights. A leaf that is new is added as
    /// always. Kind, shape, dtype and start values must be those of the first: a difference is an error that names both
    /// places.
    ///
    /// Gradients of all uses add up. A batch norm that is applied twice updates its running statistics twice, in the
    /// order of the calls; each dropout draws a mask of its own. Outside of this scope, two leaves of one name are an
    /// error.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    ///
    /// let g = Builder::new("twins");
    /// let [a, b] = ["a", "b"].map(|name| g.input(name, [8, 4], DType::F32));
    /// let embed = |x| nn::linear(&g, "fc", x, 2).tanh();
    /// let far = g.reuse(|| embed(a) - embed(b)).abs(); // one fc.weight, one fc.bias
    /// assert!(g.finish([far]).is_ok());
    /// ```
    pub fn reuse<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.with(|e| e.share_leaves(true));
        let result = f();
        self.with(|e| e.share_leaves(before));
        result
    }
}
