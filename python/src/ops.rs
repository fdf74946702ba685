//! The table of ops, from which `tools/write_ops` makes methods and stubs.

use crate::error::refuse;
use arenagrad::op::{Arity, Field, Kind};
use arenagrad::tools::ops::table::OPS;
use pyo3::prelude::*;

/// An op: name, formula, least and most operands (−1 for any number), attributes with their kinds and whether they are
/// optional.
type Row = (&'static str, &'static str, i64, i64, Vec<(&'static str, String, bool)>);

fn kind_word(kind: Kind) -> PyResult<String> {
    Ok(match kind {
        Kind::Bool => "bool".to_string(),
        Kind::Int => "int".to_string(),
        Kind::F64 => "float".to_string(),
        Kind::DType => "DTypeLike".to_string(),
        Kind::Shape | Kind::Ints => "Sequence[int]".to_string(),
        Kind::Floats => "Sequence[float]".to_string(),
        Kind::Sym => "str".to_string(),
        Kind::Region => "region".to_string(),
        Kind::Bytes => "bytes".to_string(),
        Kind::Choice(_) => "str".to_string(),
        other => return Err(unknown(other)),
    })
}

/// The error of a definition that says what has no word in Python.
fn unknown(what: impl std::fmt::Debug) -> PyErr {
    refuse(arenagrad::error::Kind::Syntax, format!("{what:?} has no word in Python"))
}

/// All ops but leaves.
#[pyfunction]
pub fn _op_table() -> PyResult<Vec<Row>> {
    let leaves = ["input", "param", "state", "arg"];
    let row = |def: &&arenagrad::op::OpDef| {
        let (least, most) = match def.arity {
            Arity::Exactly(n) => (n as i64, n as i64),
            Arity::Between(a, b) => (a as i64, b as i64),
            Arity::AtLeast(n) => (n as i64, -1),
            other => return Err(unknown(other)),
        };
        let attr = |f: &Field| Ok((f.name, kind_word(f.kind)?, f.optional));
        Ok((def.name, def.doc, least, most, def.attrs.iter().map(attr).collect::<PyResult<_>>()?))
    };
    OPS.iter().filter(|def| !leaves.contains(&def.name)).map(row).collect()
}
