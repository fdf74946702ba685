//! The task of a text: a character model, the program that validates it, and the text.

use super::task::{self, Artifact, Task, count};
use crate::config::{Config, Network};
use crate::data::text::{self, Corpus, copy_windows};
use crate::fail::Run;
use crate::measure::Measure;
use crate::model::LOSS;
use crate::model::chargpt::{self, LOSSES, NEXT, TOKENS};
use crate::sample::{Generator, VOCABULARY};
use arenagrad::error::Result;
use arenagrad::session::{Handle, Program};
use arenagrad::train::{Progress, Sampling, Trainer, copy_params};

/// Batches that are validated on while training: as many as nanoGPT's configuration for CPUs takes.
const GLANCES: usize = 20;
/// Characters of the sample_text.
const SPECIMEN: usize = 400;

/// See the file's head.
pub struct Text {
    trainer: Trainer,
    corpus: Corpus,
    network: Network,
    inputs: [Handle<i32>; 2],
    validator: Program,
    seen: [Handle<i32>; 2],
    losses: Handle<f32>,
    /// Where the windows of a batch begin.
    starts: Vec<u32>,
    seed: u64,
}

impl Text {
    /// Reads the text and compiles both programs.
    pub fn open(c: &Config, network: &Network) -> Run<Text> {
        let corpus = text::load(c.data.as_deref(), network.context)?;
        let (n, batch) = (corpus.vocabulary.len(), c.batch);
        // A window may begin anywhere where its last character is followed by another.
        let windows = corpus.train.len() - network.context;
        let trainer = task::trainer(c, &chargpt::training(network, n, batch)?, LOSS, windows)?;
        let validator = task::session(c).compile(&chargpt::validation(network, n, batch)?)?;
        let slots = |p: &Program| -> Result<[Handle<i32>; 2]> { Ok([p.input(TOKENS)?, p.input(NEXT)?]) };
        Ok(Text {
            inputs: slots(trainer.program())?,
            seen: slots(&validator)?,
            losses: validator.output(LOSSES)?,
            trainer,
            validator,
            corpus,
            network: network.clone(),
            starts: vec![0; batch],
            seed: c.seed,
        })
    }
}

/// Copies windows of a text into a program's inputs.
fn fill(p: &mut Program, slots: [Handle<i32>; 2], text: &[i32], starts: &[u32], context: usize) -> Result<()> {
    for (k, slot) in slots.into_iter().enumerate() {
        copy_windows(&text[k..], starts, context, p.get_mut(slot)?);
    }
    Ok(())
}

impl Task for Text {
    fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    fn trainer_mut(&mut self) -> &mut Trainer {
        &mut self.trainer
    }

    fn step(&mut self) -> Result<Progress> {
        let (text, inputs, context) = (&self.corpus.train, self.inputs, self.network.context);
        self.trainer.step(&mut |p: &mut Program, starts: &[u32]| fill(p, inputs, text, starts, context))
    }

    fn measure(&self) -> Measure {
        Measure::Loss
    }

    /// The mean cross entropy of each character, over windows that do not meet: all, or some at even distances.
    fn evaluate(&mut self, whole: bool) -> Run<f64> {
        copy_params(self.trainer.program(), &mut self.validator)?;
        let (text, context, batch) = (&self.corpus.validate, self.network.context, self.starts.len());
        let all = (text.len() - 1) / context;
        let n = if whole { all } else { all.min(GLANCES * batch) };
        let mut sum = 0.0;
        for first in (0..n).step_by(batch) {
            // The last batch is filled up with the last window, which then counts once.
            let window = |i: usize| (i.min(n - 1) as u64 * all as u64 / n as u64) as usize * context;
            self.starts.iter_mut().zip(first..).for_each(|(s, i)| *s = window(i) as u32);
            fill(&mut self.validator, self.seen, text, &self.starts, context)?;
            self.validator.step()?;
            let losses = self.validator.get(self.losses)?;
            sum += losses.iter().take((n - first) * context).map(|&x| f64::from(x)).sum::<f64>();
        }
        Ok(sum / (n * context) as f64)
    }

    fn sizes(&self) -> [String; 2] {
        [&self.corpus.train, &self.corpus.validate].map(|half| count(half.len(), "characters"))
    }

    fn extras(&self) -> Run<Vec<Artifact>> {
        Ok(vec![Artifact { name: VOCABULARY, text: self.corpus.vocabulary.to_json()? }])
    }

    fn sample_text(&mut self) -> Run<Option<String>> {
        let settings = Sampling { temperature: 0.8, ..Sampling::default() };
        let mut g = Generator::new(&self.network, self.corpus.vocabulary.clone(), settings, 1)?;
        copy_params(self.trainer.program(), g.program())?;
        let mut out = String::new();
        g.run(&[], SPECIMEN, self.seed, &mut |c| {
            out.push(c);
            Ok(())
        })?;
        Ok(Some(out))
    }
}
