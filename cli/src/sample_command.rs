//! The command `sample`: text from a trained character model.
//!
//! The program has two methods. One computes the next character from the whole window of text; the other computes many
//! in one loop that keeps keys and values. While the text is shorter than the context, the second runs. Then the window
//! moves with each character, which moves all positions, and the first runs for each.
//!
//! Invariant: a sample is a function of weights, prompt, settings and seed.

use crate::args::SampleArgs;
use crate::config::{Config, Network, Task};
use crate::data::Vocabulary;
use crate::fail::{Run, fail_bad_input};
use crate::model::chargpt::{self, TOKEN};
use crate::run_dir::{RunDir, VOCABULARY, WEIGHTS};
use crate::stdout_stderr::{self, BufferedStdout};
use crate::{sys, weights_file};
use arenagrad::error::Result;
use arenagrad::nn::{GENERATE_COUNT, GENERATE_DRAWN, GENERATE_KEPT, GENERATE_KEY, GENERATE_LENGTH, GENERATE_WINDOW};
use arenagrad::session::{Handle, Method, Program, Role, Session};
use arenagrad::train::{Sampler, Sampling};

/// Largest vocabulary file, in bytes.
const LIMIT: u64 = 1 << 22;
/// Largest number of characters in a sample, and of samples.
const MOST: usize = 1 << 24;

/// Most characters that one step computes, so that text appears while it is made.
const AT_ONCE: usize = 16;

/// The states of the text of a program.
struct SampleCommandStates {
    window: Handle<i32>,
    length: Handle<i64>,
    kept: Handle<i64>,
    drawn: Handle<i64>,
    key: Handle<u32>,
    caches: Vec<Handle<f32>>,
}

impl SampleCommandStates {
    fn new(p: &Program) -> Run<SampleCommandStates> {
        let known = [GENERATE_WINDOW, GENERATE_LENGTH, GENERATE_KEPT, GENERATE_DRAWN, GENERATE_KEY];
        let states = p.bindings().iter().filter(|b| b.role == Role::State && !known.contains(&b.name.as_str()));
        Ok(SampleCommandStates {
            window: p.state(GENERATE_WINDOW)?,
            length: p.state(GENERATE_LENGTH)?,
            kept: p.state(GENERATE_KEPT)?,
            drawn: p.state(GENERATE_DRAWN)?,
            key: p.state(GENERATE_KEY)?,
            caches: states.map(|b| p.state(&b.name)).collect::<Result<_>>()?,
        })
    }

    /// Begins a text with the last tokens of `prompt`, of which there is at least one.
    fn start(&self, p: &mut Program, prompt: &[i32], seed: u64) -> Run {
        for &cache in &self.caches {
            p.get_mut(cache)?.fill(0.0);
        }
        let window = p.get_mut(self.window)?;
        let seen = &prompt[prompt.len().saturating_sub(window.len())..];
        window[..seen.len()].copy_from_slice(seen);
        window[seen.len()..].fill(0);
        p.get_mut(self.length)?[0] = seen.len() as i64;
        p.get_mut(self.kept)?[0] = 0;
        p.get_mut(self.drawn)?[0] = 0;
        p.write(self.key, &[seed as u32, (seed >> 32) as u32, 0, 0])?;
        Ok(())
    }
}

/// A program that continues a text.
pub struct SampleCommandGenerator {
    program: Program,
    states: SampleCommandStates,
    /// One character from the whole window, and up to [`AT_ONCE`] with kept keys and values.
    methods: [Method; 2],
    count: Handle<i64>,
    tokens: [Handle<i32>; 2],
    context: usize,
    vocabulary: Vocabulary,
}

impl SampleCommandGenerator {
    /// Compiles the program. Its params are unset until the caller loads or copies them.
    pub fn new(n: &Network, vocabulary: Vocabulary, settings: Sampling, threads: usize) -> Run<SampleCommandGenerator> {
        // A bad setting is told without an op and a line.
        Sampler::new(settings)?;
        let one = chargpt::chargpt_next_token(n, vocabulary.len(), settings)?;
        let many = chargpt::chargpt_next_tokens(n, vocabulary.len(), AT_ONCE, settings)?;
        let program = Session::new().threads(threads).compile_all(&[("one", &one), ("many", &many)])?;
        let methods = [program.method("one")?, program.method("many")?];
        let count = program.input_of(methods[1], GENERATE_COUNT)?;
        let tokens = [program.output_of(methods[0], TOKEN)?, program.output_of(methods[1], TOKEN)?];
        let states = SampleCommandStates::new(&program)?;
        Ok(SampleCommandGenerator { program, states, methods, count, tokens, context: n.context, vocabulary })
    }

    /// The program.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Continues `prompt` by `n` characters and calls `emit` with each. An empty prompt becomes a newline, or the
    /// first character of a vocabulary without newline. The model sees the last `context` characters.
    pub fn run(&mut self, prompt: &[i32], n: usize, seed: u64, emit: &mut dyn FnMut(char) -> Run) -> Run {
        let newline = || self.vocabulary.encode("\n").unwrap_or_else(|_| vec![0]);
        let text = if prompt.is_empty() { newline() } else { prompt.to_vec() };
        self.states.start(&mut self.program, &text, seed)?;
        let mut left = n;
        while left > 0 && !stdout_stderr::stdout_reader_is_gone() {
            let p = &mut self.program;
            let (length, kept) = (p.get(self.states.length)?[0], p.get(self.states.kept)?[0]);
            // The whole window, until all but its last character have kept keys and values.
            let (at, count) = match kept + 1 == length {
                false => (0, 1),
                true => (1, left.min(AT_ONCE).min(self.context + 1 - length as usize)),
            };
            p.get_mut(self.count)?[0] = count as i64;
            p.run(self.methods[at])?;
            for &token in p.get(self.tokens[at])?.iter().take(count) {
                emit(self.vocabulary.char(token as usize))?;
            }
            left -= count;
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
    let settings = Sampling::default().temperature(a.temperature).top_k(a.top_k).top_p(a.top_p);
    let mut g = SampleCommandGenerator::new(&network, vocabulary, settings, a.threads)?;
    let weights = a.weights.clone().unwrap_or_else(|| dir.file(WEIGHTS));
    weights_file::load_params(g.program(), &weights, &a.read)?;
    let mut out = BufferedStdout::new();
    for i in (0..a.samples).take_while(|_| !stdout_stderr::stdout_reader_is_gone()) {
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
