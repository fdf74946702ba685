//! The configuration of a training run: a TOML file with the command line's flags on top.
//!
//! Invariant of a [`Config`]: every number was checked, so nothing later has to refuse it. For `train`.

mod optimiser;

use crate::args::TrainArgs;
use crate::fail::{Fail, Run, bad, io};
use crate::sys;
use crate::train::{CONFIG, checkpoint_file};
use arenagrad::passes::optimiser::Optimiser;
use arenagrad::train::Schedule;
use bytesize::ByteSize;
use optimiser::OptimiserTable;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Bytes that a configuration may take.
const LIMIT: u64 = 1 << 20;
/// Most steps, batches, channels …: beyond them a number is a mistake.
const STEP_LIMIT: u64 = 1 << 32;
const SIZE_LIMIT: usize = 1 << 16;

/// The file.
#[derive(Deserialize, Serialize, Debug, Default, Clone)]
#[serde(deny_unknown_fields, default)]
struct File {
    data: Option<String>,
    steps: Option<u64>,
    batch: Option<usize>,
    seed: Option<u64>,
    threads: Option<usize>,
    out: Option<PathBuf>,
    checkpoint_every: Option<u64>,
    max_memory: Option<ByteSize>,
    model: Model,
    optimiser: OptimiserTable,
    schedule: ScheduleTable,
}

impl File {
    /// What `train digits` means. The decay was found by trying: of 0.01 and 0.05, the latter makes fewer errors.
    fn digits() -> File {
        let optimiser = OptimiserTable::decaying(0.05);
        File { optimiser, ..File::default() }
    }
}

/// The network: convolutions, one pooling, two linear layers.
#[derive(Deserialize, Serialize, Debug, Clone, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Model {
    /// Channels after each 3×3 convolution.
    pub channels: Vec<usize>,
    /// Width of the hidden linear layer.
    pub hidden: usize,
    /// Probability that an activation of the hidden layer is dropped in training.
    pub dropout: f64,
}

impl Default for Model {
    fn default() -> Model {
        Model { channels: vec![16, 32], hidden: 64, dropout: 0.5 }
    }
}

#[derive(Deserialize, Serialize, Debug, Clone, Copy, Default, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum ScheduleKind {
    Constant,
    Step,
    Cosine,
    #[default]
    OneCycle,
}

#[derive(Deserialize, Serialize, Debug, Default, Clone)]
#[serde(deny_unknown_fields, default)]
struct ScheduleTable {
    kind: ScheduleKind,
    step_size: Option<u64>,
    gamma: Option<f64>,
    warmup: Option<u64>,
    min_lr: Option<f64>,
    pct_start: Option<f64>,
    div_factor: Option<f64>,
    final_div_factor: Option<f64>,
}

/// A run's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Folder of IDX files; `None`: the digits that are built in.
    pub data: Option<PathBuf>,
    /// Steps.
    pub steps: u64,
    /// Images of a micro-batch; a step takes `optimiser.accumulate` of them.
    pub batch: usize,
    /// Seed.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
    /// Folder for what the run writes.
    pub out: PathBuf,
    /// Steps between checkpoints; 0: none between.
    pub checkpoint_every: u64,
    /// Most bytes of the step's arena.
    pub max_memory: Option<usize>,
    /// The network.
    pub model: Model,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// The learning rates.
    pub schedule: Schedule,
    /// All of this as a file, for resuming.
    pub text: String,
}

impl Config {
    /// The configuration that the command line asks for. A run that is resumed takes from its folder what the command
    /// line does not say.
    pub fn new(args: &TrainArgs) -> Run<Config> {
        let target = Path::new(&args.target);
        let is_file = target.extension().is_some_and(|e| e == "toml");
        if !is_file && args.target != "digits" {
            return Err(bad(format!("nothing to train is called {:?}: give `digits` or a TOML file", args.target)));
        }
        let resumed = args.resume.as_deref().map(checkpoint_file);
        let kept = resumed.as_ref().map(|f| f.with_file_name(CONFIG)).filter(|f| f.is_file());
        let source = kept.or_else(|| is_file.then(|| target.to_path_buf()));
        let beside = resumed.as_deref().and_then(Path::parent);
        let Some(path) = source else {
            return build(File::digits(), args, Path::new(""), beside);
        };
        let file = parse(&path, &sys::read_text(&path, LIMIT)?)?;
        let named = |f: Fail| bad(format!("{}: {}", path.display(), f.message));
        build(file, args, path.parent().unwrap_or(Path::new("")), beside).map_err(named)
    }
}

fn parse(path: &Path, text: &str) -> Run<File> {
    toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start).min(text.len());
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let col = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        let what = e.message().replace('\n', "; ");
        bad(format!("{}:{line}:{col}: {what}", path.display()))
    })
}

/// A number within its bounds.
fn within<T: PartialOrd + std::fmt::Display + Copy>(what: &str, x: T, low: T, high: T) -> Run<T> {
    if x >= low && x <= high { Ok(x) } else { Err(bad(format!("{what} is {x}; it goes from {low} to {high}"))) }
}

/// `file` with the flags on top; folders are relative to `base`. A resumed run writes to the folder it came from.
fn build(mut file: File, args: &TrainArgs, base: &Path, resumed: Option<&Path>) -> Run<Config> {
    file.data = match (&args.data, file.data.as_deref()) {
        (Some(dir), _) => Some(dir.display().to_string()),
        (None, None | Some("digits")) => None,
        (None, Some(dir)) => Some(base.join(dir).display().to_string()),
    };
    let own = args.out.clone().or_else(|| resumed.map(Path::to_path_buf));
    let out = own.or_else(|| file.out.take().map(|o| base.join(o))).unwrap_or_else(|| "runs/train".into());
    file.out = None;
    file.steps = Some(within("steps", args.steps.or(file.steps).unwrap_or(1000), 1, STEP_LIMIT)?);
    file.seed = args.seed.or(file.seed);
    file.optimiser.lr = args.lr.or(file.optimiser.lr);
    file.checkpoint_every = args.checkpoint_every.or(file.checkpoint_every);
    file.max_memory = args.max_memory.or(file.max_memory);
    // A seed fills an i64 of TOML.
    within("seed", file.seed.unwrap_or(0), 0, i64::MAX as u64)?;
    within("model.channels: the number of convolutions", file.model.channels.len(), 1, 8)?;
    for &c in file.model.channels.iter().chain([&file.model.hidden]) {
        within("model: a layer's width", c, 1, SIZE_LIMIT)?;
    }
    within("model.dropout", file.model.dropout, 0.0, 0.99)?;
    let steps = file.steps.unwrap_or(1);
    let lr = within("lr", file.optimiser.lr.unwrap_or(4e-3), 0.0, 1e6)?;
    within("optimiser.accumulate", file.optimiser.accumulate.unwrap_or(1), 1, SIZE_LIMIT)?;
    let optimiser = file.optimiser.build(lr)?;
    let schedule = schedule(&file.schedule, optimiser.lr, steps)?;
    schedule.validate()?;
    let threads = args.threads.or(file.threads).unwrap_or_else(sys::cores);
    Ok(Config {
        data: absolute(&mut file)?,
        steps,
        batch: within("batch", file.batch.unwrap_or(64), 1, SIZE_LIMIT)?,
        seed: file.seed.unwrap_or(0),
        threads: within("threads", threads, 1, 1024)?,
        out,
        checkpoint_every: file.checkpoint_every.unwrap_or(200),
        max_memory: file.max_memory.map(sys::bytes),
        optimiser,
        schedule,
        text: toml::to_string(&file).map_err(|e| bad(format!("configuration: {e}")))?,
        model: file.model,
    })
}

/// The data folder, from the root: a resumed run may be started elsewhere.
fn absolute(file: &mut File) -> Run<Option<PathBuf>> {
    let Some(dir) = file.data.as_deref() else { return Ok(None) };
    let dir = std::path::absolute(dir).map_err(io(Path::new(dir)))?;
    file.data = Some(dir.display().to_string());
    Ok(Some(dir))
}

/// Refuses a key that another choice of `kind` would read.
fn unused(kind: &str, keys: &[(&str, bool)]) -> Run {
    match keys.iter().find(|(_, given)| *given) {
        Some((key, _)) => Err(bad(format!("{key} means nothing to {kind}"))),
        None => Ok(()),
    }
}

fn schedule(t: &ScheduleTable, lr: f64, total: u64) -> Run<Schedule> {
    let cycle = t.pct_start.is_some() || t.div_factor.is_some() || t.final_div_factor.is_some();
    let step = t.step_size.is_some() || t.gamma.is_some();
    let cosine = t.warmup.is_some() || t.min_lr.is_some();
    let only = |kind: &str, own: &str| {
        let of = [("step", "schedule.step_size or .gamma", step), ("cosine", "schedule.warmup or .min_lr", cosine)];
        let of = of.into_iter().chain([("cycle", "schedule.pct_start or .div_factor or .final_div_factor", cycle)]);
        let others: Vec<_> = of.filter(|(k, ..)| *k != own).map(|(_, name, given)| (name, given)).collect();
        unused(kind, &others)
    };
    Ok(match t.kind {
        ScheduleKind::Constant => {
            only("constant", "")?;
            Schedule::Constant { lr }
        }
        ScheduleKind::Step => {
            only("step", "step")?;
            let step_size = t.step_size.ok_or_else(|| bad("schedule.step_size is missing"))?;
            Schedule::Step { lr, step_size, gamma: t.gamma.unwrap_or(0.1) }
        }
        ScheduleKind::Cosine => {
            only("cosine", "cosine")?;
            let warmup = within("schedule.warmup", t.warmup.unwrap_or(0), 0, total)?;
            let min_lr = t.min_lr.unwrap_or(0.0);
            Schedule::Cosine { lr, warmup, start_factor: 1.0 / 3.0, total, min_lr }
        }
        ScheduleKind::OneCycle => {
            only("one-cycle", "cycle")?;
            Schedule::OneCycle {
                max_lr: lr,
                total,
                pct_start: t.pct_start.unwrap_or(0.3),
                div_factor: t.div_factor.unwrap_or(25.0),
                final_div_factor: t.final_div_factor.unwrap_or(1e4),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arenagrad::passes::optimiser::{Group, MuonScale, Rule};

    fn from(text: &str) -> Run<Config> {
        let args = TrainArgs { lr: Some(0.5), ..TrainArgs::default() };
        build(parse(Path::new("a.toml"), text)?, &args, Path::new("/base"), None)
    }

    #[test]
    fn flags_win_over_the_file_and_folders_are_relative_to_it() {
        let c =
            from("steps = 7\ndata = \"idx\"\n[optimiser]\nkind = \"sgd\"\nlr = 0.1\n[schedule]\nkind = \"constant\"");
        let c = c.unwrap();
        assert_eq!((c.steps, c.data), (7, Some("/base/idx".into())));
        assert_eq!(c.schedule, Schedule::Constant { lr: 0.5 });
        assert_eq!(c.optimiser, Optimiser::sgd(0.5));
    }

    #[test]
    fn an_optimiser_is_what_its_table_says() {
        let table = "[optimiser]\nkind = \"muon\"\nns_steps = 3\nadjust_lr = \"match_rms_adamw\"\nema = 0.99\n\
                     accumulate = 4\ndecay_from_rank = 2\n[[optimiser.group]]\npattern = \"conv*\"\nlr_scale = 0.5\n\
                     rule = { kind = \"nadamw\", eps = 1e-6 }\n[[optimiser.group]]\npattern = \"*\"\nweight_decay = 0.0";
        let c = from(table).unwrap();
        let nadamw =
            Rule::NAdam { betas: (0.9, 0.999), eps: 1e-6, momentum_decay: 4e-3, weight_decay: 1e-2, decoupled: true };
        let conv = Group { lr_scale: 0.5, weight_decay: None, rule: Some(nadamw) };
        let all = Group { weight_decay: Some(0.0), ..Group::default() };
        let muon = Rule::Muon {
            momentum: 0.95,
            nesterov: true,
            ns_coefficients: (3.4445, -4.7750, 2.0315),
            ns_steps: 3,
            eps: 1e-7,
            weight_decay: 0.1,
            scale: MuonScale::MatchRmsAdamw,
        };
        let want = Optimiser::new(muon, 0.5).ema(0.99).accumulate(4).decay_from_rank(2);
        assert_eq!(c.optimiser, want.group("conv*", conv).group("*", all));
        // What is written for resuming says the same.
        assert_eq!(from(&c.text).unwrap().optimiser, c.optimiser);
        for kind in ["sgd", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "nadam", "nadamw", "lion", "lamb"] {
            let c = from(&format!("[optimiser]\nkind = \"{kind}\"")).unwrap();
            assert_eq!(c.optimiser.rule.name(), kind);
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let line = |text: &str| from(text).unwrap_err().message;
        assert!(line("steps = 7\nstep = 8").starts_with("a.toml:2:1: unknown field `step`"), "{}", line("step = 8"));
        assert!(line("[model]\nhiden = 8").starts_with("a.toml:2:1: unknown field `hiden`"));
        assert!(line("steps = \"many\"").starts_with("a.toml:1:9: invalid type"));
        assert!(line("[schedule]\nkind = \"cosin\"").starts_with("a.toml:2:8: unknown variant"));
        assert!(line("steps = = 7").starts_with("a.toml:1:9: "));
        assert!(line("[optimiser]\nkind = \"sgd\"\nbetas = [0.9, 0.9]").contains("betas means nothing to sgd"));
        assert!(line("[optimiser]\nkind = \"rmsprop\"\nrho = 0.9").contains("optimiser.rho means nothing to rmsprop"));
        assert!(line("[optimiser]\nkind = \"adafactor\"\nd = 0.5").contains("adafactor: d is 0.5"));
        assert!(line("[optimiser]\nkind = \"muon\"\nns_steps = 100").contains("ns_steps is 100"));
        assert!(line("[optimiser]\naccumulate = 0").contains("accumulate is 0"));
        assert!(line("[optimiser]\nema = 1.0").contains("moving average is 1"));
        assert!(line("[[optimiser.group]]\nlr_scale = 0.1").contains("pattern is missing"));
        let nested = "[[optimiser.group]]\npattern = \"fc*\"\nrule = { kind = \"sgd\", lr = 0.1 }";
        assert!(line(nested).contains("rule.lr is the whole optimiser's"), "{}", line(nested));
        assert!(line("[model]\ndropout = nan").contains("dropout is NaN"));
        assert!(line("batch = 0").contains("batch is 0"));
    }
}
