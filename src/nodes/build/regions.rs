//! Regions as closures, and their calls.

use crate::arena::Value;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::builder::{Builder, Routine, Var, foreign};
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ir::results::Results;

impl Builder {
    /// Builds a region: `f` gets its arguments (of types `args`) and returns its yields.
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

    /// Calls a region.
    #[track_caller]
    pub fn call(&self, routine: Routine<'_>, args: &[Var<'_>]) -> Results<'_> {
        self.record_location();
        if !std::ptr::eq(self, routine.g) {
            self.with(|e| e.fail(foreign("call")));
            return Results::new(self, Vec::new());
        }
        self.emit(Op::CALL, args, &[Attr::Region(routine.region)])
    }
}
