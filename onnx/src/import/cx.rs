//! What the rule of an op sees of its node: operands, attributes, the opset.

use super::reader::{Reader, Scope};
use super::value::{Held, Val, computed_in};
use crate::error::{Error, Result};
use crate::proto::{AttributeProto, NodeProto};
use crate::tensor::{Tensor, dtype_of};
use arenagrad::graph::{Builder, DType, Var};
use std::rc::Rc;

/// The results of a node.
pub type Out<'g> = Result<Vec<Var<'g>>>;

/// One result.
pub fn one(v: Var<'_>) -> Out<'_> {
    Ok(vec![v])
}

/// A node and its operands.
pub struct Cx<'c, 'g> {
    pub g: &'g Builder,
    pub node: &'c NodeProto,
    pub args: Vec<Option<Val<'g>>>,
    /// The version of the op's domain that the model asks for.
    pub opset: i64,
    /// Whether operands come as they are stored, not in the dtype in which kernels compute.
    pub raw: bool,
    /// The reader and the scope; a node that is computed while reading has none.
    pub place: Option<(&'c Reader<'c, 'g>, &'c Scope<'c, 'g>)>,
}

impl<'g> Cx<'_, 'g> {
    /// An error for what there is no rule for.
    pub fn refuse<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(unsupported(self.node, self.opset, why))
    }

    /// An error of the model.
    pub fn wrong<T>(&self, why: impl std::fmt::Display) -> Result<T> {
        Err(Error::Model(format!("{}: {why}", describe(self.node))))
    }

    /// Whether operand `i` is there.
    pub fn has(&self, i: usize) -> bool {
        self.args.get(i).is_some_and(Option::is_some)
    }

    /// Operand `i`.
    pub fn val(&self, i: usize) -> Result<&Val<'g>> {
        match self.args.get(i) {
            Some(Some(v)) => Ok(v),
            _ => self.wrong(format!("operand {i} is missing")),
        }
    }

    /// Whether the node has a result `i` that is read.
    pub fn wants(&self, i: usize) -> bool {
        self.node.output.get(i).is_some_and(|name| !name.is_empty())
    }

    /// The dtype that the model gives operand `i`.
    pub fn dtype(&self, i: usize) -> Result<DType> {
        Ok(self.val(i)?.dtype)
    }

    /// The shape of operand `i`.
    pub fn dims(&self, i: usize) -> Result<Vec<usize>> {
        self.val(i)?.dims()
    }

    /// Operand `i` as a value of the graph, in the dtype in which kernels compute.
    pub fn x(&self, i: usize) -> Result<Var<'g>> {
        let v = self.stored(i)?;
        Ok(if self.raw { v } else { v.cast(computed_in(v.dtype())) })
    }

    /// Operand `i` as a value of the graph, in its own dtype.
    pub fn stored(&self, i: usize) -> Result<Var<'g>> {
        self.var(self.val(i)?, false)
    }

    /// Operand `i` as [`Cx::x`]; training does not change it if it is an initialiser.
    pub fn frozen(&self, i: usize) -> Result<Var<'g>> {
        let v = self.var(self.val(i)?, true)?;
        Ok(v.cast(computed_in(v.dtype())))
    }

    /// `val` as a value of the graph.
    pub fn var(&self, val: &Val<'g>, frozen: bool) -> Result<Var<'g>> {
        match (&val.held, self.place) {
            (Held::Stored(name, t), Some((reader, _))) => Ok(reader.param(name, t, frozen)),
            (Held::Known(t) | Held::Stored(_, t), _) => Ok(self.constant(t)),
            (Held::Live(v), _) => Ok(*v),
            (Held::List(_) | Held::Absent, _) => {
                self.refuse("a sequence or an optional value stands where a tensor must")
            }
        }
    }

    /// A tensor as a constant of the graph.
    pub fn constant(&self, t: &Tensor) -> Var<'g> {
        self.g.constant_bytes(&t.bytes, &t.dims, t.dtype)
    }

    /// Operand `i` as [`Cx::x`], if it is there.
    pub fn opt(&self, i: usize) -> Result<Option<Var<'g>>> {
        if self.has(i) { self.x(i).map(Some) } else { Ok(None) }
    }

    /// All operands as [`Cx::x`].
    pub fn xs(&self) -> Result<Vec<Var<'g>>> {
        (0..self.args.len()).map(|i| self.x(i)).collect()
    }

    /// The elements of operand `i`, which shapes depend on. An error that names inputs if they are not known.
    pub fn known(&self, i: usize) -> Result<Rc<Tensor>> {
        match (&self.val(i)?.held, self.place) {
            (Held::Known(t) | Held::Stored(_, t), _) => Ok(t.clone()),
            (_, Some((reader, scope))) => {
                let name = &self.node.input[i];
                let inputs = reader.inputs_behind(scope, name);
                let what = format!("operand {i} of {}", describe(self.node));
                if inputs.is_empty() {
                    return self.refuse(format!("operand {i} is known only when a step runs"));
                }
                Err(Error::Values { inputs, what })
            }
            (_, None) => self.wrong(format!("operand {i} is no tensor")),
        }
    }

    /// The elements of operand `i` as integers.
    pub fn ints(&self, i: usize) -> Result<Vec<i64>> {
        let t = self.known(i)?;
        t.ints().map_or_else(|| self.wrong(format!("operand {i} is {}; integers are needed", t.dtype)), Ok)
    }

    /// The elements of operand `i` as numbers.
    pub fn numbers(&self, i: usize) -> Result<Vec<f64>> {
        let t = self.known(i)?;
        t.floats().map_or_else(|| self.wrong(format!("operand {i} is {}; numbers are needed", t.dtype)), Ok)
    }

    /// The one element of operand `i`.
    pub fn number(&self, i: usize) -> Result<f64> {
        match self.numbers(i)?[..] {
            [x] => Ok(x),
            ref all => self.wrong(format!("operand {i} has {} elements; one is needed", all.len())),
        }
    }

    /// The one element of operand `i`, an integer.
    pub fn integer(&self, i: usize) -> Result<i64> {
        match self.ints(i)?[..] {
            [x] => Ok(x),
            ref all => self.wrong(format!("operand {i} has {} elements; one is needed", all.len())),
        }
    }

    pub fn attr(&self, name: &str) -> Option<&AttributeProto> {
        self.node.attribute.iter().find(|a| a.name() == name)
    }

    /// An integer attribute.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        self.attr(name).map_or(default, AttributeProto::i)
    }

    /// A flag.
    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.int(name, default.into()) != 0
    }

    /// A number.
    pub fn float(&self, name: &str, default: f64) -> f64 {
        self.attr(name).map_or(default, |a| shortest(a.f()))
    }

    /// A string.
    pub fn text<'s>(&'s self, name: &str, default: &'s str) -> &'s str {
        self.attr(name).map_or(default, |a| std::str::from_utf8(a.s()).unwrap_or("?"))
    }

    /// A list of integers.
    pub fn list(&self, name: &str) -> Option<Vec<i64>> {
        self.attr(name).map(|a| a.ints.clone())
    }

    /// A list of sizes.
    pub fn sizes(&self, name: &str) -> Result<Option<Vec<usize>>> {
        let Some(all) = self.list(name) else { return Ok(None) };
        crate::tensor::dims_of(&all).map(Some).or_else(|why| self.wrong(format!("{name}: {why}")))
    }

    /// A dtype.
    pub fn dtype_attr(&self, name: &str) -> Result<Option<DType>> {
        let Some(a) = self.attr(name) else { return Ok(None) };
        dtype_of(a.i() as i32).map(Some).or_else(|why| self.refuse(why))
    }

    /// A list of integers that is an attribute in old versions and operand `i` in new ones.
    pub fn list_or(&self, name: &str, i: usize) -> Result<Option<Vec<i64>>> {
        if self.has(i) { self.ints(i).map(Some) } else { Ok(self.list(name)) }
    }

    /// `axis` of a shape of rank `rank`.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let at = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        match usize::try_from(at) {
            Ok(at) if at < rank => Ok(at),
            _ => self.wrong(format!("axis {axis} is outside rank {rank}")),
        }
    }

    /// `axes` of a shape of rank `rank`.
    pub fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>> {
        axes.iter().map(|&a| self.axis(a, rank)).collect()
    }
}

/// A number as the decimal fraction that it was written as: 0.1, and not the `f32` nearest to it, where both are the
/// same `f32`.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

/// The node, for messages.
pub fn describe(node: &NodeProto) -> String {
    format!("{} (node {:?})", op_name(node), label(node))
}

/// The node's name, or else its first output.
pub fn label(node: &NodeProto) -> &str {
    match node.name() {
        "" => node.output.first().map_or("", String::as_str),
        name => name,
    }
}

/// The op, with its domain unless that is the default one.
pub fn op_name(node: &NodeProto) -> String {
    match node.domain() {
        "" | "ai.onnx" => node.op_type().to_string(),
        domain => format!("{domain}.{}", node.op_type()),
    }
}

/// The error for what there is no rule for.
pub fn unsupported(node: &NodeProto, opset: i64, why: impl Into<String>) -> Error {
    Error::Unsupported { op: op_name(node), opset, node: label(node).to_string(), why: why.into() }
}
