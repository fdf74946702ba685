//! Optimisers and schedules: the tables of configurations, from keyword arguments.

use crate::error::{call, refuse};
use arenagrad::error::Kind;
use arenagrad::optim::Optimiser;
use arenagrad::train::Schedule;
use arenagrad_tables::fault::{KeyFault, KeyRun};
use arenagrad_tables::kind_key::{KeyDefault, KindKey};
use arenagrad_tables::optimiser::{OptimiserKind, OptimiserTable, WHOLE};
use arenagrad_tables::schedule::{ScheduleKind, ScheduleTable};
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Value};

/// A Python value as a value of a table.
fn table_value(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(value.extract::<i64>()?.into());
    }
    if value.is_instance_of::<PyFloat>() || value.hasattr("__float__")? {
        let x: f64 = value.extract()?;
        if x == f64::INFINITY {
            return Ok("inf".into()); // JSON has no such number.
        }
        let number = serde_json::Number::from_f64(x);
        return number.map(Value::Number).ok_or_else(|| refuse(Kind::Syntax, format!("a setting is {x}")));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.to_cow()?.into_owned()));
    }
    if let Ok(schedule) = value.cast::<PySchedule>() {
        return Ok(schedule.get().table.clone());
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return table_of(dict).map(Value::Object);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let all: PyResult<Vec<Value>> = value.try_iter()?.map(|item| table_value(&item?)).collect();
        return all.map(Value::Array);
    }
    Err(PyTypeError::new_err(format!("{value} is no number, text or list")))
}

/// Keyword arguments as a table; those that are `None` are absent.
fn table_of(dict: &Bound<'_, PyDict>) -> PyResult<Map<String, Value>> {
    let mut all = Map::new();
    for (name, value) in dict {
        if !value.is_none() {
            all.insert(name.extract()?, table_value(&value)?);
        }
    }
    Ok(all)
}

/// The table of this kind. A key that no kind has is an exception.
fn read<T: serde::de::DeserializeOwned>(what: &str, table: Value) -> PyResult<T> {
    serde_json::from_value(table).map_err(|e| {
        let text = e.to_string().replace("unknown field", "unknown setting").replace("unknown variant", "unknown kind");
        let text = text.replace("invalid type: string \"inf\"", "invalid value: inf");
        refuse(Kind::Syntax, format!("{what}: {text}"))
    })
}

/// What a table gives. The paths of its keys are names of arguments.
fn built<T>(what: &str, run: KeyRun<T>) -> PyResult<T> {
    run.map_err(|KeyFault { message, .. }| {
        let own = format!("{what}.");
        refuse(Kind::Syntax, message.replace(&own, "").replace(&format!("{what}: "), ""))
    })
}

/// An optimiser: what `ag.optim.AdamW` and its like make, and `ag.train` takes.
///
/// >>> import arenagrad as ag
/// >>> ag.optim.AdamW(1e-3, clip_norm=1.0).freeze("emb.*")
/// AdamW(lr=0.001, clip_norm=1.0).freeze('emb.*')
#[pyclass(frozen, module = "arenagrad.optim", name = "Optimiser")]
pub struct PyOptimiser {
    optimiser: Mutex<Optimiser>,
    shown: String,
}

impl PyOptimiser {
    pub fn optimiser(&self) -> Optimiser {
        self.optimiser.lock().clone()
    }

    fn checked(&self, shown: &str, optimiser: Optimiser) -> PyResult<PyOptimiser> {
        call(|| optimiser.validate())?;
        Ok(PyOptimiser { optimiser: Mutex::new(optimiser), shown: format!("{}.{shown}", self.shown) })
    }
}

#[pymethods]
impl PyOptimiser {
    #[new]
    #[pyo3(signature = (kind, lr, /, **settings))]
    fn create(kind: &str, lr: f64, settings: Option<&Bound<'_, PyDict>>) -> PyResult<PyOptimiser> {
        let mut table = settings.map_or(Ok(Map::new()), table_of)?;
        let given: Vec<String> = table.iter().map(|(name, value)| format!(", {name}={value}")).collect();
        let shown = format!("{kind}(lr={lr:?}{})", given.concat());
        table.insert("kind".to_string(), Value::String(kind.to_lowercase()));
        let table: OptimiserTable = read(kind, Value::Object(table))?;
        let optimiser = built("optimiser", table.build(lr))?;
        Ok(PyOptimiser { optimiser: Mutex::new(optimiser), shown })
    }

    /// The learning rate: the default of the input `lr`.
    #[getter]
    fn lr(&self) -> f64 {
        self.optimiser.lock().lr
    }

    /// The params whose names match stay as they are.
    fn freeze(&self, pattern: &str) -> PyResult<PyOptimiser> {
        self.checked(&format!("freeze({pattern:?})").replace('"', "'"), self.optimiser().freeze(pattern))
    }

    /// Params whose names match get a multiple of the rate, another weight decay, or the rule of another optimiser.
    ///
    /// With `rate=N` their rate is the input `opt.lr.N` instead of `lr`; with `count=N` the state `opt.step.N` counts
    /// their steps instead of `opt.step`.
    #[pyo3(signature = (pattern, *, lr_scale = 1.0, rate = None, count = None, weight_decay = None, rule = None))]
    fn group(
        &self,
        pattern: &str,
        lr_scale: f64,
        rate: Option<u32>,
        count: Option<u32>,
        weight_decay: Option<f64>,
        rule: Option<&PyOptimiser>,
    ) -> PyResult<PyOptimiser> {
        let group = arenagrad::optim::Group::default()
            .lr_scale(lr_scale)
            .rate(rate)
            .count(count)
            .weight_decay(weight_decay)
            .rule(rule.map(|o| o.optimiser().rule()));
        self.checked(&format!("group({pattern:?})").replace('"', "'"), self.optimiser().group(pattern, group))
    }

    /// The loss is to rise.
    #[pyo3(signature = (on = true))]
    fn maximize(&self, on: bool) -> PyResult<PyOptimiser> {
        self.checked("maximize()", self.optimiser().maximize(on))
    }

    /// The momentum of Sgd, or the first beta of Adam and AdamW, is the input `opt.momentum`, as the rate is `lr`.
    ///
    /// Groups with `rate=N` have `opt.momentum.N`. Its default is the rule's number.
    #[pyo3(signature = (on = true))]
    fn moving_momentum(&self, on: bool) -> PyResult<PyOptimiser> {
        self.checked("moving_momentum()", self.optimiser().moving_momentum(on))
    }

    /// The step has an output `grad_norm`.
    #[pyo3(signature = (on = true))]
    fn grad_norm(&self, on: bool) -> PyResult<PyOptimiser> {
        self.checked("grad_norm()", self.optimiser().grad_norm(on))
    }

    fn __repr__(&self) -> &str {
        &self.shown
    }
}

/// A schedule of learning rates: what `ag.optim.schedules` makes, and `ag.fit` takes.
///
/// >>> import arenagrad as ag
/// >>> ag.optim.schedules.Cosine(warmup=10).lr(100, base=0.1, steps=100)
/// 0.0
#[pyclass(frozen, module = "arenagrad.optim", name = "Schedule")]
pub struct PySchedule {
    table: Value,
}

impl PySchedule {
    fn built(&self, lr: f64, steps: u64) -> PyResult<Schedule> {
        let table: ScheduleTable = read("schedule", self.table.clone())?;
        let schedule = built("schedule", table.build("schedule", lr, steps))?;
        call(|| schedule.validate())?;
        Ok(schedule)
    }
}

#[pymethods]
impl PySchedule {
    #[new]
    #[pyo3(signature = (kind, /, **settings))]
    fn create(kind: &str, settings: Option<&Bound<'_, PyDict>>) -> PyResult<PySchedule> {
        let mut table = settings.map_or(Ok(Map::new()), table_of)?;
        table.insert("kind".to_string(), Value::String(kind.to_string()));
        let schedule = PySchedule { table: Value::Object(table) };
        schedule.built(1.0, u32::MAX.into())?;
        Ok(schedule)
    }

    /// The rate of step `step` (from 0) of a run of `steps`, whose base or peak rate is `base`.
    #[pyo3(signature = (step, *, base, steps))]
    fn lr(&self, step: u64, base: f64, steps: u64) -> PyResult<f64> {
        Ok(self.built(base, steps)?.lr(step))
    }

    /// The rates of all steps of a run of `steps`.
    #[pyo3(signature = (*, base, steps))]
    fn rates(&self, base: f64, steps: u64) -> PyResult<Vec<f64>> {
        let schedule = self.built(base, steps)?;
        Ok((0..steps).map(|step| schedule.lr(step)).collect())
    }

    fn __repr__(&self) -> String {
        format!("Schedule({})", self.table)
    }
}

fn settings(keys: &[KindKey]) -> Vec<(&'static str, Option<&'static str>)> {
    let default = |key: &KindKey| match key.default {
        KeyDefault::Value(text) => Some(text),
        KeyDefault::Text(_) => Some(""),
        KeyDefault::Required => None,
    };
    keys.iter().map(|key| (key.name, default(key))).collect()
}

/// The kinds of optimisers and of schedules with their settings and defaults, and the settings that all optimisers
/// have.
#[pyfunction]
pub fn _kinds() -> (Vec<Kinds>, Vec<Kinds>, Vec<&'static str>) {
    let optimisers = OptimiserKind::ALL.iter().map(|kind| kind.reads());
    let schedules = ScheduleKind::ALL.iter().map(|kind| kind.reads());
    let shown = |(name, keys): (&'static str, &[KindKey])| (name, settings(keys));
    (optimisers.map(shown).collect(), schedules.map(shown).collect(), WHOLE.to_vec())
}

type Kinds = (&'static str, Vec<(&'static str, Option<&'static str>)>);
