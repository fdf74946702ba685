//! Labelled images and texts: where they come from, and what is checked before anything trains on them.
//!
//! Invariant of a [`Images`]: as many labels as images, each label in `0..classes`, each pixel finite and in [0, 1].
//! For `train`.

pub mod digits;
pub mod idx;
pub mod text;

use crate::fail::{Run, bad};

/// Images with one channel each, and their labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Images {
    /// Height and width.
    pub size: [usize; 2],
    /// Pixels: `[n, height, width]`, row-major.
    pub pixels: Vec<f32>,
    /// Class of each image.
    pub labels: Vec<i32>,
}

impl Images {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Pixels of one image.
    pub fn area(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Writes images `which` one after another.
    pub fn copy_pixels(&self, which: &[u32], out: &mut [f32]) {
        let area = self.area();
        for (&i, out) in which.iter().zip(out.chunks_exact_mut(area)) {
            out.copy_from_slice(&self.pixels[i as usize * area..][..area]);
        }
    }

    /// Writes the classes of images `which`.
    pub fn copy_labels(&self, which: &[u32], out: &mut [i32]) {
        which.iter().zip(out).for_each(|(&i, label)| *label = self.labels[i as usize]);
    }
}

/// What is trained on, and what is tested on.
#[derive(Clone, Debug)]
pub struct Split {
    /// Seen by the optimiser.
    pub train: Images,
    /// Never seen by it.
    pub test: Images,
    /// Number of classes.
    pub classes: usize,
}

impl Split {
    /// Checks that both halves fit together, and counts the classes.
    pub fn new(train: Images, test: Images) -> Run<Split> {
        if train.size != test.size {
            let ([a, b], [c, d]) = (train.size, test.size);
            return Err(bad(format!("training images are {a}x{b}, test images {c}x{d}")));
        }
        if train.len() == 0 || test.len() == 0 || train.area() == 0 {
            return Err(bad("there is no image to train or to test on"));
        }
        let top = train.labels.iter().chain(&test.labels).copied().max().unwrap_or(0);
        Ok(Split { train, test, classes: top as usize + 1 })
    }
}
