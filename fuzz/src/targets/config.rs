//! Any text either parses as a configuration, whose saved text means the same, or gives an error that names file and
//! line.

use super::MemoryLimit;
use super::Target;
use arenagrad_cli::check_config_text;

pub const TARGET: Target = Target {
    name: "config",
    about: "any text is a configuration whose kept form says the same, or an error that names the file",
    run,
    seeds,
    words: WORDS,
    max_len: 1024,
    memory: MemoryLimit { base: 4 << 20, each: 8192 },
};

/// Runs the target.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match check_config_text(text) {
        Ok(kept) => {
            let again = check_config_text(&kept);
            assert_eq!(again.as_deref(), Ok(&kept[..]), "what is kept says the same");
        }
        Err(line) => {
            let rest = line.strip_prefix("run.toml:").unwrap_or_else(|| panic!("the error names the file: {line}"));
            assert!(rest.len() > 4 && line.len() < 4096 + 4 * data.len(), "{line}");
        }
    }
}

/// The examples of `docs/config.md`, and some tables of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let page = include_str!("../../../docs/config.md");
    let examples = page.split("```toml\n").skip(1).filter_map(|part| part.split("```").next());
    let mut all: Vec<Vec<u8>> = examples.map(|t| t.as_bytes().to_vec()).collect();
    for kind in WORDS.iter().skip_while(|w| **w != "\"sgd\"").take_while(|w| **w != "\"constant\"") {
        all.push(format!("steps = 7\n[optimiser]\nkind = {kind}\nlr = 0.1\nweight_decay = 0.0\n").into_bytes());
    }
    for kind in WORDS.iter().skip_while(|w| **w != "\"constant\"").take_while(|w| **w != "kind = ") {
        all.push(format!("[optimiser]\nlr = 0.1\n[schedule]\nkind = {kind}\n").into_bytes());
    }
    all
}

const WORDS: &[&str] = &[
    "\"sgd\"",
    "\"adam\"",
    "\"adamw\"",
    "\"sparseadam\"",
    "\"adamax\"",
    "\"radam\"",
    "\"rmsprop\"",
    "\"adagrad\"",
    "\"adadelta\"",
    "\"nadam\"",
    "\"nadamw\"",
    "\"lion\"",
    "\"lamb\"",
    "\"adafactor\"",
    "\"muon\"",
    "\"lbfgs\"",
    "\"constant\"",
    "\"step\"",
    "\"multi-step\"",
    "\"linear\"",
    "\"polynomial\"",
    "\"inverse-sqrt\"",
    "\"cosine\"",
    "\"cosine-restarts\"",
    "\"one-cycle\"",
    "\"chained\"",
    "\"sequential\"",
    "kind = ",
    "task = ",
    "\"images\"",
    "\"chargpt\"",
    "data = ",
    "steps = ",
    "batch = ",
    "seed = ",
    "threads = ",
    "out = ",
    "checkpoint_every = ",
    "max_memory = ",
    "\"64MiB\"",
    "precision = ",
    "\"bf16x3\"",
    "convolutions = ",
    "\"winograd\"",
    "[model]\n",
    "[gpt]\n",
    "[optimiser]\n",
    "[[optimiser.group]]\n",
    "[schedule]\n",
    "pattern = ",
    "\"*\"",
    "lr = ",
    "lr_scale = ",
    "weight_decay = ",
    "betas = [0.9, 0.999]",
    "eps = ",
    "momentum = ",
    "nesterov = true",
    "ema = ",
    "accumulate = ",
    "rule = { kind = ",
    "milestones = [1, 2]",
    "warmup = ",
    "total = ",
    "schedules = [",
    "layers = ",
    "heads = ",
    "width = ",
    "true",
    "false",
    "nan",
    "inf",
    "1e999",
    "{",
    "}",
    "[",
    "]",
    "=",
    "\n",
    "'",
    "\"\"\"",
    "#",
    "\\u0000",
    ".",
];
