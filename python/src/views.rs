//! Arrays of NumPy: those that fit a tensor as they are, and views of an arena.
//!
//! Invariant: a view owns a reference to the program whose arena it shows, so the arena outlives it.

use crate::error::refuse;
use arenagrad::error::Kind;
use numpy::npyffi::flags::{NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE};
use numpy::npyffi::types::npy_intp;
use numpy::npyffi::{NpyTypes, PY_ARRAY_API, PyArray_CheckExact, PyArrayObject};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use std::os::raw::c_int;

/// NumPy's form of a tensor: its element type and dimensions.
pub struct Form {
    pub descr: Py<PyArrayDescr>,
    pub dims: Vec<npy_intp>,
}

impl Form {
    pub fn new(py: Python<'_>, dtype: &str, dims: &[usize]) -> PyResult<Form> {
        let dims = dims.iter().map(|&d| npy_intp::try_from(d));
        let dims = dims.collect::<Result<_, _>>().map_err(|_| refuse(Kind::Shape, "an axis is too long for NumPy"))?;
        Ok(Form { descr: PyArrayDescr::new(py, dtype)?.unbind(), dims })
    }
}

/// The first byte of `value` if it is an array of exactly this form: element type, dimensions, order of elements.
#[allow(unsafe_code)]
pub fn exact(value: &Bound<'_, PyAny>, form: &Form) -> Option<*const u8> {
    let py = value.py();
    // A subclass may mean more than its numbers, such as a mask.
    // SAFETY: the GIL is held, and the call only looks at the object's type.
    if unsafe { PyArray_CheckExact(py, value.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: the object is an array, and `value` keeps it alive.
    let array = unsafe { &*value.as_ptr().cast::<PyArrayObject>() };
    let rank = usize::try_from(array.fields.nd).ok()?;
    let wanted = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;
    let fits = array.fields.descr.cast() == form.descr.as_ptr()
        && array.fields.flags & wanted == wanted
        && rank == form.dims.len();
    if !fits {
        return None;
    }
    if rank > 0 {
        // SAFETY: an array has `nd` dimensions.
        let dims = unsafe { std::slice::from_raw_parts(array.fields.dimensions, rank) };
        if *dims != form.dims[..] {
            return None;
        }
    }
    Some(array.fields.data as *const u8)
}

/// A view of `form` over the bytes at `data`, which are those of `owner`.
///
/// # Safety
/// `data` is aligned for the form's element type, has the form's bytes, and is valid while `owner` lives.
#[allow(unsafe_code)]
pub unsafe fn view<'py>(
    owner: Bound<'py, PyAny>,
    form: &Form,
    data: *mut u8,
    writable: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | if writable { NPY_ARRAY_WRITEABLE } else { 0 };
    let rank = form.dims.len() as c_int;
    let dims = form.dims.as_ptr().cast_mut();
    // SAFETY: the GIL is held; NumPy copies the dimensions; the reference to the descriptor is NumPy's to keep, and the
    // caller vouches for `data`. The base is set before anyone sees the array.
    unsafe {
        let kind = numpy::npyffi::get_type_object(py, NpyTypes::PyArray_Type);
        let descr = form.descr.bind(py).clone().into_dtype_ptr();
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            kind,
            descr,
            rank,
            dims,
            std::ptr::null_mut(),
            data.cast(),
            flags as c_int,
            std::ptr::null_mut(),
        );
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        let array = made.as_ptr().cast::<PyArrayObject>();
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array, owner.into_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(made)
    }
}
