//! Scopes of the builder: the layer and the source line of nodes, shared leaves, and whether the graph is for training
//! or for evaluation.

use super::builder::Builder;
use crate::error::Location;
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

    /// Later nodes get the caller's line, unless a pass sets locations.
    #[track_caller]
    pub(in crate::nodes) fn record_location(&self) {
        if self.track.get() {
            self.come_from(panic::Location::caller());
        }
    }

    /// Sets `at` as the source location of later nodes. A pass calls it with the location of its own caller.
    pub fn come_from(&self, at: &panic::Location<'_>) {
        self.with(|e| {
            let file = e.strings.intern(at.file());
            e.set_location(Location::Source(file, at.line()));
        });
    }

    /// Later nodes get the line that those of `other` have now.
    pub(super) fn come_from_line_of(&self, other: &Builder) {
        if let Location::Source(file, line) = other.with(|e| e.location()) {
            self.with(|e| {
                let file = e.strings.intern(&file);
                e.set_location(Location::Source(file, line));
            });
        }
    }

    /// Calls `f`. All its nodes get the line of the caller of this method, because `track_caller` does not reach into
    /// closures.
    #[track_caller]
    pub fn with_caller<R>(&self, f: impl FnOnce() -> R) -> R {
        self.with_location(panic::Location::caller(), f)
    }

    /// Calls `f`. All its nodes get the line `at`, unless a scope around this one or a pass sets locations.
    pub(in crate::nodes) fn with_location<R>(&self, at: &panic::Location<'_>, f: impl FnOnce() -> R) -> R {
        if self.track.get() {
            self.come_from(at);
        }
        let track = self.track.replace(false);
        let result = f();
        self.track.set(track);
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

    /// Whether later layers are built for training (the default) or for evaluation, as `train()` and `eval()` of
    /// torch's modules. For evaluation, the dropout of [`nn`](crate::nn)'s layers is the identity, and batch norm reads
    /// its running statistics. So one function builds both networks.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    ///
    /// let net = |g: &Builder, training: bool| {
    ///     g.training(training);
    ///     let x = g.input("x", [8, 4], DType::F32);
    ///     let h = nn::dropout(nn::linear(g, "fc1", x, 16).relu(), 0.5);
    ///     nn::linear(g, "fc2", h, 2).tap("y");
    /// };
    /// let [learn, eval] = [true, false].map(|training| {
    ///     let g = Builder::new("net");
    ///     net(&g, training);
    ///     g.finish([])
    /// });
    /// let (learn, eval) = (learn?, eval?);
    /// let mut p = Session::new().compile_all(&[("learn", &learn), ("eval", &eval)])?;
    /// # p.init(0)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn training(&self, on: bool) {
        self.training.set(on);
    }

    /// What [`Builder::training`] said last.
    pub fn is_training(&self) -> bool {
        self.training.get()
    }
}
