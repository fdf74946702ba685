//! The convnet that `train` trains: 3×3 convolutions with ReLU, one 2×2 pooling, two linear layers.
//!
//! Invariant: names and layouts are torch's (`conv1.weight` … `fc2.bias`), and the training and the inference graph
//! have the same params. For `train`.

use super::{LOGITS, LOSS};
use crate::config::Model;
use arenagrad::error::Result;
use arenagrad::graph::{Builder, Conv2d, DType, GraphBuf, Pool2d, Var};
use arenagrad::nn;
use arenagrad::tools::ops::loss::var::CrossEntropy;

/// Name of the images, `[batch, 1, height, width]`.
pub const IMAGES: &str = "images";
/// Name of the classes, `[batch]`.
pub const LABELS: &str = "labels";
/// Sizes that the data decides.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Images a step.
    pub batch: usize,
    /// Height and width.
    pub image: [usize; 2],
    /// Number of classes.
    pub classes: usize,
}

fn logits<'g>(g: &'g Builder, m: &Model, s: Sizes, dropout: f64) -> Var<'g> {
    let mut x = g.input(IMAGES, [s.batch, 1, s.image[0], s.image[1]], DType::F32);
    let same = Conv2d { pad: [1; 4], ..Conv2d::default() };
    for (i, &channels) in m.channels.iter().enumerate() {
        x = nn::conv2d(g, &format!("conv{}", i + 1), x, channels, [3, 3], same).relu();
    }
    // An image of one row or column has no window of two.
    if s.image.iter().all(|&n| n >= 2) {
        x = x.max_pool2d(Pool2d::new([2, 2]));
    }
    let x = x.reshape([s.batch, usize::MAX]);
    let mut h = nn::linear(g, "fc1", x, m.hidden).relu();
    if dropout > 0.0 {
        h = h.dropout(dropout);
    }
    nn::linear(g, "fc2", h, s.classes)
}

/// Images and labels to the mean cross entropy.
pub fn training(m: &Model, s: Sizes) -> Result<GraphBuf> {
    let g = Builder::new("convnet");
    let logits = logits(&g, m, s, m.dropout);
    let labels = g.input(LABELS, [s.batch], DType::I32);
    let loss = logits.cross_entropy_with(labels, CrossEntropy::default()).named(LOSS);
    g.finish([loss])
}

/// Images to logits.
pub fn inference(m: &Model, s: Sizes) -> Result<GraphBuf> {
    let g = Builder::new("convnet");
    let logits = logits(&g, m, s, 0.0).named(LOGITS);
    g.finish([logits])
}
