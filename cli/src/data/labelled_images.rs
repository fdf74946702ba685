//! Labelled images.
//!
//! Invariant of [`LabelledImages`]: there are as many labels as images, each label is in `0..classes`, each pixel in
//! [0, 1].

use crate::fail::{Run, fail_bad_input};

/// Images of one channel, and their labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelledImages {
    /// Height and width of an image.
    pub size: [usize; 2],
    /// Pixels, `[n, height, width]`, row-major.
    pub pixels: Vec<f32>,
    /// Class of each image, `[n]`.
    pub labels: Vec<i32>,
}

impl LabelledImages {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Number of pixels of one image.
    pub fn area(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Copies the images `which` to `out`, `[which.len(), height, width]`.
    pub fn copy_pixels(&self, which: &[u32], out: &mut [f32]) {
        let area = self.area();
        for (&i, out) in which.iter().zip(out.chunks_exact_mut(area)) {
            out.copy_from_slice(&self.pixels[i as usize * area..][..area]);
        }
    }

    /// Copies the classes of the images `which` to `out`.
    pub fn copy_labels(&self, which: &[u32], out: &mut [i32]) {
        which.iter().zip(out).for_each(|(&i, label)| *label = self.labels[i as usize]);
    }
}

/// A training set and a test set.
#[derive(Clone, Debug)]
pub struct LabelledSplit {
    /// The images that the optimiser sees.
    pub train: LabelledImages,
    /// The images that it does not see.
    pub test: LabelledImages,
    /// Number of classes.
    pub classes: usize,
}

impl LabelledSplit {
    /// Checks that both sets have images of one size, and counts the classes.
    pub fn new(train: LabelledImages, test: LabelledImages) -> Run<LabelledSplit> {
        if train.size != test.size {
            let ([a, b], [c, d]) = (train.size, test.size);
            return Err(fail_bad_input(format!("training images are {a}x{b}, test images {c}x{d}")));
        }
        if train.len() == 0 || test.len() == 0 || train.area() == 0 {
            return Err(fail_bad_input("the training set, the test set or an image is empty"));
        }
        let top = train.labels.iter().chain(&test.labels).copied().max().unwrap_or(0);
        Ok(LabelledSplit { train, test, classes: top as usize + 1 })
    }
}
