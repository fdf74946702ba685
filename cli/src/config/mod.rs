//! The configuration of a training run: a TOML file, overridden by the options of the command line.
//!
//! Invariant of [`Config`]: every number is within its bounds, so later code need not check it.

mod bounds;
pub mod byte_size;
pub mod fault;
mod task;

#[cfg(test)]
mod page;

use crate::args::{self, LatencyArgs, TrainArgs};
use crate::fail::{Run, fail_bad_input, fail_io};
use crate::run_dir::{CONFIG, RunDir, checkpoint_in_run_dir};
use crate::sys;
use arenagrad::Precision;
use arenagrad::optim::Optimiser;
use arenagrad::session::{Convolutions, Keep, MAX_THREADS};
use arenagrad::train::Schedule;
use arenagrad_tables::fault::table_fault;
use arenagrad_tables::kind_key::given_kind_keys;
use arenagrad_tables::optimiser::OptimiserTable;
use arenagrad_tables::schedule::ScheduleTable;
use arenagrad_tables::{table, text::TextFault};
use bounds::{SIZE_LIMIT, STEP_LIMIT, fault_of_bounds, within_bounds};
use byte_size::byte_size_as_usize;
use bytesize::ByteSize;
use fault::{KeyRun, key_fault};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

use task::TaskKind;
pub use task::{Model, Network, Task};

/// Largest configuration file, in bytes.
const LIMIT: u64 = 1 << 20;

table! {
    /// The TOML file. Absent keys are `None`, so that a resumed run can tell them from given ones.
    #[derive(Deserialize, Serialize, Debug, Default, Clone)]
    #[serde(deny_unknown_fields, default, expecting = "the keys of a run")]
    struct ConfigFile {
        /// `images`: a convnet on labelled images; `chargpt`: a character model on a text
        task: TaskKind = Value("\"images\""), "\"chargpt\"";
        /// a folder of IDX files under MNIST's names, or a text file; the default is built in. A path is relative to
        /// the file
        data: Option<String> as "path" = ByTask { images: "\"digits\"", chargpt: "\"alice\"" }, "\"folder\"";
        /// length of the whole run, from 1
        steps: Option<u64> = ByTask { images: "1000", chargpt: "2000" }, "7" in "steps";
        /// images or windows of a micro-batch, from 1
        batch: Option<usize> = ByTask { images: "64", chargpt: "12" }, "5" in "examples";
        /// seed of start values, batches and dropout
        seed: Option<u64> = Value("0"), "3";
        /// threads of a step, from 1 to 1024; weights do not depend on it
        threads: Option<usize> = Text("one for each core"), "900" in "threads";
        /// the folder that the run writes to, relative to the file
        out: Option<PathBuf> = ByTask { images: "\"runs/train\"", chargpt: "\"runs/chargpt\"" }, "\"elsewhere\"";
        /// steps from checkpoint to checkpoint; 0: only at the end and on Ctrl-C
        checkpoint_every: Option<u64> = Value("200"), "50" in "steps";
        /// largest size of the step's arena: a number of bytes, or a text such as `"64MiB"`. Values are recomputed to
        /// fit
        max_memory: Option<ByteSize> as "size" = Text("no limit"), "\"64MiB\"" in "bytes",
            #[serde(deserialize_with = "byte_size::read_byte_size", serialize_with = "byte_size::write_byte_size")];
        /// precision of matrix products: `f32`, `bf16x3`, `bf16x2` or `bf16`
        precision: Option<String> as "name" = Value("\"f32\""), "\"bf16\"";
        /// how convolutions are computed: `direct`, or `winograd` for those of 3 × 3 kernels where that is faster
        convolutions: Option<String> as "name" = Value("\"direct\""), "\"winograd\"";
        /// type in which values of the forward half are kept for the backward half: `f32`, `bf16` or `f16`
        keep: Option<String> as "name" = Value("\"f32\""), "\"bf16\"";
        /// the network of task images
        model: Option<Model> = Text("the defaults of its keys"), "{ hidden = 8 }";
        /// the network of task chargpt
        gpt: Option<Network> = Text("the defaults of its keys"), "{ layers = 2 }";
        /// the optimiser
        optimiser: Option<OptimiserTable> =
            Text("the defaults of its keys; task chargpt: AdamW with `betas = [0.9, 0.99]`, `weight_decay = 0.1`, \
                  `clip_norm = 1.0`, `decay_from_rank = 2`"), "{ kind = \"sgd\" }";
        /// the learning rate of each step
        schedule: Option<ScheduleTable> =
            Text("one-cycle; task chargpt: cosine with a warm-up of 100 steps (a twentieth of a shorter run than 2000), \
                  down to a tenth of the rate"), "{ kind = \"constant\" }";
    }
}

impl ConfigFile {
    /// The configurations of `train digits` and `train chargpt`. The weight decay of digits is 0.05: it gave fewer test
    /// errors than 0.01.
    fn named(target: &str) -> Option<ConfigFile> {
        match target {
            "digits" => Some(ConfigFile { optimiser: Some(OptimiserTable::decaying(0.05)), ..ConfigFile::default() }),
            "chargpt" => Some(ConfigFile { task: TaskKind::CharGpt, ..ConfigFile::default() }),
            _ => None,
        }
    }
}

/// The values of absent keys, by task.
struct ConfigDefaults {
    steps: u64,
    batch: usize,
    lr: f64,
    out: &'static str,
    /// Name of the built-in data.
    data: &'static str,
}

impl ConfigDefaults {
    fn of(task: TaskKind) -> ConfigDefaults {
        match task {
            TaskKind::Images => ConfigDefaults { steps: 1000, batch: 64, lr: 4e-3, out: "runs/train", data: "digits" },
            TaskKind::CharGpt => {
                ConfigDefaults { steps: 2000, batch: 12, lr: 1e-3, out: "runs/chargpt", data: "alice" }
            }
        }
    }
}

/// The configuration of a run, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// A folder of IDX files, or a text file. `None`: the built-in data.
    pub data: Option<PathBuf>,
    /// Number of steps of the whole run.
    pub steps: u64,
    /// Images or windows of a micro-batch. A step runs `optimiser.accumulate` micro-batches.
    pub batch: usize,
    /// Seed of start values, batches and dropout.
    pub seed: u64,
    /// Number of threads.
    pub threads: usize,
    /// The folder that the run writes to.
    pub out: RunDir,
    /// Steps from checkpoint to checkpoint. 0: one at the end only.
    pub checkpoint_every: u64,
    /// Largest size of the step's arena, in bytes.
    pub max_memory: Option<usize>,
    /// Precision of matrix products.
    pub precision: Precision,
    /// Type of the values that are kept for the backward half.
    pub keep: Keep,
    /// How convolutions are computed.
    pub convolutions: Convolutions,
    /// The file for a recorded step.
    pub trace: Option<PathBuf>,
    /// Where threads run, how long they wait, and how memory is kept.
    pub latency: LatencyArgs,
    /// Whether a step ends at the first op that makes a NaN or an infinity.
    pub find_nan: bool,
    /// Whether each rank keeps the optimiser's states of its share of the params alone.
    pub shard_states: bool,
    /// Whether ranks exchange gradients behind their computation only.
    pub no_overlap: bool,
    /// Whether the checkpoint may be of another number of ranks.
    pub rescale: bool,
    /// An ONNX model that takes the place of the convnet.
    pub onnx: Option<PathBuf>,
    /// The task, with its network.
    pub task: Task,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// The learning rate of each step.
    pub schedule: Schedule,
    /// The configuration as TOML, for `run.toml`. A resumed run starts from it.
    pub text: String,
}

impl Config {
    /// The configuration that the command line asks for. Values that it does not give come from the TOML file; in a
    /// resumed run, from the `run.toml` beside the checkpoint.
    pub fn new(args: &TrainArgs) -> Run<Config> {
        let target = Path::new(&args.target);
        let is_file = target.extension().is_some_and(|e| e == "toml");
        let preset = ConfigFile::named(&args.target);
        if !is_file && preset.is_none() {
            let text = format!("unknown target {:?}: give `digits`, `chargpt` or a TOML file", args.target);
            return Err(fail_bad_input(text));
        }
        let resumed = args.resume.as_deref().map(checkpoint_in_run_dir);
        let kept = resumed.as_ref().map(|f| f.with_file_name(CONFIG)).filter(|f| f.is_file());
        let source = kept.or_else(|| is_file.then(|| target.to_path_buf()));
        let beside = resumed.as_deref().and_then(Path::parent);
        let Some(path) = source else {
            return Ok(build_config(preset.unwrap_or_default(), args, Path::new(""), beside)?);
        };
        let text = sys::sys_read_text(&path, LIMIT)?;
        let file = parse_config(&path, &text)?;
        if let Some(other) = preset.filter(|p| p.task != file.task) {
            let text = format!("{} is of task {}, not {}", path.display(), file.task.name(), other.task.name());
            return Err(fail_bad_input(text));
        }
        build_config(file, args, path.parent().unwrap_or(Path::new("")), beside).map_err(|f| f.in_file(&path, &text))
    }

    /// The task of the run in `dir`.
    pub fn task_of(dir: &RunDir) -> Run<Task> {
        let path = dir.file(CONFIG);
        let text = sys::sys_read_text(&path, LIMIT)?;
        let file = parse_config(&path, &text)?;
        Task::new(file.task, file.model.as_ref(), file.gpt.as_ref()).map_err(|f| f.in_file(&path, &text))
    }
}

/// Reads `text` as the TOML file `run.toml` of a run without options. Gives the text that the run would keep for
/// resuming, or the line that the program would print.
///
/// # Errors
/// The text is no configuration.
pub fn check_config_text(text: &str) -> Result<String, String> {
    let path = Path::new("run.toml");
    let built =
        |file| build_config(file, &TrainArgs::default(), Path::new(""), None).map_err(|f| f.in_file(path, text));
    parse_config(path, text).and_then(built).map(|config| config.text).map_err(|fail| fail.message)
}

/// Parses a TOML file. An error names file, line and column, and the key where there is one.
fn parse_config(path: &Path, text: &str) -> Run<ConfigFile> {
    toml::from_str(text).map_err(|e| {
        let TextFault { line, column, message, .. } = TextFault::new(text, &e);
        fail_bad_input(format!("{}:{line}:{column}: {message}", path.display()))
    })
}

/// Overrides `file` by the command line and checks all numbers. Paths in the file are relative to `base`. A resumed run
/// writes to `resumed`, the folder of its checkpoint, unless `--out` names another.
fn build_config(mut file: ConfigFile, args: &TrainArgs, base: &Path, resumed: Option<&Path>) -> KeyRun<Config> {
    let defaults = ConfigDefaults::of(file.task);
    file.data = config_data(&file, args, base)?;
    let own = args.out.clone().or_else(|| resumed.map(Path::to_path_buf));
    let out = own.or_else(|| file.out.take().map(|o| base.join(o))).unwrap_or_else(|| defaults.out.into());
    file.out = None;
    let name = if args.steps.is_some() { "--steps" } else { "steps" };
    let steps = within_bounds(name, args.steps.or(file.steps).unwrap_or(defaults.steps), 1, STEP_LIMIT)?;
    file.steps = Some(steps);
    file.seed = args.seed.or(file.seed);
    file.checkpoint_every = args.checkpoint_every.or(file.checkpoint_every);
    file.max_memory = args.max_memory.or(file.max_memory);
    file.precision = args.precision.map(|p| p.name().to_string()).or(file.precision);
    let precision = config_choice("precision", file.precision.as_deref(), Precision::ALL)?;
    file.convolutions = args.convolutions.map(|c| c.name().to_string()).or(file.convolutions);
    let convolutions = config_choice("convolutions", file.convolutions.as_deref(), Convolutions::ALL)?;
    file.keep = args.keep.map(|k| k.name().to_string()).or(file.keep);
    let keep = config_choice("keep", file.keep.as_deref(), Keep::ALL)?;
    // TOML's integers are i64.
    let name = if args.seed.is_some() { "--seed" } else { "seed" };
    within_bounds(name, file.seed.unwrap_or(0), 0, i64::MAX as u64)?;
    let task = Task::new(file.task, file.model.as_ref(), file.gpt.as_ref())?;
    let table = file.optimiser.get_or_insert_with(|| match file.task {
        TaskKind::Images => OptimiserTable::default(),
        TaskKind::CharGpt => OptimiserTable::nano_gpt(),
    });
    table.lr = args.lr.or(table.lr);
    within_bounds("optimiser.accumulate", table.accumulate.unwrap_or(1), 1, SIZE_LIMIT)?;
    let name = if args.lr.is_some() { "--lr" } else { "optimiser.lr" };
    let optimiser = table.build(within_bounds(name, table.lr.unwrap_or(defaults.lr), 0.0, 1e6)?)?;
    // A default schedule is not written to `run.toml`: a resumed run with another rate or length computes its own.
    let schedule = match (&file.schedule, file.task) {
        (Some(table), _) => table.build("schedule", optimiser.lr, steps)?,
        (None, TaskKind::Images) => ScheduleTable::default().build("schedule", optimiser.lr, steps)?,
        (None, TaskKind::CharGpt) => {
            ScheduleTable::nano_gpt(optimiser.lr, steps).build("schedule", optimiser.lr, steps)?
        }
    };
    let given = file.schedule.as_ref().map_or(Vec::new(), given_kind_keys);
    schedule.validate().map_err(|e| table_fault("schedule", &given, &e))?;
    let threads = args.threads.or(file.threads).unwrap_or_else(|| sys::sys_cores_of_rank().min(MAX_THREADS));
    let name = if args.threads.is_some() { "--threads" } else { "threads" };
    Ok(Config {
        data: absolute_config_data(&mut file)?,
        steps,
        batch: within_bounds("batch", file.batch.unwrap_or(defaults.batch), 1, SIZE_LIMIT)?,
        seed: file.seed.unwrap_or(0),
        threads: args::threads_arg(&threads.to_string()).map_err(|text| fault_of_bounds(name, text))?,
        out: RunDir::new(out),
        checkpoint_every: file.checkpoint_every.unwrap_or(200),
        max_memory: file.max_memory.map(byte_size_as_usize),
        precision,
        convolutions,
        keep,
        trace: args.trace.clone(),
        latency: args.latency.clone(),
        find_nan: args.find_nan,
        shard_states: args.ranks.shard_states,
        no_overlap: args.ranks.no_overlap,
        rescale: args.ranks.rescale,
        onnx: args.onnx.clone(),
        optimiser,
        schedule,
        text: toml::to_string(&file).map_err(|e| fail_bad_input(format!("configuration: {e}")))?,
        task,
    })
}

/// The path of the data, or `None` for the built-in data of the task.
fn config_data(file: &ConfigFile, args: &TrainArgs, base: &Path) -> KeyRun<Option<String>> {
    let (task, built_in) = (file.task, ConfigDefaults::of(file.task).data);
    match (&args.data, file.data.as_deref()) {
        (Some(path), _) => Ok(Some(path.display().to_string())),
        (None, None) => Ok(None),
        (None, Some(name)) if name == built_in => Ok(None),
        (None, Some(name @ ("digits" | "alice"))) => {
            let text = format!("data is {name:?}; the built-in data of task {} is {built_in:?}", task.name());
            Err(key_fault("data", text))
        }
        (None, Some(path)) => Ok(Some(base.join(path).display().to_string())),
    }
}

/// The choice called `name` of `key`, which has these, or the default.
fn config_choice<T: Copy + Default>(key: &str, name: Option<&str>, all: &[(T, &str)]) -> KeyRun<T> {
    let Some(name) = name else { return Ok(T::default()) };
    args::choice_of(all, name).map_err(|known| key_fault(key, format!("{key} is {name:?}; {known}")))
}

/// Makes the path of the data absolute, because a resumed run may start in another folder.
fn absolute_config_data(file: &mut ConfigFile) -> Run<Option<PathBuf>> {
    let Some(dir) = file.data.as_deref() else { return Ok(None) };
    let dir = std::path::absolute(dir).map_err(fail_io(Path::new(dir)))?;
    file.data = Some(dir.display().to_string());
    Ok(Some(dir))
}

#[cfg(test)]
mod tests;
