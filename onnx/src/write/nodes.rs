//! The nodes of the model that is written.

use super::{rules, without};
use crate::error::Result;
use crate::proto::attribute_proto::AttributeType;
use crate::proto::tensor_shape_proto::{Dimension, dimension};
use crate::proto::{AttributeProto, GraphProto, NodeProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto};
use crate::proto::{tensor_proto, type_proto};
use crate::tensor::code_of;
use arenagrad::graph::{DType, Graph};
use arenagrad::tools::arena::{Node, Region, Value};
use std::collections::HashMap;

/// An attribute of a node of the format.
pub enum Given {
    Int(i64),
    Float(f64),
    Ints(Vec<i64>),
    Text(&'static str),
    Graph(Box<GraphProto>),
}

/// A graph of the format as it is written.
pub struct Nodes<'g> {
    pub g: Graph<'g>,
    pub graph: GraphProto,
    /// Names that values have instead of their own: what a body captures.
    names: HashMap<Value, String>,
    /// Numbers of values that no value of the graph stands for.
    fresh: usize,
    /// What begins the names of this graph, so that those of different bodies differ.
    prefix: String,
}

impl<'g> Nodes<'g> {
    pub fn new(g: Graph<'g>) -> Nodes<'g> {
        let mut prefix = String::new();
        let given = || g.leaves().map(|l| l.name).chain(g.output_names.iter().map(|&name| g.str(name)));
        let made =
            |rest: &str| rest.starts_with(['v', 't', 'b']) && rest[1..].starts_with(|c: char| c.is_ascii_digit());
        while given().any(|name| name.strip_prefix(&prefix).is_some_and(made)) {
            prefix.push('_');
        }
        Nodes { g, graph: GraphProto::default(), names: HashMap::new(), fresh: 0, prefix }
    }

    /// The name of a value. That of a leaf is its own.
    pub fn name(&self, v: Value) -> String {
        match (self.names.get(&v), self.g.leaf(v)) {
            (Some(name), _) => name.clone(),
            (None, Some((_, name))) => name.to_string(),
            (None, None) => format!("{}v{}", self.prefix, v.0),
        }
    }

    /// A name that no value has.
    pub fn fresh(&mut self) -> String {
        self.fresh += 1;
        format!("{}t{}", self.prefix, self.fresh)
    }

    /// Adds a node with these results.
    pub fn node_to(&mut self, op: &str, inputs: &[&str], outputs: Vec<String>, attrs: Vec<(&str, Given)>) {
        self.graph.node.push(NodeProto {
            op_type: Some(op.to_string()),
            name: outputs.first().cloned(),
            input: inputs.iter().map(|s| s.to_string()).collect(),
            output: outputs,
            attribute: attrs.into_iter().map(|(name, given)| attribute(name, given)).collect(),
            ..NodeProto::default()
        });
    }

    /// Adds a node with one result of a new name.
    pub fn node(&mut self, op: &str, inputs: &[&str], attrs: Vec<(&str, Given)>) -> String {
        let out = self.fresh();
        self.node_to(op, inputs, vec![out.clone()], attrs);
        out
    }

    /// A constant.
    pub fn constant(&mut self, dtype: DType, dims: &[usize], bytes: Vec<u8>) -> String {
        let name = self.fresh();
        self.graph.initializer.push(TensorProto {
            name: Some(name.clone()),
            data_type: Some(code_of(dtype) as i32),
            dims: dims.iter().map(|&n| n as i64).collect(),
            raw_data: Some(bytes),
            ..TensorProto::default()
        });
        name
    }

    /// A list of integers as a constant.
    pub fn ints(&mut self, list: &[i64]) -> String {
        self.constant(DType::I64, &[list.len()], list.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// One number of a dtype as a constant.
    pub fn number(&mut self, x: f64, dtype: DType) -> String {
        let bytes = match dtype {
            DType::F64 => x.to_le_bytes().to_vec(),
            DType::F32 => (x as f32).to_le_bytes().to_vec(),
            DType::F16 => half::f16::from_f64(x).to_le_bytes().to_vec(),
            DType::BF16 => half::bf16::from_f64(x).to_le_bytes().to_vec(),
            DType::Bool => vec![u8::from(x != 0.0)],
            // Integers in a dtype hold this number: the low bytes of the wider one are theirs.
            other => (x as i128 as u64).to_le_bytes()[..other.size()].to_vec(),
        };
        self.constant(dtype, &[], bytes)
    }

    /// Declares an input.
    pub fn input(&mut self, v: Value) {
        let info = self.info(&self.name(v), v);
        self.graph.input.push(info);
    }

    /// Declares an output of this name.
    pub fn output(&mut self, v: Value, name: &str) -> Result<()> {
        let from = self.name(v);
        if from != name {
            self.node_to("Identity", &[&from], vec![name.to_string()], Vec::new());
        }
        let info = self.info(name, v);
        self.graph.output.push(info);
        Ok(())
    }

    fn info(&self, name: &str, v: Value) -> ValueInfoProto {
        declaration(name, self.g.dtype[v.0 as usize], &self.g.dims(v))
    }

    /// Writes the nodes of a region.
    pub fn region(&mut self, r: Region) -> Result<()> {
        for n in self.g.region_nodes(r) {
            let def = self.g.def_of(n);
            if !def.is_leaf() {
                rules::write(self, n)?;
            }
        }
        Ok(())
    }

    /// The body of a loop as a graph of its own. Its first `carries` arguments and those after `consts` more are its
    /// inputs; the constants are the values `outer` of this graph.
    pub fn body(&mut self, r: Region, carries: usize, outer: &[String], at: Node) -> Result<GraphProto> {
        let args: Vec<Value> = self.g.region_args(r).collect();
        let consts = carries..carries + outer.len();
        if args.len() < consts.end {
            return Err(without(self.g, at, "its body has too few arguments"));
        }
        let mut inner = Nodes { prefix: format!("{}b{}_", self.prefix, at.0), ..Nodes::new(self.g) };
        for (i, &v) in args.iter().enumerate() {
            let name = match consts.contains(&i) {
                true => outer[i - carries].clone(),
                false => format!("{}a{i}", inner.prefix),
            };
            inner.names.insert(v, name);
        }
        for (_, &v) in args.iter().enumerate().filter(|(i, _)| !consts.contains(i)) {
            inner.input(v);
        }
        inner.region(r)?;
        for (k, &v) in self.g.region_yields(r).iter().enumerate() {
            let name = format!("{}y{k}", inner.prefix);
            inner.output(v, &name)?;
        }
        inner.graph.name = Some(format!("{}body", inner.prefix));
        Ok(inner.graph)
    }

    /// The names of a node's operands.
    pub fn args(&self, n: Node) -> Vec<String> {
        self.g.args_of(n).iter().map(|&v| self.name(v)).collect()
    }

    /// The names of a node's results.
    pub fn outs(&self, n: Node) -> Vec<String> {
        self.g.outs_of(n).map(|v| self.name(v)).collect()
    }
}

/// The declaration of an input or an output.
pub fn declaration(name: &str, dtype: DType, dims: &[usize]) -> ValueInfoProto {
    let dim = |&n: &usize| Dimension { value: Some(dimension::Value::DimValue(n as i64)), ..Dimension::default() };
    let tensor = type_proto::Tensor {
        elem_type: Some(code_of(dtype) as i32),
        shape: Some(TensorShapeProto { dim: dims.iter().map(dim).collect() }),
    };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: Some(name.to_string()), r#type: Some(ty), ..ValueInfoProto::default() }
}

fn attribute(name: &str, given: Given) -> AttributeProto {
    let mut a = AttributeProto { name: Some(name.to_string()), ..AttributeProto::default() };
    let kind = match given {
        Given::Int(i) => {
            a.i = Some(i);
            AttributeType::Int
        }
        Given::Float(x) => {
            a.f = Some(x as f32);
            AttributeType::Float
        }
        Given::Ints(list) => {
            a.ints = list;
            AttributeType::Ints
        }
        Given::Text(s) => {
            a.s = Some(s.as_bytes().to_vec());
            AttributeType::String
        }
        Given::Graph(g) => {
            a.g = Some(*g);
            AttributeType::Graph
        }
    };
    a.r#type = Some(kind as i32);
    a
}

/// The number of the format for a dtype.
pub fn code(dtype: DType) -> i64 {
    code_of(dtype) as tensor_proto::DataType as i64
}
