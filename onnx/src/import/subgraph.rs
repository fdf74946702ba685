//! Graphs inside of nodes: the branches of `If`, the bodies of loops.

use super::cx::Cx;
use super::reader::{Reader, Scope};
use super::value::{Held, Val};
use crate::error::{Result, model};
use crate::proto::{GraphProto, NodeProto};
use arenagrad::graph::Var;
use std::cell::RefCell;

/// A graph inside of a node, and where it stands.
pub struct Subgraph<'c, 'g> {
    pub graph: &'c GraphProto,
    pub reader: &'c Reader<'c, 'g>,
    pub scope: &'c Scope<'c, 'g>,
}

impl<'c, 'g> Subgraph<'c, 'g> {
    /// The graph that is attribute `name` of the node.
    pub fn of(cx: &'c Cx<'c, 'g>, name: &str) -> Result<Subgraph<'c, 'g>> {
        let Some(graph) = cx.attr(name).and_then(|a| a.g.as_ref()) else {
            return cx.wrong(format!("the graph {name:?} is missing"));
        };
        let Some((reader, scope)) = cx.place else { return cx.wrong("a graph stands in no graph") };
        let s = Subgraph { graph, reader, scope };
        s.use_params(&graph.node);
        Ok(s)
    }

    /// Makes params of the initialisers that nodes read from outside. Params are values of the whole graph, so each is
    /// made outside of the region that reads it.
    fn use_params(&self, nodes: &[NodeProto]) {
        for node in nodes {
            for name in &node.input {
                if let Some(Held::Stored(name, t)) = self.scope.get(name).map(|v| v.held) {
                    self.reader.param(&name, &t, false);
                }
            }
            let inner = node.attribute.iter().flat_map(|a| a.g.iter().chain(&a.graphs));
            inner.for_each(|g| self.use_params(&g.node));
        }
    }

    /// The outputs of the graph for these inputs.
    pub fn run(&self, args: Vec<Val<'g>>) -> Result<Vec<Val<'g>>> {
        let inner = self.scope.inside()?;
        self.reader.initialisers(self.graph, &inner)?;
        if args.len() != self.graph.input.len() {
            let (has, takes) = (args.len(), self.graph.input.len());
            return model(format!("graph {:?} takes {takes} inputs; the node gives {has}", self.graph.name()));
        }
        for (input, val) in self.graph.input.iter().zip(args) {
            inner.set(input.name(), val)?;
        }
        self.reader.nodes(&self.graph.node, &inner)?;
        let out = |o: &crate::proto::ValueInfoProto| match inner.get(o.name()) {
            Some(val) => Ok(val),
            None => model(format!("nothing computes {:?}, an output of graph {:?}", o.name(), self.graph.name())),
        };
        self.graph.output.iter().map(out).collect()
    }

    /// As [`Subgraph::run`], with values of the graph; an error goes into `failed`.
    pub fn run_live(&self, cx: &Cx<'_, 'g>, args: Vec<Val<'g>>, failed: &Failed) -> Vec<Var<'g>> {
        let run = || self.run(args)?.iter().map(|v| cx.var(v, false)).collect::<Result<Vec<_>>>();
        run().unwrap_or_else(|e| {
            failed.borrow_mut().get_or_insert(e);
            Vec::new()
        })
    }
}

/// The first error inside of closures that return values.
pub type Failed = RefCell<Option<crate::error::Error>>;
