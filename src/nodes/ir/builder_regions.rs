//! Regions as closures.

use crate::arena::Value;
use crate::nodes::ir::builder::{Builder, Routine, Var};
use crate::nodes::ir::dtype::Ty;

impl Builder {
    /// Builds a region called `name`. `f` gets its arguments, of types `args`, and returns its yields.
    #[track_caller]
    pub fn region<'g>(&'g self, name: &str, args: &[Ty], f: impl FnOnce(&[Var<'g>]) -> Vec<Var<'g>>) -> Routine<'g> {
        self.record_location();
        self.with(|e| e.open_region(name));
        let vars: Vec<_> = args.iter().map(|&ty| self.var(self.with(|e| e.region_arg(ty)))).collect();
        let yields = f(&vars);
        self.record_location();
        let yields: Vec<Value> = yields.iter().map(|v| self.local(*v)).collect();
        Routine { g: self, region: self.with(|e| e.close_region(&yields)) }
    }
}
