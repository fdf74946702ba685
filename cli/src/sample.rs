//! The command `sample`: text from a trained character model.
//!
//! Invariant: a sample is a function of weights, prompt, settings and seed.

use crate::args::SampleArgs;
use crate::config::{Config, Network, Task};
use crate::data::Vocabulary;
use crate::fail::{Run, fail_bad_input};
use crate::model::LOGITS;
use crate::model::chargpt::{self, TOKENS};
use crate::out::{self, Out};
use crate::run_dir::{RunDir, VOCABULARY, WEIGHTS};
use crate::{sys, tensors};
use arenagrad::session::{Handle, Program, Session};
use arenagrad::train::{Sampler, Sampling, sampling};

/// Largest vocabulary file, in bytes.
const LIMIT: u64 = 1 << 22;
/// Largest number of characters in a sample, and of samples.
const MOST: usize = 1 << 24;

/// A program that continues a text, one character for each step.
pub struct SampleGenerator {
    program: Program,
    tokens: Handle<i32>,
    logits: Handle<f32>,
    context: usize,
    vocabulary: Vocabulary,
    sampler: Sampler,
}

impl SampleGenerator {
    /// Compiles the program. Its params are unset until the caller loads or copies them.
    pub fn new(n: &Network, vocabulary: Vocabulary, settings: Sampling, threads: usize) -> Run<SampleGenerator> {
        let sampler = Sampler::new(settings)?;
        let program = Session::new().threads(threads).compile(&chargpt::chargpt_inference(n, vocabulary.len())?)?;
        let (tokens, logits) = (program.input(TOKENS)?, program.output(LOGITS)?);
        Ok(SampleGenerator { program, tokens, logits, context: n.context, vocabulary, sampler })
    }

    /// The program.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Continues `prompt` by `n` characters and calls `emit` with each. An empty prompt becomes a newline, or the
    /// first character of a vocabulary without newline.
    pub fn run(&mut self, prompt: &[i32], n: usize, seed: u64, emit: &mut dyn FnMut(char) -> Run) -> Run {
        let mut text = prompt.to_vec();
        if text.is_empty() {
            text.extend(self.vocabulary.encode("\n").unwrap_or_else(|_| vec![0]));
        }
        for i in (0..n).take_while(|_| !out::out_reader_is_gone()) {
            // The model sees the last `context` tokens. The zeros behind them reach no earlier position: attention is
            // causal.
            let seen = &text[text.len().saturating_sub(self.context)..];
            let input = self.program.get_mut(self.tokens)?;
            input[..seen.len()].copy_from_slice(seen);
            input[seen.len()..].fill(0);
            self.program.step()?;
            let rows = self.program.get(self.logits)?.chunks_exact(self.vocabulary.len());
            let last = rows.take(seen.len()).next_back().unwrap_or(&[]);
            let token = self.sampler.pick(last, sampling::uniform(seed, i as u64))?;
            text.push(token as i32);
            emit(self.vocabulary.char(token))?;
        }
        Ok(())
    }
}

/// Runs the command.
pub fn sample_command(a: &SampleArgs) -> Run {
    let dir = RunDir::new(&a.run_dir);
    let Task::CharGpt(network) = Config::task_of(&dir)? else {
        return Err(fail_bad_input(format!("{}: no run of task chargpt", a.run_dir.display())));
    };
    if a.tokens > MOST || a.samples == 0 || a.samples > MOST {
        return Err(fail_bad_input(format!("--tokens goes up to {MOST}, --samples from 1 to {MOST}")));
    }
    let path = dir.file(VOCABULARY);
    let named = |e: String| fail_bad_input(format!("{}: {e}", path.display()));
    let vocabulary = Vocabulary::from_json(&sys::sys_read_text(&path, LIMIT)?).map_err(named)?;
    let prompt = vocabulary.encode(&a.prompt).map_err(|e| fail_bad_input(format!("--prompt: {e}")))?;
    let settings = Sampling { temperature: a.temperature, top_k: a.top_k, top_p: a.top_p };
    let mut g = SampleGenerator::new(&network, vocabulary, settings, a.threads)?;
    let weights = a.weights.clone().unwrap_or_else(|| dir.file(WEIGHTS));
    tensors::load_param_tensors(g.program(), &weights)?;
    let mut out = Out::new();
    for i in (0..a.samples).take_while(|_| !out::out_reader_is_gone()) {
        let mut text = a.prompt.clone();
        if !a.json {
            out.write(&text)?;
        }
        g.run(&prompt, a.tokens, a.seed.wrapping_add(i as u64), &mut |c| {
            if a.json {
                text.push(c);
                return Ok(());
            }
            out.write(c.encode_utf8(&mut [0; 4]))?;
            if c == '\n' { out.flush() } else { Ok(()) }
        })?;
        if a.json {
            let line = serde_json::json!({ "prompt": a.prompt, "text": text, "seed": a.seed.wrapping_add(i as u64) });
            out.write(&format!("{line}\n"))?;
        } else {
            let rule = if i + 1 < a.samples { "\n---------------\n" } else { "\n" };
            out.write(rule)?;
        }
    }
    out.flush()
}
