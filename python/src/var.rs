//! Values of a graph under construction, with Python's operators. Named methods come from the table of ops and from
//! [`crate::forward`].

use crate::build::{Build, make};
use crate::error::refuse;
use crate::forward::{self, Args};
use crate::values::number_of;
use arenagrad::error::Kind;
use arenagrad::graph::{Builder, Var as Value, VarId};
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A value of a graph that is being built. Its operators and methods add nodes; what they compute is known when a
/// program runs.
///
/// >>> import arenagrad as ag
/// >>> b = ag.build("g")
/// >>> x = b.input("x", (2, 3))
/// >>> (x * 2.0).softmax(axis=-1).shape
/// (2, 3)
#[pyclass(frozen, module = "arenagrad")]
pub struct Var {
    owner: Py<Build>,
    id: VarId,
}

impl Var {
    pub fn new(owner: Py<Build>, id: VarId) -> Var {
        Var { owner, id }
    }

    pub fn id(&self) -> VarId {
        self.id
    }

    pub fn owner<'py>(&self, py: Python<'py>) -> &Bound<'py, Build> {
        self.owner.bind(py)
    }

    /// An exception unless this is a value of `builder`.
    pub fn check(&self, builder: &Build) -> PyResult<()> {
        if std::ptr::eq(self.owner.get(), builder) {
            return Ok(());
        }
        Err(refuse(Kind::Verify, "a value of another builder is used; a graph has one builder"))
    }
}

/// The right-hand side of an operator.
enum Right<'py> {
    Var(Bound<'py, Var>),
    Number(f64),
}

/// `f` of a value and a value or number; `NotImplemented` for anything else.
fn binary<'py>(
    this: &Bound<'py, Var>,
    right: &Bound<'py, PyAny>,
    of_var: impl for<'g> Fn(Value<'g>, Value<'g>) -> Value<'g>,
    of_number: impl for<'g> Fn(Value<'g>, f64) -> Value<'g>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = this.py();
    let right = match right.cast::<Var>() {
        Ok(var) => Right::Var(var.clone()),
        Err(_) => match number_of(right)? {
            Some(x) => Right::Number(x),
            None => return Ok(py.NotImplemented().into_bound(py)),
        },
    };
    let me = this.get();
    let owner = me.owner(py);
    let var = make(owner, |g| {
        Ok(match right {
            Right::Number(x) => of_number(g.var_of(me.id), x).id(),
            Right::Var(other) => {
                other.get().check(owner.get())?;
                of_var(g.var_of(me.id), g.var_of(other.get().id)).id()
            }
        })
    })?;
    Ok(Bound::new(py, var)?.into_any())
}

/// `f` of the value alone.
fn unary(this: &Bound<'_, Var>, f: impl for<'g> Fn(&'g Builder, Value<'g>) -> Value<'g>) -> PyResult<Var> {
    let me = this.get();
    make(me.owner(this.py()), |g| Ok(f(g, g.var_of(me.id)).id()))
}

macro_rules! both {
    ($this:expr, $right:expr, |$a:ident, $b:ident| $f:expr) => {
        binary($this, $right, |$a, $b| $f, |$a, $b| $f)
    };
}

/// The operator of a number and a value, where the library has it of values alone.
macro_rules! flipped {
    ($this:expr, $left:expr, |$a:ident, $b:ident| $f:expr) => {
        binary(
            $this,
            $left,
            |$b, $a| $f,
            |$b, number| {
                let $a = $b.full_like(number);
                $f
            },
        )
    };
}

type Any<'py> = Bound<'py, PyAny>;

#[pymethods]
impl Var {
    #[classattr]
    fn __array_ufunc__() -> Option<()> {
        None
    }

    /// The element type, as `"f32"`.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.owner.get().with(py, |g| Ok(g.var_of(self.id).dtype().name()))
    }

    /// The dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let dims = self.owner.get().with(py, |g| Ok(g.var_of(self.id).dims()))?;
        PyTuple::new(py, dims.iter())
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self, py: Python<'_>) -> PyResult<usize> {
        self.owner.get().with(py, |g| Ok(g.var_of(self.id).rank()))
    }

    /// The number of elements.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        self.owner.get().with(py, |g| Ok(g.var_of(self.id).numel()))
    }

    /// The builder of this value.
    #[getter]
    fn builder(&self, py: Python<'_>) -> Py<Build> {
        self.owner.clone_ref(py)
    }

    /// The same value with a name for the outputs of `finish`.
    fn named(this: &Bound<'_, Self>, name: &str) -> PyResult<Var> {
        unary(this, |_, x| x.named(name))
    }

    /// Makes this value an output called `name`. Gives it under that name.
    fn tap(this: &Bound<'_, Self>, name: &str) -> PyResult<Var> {
        unary(this, |_, x| x.tap(name))
    }

    /// Calls a method of the library's values, or a layer whose first argument is a value, by name.
    fn _call<'py>(this: &Bound<'py, Self>, name: &str, arguments: &Bound<'py, PyTuple>) -> PyResult<Any<'py>> {
        let mut items = vec![this.clone().into_any()];
        items.extend(arguments.iter());
        let of = if forward::Of::Var.has(name) { forward::Of::Var } else { forward::Of::Layer };
        forward::call(this.get().owner(this.py()), of, name, items)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.owner.get().with(py, |g| {
            let x = g.var_of(self.id);
            Ok(format!("<Var {}{}>", x.dtype(), x.dims()))
        })
    }

    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(
            "a Var has no value while the graph is built: use select() or builder.cond() where a step is to choose",
        ))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let dims = self.owner.get().with(py, |g| Ok(g.var_of(self.id).dims()))?;
        dims.first().copied().ok_or_else(|| PyTypeError::new_err("a scalar has no length"))
    }

    fn __getitem__<'py>(this: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Var> {
        let me = this.get();
        let owner = me.owner(this.py());
        make(owner, |g| crate::index::indexed(&Args::new(owner, g, Vec::new()), g.var_of(me.id), index))
    }

    fn __add__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        both!(this, other, |a, b| a + b)
    }

    fn __radd__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        both!(this, other, |a, b| b + a)
    }

    fn __sub__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        both!(this, other, |a, b| a - b)
    }

    fn __rsub__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        both!(this, other, |a, b| b - a)
    }

    fn __mul__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        both!(this, other, |a, b| a * b)
    }

    fn __rmul__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        both!(this, other, |a, b| b * a)
    }

    fn __truediv__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        both!(this, other, |a, b| a / b)
    }

    fn __rtruediv__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        both!(this, other, |a, b| b / a)
    }

    fn __floordiv__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        both!(this, other, |a, b| a.floor_divide(b))
    }

    fn __rfloordiv__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        flipped!(this, other, |a, b| a.floor_divide(b))
    }

    fn __mod__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        both!(this, other, |a, b| a.remainder(b))
    }

    fn __rmod__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        flipped!(this, other, |a, b| a.remainder(b))
    }

    fn __matmul__<'py>(this: &Bound<'py, Self>, other: &Any<'py>) -> PyResult<Any<'py>> {
        if !other.is_instance_of::<Var>() {
            return Ok(this.py().NotImplemented().into_bound(this.py()));
        }
        binary(this, other, |a, b| a.matmul(b), |a, _| a)
    }

    fn __pow__<'py>(this: &Bound<'py, Self>, other: &Any<'py>, modulo: &Any<'py>) -> PyResult<Any<'py>> {
        if !modulo.is_none() {
            return Ok(this.py().NotImplemented().into_bound(this.py()));
        }
        both!(this, other, |a, b| a.pow(b))
    }

    fn __rpow__<'py>(this: &Bound<'py, Self>, other: &Any<'py>, modulo: &Any<'py>) -> PyResult<Any<'py>> {
        if !modulo.is_none() {
            return Ok(this.py().NotImplemented().into_bound(this.py()));
        }
        flipped!(this, other, |a, b| a.pow(b))
    }

    fn __and__<'py>(this: &Bound<'py, Self>, other: &Bound<'py, Var>) -> PyResult<Any<'py>> {
        binary(
            this,
            other.as_any(),
            |a, b| if a.dtype().name() == "bool" { a.logical_and(b) } else { a.bitwise_and(b) },
            |a, _| a,
        )
    }

    fn __or__<'py>(this: &Bound<'py, Self>, other: &Bound<'py, Var>) -> PyResult<Any<'py>> {
        binary(
            this,
            other.as_any(),
            |a, b| if a.dtype().name() == "bool" { a.logical_or(b) } else { a.bitwise_or(b) },
            |a, _| a,
        )
    }

    fn __invert__(this: &Bound<'_, Self>) -> PyResult<Var> {
        unary(this, |_, x| if x.dtype().name() == "bool" { x.logical_not() } else { x.bitwise_not() })
    }

    fn __neg__(this: &Bound<'_, Self>) -> PyResult<Var> {
        unary(this, |_, x| -x)
    }

    fn __abs__(this: &Bound<'_, Self>) -> PyResult<Var> {
        unary(this, |_, x| x.abs())
    }

    fn __richcmp__<'py>(this: &Bound<'py, Self>, other: &Any<'py>, how: CompareOp) -> PyResult<Any<'py>> {
        match how {
            CompareOp::Lt => both!(this, other, |a, b| a.less(b)),
            CompareOp::Le => both!(this, other, |a, b| a.less_equal(b)),
            CompareOp::Gt => both!(this, other, |a, b| a.greater(b)),
            CompareOp::Ge => both!(this, other, |a, b| a.greater_equal(b)),
            // Equality of handles: `equal()` compares elements.
            CompareOp::Eq | CompareOp::Ne => Ok(this.py().NotImplemented().into_bound(this.py())),
        }
    }

    fn __hash__(this: &Bound<'_, Self>) -> usize {
        this.as_ptr() as usize >> 4
    }
}
