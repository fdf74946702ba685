//! Errors of the library as exceptions: classes of `arenagrad._errors`, by the kind of the error.
//!
//! Invariant: no panic leaves this crate; it is an error with the panic's text.

use arenagrad::error::{Error, Kind};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

/// The function of `arenagrad._errors` that makes an exception.
static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The word that `arenagrad._errors` knows a kind by.
fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Shape => "shape",
        Kind::Arity => "arity",
        Kind::Stage => "stage",
        Kind::Name => "name",
        Kind::Syntax => "syntax",
        Kind::Derivative => "derivative",
        Kind::Verify => "verify",
        Kind::Plan => "plan",
        Kind::Data => "data",
        Kind::Io => "io",
        Kind::Full => "full",
        Kind::Memory => "memory",
        Kind::Diverged => "diverged",
        _ => "error",
    }
}

fn exception(kind: &str, text: &str, location: Option<String>) -> PyErr {
    Python::attach(|py| {
        let make = MAKE.get_or_try_init(py, || {
            PyResult::Ok(py.import("arenagrad._errors")?.getattr(intern!(py, "make"))?.unbind())
        });
        let made = make.and_then(|make| make.bind(py).call1((kind, text, location)));
        made.map_or_else(|e| e, PyErr::from_value)
    })
}

/// The exception for `e`.
pub fn raise(e: &Error) -> PyErr {
    exception(kind_word(e.kind), &e.to_string(), e.location.origin())
}

/// An exception of this kind, without a location.
pub fn refuse(kind: Kind, text: impl AsRef<str>) -> PyErr {
    exception(kind_word(kind), text.as_ref(), None)
}

/// The exception that an object is used in a way that it does not support.
pub fn misuse(text: &str) -> PyErr {
    exception("usage", text, None)
}

fn panicked(payload: &(dyn Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("unknown");
    exception("error", &format!("internal error: {text}"), None)
}

thread_local! {
    /// How many calls of [`calm`] this thread is in.
    static CALM: Cell<usize> = const { Cell::new(0) };
}

/// Panics in [`calm`] print nothing: they are exceptions.
pub fn quiet_panics() {
    let before = take_hook();
    set_hook(Box::new(move |info| {
        if CALM.get() == 0 {
            before(info);
        }
    }));
}

/// What `f` gives. A panic in it is an exception.
pub fn calm<R>(f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    CALM.set(CALM.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(f));
    CALM.set(CALM.get() - 1);
    done.unwrap_or_else(|payload| Err(panicked(&*payload)))
}

/// What `f`, a call of the library, gives. An error and a panic are exceptions.
pub fn call<R>(f: impl FnOnce() -> arenagrad::Result<R>) -> PyResult<R> {
    calm(|| f().map_err(|e| raise(&e)))
}

/// Panics, for the test that no panic leaves this crate.
#[pyfunction]
#[pyo3(name = "_panic")]
#[allow(clippy::panic, reason = "what the test asks for")]
pub fn panic_for_test(text: String) -> PyResult<()> {
    calm(|| panic!("{text}"))
}
