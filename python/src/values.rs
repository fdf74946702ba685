//! Python values as the library's: element types, shapes, attributes.

use crate::error::refuse;
use arenagrad::error::Kind;
use arenagrad::graph::{DType, Given, Init};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};

/// NumPy's name of an element type. `bf16` has none; its bits are read as integers.
pub fn numpy_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::F16 => "float16",
        DType::BF16 | DType::U16 => "uint16",
        DType::I8 => "int8",
        DType::U8 => "uint8",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U32 => "uint32",
        DType::Bool => "bool",
        DType::I16 => "int16",
        DType::U64 => "uint64",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
        // NumPy refuses a name that it does not know.
        other => other.name(),
    }
}

/// The element type that `value` names: `"f32"`, `"float32"`, `np.float32` or `np.dtype("float32")`.
pub fn dtype_of(value: &Bound<'_, PyAny>) -> PyResult<DType> {
    let name: String = match value.cast::<PyString>() {
        Ok(text) => text.to_cow()?.into_owned(),
        Err(_) => {
            let name = value.getattr_opt(intern!(value.py(), "name"))?;
            match name.or(value.getattr_opt(intern!(value.py(), "__name__"))?) {
                Some(name) => name.extract()?,
                None => return Err(PyTypeError::new_err(format!("{value} is no element type"))),
            }
        }
    };
    let found = DType::parse(&name).or_else(|| match name.as_str() {
        "uint16" => Some(DType::U16),
        "bool_" => Some(DType::Bool),
        "bfloat16" => Some(DType::BF16),
        _ => DType::ALL.iter().copied().find(|&d| numpy_name(d) == name),
    });
    let known = DType::ALL.iter().map(|d| d.name()).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| refuse(Kind::Syntax, format!("there is no element type {name:?}; there are {known}")))
}

/// Integers: one or a sequence.
pub fn ints_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    value.extract::<i64>().map(|one| vec![one]).or_else(|_| value.extract())
}

/// A number of Python, `None` for what is none. An error for an integer that has no `f64`: graphs would hold another.
pub fn number_of(value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    let Ok(x) = value.extract::<f64>() else { return Ok(None) };
    // Integers of NumPy and of torch, too.
    let exact = value.call_method0("__index__").map_or(Ok(true), |whole| whole.eq(x))?;
    if !exact {
        let text =
            format!("{value} is beyond the integers that numbers of a graph hold; constant(…, \"i64\") holds it");
        return Err(refuse(Kind::Data, text));
    }
    Ok(Some(x))
}

/// A size, which is no number below 0.
pub fn size_of(size: i64) -> PyResult<usize> {
    usize::try_from(size).map_err(|_| refuse(Kind::Shape, format!("a size is {size}; it must be 0 or more")))
}

/// Sizes: an integer or a sequence of integers.
pub fn dims_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    ints_of(value)?.into_iter().map(size_of).collect()
}

/// An attribute that owns its value.
pub enum OwnedAttr {
    Bool(bool),
    Int(i64),
    F64(f64),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Bytes(Vec<u8>),
    Text(String),
}

impl OwnedAttr {
    pub fn as_given(&self) -> Given<'_> {
        match self {
            OwnedAttr::Bool(b) => Given::Bool(*b),
            OwnedAttr::Int(i) => Given::Int(*i),
            OwnedAttr::F64(x) => Given::F64(*x),
            OwnedAttr::Ints(list) => Given::Ints(list),
            OwnedAttr::Floats(list) => Given::Floats(list),
            OwnedAttr::Bytes(bytes) => Given::Bytes(bytes),
            OwnedAttr::Text(text) => Given::Text(text),
        }
    }

    fn of(value: &Bound<'_, PyAny>) -> PyResult<OwnedAttr> {
        if value.is_instance_of::<PyBool>() {
            return Ok(OwnedAttr::Bool(value.extract()?));
        }
        if value.is_instance_of::<PyInt>() {
            return Ok(OwnedAttr::Int(value.extract()?));
        }
        if value.is_instance_of::<PyFloat>() {
            return Ok(OwnedAttr::F64(value.extract()?));
        }
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(OwnedAttr::Bytes(bytes.as_bytes().to_vec()));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(OwnedAttr::Text(text.to_cow()?.into_owned()));
        }
        if let Ok(ints) = value.extract::<Vec<i64>>() {
            return Ok(OwnedAttr::Ints(ints));
        }
        if let Ok(floats) = value.extract::<Vec<f64>>() {
            return Ok(OwnedAttr::Floats(floats));
        }
        Ok(OwnedAttr::Text(dtype_of(value)?.name().to_string()))
    }
}

/// Attributes from keyword arguments; those that are `None` are absent.
pub fn given_attrs(attributes: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, OwnedAttr)>> {
    let mut all = Vec::new();
    for (name, value) in attributes.into_iter().flatten() {
        if !value.is_none() {
            all.push((name.extract()?, OwnedAttr::of(&value)?));
        }
    }
    Ok(all)
}

/// Start values of a param, as `ag.nn.init` makes them.
#[pyclass(frozen, module = "arenagrad.nn.init", name = "Init", eq)]
#[derive(PartialEq)]
pub struct PyInit(pub Init);

#[pymethods]
impl PyInit {
    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Start values: an object of `ag.nn.init`, `"zeros"`, `"ones"` or a number for all elements.
pub fn init_of(value: &Bound<'_, PyAny>) -> PyResult<Init> {
    if let Ok(init) = value.cast::<PyInit>() {
        return Ok(init.get().0);
    }
    if let Some(x) = number_of(value)? {
        return Ok(Init::Constant(x));
    }
    match value.extract::<String>().as_deref() {
        Ok("zeros") => Ok(Init::Zeros),
        Ok("ones") => Ok(Init::Ones),
        _ => Err(PyTypeError::new_err(format!(
            "{value} is no start value; give \"zeros\", \"ones\", a number, or one of arenagrad.nn.init"
        ))),
    }
}
