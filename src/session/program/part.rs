//! What the methods of a program are made of, and what the program keeps of each.

use super::find_nan::NanFinder;
use crate::arena::Node;
use crate::error::Location;
use crate::nodes::Graph;
use crate::nodes::ops::control::written_by;
use crate::session::bindings::BindingIndex;
use crate::session::compiled_graph::CompiledGraph;
use crate::session::plan_report::PlanReport;
use crate::session::tracer::Tracer;

/// A method of a program.
pub struct MethodData {
    pub name: String,
    /// Its inputs and outputs, and all params and states of the program.
    pub index: BindingIndex,
    /// Its inputs, params, states and outputs, as indices of bindings, in the graph's order.
    pub named: Vec<u32>,
    /// Of each instruction.
    pub origins: Vec<ProgramOrigin>,
    pub report: PlanReport,
    pub tracer: Option<Tracer>,
    pub finder: Option<Box<NanFinder>>,
}

/// The op and the source line that an instruction comes from, for error messages.
pub struct ProgramOrigin {
    pub op: &'static str,
    pub location: Location,
}

impl ProgramOrigin {
    /// The origin of an instruction of node `n`. If there is no node, the instruction updates a leaf.
    pub fn of(g: &Graph<'_>, n: Node) -> ProgramOrigin {
        match n.is_some() {
            true => ProgramOrigin { op: written_by(*g, n), location: g.location(n) },
            false => ProgramOrigin { op: "update", location: Location::Nowhere },
        }
    }
}

/// What one method of a program is made of.
pub struct Part<'r> {
    pub name: String,
    pub ready: &'r CompiledGraph,
    /// Of each instruction.
    pub origins: Vec<ProgramOrigin>,
    pub tracer: Option<Tracer>,
    pub finder: Option<Box<NanFinder>>,
    pub report: PlanReport,
}
