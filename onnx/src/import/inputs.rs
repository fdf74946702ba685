//! The inputs of a model.

use super::cx::unsupported;
use super::reader::{Reader, Scope};
use super::value::{Held, Val};
use crate::error::{Error, Result, model};
use crate::proto::tensor_shape_proto::dimension::Value as Dim;
use crate::proto::type_proto::Value as Type;
use crate::proto::{GraphProto, NodeProto, ValueInfoProto};
use crate::tensor::{bytes_of, dims_of, dtype_of};
use arenagrad::graph::DType;

/// Declares each input of the graph that is no initialiser, or makes it known if its value is given.
pub fn declare_inputs<'g>(reader: &Reader<'_, 'g>, graph: &GraphProto, scope: &Scope<'_, 'g>) -> Result<()> {
    let names: Vec<&str> = graph.input.iter().map(ValueInfoProto::name).collect();
    if let Some((name, _)) = reader.options.values.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        return model(format!("a value is given for {name:?}, which is no input of the model"));
    }
    for input in &graph.input {
        let name = input.name();
        if matches!(scope.get(name).map(|v| v.held), Some(Held::Known(_) | Held::Stored(..))) {
            continue;
        }
        if let Some((_, t)) = reader.options.values.iter().find(|(given, _)| given == name) {
            scope.set(name, Val::known(t.clone()))?;
            continue;
        }
        let reads = |n: &&NodeProto| n.input.iter().any(|read| read == name);
        let (dtype, dims) = tensor_type(reader, input, graph.node.iter().find(reads), scope)?;
        let v = reader.g.at_source(name, 0, || reader.g.input(name, dims, dtype));
        if let Some(e) = reader.g.error() {
            return Err(e.into());
        }
        reader.inputs.borrow_mut().insert(name.to_string());
        scope.set(name, Val::live(v))?;
    }
    Ok(())
}

/// The dtype and the shape of an input.
fn tensor_type(
    reader: &Reader<'_, '_>,
    input: &ValueInfoProto,
    reads: Option<&NodeProto>,
    scope: &Scope<'_, '_>,
) -> Result<(DType, Vec<usize>)> {
    let name = input.name();
    let refuse = |why: String| {
        let none = NodeProto { op_type: Some("input".into()), output: vec![name.to_string()], ..NodeProto::default() };
        let node = reads.unwrap_or(&none);
        Err(unsupported(node, reader.opset(node, scope), format!("input {name:?}: {why}")))
    };
    let tensor = match input.r#type.as_ref().and_then(|t| t.value.as_ref()) {
        Some(Type::TensorType(t)) => t,
        Some(Type::SequenceType(_)) => return refuse("a sequence cannot be an input".into()),
        Some(Type::OptionalType(_)) => return refuse("an optional value cannot be an input".into()),
        _ => return refuse("only tensors can be inputs".into()),
    };
    let dtype = match dtype_of(tensor.elem_type()) {
        Ok(dtype) => dtype,
        Err(why) => return refuse(why),
    };
    let Some(shape) = &tensor.shape else { return model(format!("input {name:?} has no shape")) };
    let size = |(axis, dim): (usize, &Option<Dim>)| match dim {
        Some(Dim::DimValue(n)) => Ok(*n),
        Some(Dim::DimParam(symbol)) if !symbol.is_empty() => asked(reader, symbol, name, axis),
        _ => asked(reader, &format!("{name}.{axis}"), name, axis),
    };
    let dims = shape.dim.iter().map(|d| &d.value).enumerate().map(size).collect::<Result<Vec<i64>>>()?;
    let dims = dims_of(&dims).map_err(|why| Error::Model(format!("input {name:?}: {why}")))?;
    match bytes_of(dtype, &dims) {
        Some(_) => Ok((dtype, dims)),
        None => model(format!("input {name:?}: {dims:?} is too large")),
    }
}

/// The size that is asked for the symbol.
fn asked(reader: &Reader<'_, '_>, symbol: &str, input: &str, axis: usize) -> Result<i64> {
    let given = reader.options.sizes.iter().find(|(name, _)| name == symbol).map(|(_, n)| *n);
    match given.or(reader.options.batch.filter(|_| axis == 0)) {
        Some(n) => Ok(i64::try_from(n).unwrap_or(i64::MAX)),
        None => model(format!("axis {axis} of input {input:?} has no size: give one for {symbol:?}")),
    }
}
