//! Basic indexing of values: integers, slices, `...` and `None`; lists of rows.

use crate::error::refuse;
use crate::forward::Args;
use arenagrad::error::Kind;
use arenagrad::graph::{DType, Var, VarId};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyList, PySlice, PyTuple};

/// What an index makes of an axis.
struct Indexed {
    starts: Vec<usize>,
    limits: Vec<usize>,
    steps: Vec<usize>,
    reversed: Vec<i64>,
    dims: Vec<usize>,
}

impl Indexed {
    /// The whole axis.
    fn whole(&mut self, size: usize) {
        self.push(0, size, 1);
        self.dims.push(size);
    }

    fn push(&mut self, start: usize, limit: usize, step: usize) {
        self.starts.push(start);
        self.limits.push(limit);
        self.steps.push(step);
    }

    fn integer(&mut self, i: isize, size: usize) -> PyResult<()> {
        let at = if i < 0 { i + size as isize } else { i };
        match usize::try_from(at) {
            Ok(at) if at < size => {
                self.push(at, at + 1, 1);
                Ok(())
            }
            _ => Err(PyIndexError::new_err(format!("index {i} is outside an axis of {size}"))),
        }
    }

    fn slice(&mut self, slice: &Bound<'_, PySlice>, size: usize) -> PyResult<()> {
        let at = slice.indices(size as isize)?;
        let (n, step) = (at.slicelength, at.step.unsigned_abs());
        self.dims.push(n);
        match (n, at.step > 0) {
            (0, _) => self.push(0, 0, 1),
            (_, true) => self.push(at.start as usize, at.start as usize + (n - 1) * step + 1, step),
            (_, false) => {
                self.reversed.push(self.starts.len() as i64);
                self.push(at.start as usize - (n - 1) * step, at.start as usize + 1, step);
            }
        }
        Ok(())
    }
}

const FORMS: &str = "an index is an integer, a slice, ..., None, or, alone, a list or a Var of integers";

/// A row that a list names, counted from the front.
fn row_of(item: &Bound<'_, PyAny>, rows: usize) -> PyResult<i64> {
    let (false, Ok(i)) = (item.is_instance_of::<PyBool>(), item.extract::<i64>()) else {
        return Err(PyTypeError::new_err(FORMS));
    };
    let at = if i < 0 { i + rows as i64 } else { i };
    match usize::try_from(at) {
        Ok(n) if n < rows => Ok(at),
        _ => Err(PyIndexError::new_err(format!("index {i} is outside an axis of {rows}"))),
    }
}

/// `x[index]`.
pub fn indexed<'g>(a: &Args<'_, 'g, '_>, x: Var<'g>, index: &Bound<'_, PyAny>) -> PyResult<VarId> {
    if let Ok(var) = index.cast::<crate::var::Var>() {
        let indices = a.g.var_of(var.get().id());
        return Ok(x.gather(indices, 0).id());
    }
    if let Ok(list) = index.cast::<PyList>() {
        let rows = x.dims().first().copied().unwrap_or(0);
        let at = list.iter().map(|i| row_of(&i, rows)).collect::<PyResult<Vec<i64>>>()?;
        let at = a.g.constant_bytes(bytemuck::cast_slice(&at), [at.len()], DType::I64);
        return Ok(x.gather(at, 0).id());
    }
    let items: Vec<Bound<'_, PyAny>> = match index.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![index.clone()],
    };
    let sizes = x.dims();
    let named = items.iter().filter(|i| !i.is_none() && !i.is_instance_of::<PyEllipsis>()).count();
    if named > sizes.len() {
        return Err(PyIndexError::new_err(format!("{named} indices for {} axes", sizes.len())));
    }
    let (starts, limits, steps) = (Vec::new(), Vec::new(), Vec::new());
    let mut to = Indexed { starts, limits, steps, reversed: Vec::new(), dims: Vec::new() };
    let size = |to: &Indexed| sizes[to.starts.len()];
    for item in &items {
        if item.is_none() {
            to.dims.push(1);
        } else if item.is_instance_of::<PyEllipsis>() {
            (0..sizes.len() - named).for_each(|_| to.whole(size(&to)));
        } else if let Ok(slice) = item.cast::<PySlice>() {
            let n = size(&to);
            to.slice(slice, n)?;
        } else if let (Ok(i), false) = (item.extract::<isize>(), item.is_instance_of::<PyBool>()) {
            let n = size(&to);
            to.integer(i, n)?;
        } else {
            return Err(PyTypeError::new_err(FORMS));
        }
        if to.starts.len() > sizes.len() {
            return Err(refuse(Kind::Shape, "an index has one `...`"));
        }
    }
    while to.starts.len() < sizes.len() {
        to.whole(size(&to));
    }
    let y = x.slice(&to.starts, &to.limits, &to.steps);
    let y = if to.reversed.is_empty() { y } else { y.flip(&to.reversed[..]) };
    Ok(y.reshape(&to.dims).id())
}
