//! The trainer, the program that tests it, and the data of both.
//!
//! Invariant: testing changes nothing that training reads.

use crate::config::Config;
use crate::data::Split;
use crate::fail::Run;
use crate::model::{self, Sizes};
use arenagrad::error::Result;
use arenagrad::passes::optimiser;
use arenagrad::session::{Program, Session, Slot};
use arenagrad::train::{Batches, Progress, Trainer, copy_params};

/// Images that are tested at once.
const TEST_BATCH: usize = 120;

/// See the file's head.
pub struct Rig {
    /// The step program and its cursor.
    pub trainer: Trainer,
    split: Split,
    images: Slot<f32>,
    labels: Slot<i32>,
    tester: Program,
    test_images: Slot<f32>,
    logits: Slot<f32>,
    test_batch: usize,
    order: Vec<u32>,
    seen: Vec<i32>,
}

impl Rig {
    /// Compiles both programs.
    pub fn new(c: &Config, split: Split) -> Run<Rig> {
        // Micro-batches lie one after another: the inputs have one more axis, and the same bytes.
        let batches = Batches::new(split.train.len(), c.batch.saturating_mul(c.optimiser.accumulate), c.seed)?;
        let sizes = Sizes { batch: c.batch, image: split.train.size, classes: split.classes };
        let graph = model::training(&c.model, sizes)?;
        let step = optimiser::train(graph.view(), model::LOSS, &c.optimiser)?;
        let session = Session::new().threads(c.threads);
        let stepper = c.max_memory.map_or_else(|| session.clone(), |m| session.clone().memory_budget(m));
        let program = stepper.compile(&step)?;
        let (images, labels) = (program.input(model::IMAGES)?, program.input(model::LABELS)?);
        let trainer = Trainer::new(program, model::LOSS, c.schedule, batches, c.seed)?;
        let test_batch = TEST_BATCH.min(split.test.len());
        let graph = model::inference(&c.model, Sizes { batch: test_batch, ..sizes })?;
        let tester = session.compile(&graph)?;
        Ok(Rig {
            trainer,
            images,
            labels,
            test_images: tester.input(model::IMAGES)?,
            logits: tester.output_slot(model::LOGITS)?,
            tester,
            test_batch,
            order: vec![0; test_batch],
            seen: vec![0; test_batch],
            split,
        })
    }

    /// One step. Allocates nothing.
    pub fn step(&mut self) -> Result<Progress> {
        let (data, images, labels) = (&self.split.train, self.images, self.labels);
        self.trainer.step(&mut |p: &mut Program, which: &[u32]| {
            data.copy_pixels(which, p.slice_mut(images)?);
            data.copy_labels(which, p.slice_mut(labels)?);
            Ok(())
        })
    }

    /// The part of the test images whose largest logit is at their class.
    pub fn test_accuracy(&mut self) -> Result<f64> {
        copy_params(self.trainer.program(), &mut self.tester)?;
        let (n, classes) = (self.split.test.len(), self.split.classes);
        let mut right = 0;
        for start in (0..n).step_by(self.test_batch) {
            // The last batch is filled up with the last image, which then counts once.
            self.order.iter_mut().zip(start..).for_each(|(o, i)| *o = i.min(n - 1) as u32);
            self.split.test.copy_pixels(&self.order, self.tester.slice_mut(self.test_images)?);
            self.split.test.copy_labels(&self.order, &mut self.seen);
            self.tester.step()?;
            let rows = self.tester.read(self.logits)?.chunks_exact(classes).zip(&self.seen);
            right += rows.take(n - start).filter(|(row, label)| arg_max(row) == **label as usize).count();
        }
        Ok(right as f64 / n as f64)
    }

    /// Sizes of the halves.
    pub fn sizes(&self) -> (usize, usize) {
        (self.split.train.len(), self.split.test.len())
    }
}

fn arg_max(row: &[f32]) -> usize {
    row.iter().enumerate().fold(0, |best, (i, x)| if *x > row[best] { i } else { best })
}
