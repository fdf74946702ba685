//! What a program keeps of its methods for an export: graphs, and what was chosen for them.
//!
//! [`Program`](super::Program) holds it; [`agp`](super::agp) reads it.

use super::compiled_graph::{CompiledGraph, Decisions};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::text::{MAX_TEXT, PrintOptions, print_with};
use crate::nodes::{Graph, GraphBuf};

/// The largest graph, in bytes of its columns, that a program keeps for an export. Constants make graphs large.
const MOST_KEPT: usize = 32 << 20;

/// What an export writes of a method.
pub struct MethodSource {
    text: SourceText,
    /// The graph as it runs.
    pub graph: GraphBuf,
    pub decisions: Decisions,
}

/// A graph as its user gave it.
enum SourceText {
    Graph(Box<GraphBuf>),
    Text(String),
    /// It is not kept: its columns have this many bytes.
    TooLarge(usize),
}

impl MethodSource {
    /// Of the method that computes `g` by `ready`.
    pub fn of(g: Graph<'_>, ready: CompiledGraph) -> MethodSource {
        let text = match g.column_bytes() {
            ..=MOST_KEPT => {
                let Ok(copy) = GraphBuf::make(|bump| Ok::<_, std::convert::Infallible>(g.copied_to(bump)));
                SourceText::Graph(Box::new(copy))
            }
            bytes => SourceText::TooLarge(bytes),
        };
        MethodSource { text, decisions: ready.decisions(), graph: ready.graph }
    }

    /// Of a method whose graph is this text.
    pub fn of_text(text: String, ready: CompiledGraph) -> MethodSource {
        MethodSource { text: SourceText::Text(text), decisions: ready.decisions(), graph: ready.graph }
    }

    /// The graph as its user gave it, as text. An error if it is too large.
    pub fn text(&self) -> Result<String> {
        let large = |what: String| {
            let why = "make its large constants params or states, whose bytes are stored beside the graph";
            Error::new(Kind::Data, format!("{what}, too large to be exported: {why}"))
        };
        match &self.text {
            SourceText::Text(text) => Ok(text.clone()),
            SourceText::TooLarge(bytes) => Err(large(format!("the graph has {bytes} bytes"))),
            SourceText::Graph(g) => {
                let text = print_with(g.view(), PrintOptions { locations: true, ..PrintOptions::default() });
                if text.len() > MAX_TEXT {
                    Err(large(format!("the graph is a text of {} bytes", text.len())))
                } else {
                    Ok(text)
                }
            }
        }
    }
}
