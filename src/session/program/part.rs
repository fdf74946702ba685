//! What the methods of a program are made of, and what the program keeps of each.

use super::find_nan::NanFinder;
use crate::arena::Node;
use crate::error::{Location, Result};
use crate::nodes::Graph;
use crate::nodes::ops::control::written_by;
use crate::passes::lint::find_warnings;
use crate::sched::exec::Exec;
use crate::session::bindings::BindingIndex;
use crate::session::choices::Choices;
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

impl MethodData {
    /// The same method, for another program; no record of its steps.
    pub fn again(&self) -> MethodData {
        MethodData {
            name: self.name.clone(),
            index: self.index.clone(),
            named: self.named.clone(),
            origins: self.origins.clone(),
            report: self.report.clone(),
            tracer: None,
            finder: None,
        }
    }
}

/// The op and the source line that an instruction comes from, for error messages.
#[derive(Clone)]
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

impl<'r> Part<'r> {
    /// What runs `ready`, and the part of a program that it is: the method `name`, which computes `graph`.
    pub fn new(
        (name, graph): (&str, Graph<'_>),
        ready: &'r CompiledGraph,
        choices: &Choices,
        traced: bool,
    ) -> Result<(Exec, Part<'r>)> {
        let (exec, part) = Part::of_compiled(name, ready, choices, traced)?;
        let report = PlanReport { warnings: find_warnings(graph), ..part.report };
        Ok((exec, Part { report, ..part }))
    }

    /// As [`Part::new`], without the warnings about the graph as the user wrote it.
    pub fn of_compiled(
        name: &str,
        ready: &'r CompiledGraph,
        choices: &Choices,
        traced: bool,
    ) -> Result<(Exec, Part<'r>)> {
        // First, as it proves the tapes, which reports believe.
        let exec = ready.exec(choices)?;
        let report = ready.report();
        let (g, plan) = (ready.graph.view(), &ready.scheduled.plan);
        let origins = exec.nodes().iter().map(|&n| ProgramOrigin::of(&g, n)).collect();
        let tracer = traced.then(|| Tracer::new(&g, plan, &exec));
        let finder = choices.find_nan.then(|| Box::new(NanFinder::new(&g, plan)));
        Ok((exec, Part { name: name.to_string(), ready, origins, tracer, finder, report }))
    }
}
