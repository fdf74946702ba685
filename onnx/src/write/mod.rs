//! From a graph to the bytes of a model.
//!
//! Ops that the format has become its nodes. Any other op is replaced by its decomposition, until only ops of the
//! format are left.

mod index;
mod nodes;
mod rules;

use crate::error::{Error, Result, model};
use crate::proto::tensor_proto::DataType;
use crate::proto::{ModelProto, OperatorSetIdProto, TensorProto};
use crate::tensor::code_of;
use arenagrad::error::Kind;
use arenagrad::graph::{Graph, GraphBuf, LeafKind};
use arenagrad::session::Program;
use arenagrad::tools::arena::{Node, Value};
use arenagrad::tools::passes::rebuild::rebuild_buf;
use arenagrad::tools::passes::unfuse;
use nodes::Nodes;
use prost::Message;

/// The version of the default ops that models are written in.
const OPSET: i64 = 20;
/// The version of the format that has these ops.
const IR_VERSION: i64 = 9;
/// The most rounds of decompositions.
const ROUNDS: usize = 16;

/// The model of an inference graph: its inputs and outputs by their names, and its params and states as initialisers
/// with the values of `program`, which was compiled from it or from a graph with the same leaves.
///
/// # Errors
/// The graph updates params or states; a param has no value in `program`; an output has the name of another leaf; an op
/// has no counterpart, with its name.
pub fn write(graph: &GraphBuf, program: &Program) -> Result<Vec<u8>> {
    if !graph.view().updates.is_empty() {
        return model("the graph updates params or states: write the graph of inference, without the optimiser");
    }
    let graph = prepare(graph)?;
    let g = graph.view();
    if let Some(dtype) = g.dtype.iter().find(|d| code_of(**d) == DataType::Undefined) {
        return model(format!("the format has no elements of type {dtype}"));
    }
    let mut out = Nodes::new(g);
    for leaf in g.leaves() {
        match leaf.kind {
            LeafKind::Input => out.input(leaf.value),
            LeafKind::Param | LeafKind::State => {
                let tensor = initialiser(g, leaf.value, leaf.name, program)?;
                out.graph.initializer.push(tensor);
            }
            _ => return model(format!("leaf {:?} is of a kind that the format has not", leaf.name)),
        }
    }
    out.region(g.entry())?;
    for (&v, &name) in g.outputs().iter().zip(g.output_names) {
        let name = g.str(name);
        // One space of names holds all values of the format.
        if let Some(leaf) = g.leaves().find(|l| l.name == name && l.value != v) {
            return model(format!("{name:?} is an output and a leaf, {}: rename one of them", g.ty_text(leaf.value)));
        }
        out.output(v, name)?;
    }
    let mut proto = out.graph;
    proto.name = Some(g.str(g.name).to_string());
    let opset = OperatorSetIdProto { domain: Some(String::new()), version: Some(OPSET) };
    let whole = ModelProto {
        ir_version: Some(IR_VERSION),
        opset_import: vec![opset],
        producer_name: Some("arenagrad".into()),
        producer_version: Some(env!("CARGO_PKG_VERSION").into()),
        graph: Some(proto),
        ..ModelProto::default()
    };
    Ok(whole.encode_to_vec())
}

/// The graph in ops of the format.
fn prepare(graph: &GraphBuf) -> Result<GraphBuf> {
    let mut now = unfuse(graph)?;
    for _ in 0..ROUNDS {
        let mut changed = false;
        now = rebuild_buf(now.view(), &mut |v| {
            let known = rules::has(v.def.name) && rules::fits(v.src, v.node);
            let expand = v.def.decompose.filter(|_| !known)?;
            changed = true;
            Some(expand(&v.site(&[])))
        })?;
        if !changed {
            return Ok(now);
        }
    }
    model(format!("decompositions nest deeper than {ROUNDS}"))
}

/// A param or a state with its value.
fn initialiser(g: Graph<'_>, v: Value, name: &str, program: &Program) -> Result<TensorProto> {
    let found = program.persistent().find(|(b, _)| b.name == name && program.holds_value(name));
    let Some((b, bytes)) = found else {
        return model(format!("the program has no value for {name:?}: initialise or load it"));
    };
    let dims = g.dims(v);
    if b.dims != dims || b.dtype != g.dtype[v.0 as usize] {
        return model(format!("{name:?} is {}{} in the program; the graph has {}", b.dtype, b.dims, g.ty_text(v)));
    }
    Ok(TensorProto {
        name: Some(name.to_string()),
        data_type: Some(code_of(b.dtype) as i32),
        dims: dims.iter().map(|&n| n as i64).collect(),
        raw_data: Some(bytes.to_vec()),
        ..TensorProto::default()
    })
}

/// The error for a node that has no counterpart.
fn without(g: Graph<'_>, n: Node, why: &str) -> Error {
    let text = format!("{}: {why}, so the graph cannot be written", g.def_of(n).name);
    Error::Graph(arenagrad::Error::new(Kind::Verify, text).at(g.location(n)))
}
