//! Methods of the library's values and builders, and its layers, by name: three tables of one-line forwards. Their
//! signatures are Python's; `tools/write_ops` makes Python functions and stubs of them.

mod builder_table;
mod nn_table;
mod var_table;

use crate::build::Build;
use crate::error::{calm, refuse};
use crate::values::{dims_of, dtype_of, init_of, ints_of, number_of, size_of};
use crate::var::Var;
use arenagrad::error::Kind;
use arenagrad::graph::window::{Conv, ConvTranspose, Pool};
use arenagrad::graph::{Builder, DType, Init, Var as Value, VarId};
use arenagrad::op::Choice;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::RefCell;

/// What a forward is a method of.
#[derive(Clone, Copy, PartialEq)]
pub enum Of {
    /// A value, which is the first argument.
    Var,
    /// A builder.
    Builder,
    /// Nothing: a layer. One of its arguments is a value.
    Layer,
}

/// A method or layer.
pub struct Forward {
    pub name: &'static str,
    /// As Python writes it, without `self`: `(target: Var, reduction: str = "mean") -> Var`.
    pub signature: &'static str,
    pub doc: &'static str,
    run: for<'a, 'g, 'py> fn(&Args<'a, 'g, 'py>) -> PyResult<Out<'g>>,
}

/// Forwards, one a line: name, signature, documentation, and what is called with the arguments.
macro_rules! forwards {
    ($($name:literal $signature:literal $doc:literal => |$a:ident| $body:expr;)*) => {
        &[$($crate::forward::Forward {
            name: $name,
            signature: $signature,
            doc: $doc,
            run: |$a| Ok($crate::forward::Out::from($body)),
        }),*]
    };
}
use forwards;

impl Of {
    /// The forwards of this kind.
    pub fn table(self) -> &'static [Forward] {
        match self {
            Of::Var => var_table::TABLE,
            Of::Builder => builder_table::TABLE,
            Of::Layer => nn_table::TABLE,
        }
    }

    /// Whether one of them is called `name`.
    pub fn has(self, name: &str) -> bool {
        self.table().iter().any(|f| f.name == name)
    }
}

/// Stride, padding, dilation and groups of a convolution, from argument `at` on.
fn conv<const N: usize, const P: usize>(a: &Args<'_, '_, '_>, at: usize) -> PyResult<Conv<N, P>> {
    let options = Conv::<N, P>::default().stride(a.each::<N>(at)?).padding(a.each::<N>(at + 1)?);
    Ok(options.dilation(a.each::<N>(at + 2)?).groups(a.size(at + 3)?))
}

/// Stride, padding, output padding, dilation and groups of a transposed convolution, from argument `at` on.
fn transposed<const N: usize>(a: &Args<'_, '_, '_>, at: usize) -> PyResult<ConvTranspose<N>> {
    let options = ConvTranspose::<N>::default().stride(a.each::<N>(at)?).padding(a.each::<N>(at + 1)?);
    let options = options.output_padding(a.each::<N>(at + 2)?);
    Ok(options.dilation(a.each::<N>(at + 3)?).groups(a.size(at + 4)?))
}

/// Kernel, stride, padding and `ceil_mode` of a pool, from argument 1 on.
fn pool<const N: usize, const P: usize>(a: &Args<'_, '_, '_>) -> PyResult<Pool<N, P>> {
    let kernel = a.each::<N>(1)?;
    let stride = a.maybe(2, |a, i| a.each::<N>(i))?.unwrap_or(kernel);
    Ok(Pool::<N, P>::new(kernel).stride(stride).padding(a.each::<N>(3)?).ceil_mode(a.bool(4)?))
}

/// The results of a forward.
pub enum Out<'g> {
    One(Value<'g>),
    Many(Vec<Value<'g>>),
}

impl<'g> From<Value<'g>> for Out<'g> {
    fn from(x: Value<'g>) -> Self {
        Out::One(x)
    }
}

impl<'g, const N: usize> From<[Value<'g>; N]> for Out<'g> {
    fn from(all: [Value<'g>; N]) -> Self {
        Out::Many(all.to_vec())
    }
}

impl<'g> From<Vec<Value<'g>>> for Out<'g> {
    fn from(all: Vec<Value<'g>>) -> Self {
        Out::Many(all)
    }
}

impl<'g> From<(Value<'g>, Value<'g>)> for Out<'g> {
    fn from((a, b): (Value<'g>, Value<'g>)) -> Self {
        Out::Many(vec![a, b])
    }
}

/// The arguments of a call, by position, and the builder whose graph they are of.
pub struct Args<'a, 'g, 'py> {
    owner: &'a Bound<'py, Build>,
    pub g: &'g Builder,
    items: Vec<Bound<'py, PyAny>>,
    /// The exception of a Python function that writes a region.
    raised: RefCell<Option<PyErr>>,
}

impl<'a, 'g, 'py> Args<'a, 'g, 'py> {
    pub fn new(owner: &'a Bound<'py, Build>, g: &'g Builder, items: Vec<Bound<'py, PyAny>>) -> Self {
        Args { owner, g, items, raised: RefCell::new(None) }
    }

    fn at(&self, i: usize) -> PyResult<&Bound<'py, PyAny>> {
        self.items.get(i).ok_or_else(|| PyTypeError::new_err(format!("argument {i} is missing")))
    }

    /// The value of a Python object.
    pub fn value(&self, item: &Bound<'py, PyAny>) -> PyResult<Value<'g>> {
        let Ok(var) = item.cast::<Var>() else {
            let kind = item.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a Var is needed, not {kind}; builder.constant() makes one")));
        };
        var.get().check(self.owner.get())?;
        Ok(self.g.var_of(var.get().id()))
    }

    /// All arguments as values; numbers become fills of the first value's type.
    pub fn operands(&self) -> PyResult<Vec<Value<'g>>> {
        let mut like = None;
        for item in &self.items {
            if item.is_instance_of::<Var>() {
                like = Some(self.value(item)?);
                break;
            }
        }
        let one = |item: &Bound<'py, PyAny>| match (number_of(item)?, like) {
            (Some(x), Some(like)) => Ok(self.g.full(x, [], like.dtype())),
            _ => self.value(item),
        };
        self.items.iter().map(one).collect()
    }

    /// The value that a method is called on.
    pub fn me(&self) -> PyResult<Value<'g>> {
        self.var(0)
    }

    pub fn var(&self, i: usize) -> PyResult<Value<'g>> {
        self.value(self.at(i)?)
    }

    /// A value, or a number as a fill of the type of the first value.
    pub fn operand(&self, i: usize) -> PyResult<Value<'g>> {
        let item = self.at(i)?;
        match number_of(item)? {
            Some(x) => Ok(self.me()?.full_like(x)),
            None => self.value(item),
        }
    }

    pub fn vars(&self, i: usize) -> PyResult<Vec<Value<'g>>> {
        let item = self.at(i)?;
        if item.is_instance_of::<Var>() {
            return Ok(vec![self.value(item)?]);
        }
        item.try_iter()?.map(|item| self.value(&item?)).collect()
    }

    /// `f` of argument `i`, unless it is `None`.
    fn maybe<T>(&self, i: usize, f: impl FnOnce(&Self, usize) -> PyResult<T>) -> PyResult<Option<T>> {
        if self.at(i)?.is_none() { Ok(None) } else { f(self, i).map(Some) }
    }

    pub fn maybe_var(&self, i: usize) -> PyResult<Option<Value<'g>>> {
        self.maybe(i, Self::var)
    }

    pub fn maybe_f64(&self, i: usize) -> PyResult<Option<f64>> {
        self.maybe(i, Self::f64)
    }

    pub fn maybe_size(&self, i: usize) -> PyResult<Option<usize>> {
        self.maybe(i, Self::size)
    }

    pub fn maybe_dims(&self, i: usize) -> PyResult<Option<Vec<usize>>> {
        self.maybe(i, Self::dims)
    }

    pub fn maybe_ints(&self, i: usize) -> PyResult<Option<Vec<i64>>> {
        self.maybe(i, Self::ints)
    }

    pub fn maybe_init(&self, i: usize) -> PyResult<Option<Init>> {
        self.maybe(i, Self::init)
    }

    pub fn f64(&self, i: usize) -> PyResult<f64> {
        let item = self.at(i)?;
        number_of(item)?.map_or_else(|| item.extract(), Ok)
    }

    pub fn i64(&self, i: usize) -> PyResult<i64> {
        self.at(i)?.extract()
    }

    pub fn size(&self, i: usize) -> PyResult<usize> {
        size_of(self.i64(i)?)
    }

    pub fn bool(&self, i: usize) -> PyResult<bool> {
        self.at(i)?.extract()
    }

    pub fn text(&self, i: usize) -> PyResult<String> {
        self.at(i)?.extract()
    }

    pub fn dtype(&self, i: usize) -> PyResult<DType> {
        dtype_of(self.at(i)?)
    }

    pub fn init(&self, i: usize) -> PyResult<Init> {
        init_of(self.at(i)?)
    }

    pub fn dims(&self, i: usize) -> PyResult<Vec<usize>> {
        dims_of(self.at(i)?)
    }

    pub fn ints(&self, i: usize) -> PyResult<Vec<i64>> {
        ints_of(self.at(i)?)
    }

    /// Sizes of which one may be −1: the library computes it.
    pub fn dims_with_rest(&self, i: usize) -> PyResult<Vec<usize>> {
        let all = self.ints(i)?;
        if all.iter().filter(|&&d| d == -1).count() > 1 {
            return Err(refuse(Kind::Shape, format!("{all:?} has several sizes of -1; one may be computed")));
        }
        all.into_iter().map(|d| if d == -1 { Ok(usize::MAX) } else { size_of(d) }).collect()
    }

    /// One number for all `N` axes, or one for each.
    pub fn each<const N: usize>(&self, i: usize) -> PyResult<[usize; N]> {
        let all = self.dims(i)?;
        if all.len() == 1 && self.i64(i).is_ok() {
            return Ok([all[0]; N]);
        }
        let n = all.len();
        all.try_into().map_err(|_| refuse(Kind::Shape, format!("{n} numbers are given; there are {N} axes")))
    }

    /// Axes, or all of a value's for `None`.
    pub fn axes(&self, i: usize, x: Value<'g>) -> PyResult<Vec<i64>> {
        match self.maybe_ints(i)? {
            Some(axes) => Ok(axes),
            None => Ok((0..x.rank() as i64).collect()),
        }
    }

    /// One of the choices of the library, by name.
    pub fn choice<T: Choice>(&self, i: usize, what: &str) -> PyResult<T> {
        let name = self.text(i)?;
        let found = T::NAMES.iter().position(|n| *n == name);
        let wrong = || refuse(Kind::Syntax, format!("{what} is {name:?}; it may be {}", T::NAMES.join(", ")));
        Ok(T::from_choice_index(found.ok_or_else(wrong)? as u32))
    }

    /// One of `all`, by name.
    pub fn one_of<T: Copy>(&self, i: usize, what: &str, all: &[(&str, T)]) -> PyResult<T> {
        let name = self.text(i)?;
        let known = || all.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
        let found = all.iter().find(|(n, _)| *n == name).map(|(_, x)| *x);
        found.ok_or_else(|| refuse(Kind::Syntax, format!("{what} is {name:?}; it may be {}", known())))
    }

    /// The number that argument `i` is, if it is no value.
    pub fn maybe_number(&self, i: usize) -> PyResult<Option<f64>> {
        let item = self.at(i)?;
        if item.is_instance_of::<Var>() { Ok(None) } else { item.extract().map(Some) }
    }

    /// Calls the Python function that is argument `i` with values; its results. After an exception there are none.
    pub fn region(&self, i: usize, values: &[Value<'g>]) -> Vec<Value<'g>> {
        self.caught(|| Args::new(self.owner, self.g, vec![self.function(i, &[values], true)?]).vars(0))
    }

    /// As [`Args::region`], of function number `k` of the list that is argument `i`.
    pub fn region_of(&self, i: usize, k: usize) -> Vec<Value<'g>> {
        let run = || Args::new(self.owner, self.g, vec![self.at(i)?.get_item(k)?.call0()?]).vars(0);
        self.caught(run)
    }

    /// Calls the rule of a derivative that is argument `i`, with tuples of values. A result may be `None`.
    pub fn rule(&self, i: usize, values: [&[Value<'g>]; 3]) -> Vec<Option<Value<'g>>> {
        self.caught(|| {
            let got = self.function(i, &values, false)?;
            let one = |x: PyResult<Bound<'py, PyAny>>| {
                x.and_then(|x| if x.is_none() { Ok(None) } else { self.value(&x).map(Some) })
            };
            match self.value(&got) {
                Ok(value) => Ok(vec![Some(value)]),
                Err(_) if got.is_none() => Ok(vec![None]),
                Err(_) => got.try_iter()?.map(one).collect(),
            }
        })
    }

    /// What the Python function that is argument `i` gives for lists of values, each a tuple, or the only one `spread`.
    fn function(&self, i: usize, lists: &[&[Value<'g>]], spread: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = self.owner.py();
        let wrap = |x: &Value<'g>| Bound::new(py, Var::new(self.owner.clone().unbind(), x.id()));
        let tuple = |list: &&[Value<'g>]| PyTuple::new(py, list.iter().map(wrap).collect::<PyResult<Vec<_>>>()?);
        let tuples: Vec<Bound<'py, PyTuple>> = lists.iter().map(tuple).collect::<PyResult<_>>()?;
        match (&tuples[..], spread) {
            ([only], true) => self.at(i)?.call1(only),
            _ => self.at(i)?.call1(PyTuple::new(py, tuples)?),
        }
    }

    /// What `run` gives. An exception is kept, the graph gets an error, and nothing is given.
    fn caught<T>(&self, run: impl FnOnce() -> PyResult<Vec<T>>) -> Vec<T> {
        if self.raised.borrow().is_some() {
            return Vec::new();
        }
        run().unwrap_or_else(|e| {
            self.g.fail(Kind::Verify, "a Python function raised");
            self.raised.replace(Some(e));
            Vec::new()
        })
    }
}

/// Python's form of results: one value, or a tuple.
pub fn results<'py>(owner: &Bound<'py, Build>, ids: &[VarId], one: bool) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let wrap = |id: &VarId| Bound::new(py, Var::new(owner.clone().unbind(), *id));
    match ids {
        [id] if one => Ok(wrap(id)?.into_any()),
        _ => Ok(PyTuple::new(py, ids.iter().map(wrap).collect::<PyResult<Vec<_>>>()?)?.into_any()),
    }
}

/// Calls the forward called `name`.
pub fn call<'py>(
    owner: &Bound<'py, Build>,
    of: Of,
    name: &str,
    items: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(forward) = of.table().iter().find(|f| f.name == name) else {
        return Err(refuse(Kind::Name, format!("there is no method {name}")));
    };
    let (ids, one) = owner.get().with(owner.py(), |g| {
        let args = Args::new(owner, g, items);
        let out = calm(|| (forward.run)(&args));
        if let Some(e) = args.raised.take() {
            let _ = g.with(|emit| emit.take_error());
            return Err(e);
        }
        Ok(match out? {
            Out::One(x) => (vec![x.id()], true),
            Out::Many(all) => (all.iter().map(|x| x.id()).collect(), false),
        })
    })?;
    results(owner, &ids, one)
}

/// Calls the layer called `name`, in the graph of the first value of its arguments.
#[pyfunction]
#[pyo3(signature = (name, arguments, /))]
pub fn _layer<'py>(name: &str, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    let items: Vec<Bound<'py, PyAny>> = arguments.iter().collect();
    let first = items.iter().find_map(|item| match item.cast::<Var>() {
        Ok(var) => Some(var.clone()),
        Err(_) => item.try_iter().ok()?.find_map(|x| x.ok()?.cast_into::<Var>().ok()),
    });
    let Some(first) = first else {
        return Err(PyTypeError::new_err(format!("{name} needs a Var; builder.input() makes one")));
    };
    call(first.get().owner(arguments.py()), Of::Layer, name, items)
}

/// The forwards of a kind (`"var"`, `"builder"`, `"nn"`): name, signature, documentation.
#[pyfunction]
pub fn _forwards(of: &str) -> Vec<(&'static str, &'static str, &'static str)> {
    let table = match of {
        "var" => Of::Var,
        "builder" => Of::Builder,
        _ => Of::Layer,
    };
    table.table().iter().map(|f| (f.name, f.signature, f.doc)).collect()
}
