//! Nodes of classical learning with their attributes, and what models of one such node give.

use super::common::{model, node, reading, value};
use arenagrad::session::Session;
use arenagrad_onnx::proto::tensor_proto::DataType;
use arenagrad_onnx::proto::*;

pub fn attribute(name: &str) -> AttributeProto {
    AttributeProto { name: Some(name.into()), ..AttributeProto::default() }
}

pub fn numbers(name: &str, all: &[f32]) -> AttributeProto {
    AttributeProto { floats: all.to_vec(), ..attribute(name) }
}

pub fn integers(name: &str, all: &[i64]) -> AttributeProto {
    AttributeProto { ints: all.to_vec(), ..attribute(name) }
}

pub fn text(name: &str, s: &str) -> AttributeProto {
    AttributeProto { s: Some(s.into()), ..attribute(name) }
}

/// A model of one node that takes rows `x` of two columns; results are of `f32`, but for a `label`.
pub fn of_one(op: &str, outputs: &[&str], attributes: Vec<AttributeProto>, rows: usize) -> ModelProto {
    let node = NodeProto { domain: Some("ai.onnx.ml".into()), attribute: attributes, ..node(op, &["x"], outputs) };
    let dtype = |name: &&str| if *name == "label" { DataType::Int64 } else { DataType::Float };
    let graph = GraphProto {
        node: vec![node],
        input: vec![value("x", DataType::Float, &[rows as i64, 2])],
        output: outputs.iter().map(|name| value(name, dtype(name), &[])).collect(),
        ..GraphProto::default()
    };
    let mut m = model(graph, 17);
    m.opset_import.push(OperatorSetIdProto { domain: Some("ai.onnx.ml".into()), version: Some(5) });
    m
}

pub fn results(m: &ModelProto, x: &[f32]) -> (Vec<f32>, Vec<i64>) {
    let mut p = Session::new().compile(&reading(m).unwrap().graph).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(x);
    p.step().unwrap();
    let labels = p.values::<i64>("label").map(<[i64]>::to_vec).unwrap_or_default();
    (p.values::<f32>("y").unwrap().to_vec(), labels)
}
