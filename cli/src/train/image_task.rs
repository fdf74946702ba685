//! The image task: a convnet, the program that evaluates it, and their data.

use super::ranks::Ranks;
use super::train_task::{self, TrainTask};
use crate::config::{Config, Model};
use crate::data::{LabelledSplit, digits, idx_folder};
use crate::fail::Run;
use crate::ir::onnx_file::onnx_failure;
use crate::measure::Measure;
use crate::model::convnet::{self, IMAGES, LABELS, Sizes};
use crate::model::{LOGITS, LOSS, onnx_net};
use crate::numbers::grouped_number_of;
use crate::stdout_stderr::note_stderr;
use arenagrad::error::Result;
use arenagrad::session::{Handle, Program};
use arenagrad::train::parallel::fingerprint;
use arenagrad::train::{Progress, Trainer, copy_params};

/// Images of one evaluation batch.
const TEST_BATCH: usize = 120;

/// A convnet that is trained on labelled images.
pub struct ImageTask {
    trainer: Trainer,
    split: LabelledSplit,
    images: Handle<f32>,
    labels: Handle<i32>,
    tester: Program,
    test_images: Handle<f32>,
    logits: Handle<f32>,
    test_batch: usize,
    /// Indices and labels of the evaluation batch.
    order: Vec<u32>,
    expected: Vec<i32>,
}

impl ImageTask {
    /// Loads the data and compiles both programs.
    pub fn open(c: &Config, model: &Model, ranks: &Ranks) -> Run<ImageTask> {
        let split = match &c.data {
            Some(dir) => idx_folder::load_idx_folder(dir)?,
            None => digits::load_digits()?,
        };
        let sizes = Sizes { batch: c.batch, image: split.train.size, classes: split.classes };
        // A model may have one size of batches only.
        let test_batch = c.onnx.as_ref().map_or(TEST_BATCH, |_| c.batch).min(split.test.len());
        let tested = Sizes { batch: test_batch, ..sizes };
        let (trainer, graph) = match &c.onnx {
            Some(path) => {
                let import = onnx_net::onnx_net_training(path, sizes)?;
                let notes = if ranks.is_first() { &import.notes[..] } else { &[] };
                notes.iter().for_each(|note| note_stderr(format!("{}: {note}", path.display())));
                let mut trainer = train_task::train_task_trainer(c, ranks, &import.graph, LOSS, split.train.len())?;
                import.load(trainer.program_mut()).map_err(onnx_failure(path))?;
                (trainer, onnx_net::onnx_net_inference(path, tested)?.graph)
            }
            None => {
                let graph = convnet::convnet_training(model, sizes)?;
                let trainer = train_task::train_task_trainer(c, ranks, &graph, LOSS, split.train.len())?;
                (trainer, convnet::convnet_inference(model, tested)?)
            }
        };
        let tester = train_task::train_task_session(c).compile(&graph)?;
        Ok(ImageTask {
            images: trainer.program().input(IMAGES)?,
            labels: trainer.program().input(LABELS)?,
            trainer,
            test_images: tester.input(IMAGES)?,
            logits: tester.output(LOGITS)?,
            tester,
            test_batch,
            order: vec![0; test_batch],
            expected: vec![0; test_batch],
            split,
        })
    }
}

impl TrainTask for ImageTask {
    fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    fn trainer_mut(&mut self) -> &mut Trainer {
        &mut self.trainer
    }

    fn step(&mut self) -> Result<Progress> {
        let (data, images, labels) = (&self.split.train, self.images, self.labels);
        self.trainer.step(&mut |p: &mut Program, which: &[u32]| {
            data.copy_pixels(which, p.get_mut(images)?);
            data.copy_labels(which, p.get_mut(labels)?);
            Ok(())
        })
    }

    fn measure(&self) -> Measure {
        Measure::Accuracy
    }

    /// The fraction of the test images whose largest logit is that of their class.
    fn evaluate(&mut self, _whole: bool) -> Run<f64> {
        copy_params(self.trainer.program(), &mut self.tester)?;
        let (n, classes) = (self.split.test.len(), self.split.classes);
        let mut right = 0;
        for start in (0..n).step_by(self.test_batch) {
            // The last batch is filled up with the last image, which still counts once.
            self.order.iter_mut().zip(start..).for_each(|(o, i)| *o = i.min(n - 1) as u32);
            self.split.test.copy_pixels(&self.order, self.tester.get_mut(self.test_images)?);
            self.split.test.copy_labels(&self.order, &mut self.expected);
            self.tester.step()?;
            let rows = self.tester.get(self.logits)?.chunks_exact(classes).zip(&self.expected);
            right += rows.take(n - start).filter(|(row, label)| image_task_arg_max(row) == **label as usize).count();
        }
        Ok(right as f64 / n as f64)
    }

    fn data_digest(&self) -> u64 {
        let data = &self.split.train;
        let [pixels, labels] = [bytemuck::cast_slice(&data.pixels), bytemuck::cast_slice(&data.labels)];
        fingerprint(pixels) ^ fingerprint(labels).rotate_left(1)
    }

    fn sizes(&self) -> train_task::Sizes {
        let images = |n| grouped_number_of(n, "images");
        train_task::Sizes { trained: images(self.split.train.len()), evaluated: images(self.split.test.len()) }
    }
}

/// The index of the first of the largest elements.
fn image_task_arg_max(row: &[f32]) -> usize {
    row.iter().enumerate().fold(0, |best, (i, x)| if *x > row[best] { i } else { best })
}
