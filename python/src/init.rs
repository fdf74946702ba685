//! Start values by their names in `torch.nn.init`.

use crate::error::refuse;
use crate::values::PyInit;
use arenagrad::error::Kind;
use arenagrad::nn::init;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The start values called `name`, of a tensor of these dimensions, if they depend on them.
#[pyfunction]
pub fn _init(name: &str, numbers: Vec<f64>, dims: Vec<usize>) -> PyResult<PyInit> {
    let at = |i: usize| {
        numbers.get(i).copied().ok_or_else(|| PyTypeError::new_err(format!("{name}: number {i} is missing")))
    };
    Ok(PyInit(match name {
        "xavier_uniform" => init::xavier_uniform(&dims, at(0)?),
        "xavier_normal" => init::xavier_normal(&dims, at(0)?),
        "kaiming_uniform" => init::kaiming_uniform(&dims, at(0)?),
        "kaiming_normal" => init::kaiming_normal(&dims, at(0)?),
        "uniform" => init::uniform(at(0)?, at(1)?),
        "normal" => init::normal(at(0)?, at(1)?),
        "trunc_normal" => init::trunc_normal(at(0)?, at(1)?, at(2)?, at(3)?),
        "constant" => init::constant(at(0)?),
        "orthogonal" => init::orthogonal(at(0)?),
        "eye" => init::eye(),
        "dirac" => init::dirac(at(0)? as usize),
        _ => return Err(refuse(Kind::Name, format!("there is no start value {name:?}"))),
    }))
}
