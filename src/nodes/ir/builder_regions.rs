//! Regions as closures.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::ir::builder::{Builder, Routine, Var};
use crate::nodes::ir::dtype::Ty;

impl Builder {
    /// Builds a region called `name`. `f` gets its arguments, of types `args`, and returns its yields.
    #[track_caller]
    pub fn region<'g>(&'g self, name: &str, args: &[Ty], f: impl FnOnce(&[Var<'g>]) -> Vec<Var<'g>>) -> Routine<'g> {
        self.record_location();
        self.with(|e| e.open_region(name));
        let vars: Vec<_> = args.iter().map(|&ty| self.var(self.with(|e| e.region_arg(ty)))).collect();
        let yields = self.in_region("a region", || f(&vars));
        self.record_location();
        let yields: Vec<Value> = yields.iter().map(|v| self.local(*v)).collect();
        Routine { g: self, region: self.with(|e| e.close_region(&yields)) }
    }

    /// The number of iterations of the loop `what`, if it has one; without one, or with one too large, an error and 0.
    #[track_caller]
    pub(in crate::nodes) fn loop_length(&self, what: &str, length: Option<usize>) -> usize {
        let Some(length) = length else {
            let why = "the number of iterations is that of the first stacked input or a length";
            self.fail(Kind::Shape, format!("{what}: {why}"));
            return 0;
        };
        if i64::try_from(length).is_err() {
            self.fail(Kind::Shape, format!("{what}: length is {length}; it must be at most {}", i64::MAX));
            return 0;
        }
        length
    }

    /// Calls `f`, a closure that writes the open region of `what`. If `f` panics, the region is dropped, the panic goes
    /// on, and the graph has an error that says so.
    pub(in crate::nodes) fn in_region<R>(&self, what: &str, f: impl FnOnce() -> R) -> R {
        let mut guard = RegionGuard { g: self, what, depth: self.with(|e| e.open_regions()), track: self.track.get() };
        let result = f();
        guard.depth = 0;
        result
    }
}

/// Closes a region whose closure panics.
struct RegionGuard<'a> {
    g: &'a Builder,
    what: &'a str,
    /// Number of open regions, that of the closure included; 0 once it has returned.
    depth: usize,
    track: bool,
}

impl Drop for RegionGuard<'_> {
    fn drop(&mut self) {
        if self.depth > 0 {
            self.g.track.set(self.track);
            self.g.with(|e| e.abandon_region(self.depth, self.what));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::nodes::{Builder, DType, Loop, Var};
    use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

    const BROKEN: &str = "the closure's own";

    fn broken() -> ! {
        panic_any(BROKEN)
    }

    /// What `finish` says after `write` has panicked in one closure of it.
    fn told(write: impl for<'g> Fn(&'g Builder, Var<'g>)) -> String {
        let g = Builder::new("g");
        let x = g.input("x", [], DType::F32);
        let payload = catch_unwind(AssertUnwindSafe(|| write(&g, x))).unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&BROKEN));
        // The builder is in the entry again, and later regions are no second error.
        let y = g.scan_with(Loop::default().length(2), &[x], &[], |h, _| (vec![h[0] * 2.0], vec![])).0[0];
        g.finish([y.named("y")]).unwrap_err().message
    }

    #[test]
    fn a_closure_that_panics_leaves_an_error_that_says_so() {
        let why = |what: &str| format!("{what}: a closure that writes the graph panicked, so the graph is not whole");
        assert_eq!(told(|g, x| drop(g.scan_with(Loop::default().length(2), &[x], &[], |_, _| broken()))), why("scan"));
        assert_eq!(told(|g, x| drop(g.while_loop(&[x], 3, |x| x[0].less(1.0), |_| broken()))), why("while_loop"));
        assert_eq!(told(|g, x| drop(g.fori(x.cast(DType::I32), 3, &[x], |_, _| broken()))), why("fori"));
        assert_eq!(told(|g, x| drop(g.cond(x.less(1.0), || vec![x], || broken()))), why("if"));
        assert_eq!(told(|g, x| drop(g.custom_fn("f", &[x], |_| broken()).call())), why("custom_fn \"f\""));
        let rule = |g: &Builder, x: Var<'_>| {
            let _ = g.region("r", &[x.ty()], |_| broken());
        };
        assert_eq!(told(rule), why("a region"));
        let inner = |g: &Builder, x: Var<'_>| {
            let outer = || vec![g.scan_with(Loop::default().length(2), &[x], &[], |_, _| broken()).0[0]];
            g.cond(x.less(1.0), outer, || vec![x]);
        };
        assert_eq!(told(inner), why("scan"));
    }
}
