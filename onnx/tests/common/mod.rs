//! Messages that tests of models are made of.

use arenagrad_onnx::proto::tensor_proto::DataType;
use arenagrad_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use arenagrad_onnx::proto::*;
use arenagrad_onnx::{Error, Import, Options, read};
use prost::Message;

pub fn value(name: &str, dtype: DataType, dims: &[i64]) -> ValueInfoProto {
    let dim = |&n: &i64| Dimension { value: Some(dimension::Value::DimValue(n)), ..Dimension::default() };
    let shape = TensorShapeProto { dim: dims.iter().map(dim).collect() };
    let tensor = type_proto::Tensor { elem_type: Some(dtype as i32), shape: Some(shape) };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: Some(name.into()), r#type: Some(ty), ..ValueInfoProto::default() }
}

pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let names = |all: &[&str]| all.iter().map(|s| s.to_string()).collect();
    NodeProto { op_type: Some(op.into()), input: names(inputs), output: names(outputs), ..NodeProto::default() }
}

pub fn model(graph: GraphProto, opset: i64) -> ModelProto {
    let opset = OperatorSetIdProto { domain: None, version: Some(opset) };
    ModelProto { ir_version: Some(9), opset_import: vec![opset], graph: Some(graph), ..ModelProto::default() }
}

pub fn reading(m: &ModelProto) -> Result<Import, Error> {
    read(&m.encode_to_vec(), &Options::default())
}
