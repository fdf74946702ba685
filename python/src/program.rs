//! Programs: steps on arrays.
//!
//! Invariant: one thread at a time uses the program. A second one gets an exception, as does a forked child.

use crate::error::{call, misuse, raise, refuse};
use crate::kept::{KEPT, kept_entry, kept_number};
use crate::latency::{cores_of, spin_time};
use crate::plan::{Plan, Trace};
use crate::slot::Slot;
use crate::tensors::{Tensors, Which};
use arenagrad::error::{Error, Kind};
use arenagrad::session::{Method, Program as Core, Role};
use arenagrad::train::{Entry, Load, Unmatched, Weights, checkpoint};
use parking_lot::{Mutex, MutexGuard};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How often this process is a child of a fork.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Runs in the child of a fork.
#[pyfunction]
pub fn _forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A method's tensors, as indices of slots.
struct MethodSlots {
    name: String,
    method: Method,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

/// A compiled program with its memory: one method, or several that share params and states.
///
/// >>> import arenagrad as ag
/// >>> with ag.build("double") as b:
/// ...     b.output("y", b.input("x", (3,)) * 2.0)
/// >>> p = ag.compile(b.graph)
/// >>> p.step(x=[1.0, 2.0, 3.0], casting="same_kind")["y"].tolist()
/// [2.0, 4.0, 6.0]
#[pyclass(frozen, weakref, module = "arenagrad")]
pub struct Program {
    core: Mutex<ManuallyDrop<Core>>,
    slots: Vec<Slot>,
    methods: Vec<MethodSlots>,
    params: Vec<usize>,
    states: Vec<usize>,
    casting: Option<String>,
    threads: usize,
    forks: u32,
    /// Whether there may be views of its tensors.
    pub viewed: AtomicBool,
}

impl Drop for Program {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // In the child of a fork the team's threads do not exist, and joining them would wait for ever.
        if self.threads == 1 || self.forks == FORKS.load(Ordering::Relaxed) {
            // SAFETY: this is the only drop, and nothing uses the program after it.
            unsafe { ManuallyDrop::drop(self.core.get_mut()) }
        }
    }
}

impl Program {
    pub fn new(py: Python<'_>, core: Core, casting: Option<String>) -> PyResult<Program> {
        let (mut slots, mut methods) = (Vec::<Slot>::new(), Vec::new());
        let (mut params, mut states): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for name in core.methods() {
            let method = call(|| core.method(name))?;
            let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
            for b in call(|| core.bindings_of(method))? {
                let list = match b.role {
                    Role::Input => &mut inputs,
                    Role::Output => &mut outputs,
                    Role::Param => &mut params,
                    Role::State => &mut states,
                    other => return Err(refuse(Kind::Plan, format!("{:?} is {other:?}", b.name))),
                };
                // Methods share params and states.
                let shared = matches!(b.role, Role::Param | Role::State);
                if !(shared && list.iter().any(|&i| slots[i].name == b.name)) {
                    list.push(slots.len());
                    slots.push(Slot::new(py, &core, method, b)?);
                }
            }
            methods.push(MethodSlots { name: name.to_string(), method, inputs, outputs });
        }
        let threads = methods.iter().filter_map(|m| core.plan_of(m.method).ok()).map(|plan| plan.threads).max();
        let threads = threads.unwrap_or(1);
        let core = Mutex::new(ManuallyDrop::new(core));
        let forks = FORKS.load(Ordering::Relaxed);
        Ok(Program { core, slots, methods, params, states, casting, threads, forks, viewed: false.into() })
    }

    /// The program, for this thread alone.
    pub fn lock(&self) -> PyResult<MutexGuard<'_, ManuallyDrop<Core>>> {
        if self.threads > 1 && self.forks != FORKS.load(Ordering::Relaxed) {
            return Err(misuse(
                "the program was compiled before this process was forked, and its threads are not in the child: \
                 compile in the child, or start processes by spawn",
            ));
        }
        let busy = "the program is running a step in another thread: give each thread a program of its own";
        self.core.try_lock().ok_or_else(|| misuse(busy))
    }

    /// The slots of these tensors.
    pub fn list(&self, which: Which) -> &[usize] {
        match which {
            Which::Inputs(at) => &self.methods[at].inputs,
            Which::Outputs(at) => &self.methods[at].outputs,
            Which::Params => &self.params,
            Which::States => &self.states,
        }
    }

    pub fn slot(&self, i: usize) -> &Slot {
        &self.slots[i]
    }

    /// The slot called `key` among `which`. An exception names those there are.
    pub fn find(&self, which: Which, key: &Bound<'_, PyString>) -> PyResult<&Slot> {
        let list = self.list(which);
        let same = |i: &&usize| self.slots[**i].key.as_ptr() == key.as_ptr();
        if let Some(&i) = list.iter().find(same) {
            return Ok(&self.slots[i]);
        }
        let name = key.to_cow()?;
        list.iter().map(|&i| &self.slots[i]).find(|s| s.name == name).ok_or_else(|| self.unknown(which, &name))
    }

    #[cold]
    fn unknown(&self, which: Which, name: &str) -> PyErr {
        let list = self.list(which);
        let role = match which {
            Which::Inputs(_) => "input",
            Which::Outputs(_) => "output",
            Which::Params => "param",
            Which::States => "state",
        };
        let mut known: Vec<&str> = list.iter().map(|&i| self.slots[i].name.as_str()).take(8).collect();
        let more = format!("{} more", list.len() - known.len());
        if list.len() > known.len() {
            known.push(&more);
        }
        let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
        let elsewhere = self.slots.iter().find(|s| s.name == name).map(|s| s.role.name());
        let hint = elsewhere.map_or(String::new(), |role| format!("; there is a {role} of that name"));
        raise(&Error::new(Kind::Name, format!("there is no {role} {name:?}; there are {known}{hint}")))
    }

    fn method_at(&self, name: &str) -> PyResult<usize> {
        match self.methods.iter().position(|m| m.name == name) {
            Some(at) => Ok(at),
            None => {
                let known: Vec<&str> = self.methods.iter().map(|m| m.name.as_str()).collect();
                let text = format!("there is no method {name:?}; the program has {}", known.join(", "));
                Err(raise(&Error::new(Kind::Name, text)))
            }
        }
    }

    /// Writes the arguments into the inputs of the method at `at`.
    fn feed<'py>(
        &self,
        core: &mut Core,
        at: usize,
        arguments: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (mut out, mut casting) = (None, self.casting.clone());
        let py = arguments.py();
        // `out` and `casting` are no inputs, unless the program has inputs of these names.
        let own = |key: &Bound<'py, PyString>| self.find(Which::Inputs(at), key).is_ok();
        if let Some(word) = arguments.get_item(intern!(py, "casting"))?
            && !own(intern!(py, "casting"))
        {
            casting = word.extract()?;
        }
        for (key, value) in arguments {
            let key = key.cast_into::<PyString>()?;
            if (key.as_ptr() == intern!(py, "out").as_ptr() || key.as_ptr() == intern!(py, "casting").as_ptr())
                && !own(&key)
            {
                if key.as_ptr() == intern!(py, "out").as_ptr() {
                    out = Some(value);
                }
                continue;
            }
            self.find(Which::Inputs(at), &key)?.write(core, &value, casting.as_deref())?;
        }
        Ok(out)
    }

    /// Writes the arguments into the inputs of the method called `name`.
    pub fn feed_method(&self, name: &str, arguments: &Bound<'_, PyDict>) -> PyResult<()> {
        let at = self.method_at(name)?;
        self.feed(&mut *self.lock()?, at, arguments).map(drop)
    }

    fn run_at<'py>(this: &Bound<'py, Program>, at: usize, arguments: Option<&Bound<'py, PyDict>>) -> PyResult<Tensors> {
        let me = this.get();
        let outputs = Tensors::new(this.clone().unbind(), Which::Outputs(at));
        let mut core = me.lock()?;
        let out = match arguments {
            Some(arguments) => me.feed(&mut core, at, arguments)?,
            None => None,
        };
        let (method, running): (Method, &mut Core) = (me.methods[at].method, &mut core);
        this.py().detach(|| call(|| running.run(method)))?;
        drop(core);
        if let Some(out) = out {
            let inputs = Tensors::new(this.clone().unbind(), Which::Inputs(at));
            let copy = this.py().import("arenagrad._conversions")?.getattr("copy_out")?;
            copy.call1((Bound::new(this.py(), outputs.again(this.py()))?, out, Bound::new(this.py(), inputs)?))?;
        }
        Ok(outputs)
    }

    pub fn detached<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Core) -> arenagrad::Result<R> + Send,
    ) -> PyResult<R> {
        let mut core = self.lock()?;
        let core: &mut Core = &mut core;
        py.detach(|| call(|| f(core)))
    }
}

#[pymethods]
impl Program {
    /// Runs one step of the first method. Keyword arguments are inputs; they are copied into the arena. Gives the
    /// outputs, which are valid until the next step.
    ///
    /// `out={"loss": array}` copies outputs into arrays. `casting="same_kind"` lets floats of another width in.
    #[pyo3(signature = (**inputs))]
    fn step<'py>(this: &Bound<'py, Self>, inputs: Option<&Bound<'py, PyDict>>) -> PyResult<Tensors> {
        Program::run_at(this, 0, inputs)
    }

    /// Runs one step of a method, as `step` does.
    #[pyo3(signature = (method, /, **inputs))]
    fn run<'py>(this: &Bound<'py, Self>, method: &str, inputs: Option<&Bound<'py, PyDict>>) -> PyResult<Tensors> {
        Program::run_at(this, this.get().method_at(method)?, inputs)
    }

    /// Fills params and states with their start values.
    #[pyo3(signature = (seed = 0))]
    fn init(&self, py: Python<'_>, seed: u64) -> PyResult<()> {
        self.detached(py, |p| p.init(seed))
    }

    /// As `init`, but only params and states that were neither initialised nor loaded nor written.
    #[pyo3(signature = (seed = 0))]
    fn init_rest(&self, py: Python<'_>, seed: u64) -> PyResult<()> {
        self.detached(py, |p| p.init_rest(seed))
    }

    /// Writes params and buffers of layers to a safetensors file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.detached(py, |p| p.save_weights(path))
    }

    /// Reads params and buffers of layers from a safetensors file, a file of torch.save, or a folder of Hugging Face's.
    /// Without `strict`, names that only one side has are left alone; with `cast`, floats of another width are
    /// converted. `prefix` is the key of the state dict in a checkpoint of torch. `transpose` lists patterns of names
    /// in the file, `"*.c_attn.weight"` for instance, whose last two axes are exchanged. Gives the names that were
    /// loaded.
    #[pyo3(signature = (path, *, strict = true, cast = false, prefix = "", transpose = Vec::new()))]
    fn load(
        &self,
        py: Python<'_>,
        path: PathBuf,
        strict: bool,
        cast: bool,
        prefix: &str,
        transpose: Vec<String>,
    ) -> PyResult<Vec<String>> {
        let unmatched = if strict { Unmatched::Refuse } else { Unmatched::Allow };
        let (loaded, notes) = self.detached(py, |p| {
            let transpose: Vec<&str> = transpose.iter().map(String::as_str).collect();
            let how = Load::default().missing(unmatched).unexpected(unmatched).cast(cast).transpose(&transpose);
            let file = Weights::open_part(path, prefix)?;
            Ok((p.load_weights(&file, how)?.loaded, file.notes().to_vec()))
        })?;
        let warn = py.import("warnings")?.getattr("warn")?;
        notes.into_iter().try_for_each(|note| warn.call1((note,)).map(drop))?;
        Ok(loaded)
    }

    /// Writes the program as one file, which `arenagrad.open` opens without compiling: its graphs, its plans, and its
    /// params and states as they are now.
    fn export(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.detached(py, |p| p.export(path))
    }

    /// Writes all params and states, and numbers of the caller, to a file.
    #[pyo3(signature = (path, **numbers))]
    fn checkpoint(&self, py: Python<'_>, path: PathBuf, numbers: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let kept = numbers.into_iter().flatten().map(|(name, x)| kept_number(&name, &x));
        let kept: Vec<(String, [u8; 8])> = kept.collect::<PyResult<_>>()?;
        self.detached(py, |p| {
            checkpoint::check_values(p, |_| true)?;
            let own = p.persistent().map(|(b, bytes)| Entry::new(&b.name, b.dtype, &b.dims, bytes));
            let all: Vec<Entry<'_>> = own.chain(kept.iter().map(|(name, bytes)| kept_entry(name, bytes))).collect();
            checkpoint::save(path, &all)
        })
    }

    /// Reads back what `checkpoint` wrote. Gives its numbers.
    fn resume<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
        let numbers = self.detached(py, |p| {
            p.load(&path)?;
            let file = Weights::open(&path)?;
            let mut all = Vec::new();
            for t in file.tensors() {
                if let Some(name) = t.name.strip_prefix(KEPT) {
                    let mut bytes = [0; 8];
                    file.read(t, 0, &mut bytes)?;
                    all.push((name.to_string(), f64::from_le_bytes(bytes)));
                }
            }
            Ok(all)
        })?;
        let dict = PyDict::new(py);
        numbers.into_iter().try_for_each(|(name, x)| dict.set_item(name, x))?;
        Ok(dict)
    }

    /// Puts each thread on a core of its own: the thread that runs steps on the first of `cores`, the others on the
    /// next ones. The thread that runs steps moves when it runs the next one, and stays there. Linux alone can do this.
    fn pin(&self, py: Python<'_>, cores: &Bound<'_, PyAny>) -> PyResult<()> {
        let cores = cores_of(cores)?;
        self.detached(py, |p| p.pin(cores))
    }

    /// How long the threads, the caller's excepted, look for the next step before they sleep; `math.inf`: they never
    /// do.
    fn spin(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let time = spin_time(seconds)?;
        self.detached(py, |p| {
            p.spin(time);
            Ok(())
        })
    }

    /// Touches each page of the program's memory, so that no later step waits for one.
    fn prefault(&self, py: Python<'_>) -> PyResult<()> {
        self.detached(py, |p| {
            p.prefault();
            Ok(())
        })
    }

    /// Keeps the program's memory in memory: the system may not write it to a swap area. It may refuse (`ulimit -l`).
    /// Call it before there are views: small arenas move to pages of their own.
    fn lock_memory(&self, py: Python<'_>) -> PyResult<()> {
        let mut core = self.lock()?;
        if self.viewed.load(Ordering::Relaxed) {
            return Err(misuse(
                "there are views of the program, which cannot move to memory of its own: lock it before",
            ));
        }
        let core: &mut Core = &mut core;
        py.detach(|| call(|| core.lock_memory()))
    }

    /// Writes an array into the input, param or state called `name`.
    #[pyo3(signature = (name, value, *, casting = None))]
    fn write(&self, name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>, casting: Option<&str>) -> PyResult<()> {
        let found = [Which::Inputs(0), Which::Params, Which::States].into_iter().find_map(|w| self.find(w, name).ok());
        let slot = found.map_or_else(|| self.find(Which::Inputs(0), name), Ok)?;
        let mut core = self.lock()?;
        slot.write(&mut core, value, casting.or(self.casting.as_deref()))
    }

    /// Views of the inputs, which count as written once they are handed out.
    #[getter]
    fn inputs(this: Py<Self>) -> Tensors {
        Tensors::new(this, Which::Inputs(0))
    }

    /// Views of the outputs of the last step.
    #[getter]
    fn outputs(this: Py<Self>) -> Tensors {
        Tensors::new(this, Which::Outputs(0))
    }

    /// Views of the params.
    #[getter]
    fn params(this: Py<Self>) -> Tensors {
        Tensors::new(this, Which::Params)
    }

    /// Views of the states.
    #[getter]
    fn states(this: Py<Self>) -> Tensors {
        Tensors::new(this, Which::States)
    }

    /// Views of the inputs of a method.
    fn inputs_of(this: Bound<'_, Self>, method: &str) -> PyResult<Tensors> {
        let at = this.get().method_at(method)?;
        Ok(Tensors::new(this.unbind(), Which::Inputs(at)))
    }

    /// Views of the outputs of a method.
    fn outputs_of(this: Bound<'_, Self>, method: &str) -> PyResult<Tensors> {
        let at = this.get().method_at(method)?;
        Ok(Tensors::new(this.unbind(), Which::Outputs(at)))
    }

    /// The names of the methods, the first one first.
    #[getter]
    fn methods(&self) -> Vec<&str> {
        self.methods.iter().map(|m| m.name.as_str()).collect()
    }

    /// The number of threads that run steps.
    #[getter]
    fn threads(&self) -> usize {
        self.threads
    }

    /// Copies of all params and states, by name.
    fn state_dict<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(this.py());
        let me = this.get();
        for &i in me.params.iter().chain(&me.states) {
            let slot = me.slot(i);
            let view = slot.view(this.clone().into_any(), &mut *me.lock()?, false)?;
            dict.set_item(&slot.key, view.call_method0(intern!(this.py(), "copy"))?)?;
        }
        Ok(dict)
    }

    /// Writes the params and states that are given, by name: all of them, or none if one is refused. Others stay.
    fn load_state_dict(&self, values: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut fitted = Vec::new();
        for (name, value) in values {
            let name = name.cast_into::<PyString>()?;
            let slot = self.find(Which::States, &name).or_else(|_| self.find(Which::Params, &name))?;
            fitted.push((slot, slot.fitted(&value, self.casting.as_deref())?));
        }
        let mut core = self.lock()?;
        fitted.iter().try_for_each(|(slot, value)| slot.write(&mut core, value, self.casting.as_deref()))
    }

    /// The memory plan of the first method.
    #[getter]
    fn plan(&self) -> PyResult<Plan> {
        Ok(Plan::new(self.lock()?.plan().clone()))
    }

    /// The memory plan of a method.
    fn plan_of(&self, method: &str) -> PyResult<Plan> {
        let method = self.methods[self.method_at(method)?].method;
        let core = self.lock()?;
        call(|| core.plan_of(method).cloned()).map(Plan::new)
    }

    /// Runs a step of the first method and records it. The program is one of `compile(..., trace=True)`.
    #[pyo3(signature = (**inputs))]
    fn trace<'py>(this: &Bound<'py, Self>, inputs: Option<&Bound<'py, PyDict>>) -> PyResult<Trace> {
        let me = this.get();
        let mut core = me.lock()?;
        if let Some(inputs) = inputs {
            me.feed(&mut core, 0, inputs)?;
        }
        let running: &mut Core = &mut core;
        this.py().detach(|| call(|| running.step_traced())).map(Trace::new)
    }

    fn __repr__(&self) -> String {
        let methods: Vec<&str> = self.methods.iter().map(|m| m.name.as_str()).collect();
        format!("<Program {}: {} params, {} thread(s)>", methods.join(", "), self.params.len(), self.threads)
    }

    fn __reduce__(&self) -> PyResult<()> {
        let text =
            "a Program is not pickled or copied: save() its weights, and compile and load() where they are needed";
        Err(pyo3::exceptions::PyTypeError::new_err(text))
    }
}

/// Opens an exported program.
#[pyfunction]
pub fn _open(py: Python<'_>, path: PathBuf, casting: Option<String>) -> PyResult<Program> {
    let core = py.detach(|| call(|| Core::open(path)))?;
    Program::new(py, core, casting)
}
