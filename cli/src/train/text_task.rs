//! The text task: a character model, the program that validates it, and the text.

use super::ranks::Ranks;
use super::train_task::{self, Artifact, Sizes, TrainTask};
use crate::config::{Config, Network};
use crate::data::corpus::{self, Corpus, copy_corpus_windows};
use crate::fail::Run;
use crate::measure::Measure;
use crate::model::LOSS;
use crate::model::chargpt::{self, LOSSES, NEXT, TOKENS};
use crate::numbers::grouped_number_of;
use crate::run_dir::VOCABULARY;
use crate::sample_command::SampleCommandGenerator;
use arenagrad::error::Result;
use arenagrad::session::{Handle, Program};
use arenagrad::train::parallel::fingerprint;
use arenagrad::train::{Progress, Sampling, Trainer, copy_params};

/// Batches of a validation during training: `eval_iters` of nanoGPT's configuration for CPUs.
const VALIDATION_BATCHES: usize = 20;
/// Characters of the sample at the end of a run.
const SAMPLE_LENGTH: usize = 400;

/// A character model that is trained on a text.
pub struct TextTask {
    trainer: Trainer,
    corpus: Corpus,
    network: Network,
    inputs: [Handle<i32>; 2],
    validator: Program,
    validator_inputs: [Handle<i32>; 2],
    losses: Handle<f32>,
    /// First character of each window of a batch.
    starts: Vec<u32>,
    seed: u64,
}

impl TextTask {
    /// Reads the text and compiles both programs.
    pub fn open(c: &Config, network: &Network, ranks: &Ranks) -> Run<TextTask> {
        let corpus = corpus::load_corpus(c.data.as_deref(), network.context)?;
        let (n, batch) = (corpus.vocabulary.len(), c.batch);
        // The last window ends one character before the text does: its last target is the text's last character.
        let windows = corpus.train.len() - network.context;
        let graph = chargpt::chargpt_training(network, n, batch)?;
        let trainer = train_task::train_task_trainer(c, ranks, &graph, LOSS, windows)?;
        let validator = train_task::train_task_session(c).compile(&chargpt::chargpt_validation(network, n, batch)?)?;
        let slots = |p: &Program| -> Result<[Handle<i32>; 2]> { Ok([p.input(TOKENS)?, p.input(NEXT)?]) };
        Ok(TextTask {
            inputs: slots(trainer.program())?,
            validator_inputs: slots(&validator)?,
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

/// Copies windows of `context` characters into a program's inputs: the tokens, and the tokens that follow them.
fn fill_text_task(
    p: &mut Program,
    slots: [Handle<i32>; 2],
    text: &[i32],
    starts: &[u32],
    context: usize,
) -> Result<()> {
    for (k, slot) in slots.into_iter().enumerate() {
        copy_corpus_windows(&text[k..], starts, context, p.get_mut(slot)?);
    }
    Ok(())
}

impl TrainTask for TextTask {
    fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    fn trainer_mut(&mut self) -> &mut Trainer {
        &mut self.trainer
    }

    fn step(&mut self) -> Result<Progress> {
        let (text, inputs, context) = (&self.corpus.train, self.inputs, self.network.context);
        self.trainer.step(&mut |p: &mut Program, starts: &[u32]| fill_text_task(p, inputs, text, starts, context))
    }

    fn measure(&self) -> Measure {
        Measure::Loss
    }

    /// The mean cross entropy of a character, over disjoint windows: all of them, or some at even distances.
    fn evaluate(&mut self, whole: bool) -> Run<f64> {
        copy_params(self.trainer.program(), &mut self.validator)?;
        let (text, context, batch) = (&self.corpus.validate, self.network.context, self.starts.len());
        let all = (text.len() - 1) / context;
        let n = if whole { all } else { all.min(VALIDATION_BATCHES * batch) };
        let mut sum = 0.0;
        for first in (0..n).step_by(batch) {
            // The last batch is filled up with the last window, which still counts once.
            let window = |i: usize| (i.min(n - 1) as u64 * all as u64 / n as u64) as usize * context;
            self.starts.iter_mut().zip(first..).for_each(|(s, i)| *s = window(i) as u32);
            fill_text_task(&mut self.validator, self.validator_inputs, text, &self.starts, context)?;
            self.validator.step()?;
            let losses = self.validator.get(self.losses)?;
            sum += losses.iter().take((n - first) * context).map(|&x| f64::from(x)).sum::<f64>();
        }
        Ok(sum / (n * context) as f64)
    }

    fn data_digest(&self) -> u64 {
        fingerprint(bytemuck::cast_slice(&self.corpus.train))
    }

    fn sizes(&self) -> Sizes {
        let characters = |n| grouped_number_of(n, "characters");
        Sizes { trained: characters(self.corpus.train.len()), evaluated: characters(self.corpus.validate.len()) }
    }

    fn artifacts(&self) -> Run<Vec<Artifact>> {
        Ok(vec![Artifact { name: VOCABULARY, text: self.corpus.vocabulary.to_json()? }])
    }

    fn sample_text(&mut self) -> Run<Option<String>> {
        let settings = Sampling::default().temperature(0.8);
        let mut g = SampleCommandGenerator::new(&self.network, self.corpus.vocabulary.clone(), settings, 1)?;
        copy_params(self.trainer.program(), g.program())?;
        let mut out = String::new();
        g.run(&[], SAMPLE_LENGTH, self.seed, &mut |c| {
            out.push(c);
            Ok(())
        })?;
        Ok(Some(out))
    }
}
